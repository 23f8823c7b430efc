//! The rules of every version of a soak, checked at one version.

use std::collections::BTreeMap;

use anyhow::ensure;
use borough_kv::{Database, Idempotency, KvError, RangeRequest, Transaction, Version};
use bytes::Bytes;

use super::rows;

type ImageRows = Vec<(Bytes, Bytes)>;

/// The key after its kind, and the value.
type Row<'a> = (&'a [u8], &'a [u8]);

/// All rows at one version.
pub(super) struct StoreImage {
    pub version: Version,
    pub rows: ImageRows,
}

/// Reads everything at one version.
pub(super) async fn image(database: &Database) -> Result<StoreImage, KvError> {
    let read = |transaction: Transaction, _| async move {
        let version = transaction.read_version().await?;
        let rows = transaction.range_all(RangeRequest::between(vec![], vec![0xff])).await?;
        Ok::<_, KvError>(StoreImage { version, rows })
    };
    database.run("soak_check", Idempotency::ReadOnly, read).await
}

/// Checks every rule: tasks are counted once on their node, in their job and in total; the journal's count is its
/// length.
pub(super) fn image_check(image: &StoreImage) -> anyhow::Result<()> {
    let mut kinds: BTreeMap<&[u8], Vec<Row<'_>>> = BTreeMap::new();
    for (key, value) in &image.rows {
        let slash = key.iter().position(|byte| *byte == b'/').unwrap_or(0);
        let (kind, rest) = key.split_at(slash.saturating_add(1).min(key.len()));
        kinds.entry(kind).or_default().push((rest, value));
    }
    let of = |kind: &[u8]| kinds.get(kind).map_or(&[][..], Vec::as_slice);
    let mut by_job: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut by_node: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, value) in of(b"task/") {
        *by_job.entry(key.get(..8).unwrap_or_default()).or_default() += 1;
        *by_node.entry(rows::number(value)).or_default() += 1;
    }
    let jobs: BTreeMap<&[u8], u64> =
        of(b"job/").iter().map(|(key, value)| (*key, rows::number(value))).collect();
    ensure!(by_job == jobs, "the tasks of the jobs are not those the jobs have");
    let specs: Vec<&[u8]> = of(b"spec/").iter().map(|(key, _)| *key).collect();
    ensure!(specs == jobs.keys().copied().collect::<Vec<_>>(), "the specs are not those of the jobs");
    for (key, value) in of(b"node/") {
        let node = key.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let (counted, there) = (rows::number(value), by_node.remove(&node).unwrap_or(0));
        ensure!(counted == there, "node {node} counts {counted} tasks, {there} are there");
    }
    ensure!(by_node.is_empty(), "tasks on nodes without a count: {by_node:?}");
    let counter = |key: &[u8]| {
        let found = of(b"count/").iter().find(|(rest, _)| [b"count/", *rest].concat() == key);
        found.map_or(0, |(_, value)| rows::number(value))
    };
    let (counted, there) = (counter(rows::TASKS_COUNT), of(b"task/").len());
    ensure!(usize::try_from(counted)? == there, "{counted} tasks are counted, {there} are there");
    let (counted, there) = (counter(rows::JOURNAL_COUNT), of(rows::JOURNAL).len());
    ensure!(usize::try_from(counted)? == there, "{counted} entries are counted, {there} are there");
    Ok(())
}
