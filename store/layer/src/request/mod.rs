//! Keyed requests: repeating a request under its id has one effect and returns the recorded result.
//!
//! The closure of a keyed transaction begins with [`request_begin`] and ends with [`request_finish`] or
//! [`requests_finish`]; all are part of its one commit. A repetition, by the runner after an unknown result or by the
//! client, finds the record.

mod step;
#[cfg(test)]
mod tests;

use borough_kv::env::Rng;
use borough_model::RequestId;
pub use step::{
    RequestBegun, RequestDone, request_begin, request_expire, request_finish, request_oldest, requests_finish,
};

pub use crate::row::{RequestExpiry, RequestRow};

/// A random id for a program's own transactions: made outside the closure, so it is the same for every try.
pub fn request_id_random(rng: &dyn Rng) -> RequestId {
    RequestId((u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))
}
