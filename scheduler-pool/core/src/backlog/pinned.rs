//! Tasks of daemon jobs whose node does not take them now. Each waits for events of its own node, so a cell without
//! such jobs pays nothing, and a change of another node costs nothing either.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::{JobId, TaskId};

use super::reason::PendingReason;
use super::unschedulable::{UnschedulableShapes, cooled_next};
use crate::filter::{Requirement, fits};
use crate::overlay::PlanOverlay;
use crate::plan::{Plan, Unplaced};
use crate::preempt::{Evictions, NodeAnswer, PreemptionRequest, PreemptionScope, RETRY_MS, offer_of};
use crate::tables::{CellTables, Shape, TableEvents, TaskSlot};

/// In place of a node that the tables do not have.
const UNKNOWN: u32 = u32::MAX;

/// The tasks that are left out, since they have nothing to try before an event.
#[derive(Clone, Copy)]
pub(super) struct Waiting<'a> {
    pub unschedulable: &'a UnschedulableShapes,
    pub pinned: &'a PinnedTasks,
}

impl Waiting<'_> {
    /// The next time at which one of them may fit without an event, in milliseconds since 1970.
    pub(super) fn retry_next(self) -> Option<i64> {
        self.unschedulable.retry_next().into_iter().chain(self.pinned.retry_next()).min()
    }
}

/// A task that waits for its node.
#[derive(Clone, Copy, Debug)]
struct PinnedTask {
    node: u32,
    /// The alloc set whose allocs it waits for instead.
    set: Option<JobId>,
    /// The revision of its row. With another one it may be for another node.
    revision: u64,
    /// From this time on it may fit without an event, milliseconds since 1970.
    retry_at_ms: Option<i64>,
    reason: PendingReason,
}

/// The tasks that wait for their nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedTasks {
    tasks: BTreeMap<TaskId, PinnedTask>,
    of_node: BTreeMap<u32, BTreeSet<TaskId>>,
    of_set: BTreeMap<JobId, BTreeSet<TaskId>>,
    retries: BTreeSet<(i64, TaskId)>,
}

impl PinnedTasks {
    /// How many tasks wait.
    pub(super) fn count(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if a task has nothing to try before its node changes.
    pub(super) fn waits(&self, task: TaskId, slot: Option<&TaskSlot>) -> bool {
        let revision = slot.map_or(0, |slot| slot.revision);
        self.tasks.get(&task).is_some_and(|known| revision == known.revision)
    }

    /// Why the first task of a job waits.
    pub(super) fn reason(&self, job: JobId) -> Option<PendingReason> {
        self.tasks.range(tasks_of(job)).next().map(|(_, known)| known.reason)
    }

    /// The next time at which a task may fit without an event, in milliseconds since 1970.
    pub(super) fn retry_next(&self) -> Option<i64> {
        self.retries.first().map(|(at_ms, _)| *at_ms)
    }

    /// Requeues the tasks whose time has come. Returns their jobs.
    pub(super) fn due(&mut self, now_ms: i64) -> BTreeSet<JobId> {
        let mut jobs = BTreeSet::new();
        while let Some(&(at_ms, task)) = self.retries.first() {
            if at_ms > now_ms {
                break;
            }
            self.remove(task);
            jobs.insert(task.job);
        }
        jobs
    }

    /// Requeues the tasks that changes of the tables may have helped. Returns their jobs.
    pub(super) fn follow(&mut self, tables: &CellTables, events: &TableEvents) -> BTreeSet<JobId> {
        if self.tasks.is_empty() {
            return BTreeSet::new();
        }
        let mut helped: BTreeSet<TaskId> = BTreeSet::new();
        for node in events.freed.iter().chain(&events.leaving) {
            helped.extend(self.of_node.get(node).into_iter().flatten());
            // The allocs there may take tasks again.
            let there = (!self.of_set.is_empty()).then(|| tables.nodes.resident.on(tables.nodes.id(*node)));
            let sets = there.into_iter().flatten().filter_map(|(task, _)| self.of_set.get(&task.job));
            helped.extend(sets.flatten());
        }
        if events.domains_changed {
            helped.extend(self.of_node.get(&UNKNOWN).into_iter().flatten());
        }
        for &job in events.tasks_of.iter().chain(&events.jobs).filter(|_| !self.of_set.is_empty()) {
            let set = tables.jobs.get(&job).and_then(|entry| entry.row.as_ref()?.alloc_set());
            helped.extend(self.of_set.get(&set.unwrap_or(job)).into_iter().flatten());
        }
        for &job in events.jobs.iter().chain(&events.jobs_removed) {
            helped.extend(self.tasks.range(tasks_of(job)).map(|(task, _)| *task));
        }
        if events.priorities_changed {
            helped.extend(self.tasks.keys());
        } else if !events.terms.is_empty() {
            let is_ruled = |job: JobId| tables.jobs.get(&job).is_some_and(|entry| entry.terms.constrained());
            let jobs: BTreeSet<JobId> = self.tasks.keys().map(|task| task.job).collect();
            for job in jobs.into_iter().filter(|job| is_ruled(*job)) {
                helped.extend(self.tasks.range(tasks_of(job)).map(|(task, _)| *task));
            }
        }
        helped.iter().for_each(|task| self.remove(*task));
        helped.into_iter().map(|task| task.job).collect()
    }

    fn remove(&mut self, task: TaskId) {
        let Some(known) = self.tasks.remove(&task) else { return };
        if let Some(tasks) = self.of_node.get_mut(&known.node) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.of_node.remove(&known.node);
            }
        }
        if let Some(set) = known.set
            && let Some(tasks) = self.of_set.get_mut(&set)
        {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.of_set.remove(&set);
            }
        }
        if let Some(at_ms) = known.retry_at_ms {
            self.retries.remove(&(at_ms, task));
        }
    }

    /// Remembers the tasks whose node has refused them. It checks them against the tables again, because the plan's own
    /// placements may have failed.
    pub(super) fn remember(&mut self, tables: &CellTables, plan: &Plan, now_ms: i64) {
        for unplaced in plan.unplaced.iter().filter(|unplaced| unplaced.pinned) {
            let Some(shape) = tables.shapes.get(unplaced.shape).cloned() else { continue };
            let requirement = Requirement::of(&shape, tables);
            let mut trial = PinnedTrial::new(tables, &shape, &requirement, now_ms);
            for &index in &unplaced.tasks {
                let task = TaskId { job: unplaced.job, index };
                if let Some(waits) = trial.waits(task, unplaced) {
                    self.remove(task);
                    self.of_node.entry(waits.node).or_default().insert(task);
                    if let Some(set) = waits.set {
                        self.of_set.entry(set).or_default().insert(task);
                    }
                    self.retries.extend(waits.retry_at_ms.map(|at_ms| (at_ms, task)));
                    self.tasks.insert(task, waits);
                }
            }
        }
    }
}

