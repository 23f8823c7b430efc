//! `WatchService`: all changes of a cell, and the events that people read. Both come from the journal.

mod change;
mod event;
mod feed;
mod index;
mod service;

pub use feed::{FeedItem, feed};
pub use index::EventIndex;
pub use service::WatchServer;
