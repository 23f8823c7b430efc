//! Lists jobs, and counts their tasks. A cell may have a million of either, so each hold of the mirror's lock looks at
//! a part of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use borough_model::job::{JobKind, JobState};
use borough_model::rollout::{AttemptFit, AttemptFits, RolloutProgress, TaskProgress};
use borough_model::{JobId, JobRow, TaskRow};
use borough_proto::convert::{job_state_to_message, job_to_message, task_counts_add};
use borough_proto::v1;
use borough_store::mirror::{MirrorHandle, MirrorState, StoredSpec};
use tonic::Status;

use super::usage::job_usages;
use crate::cell::{CellContext, cursor_to_message};
use crate::page::{ListPage, PagedList, page_cut, page_of};
use crate::select::{labels_meet, selector_checked};

/// Jobs, or tasks, that are visited under one hold of the lock.
const PART_ROWS: usize = 1_024;

/// The tasks of a job by state, counted in parts.
#[derive(Default)]
struct JobCounting {
    counts: v1::TaskCounts,
    /// Tasks that the job wants and that have a row.
    known: u32,
    after: Option<u32>,
}

impl JobCounting {
    /// Counts the next tasks. Returns `false` at the end.
    fn part(&mut self, state: &MirrorState, row: &JobRow, most: usize) -> bool {
        self.part_with(state, row, most, None)
    }

    /// The same, and counts them for the rollout too.
    fn part_with(
        &mut self,
        state: &MirrorState,
        row: &JobRow,
        most: usize,
        mut rollout: Option<&mut RolloutCounting>,
    ) -> bool {
        let mut visited = 0;
        for task in state.job_tasks_behind(row.id, self.after).take(most) {
            self.task(row, task);
            if let Some(rollout) = &mut rollout {
                rollout.task(state, row, task);
            }
            visited += 1;
        }
        visited >= most
    }

    fn task(&mut self, row: &JobRow, task: &TaskRow) {
        task_counts_add(&mut self.counts, task);
        self.known = self.known.saturating_add(u32::from(task.id.index < row.count && !task.is_spared()));
        self.after = Some(task.id.index);
    }

    fn counts(mut self, row: &JobRow) -> v1::TaskCounts {
        if matches!(row.state, JobState::Waiting | JobState::Running) {
            let absent = row.count.saturating_sub(self.known);
            self.counts.pending = self.counts.pending.saturating_add(absent);
        }
        self.counts
    }
}

/// Counts a job's tasks by state. Tasks that were never placed count as pending. Takes the mirror's lock once per part.
pub fn job_counts(mirror: &MirrorHandle, row: &JobRow) -> v1::TaskCounts {
    let mut counting = JobCounting::default();
    while mirror.read(|state| counting.part(state, row, PART_ROWS)) {}
    counting.counts(row)
}

/// Converts a job of the mirror to a message, with how far its rollout is. Takes the mirror's lock, for a short time
/// each.
pub fn job_message(cell: &CellContext, row: &JobRow) -> v1::Job {
    let now_ms = cell.clock.wall_ms();
    let (stored, mut progress) =
        cell.mirror.read(|state| (state.stored_spec_of(row), RolloutCounting::begin(state, row, now_ms)));
    let mut counting = JobCounting::default();
    while cell.mirror.read(|state| counting.part_with(state, row, PART_ROWS, progress.as_mut())) {}
    let spec = stored.as_ref().and_then(|stored| stored.decoded(&row.name));
    let mut job = job_to_message(&cell.name, row, spec.as_ref(), counting.counts(row));
    if let Some(rollout) = &mut job.rollout {
        rollout.progress = progress.map(|progress| progress.message(row));
    }
    job.alloc_jobs = alloc_jobs(&cell.mirror, row);
    job
}

/// The names of the jobs in an alloc set that have not ended.
fn alloc_jobs(mirror: &MirrorHandle, row: &JobRow) -> Vec<String> {
    let Some(members) = row.alloc_members().filter(|members| !members.is_empty()) else { return Vec::new() };
    mirror.read(|state| {
        let rows = members.iter().filter_map(|job| state.jobs().get(job));
        let alive = rows.filter(|row| !matches!(row.state, JobState::Ended { .. }));
        alive.map(|row| row.name.to_string()).collect()
    })
}

/// How far a rollout is, counted in parts.
struct RolloutCounting {
    version: u32,
    kind: JobKind,
    fits: AttemptFits,
    progress: RolloutProgress,
    /// Tasks of the owner that have a row.
    known: u32,
    /// Tasks that surge and do not wait for a node, and the healthy ones of these.
    surging: u32,
    surging_healthy: u32,
    /// Who became healthy later has not been so for long enough.
    proven_ms: i64,
    proving: u32,
}

