//! Work that fits nowhere: remembered per shape (and per gang), so that it costs next to nothing while it waits, and
//! woken by the events that could help it: a node that came, opened, changed or gave something back, or a port that
//! cooled down.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::{JobId, Resources};

use super::{HardRule, NodeTable, Shape, ShapeId, Snapshot, TermId};
use crate::filter::{Requirement, copies, fits};
use crate::plan::{Plan, PlanOverlay, Unplaced};
use crate::preempt::{
    Evictions, NodeAnswer, PreemptionRequest, PreemptionScope, RETRY_MS, TASKS_EXAMINED_MAX, helps_nowhere,
    offer_of,
};

/// After so many checks of helped nodes against blocked shapes, what they have room for is woken unchecked.
const CHECKS_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
struct UnschedulableShape {
    /// Whether ports are asked for.
    ports: bool,
    /// Whether any change may help: a gang whose members differ may fit by chance with less room.
    uneven: bool,
    /// A port that is cooling now may help from this time on, milliseconds since 1970.
    retry_at_ms: Option<i64>,
    /// Before this time evictions are not tried for it again, milliseconds since 1970: each attempt of a gang looks at
    /// many tasks, and one that needs more than there is would be woken by every end of a task.
    evicts_at_ms: i64,
    /// Why, in one word.
    reason: &'static str,
}

impl UnschedulableShape {
    /// Takes in that ports will have cooled down at a time.
    fn cools(&mut self, at_ms: Option<i64>) {
        if self.ports {
            self.retry_at_ms = self.retry_at_ms.into_iter().chain(at_ms).min();
        }
    }
}

/// What has changed since the last look at what fits nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct News {
    /// Nodes that may help.
    freed: BTreeSet<u32>,
    /// Terms whose counts have changed.
    touched: BTreeSet<TermId>,
    /// Whether anything has changed on any node.
    changed: bool,
    /// Whether a node came, went or changed what it is.
    domains_changed: bool,
    /// Whether jobs have other priorities.
    priorities_changed: bool,
}

impl News {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What fits nowhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnschedulableShapes {
    shapes: BTreeMap<ShapeId, UnschedulableShape>,
    gangs: BTreeMap<JobId, UnschedulableShape>,
    /// Shapes that no eviction helps either, with those whose places they may take.
    no_victims: BTreeMap<(ShapeId, PreemptionScope), UnschedulableShape>,
    /// Jobs taken out of the open ones, since all they want is blocked.
    parked: BTreeSet<JobId>,
    parked_under: BTreeMap<ShapeId, BTreeSet<JobId>>,
    news: News,
    /// Nodes that were held against what fits nowhere, in all.
    checks: u64,
}

impl UnschedulableShapes {
    fn news_take(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Notes that something has changed on a node.
    pub fn changed(&mut self) {
        self.news.changed = true;
    }

    /// Notes that a node came, went or changed what it is: other domains may be the emptiest.
    pub fn domains_changed(&mut self) {
        self.news.domains_changed = true;
    }

    /// Notes that the counts of a term have changed.
    pub fn term_touched(&mut self, term: TermId) {
        self.news.changed = true;
        if self.count() > 0 {
            self.news.touched.insert(term);
        }
    }

    /// Notes a node that may help.
    pub fn freed(&mut self, node: u32) {
        self.news.changed = true;
        if !self.shapes.is_empty() || !self.gangs.is_empty() || !self.no_victims.is_empty() {
            self.news.freed.insert(node);
        }
    }

    /// Notes a node of which a task is on its way out: evictions may help there now.
    pub fn leaves(&mut self, node: u32) {
        if !self.no_victims.is_empty() || !self.gangs.is_empty() {
            self.news.freed.insert(node);
        }
    }

    /// How many shapes and gangs are known to fit nowhere.
    pub fn count(&self) -> usize {
        self.shapes.len() + self.gangs.len() + self.no_victims.len()
    }

    /// When a port that is cooling now may help next, milliseconds since 1970.
    pub fn retry_next(&self) -> Option<i64> {
        let blocks = self.shapes.values().chain(self.gangs.values()).chain(self.no_victims.values());
        blocks.filter_map(|block| block.retry_at_ms).min()
    }

    /// Whether a task of a shape, with those whose places it may take, has nothing to try: it fits nowhere, and
    /// evictions help as little. What helps nobody helps nobody of lower priority either.
    pub fn sleeps(&self, shape: ShapeId, scope: impl FnOnce() -> PreemptionScope) -> bool {
        if !self.shape_unschedulable(shape) {
            return false;
        }
        let scope = scope();
        !scope.any() || self.no_victims_at(shape, scope)
    }

    fn no_victims_at(&self, shape: ShapeId, scope: PreemptionScope) -> bool {
        let from = (shape, PreemptionScope { below: scope.below, ..PreemptionScope::default() });
        let known = self.no_victims.range(from..).take_while(|((known, _), _)| *known == shape);
        known.into_iter().any(|((_, known), _)| scope.within(*known))
    }

    /// Nothing is known any more of what evictions can do for tasks and gangs: priorities have changed.
    pub fn no_victims_forgotten(&mut self) {
        self.news.priorities_changed |= !self.no_victims.is_empty() || !self.gangs.is_empty();
    }

    pub fn shape_unschedulable(&self, shape: ShapeId) -> bool {
        self.shapes.contains_key(&shape)
    }

    /// Why a shape fits nowhere, in one word.
    pub fn shape_reason(&self, shape: ShapeId) -> Option<&'static str> {
        self.shapes.get(&shape).map(|block| block.reason)
    }

