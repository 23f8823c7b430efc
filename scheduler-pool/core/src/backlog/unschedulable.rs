//! The unschedulable queue: requests that no node can take. It holds one entry per shape and one per gang, so waiting
//! tasks cost almost nothing. Events that could help requeue them: a node was added, opened, changed or freed capacity,
//! or a port cooled down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::JobId;
use borough_model::node::PORT_KEPT_BACK_MS;

use super::demand::{HelpedBy, NodeSet, WaitingRequest, WaitingRequests};
use super::freed::FreedNodes;
use super::reason::PendingReason;
use crate::filter::{Requirement, copies, fits};
use crate::overlay::PlanOverlay;
use crate::plan::{Plan, Unplaced};
use crate::preempt::{PreemptionScope, RETRY_MS, no_victims_anywhere};
use crate::tables::{CellJob, CellTables, HardRule, NodeTable, Shape, ShapeId, TableEvents, TermId};

#[derive(Clone, Debug)]
pub(super) struct UnschedulableShape {
    /// True if it asks for ports.
    ports: bool,
    /// True if any change may help. A gang with different members may happen to fit with less free capacity.
    uneven: bool,
    /// From this time on a port that cools now may help, milliseconds since 1970.
    retry_at_ms: Option<i64>,
    /// Before this time no plan tries evictions for it again, milliseconds since 1970. Each trial of a gang examines
    /// many tasks. Without the pause, every end of a task would requeue a gang that needs more than the cell has.
    evicts_at_ms: i64,
    reason: PendingReason,
    /// The shapes that it waits for: its own, or those of the gang's members.
    shapes: Vec<Arc<Shape>>,
}

impl WaitingRequest for UnschedulableShape {
    fn shapes(&self) -> &[Arc<Shape>] {
        &self.shapes
    }

    fn ports(&self) -> bool {
        self.ports
    }
}

impl UnschedulableShape {
    /// An entry for a shape that was found to fit nowhere now. Ports that cool on any node may help it later.
    fn found(shape: &Arc<Shape>, reason: PendingReason, nodes: &NodeTable, now_ms: i64) -> Self {
        let mut entry = Self {
            ports: shape.ports_any(),
            uneven: false,
            retry_at_ms: None,
            evicts_at_ms: 0,
            reason,
            shapes: vec![Arc::clone(shape)],
        };
        if entry.ports {
            entry.cools(cooled_next(nodes, nodes.order.iter().copied(), now_ms));
        }
        entry
    }

    /// Records the time at which ports will have cooled down.
    fn cools(&mut self, at_ms: Option<i64>) {
        if self.ports {
            self.retry_at(at_ms);
        }
    }

    /// Sets the latest time of the next try.
    fn retry_at(&mut self, at_ms: Option<i64>) {
        self.retry_at_ms = self.retry_at_ms.into_iter().chain(at_ms).min();
    }

    fn due(&self, now_ms: i64) -> bool {
        self.retry_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}

/// The changes of the tables since the last [`UnschedulableShapes::requeue`], as that call takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TableChanges {
    /// Nodes that may help, ascending.
    freed: Vec<u32>,
    /// Terms whose counts have changed.
    touched: BTreeSet<TermId>,
    /// True if any node changed.
    changed: bool,
    /// True if a node was added or removed, or changed its attributes.
    domains_changed: bool,
    /// True if the priority of any job changed.
    priorities_changed: bool,
}

/// The unschedulable shapes and gangs, and the jobs parked because of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnschedulableShapes {
    shapes: BTreeMap<ShapeId, UnschedulableShape>,
    gangs: BTreeMap<JobId, UnschedulableShape>,
    /// Shapes that evictions do not help either, with their preemption scope.
    no_victims: BTreeMap<(ShapeId, PreemptionScope), UnschedulableShape>,
    /// Jobs with only unschedulable tasks. They are in no queue.
    parked: BTreeSet<JobId>,
    parked_under: BTreeMap<ShapeId, BTreeSet<JobId>>,
    waiting: WaitingRequests,
    changes: TableChanges,
    /// The nodes of the changes so far.
    freed: NodeSet,
    /// How many times a node was checked for an unschedulable request.
    checks: u64,
}

