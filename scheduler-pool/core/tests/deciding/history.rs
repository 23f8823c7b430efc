//! Random histories of a cell: events that change its rows, and a plan after each of them. A property looks at each
//! plan before its commit, or at the cell whenever it is at rest. `properties.rs` holds the properties.

use std::collections::BTreeMap;

use borough_model::job::JobState;
use borough_model::node::NodeState;
use borough_model::{JobId, NodeAlloc, NodeId, TaskId, TaskState};
use borough_scheduler_core::{CellSettings, PLAN_SEED, PendingQueue, Plan, Snapshot, plan};

use crate::generators::{Event, RandomJob, RandomNode};
use crate::stored::StoredCell;

/// How long ports cool down after an attempt.
const COOL_MS: i64 = 10_000;
/// The pause between two tries of a request that only time can help.
const RETRY_MS: i64 = 1_000;
/// More plans than any history needs until it is at rest.
const PLANS_MAX: usize = 200;

/// A cell that changes event by event, and a snapshot that follows its journal.
pub(crate) struct History {
    pub stored: StoredCell,
    pub followed: Snapshot,
    /// The commit of the next plan is lost.
    commit_lost: bool,
    /// The most tasks of the next plan.
    limit: usize,
}

/// A plan before its commit, with everything that it was made from.
pub(crate) struct Moment<'a> {
    pub stored: &'a StoredCell,
    pub followed: &'a Snapshot,
    pub queue: &'a PendingQueue,
    pub plan: &'a Plan,
}

impl Moment<'_> {
    /// The allocations of the nodes before the plan.
    pub(crate) fn allocs(&self) -> BTreeMap<NodeId, NodeAlloc> {
        allocs(self.stored)
    }
}

/// The allocation of each node.
pub(crate) fn allocs(stored: &StoredCell) -> BTreeMap<NodeId, NodeAlloc> {
    stored.nodes.iter().map(|(&id, (_, alloc))| (id, alloc.clone())).collect()
}

/// Selects every job.
pub(crate) fn everything(_: JobId) -> bool {
    true
}

impl History {
    pub(crate) fn new(settings: CellSettings, nodes: &[RandomNode]) -> Self {
        let mut stored =
            StoredCell { settings: settings.clone(), now_ms: 1_000_000, ..StoredCell::default() };
        for (random, number) in nodes.iter().zip(0u64..) {
            stored.node_put(random.row(number));
        }
        Self { stored, followed: Snapshot::new(settings), commit_lost: false, limit: usize::MAX }
    }

    fn node_at(&self, at: usize) -> Option<NodeId> {
        self.stored.nodes.keys().nth(at % self.stored.nodes.len().max(1)).copied()
    }

    fn job_at(&self, at: usize) -> Option<JobId> {
        self.stored.jobs.keys().nth(at % self.stored.jobs.len().max(1)).copied()
    }

    fn task_at(&self, at: usize) -> Option<TaskId> {
        let resident = self.stored.jobs.keys().flat_map(|&job| self.stored.resident(job));
        let started = resident.filter(|row| row.state != TaskState::Held);
        let resident: Vec<TaskId> = started.map(|row| row.id).collect();
        resident.get(at % resident.len().max(1)).copied()
    }

