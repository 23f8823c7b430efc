//! The state of the stream while it runs: when each row was submitted, which attempts run and when they end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use borough_model::task::{TaskRow, TaskState};
use borough_model::{Delta, Incarnation, JobId, NodeId, TaskId};
use hdrhistogram::Histogram;
use parking_lot::Mutex;

use crate::experiment::alibaba::BatchRow;

/// The name of the job of a row.
pub(super) fn job_name(number: usize) -> String {
    format!("row-{number}")
}

/// An attempt and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReplayAttempt {
    pub node: NodeId,
    pub task: TaskId,
    pub incarnation: Incarnation,
}

/// A sample of the cell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplaySample {
    /// Tasks submitted and not placed.
    pub waiting: u64,
    pub cpu_millis: u64,
    pub memory_mib: u64,
}

/// Sums over the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplayTotals {
    pub tasks: u64,
    pub placed: u64,
    pub ended: u64,
    /// The longest delay of a row's submission.
    pub late_max_ms: u64,
    /// From the beginning to the last end.
    pub seconds: f64,
}

/// The request of a row.
struct RowRequest {
    tasks: u64,
    submit_s: f64,
    lasts: Duration,
    cpu_millis: u64,
    memory_mib: u64,
    submitted: Option<Instant>,
    placed: u64,
}

struct ReplayState {
    began: Instant,
    rows: Vec<RowRequest>,
    jobs: BTreeMap<JobId, usize>,
    running: BTreeMap<TaskId, usize>,
    due: BinaryHeap<Reverse<(Instant, ReplayAttempt)>>,
    now: ReplaySample,
    totals: ReplayTotals,
    /// Microseconds from the submission of a row to the placement of a task, and of its first one.
    latencies: Histogram<u64>,
    latencies_first: Histogram<u64>,
}

/// The state of a replayed stream.
pub(super) struct ReplayStream {
    state: Mutex<ReplayState>,
    compress: f64,
    closed: AtomicBool,
}

/// A histogram from a microsecond to a day, to three digits.
fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "these bounds are valid")]
    Histogram::new_with_bounds(1, 86_400_000_000, 3).expect("a histogram")
}

impl ReplayStream {
    /// A stream of rows, replayed `compress` times as fast.
    pub(super) fn new(rows: &[BatchRow], compress: f64, now: Instant) -> Self {
        let asked = |row: &BatchRow| RowRequest {
            tasks: u64::from(row.instances),
            submit_s: row.submit_s,
            lasts: Duration::from_secs_f64(row.duration_s.max(0.0) / compress),
            cpu_millis: row.cpu_millis,
            memory_mib: row.memory_mib(),
            submitted: None,
            placed: 0,
        };
        let rows: Vec<RowRequest> = rows.iter().map(asked).collect();
        let tasks = rows.iter().map(|row| row.tasks).sum();
        let state = ReplayState {
            began: now,
            rows,
            jobs: BTreeMap::new(),
            running: BTreeMap::new(),
            due: BinaryHeap::new(),
            now: ReplaySample::default(),
            totals: ReplayTotals { tasks, ..ReplayTotals::default() },
            latencies: histogram(),
            latencies_first: histogram(),
        };
        Self { state: Mutex::new(state), compress, closed: AtomicBool::new(false) }
    }

    /// Begins: the first row's time is `now`.
    pub(super) fn begin(&self, now: Instant) {
        self.state.lock().began = now;
    }

    fn due_at(&self, state: &ReplayState, submit_s: f64) -> Instant {
        let first_s = state.rows.first().map_or(0.0, |row| row.submit_s);
        state.began + Duration::from_secs_f64((submit_s - first_s).max(0.0) / self.compress)
    }

