//! Lists the tasks of a job, of a node, or of many jobs. A job may have a hundred thousand tasks, so a page reads only
//! its own, and each hold of the mirror's lock reads a part of them. A page over many jobs also looks at a bounded
//! number of tasks, even if few of them are wanted.

use std::ops::Bound;
use std::sync::Arc;

use borough_model::job::JobState;
use borough_model::{JobId, JobRow, NodeId, TaskId, TaskRow, TaskState};
use borough_proto::convert::{name_from_text, task_state_to_message};
use borough_proto::v1;
use borough_store::mirror::MirrorState;
use tonic::Status;

use super::condition::is_in_condition;
use super::message::{TaskNodes, job_found, task_message_of};
use crate::cell::{CellContext, cursor_to_message};
use crate::page::{ListPage, PagedList, page_cut, page_of, task_of_key};
use crate::select::{JobSelection, selector_checked};
use crate::status::{status_from_field, status_not_found};

/// Tasks that are read under one hold of the lock.
const PART_TASKS: usize = 512;

/// Tasks of many jobs that one page looks at, wanted or not: some ten milliseconds.
const LOOKS_MAX: usize = 65_536;
/// How many looks at a task cost as much as one at the labels of a job.
const LOOKS_OF_LABELS: usize = 16;

/// A task with the rows that its message names.
struct ListedTask {
    job: Arc<JobRow>,
    row: Arc<TaskRow>,
    nodes: TaskNodes,
}

/// Which tasks are listed, as far as their rows and those of their jobs show.
struct WantedTasks {
    /// Their states and conditions; without both: all.
    states: Vec<v1::TaskState>,
    conditions: Vec<v1::TaskCondition>,
    /// Whether tasks that have ended and that their job has no use for are left out.
    of_use: bool,
}

impl WantedTasks {
    fn has(&self, job: &JobRow, task: &TaskRow) -> bool {
        let is_in_state = self.is_any_state()
            || self.states.contains(&task_state_to_message(task.state))
            || self.conditions.iter().any(|&condition| is_in_condition(task, condition));
        is_in_state && !(self.of_use && is_left_behind(job, task))
    }

    fn is_all(&self) -> bool {
        self.is_any_state() && !self.of_use
    }

    fn is_any_state(&self) -> bool {
        self.states.is_empty() && self.conditions.is_empty()
    }
}

/// Returns true if a task has ended beyond the count of its job, or its daemon job has withdrawn it. Once the job is
/// over, nothing surges either.
fn is_left_behind(job: &JobRow, task: &TaskRow) -> bool {
    let is_over = matches!(job.state, JobState::Ended { .. });
    let count = if is_over { job.owner_count() } else { job.count };
    task.state == TaskState::Dead && (task.id.index >= count || task.is_withdrawn())
}

/// The tasks of a page as they are found, and one more that shows that others follow.
struct TasksFound<'w> {
    page: ListPage,
    wanted: &'w WantedTasks,
    listed: Vec<ListedTask>,
    /// Looks that are left.
    looks: usize,
    /// The key of the task that was looked at last, if others behind it may be wanted.
    unfinished: Option<String>,
}

impl<'w> TasksFound<'w> {
    fn new(page: ListPage, wanted: &'w WantedTasks) -> Self {
        Self { page, wanted, listed: Vec::new(), looks: LOOKS_MAX, unfinished: None }
    }

    /// Tasks that it lacks.
    fn lacks(&self) -> usize {
        self.page.limit.saturating_add(1).saturating_sub(self.listed.len())
    }

    /// Returns true if nothing more is looked for.
    fn is_over(&self) -> bool {
        self.lacks() == 0 || self.unfinished.is_some()
    }

    /// Counts a look at a job, without its tasks.
    fn job_looked(&mut self, job: JobId, looks: usize) {
        self.looks = self.looks.saturating_sub(looks);
        if self.looks == 0 {
            self.unfinished = Some(key_of(&job.to_string(), u32::MAX));
        }
    }

    /// Adds the next part of a job, of which others follow behind `last`.
    fn part_add(&mut self, part: Vec<ListedTask>, last: Option<TaskId>) {
        self.looks = self.looks.saturating_sub(part.len());
        self.listed.extend(part.into_iter().filter(|task| self.wanted.has(&task.job, &task.row)));
        if self.looks == 0 {
            self.unfinished = last.map(|last| key_of(&last.job.to_string(), last.index));
        }
    }
}

