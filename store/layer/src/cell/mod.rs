//! A cell: its settings, and the gate that every mutating transaction reads.
//!
//! The gate is the cell's fence. Every transaction that changes anything reads it with a conflict, so draining, moving
//! or importing a cell voids what is in flight. `store_epoch` numbers the epoch of the store. An import
//! ([`crate::transfer`]) begins a new one, and with it a new journal.

mod step;
#[cfg(test)]
mod tests;
mod time;

pub use step::{Created, cell_create, cell_gate_set, cell_list, cell_meta_change, cell_meta_read};
pub(crate) use step::{cell_scheduler_rules, failure_domains};
pub use time::{CellClock, OBSERVE_EVERY, StoreOpened};

pub use crate::gate::{GateOpen, GateRead, cell_gate_read};
pub use crate::row::{
    AUDIT_RETENTION_MS, CellGate, CellMeta, CellState, CellTime, DNS_TTL_MS, ENDED_JOBS_MAX,
    JOURNAL_BYTES_MAX, LoadJournal, VIEW_DELAY_MS,
};