/// Queries, and reports of the tables.
impl UnschedulableShapes {
    /// Records changes of the tables. The next [`Self::requeue`] checks them.
    pub(super) fn notice(&mut self, tables: &CellTables, events: &TableEvents) {
        for &shape in &events.shapes_released {
            self.shape_forgotten(shape);
        }
        let (shapes, gangs) = (!self.shapes.is_empty(), !self.gangs.is_empty());
        let no_victims = !self.no_victims.is_empty();
        let changes = &mut self.changes;
        changes.changed |= events.changed;
        changes.domains_changed |= events.domains_changed;
        changes.priorities_changed |= events.priorities_changed && (no_victims || gangs);
        if !shapes && !gangs && !no_victims {
            return;
        }
        changes.touched.extend(events.terms.iter().copied());
        // Only nodes that may help are kept. One that is too full now can help only after another event.
        let freed = events.freed.iter().filter(|&&node| self.waiting.helped_by_freed(&tables.nodes, node));
        let leaving = events.leaving.iter();
        let leaving = leaving.filter(|&&node| self.waiting.helped_by_leaving(&tables.nodes, node));
        freed.chain(leaving).for_each(|&node| self.freed.insert(node));
    }

    /// How many shapes and gangs are known to fit nowhere.
    pub(super) fn count(&self) -> usize {
        self.shapes.len() + self.gangs.len() + self.no_victims.len()
    }

    /// How many times a node was checked for an unschedulable request, in all. This is the cost of waiting.
    pub(super) fn checks(&self) -> u64 {
        self.checks
    }

    /// The next time at which a cooling port may help, in milliseconds since 1970.
    pub(super) fn retry_next(&self) -> Option<i64> {
        let entries = self.shapes.values().chain(self.gangs.values()).chain(self.no_victims.values());
        entries.filter_map(|entry| entry.retry_at_ms).min()
    }

    /// Returns true if a task of a shape has nothing to try: it fits nowhere, and evictions in its scope do not help.
    /// If they help no higher priority, they help no lower one.
    pub(super) fn parks(&self, shape: ShapeId, scope: impl FnOnce() -> PreemptionScope) -> bool {
        if !self.shapes.contains_key(&shape) {
            return false;
        }
        let scope = scope();
        !scope.any() || self.no_victims_at(shape, scope)
    }

    fn no_victims_at(&self, shape: ShapeId, scope: PreemptionScope) -> bool {
        let from = (shape, PreemptionScope { below: scope.below, ..PreemptionScope::default() });
        let known = self.no_victims.range(from..).take_while(|((known, _), _)| *known == shape);
        known.into_iter().any(|((_, known), _)| scope.covered_by(*known))
    }

    pub(super) fn shape_reason(&self, shape: ShapeId) -> Option<PendingReason> {
        self.shapes.get(&shape).map(|entry| entry.reason)
    }

    pub(super) fn gang_reason(&self, job: JobId) -> Option<PendingReason> {
        self.gangs.get(&job).map(|entry| entry.reason)
    }

    /// Jobs with only unschedulable tasks.
    pub(super) fn parked_jobs(&self) -> impl Iterator<Item = JobId> {
        self.parked.iter().copied()
    }

    /// Returns true if a job is parked.
    pub(super) fn parked(&self, job: JobId) -> bool {
        self.parked.contains(&job)
    }

    /// Parks a job. All its tasks are unschedulable, with these shapes.
    pub(super) fn park(&mut self, job: JobId, shapes: impl IntoIterator<Item = ShapeId>) {
        for shape in shapes {
            self.parked_under.entry(shape).or_default().insert(job);
        }
        self.parked.insert(job);
    }

    /// Forgets the findings about a job, because the job has changed.
    pub(super) fn job_requeued(&mut self, job: JobId) {
        self.waiting.removed(self.gangs.remove(&job), HelpedBy::Evictions);
        if self.parked.remove(&job) {
            self.parked_under.values_mut().for_each(|jobs| {
                jobs.remove(&job);
            });
        }
    }

