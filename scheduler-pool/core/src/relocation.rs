//! Tells which tasks could move to another node, by planning the move as the scheduler would.
//!
//! A task has one attempt at a time, so its replacement starts only after the old attempt has ended. The drain
//! therefore asks here first, and stops only tasks that the scheduler would place again.

use std::collections::BTreeSet;

use borough_model::job::{Rollout, RolloutState};
use borough_model::task::{TaskRow, TaskState};
use borough_model::{JobId, TaskId};

use crate::backlog::{OpenQueue, gang_queue, task_queue};
use crate::count::CountChange;
use crate::explain::{Explanation, WaitReason, explain, is_daemon};
use crate::plan::plan;
use crate::seed::PLAN_SEED;
use crate::snapshot::Snapshot;
use crate::tables::{ShapeId, TaskSlot};

/// Before the moves, this many batches of this many waiting tasks are placed per queue. They have waited longer.
const WAITING_BATCH: usize = 1000;
const WAITING_BATCHES: usize = 4;

/// Moves that are tried one after another, each on top of the successful ones.
pub struct Relocation {
    trial: Snapshot,
    now_ms: i64,
    /// Shapes that found no other node. Asking again would give the same answer.
    unplaceable: BTreeSet<(JobId, Option<ShapeId>)>,
}

impl Relocation {
    /// Tries moves in `snapshot` as of `now_ms` (wall time, milliseconds since 1970). The caller must have cordoned the
    /// nodes that tasks leave: here, nobody gets the capacity that a leaving task frees.
    ///
    /// Pending tasks are placed first, and so are the tasks `leaving`, which are already on their way from their nodes.
    pub fn new(snapshot: Snapshot, leaving: impl IntoIterator<Item = TaskId>, now_ms: i64) -> Self {
        let mut trial = snapshot;
        for task in leaving {
            leave(&mut trial, task);
        }
        let queues: Vec<_> = trial.backlog().open.all().map(|(queue, _)| queue.clone()).collect();
        for queue in queues {
            waiting_placed(&mut trial, &queue, now_ms);
        }
        Self { trial, now_ms, unplaceable: BTreeSet::new() }
    }

    /// Returns true if the scheduler would place `task` on another node now. Later calls count the task there.
    pub fn fits(&mut self, task: TaskId) -> bool {
        let TaskId { job, index } = task;
        let shape = self.trial.tables().jobs.get(&job).and_then(|entry| entry.shape_of(index));
        if self.unplaceable.contains(&(job, shape)) {
            return false;
        }
        let ports = self.ports_of(task);
        let Some(before) = leave(&mut self.trial, task) else { return false };
        // It gives its fixed ports back before it begins elsewhere, perhaps under the same address.
        self.ports_change(&ports, CountChange::Remove);
        let gang = self.trial.tables().jobs.get(&job).is_some_and(|entry| entry.gang_need() > 0);
        let queue = if gang {
            gang_queue(self.trial.tables(), job, self.now_ms)
        } else {
            task_queue(self.trial.tables(), task)
        };
        let outcome = queue.map(|queue| plan(self.trial.tables(), &queue, self.now_ms, PLAN_SEED));
        let placed = outcome.filter(|plan| plan.placements.iter().any(|placement| placement.task == task));
        match placed {
            Some(plan) => {
                self.trial.suppose(&plan, self.now_ms);
                true
            }
            None => {
                self.trial.slot_suppose(task, before);
                self.ports_change(&ports, CountChange::Add);
                self.unplaceable.insert((job, shape));
                false
            }
        }
    }

    /// The node of a task, and the fixed ports that it has there.
    fn ports_of(&self, task: TaskId) -> Option<(u32, Vec<u16>)> {
        let tables = self.trial.tables();
        let entry = tables.jobs.get(&task.job)?;
        let slot = entry.task(task.index)?;
        // An attempt that a rollout has not reached may have others. After it, those of earlier versions run the same.
        let row = tables.job(task.job)?;
        let reached = |rollout: &Rollout| rollout.state == RolloutState::Done && rollout.skipped == 0;
        let is_reached = row.rollout.as_deref().is_none_or(reached);
        let is_current = is_reached || row.version_of(task.index) == slot.spec_version;
        let shape = tables.shapes.get(entry.shape_of(task.index).filter(|_| is_current)?)?;
        let node = tables.nodes.ordinal(slot.node?)?;
        (!shape.ports_fixed.is_empty()).then(|| (node, shape.ports_fixed.clone()))
    }

    fn ports_change(&mut self, ports: &Option<(u32, Vec<u16>)>, change: CountChange) {
        if let Some((node, ports)) = ports {
            self.trial.ports_suppose(*node, ports, change);
        }
    }
}

/// Places the pending tasks of a queue in their order.
fn waiting_placed(trial: &mut Snapshot, queue: &OpenQueue, now_ms: i64) {
    for _ in 0..WAITING_BATCHES {
        let pending = trial.pending_in(queue, now_ms, WAITING_BATCH);
        let outcome = plan(trial.tables(), &pending, now_ms, PLAN_SEED);
        trial.suppose(&outcome, now_ms);
        trial.remember(&outcome, now_ms);
        if outcome.placements.is_empty() {
            return;
        }
    }
}

/// Why task `index` of a job would find no other node as of `now_ms`: the answer of [`explain`] for the task without
/// its node, in a cell without that node.
pub fn explain_elsewhere(snapshot: &Snapshot, job: JobId, index: u32, now_ms: i64) -> Explanation {
    if snapshot.tables().jobs.get(&job).is_some_and(|entry| is_daemon(snapshot.tables(), entry)) {
        return Explanation { elsewhere: true, ..Explanation::of_wait(WaitReason::ServesNode) };
    }
    let task = TaskId { job, index };
    let set = snapshot.tables().job(job).and_then(|row| row.alloc_set());
    if let Some((set, alloc)) = set.and_then(|set| Some((set, snapshot.tables().alloc_last(set, task)?))) {
        let name = snapshot.tables().job(set).map(|row| row.name.clone());
        let wait = name.map(|set| WaitReason::LeavesWithAlloc { set, index: alloc.index });
        return Explanation {
            elsewhere: true,
            ..wait.map_or_else(Explanation::default, Explanation::of_wait)
        };
    }
    let mut trial = snapshot.clone();
    let before = leave(&mut trial, task);
    let node = before.and_then(|slot| slot.node);
    if let Some(node) = node {
        trial.node_remove(node);
    }
    Explanation { elsewhere: node.is_some(), ..explain(&trial, job, index, now_ms) }
}

/// Takes a task off its node, so that it wants another. Returns its slot before; `None` if it has no node.
fn leave(trial: &mut Snapshot, task: TaskId) -> Option<TaskSlot> {
    let slot = trial.tables().jobs.get(&task.job)?.task(task.index)?.clone();
    slot.node?;
    let row = TaskRow {
        incarnation: slot.incarnation,
        revision: slot.revision,
        spec_version: slot.spec_version,
        daemon_node: slot.node_served().map(Box::new),
        ..TaskRow::never_placed(task)
    };
    let left = TaskSlot {
        node: None,
        not_before_ms: 0,
        state: Some(TaskState::Pending),
        assumed: false,
        gathered: false,
        row: Some(Box::new(row)),
        ..slot
    };
    trial.slot_suppose(task, left)
}
