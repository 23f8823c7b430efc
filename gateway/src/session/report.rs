//! What agents report, on its way into the store: reports of all nodes that arrive while one commit is under way
//! share the next one.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_model::RequestId;
use borough_store::journal::{Change, ChangeSet, Cursor};
use borough_store::task::{ReportAnswer, ReportSource, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult};
use tokio::sync::{mpsc, oneshot};

use borough_store::error_chain;

/// Reports of single lives in one transaction at most.
const REPORTS_MAX: usize = 512;
/// Reports that wait for a commit.
const QUEUE_MAX: usize = 1_024;
/// Pause after the store has refused, doubled up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause after the store has refused.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What became of one agent's report.
#[derive(Clone, Debug)]
pub struct Applied {
    /// An answer per life, in the order of the report.
    pub answers: Vec<ReportAnswer>,
    /// The position of what was written; `None` where nothing had changed.
    pub cursor: Option<Cursor>,
}

struct Pending {
    source: ReportSource,
    reports: Vec<TaskReport>,
    applied: oneshot::Sender<Applied>,
}

/// The writer of one cell. Clones feed the same one; it ends with the last.
#[derive(Clone)]
pub struct ReportWriter {
    queue: mpsc::Sender<Pending>,
}

impl ReportWriter {
    /// Starts the writer.
    pub fn spawn(db: Database, space: CellSpace, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(Writer { db, space, clock, rng, receiver }.run());
        Self { queue }
    }

    /// Applies a report; waits as long as the store takes. `None` where this process is ending.
    pub async fn apply(&self, source: ReportSource, reports: Vec<TaskReport>) -> Option<Applied> {
        let (applied, done) = oneshot::channel();
        self.queue.send(Pending { source, reports, applied }).await.ok()?;
        done.await.ok()
    }
}

struct Writer {
    db: Database,
    space: CellSpace,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    receiver: mpsc::Receiver<Pending>,
}

impl Writer {
    async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            let mut count = first.reports.len();
            let mut batch = vec![first];
            while count < REPORTS_MAX {
                let Ok(next) = self.receiver.try_recv() else { break };
                count = count.saturating_add(next.reports.len());
                batch.push(next);
            }
            self.batch_apply(batch).await;
        }
    }

    /// Applies a batch. What the store refuses for reasons of its own is tried again for as long as it takes (reports
    /// are absolute, so trying again does no harm); what is wrong with one report must not hold up the others.
    async fn batch_apply(&self, batch: Vec<Pending>) {
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.batch_try(&batch).await {
                Ok((answers, cursor)) => {
                    for (pending, answers) in batch.into_iter().zip(answers) {
                        // The session may have ended in the meantime.
                        pending.applied.send(Applied { answers, cursor }).ok();
                    }
                    return;
                }
                Err(error) => error,
            };
            tracing::warn!(cell = %self.space, error = %error_chain(&error), "reports wait for the store");
            if !matches!(error, StoreError::Kv(_)) && batch.len() > 1 {
                for pending in batch {
                    Box::pin(self.batch_apply(vec![pending])).await;
                }
                return;
            }
            if batch.iter().all(|pending| pending.applied.is_closed()) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    async fn batch_try(&self, batch: &[Pending]) -> StoreResult<(Vec<Vec<ReportAnswer>>, Option<Cursor>)> {
        let request = RequestId((u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64()));
        let actor = match batch {
            [single] => format!("node/{}", single.source.node),
            _ => "gateway".to_owned(),
        };
        let change = Change { request, actor, action: "task_report", at_ms: self.clock.wall_ms() };
        let (change, space) = (&change, &self.space);
        let applied = self.db.run_committed("task_report", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let mut answers = Vec::with_capacity(batch.len());
            for pending in batch {
                answers.push(task_report_apply(&tx, &mut changes, pending.source, &pending.reports).await?);
            }
            let epoch = changes.store_epoch();
            changes.append(&tx)?;
            Ok::<_, StoreError>((answers, epoch))
        });
        let ((answers, epoch), committed) = applied.await?;
        Ok((answers, committed.stamp.map(|stamp| Cursor { store_epoch: epoch, stamp })))
    }
}
