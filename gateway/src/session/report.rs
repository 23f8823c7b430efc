//! Writes what agents report. The reports of all nodes share transactions, and each passes the fence of its session.

use std::collections::BTreeSet;
use std::time::Duration;

use borough_kv::Transaction;
use borough_model::task::Exit;
use borough_store::StoreResult;
use borough_store::journal::{ChangeSet, Cursor};
use borough_store::node::{SessionFence, node_writers};
use borough_store::task::{ReportAnswer, TaskReport, task_report_apply};

use super::batch::{BatchItem, BatchWriter, Unwritten, WriteSize, WriterContext, Written};
use super::write::{NotWritten, WriteFault};

/// Roughly the bytes of a report without its lists and texts.
const REPORT_BYTES: usize = 256;
/// Pause before a report that the store did not take is sent again. It doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause after the store has refused.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The result of one agent's report.
#[derive(Clone, Debug)]
pub struct ReportOutcome {
    /// An answer per attempt, in the order of the report.
    pub answers: Vec<ReportAnswer>,
    /// The position of the last write: see [`Written`].
    pub cursor: Cursor,
}

/// Reports of single attempts, of one session.
struct SessionReports {
    fence: SessionFence,
    reports: Vec<TaskReport>,
}

/// Roughly the bytes of a report that are stored.
fn report_bytes(report: &TaskReport) -> usize {
    let text = |exit: &Exit| exit.message.len();
    let cores = report.cores.len().saturating_mul(size_of::<u32>());
    REPORT_BYTES.saturating_add(cores).saturating_add(report.exit.as_ref().map_or(0, text))
}

impl BatchItem for SessionReports {
    /// An answer per attempt.
    type Answer = Vec<ReportAnswer>;

    const ACTION: &'static str = "task_report";
    /// A row is written twice, with its previous content, its endpoint, and what is committed on its node.
    const MOST: WriteSize = WriteSize { parts: 256, bytes: 512 * 1024 };

    fn size(&self) -> WriteSize {
        let bytes = self.reports.iter().map(report_bytes).fold(0, usize::saturating_add);
        WriteSize { parts: self.reports.len(), bytes }
    }

    fn what(&self) -> &'static str {
        "report"
    }

    fn node(&self) -> String {
        self.fence.node.to_string()
    }

    async fn write(
        tx: &Transaction,
        changes: &mut ChangeSet,
        items: &[&Self],
    ) -> StoreResult<Vec<Option<Self::Answer>>> {
        let fences: BTreeSet<SessionFence> = items.iter().map(|item| item.fence).collect();
        let space = changes.space().clone();
        let writers = node_writers(tx, &space, fences).await?;
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            answers.push(match writers.get(&item.fence) {
                Some(writer) => Some(task_report_apply(writer, changes, &item.reports).await?),
                None => None,
            });
        }
        Ok(answers)
    }
}

/// The writer of one cell. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct ReportWriter {
    writer: BatchWriter<SessionReports>,
}

impl ReportWriter {
    /// Starts the writer.
    pub fn spawn(context: WriterContext) -> Self {
        Self { writer: BatchWriter::spawn(context) }
    }

    /// Applies a report, in as many transactions as needed. Waits as long as the store does: reports are absolute, so a
    /// retry does no harm. `None` if this process is ending.
    pub async fn apply(
        &self,
        fence: SessionFence,
        mut reports: Vec<TaskReport>,
    ) -> Option<Result<ReportOutcome, NotWritten>> {
        let mut answers = Vec::with_capacity(reports.len());
        let mut together = SessionReports::MOST.parts;
        let mut pause = PAUSE_MIN;
        loop {
            let mut rest = reports.split_off(part_len(&reports, together));
            match self.writer.write(SessionReports { fence, reports }).await? {
                Ok(Written { answer, cursor }) => {
                    answers.extend(answer);
                    if rest.is_empty() {
                        return Some(Ok(ReportOutcome { answers, cursor }));
                    }
                    (reports, pause) = (rest, PAUSE_MIN);
                }
                Err(Unwritten::Later { item, fault, .. }) => {
                    reports = item.reports;
                    if fault == WriteFault::Batch && reports.len() > 1 {
                        // The store does not take so many at once.
                        together = reports.len().div_ceil(2);
                    } else {
                        tokio::time::sleep(pause).await;
                        pause = pause.saturating_mul(2).min(PAUSE_MAX);
                    }
                    reports.append(&mut rest);
                }
                Err(unwritten) => return Some(Err(unwritten.into())),
            }
        }
    }
}

/// How many of `reports`, from the first, go into one transaction: at most `together`, and at least one if there is
/// one.
fn part_len(reports: &[TaskReport], together: usize) -> usize {
    let sums = reports.iter().take(together).scan(0_usize, |bytes, report| {
        *bytes = bytes.saturating_add(report_bytes(report));
        Some(*bytes)
    });
    sums.take_while(|bytes| *bytes <= SessionReports::MOST.bytes).count().max(1).min(reports.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use borough_kv::env::{Clock, ManualClock, SeededRng};
    use borough_kv::{Database, EmbeddedEngine, Engine, FaultEngine, FaultPlan, Idempotency};
    use borough_model::RequestId;
    use borough_model::task::{Health, Placement, TaskEvent};
    use borough_model::{Incarnation, JobId, Name, NodeId, Resources, TaskId};
    use borough_store::cell::{CellMeta, CellState, cell_create, cell_gate_set};
    use borough_store::job::job_submit;
    use borough_store::journal::{Change, journal_head};
    use borough_store::keys::{Key as _, TaskKey};
    use borough_store::node::{NodeRegistration, node_register};
    use borough_store::task::{ReportPhase, TaskBook};
    use borough_store::{CellSpace, StoreError};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::session::registration::Registrations;
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
        let wide = TaskReport { cores: vec![1; SessionReports::MOST.bytes], ..accepted(TASK) };
        assert_eq!(part_len(&[wide.clone(), wide], SessionReports::MOST.parts), 1, "one at least");
        assert_eq!(part_len(&[], SessionReports::MOST.parts), 0);
    }

    /// A report waits until the store takes it, in its session's own task. A registration waits for nothing: its agent
    /// gets the reason.
    #[tokio::test(start_paused = true)]
    async fn a_report_waits_for_the_store_and_a_registration_does_not() {
        let (_, context) = cell_with_tasks().await;
        let (db, space) = (context.db.clone(), context.space.clone());
        let gate_set = async |state| {
            let space = &space;
            let set = db.run("test", Idempotency::Natural, |tx, _| async move {
                cell_gate_set(&tx, space, state, 1).await
            });
            set.await.unwrap();
        };
        gate_set(CellState::Moved).await;
        let registrations = Registrations::spawn(context.clone());
        let writer = ReportWriter::spawn(context);
        let registered = registrations.register(registration(NODE, 9)).await.unwrap();
        assert!(matches!(&*registered.unwrap_err(), StoreError::CellClosed { .. }));
        let applied = async {
            let open = async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                gate_set(CellState::Open).await;
            };
            tokio::join!(writer.apply(fence(NODE), vec![accepted(TASK)]), open).0
        };
        assert_eq!(applied.await.unwrap().unwrap().answers, [ReportAnswer::Applied]);
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