    /// Why a job's gang fits nowhere, in one word.
    pub fn gang_reason(&self, job: JobId) -> Option<&'static str> {
        self.gangs.get(&job).map(|block| block.reason)
    }

    pub fn gang_unschedulable(&self, job: JobId) -> bool {
        self.gangs.contains_key(&job)
    }

    /// Jobs of which nothing that they want can be placed.
    pub fn parked_jobs(&self) -> impl Iterator<Item = JobId> {
        self.parked.iter().copied()
    }

    pub fn parked(&self, job: JobId) -> bool {
        self.parked.contains(&job)
    }

    /// A job has changed: whatever was found out about it is void.
    pub fn job_requeued(&mut self, job: JobId) {
        self.gangs.remove(&job);
        if self.parked.remove(&job) {
            self.parked_under.values_mut().for_each(|jobs| {
                jobs.remove(&job);
            });
        }
    }

    /// A shape's number is free for another one.
    pub fn shape_forgotten(&mut self, shape: ShapeId) {
        self.shapes.remove(&shape);
        self.no_victims.retain(|&(known, _), _| known != shape);
        self.parked_under.remove(&shape);
    }

    /// Evictions may help a shape after all: whoever waits for that is looked at again.
    fn no_victims_requeued(&mut self, (shape, scope): (ShapeId, PreemptionScope)) -> BTreeSet<JobId> {
        self.no_victims.remove(&(shape, scope));
        let jobs = self.parked_under.remove(&shape).unwrap_or_default();
        for job in &jobs {
            self.parked.remove(job);
        }
        jobs
    }

    pub fn shape_requeued(&mut self, shape: ShapeId) -> BTreeSet<JobId> {
        self.shapes.remove(&shape);
        let jobs = self.parked_under.remove(&shape).unwrap_or_default();
        for job in &jobs {
            self.parked.remove(job);
        }
        jobs
    }
}

/// The first time after `now_ms` at which a port of one of the nodes has cooled down.
fn cooled_next(nodes: &NodeTable, among: impl Iterator<Item = u32>, now_ms: i64) -> Option<i64> {
    let ports = among.filter_map(|node| nodes.ports(node));
    let cooling = ports.flat_map(|ports| ports.cooling.iter().map(|&(_, until_ms)| until_ms));
    cooling.filter(|&until_ms| until_ms > now_ms).min()
}

