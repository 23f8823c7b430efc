//! The rows of a soak, so that only the store is under test. They have the shapes of a cell's rows without their
//! meaning: jobs with a cold spec, tasks, counters per node, and a journal at stamped keys with a count.

use borough_kv::{AtomicOp, KvResult, Transaction, Versionstamp};

/// Nodes whose tasks are counted.
pub(super) const NODES: u64 = 200;

/// `job/<job>`: its number of tasks, as eight bytes.
pub(super) fn job(job: u64) -> Vec<u8> {
    key(b"job/", &[job])
}

/// `spec/<job>`: a few kilobytes that nobody reads.
pub(super) fn spec(job: u64) -> Vec<u8> {
    key(b"spec/", &[job])
}

/// `task/<job>/<index>`: the node that counts it, and a state.
pub(super) fn task(job: u64, index: u64) -> Vec<u8> {
    key(b"task/", &[job, index])
}

/// `node/<node>`: its count of tasks, and an epoch.
pub(super) fn node(node: u64) -> Vec<u8> {
    key(b"node/", &[node])
}

/// `live/<node>`: a heartbeat.
pub(super) fn live(node: u64) -> Vec<u8> {
    key(b"live/", &[node])
}

/// The count of all tasks, changed without reading.
pub(super) const TASKS_COUNT: &[u8] = b"count/tasks";
/// The count of all entries of the journal, likewise.
pub(super) const JOURNAL_COUNT: &[u8] = b"count/journal";
/// The prefix of the journal's entries.
pub(super) const JOURNAL: &[u8] = b"journal/";
/// The end of the journal's entries.
pub(super) const JOURNAL_END: &[u8] = b"journal0";
/// The prefix of rows that come by the ten thousand and are cleared at once.
pub(super) const BULK: &[u8] = b"bulk/";
/// The end of those rows.
pub(super) const BULK_END: &[u8] = b"bulk0";

fn key(kind: &[u8], numbers: &[u64]) -> Vec<u8> {
    let mut key = kind.to_vec();
    numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
    key
}

/// The number at the start of a value; 0 without one.
pub(super) fn number(value: &[u8]) -> u64 {
    value.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A value that starts with `number` and has `bytes` bytes in all.
pub(super) fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    // Content that differs from row to row, so that no layer below can fold it.
    let mut state = number | 1;
    while value.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(bytes.max(8));
    value
}

/// Appends an entry to the journal.
pub(super) fn journal_append(transaction: &Transaction, entry: &[u8]) -> KvResult<()> {
    let offset = u32::try_from(JOURNAL.len()).unwrap_or(0).to_le_bytes();
    let key = [JOURNAL, &Versionstamp::INCOMPLETE, &offset].concat();
    transaction.atomic(AtomicOp::SetVersionstampedKey, &key, entry)?;
    transaction.atomic(AtomicOp::Add, JOURNAL_COUNT, &1_u64.to_le_bytes())
}

/// Adds to a counter; a negative number takes away.
pub(super) fn count_add(transaction: &Transaction, counter: &[u8], by: i64) -> KvResult<()> {
    transaction.atomic(AtomicOp::Add, counter, &by.to_le_bytes())
}
