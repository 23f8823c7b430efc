//! Random numbers of a seed, one stream for each purpose.

use std::sync::Arc;

use borough_kv::env::{Rng, SeededRng};

/// Random numbers for one purpose of one seed.
pub fn rng_of(seed: u64, purpose: u64) -> Arc<dyn Rng> {
    SeededRng::shared(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose)
}

/// A number below `bound`.
pub fn below(rng: &dyn Rng, bound: u64) -> u64 {
    rng.next_u64() % bound.max(1)
}

/// A random index below this length.
pub fn index(rng: &dyn Rng, length: usize) -> usize {
    usize::try_from(below(rng, u64::try_from(length).unwrap())).unwrap()
}

/// The seeds of a test: the first `count`, or the one of `BOROUGH_SEED`.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("BOROUGH_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..count).collect(),
    }
}
