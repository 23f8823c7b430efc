//! `WatchService`: all changes of a cell, and the events that people read. Both come from the journal.

mod change;
mod event;
mod feed;
mod selected;
mod service;
#[cfg(test)]
mod tests;

pub(crate) use event::sentences;
pub use feed::{FeedItem, feed};
pub use service::WatchServer;
