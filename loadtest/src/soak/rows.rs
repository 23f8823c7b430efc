//! The rows of a soak: the shapes of a cell's (jobs with a cold spec, tasks, counters per node, a journal at stamped
//! keys with a count beside it), without their meaning, so that the store alone is under test.

use borough_kv::{AtomicOp, KvResult, Transaction, Versionstamp};

/// Nodes that tasks are counted on.
pub const NODES: u64 = 200;

/// `job/<job>`: how many tasks it has, as eight bytes.
pub fn job(job: u64) -> Vec<u8> {
    key(b"job/", &[job])
}

/// `spec/<job>`: a few kilobytes nobody reads.
pub fn spec(job: u64) -> Vec<u8> {
    key(b"spec/", &[job])
}

/// `task/<job>/<index>`: the node it is counted on, and a state.
pub fn task(job: u64, index: u64) -> Vec<u8> {
    key(b"task/", &[job, index])
}

/// `node/<node>`: how many tasks are counted there, and an epoch.
pub fn node(node: u64) -> Vec<u8> {
    key(b"node/", &[node])
}

/// `live/<node>`: a heartbeat.
pub fn live(node: u64) -> Vec<u8> {
    key(b"live/", &[node])
}

/// All tasks, added to without reading.
pub const TASKS_COUNT: &[u8] = b"count/tasks";
/// All entries of the journal, likewise.
pub const JOURNAL_COUNT: &[u8] = b"count/journal";
/// Where the journal's entries are.
pub const JOURNAL: &[u8] = b"journal/";
/// Behind the journal's entries.
pub const JOURNAL_END: &[u8] = b"journal0";
/// Rows that come by the ten thousand and go at once.
pub const BULK: &[u8] = b"bulk/";
/// Behind them.
pub const BULK_END: &[u8] = b"bulk0";

fn key(kind: &[u8], numbers: &[u64]) -> Vec<u8> {
    let mut key = kind.to_vec();
    numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
    key
}

/// The number at the start of a value; 0 where there is none.
pub fn number(value: &[u8]) -> u64 {
    value.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A value that starts with `number` and has `bytes` bytes in all.
pub fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    // Something that differs from row to row, so that no layer below can fold it.
    let mut state = number | 1;
    while value.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(bytes.max(8));
    value
}

/// Appends an entry to the journal.
pub fn journal_append(transaction: &Transaction, entry: &[u8]) -> KvResult<()> {
    let offset = u32::try_from(JOURNAL.len()).unwrap_or(0).to_le_bytes();
    let key = [JOURNAL, &Versionstamp::INCOMPLETE, &offset].concat();
    transaction.atomic(AtomicOp::SetVersionstampedKey, &key, entry)?;
    transaction.atomic(AtomicOp::Add, JOURNAL_COUNT, &1_u64.to_le_bytes())
}

/// Adds to a counter; a negative number takes away.
pub fn count_add(transaction: &Transaction, counter: &[u8], by: i64) -> KvResult<()> {
    transaction.atomic(AtomicOp::Add, counter, &by.to_le_bytes())
}