impl Snapshot {
    /// Remembers what a plan found to fit nowhere. To be called after each plan, once what became of its placements has
    /// been applied. What the plan could not place is looked at once more, since its own placements may have failed.
    pub fn remember(&mut self, plan: &Plan, now_ms: i64) {
        for unplaced in &plan.unplaced {
            let Some(shape) = self.shapes.get(unplaced.shape).cloned() else { continue };
            if let Some(scope) = unplaced.no_victims {
                self.no_victims_remember(unplaced.shape, &shape, scope, now_ms);
            }
            let mut block = UnschedulableShape {
                ports: shape.ports_any(),
                uneven: false,
                retry_at_ms: None,
                evicts_at_ms: 0,
                reason: unplaced.reason.reason(),
            };
            if block.ports {
                block.cools(cooled_next(&self.nodes, self.nodes.order.iter().copied(), now_ms));
            }
            if !self.unschedulable.shape_unschedulable(unplaced.shape) && self.shape_fits_none(&shape, now_ms)
            {
                self.unschedulable.shapes.insert(unplaced.shape, block.clone());
            }
            if unplaced.gang {
                self.gang_remember(unplaced, &shape, block, plan, now_ms);
            }
        }
    }

    /// Remembers that a gang does not fit, where the plan shows it and nothing that is known of its shape says so.
    fn gang_remember(
        &mut self,
        unplaced: &Unplaced,
        shape: &Shape,
        mut block: UnschedulableShape,
        plan: &Plan,
        now_ms: i64,
    ) {
        let Some(entry) = self.jobs.get(&unplaced.job) else { return };
        let scope = self.scope_of(entry, u32::MAX);
        if self.unschedulable.sleeps(unplaced.shape, || scope) {
            return;
        }
        block.uneven = !entry.uniform() || shape.job.is_some();
        // Where evictions may help, only a plan knows how many members.
        let evicts = self.nodes.resident.any_below(scope.bound());
        if evicts {
            block.evicts_at_ms = now_ms.saturating_add(RETRY_MS);
        }
        if evicts && (self.settings.fresh_start_ms > 0 || scope.queue > 0) {
            block.retry_at_ms = block.retry_at_ms.into_iter().chain([block.evicts_at_ms]).min();
        }
        let planned = block.uneven || evicts;
        let fails = unplaced.never
            || match planned {
                true => plan.placements.is_empty() && !plan.preemption_cut,
                false => self.shape_room(shape, now_ms) < u64::from(entry.gang_need()),
            };
        if fails {
            self.unschedulable.gangs.insert(unplaced.job, block);
        }
    }

    /// Remembers that evictions do not help a shape, if that is so without the plan's own.
    fn no_victims_remember(&mut self, id: ShapeId, shape: &Shape, scope: PreemptionScope, now_ms: i64) {
        if !scope.any() || self.unschedulable.no_victims_at(id, scope) {
            return;
        }
        let requirement = Requirement::of(shape, self);
        let Some(protected) = helps_nowhere(self, (&requirement, &shape.resources), scope, now_ms) else {
            return;
        };
        let retry_at_ms = protected.then(|| now_ms.saturating_add(RETRY_MS));
        let mut block = UnschedulableShape {
            ports: shape.ports_any(),
            uneven: false,
            retry_at_ms,
            evicts_at_ms: 0,
            reason: "room",
        };
        if block.ports {
            block.cools(cooled_next(&self.nodes, self.nodes.order.iter().copied(), now_ms));
        }
        self.unschedulable.no_victims.insert((id, scope), block);
    }

    /// How many tasks of one shape fit the cell together.
    fn shape_room(&self, shape: &Shape, now_ms: i64) -> u64 {
        let work = PlanOverlay::new(self);
        let requirement = Requirement::of(shape, self);
        let copies = self.nodes.order.iter().map(|&node| copies(&work, &requirement, node, now_ms));
        copies.fold(0, u64::saturating_add)
    }