    /// Forgets a shape that nobody uses any more.
    fn shape_forgotten(&mut self, shape: ShapeId) {
        self.waiting.removed(self.shapes.remove(&shape), HelpedBy::Capacity);
        let first = (shape, PreemptionScope::default());
        let scopes = self.no_victims.range(first..).take_while(|((known, _), _)| *known == shape);
        let scopes: Vec<(ShapeId, PreemptionScope)> = scopes.map(|(&id, _)| id).collect();
        scopes.into_iter().for_each(|(shape, scope)| self.no_victims_forgotten(shape, scope));
        self.parked_under.remove(&shape);
    }

    fn no_victims_forgotten(&mut self, shape: ShapeId, scope: PreemptionScope) {
        self.waiting.removed(self.no_victims.remove(&(shape, scope)), HelpedBy::Evictions);
    }

    /// Requeues a shape. Returns the jobs that were parked because of it.
    pub(super) fn shape_requeued(&mut self, shape: ShapeId) -> BTreeSet<JobId> {
        self.waiting.removed(self.shapes.remove(&shape), HelpedBy::Capacity);
        self.unparked(shape)
    }

    fn unparked(&mut self, shape: ShapeId) -> BTreeSet<JobId> {
        let jobs = self.parked_under.remove(&shape).unwrap_or_default();
        for job in &jobs {
            self.parked.remove(job);
        }
        jobs
    }
}

/// The first time after `now_ms` at which a port of one of the nodes has cooled down.
pub(super) fn cooled_next(nodes: &NodeTable, among: impl Iterator<Item = u32>, now_ms: i64) -> Option<i64> {
    let ports = among.filter_map(|node| nodes.ports(node));
    let cooling = ports.flat_map(|ports| ports.cooling.iter().map(|&(_, until_ms)| until_ms));
    cooling.filter(|&until_ms| until_ms > now_ms && until_ms < PORT_KEPT_BACK_MS).min()
}

/// What plans report: requests that fit nowhere.
impl UnschedulableShapes {
    /// Remembers the tasks that a plan found to fit nowhere. It checks them against the tables again, because the
    /// plan's own placements may have failed.
    pub(super) fn remember(&mut self, tables: &CellTables, plan: &Plan, now_ms: i64) {
        for unplaced in plan.unplaced.iter().filter(|unplaced| !unplaced.pinned) {
            let Some(shape) = tables.shapes.get(unplaced.shape) else { continue };
            let requirement = Requirement::of(shape, tables);
            if let Some(scope) = unplaced.no_victims {
                self.no_victims_remember(tables, unplaced.shape, &requirement, scope, now_ms);
            }
            let known = self.shapes.contains_key(&unplaced.shape);
            if known && !unplaced.gang {
                continue;
            }
            let reason = PendingReason::of(&unplaced.cause, &requirement);
            let entry = UnschedulableShape::found(shape, reason, &tables.nodes, now_ms);
            if !known && self.fits_none(tables, &requirement, now_ms) {
                self.waiting.added(&entry, HelpedBy::Capacity);
                self.shapes.insert(unplaced.shape, entry.clone());
            }
            if unplaced.gang {
                self.gang_remember(tables, unplaced, entry, plan, now_ms);
            }
        }
    }

    /// Remembers a gang that does not fit, if the plan proves it and no entry of its shape says so already.
    fn gang_remember(
        &mut self,
        tables: &CellTables,
        unplaced: &Unplaced,
        mut entry: UnschedulableShape,
        plan: &Plan,
        now_ms: i64,
    ) {
        let Some(job) = tables.jobs.get(&unplaced.job) else { return };
        let Some(shape) = tables.shapes.get(unplaced.shape) else { return };
        let scope = PreemptionScope::of_task(tables, job, u32::MAX);
        if self.parks(unplaced.shape, || scope) {
            return;
        }
        entry.uneven = !job.uniform() || shape.job.is_some();
        // If evictions may help, only a plan can tell how many members fit.
        let evicts = tables.nodes.resident.any_below(scope.bound());
        if evicts {
            entry.evicts_at_ms = now_ms.saturating_add(RETRY_MS);
        }
        if evicts && (tables.settings.fresh_start_ms > 0 || scope.queue > 0) {
            entry.retry_at(Some(entry.evicts_at_ms));
        }
        let planned = entry.uneven || evicts;
        if planned {
            // A member in back-off may be smaller, or may evict more, than those that were tried.
            let back_ms = job.back_off_next(now_ms);
            entry.retry_at(back_ms.map(|at_ms| at_ms.max(entry.evicts_at_ms)));
        }
        let by_plan = || plan.placements.is_empty() && !plan.preemption_cut;
        let by_count = || shape_copies(tables, shape, now_ms) < u64::from(job.gang_need());
        if unplaced.never || (planned && by_plan()) || (!planned && by_count()) {
            entry.shapes = gang_shapes(tables, job);
            self.waiting.added(&entry, HelpedBy::Evictions);
            self.waiting.removed(self.gangs.insert(unplaced.job, entry), HelpedBy::Evictions);
        }
    }

