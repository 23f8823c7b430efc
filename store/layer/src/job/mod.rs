//! Jobs: name, spec versions, the row, and the gate that placements guard on.

mod row;

pub use row::JobGate;
