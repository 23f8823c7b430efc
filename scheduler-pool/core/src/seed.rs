//! Stable hashing: the randomness of a plan is a function of names and ids, the same on every machine and release.

use borough_model::{JobId, Name};

use crate::queueing::Turn;

/// The seed of a first attempt. A gateway's dry run uses it, so a worker that plans with it does what was shown; a
/// worker whose commit lost to another's may pass a different one to look elsewhere.
pub const PLAN_SEED: u64 = 0x626f_726f_7567_6831;

/// Spreads the bits of a number over all of it (the finalizer of splitmix64).
pub(crate) fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Spreads the bits of a text.
pub(crate) fn bytes_mixed(seed: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    let hash =
        bytes.fold(mixed(seed), |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mixed(hash)
}

/// Where a user, or a queue, stands in the order of one round of turns.
pub(crate) fn turn_chance(round: u64, turn: &Turn) -> u64 {
    let user = turn.user.as_ref().map_or("", Name::as_str);
    bytes_mixed(round ^ (u64::from(turn.queue) << 40), user.bytes())
}

/// The seed of a job's choices. It follows from what its owner calls it and not from its random id, so a dry run of a
/// job that does not exist yet uses the seed that the job will have.
pub(crate) fn job_seed(seed: u64, user: &Name, job: &Name) -> u64 {
    bytes_mixed(seed, user.as_str().bytes().chain(std::iter::once(b'/')).chain(job.as_str().bytes()))
}

/// The shard of `0..shards` that a job belongs to, for workers that divide the jobs among them.
pub fn shard_of(job: JobId, shards: u32) -> u32 {
    let shard = mixed(job.0) % u64::from(shards.max(1));
    u32::try_from(shard).unwrap_or(0)
}
