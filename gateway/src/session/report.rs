//! What agents report, on its way into the store: reports of all nodes that arrive while one commit is under way
//! share the next one.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::request::request_id_random;
use borough_store::task::{ReportAnswer, ReportSource, TaskReport, task_report_apply};
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use tokio::sync::{mpsc, oneshot};

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
    /// Everything the answers rest on is in the journal up to here: the position of what was written or, where nothing
    /// had changed (it may have been written by an attempt before), of the last entry there was.
    pub cursor: Cursor,
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

    async fn batch_try(&self, batch: &[Pending]) -> StoreResult<(Vec<Vec<ReportAnswer>>, Cursor)> {
        let request = request_id_random(&*self.rng);
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
            let last = match changes.deltas().is_empty() {
                true => journal_head(&tx, space).await?,
                false => Cursor::start(changes.store_epoch()),
            };
            changes.append(&tx)?;
            Ok::<_, StoreError>((answers, last))
        });
        let ((answers, last), committed) = applied.await?;
        Ok((answers, committed.stamp.map_or(last, |stamp| Cursor { stamp, ..last })))
    }
}

#[cfg(test)]
mod tests {
    use borough_kv::env::{ManualClock, SeededRng};
    use borough_kv::{EmbeddedEngine, Engine, FaultEngine, FaultPlan};
    use borough_model::RequestId;
    use borough_model::task::{Health, Placement, TaskEvent};
    use borough_model::{Incarnation, JobId, Name, NodeId, Resources, TaskId};
    use borough_store::cell::{CellMeta, cell_create};
    use borough_store::job::job_submit;
    use borough_store::node::node_register;
    use borough_store::task::{ReportPhase, TaskBook};

    use super::*;

    const NODE: NodeId = NodeId(1);
    const TASK: TaskId = TaskId { job: JobId(1), index: 0 };

    /// A cell with a node and a task that is assigned to it.
    async fn cell_with_task(db: &Database, space: &CellSpace) {
        let name = |text: &str| Name::new(text).unwrap();
        let capacity = Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() };
        let facts = borough_model::node::NodeFacts {
            capacity,
            port_first: 20_000,
            port_last: 20_009,
            attributes: std::collections::BTreeMap::new(),
            host: "127.0.0.1".to_owned(),
            boot_id: "boot".to_owned(),
            agent_version: "0".to_owned(),
            cards: Vec::new(),
            domains: Vec::new(),
        };
        let kind = borough_model::job::JobKind::Service;
        let spec = borough_model::JobSpec::defaults(name("ada"), name("web"), kind, vec!["run".to_owned()]);
        let place = TaskEvent::Place(Placement {
            node: NODE,
            incarnation: Incarnation(1),
            ports: Vec::new(),
            resources: spec.task.resources.clone(),
            spec_version: 1,
            unit: None,
        });
        let change = Change { request: RequestId(1), actor: "test".to_owned(), action: "test", at_ms: 1 };
        let (change, facts, spec, place, node) = (&change, &facts, &spec, &place, &name("n1"));
        let made = db.run("test", Idempotency::Natural, |tx, _| async move {
            cell_create(&tx, space, &CellMeta::default(), 1).await?;
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            node_register(&tx, &mut changes, node, facts, NODE).await?;
            job_submit(&tx, &mut changes, spec, TASK.job).await?;
            let mut book = TaskBook::read(&tx, space, [TASK]).await?;
            book.extend_nodes(&tx, space, [NODE]).await?;
            book.apply(TASK, place, 1)?.unwrap();
            book.write(&tx, &mut changes).await?;
            changes.append(&tx)
        });
        made.await.unwrap();
    }

    /// The agent is told what follows from a report only when the mirror has seen it, also where the commit was in doubt
    /// and the attempt that answers found everything written.
    #[tokio::test(start_paused = true)]
    async fn a_report_in_doubt_has_a_position_too() {
        let clock: Arc<dyn Clock> = ManualClock::at(1_000);
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), SeededRng::shared(1)));
        let space = CellSpace::new(Name::new("alpha").unwrap());
        let quiet = Database::new(Arc::clone(&engine));
        cell_with_task(&quiet, &space).await;
        let plan = FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() };
        let doubtful = Database::new(Arc::new(FaultEngine::new(engine, plan, SeededRng::shared(2))));
        let writer = ReportWriter::spawn(doubtful, space.clone(), clock, SeededRng::shared(3));
        let report = TaskReport {
            task: TASK,
            incarnation: Incarnation(1),
            phase: ReportPhase::Accepted,
            process: None,
            cores: Vec::new(),
            health: Health::Unknown,
            exit: None,
        };
        let source = ReportSource { node: NODE, session: 1 };
        let applied = writer.apply(source, vec![report]).await.unwrap();
        let space = &space;
        let head =
            quiet.run("test", Idempotency::ReadOnly, |tx, _| async move { journal_head(&tx, space).await });
        let head = head.await.unwrap();
        assert!(head > Cursor::start(1), "something was written");
        assert_eq!(applied.answers, [ReportAnswer::Applied]);
        assert_eq!(applied.cursor, head);
    }
}