    fn shape_fits_none(&mut self, shape: &Shape, now_ms: i64) -> bool {
        let work = PlanOverlay::new(self);
        let requirement = Requirement::of(shape, self);
        let found = self.nodes.order.iter().position(|&node| fits(&work, &requirement, node, now_ms));
        let checks = found.map_or(self.nodes.order.len(), |found| found + 1);
        self.unschedulable.checks += checks as u64;
        found.is_none()
    }

    /// Nodes that were held, in all, against work that fits nowhere: what its waiting costs.
    pub fn waiting_checks(&self) -> u64 {
        self.unschedulable.checks
    }

    /// Takes a job out of the open ones, since all it wants is blocked under these shapes.
    pub(crate) fn park(&mut self, job: JobId, shapes: impl Iterator<Item = ShapeId>) {
        for shape in shapes {
            self.unschedulable.parked_under.entry(shape).or_default().insert(job);
        }
        self.unschedulable.parked.insert(job);
        self.open_update(job);
    }

    /// Wakes what the events since the last call may have helped.
    pub(crate) fn requeue(&mut self, now_ms: i64) {
        let news = self.unschedulable.news_take();
        if self.unschedulable.count() == 0 {
            return;
        }
        let due = self.unschedulable.retry_next().is_some_and(|at_ms| at_ms <= now_ms);
        if !due && news.is_empty() {
            return;
        }
        let mut requeued = self.constrained_requeued_by(&news);
        requeued.extend(self.no_victims_requeued_by(&news, now_ms));
        requeued.extend(self.requeued_by(&news, now_ms));
        for job in requeued {
            self.open_update(job);
        }
    }

    /// Wakes what evictions may help by now: on a node where more could go than before, or since time has passed.
    fn no_victims_requeued_by(&mut self, news: &News, now_ms: i64) -> BTreeSet<JobId> {
        let News { freed, touched, domains_changed, priorities_changed, .. } = news;
        let may_help = |&(id, scope): &(ShapeId, PreemptionScope), block: &UnschedulableShape| {
            let Some(shape) = self.shapes.get(id) else { return true };
            *priorities_changed
                || block.retry_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
                || (shape.job.is_some() && (*domains_changed || !touched.is_empty()))
                || self.evictions_help(shape, scope.below, freed, now_ms)
        };
        let no_victims = self.unschedulable.no_victims.iter();
        let requeued: Vec<(ShapeId, PreemptionScope)> =
            no_victims.filter(|(id, block)| may_help(id, block)).map(|(&id, _)| id).collect();
        requeued.into_iter().flat_map(|id| self.unschedulable.no_victims_requeued(id)).collect()
    }

    /// Whether evictions below a priority on one of some nodes would make room.
    fn evictions_help(&self, shape: &Shape, below: u32, among: &BTreeSet<u32>, now_ms: i64) -> bool {
        if below == 0 || among.is_empty() {
            return false;
        }
        let requirement = Requirement::of(shape, self);
        let (mut work, mut evictions) = (PlanOverlay::new(self), Evictions::default());
        let fresh_ms = self.settings.fresh_start_ms();
        let ask = PreemptionRequest { requirement: &requirement, below, claim: None, now_ms, fresh_ms };
        among.iter().any(|&node| {
            let answer = offer_of(&mut work, &mut evictions, &ask, node);
            evictions.examined > TASKS_EXAMINED_MAX || !matches!(answer, NodeAnswer::Never)
        })
    }

    /// Wakes shapes that are held against other tasks, where those have moved.
    fn constrained_requeued_by(&mut self, news: &News) -> BTreeSet<JobId> {
        let moved = |rule: HardRule| {
            news.touched.contains(&rule.term())
                || (news.domains_changed && matches!(rule, HardRule::Skew { .. }))
        };
        let constrained = |shape: &ShapeId| {
            let job = self.shapes.get(*shape)?.job?;
            self.jobs.get(&job).is_some_and(|entry| entry.terms.rules().any(moved)).then_some(*shape)
        };
        let shapes: Vec<ShapeId> = self.unschedulable.shapes.keys().filter_map(constrained).collect();
        shapes.into_iter().flat_map(|shape| self.unschedulable.shape_requeued(shape)).collect()
    }

