//! Tasks: their rows, and the tokens of constraints that span nodes.

mod book;
mod row;
mod write;

pub use book::{TaskBook, is_on_node};
pub use row::ConstraintToken;