    /// Remembers that evictions do not help a shape, if they do not even without this plan's evictions.
    fn no_victims_remember(
        &mut self,
        tables: &CellTables,
        id: ShapeId,
        requirement: &Requirement,
        scope: PreemptionScope,
        now_ms: i64,
    ) {
        let Some(shape) = tables.shapes.get(id) else { return };
        if !scope.any() || self.no_victims_at(id, scope) {
            return;
        }
        let found = no_victims_anywhere(tables, requirement, &shape.resources, scope, now_ms);
        let Some(protected) = found else { return };
        let mut entry = UnschedulableShape::found(shape, PendingReason::FreeCapacity, &tables.nodes, now_ms);
        entry.retry_at(protected.then(|| now_ms.saturating_add(RETRY_MS)));
        self.waiting.added(&entry, HelpedBy::Evictions);
        self.waiting.removed(self.no_victims.insert((id, scope), entry), HelpedBy::Evictions);
    }

    fn fits_none(&mut self, tables: &CellTables, requirement: &Requirement, now_ms: i64) -> bool {
        let overlay = PlanOverlay::new(tables);
        let order = &tables.nodes.order;
        let found = order.iter().position(|&node| fits(&overlay, requirement, node, now_ms));
        self.checks += found.map_or(order.len(), |found| found + 1) as u64;
        found.is_none()
    }
}

/// The number of tasks of one shape that the cell can take together.
fn shape_copies(tables: &CellTables, shape: &Shape, now_ms: i64) -> u64 {
    let overlay = PlanOverlay::new(tables);
    let requirement = Requirement::of(shape, tables);
    let copies = tables.nodes.order.iter().map(|&node| copies(&overlay, &requirement, node, now_ms));
    copies.fold(0, u64::saturating_add)
}

/// What events requeue.
impl UnschedulableShapes {
    /// Requeues the shapes and gangs that changes since the last call may have helped. Returns the jobs that may be
    /// planned again.
    pub(super) fn requeue(&mut self, tables: &CellTables, now_ms: i64) -> BTreeSet<JobId> {
        let changes = TableChanges { freed: self.freed.take(), ..std::mem::take(&mut self.changes) };
        let due = || self.retry_next().is_some_and(|at_ms| at_ms <= now_ms);
        if self.count() == 0 || (changes == TableChanges::default() && !due()) {
            return BTreeSet::new();
        }
        let mut freed = FreedNodes::new(tables, &changes.freed, now_ms);
        let mut requeued = self.constrained_requeued(tables, &changes);
        requeued.extend(self.no_victims_requeued(tables, &changes, &mut freed));
        requeued.extend(self.freed_requeued(tables, &changes, &mut freed));
        requeued
    }

    /// Requeues shapes with rules between tasks, if a term of a rule changed.
    fn constrained_requeued(&mut self, tables: &CellTables, changes: &TableChanges) -> BTreeSet<JobId> {
        let moved = |rule: HardRule| {
            changes.touched.contains(&rule.term())
                || (changes.domains_changed && matches!(rule, HardRule::Skew { .. }))
        };
        let constrained = |shape: &ShapeId| {
            let job = tables.shapes.get(*shape)?.job?;
            tables.jobs.get(&job).is_some_and(|entry| entry.terms.rules().any(moved)).then_some(*shape)
        };
        let shapes: Vec<ShapeId> = self.shapes.keys().filter_map(constrained).collect();
        shapes.into_iter().flat_map(|shape| self.shape_requeued(shape)).collect()
    }