    /// Wakes what fits by now where something has changed, and gangs that evictions may help since.
    fn requeued_by(&mut self, news: &News, now_ms: i64) -> BTreeSet<JobId> {
        let &News { ref freed, changed, priorities_changed, .. } = news;
        let work = PlanOverlay::new(self);
        let checks = Cell::new(0);
        let most = self.nodes.room_most(freed.iter().copied());
        let helps = |shape: Option<&Arc<Shape>>| {
            let roomy = |shape: &&Arc<Shape>| {
                let Resources { cpu_millis, memory_bytes, .. } = &shape.resources;
                !freed.is_empty() && *cpu_millis <= most.cpu_millis && *memory_bytes <= most.memory_bytes
            };
            let Some(shape) = shape.filter(roomy) else { return false };
            if checks.get() > CHECKS_MAX {
                return true;
            }
            let requirement = Requirement::of(shape, self);
            let found = freed.iter().position(|&node| fits(&work, &requirement, node, now_ms));
            checks.set(checks.get() + found.map_or(freed.len(), |found| found + 1));
            found.is_some()
        };
        let due = |block: &UnschedulableShape| block.retry_at_ms.is_some_and(|at| at <= now_ms);
        let shapes = self.unschedulable.shapes.iter();
        let shapes: Vec<ShapeId> = shapes
            .filter(|(shape, block)| due(block) || helps(self.shapes.get(**shape)))
            .map(|(&shape, _)| shape)
            .collect();
        let gang_freed = |job: &JobId, block: &UnschedulableShape| {
            let entry = self.jobs.get(job);
            let below = entry.map_or(0, |entry| entry.victims_below(u32::MAX));
            let shapes = entry.into_iter().flat_map(|entry| entry.shapes());
            let evicts = |shape: ShapeId| {
                let shape = self.shapes.get(shape);
                shape.is_some_and(|shape| self.evictions_help(shape, below, freed, now_ms))
            };
            let may_evict = now_ms >= block.evicts_at_ms;
            let bound = entry.map_or(0, |entry| self.scope_of(entry, u32::MAX).bound());
            if may_evict && priorities_changed && self.nodes.resident.any_below(bound) {
                return true;
            }
            shapes.into_iter().any(|shape| helps(self.shapes.get(shape)) || (may_evict && evicts(shape)))
        };
        let gangs = self.unschedulable.gangs.iter();
        let gangs: Vec<JobId> = gangs
            .filter(|(job, block)| due(block) || (block.uneven && changed) || gang_freed(job, block))
            .map(|(&job, _)| job)
            .collect();
        // What was not tried since it is too soon is tried when it no longer is.
        for block in self.unschedulable.gangs.values_mut().filter(|block| now_ms < block.evicts_at_ms) {
            if !freed.is_empty() || priorities_changed {
                block.retry_at_ms = block.retry_at_ms.into_iter().chain([block.evicts_at_ms]).min();
            }
        }
        let cooled_ms = cooled_next(&self.nodes, freed.iter().copied(), now_ms);
        self.unschedulable.checks += checks.get() as u64;
        let blocks = self.unschedulable.shapes.values_mut().chain(self.unschedulable.gangs.values_mut());
        let blocks = blocks.chain(self.unschedulable.no_victims.values_mut());
        blocks.for_each(|block| block.cools(cooled_ms));
        let mut requeued = BTreeSet::new();
        for shape in shapes {
            requeued.extend(self.unschedulable.shape_requeued(shape));
        }
        for job in gangs {
            self.unschedulable.job_requeued(job);
            requeued.insert(job);
        }
        requeued
    }
}
