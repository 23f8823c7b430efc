//! Writes what agents report. The reports of all nodes that arrive during one commit share the next one, and each
//! passes the fence of its session.
//!
//! If one report makes the transaction fail, the writer halves the batch until it has found that report. It counts and
//! logs the report and answers its session, and the others commit. What the store does not take is tried again in
//! smaller parts. A transaction that is too long, or always in conflict, fails each time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Idempotency, TransactionOption};
use borough_model::task::Exit;
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::node::{SessionFence, node_writers};
use borough_store::request::request_id_random;
use borough_store::task::{ReportAnswer, TaskReport, task_report_apply};
use borough_store::{StoreError, StoreResult, error_chain};
use tokio::sync::{mpsc, oneshot};

use super::registration::WriterContext;
use super::write::{NotWritten, WriteFault, fault_of};

/// Most reports of single attempts in one transaction, of one agent or of several.
const REPORTS_MAX: usize = 256;
/// Most bytes of agents' data in one transaction. The store takes 10 MB. A row is written twice, with its previous
/// content, its endpoint, and what is committed on its node.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// Roughly the bytes of a report without its lists and texts.
const REPORT_BYTES: usize = 256;
/// Reports that wait for a commit.
const QUEUE_MAX: usize = 1_024;
/// How often the store may refuse several reports together before the batch is halved.
const RETRIES_TOGETHER: i64 = 3;
/// Pause after a refusal of the store. It doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause after the store has refused.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The result of one agent's report.
#[derive(Clone, Debug)]
pub struct ReportOutcome {
    /// An answer per attempt, in the order of the report.
    pub answers: Vec<ReportAnswer>,
    /// The journal contains everything behind the answers up to here. It is the position of the write. If nothing had
    /// changed (an earlier try may have written it), it is the position of the last entry.
    pub cursor: Cursor,
}

struct Pending {
    fence: SessionFence,
    reports: Vec<TaskReport>,
    applied: oneshot::Sender<Result<ReportOutcome, Unapplied>>,
}

/// Why a part of a report was not applied.
enum Unapplied {
    /// It will not be applied.
    NotWritten(NotWritten),
    /// The store does not take so many at once: try them in smaller parts.
    TooMany(Vec<TaskReport>),
}

impl Pending {
    /// Returns the reports, to be sent again a few at a time. The session may have ended in the meantime.
    fn in_parts(self) {
        self.applied.send(Err(Unapplied::TooMany(self.reports))).ok();
    }

    fn bytes(&self) -> usize {
        self.reports.iter().map(report_bytes).fold(0, usize::saturating_add)
    }
}

/// Roughly the bytes of a report that are stored.
fn report_bytes(report: &TaskReport) -> usize {
    let text = |exit: &Exit| exit.message.len();
    let cores = report.cores.len().saturating_mul(size_of::<u32>());
    REPORT_BYTES.saturating_add(cores).saturating_add(report.exit.as_ref().map_or(0, text))
}

/// The writer of one cell. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct ReportWriter {
    queue: mpsc::Sender<Pending>,
}

impl ReportWriter {
    /// Starts the writer.
    pub fn spawn(context: WriterContext) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(ReportBatches { context, receiver }.run());
        Self { queue }
    }

    /// Applies a report, in as many transactions as needed. Waits as long as the store does. `None` if this process is
    /// ending.
    pub async fn apply(
        &self,
        fence: SessionFence,
        mut reports: Vec<TaskReport>,
    ) -> Option<Result<ReportOutcome, NotWritten>> {
        let mut whole: Option<ReportOutcome> = None;
        let mut together = REPORTS_MAX;
        loop {
            let mut rest = reports.split_off(part_len(&reports, together));
            let (applied, done) = oneshot::channel();
            self.queue.send(Pending { fence, reports, applied }).await.ok()?;
            let part = match done.await.ok()? {
                Ok(part) => part,
                Err(Unapplied::NotWritten(not_written)) => return Some(Err(not_written)),
                Err(Unapplied::TooMany(mut again)) => {
                    together = again.len().div_ceil(2);
                    again.append(&mut rest);
                    reports = again;
                    continue;
                }
            };
            let mut answers = whole.take().map_or_else(Vec::new, |whole| whole.answers);
            answers.extend(part.answers);
            whole = Some(ReportOutcome { answers, cursor: part.cursor });
            reports = rest;
            if reports.is_empty() {
                return whole.map(Ok);
            }
        }
    }
}

