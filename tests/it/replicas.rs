//! Several proxy processes that serve one client and share a real redis-server.

mod alone;
mod fleet;
mod learned_windows;
mod once;
mod orders;
mod secured;
mod unreadable;
