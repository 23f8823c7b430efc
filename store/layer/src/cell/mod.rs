//! A cell: its settings, and the gate that every mutating transaction reads.

mod row;

pub use row::{CellGate, CellMeta, CellState};
