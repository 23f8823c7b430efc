//! Tasks: their rows, and the tokens of constraints that span nodes.

mod row;

pub use row::ConstraintToken;