    /// The time left until a time of the trace.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) fn until(&self, submit_s: f64) -> Duration {
        let due = self.due_at(&self.state.lock(), submit_s);
        due.saturating_duration_since(Instant::now())
    }

    /// Records that a row is being submitted.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) fn submitting(&self, number: usize) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let Some(row) = state.rows.get_mut(number) else { return };
        row.submitted = Some(now);
        let (tasks, submit_s) = (row.tasks, row.submit_s);
        state.now.waiting += tasks;
        let late = now.saturating_duration_since(self.due_at(&state, submit_s));
        let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        state.totals.late_max_ms = state.totals.late_max_ms.max(late_ms);
    }

    /// Applies deltas of the journal.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) fn deltas_apply(&self, deltas: &mut dyn Iterator<Item = &Delta>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        for delta in deltas {
            match delta {
                Delta::Job { row, .. } => {
                    let number = row.name.as_str().strip_prefix("row-").and_then(|text| text.parse().ok());
                    state.jobs.extend(number.map(|number: usize| (row.id, number)));
                }
                Delta::Task { row } => state.task_apply(row, now),
                _ => {}
            }
        }
    }

    /// Attempts that are due to end, at most so many.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) fn due(&self, most: usize) -> Vec<ReplayAttempt> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut attempts = Vec::new();
        while attempts.len() < most && state.due.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            attempts.extend(state.due.pop().map(|Reverse((_, attempt))| attempt));
        }
        attempts
    }

    /// Waits until everything has ended.
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    pub(super) async fn over(&self, patience: Duration) -> anyhow::Result<()> {
        let mut known = (0, Instant::now());
        loop {
            let totals = self.totals();
            if totals.ended >= totals.tasks {
                return Ok(());
            }
            let done = totals.placed + totals.ended;
            if done > known.0 {
                known = (done, Instant::now());
            }
            anyhow::ensure!(
                known.1.elapsed() < patience,
                "nothing happened for {patience:?}: {} of {} tasks placed, {} ended",
                totals.placed,
                totals.tasks,
                totals.ended
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Closes the stream: nothing more will end.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns true if it was closed.
    pub(super) fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A sample of the present state.
    pub(super) fn sample(&self) -> ReplaySample {
        self.state.lock().now
    }

    /// The sums so far.
    pub(super) fn totals(&self) -> ReplayTotals {
        self.state.lock().totals
    }

    /// From the submission of a row to the placement of each of its tasks.
    pub(super) fn latencies(&self) -> Histogram<u64> {
        self.state.lock().latencies.clone()
    }

    /// The same to the first of them.
    pub(super) fn latencies_first(&self) -> Histogram<u64> {
        self.state.lock().latencies_first.clone()
    }
}

impl ReplayState {
    fn task_apply(&mut self, task: &TaskRow, now: Instant) {
        let gone = matches!(task.state, TaskState::Dead | TaskState::Pending);
        match (self.running.get(&task.id).copied(), task.node) {
            (None, Some(node)) if !gone => {
                let Some(number) = self.jobs.get(&task.id.job).copied() else { return };
                self.running.insert(task.id, number);
                self.placed(number, now);
                let lasts = self.rows.get(number).map_or(Duration::ZERO, |row| row.lasts);
                let attempt = ReplayAttempt { node, task: task.id, incarnation: task.incarnation };
                self.due.push(Reverse((now + lasts, attempt)));
            }
            (Some(number), _) if gone => {
                self.running.remove(&task.id);
                if let Some(row) = self.rows.get(number) {
                    self.now.cpu_millis = self.now.cpu_millis.saturating_sub(row.cpu_millis);
                    self.now.memory_mib = self.now.memory_mib.saturating_sub(row.memory_mib);
                }
                self.totals.ended += 1;
                self.totals.seconds = now.saturating_duration_since(self.began).as_secs_f64();
            }
            _ => {}
        }
    }

    fn placed(&mut self, number: usize, now: Instant) {
        let Some(row) = self.rows.get_mut(number) else { return };
        let waited = row.submitted.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX).max(1);
        self.latencies.saturating_record(micros);
        if row.placed == 0 {
            self.latencies_first.saturating_record(micros);
        }
        row.placed += 1;
        self.now.cpu_millis += row.cpu_millis;
        self.now.memory_mib += row.memory_mib;
        self.now.waiting = self.now.waiting.saturating_sub(1);
        self.totals.placed += 1;
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, job_new};
    use borough_model::{JobSpec, Name, RequestId};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the stream attempts by the machine's clock")]
    fn a_task_is_placed_once_and_ends_once() {
        let row = BatchRow {
            submit_s: 5.0,
            duration_s: 0.0,
            cpu_millis: 500,
            memory_fraction: 0.5,
            job: 1,
            task: 1,
            instances: 2,
        };
        let now = Instant::now();
        let stream = ReplayStream::new(&[row], 10.0, now);
        stream.submitting(0);
        let name = |text: &str| Name::new(text).unwrap();
        let spec = JobSpec::defaults(name("u"), name(&job_name(0)), JobKind::Batch, vec!["/x".to_owned()]);
        let job = job_new(JobId(7), &spec, RequestId::default(), 0);
        let mut task = TaskRow::never_placed(TaskId { job: JobId(7), index: 0 });
        (task.state, task.node, task.incarnation) = (TaskState::Assigned, Some(NodeId(3)), Incarnation(1));
        let placed = [Delta::Job { row: job.into(), spec: None }, Delta::Task { row: task.clone() }];
        stream.deltas_apply(&mut placed.iter());
        stream.deltas_apply(&mut placed.iter());
        assert_eq!(
            (stream.totals().placed, stream.sample().waiting, stream.sample().cpu_millis),
            (1, 1, 500)
        );
        let attempts = stream.due(8);
        assert_eq!(attempts, [ReplayAttempt { node: NodeId(3), task: task.id, incarnation: Incarnation(1) }]);
        assert!(stream.due(8).is_empty());
        task.state = TaskState::Dead;
        let ended = [Delta::Task { row: task }];
        stream.deltas_apply(&mut ended.iter());
        stream.deltas_apply(&mut ended.iter());
        assert_eq!((stream.totals().ended, stream.sample().cpu_millis), (1, 0));
        assert_eq!(stream.latencies().len(), 1);
        let hour_us = 3_600_000_000;
        let mut latencies = stream.latencies();
        latencies.saturating_record(hour_us);
        assert!(latencies.max() > hour_us / 100 * 99, "a long wait is kept: {}", latencies.max());
    }
}
