//! Keyed requests: repeating a request under its id has one effect and gives the recorded result.

mod row;

pub use row::RequestRow;