    pub(crate) fn happens(&mut self, event: &Event) {
        self.commit_lost = matches!(event, Event::CommitLost);
        self.limit = if let Event::Limited(limit) = event { *limit } else { usize::MAX };
        match event {
            Event::NodeAdded(random) => self.stored.node_put(random.row(self.stored.nodes.len() as u64)),
            Event::Submitted(random) => self.submitted(random),
            Event::SubmittedTogether(jobs) => jobs.iter().for_each(|random| self.submitted(random)),
            Event::TimePassed(by_ms) => self.stored.now_ms += i64::from(*by_ms),
            Event::CommitLost | Event::Limited(_) => {}
            Event::JobStopped(at) => self.job_stopped(*at),
            Event::JobCounted(at, count) => self.job_counted(*at, *count),
            Event::TaskCrashed(at, pause_ms) => self.task_crashed(*at, *pause_ms),
            Event::TaskDone(at) => {
                if let Some(task) = self.task_at(*at) {
                    self.stored.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Dead);
                }
            }
            Event::TaskGone(at) => self.task_gone(*at),
            Event::JobPrioritized(at, to) => {
                let job = self.job_at(*at);
                job.into_iter().for_each(|job| self.stored.job_change(job, |row| row.priority = *to));
            }
            Event::NodeLoaded(at, measured) => {
                self.node_at(*at).into_iter().for_each(|node| self.stored.load_put(node, *measured));
            }
            Event::NodeCordoned(at, _)
            | Event::NodeDrained(at)
            | Event::NodeLost(at)
            | Event::NodeBack(at)
            | Event::NodeRacked(at, _)
            | Event::NodeTainted(at, _)
            | Event::NodeResized(at, _) => {
                if let Some(node) = self.node_at(*at) {
                    self.node_happens(node, event);
                }
            }
        }
    }

    fn submitted(&mut self, random: &RandomJob) {
        let number = self.stored.jobs.len();
        // Ids are random, so that nothing depends on their order.
        let id = JobId((number as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
        self.stored.job_submit(id, &random.spec(number));
    }

    fn node_happens(&mut self, node: NodeId, event: &Event) {
        if matches!(event, Event::NodeLost(_)) {
            let there: Vec<TaskId> = self.tasks_where(|row| row.charged_node() == Some(node));
            for task in there {
                let held = self.stored.tasks.get(&task).is_some_and(|row| row.state == TaskState::Held);
                let state = if held { TaskState::Pending } else { TaskState::Lost };
                self.stored.task_end(task, None, |row| row.state = state);
            }
        }
        if matches!(event, Event::NodeBack(_)) {
            for task in self.tasks_where(|row| row.state == TaskState::Lost) {
                let mut row = self.stored.tasks.get(&task).expect("a row").clone();
                row.state = TaskState::Pending;
                self.stored.task_put(row);
            }
        }
        self.stored.node_change(node, |row| match event {
            Event::NodeCordoned(_, cordoned) => row.schedulable = !cordoned,
            Event::NodeDrained(_) => row.draining = true,
            Event::NodeLost(_) => row.state = NodeState::Lost,
            Event::NodeBack(_) => (row.state, row.draining) = (NodeState::Ready, false),
            Event::NodeRacked(_, rack) => drop(row.labels.insert("rack".to_owned(), format!("r{rack}"))),
            Event::NodeTainted(_, taint) => row.taints = taint.iter().cloned().collect(),
            Event::NodeResized(_, cores) => row.capacity.cpu_millis = cores * 1000,
            _ => {}
        });
    }

    fn tasks_where(&self, holds: impl Fn(&borough_model::TaskRow) -> bool) -> Vec<TaskId> {
        self.stored.tasks.values().filter(|row| holds(row)).map(|row| row.id).collect()
    }

    fn job_stopped(&mut self, at: usize) {
        let Some(job) = self.job_at(at) else { return };
        self.stored.job_change(job, |row| row.state = JobState::Stopping);
        self.stopping(job, 0);
    }

    /// Lets the tasks from an index on begin to stop. They stay charged until later events end them.
    fn stopping(&mut self, job: JobId, from: u32) {
        for task in self.tasks_where(|row| row.id.job == job && row.id.index >= from) {
            let mut row = self.stored.tasks.get(&task).expect("a row").clone();
            if row.state == TaskState::Held {
                self.stored.task_end(task, None, |row| row.state = TaskState::Pending);
            } else if row.charged_node().is_some() {
                row.state = TaskState::Stopping;
                self.stored.task_put(row);
            }
        }
    }

    fn job_counted(&mut self, at: usize, count: u32) {
        let Some(job) = self.job_at(at) else { return };
        self.stored.job_change(job, |row| row.count = count);
        self.stopping(job, count);
        for task in self.tasks_where(|row| row.id.job == job && row.state == TaskState::Stopping) {
            self.stored.task_end(task, Some(COOL_MS), |row| row.state = TaskState::Pending);
        }
    }

    /// Ends a stopping task: it is dead with its job, or wants a node again.
    fn task_gone(&mut self, at: usize) {
        let going = self.tasks_where(|row| row.state == TaskState::Stopping);
        let Some(&task) = going.get(at % going.len().max(1)) else { return };
        let wanted = self
            .stored
            .jobs
            .get(&task.job)
            .is_some_and(|(job, _)| job.state == JobState::Running && task.index < job.count);
        let state = if wanted { TaskState::Pending } else { TaskState::Dead };
        self.stored.task_end(task, Some(COOL_MS), |row| row.state = state);
    }

    fn task_crashed(&mut self, at: usize, pause_ms: u16) {
        let Some(task) = self.task_at(at) else { return };
        let until_ms = self.stored.now_ms + i64::from(pause_ms);
        self.stored.task_end(task, Some(COOL_MS), |row| {
            row.state = TaskState::Pending;
            row.not_before_ms = until_ms;
            row.failures += 1;
            row.crashed_on = row.node;
            row.crashes_there += 2;
        });
    }

    /// Plans the tasks that want a node, shows the plan to `holds`, and commits it unless its commit is lost. Returns
    /// the number of placements.
    pub(crate) fn planned(&mut self, mut holds: impl FnMut(&Moment<'_>)) -> usize {
        self.stored.journal_apply(&mut self.followed);
        let now_ms = self.stored.now_ms;
        let queue = self.followed.pending(&everything, now_ms, self.limit);
        let plan = plan(self.followed.tables(), &queue, now_ms, PLAN_SEED);
        holds(&Moment { stored: &self.stored, followed: &self.followed, queue: &queue, plan: &plan });
        if !self.commit_lost {
            self.stored.commit(&plan);
            self.stored.journal_apply(&mut self.followed);
        }
        self.followed.remember(&plan, now_ms);
        plan.placements.len()
    }

    /// Plans until two plans with the pause between two tries place nothing. Nothing but time and events may then help
    /// a waiting task.
    pub(crate) fn rest(&mut self) {
        (self.commit_lost, self.limit) = (false, usize::MAX);
        for _ in 0..PLANS_MAX {
            if self.planned(|_| {}) > 0 {
                continue;
            }
            self.stored.now_ms += RETRY_MS;
            if self.planned(|_| {}) == 0 {
                return;
            }
        }
        panic!("{PLANS_MAX} plans, and the cell is not at rest");
    }
}

/// Plans after each event, and shows each plan to `holds`.
pub(crate) fn each_plan(
    settings: CellSettings,
    nodes: &[RandomNode],
    events: &[Event],
    mut holds: impl FnMut(&Moment<'_>),
) {
    let mut history = History::new(settings, nodes);
    for event in events {
        history.happens(event);
        history.planned(&mut holds);
    }
}

/// Brings the cell to rest after each event, and shows it to `holds`.
pub(crate) fn each_rest(
    settings: CellSettings,
    nodes: &[RandomNode],
    events: &[Event],
    mut holds: impl FnMut(&History),
) {
    let mut history = History::new(settings, nodes);
    for event in events {
        history.happens(event);
        history.rest();
        holds(&history);
    }
}
