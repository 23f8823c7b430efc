//! The recurring tasks of a soak, each with its own interval.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Rng;
use borough_kv::{Database, KvResult};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::churn::{ChurnWriter, Trimmer, beat, bulk};

const WRITERS: u32 = 8;
/// Interval of trims of the journal; an entry stays for one to two of these.
const TRIM: Duration = Duration::from_secs(20);
/// Interval of heartbeats of all nodes.
const BEAT: Duration = Duration::from_secs(1);
/// Interval of rounds of bulk rows.
const BULK: Duration = Duration::from_secs(120);
/// Interval of transactions in a bulk round.
const BULK_PAUSE: Duration = Duration::from_millis(200);

/// A recurring task.
pub(super) struct RecurringTask {
    period: Duration,
    kind: RecurringKind,
}

enum RecurringKind {
    Write(ChurnWriter, Arc<dyn Rng>),
    Beat(u64),
    Trim(Trimmer),
    Bulk,
}

/// All of them; the writers together begin or end `rate` jobs a second.
pub(super) fn recurring_tasks(rate: u32, rng: &Arc<dyn Rng>) -> Vec<RecurringTask> {
    let period = Duration::from_secs(1).saturating_mul(WRITERS) / rate.max(1);
    let writers = (0..WRITERS).map(|number| RecurringTask {
        period,
        kind: RecurringKind::Write(ChurnWriter::new(u64::from(number)), Arc::clone(rng)),
    });
    let others = [
        RecurringTask { period: BEAT, kind: RecurringKind::Beat(0) },
        RecurringTask { period: TRIM, kind: RecurringKind::Trim(Trimmer::default()) },
        RecurringTask { period: BULK, kind: RecurringKind::Bulk },
    ];
    writers.chain(others).collect()
}

impl RecurringTask {
    /// Runs at its interval until it is stopped, then returns itself.
    pub(super) async fn run(mut self, database: Database, mut stop: watch::Receiver<bool>) -> KvResult<Self> {
        let mut ticks = interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // On an error the stopper is gone.
                _ = stop.wait_for(|stop| *stop) => return Ok(self),
                _ = ticks.tick() => {}
            }
            self.step(&database).await?;
        }
    }

    async fn step(&mut self, database: &Database) -> KvResult<()> {
        match &mut self.kind {
            RecurringKind::Write(writer, rng) => writer.step(database, rng.as_ref()).await,
            RecurringKind::Beat(round) => {
                *round += 1;
                beat(database, *round).await
            }
            RecurringKind::Trim(trimmer) => trimmer.trim(database).await,
            RecurringKind::Bulk => bulk(database, BULK_PAUSE).await,
        }
    }
}