fn key_of(job_id: &str, index: u32) -> String {
    format!("{job_id}/{index:010}")
}

fn message_key(task: &v1::Task) -> String {
    key_of(&task.job_id, task.index)
}

/// The tasks of a page. The cursor is the position before the first part: a watch from there shows what has changed
/// meanwhile.
pub(super) async fn tasks_listed(
    cell: &CellContext,
    request: &v1::ListTasksRequest,
) -> Result<v1::ListTasksResponse, Status> {
    selector_checked("selector", &request.selector)?;
    let wanted = WantedTasks {
        states: request.states().collect(),
        conditions: request.conditions().collect(),
        of_use: request.wanted,
    };
    let mut selection = JobSelection::new(&request.selector);
    let cursor = cell.state(MirrorState::cursor)?;
    let list = |of: String| PagedList::new(&cell.name, &of);
    let asked = request.page.as_ref();
    let (found, list) = if !request.node.is_empty() {
        let name = name_from_text("node", &request.node).map_err(|refused| status_from_field(&refused))?;
        let node = cell.state(|state| state.node_by_name(&name).map(|row| row.id))?;
        let missing = || status_not_found(&format!("node {name} in cell {}", cell.name));
        let list = list(format!("tasks on {name}"));
        let mut found = TasksFound::new(list.request(asked)?, &wanted);
        let mut listed = node_tasks(cell, node.ok_or_else(missing)?);
        listed.retain(|task| wanted.has(&task.job, &task.row));
        listed.retain(|task| selection.has_job(cell, &task.job));
        found.listed = listed;
        (found, list)
    } else if !request.job.is_empty() {
        let job =
            cell.state(|state| job_found(state, &cell.name, &request.user, &request.job).cloned())??;
        let list = list(format!("tasks of {}", job.id));
        // The count of a job bounds the looks.
        let mut found = TasksFound { looks: usize::MAX, ..TasksFound::new(list.request(asked)?, &wanted) };
        match (request.index, first_index(job.id, &found.page)) {
            _ if !selection.has_job(cell, &job) => {}
            (Some(index), _) => found.listed = job_task(cell, &job, index, &wanted),
            (None, Some(first)) => job_tasks_find(cell, &job, first, &mut found).await,
            (None, None) => {}
        }
        (found, list)
    } else {
        let list = list("tasks".to_owned());
        let mut found = TasksFound::new(list.request(asked)?, &wanted);
        jobs_tasks_find(cell, request, &mut selection, &mut found).await;
        (found, list)
    };
    let TasksFound { page, listed, unfinished, .. } = found;
    let message = |task: &ListedTask| task_message_of(cell, &task.job, &task.row, &task.nodes);
    let mut tasks: Vec<v1::Task> = listed.iter().map(message).collect();
    tasks.sort_by(|left, right| (&left.job_id, left.index).cmp(&(&right.job_id, right.index)));
    let (tasks, next_page) = page_of(tasks, &page, message_key);
    let next_page = if next_page.is_empty() { unfinished.unwrap_or_default() } else { next_page };
    let (tasks, next_page) = page_cut(tasks, next_page, message_key);
    let next_page = list.token(&next_page);
    Ok(v1::ListTasksResponse { tasks, next_page, cursor: Some(cursor_to_message(cursor)) })
}

/// The index of the first task of a page; `None` if the page lies behind all tasks of the job.
fn first_index(job: JobId, page: &ListPage) -> Option<u32> {
    let Some(after) = &page.after else { return Some(0) };
    let own = job.to_string();
    match after.split_once('/') {
        Some((of, index)) if of == own => index.parse::<u32>().ok()?.checked_add(1),
        _ => (*after < own).then_some(0),
    }
}

