//! Keyed requests: repeating a request under its id has one effect and gives the recorded result.
//!
//! The closure of a keyed transaction begins with [`request_begin`] and ends with [`request_finish`]; both are part of
//! its one commit. A repetition, by the runner after an unknown result or by the client, finds what was recorded.

mod row;
mod step;
#[cfg(test)]
mod tests;

pub use row::RequestRow;
pub use step::{RequestBegun, request_begin, request_expire, request_finish};