impl RolloutCounting {
    /// At this time of the cell. `None`: the job has had no rollout, or its spec is not known.
    fn begin(state: &MirrorState, row: &JobRow, now_ms: i64) -> Option<Self> {
        let version = row.rollout.as_deref()?.version;
        let spec = state.spec_of(row)?;
        let healthy_after_ms = spec.update.unwrap_or_default().healthy_after_ms;
        Some(Self {
            version,
            kind: spec.kind,
            fits: AttemptFits::new(row.spec_version, spec),
            progress: RolloutProgress::default(),
            known: 0,
            surging: 0,
            surging_healthy: 0,
            proven_ms: now_ms.saturating_sub_unsigned(healthy_after_ms),
            proving: 0,
        })
    }

    fn task(&mut self, state: &MirrorState, row: &JobRow, task: &TaskRow) {
        let is_proving =
            task.spec_version >= self.version && task.is_healthy() && task.healthy_ms > self.proven_ms;
        self.proving = self.proving.saturating_add(u32::from(is_proving));
        if task.id.index >= row.owner_count() {
            let surges = task.id.index < row.count && !task.waits_for_node();
            self.surging = self.surging.saturating_add(u32::from(surges));
            self.surging_healthy =
                self.surging_healthy.saturating_add(u32::from(surges && task.is_healthy()));
            return;
        }
        self.known = self.known.saturating_add(1);
        let fit = self.fits.fit(task, |version| state.spec(row.id, version));
        self.progress.visit(task_progress(task, fit), self.version, self.kind);
    }

    fn message(&self, row: &JobRow) -> v1::RolloutProgress {
        let RolloutProgress { concerned, updated, healthy } = self.progress;
        let absent = row.owner_count().saturating_sub(self.known);
        v1::RolloutProgress {
            concerned: concerned.saturating_add(absent),
            updated,
            healthy,
            surging: Some(self.surging),
            surging_healthy: Some(self.surging_healthy),
            proving: Some(self.proving),
        }
    }
}

fn task_progress(task: &TaskRow, fit: AttemptFit) -> TaskProgress {
    TaskProgress {
        version: task.spec_version,
        fit,
        state: task.state,
        is_healthy: task.is_healthy(),
        failures: task.failures,
    }
}

/// As [`job_message`], with the spec in force as the mirror keeps it.
pub fn job_message_of(cell: &CellContext, row: &JobRow, stored: Option<&StoredSpec>) -> v1::Job {
    let spec = stored.and_then(|stored| stored.decoded(&row.name));
    let mut job = job_to_message(&cell.name, row, spec.as_ref(), job_counts(&cell.mirror, row));
    job.alloc_jobs = alloc_jobs(&cell.mirror, row);
    job
}

/// The jobs of one page, by their keys: it keeps the first behind the page's begin, and one more that shows that others
/// follow.
struct JobPage<'a> {
    request: &'a v1::ListJobsRequest,
    page: ListPage,
    rows: BTreeMap<String, Arc<JobRow>>,
}

fn job_key(row: &JobRow) -> String {
    format!("{}/{}/{}", row.user, row.name, row.id)
}

impl JobPage<'_> {
    /// Whether a row may be listed, as far as the row itself shows.
    fn wants(&self, row: &JobRow) -> bool {
        let states = &self.request.states;
        let is_in_state = if states.is_empty() {
            self.request.ended || !matches!(row.state, JobState::Ended { .. })
        } else {
            states.contains(&job_state_to_message(row.state).into())
        };
        is_in_state && (self.request.user.is_empty() || self.request.user == row.user.as_str())
    }

    fn add(&mut self, row: Arc<JobRow>, stored: Option<&StoredSpec>) {
        let key = job_key(&row);
        let is_full = self.rows.len() > self.page.limit;
        let is_behind = self.page.after.as_ref().is_none_or(|after| key > *after);
        let is_listed =
            is_behind && (!is_full || self.rows.last_key_value().is_some_and(|(last, _)| key < *last));
        if !is_listed || !self.is_labelled(&row, stored) {
            return;
        }
        self.rows.insert(key, row);
        if self.rows.len() > self.page.limit.saturating_add(1) {
            self.rows.pop_last();
        }
    }

    /// Whether the request has conditions on labels.
    fn is_selective(&self) -> bool {
        !self.request.labels.is_empty() || !self.request.selector.is_empty()
    }

    fn is_labelled(&self, row: &JobRow, stored: Option<&StoredSpec>) -> bool {
        if !self.is_selective() {
            return true;
        }
        let spec = stored.and_then(|stored| stored.decoded(&row.name));
        spec.is_some_and(|spec| {
            spec.has_labels(&self.request.labels) && labels_meet(&self.request.selector, &spec.labels)
        })
    }
}

