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
use super::write::NotWritten;
use crate::fault::WriteFault;

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

    use borough_kv::FaultPlan;
    use borough_kv::env::{Clock, ManualClock, SeededRng};
    use borough_model::job::JobKind;
    use borough_model::task::Health;
    use borough_model::{Incarnation, JobId, NodeId, Resources, TaskId};
    use borough_store::StoreError;
    use borough_store::cell::{CellMeta, CellState, cell_gate_set};
    use borough_store::job::job_submit;
    use borough_store::journal::journal_head;
    use borough_store::keys::{Key as _, TaskKey};
    use borough_store::node::{NodeRegistration, node_register};
    use borough_store::task::{ReportPhase, TaskBook};
    use borough_testkit::{
        MemoryStore, OpenCell, change, job_spec, metrics_text, name, node_facts, placed_on,
    };

    use super::*;
    use crate::session::registration::Registrations;
    use crate::session::write::SessionMetrics;

    const NODE: NodeId = NodeId(1);
    const TASK: TaskId = TaskId { job: JobId(1), index: 0 };
    const OTHER_NODE: NodeId = NodeId(2);
    const OTHER_TASK: TaskId = TaskId { job: JobId(1), index: 1 };

    fn registration(node: NodeId, session: u64) -> NodeRegistration {
        let capacity = Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, ..Resources::default() };
        NodeRegistration::new(name(&format!("n{}", node.0)), node_facts(capacity), node, session)
    }

    /// A cell of two nodes, each with an assigned task and a session with the node's number.
    struct TwoNodes {
        store: MemoryStore,
        cell: OpenCell,
    }

    impl TwoNodes {
        async fn new() -> Self {
            let store = MemoryStore::new(ManualClock::at(1_000), SeededRng::shared(1));
            let cell = OpenCell::create(store.quiet(), &CellMeta::default()).await;
            let mut spec = job_spec("ada", "web", JobKind::Service);
            spec.count = 2;
            let made = cell.change(change(1, "test", 1), async |tx, changes| {
                job_submit(tx, changes, &spec, TASK.job).await?;
                let mut book = TaskBook::read(tx, changes.space(), [TASK, OTHER_TASK]).await?;
                for (node, task) in [(NODE, TASK), (OTHER_NODE, OTHER_TASK)] {
                    node_register(tx, changes, &registration(node, node.0)).await?;
                    book.extend_nodes(tx, changes.space(), [node]).await?;
                    let place = placed_on(node, Incarnation(1), spec.task.resources.clone());
                    book.apply(task, &place, 1)?.unwrap();
                }
                book.write(tx, changes).await
            });
            made.await.unwrap();
            Self { store, cell }
        }

        /// What a writer needs, over a store without faults.
        fn context(&self) -> WriterContext {
            let OpenCell { db, space } = self.cell.clone();
            let clock: Arc<dyn Clock> = ManualClock::at(1_000);
            WriterContext { db, space, clock, rng: SeededRng::shared(3), metrics: SessionMetrics::default() }
        }

        /// The same over a store with the faults of `plan`.
        fn context_with(&self, plan: FaultPlan, seed: u64) -> WriterContext {
            WriterContext { db: self.store.faulty(plan, SeededRng::shared(seed)), ..self.context() }
        }
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
            resize: None,
            helpers: Vec::new(),
        }
    }

    fn fence(node: NodeId) -> SessionFence {
        SessionFence { node, session: node.0 }
    }

    /// The gateway sends commands after a report only when the mirror has its position. A report needs one even if its
    /// commit was in doubt and the try that answers found everything written.
    #[tokio::test(start_paused = true)]
    async fn a_report_in_doubt_has_a_position_too() {
        let nodes = TwoNodes::new().await;
        let plan = FaultPlan { commit_then_unknown: 1.0, ..FaultPlan::none() };
        let writer = ReportWriter::spawn(nodes.context_with(plan, 2));
        let applied = writer.apply(fence(NODE), vec![accepted(TASK)]).await.unwrap().unwrap();
        let head = nodes.cell.read(async |tx, space| journal_head(tx, space).await).await.unwrap();
        assert!(head > Cursor::start(1), "something was written");
        assert_eq!(applied.answers, [ReportAnswer::Applied]);
        assert_eq!(applied.cursor, head);
    }

    /// A report that the transaction refuses is set aside: it is answered and counted, and the reports behind it
    /// commit.
    #[tokio::test(start_paused = true)]
    async fn a_refused_report_delays_no_other() {
        let nodes = TwoNodes::new().await;
        let damage =
            nodes.cell.write(async |tx, space| Ok(tx.set(&TaskKey::of(TASK).encode(space), b"damaged")?));
        damage.await.unwrap();
        let context = nodes.context();
        let metrics = context.metrics.clone();
        let writer = ReportWriter::spawn(context);
        let (poisoned, other) = tokio::join!(
            writer.apply(fence(NODE), vec![accepted(TASK)]),
            writer.apply(fence(OTHER_NODE), vec![accepted(OTHER_TASK)])
        );
        assert!(matches!(poisoned, Some(Err(NotWritten::Refused(_)))), "{poisoned:?}");
        assert_eq!(other.unwrap().unwrap().answers, [ReportAnswer::Applied]);
        let text = metrics_text(|registry| metrics.register(registry));
        assert!(text.contains("borough_gateway_session_refused_total{what=\"report\"} 1"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_was_followed_is_answered_so() {
        let nodes = TwoNodes::new().await;
        let writer = ReportWriter::spawn(nodes.context());
        let register = nodes.cell.change(change(1, "test", 1), async |tx, changes| {
            node_register(tx, changes, &registration(NODE, 9)).await.map(drop)
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
        let writer = ReportWriter::spawn(TwoNodes::new().await.context());
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
        let nodes = TwoNodes::new().await;
        let gate_set = async |state| {
            let set = nodes.cell.write(async |tx, space| cell_gate_set(tx, space, state, 1).await);
            set.await.unwrap();
        };
        gate_set(CellState::Moved).await;
        let context = nodes.context();
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
        let plan = FaultPlan { read_fails: 0.2, ..FaultPlan::none() };
        let writer = ReportWriter::spawn(TwoNodes::new().await.context_with(plan, 5));
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