/// A look at single nodes without any plan.
struct PinnedTrial<'a> {
    tables: &'a CellTables,
    shape: &'a Shape,
    requirement: &'a Requirement,
    overlay: PlanOverlay<'a>,
    evictions: Evictions,
    now_ms: i64,
}

impl<'a> PinnedTrial<'a> {
    fn new(tables: &'a CellTables, shape: &'a Shape, requirement: &'a Requirement, now_ms: i64) -> Self {
        let overlay = PlanOverlay::new(tables);
        Self { tables, shape, requirement, overlay, evictions: Evictions::default(), now_ms }
    }

    /// What a refused task waits for; `None` if its node would take it, or it wants none any more.
    fn waits(&mut self, task: TaskId, unplaced: &Unplaced) -> Option<PinnedTask> {
        let entry = self.tables.jobs.get(&task.job)?;
        if let Some(set) = entry.row.as_ref()?.alloc_set() {
            return self.waits_for_alloc(task, set);
        }
        let slot = entry.task(task.index).filter(|slot| slot.open())?;
        let node = slot.node_served().and_then(|node| self.tables.nodes.ordinal(node));
        let Some(node) = node else {
            return Some(PinnedTask {
                node: UNKNOWN,
                set: None,
                revision: slot.revision,
                retry_at_ms: None,
                reason: PendingReason::Other,
            });
        };
        if fits(&self.overlay, self.requirement, node, self.now_ms) {
            return None;
        }
        let scope = PreemptionScope::of_task(self.tables, entry, task.index);
        let protected = match self.answer(scope, node) {
            Some(NodeAnswer::Offer(_)) => return None,
            Some(NodeAnswer::Protected) => true,
            // A claim depends on the shares of others, which no event of the node tells.
            Some(NodeAnswer::Never) | None => scope.queue > 0,
        };
        let nodes = &self.tables.nodes;
        let cooled_ms =
            || cooled_next(nodes, nodes.spaces.with(node), self.now_ms).filter(|_| self.shape.ports_any());
        let retry_ms = protected.then(|| self.now_ms.saturating_add(RETRY_MS));
        Some(PinnedTask {
            node,
            set: None,
            revision: slot.revision,
            retry_at_ms: retry_ms.into_iter().chain(cooled_ms()).min(),
            reason: PendingReason::of(&unplaced.cause, self.requirement),
        })
    }

    /// What a task waits for that no alloc of its set takes now. Its ports may be what is missing, so it is tried again
    /// after a while, besides after each change of the set.
    fn waits_for_alloc(&self, task: TaskId, set: JobId) -> Option<PinnedTask> {
        let slot = self.tables.jobs.get(&task.job)?.task(task.index);
        let is_wanted = slot.is_none_or(|slot| slot.open());
        if !is_wanted || self.tables.alloc_found(&self.overlay, self.requirement, task, set, self.now_ms) {
            return None;
        }
        let retry_at_ms = self.shape.ports_any().then(|| self.now_ms.saturating_add(RETRY_MS));
        let (node, revision) = (UNKNOWN, slot.map_or(0, |slot| slot.revision));
        Some(PinnedTask { node, set: Some(set), revision, retry_at_ms, reason: PendingReason::Other })
    }

    fn answer(&mut self, scope: PreemptionScope, node: u32) -> Option<NodeAnswer> {
        if scope.queue > 0 {
            self.overlay.shares_known();
        }
        let (scope, claim) = scope.resolved(&self.overlay, &self.shape.resources);
        if !scope.any() {
            return None;
        }
        let ask = PreemptionRequest {
            requirement: self.requirement,
            below: scope.below,
            claim: claim.as_ref(),
            now_ms: self.now_ms,
            fresh_ms: self.tables.settings.fresh_start_ms(),
        };
        Some(offer_of(&mut self.overlay, &mut self.evictions, &ask, node))
    }
}

fn tasks_of(job: JobId) -> std::ops::RangeInclusive<TaskId> {
    TaskId { job, index: 0 }..=TaskId { job, index: u32::MAX }
}
