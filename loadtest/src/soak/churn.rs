//! The writers of a soak: jobs come and go with their tasks, nodes send heartbeats, the journal grows and is trimmed.

use std::collections::VecDeque;
use std::time::Duration;

use borough_kv::env::{Rng, SeededRng};
use borough_kv::{Database, Idempotency, KvError, KvResult, RangeRequest, Transaction, Versionstamp};

use super::rows;

/// Roughly the jobs that a writer keeps.
const JOBS: usize = 100;
/// Most tasks of a job.
const TASKS_MAX: u64 = 16;
/// Rows of one bulk transaction, and how many such transactions come before all are cleared at once.
const BULK_ROWS: u64 = 500;
const BULK_PARTS: u64 = 40;

/// One writer with its own jobs.
pub(super) struct ChurnWriter {
    number: u64,
    next: u64,
    jobs: VecDeque<u64>,
}

impl ChurnWriter {
    /// A writer whose jobs nobody else touches.
    pub(super) fn new(number: u64) -> Self {
        Self { number, next: 0, jobs: VecDeque::new() }
    }

    /// One step: a job comes or goes, about equally often once there are enough.
    pub(super) async fn step(&mut self, database: &Database, rng: &dyn Rng) -> KvResult<()> {
        let fills = self.jobs.len() < JOBS / 2;
        let full = self.jobs.len() > JOBS * 3 / 2;
        if fills || (!full && rng.next_u64().is_multiple_of(2)) {
            self.next += 1;
            let job = self.number << 40 | self.next;
            job_begin(database, job, rng.next_u64()).await?;
            self.jobs.push_back(job);
        } else {
            // Not always the oldest: some stay for long.
            let at = usize::try_from(rng.next_u64() % 16).unwrap_or(0).min(self.jobs.len().saturating_sub(1));
            if let Some(job) = self.jobs.remove(at) {
                job_end(database, job).await?;
            }
        }
        Ok(())
    }
}

async fn job_begin(database: &Database, job: u64, seed: u64) -> KvResult<()> {
    let begin = |transaction: Transaction, _| async move {
        if transaction.get(&rows::job(job)).await?.is_some() {
            return Ok(());
        }
        let draws = SeededRng::shared(seed);
        let tasks = 1 + draws.next_u64() % TASKS_MAX;
        transaction.set(&rows::job(job), &rows::value(tasks, 150))?;
        let spec_bytes = usize::try_from(draws.next_u64() % 8000).unwrap_or(0);
        transaction.set(&rows::spec(job), &rows::value(job, spec_bytes))?;
        for index in 0..tasks {
            let node = draws.next_u64() % rows::NODES;
            transaction.set(&rows::task(job, index), &rows::value(node, 300))?;
            node_add(&transaction, node, 1).await?;
        }
        rows::count_add(&transaction, rows::TASKS_COUNT, i64::try_from(tasks).unwrap_or(0))?;
        rows::journal_append(&transaction, &rows::value(job, 400))
    };
    database.run("soak_begin", Idempotency::Natural, begin).await
}

async fn job_end(database: &Database, job: u64) -> KvResult<()> {
    let end = |transaction: Transaction, _| async move {
        if transaction.get(&rows::job(job)).await?.is_none() {
            return Ok(());
        }
        let (first, last) = (rows::task(job, 0), rows::task(job, u64::MAX));
        let tasks = transaction.range_all(RangeRequest::between(first.clone(), last.clone())).await?;
        for (_, task) in &tasks {
            node_add(&transaction, rows::number(task), -1).await?;
        }
        transaction.clear_range(&first, &last)?;
        transaction.clear(&rows::job(job))?;
        transaction.clear(&rows::spec(job))?;
        let gone = i64::try_from(tasks.len()).unwrap_or(0);
        rows::count_add(&transaction, rows::TASKS_COUNT, -gone)?;
        rows::journal_append(&transaction, &rows::value(job, 400))
    };
    database.run("soak_end", Idempotency::Natural, end).await
}

/// Reads and writes a node's count, as a placement does: two at once conflict.
async fn node_add(transaction: &Transaction, node: u64, by: i64) -> KvResult<()> {
    let key = rows::node(node);
    let count = transaction.get(&key).await?.map_or(0, |value| rows::number(&value));
    transaction.set(&key, &rows::value(count.saturating_add_signed(by), 200))
}

/// Every node's heartbeat, in one blind write.
pub(super) async fn beat(database: &Database, round: u64) -> KvResult<()> {
    let beat = |transaction: Transaction, _| async move {
        (0..rows::NODES).try_for_each(|node| transaction.set(&rows::live(node), &rows::value(round, 100)))
    };
    database.run("soak_beat", Idempotency::Natural, beat).await
}

/// Removes the entries that the journal had at the previous call.
#[derive(Default)]
pub(super) struct Trimmer {
    up_to: Option<Versionstamp>,
}

impl Trimmer {
    /// Trims up to the previous call's newest entry, and records the present newest one.
    pub(super) async fn trim(&mut self, database: &Database) -> KvResult<()> {
        let newest = |transaction: Transaction, _| async move {
            let last = RangeRequest { reverse: true, limit: 1, ..journal_request() };
            let rows = transaction.range_all(last).await?;
            Ok::<_, KvError>(rows.first().and_then(|(key, _)| Versionstamp::from_slice(key.get(8..)?)))
        };
        let newest = database.run("soak_newest", Idempotency::ReadOnly, newest).await?;
        if let Some(up_to) = std::mem::replace(&mut self.up_to, newest) {
            let end = [rows::JOURNAL, &up_to.0].concat();
            let trim = |transaction: Transaction, _| {
                let end = end.clone();
                async move {
                    let gone =
                        transaction.range_all(RangeRequest::between(rows::JOURNAL, end.clone())).await?;
                    transaction.clear_range(rows::JOURNAL, &end)?;
                    let gone = i64::try_from(gone.len()).unwrap_or(0);
                    rows::count_add(&transaction, rows::JOURNAL_COUNT, -gone)
                }
            };
            database.run::<_, KvError, _, _>("soak_trim", Idempotency::Natural, trim).await?;
        }
        Ok(())
    }
}

/// The whole journal.
pub(super) fn journal_request() -> RangeRequest {
    RangeRequest::between(rows::JOURNAL, rows::JOURNAL_END)
}

/// Many rows in many transactions, then one clear of them all.
pub(super) async fn bulk(database: &Database, pause: Duration) -> KvResult<()> {
    for part in 0..BULK_PARTS {
        let fill = |transaction: Transaction, _| async move {
            for row in 0..BULK_ROWS {
                let key = [rows::BULK, &(part * BULK_ROWS + row).to_be_bytes()].concat();
                transaction.set(&key, &rows::value(row, 300))?;
            }
            Ok::<_, KvError>(())
        };
        database.run("soak_bulk", Idempotency::Natural, fill).await?;
        tokio::time::sleep(pause).await;
    }
    let clear =
        |transaction: Transaction, _| async move { transaction.clear_range(rows::BULK, rows::BULK_END) };
    database.run("soak_bulk_clear", Idempotency::Natural, clear).await
}
