//! Several processes behind one client that share a real redis-server.

mod alone;
mod fleet;
mod lessons;
mod once;
mod orders;
mod secured;
mod unreadable;
