//! Stable hashing. The randomness of a plan is a function of names and ids, the same on every machine and in every
//! release.

use borough_model::{JobId, Name};

use crate::queueing::Turn;

/// The seed of a worker's first plan and of every dry run, so the dry run shows what that plan would do. After lost
/// commits a worker passes another seed to look at other nodes.
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

/// The position of a user, or of a queue, in one round of turns.
pub(crate) fn turn_chance(round: u64, turn: &Turn) -> u64 {
    let user = turn.user.as_ref().map_or("", Name::as_str);
    bytes_mixed(round ^ (u64::from(turn.queue) << 40), user.bytes())
}

/// The seed of a job's choices. It depends on the job's user and name and not on its random id. So a dry run of a new
/// job uses the seed that the job will have.
pub(crate) fn job_seed(seed: u64, user: &Name, job: &Name) -> u64 {
    bytes_mixed(seed, user.as_str().bytes().chain(std::iter::once(b'/')).chain(job.as_str().bytes()))
}

/// The shard of a job, in `0..shards`. Workers divide the jobs by it.
pub fn shard_of(job: JobId, shards: u32) -> u32 {
    let shard = mixed(job.0) % u64::from(shards.max(1));
    u32::try_from(shard).unwrap_or(0)
}
