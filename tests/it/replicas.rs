//! Several proxy processes that serve one client and share a real redis-server.

mod alone;
mod fleet;
mod lessons;
mod once;
mod orders;
mod secured;
mod unreadable;
