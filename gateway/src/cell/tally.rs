//! The stats of a cell: what it has of each kind. It visits every row, so each hold of the mirror's lock looks at a
//! part of them. Rows may change meanwhile: the stats are right to within what has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::JobState;
use borough_model::node::NodeState;
use borough_model::resource::resources_add;
use borough_model::{JobId, JobRow, Name, Resources, TaskRow};
use borough_proto::convert::task_counts_add;
use borough_proto::v1;
use borough_store::lease::SCHEDULER_DEFAULT;
use borough_store::mirror::{MirrorRow, MirrorState, RowsPosition, StoredSpec};

use super::context::CellContext;

/// Rows that are looked at under one hold of the lock.
const PART_ROWS: usize = 1_024;

/// The stats of a cell.
#[derive(Debug, Default)]
pub(super) struct CellTally {
    pub nodes_ready: u32,
    pub capacity: Resources,
    pub used: Resources,
    /// Jobs that have not ended.
    pub jobs: u32,
    pub tasks: v1::TaskCounts,
    /// The number of those jobs, by the scheduler that they name.
    pub schedulers: BTreeMap<String, usize>,
    /// Tasks that those jobs want, and those of them that have a row.
    wanted: u64,
    known: u64,
    /// The scheduler of the last spec that was decoded: many jobs in a row have the same spec.
    decoded: Option<(StoredSpec, String)>,
}

/// A part of the rows, with the jobs of its tasks.
struct TallyPart {
    rows: Vec<MirrorRow>,
    jobs: BTreeMap<JobId, Arc<JobRow>>,
    next: RowsPosition,
}

fn part_read(state: &MirrorState, from: RowsPosition, most: usize) -> TallyPart {
    let part = state.rows_part(from, most);
    let mut jobs = BTreeMap::new();
    for row in &part.rows {
        if let MirrorRow::Task(task) = row
            && !jobs.contains_key(&task.id.job)
        {
            jobs.extend(state.jobs().get(&task.id.job).map(|job| (task.id.job, Arc::clone(job))));
        }
    }
    TallyPart { rows: part.rows, jobs, next: part.next }
}

fn is_live(row: &JobRow) -> bool {
    !matches!(row.state, JobState::Ended { .. })
}

impl CellTally {
    /// Visits every row of a cell.
    pub(super) async fn of(cell: &CellContext) -> Self {
        let (mut tally, mut from) = (Self::default(), RowsPosition::BEGIN);
        while from != RowsPosition::Over {
            let part = cell.mirror.read(|state| part_read(state, from, PART_ROWS));
            from = tally.part_add(part);
            tokio::task::yield_now().await;
        }
        tally.end();
        tally
    }

    /// Adds a part. Returns where the next one begins.
    fn part_add(&mut self, part: TallyPart) -> RowsPosition {
        part.rows.iter().for_each(|row| self.add(row, &part.jobs));
        part.next
    }

    /// Counts what was never placed.
    fn end(&mut self) {
        let absent = u32::try_from(self.wanted.saturating_sub(self.known)).unwrap_or(u32::MAX);
        self.tasks.pending = self.tasks.pending.saturating_add(absent);
    }

    fn add(&mut self, row: &MirrorRow, jobs: &BTreeMap<JobId, Arc<JobRow>>) {
        match row {
            MirrorRow::Node(row) if row.state == NodeState::Ready => {
                self.nodes_ready = self.nodes_ready.saturating_add(1);
                if let Ok(sum) = resources_add(&self.capacity, &row.capacity) {
                    self.capacity = sum;
                }
            }
            MirrorRow::Alloc(_, alloc) => {
                if let Ok(sum) = resources_add(&self.used, &alloc.used) {
                    self.used = sum;
                }
            }
            MirrorRow::Job { row, spec, .. } => self.job_add(row, spec.as_ref()),
            MirrorRow::Task(task) => self.task_add(task, jobs.get(&task.id.job).map(|job| &**job)),
            MirrorRow::Node(_) | MirrorRow::Load(..) => {}
        }
    }

    fn job_add(&mut self, row: &JobRow, stored: Option<&StoredSpec>) {
        self.tasks.succeeded = self.tasks.succeeded.saturating_add(row.succeeded);
        self.tasks.failed = self.tasks.failed.saturating_add(row.failed);
        if !is_live(row) {
            return;
        }
        self.jobs = self.jobs.saturating_add(1);
        self.wanted = self.wanted.saturating_add(u64::from(row.count));
        let scheduler = stored.map(|stored| self.scheduler_of(row, stored));
        let jobs =
            self.schedulers.entry(scheduler.unwrap_or_else(|| SCHEDULER_DEFAULT.to_owned())).or_default();
        *jobs = jobs.saturating_add(1);
    }

    fn scheduler_of(&mut self, row: &JobRow, stored: &StoredSpec) -> String {
        if let Some((known, scheduler)) = &self.decoded
            && known.is_same(stored)
        {
            return scheduler.clone();
        }
        let named = stored.decoded(&row.name).and_then(|spec| spec.scheduler.as_ref().map(Name::to_string));
        let scheduler = named.unwrap_or_else(|| SCHEDULER_DEFAULT.to_owned());
        self.decoded = Some((stored.clone(), scheduler.clone()));
        scheduler
    }

    fn task_add(&mut self, task: &TaskRow, job: Option<&JobRow>) {
        task_counts_add(&mut self.tasks, task);
        let is_wanted = job.is_some_and(|job| is_live(job) && task.id.index < job.count);
        self.known = self.known.saturating_add(u64::from(is_wanted));
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, JobOutcome, job_new};
    use borough_model::{Delta, RequestId, TaskId, TaskState};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    /// In parts of any size, the stats are the same, and tasks that were never placed are pending.
    #[test]
    fn the_stats_do_not_depend_on_the_parts() {
        let mut state = MirrorState::default();
        let outcome = JobOutcome::Succeeded;
        let jobs = [(1, JobState::Running), (2, JobState::Stopping), (3, JobState::Ended { outcome })];
        for (id, is) in jobs {
            let spec = job_spec("ada", &format!("job-{id}"), JobKind::Batch);
            let row = job_new(JobId(id), &spec, RequestId(1), 0);
            let row = JobRow { state: is, count: 10, succeeded: 2, ..row };
            state.list(Listed::Row(Box::new(Delta::Job { row: row.into(), spec: None })));
            for index in [1, 4, 12] {
                let known = TaskRow::never_placed(TaskId { job: JobId(id), index });
                let row = TaskRow { state: TaskState::Running, revision: 1, ..known };
                state.list(Listed::Row(Box::new(Delta::Task { row })));
            }
        }
        for most in [1, 2, 5, 1_000] {
            let (mut tally, mut from) = (CellTally::default(), RowsPosition::BEGIN);
            while from != RowsPosition::Over {
                from = tally.part_add(part_read(&state, from, most));
            }
            tally.end();
            assert_eq!((tally.jobs, tally.tasks.running, tally.tasks.succeeded), (2, 9, 6), "{most}");
            assert_eq!(tally.tasks.pending, 2 * (10 - 2), "{most}: the task above the count is not wanted");
            assert_eq!(tally.schedulers.get(SCHEDULER_DEFAULT), Some(&2));
        }
    }
}