/// Lists the jobs of a page. The cursor is the position before the first part: a watch from there shows what has
/// changed meanwhile.
pub(super) async fn jobs_listed(
    cell: &CellContext,
    request: &v1::ListJobsRequest,
) -> Result<v1::ListJobsResponse, Status> {
    selector_checked("selector", &request.selector)?;
    let list = PagedList::new(&cell.name, "jobs");
    let page = list.request(request.page.as_ref())?;
    let cursor = cell.mirror.cursor();
    let mut listed = JobPage { request, page, rows: BTreeMap::new() };
    let mut from = Bound::Unbounded;
    while let Some(part) = jobs_part(cell, &listed, from) {
        from = Bound::Excluded(part.last);
        part.rows.into_iter().for_each(|(row, stored)| listed.add(row, stored.as_ref()));
        tokio::task::yield_now().await;
    }
    let rows: Vec<Arc<JobRow>> = listed.rows.into_values().collect();
    let (rows, next_page) = page_of(rows, &listed.page, |row| job_key(row));
    let mut usages = BTreeMap::new();
    if request.usage {
        let all: Vec<&JobRow> = rows.iter().map(|row| &**row).collect();
        usages = job_usages(cell, &all).await;
    }
    let mut jobs = Vec::with_capacity(rows.len());
    for row in rows {
        jobs.push(v1::Job { usage: usages.remove(&row.id), ..job_message(cell, &row) });
        tokio::task::yield_now().await;
    }
    let key = |job: &v1::Job| format!("{}/{}/{}", job.user, job.name, job.id);
    let (jobs, next_page) = page_cut(jobs, next_page, key);
    let next_page = list.token(&next_page);
    Ok(v1::ListJobsResponse { jobs, next_page, cursor: Some(cursor_to_message(cursor)) })
}

/// Some jobs with their specs, and the last that was visited.
struct JobsPart {
    rows: Vec<(Arc<JobRow>, Option<StoredSpec>)>,
    last: JobId,
}

fn jobs_part(cell: &CellContext, page: &JobPage<'_>, from: Bound<JobId>) -> Option<JobsPart> {
    let is_labelled = page.is_selective();
    cell.mirror.read(|state| {
        let (mut rows, mut last) = (Vec::new(), None);
        for (job, row) in state.jobs().range((from, Bound::Unbounded)).take(PART_ROWS) {
            last = Some(*job);
            if page.wants(row) {
                let stored = is_labelled.then(|| state.stored_spec_of(row)).flatten();
                rows.push((Arc::clone(row), stored));
            }
        }
        last.map(|last| JobsPart { rows, last })
    })
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, job_new};
    use borough_model::{Delta, RequestId, TaskId, TaskState};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    fn row(id: u64, user: &str) -> Arc<JobRow> {
        // The names have another order than the ids.
        let spec = job_spec(user, &format!("job-{}", id * 37 % 101), JobKind::Batch);
        let row = job_new(JobId(id), &spec, RequestId(1), 0);
        Arc::new(JobRow { state: JobState::Running, count: 5, ..row })
    }

    /// However small, the pages have each job once and in the order of the keys.
    #[test]
    fn the_pages_together_are_all_jobs_in_order() {
        let rows: Vec<Arc<JobRow>> =
            (1..=50).map(|id| row(id, if id % 3 == 0 { "ann" } else { "bob" })).collect();
        let mut expected: Vec<String> = rows.iter().map(|row| job_key(row)).collect();
        expected.sort();
        let request = v1::ListJobsRequest::default();
        for limit in [1, 7, 49, 50, 51] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = ListPage { limit, after };
                let mut listed = JobPage { request: &request, page, rows: BTreeMap::new() };
                rows.iter().for_each(|row| listed.add(Arc::clone(row), None));
                assert!(listed.rows.len() <= limit + 1);
                let of_page = listed.rows.into_values().collect();
                let (taken, next) = page_of(of_page, &listed.page, |row: &Arc<JobRow>| job_key(row));
                seen.extend(taken.iter().map(|row| job_key(row)));
                if next.is_empty() {
                    break;
                }
                after = Some(next);
            }
            assert_eq!(seen, expected, "pages of {limit}");
        }
    }

    #[test]
    fn the_tasks_of_a_job_are_counted_in_parts_as_they_are_at_once() {
        let (row, mut state) = (row(1, "ann"), MirrorState::default());
        let states = [TaskState::Running, TaskState::Pending, TaskState::Stopping, TaskState::Running];
        for (index, is) in [0, 1, 3, 8].into_iter().zip(states) {
            let known = TaskRow::never_placed(TaskId { job: row.id, index });
            let task = TaskRow { state: is, revision: 1, ..known };
            state.list(Listed::Row(Box::new(Delta::Task { row: task })));
        }
        let counted = |most| {
            let (mut counting, mut parts) = (JobCounting::default(), 1);
            while counting.part(&state, &row, most) {
                parts += 1;
            }
            (counting.counts(&row), parts)
        };
        let (at_once, _) = counted(usize::MAX);
        assert_eq!((at_once.running, at_once.pending), (2, 1 + 2), "two were never placed");
        assert_eq!(counted(1), (at_once, 5));
        assert_eq!(counted(3), (at_once, 2));
    }
}
