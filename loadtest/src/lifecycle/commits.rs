//! Counts the commits of a time in the journal that a cell has left, by the names of their transactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use borough_kv::embedded::{EmbeddedEngine, OpenOptions};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::{Database, Idempotency};
use borough_model::{JournalEntry, Name};
use borough_store::journal::{Cursor, journal_floor, journal_head, journal_tail};
use borough_store::{CellSpace, StoreError};
use serde_json::{Map, json};

use crate::result::{Stats, StatsSet as _};
use crate::scheduler::CELL;
use crate::system::System;

/// Entries that one transaction reads.
const PAGE_ENTRIES: usize = 500;

/// The journal entries of a time. Each is a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommitCounts {
    by_action: BTreeMap<String, u64>,
}

/// From and until when entries count: the wall time of this machine, milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommitTime {
    pub from_ms: i64,
    pub until_ms: i64,
}

impl CommitCounts {
    /// Reads the journal of a system whose control process has ended.
    ///
    /// # Errors
    /// The store cannot be read, or its journal begins after `time`.
    pub(super) async fn read(system: &System, time: CommitTime) -> anyhow::Result<Self> {
        let (rng, _) = SeededRng::from_kernel();
        let options = OpenOptions::new(system.store_directory(), SystemClock::shared(), rng);
        let engine = EmbeddedEngine::open(options).context("the control process has left no store")?;
        let counts = Self::of(&Database::new(Arc::new(engine.clone())), time).await;
        engine.close().await;
        counts
    }

    async fn of(db: &Database, time: CommitTime) -> anyhow::Result<Self> {
        let space = &CellSpace::new(Name::new(CELL)?);
        let begin = db.run("loadtest_journal", Idempotency::ReadOnly, |tx, _| async move {
            let floor = journal_floor(&tx, space).await?.map(|floor| floor.trimmed_to);
            let start = Cursor::start(journal_head(&tx, space).await?.store_epoch);
            Ok::<_, StoreError>(floor.unwrap_or(start))
        });
        let (mut after, mut counts, mut first_ms) = (begin.await?, Self::default(), None);
        loop {
            let read = db.run("loadtest_journal", Idempotency::ReadOnly, |tx, _| async move {
                journal_tail(&tx, space, after, PAGE_ENTRIES).await
            });
            let page = read.await?;
            first_ms = first_ms.or_else(|| page.entries.first().map(|(_, entry)| entry.at_ms));
            page.entries.iter().for_each(|(_, entry)| counts.add(entry, time));
            after = page.next;
            if !page.more {
                break;
            }
        }
        let is_whole = first_ms.is_some_and(|first_ms| first_ms <= time.from_ms);
        ensure!(is_whole, "the journal does not reach back to the begin of the measurement");
        Ok(counts)
    }

    fn add(&mut self, entry: &JournalEntry, time: CommitTime) {
        if (time.from_ms..=time.until_ms).contains(&entry.at_ms) {
            *self.by_action.entry(entry.action.clone()).or_default() += 1;
        }
    }

    /// Adds the number of commits, those per task, and those of each transaction.
    pub(super) fn stats(&self, tasks: u32, stats: &mut Stats) {
        let all: u64 = self.by_action.values().sum();
        let per_task = all as f64 / f64::from(tasks.max(1));
        stats.set("commits", json!(all));
        stats.set("commits_per_task", json!((per_task * 1_000.0).round() / 1_000.0));
        let by_action: Map<_, _> =
            self.by_action.iter().map(|(action, count)| (action.clone(), json!(count))).collect();
        stats.set("commits_by_action", json!(by_action));
    }
}

#[cfg(test)]
mod tests {
    use borough_model::RequestId;

    use super::*;

    fn entry(action: &str, at_ms: i64) -> JournalEntry {
        JournalEntry {
            request: RequestId(1),
            actor: "test".to_owned(),
            action: action.to_owned(),
            at_ms,
            deltas: Vec::new(),
            values: None,
            calls: None,
        }
    }

    #[test]
    fn commits_of_the_time_count_by_their_transactions() {
        let mut counts = CommitCounts::default();
        let time = CommitTime { from_ms: 10, until_ms: 20 };
        for (action, at_ms) in [("a", 9), ("a", 10), ("b", 15), ("a", 20), ("b", 21)] {
            counts.add(&entry(action, at_ms), time);
        }
        let mut stats = Stats::new();
        counts.stats(2, &mut stats);
        assert_eq!(
            json!(stats),
            json!({"commits": 3, "commits_per_task": 1.5, "commits_by_action": {"a": 2, "b": 1}})
        );
    }
}