    /// Requeues shapes that evictions may help now: on a node where more could be evicted than before, or because time
    /// has passed.
    fn no_victims_requeued(
        &mut self,
        tables: &CellTables,
        changes: &TableChanges,
        freed: &mut FreedNodes<'_>,
    ) -> BTreeSet<JobId> {
        let now_ms = freed.now_ms;
        let mut may_help = |&(id, scope): &(ShapeId, PreemptionScope), entry: &UnschedulableShape| {
            let Some(shape) = tables.shapes.get(id) else { return true };
            changes.priorities_changed
                || entry.due(now_ms)
                || (shape.job.is_some() && (changes.domains_changed || !changes.touched.is_empty()))
                || freed.evictions_help(shape, scope.below)
        };
        let known = self.no_victims.iter().filter(|(id, entry)| may_help(id, entry));
        let requeued: Vec<(ShapeId, PreemptionScope)> = known.map(|(&id, _)| id).collect();
        let mut jobs = BTreeSet::new();
        for (shape, scope) in requeued {
            self.no_victims_forgotten(shape, scope);
            jobs.extend(self.unparked(shape));
        }
        jobs
    }

    /// Requeues shapes and gangs that fit a freed node, and gangs that evictions there may help.
    fn freed_requeued(
        &mut self,
        tables: &CellTables,
        changes: &TableChanges,
        freed: &mut FreedNodes<'_>,
    ) -> BTreeSet<JobId> {
        let now_ms = freed.now_ms;
        let mut fits = |id: ShapeId| tables.shapes.get(id).is_some_and(|shape| freed.fit(shape));
        let shapes = self.shapes.iter().filter(|(id, entry)| entry.due(now_ms) || fits(**id));
        let shapes: Vec<ShapeId> = shapes.map(|(&id, _)| id).collect();
        let gangs = self.gangs.iter().filter(|(job, entry)| {
            entry.due(now_ms)
                || (entry.uneven && changes.changed)
                || gang_freed(tables, **job, entry, changes, freed)
        });
        let gangs: Vec<JobId> = gangs.map(|(&job, _)| job).collect();
        self.checks += freed.checks();
        // A gang that must still wait for its next evictions is tried once that time has come.
        for entry in self.gangs.values_mut().filter(|entry| now_ms < entry.evicts_at_ms) {
            if !changes.freed.is_empty() || changes.priorities_changed {
                entry.retry_at(Some(entry.evicts_at_ms));
            }
        }
        let cooled_ms = cooled_next(&tables.nodes, changes.freed.iter().copied(), now_ms);
        let entries = self.shapes.values_mut().chain(self.gangs.values_mut());
        entries.chain(self.no_victims.values_mut()).for_each(|entry| entry.cools(cooled_ms));
        let mut requeued: BTreeSet<JobId> =
            shapes.into_iter().flat_map(|shape| self.shape_requeued(shape)).collect();
        for job in gangs {
            self.job_requeued(job);
            requeued.insert(job);
        }
        requeued
    }
}

/// The shapes of a gang's members.
fn gang_shapes(tables: &CellTables, job: &CellJob) -> Vec<Arc<Shape>> {
    job.shapes().filter_map(|shape| tables.shapes.get(shape)).cloned().collect()
}

/// Returns true if freed nodes may take a member of a gang, by evictions too.
fn gang_freed(
    tables: &CellTables,
    job: JobId,
    entry: &UnschedulableShape,
    changes: &TableChanges,
    freed: &mut FreedNodes<'_>,
) -> bool {
    let Some(job) = tables.jobs.get(&job) else { return false };
    let below = job.victims_below(u32::MAX);
    let may_evict = freed.now_ms >= entry.evicts_at_ms;
    let bound = PreemptionScope::of_task(tables, job, u32::MAX).bound();
    if may_evict && changes.priorities_changed && tables.nodes.resident.any_below(bound) {
        return true;
    }
    gang_shapes(tables, job)
        .iter()
        .any(|shape| freed.fit(shape) || (may_evict && freed.evictions_help(shape, below)))
}