/// Finds tasks of a job that are wanted or have a row, from index `first` on.
async fn job_tasks_find(cell: &CellContext, job: &Arc<JobRow>, first: u32, found: &mut TasksFound<'_>) {
    let mut from = Some(first);
    while let Some(first) = from
        && !found.is_over()
    {
        // A part may have no task that is wanted, so it is not cut to what the page lacks.
        let most = if found.wanted.is_all() { PART_TASKS.min(found.lacks()) } else { PART_TASKS };
        let part = cell.mirror.read(|state| job_tasks_part(state, job, first, most));
        let last = part.last().filter(|_| part.len() >= most).map(|task| task.row.id);
        from = last.and_then(|last| last.index.checked_add(1));
        found.part_add(part, last);
        tokio::task::yield_now().await;
    }
}

/// One task of a job, if the job has it.
fn job_task(cell: &CellContext, job: &Arc<JobRow>, index: u32, wanted: &WantedTasks) -> Vec<ListedTask> {
    let mut part = cell.mirror.read(|state| job_tasks_part(state, job, index, 1));
    part.retain(|task| task.row.id.index == index && wanted.has(job, &task.row));
    part
}

/// Finds tasks of every job that the request selects.
async fn jobs_tasks_find(
    cell: &CellContext,
    request: &v1::ListTasksRequest,
    selection: &mut JobSelection<'_>,
    found: &mut TasksFound<'_>,
) {
    let begin = found.page.after.as_deref().and_then(task_of_key).map(|task| Bound::Included(task.job));
    let mut from = begin.unwrap_or(Bound::Unbounded);
    loop {
        let jobs: Vec<Arc<JobRow>> = cell.mirror.read(|state| {
            state
                .jobs()
                .range((from, Bound::Unbounded))
                .take(PART_TASKS)
                .map(|(_, row)| Arc::clone(row))
                .collect()
        });
        let Some(last) = jobs.last() else { return };
        from = Bound::Excluded(last.id);
        for job in &jobs {
            let first = first_index(job.id, &found.page).filter(|_| is_wanted(request, job));
            let has_labels = first.is_some() && !selection.is_all();
            if let Some(first) = first.filter(|_| selection.has_job(cell, job)) {
                job_tasks_find(cell, job, first, found).await;
            }
            if found.is_over() {
                return;
            }
            found.job_looked(job.id, if has_labels { LOOKS_OF_LABELS } else { 1 });
            if found.is_over() {
                return;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Whether the tasks of a job may be listed, as far as the job's row shows.
fn is_wanted(request: &v1::ListTasksRequest, job: &JobRow) -> bool {
    let ended = request.ended || !request.conditions.is_empty();
    (ended || !matches!(job.state, JobState::Ended { .. }))
        && (request.user.is_empty() || request.user == job.user.as_str())
}

/// The next tasks of a job by index, at most `most`. A task that was never placed has a blank row as long as the job
/// wants it.
fn job_tasks_part(state: &MirrorState, job: &Arc<JobRow>, first: u32, most: usize) -> Vec<ListedTask> {
    let count = if matches!(job.state, JobState::Ended { .. }) { 0 } else { job.count };
    let mut rows = state.job_tasks_behind(job.id, first.checked_sub(1)).peekable();
    let (mut part, mut index) = (Vec::new(), first);
    while part.len() < most {
        let next = rows.peek().map(|row| row.id.index);
        let row = match next {
            Some(known) if known == index || index >= count => rows.next().map(Arc::clone),
            _ if index < count => Some(Arc::new(TaskRow::never_placed(TaskId { job: job.id, index }))),
            _ => None,
        };
        let Some(row) = row else { break };
        index = row.id.index.saturating_add(1);
        part.push(ListedTask { job: Arc::clone(job), nodes: TaskNodes::of(state, &row), row });
    }
    part
}

fn node_tasks(cell: &CellContext, node: NodeId) -> Vec<ListedTask> {
    let rows: Vec<Arc<TaskRow>> = cell.mirror.read(|state| state.node_tasks(node).map(Arc::clone).collect());
    let mut listed = Vec::with_capacity(rows.len());
    for part in rows.chunks(PART_TASKS) {
        cell.mirror.read(|state| {
            listed.extend(part.iter().filter_map(|row| {
                let job = Arc::clone(state.jobs().get(&row.id.job)?);
                Some(ListedTask { job, row: Arc::clone(row), nodes: TaskNodes::of(state, row) })
            }));
        });
    }
    listed
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, JobOutcome, job_new};
    use borough_model::{Delta, RequestId};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    const JOB: JobId = JobId(7);

    /// The indexes of a job of `count` tasks that has rows of `rows`, read `most` at once.
    fn indexes(count: u32, state: JobState, rows: &[u32], most: usize) -> Vec<u32> {
        let row = job_new(JOB, &job_spec("ada", "web", JobKind::Batch), RequestId(1), 0);
        let job = Arc::new(JobRow { count, state, ..row });
        let mut mirror = MirrorState::default();
        for index in rows {
            let row = TaskRow::never_placed(TaskId { job: JOB, index: *index });
            let row = TaskRow { state: TaskState::Running, revision: 1, ..row };
            mirror.list(Listed::Row(Box::new(Delta::Task { row })));
        }
        let (mut seen, mut from) = (Vec::new(), 0);
        loop {
            let part = job_tasks_part(&mirror, &job, from, most);
            assert!(part.len() <= most);
            for task in &part {
                let placed = task.row.state == TaskState::Running;
                assert_eq!(placed, rows.contains(&task.row.id.index), "{}", task.row.id);
                seen.push(task.row.id.index);
            }
            match part.last() {
                Some(last) if part.len() >= most => from = last.row.id.index + 1,
                _ => return seen,
            }
        }
    }

    #[test]
    fn in_parts_a_job_shows_each_task_that_it_wants_or_that_has_a_row() {
        let ended = JobState::Ended { outcome: JobOutcome::Succeeded };
        for most in [1, 2, 3, 100] {
            assert_eq!(indexes(5, JobState::Running, &[1, 2, 7, 9], most), [0, 1, 2, 3, 4, 7, 9]);
            assert_eq!(indexes(0, JobState::Stopping, &[3], most), [3]);
            assert_eq!(indexes(4, ended, &[1, 3], most), [1, 3]);
            assert_eq!(indexes(3, JobState::Waiting, &[], most), [0, 1, 2]);
        }
    }

    /// A rollout that surged and a smaller count leave rows behind. An ended task that the job still has is listed.
    #[test]
    fn tasks_that_have_ended_beyond_the_count_are_left_out() {
        let row = job_new(JOB, &job_spec("ada", "web", JobKind::Service), RequestId(1), 0);
        let rollout = borough_model::job::Rollout::begin(&row, 0, "user/ada", 0).with_surge(1);
        let live = JobRow { count: 4, state: JobState::Running, rollout: Some(Box::new(rollout)), ..row };
        let over = JobRow { state: JobState::Ended { outcome: JobOutcome::Stopped }, ..live.clone() };
        let task = |index, state| TaskRow { state, ..TaskRow::never_placed(TaskId { job: JOB, index }) };
        let listed = |job: &JobRow, of_use: bool, states: Vec<v1::TaskState>| {
            let rows =
                [(2, TaskState::Dead), (3, TaskState::Dead), (4, TaskState::Dead), (5, TaskState::Stopping)];
            let wanted = WantedTasks { states, conditions: Vec::new(), of_use };
            let rows = rows.map(|(index, state)| task(index, state));
            rows.iter().filter(|task| wanted.has(job, task)).map(|task| task.id.index).collect::<Vec<_>>()
        };
        assert_eq!(listed(&live, false, Vec::new()), [2, 3, 4, 5]);
        assert_eq!(
            listed(&live, true, Vec::new()),
            [2, 3, 5],
            "one that surges is of use until the rollout is done"
        );
        assert_eq!(listed(&over, true, Vec::new()), [2, 5]);
        assert_eq!(listed(&live, false, vec![v1::TaskState::Dead]), [2, 3, 4]);
    }

    #[test]
    fn a_page_begins_behind_the_last_row_of_the_one_before() {
        let page = |after: &str| ListPage { limit: 5, after: Some(after.to_owned()) };
        assert_eq!(first_index(JOB, &ListPage { limit: 5, after: None }), Some(0));
        assert_eq!(first_index(JOB, &page(&format!("{JOB}/0000000011"))), Some(12));
        assert_eq!(first_index(JOB, &page(&format!("{}/0000000011", JobId(3)))), Some(0));
        assert_eq!(first_index(JOB, &page(&format!("{}/0000000011", JobId(9)))), None);
    }
}