/// How many of `reports`, from the first, go into one transaction: at most `together`, and at least one if there is
/// one.
fn part_len(reports: &[TaskReport], together: usize) -> usize {
    let mut bytes = 0_usize;
    let fits = |report: &&TaskReport| {
        bytes = bytes.saturating_add(report_bytes(report));
        bytes <= BATCH_BYTES_MAX
    };
    reports.iter().take(together).take_while(fits).count().max(1).min(reports.len())
}

struct ReportBatches {
    context: WriterContext,
    receiver: mpsc::Receiver<Pending>,
}

impl ReportBatches {
    async fn run(mut self) {
        let mut next = self.receiver.recv().await;
        while let Some(first) = next.take() {
            let (mut count, mut bytes) = (first.reports.len(), first.bytes());
            let mut batch = vec![first];
            while let Ok(more) = self.receiver.try_recv() {
                count = count.saturating_add(more.reports.len());
                bytes = bytes.saturating_add(more.bytes());
                if count > REPORTS_MAX || bytes > BATCH_BYTES_MAX {
                    next = Some(more);
                    break;
                }
                batch.push(more);
            }
            self.batch_apply(batch).await;
            if next.is_none() {
                next = self.receiver.recv().await;
            }
        }
    }

    /// Applies a batch. If the store fails for reasons of its own, the batch is halved and tried again without limit.
    /// Reports are absolute, so a retry does no harm. A bad report must not delay the others.
    async fn batch_apply(&self, mut batch: Vec<Pending>) {
        let mut pause = PAUSE_MIN;
        while !batch.is_empty() {
            let error = match self.batch_try(&batch).await {
                Ok(answers) => {
                    self.answer(batch, answers);
                    return;
                }
                Err(error) => Arc::new(error),
            };
            // A failure of several reports blames none of them, even if the sessions of all others have ended: those
            // want no answer.
            let alone = batch.len() == 1;
            batch.retain(|pending| !pending.applied.is_closed());
            let fault = fault_of(&error);
            if fault != WriteFault::Item {
                tracing::warn!(cell = %self.context.space, error = %error_chain(&*error), "reports wait for the store");
            }
            if fault != WriteFault::Store && !alone {
                let rest = batch.split_off(batch.len() / 2);
                Box::pin(self.batch_apply(batch)).await;
                Box::pin(self.batch_apply(rest)).await;
                return;
            }
            match (fault, batch.pop()) {
                (WriteFault::Item, Some(single)) => return self.set_aside(single, &error),
                (WriteFault::Batch, Some(single)) if single.reports.len() > 1 => return single.in_parts(),
                (_, last) => batch.extend(last),
            }
            // The same pause if the store keeps refusing a single report.
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn answer(&self, batch: Vec<Pending>, (answers, cursor): (Vec<Option<Vec<ReportAnswer>>>, Cursor)) {
        for (pending, answers) in batch.into_iter().zip(answers) {
            if answers.is_none() {
                self.context.metrics.superseded("report");
            }
            let applied = answers.map(|answers| ReportOutcome { answers, cursor });
            // The session may have ended in the meantime.
            let applied = applied.ok_or(Unapplied::NotWritten(NotWritten::Superseded));
            pending.applied.send(applied).ok();
        }
    }

    /// Sets aside a report that the transaction refuses alone. A retry cannot help, so its session ends.
    fn set_aside(&self, Pending { fence, applied, .. }: Pending, error: &Arc<StoreError>) {
        self.context.metrics.refused("report");
        tracing::error!(
            cell = %self.context.space,
            node = %fence.node,
            session = fence.session,
            error = %error_chain(&**error),
            "the store refused a report; the session ends"
        );
        applied.send(Err(Unapplied::NotWritten(NotWritten::Refused(Arc::clone(error))))).ok();
    }

    /// Answers per report, `None` if its session is not in force. Also returns a position at or after the write.
    async fn batch_try(&self, batch: &[Pending]) -> StoreResult<(Vec<Option<Vec<ReportAnswer>>>, Cursor)> {
        let WriterContext { db, space, clock, rng, .. } = &self.context;
        let actor = match batch {
            [single] => format!("node/{}", single.fence.node),
            _ => "gateway".to_owned(),
        };
        let request = request_id_random(&**rng);
        let change = &Change { request, actor, action: "task_report", at_ms: clock.wall_ms() };
        let several = batch.iter().map(|pending| pending.reports.len()).sum::<usize>() > 1;
        let applied = db.run_committed("task_report", Idempotency::Natural, |tx, _| async move {
            if several {
                tx.set_option(TransactionOption::RetryLimit(RETRIES_TOGETHER))?;
            }
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let fences: BTreeSet<SessionFence> = batch.iter().map(|pending| pending.fence).collect();
            let writers = node_writers(&tx, space, fences).await?;
            let mut answers = Vec::with_capacity(batch.len());
            for pending in batch {
                answers.push(match writers.get(&pending.fence) {
                    Some(writer) => Some(task_report_apply(writer, &mut changes, &pending.reports).await?),
                    None => None,
                });
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
    use borough_kv::env::{Clock, ManualClock, SeededRng};
    use borough_kv::{Database, EmbeddedEngine, Engine, FaultEngine, FaultPlan};
    use borough_model::RequestId;
    use borough_model::task::{Health, Placement, TaskEvent};
    use borough_model::{Incarnation, JobId, Name, NodeId, Resources, TaskId};
    use borough_store::CellSpace;
    use borough_store::cell::{CellMeta, cell_create};
    use borough_store::job::job_submit;
    use borough_store::keys::{Key as _, TaskKey};
    use borough_store::node::{NodeRegistration, node_register};
    use borough_store::task::{ReportPhase, TaskBook};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::session::write::SessionMetrics;

    const NODE: NodeId = NodeId(1);
    const TASK: TaskId = TaskId { job: JobId(1), index: 0 };
    const OTHER_NODE: NodeId = NodeId(2);
    const OTHER_TASK: TaskId = TaskId { job: JobId(1), index: 1 };

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn registration(node: NodeId, session: u64) -> NodeRegistration {
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
        NodeRegistration::new(name(&format!("n{}", node.0)), facts, node, session)
    }

    fn change() -> Change {
        Change { request: RequestId(1), actor: "test".to_owned(), action: "test", at_ms: 1 }
    }

    /// A store with a cell of two nodes, each with an assigned task and a session with the node's number. Also returns
    /// what a writer needs.
    async fn cell_with_tasks() -> (Arc<dyn Engine>, WriterContext) {
        let clock: Arc<dyn Clock> = ManualClock::at(1_000);
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::ephemeral(Arc::clone(&clock), SeededRng::shared(1)));
        let space = CellSpace::new(name("alpha"));
        let db = Database::new(Arc::clone(&engine));
        let kind = borough_model::job::JobKind::Service;
        let mut spec =
            borough_model::JobSpec::defaults(name("ada"), name("web"), kind, vec!["run".to_owned()]);
        spec.count = 2;
        let place = |node| {
            TaskEvent::Place(Placement {
                node,
                incarnation: Incarnation(1),
                ports: Vec::new(),
                resources: spec.task.resources.clone(),
                spec_version: 1,
                gang: None,
            })
        };
        let (change, spec, place) = (&change(), &spec, &place);
        let made = db.run("test", Idempotency::Natural, |tx, _| {
            let space = &space;
            async move {
                cell_create(&tx, space, &CellMeta::default(), 1).await?;
                let mut changes = ChangeSet::begin(&tx, space, change).await?;
                job_submit(&tx, &mut changes, spec, TASK.job).await?;
                let mut book = TaskBook::read(&tx, space, [TASK, OTHER_TASK]).await?;
                for (node, task) in [(NODE, TASK), (OTHER_NODE, OTHER_TASK)] {
                    node_register(&tx, &mut changes, &registration(node, node.0)).await?;
                    book.extend_nodes(&tx, space, [node]).await?;
                    book.apply(task, &place(node), 1)?.unwrap();
                }
                book.write(&tx, &mut changes).await?;
                changes.append(&tx)
            }
        });
        made.await.unwrap();
        let metrics = SessionMetrics::default();
        (engine, WriterContext { db, space, clock, rng: SeededRng::shared(3), metrics })
    }

    fn accepted(task: TaskId) -> TaskReport {
        TaskReport {
            task,
            incarnation: Incarnation(1),
            phase: ReportPhase::Accepted,
            process: None,
            cores: Vec::new(),
            health: Health::Unknown,
            exit: None,
        }
    }

    fn fence(node: NodeId) -> SessionFence {
        SessionFence { node, session: node.0 }
    }

    fn counted(metrics: &SessionMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    /// The gateway sends commands after a report only when the mirror has its position. A report needs one even if its
    /// commit was in doubt and the try that answers found everything written.
    #[tokio::test(start_paused = true)]
    async fn a_report_in_doubt_has_a_position_too() {
        let (engine, context) = cell_with_tasks().await;
        let (quiet, space) = (context.db.clone(), context.space.clone());
        let plan = FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() };
        let doubtful = Database::new(Arc::new(FaultEngine::new(engine, plan, SeededRng::shared(2))));
        let writer = ReportWriter::spawn(WriterContext { db: doubtful, ..context });
        let applied = writer.apply(fence(NODE), vec![accepted(TASK)]).await.unwrap().unwrap();
        let space = &space;
        let head =
            quiet.run("test", Idempotency::ReadOnly, |tx, _| async move { journal_head(&tx, space).await });
        let head = head.await.unwrap();
        assert!(head > Cursor::start(1), "something was written");
        assert_eq!(applied.answers, [ReportAnswer::Applied]);
        assert_eq!(applied.cursor, head);
    }

    /// A report that the transaction refuses is set aside: it is answered and counted, and the reports behind it
    /// commit.
    #[tokio::test(start_paused = true)]
    async fn a_refused_report_delays_no_other() {
        let (_, context) = cell_with_tasks().await;
        let key = TaskKey::of(TASK).encode(&context.space);
        let damage = context.db.run("test", Idempotency::Natural, |tx, _| {
            let key = &key;
            async move { Ok::<_, StoreError>(tx.set(key, b"damaged")?) }
        });
        damage.await.unwrap();
        let metrics = context.metrics.clone();
        let writer = ReportWriter::spawn(context);
        let (poisoned, other) = tokio::join!(
            writer.apply(fence(NODE), vec![accepted(TASK)]),
            writer.apply(fence(OTHER_NODE), vec![accepted(OTHER_TASK)])
        );
        assert!(matches!(poisoned, Some(Err(NotWritten::Refused(_)))), "{poisoned:?}");
        assert_eq!(other.unwrap().unwrap().answers, [ReportAnswer::Applied]);
        let text = counted(&metrics);
        assert!(text.contains("borough_gateway_session_refused_total{what=\"report\"} 1"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_was_followed_is_answered_so() {
        let (_, context) = cell_with_tasks().await;
        let (db, space) = (context.db.clone(), context.space.clone());
        let writer = ReportWriter::spawn(context);
        let (again, change) = (&registration(NODE, 9), &change());
        let space = &space;
        let register = db.run("test", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            node_register(&tx, &mut changes, again).await?;
            changes.append(&tx)
        });
        register.await.unwrap();
        let (old, other) = tokio::join!(
            writer.apply(fence(NODE), vec![accepted(TASK)]),
            writer.apply(fence(OTHER_NODE), vec![accepted(OTHER_TASK)])
        );
        assert!(matches!(old, Some(Err(NotWritten::Superseded))), "{old:?}");
        assert_eq!(other.unwrap().unwrap().answers, [ReportAnswer::Applied]);
    }

    /// A report of any length is written in parts that fit a transaction.
    #[tokio::test(start_paused = true)]
    async fn a_long_report_is_written_in_parts() {
        let (_, context) = cell_with_tasks().await;
        let writer = ReportWriter::spawn(context);
        let unknown = |index| accepted(TaskId { job: JobId(7), index });
        let many: Vec<TaskReport> = (0..1_000).map(unknown).chain([accepted(TASK)]).collect();
        let answers = writer.apply(fence(NODE), many).await.unwrap().unwrap().answers;
        assert_eq!(answers.len(), 1_001);
        assert_eq!(answers.last(), Some(&ReportAnswer::Applied));
        let wide = TaskReport { cores: vec![1; BATCH_BYTES_MAX], ..accepted(TASK) };
        assert_eq!(part_len(&[wide.clone(), wide], REPORTS_MAX), 1, "one at least");
        assert_eq!(part_len(&[], REPORTS_MAX), 0);
    }

    /// The writer splits reports that the store never takes together, instead of retrying the whole batch.
    #[tokio::test(start_paused = true)]
    async fn reports_that_the_store_never_takes_together_are_written_in_parts() {
        let (engine, context) = cell_with_tasks().await;
        let plan = FaultPlan { read_fails: 0.2, ..FaultPlan::none() };
        let failing = Database::new(Arc::new(FaultEngine::new(engine, plan, SeededRng::shared(5))));
        let writer = ReportWriter::spawn(WriterContext { db: failing, ..context });
        let unknown = |index| accepted(TaskId { job: JobId(7), index });
        let many: Vec<TaskReport> = (0..200).map(unknown).chain([accepted(TASK)]).collect();
        let both = async {
            tokio::join!(
                writer.apply(fence(NODE), many),
                writer.apply(fence(OTHER_NODE), vec![accepted(OTHER_TASK)])
            )
        };
        // All 201 rows are read in one transaction once in 10^19 tries.
        let both = tokio::time::timeout(Duration::from_secs(300), both).await;
        let (many, other) = both.expect("reports must be taken in parts");
        let answers = many.unwrap().unwrap().answers;
        assert_eq!((answers.len(), answers.last()), (201, Some(&ReportAnswer::Applied)));
        assert_eq!(other.unwrap().unwrap().answers, [ReportAnswer::Applied]);
    }
}
