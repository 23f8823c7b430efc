//! Cells: the doors to them, and the service that shows them.

mod door;
mod journal;
mod keyed;
mod scheduler;
mod service;
mod settings;
#[cfg(test)]
pub(crate) mod tests;

pub use door::{
    Caller, CellConnection, CellDoor, Cells, caller_of_mutation, caller_of_read, cursor_from_message,
    cursor_to_message,
};
pub use journal::JournalSize;
pub use keyed::{Admission, keyed_found, keyed_run};
pub use service::CellRoom;
pub(crate) use service::{scheduler_shards_read, scheduler_unserved};
pub(crate) use settings::{queue_check, settings_read};
