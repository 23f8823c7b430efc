//! How many tasks come before a job's.

use std::fmt;

use borough_model::JobId;
use serde::{Deserialize, Serialize};

use crate::backlog::OpenKey;
use crate::snapshot::Snapshot;

/// Tasks that wait as well and are planned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ahead {
    /// Tasks of a higher priority.
    pub higher: u64,
    /// Tasks of the same priority, of other users or queues that take turns with it.
    pub others: u64,
    /// Tasks of the same priority and user or queue, submitted before.
    pub own: u64,
}

/// Counts the tasks before a job in the queues of its scheduler. Unschedulable tasks do not count.
pub(super) fn ahead_of(snapshot: &Snapshot, job: JobId) -> Ahead {
    let scheduler = snapshot.queue_of(job).scheduler;
    let mut ahead = Ahead::default();
    let tables = snapshot.tables();
    let Some((entry, row)) = tables.jobs.get(&job).and_then(|entry| Some((entry, entry.row.as_ref()?)))
    else {
        return ahead;
    };
    let here = OpenKey::of(row, entry.turn.clone().unwrap_or_default());
    let queues = snapshot.backlog().open.all().filter(|(queue, _)| queue.scheduler == scheduler);
    let keys = queues.flat_map(|(_, jobs)| jobs.ordered.iter().map(move |key| (jobs, key)));
    for (jobs, key) in keys.filter(|(_, key)| key.job != job) {
        let tasks = jobs.open_count(tables, key.job);
        let counted = match key.priority.cmp(&here.priority) {
            std::cmp::Ordering::Less => &mut ahead.higher,
            std::cmp::Ordering::Greater => continue,
            std::cmp::Ordering::Equal if key.turn != here.turn => &mut ahead.others,
            std::cmp::Ordering::Equal if *key < here => &mut ahead.own,
            std::cmp::Ordering::Equal => continue,
        };
        *counted = counted.saturating_add(tasks);
    }
    ahead
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("waits for its turn: it is next");
        }
        let mut parts = Vec::new();
        let mut part = |tasks: u64, of: &str| {
            if tasks > 0 {
                parts.push(format!("{tasks} {of}"));
            }
        };
        part(self.higher, "of higher priority");
        part(self.own, "submitted before");
        part(self.others, "of others at its priority, which take turns with it");
        write!(f, "waits for its turn, behind these tasks: {}", parts.join(", "))
    }
}
