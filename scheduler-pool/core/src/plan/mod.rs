//! Planning: what wants a node, in order, onto the nodes of a snapshot.
//!
//! The plan takes from the snapshot as it goes, so that its placements never promise more of a node than it has, and
//! leaves the snapshot itself as it is: what became of the plan is told by the journal.

mod base;
mod change;
mod charge;
mod class;
mod evict;
mod gang;
mod held;
mod kin;
mod order;
mod places;
mod room;
mod score;
mod search;
mod spread;
mod together;
mod token;
mod turn;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::{Placement as TaskPlacement, PortAssignment, TaskEvent};
use borough_model::{Incarnation, JobId, NodeAlloc, NodeId, Resources, TaskId, UnitId};

use crate::explain::{Explanation, Wait, explanation_of_nodes};
use crate::filter::{Requirement, ports_given};
use crate::pending::{PendingQueue, PendingTask};
use crate::preempt::{Evictions, Reach, Victim};
use crate::scoring::{Figures, Judge};
use crate::snapshot::{JobEntry, ShapeId, Snapshot};
pub use base::PlanCache;
use base::{Base, Clear, base_begun};
use change::{changes_of, task_wanted};
use charge::charge_on;
use class::{ClassPlan, Ground};
use evict::{Making, MakingId, ports_named};
use kin::{PlanOf, plans_of};
pub(crate) use search::Search;
pub use search::Vantage;
use spread::JobPlan;
use together::{Ground as Kept, Grounds, base_on_ground, on_ground};
pub use token::TermToken;
pub(crate) use token::operator_number;
use token::{Witnesses, tokens, witnesses};
pub(crate) use work::Work;

/// A task given a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The task.
    pub task: TaskId,
    /// Its node.
    pub node: NodeId,
    /// The life that begins.
    pub incarnation: Incarnation,
    /// Its ports, in the order of the spec.
    pub ports: Vec<PortAssignment>,
    /// What it takes of the node, with the cards and the socket or domain it has.
    pub charge: Resources,
    /// The spec version it runs.
    pub spec_version: u32,
    /// Placements with the same number here hold together or not at all.
    pub gang: Option<u32>,
    /// What it depends on besides its node: another placement that reads and writes the same cannot be committed with it
    /// on the same view of the cell.
    pub terms: Vec<TermToken>,
    /// Standing tasks that it was placed near to, one for each such rule: it holds only as long as they have not changed.
    pub witnesses: Vec<TaskId>,
    /// Whether it was held against other tasks, or against what queues have: with those it falls, and only a plan can hold it
    /// against them again.
    pub ruled: bool,
    /// Whether its share is only promised: it waits on its node until those are gone that give way to it, or leave anyway.
    pub held: bool,
    /// Tasks that give way to it.
    pub victims: Vec<Victim>,
}

impl Placement {
    /// What happens to the task once this is committed; `unit` is the gang it is committed with, and the gang's epoch.
    pub fn event(&self, unit: Option<(UnitId, u64)>) -> TaskEvent {
        let placement = TaskPlacement {
            node: self.node,
            incarnation: self.incarnation,
            ports: self.ports.clone(),
            resources: self.charge.clone(),
            spec_version: self.spec_version,
            unit,
        };
        if self.held { TaskEvent::HoldPromised(placement) } else { TaskEvent::Place(placement) }
    }
}

/// What is to be committed on a node after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node.
    pub node: NodeId,
    /// The new value; its epoch is one more than in the snapshot. Ports that have cooled down are left out of it.
    pub alloc: NodeAlloc,
}

/// Tasks of a class that found no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Their job.
    pub job: JobId,
    /// Their indexes.
    pub tasks: Vec<u32>,
    /// Whether they were to be placed together, and some of them would have fitted.
    pub gang: bool,
    /// Whether that would be so were nothing of this plan placed.
    pub never: bool,
    /// Why.
    pub reason: Explanation,
    pub(crate) shape: ShapeId,
    /// Whose places it may take, where it is known that none of them helps any more.
    pub(crate) helpless: Option<Reach>,
}

/// What deciding cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PlanCounters {
    /// Nodes held against the filters.
    pub nodes_examined: u64,
    /// Nodes scored; divided by the placements, the nodes scored per decision.
    pub nodes_scored: u64,
    /// Classes planned: jobs whose tasks ask the same, and are not held against their siblings, are one.
    pub classes: u64,
    /// Searches that went on where an earlier plan's had ended.
    pub bases_kept: u64,
    /// Searches that were begun anew.
    pub bases_made: u64,
    /// Tasks that were looked at for victims.
    pub victims_examined: u64,
}

/// Who goes where, and who nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// In the order in which they were chosen.
    pub placements: Vec<Placement>,
    /// The new value of each node that the placements touch, by node.
    pub changes: Vec<NodeChange>,
    /// What found no node.
    pub unplaced: Vec<Unplaced>,
    /// What deciding cost.
    pub counters: PlanCounters,
    /// Whether the search for victims was cut short: look again at once.
    pub preemption_cut: bool,
}

/// Plans a queue on a snapshot. Tasks that are no longer wanted (the snapshot has moved on since the queue was made) are
/// left out. The same snapshot, queue, time and seed give the same plan, whatever order the snapshot was filled in.
pub fn plan(snapshot: &Snapshot, queue: &PendingQueue, now_ms: i64, seed: u64) -> Plan {
    plan_from(snapshot, queue, now_ms, Vantage::whole(seed), &mut PlanCache::default())
}

/// The same from a place of one's own in the cell, and with what earlier plans of this snapshot have found, which changes
/// nothing but the cost.
pub fn plan_from(
    snapshot: &Snapshot,
    queue: &PendingQueue,
    now_ms: i64,
    vantage: Vantage,
    cache: &mut PlanCache,
) -> Plan {
    let (plan_of, members) = plans_of(snapshot, queue);
    let figures = Figures::new(snapshot, std::mem::take(&mut cache.mix));
    let mut planner = Planner {
        snapshot,
        queue,
        now_ms,
        vantage,
        cache,
        clear: Work::new(snapshot),
        work: Work::new(snapshot),
        plain: JobPlan::plain(),
        jobs: BTreeMap::new(),
        bases: BTreeMap::new(),
        plans: members.iter().map(|_| None).collect(),
        plan_of,
        members,
        exhausted: BTreeMap::new(),
        unplaced_of: BTreeMap::new(),
        witnesses: Witnesses::new(),
        figures,
        grounds: Grounds::default(),
        makings: BTreeMap::new(),
        evictions: Evictions::default(),
        out: Plan::default(),
    };
    planner.items();
    let Planner { mut out, bases, cache, evictions, figures, .. } = planner;
    cache.mix = figures.kept();
    cache.kept(bases.into_iter().filter(|&(id, _)| !on_ground(id)));
    out.counters.victims_examined = evictions.examined;
    out.changes = changes_of(snapshot, &out.placements, now_ms);
    out
}

struct Planner<'a, 'c> {
    snapshot: &'a Snapshot,
    queue: &'a PendingQueue,
    now_ms: i64,
    vantage: Vantage,
    cache: &'c mut PlanCache,
    /// The snapshot as it is, but for the rules that speak of who gives way by this plan: they are held to it no longer.
    clear: Work<'a>,
    work: Work<'a>,
    plain: JobPlan,
    jobs: BTreeMap<JobId, JobPlan>,
    /// What was found for each shape.
    bases: BTreeMap<ShapeId, Base>,
    plans: Vec<Option<ClassPlan>>,
    plan_of: Vec<PlanOf>,
    /// Tasks per search.
    members: Vec<usize>,
    /// Shapes that fit nowhere any more, with the reason.
    exhausted: BTreeMap<ShapeId, Explanation>,
    /// Where in the plan a class's unplaced tasks are.
    unplaced_of: BTreeMap<u32, usize>,
    witnesses: Witnesses,
    figures: Figures<'a>,
    grounds: Grounds,
    /// Searches for room by evictions.
    makings: BTreeMap<MakingId, Making>,
    evictions: Evictions,
    out: Plan,
}

impl Planner<'_, '_> {
    fn item(&mut self, item: &[PendingTask]) -> bool {
        match item {
            [single] if single.gang.is_none() => self.single(*single),
            gang => self.gang(gang),
        }
    }

    fn single(&mut self, pending: PendingTask) -> bool {
        if !task_wanted(self.snapshot, pending.task) {
            return false;
        }
        let ground = self.ground_alone(pending);
        let placement = self.placed(pending, ground);
        let placement = placement.or_else(|| self.preempted_alone(pending, ground));
        match (&placement, ground) {
            (None, _) => self.unplaced(pending, ground.is_some()),
            (Some(placement), Some(ground)) => self.ground_taken(ground, placement),
            (Some(_), None) => {}
        }
        let placed = placement.is_some();
        self.out.placements.extend(placement);
        placed
    }

    /// Notes a task that was not placed; `kept` where others of its gang say where it may stand.
    fn unplaced(&mut self, pending: PendingTask, kept: bool) {
        if let Some(position) = self.unplaced_of.get(&pending.class) {
            if let Some(unplaced) = self.out.unplaced.get_mut(*position) {
                unplaced.tasks.push(pending.task.index);
            }
            return;
        }
        let Some(mut reason) = self.reason(pending.class) else { return };
        let Some(class) = self.queue.classes.get(pending.class as usize) else { return };
        if kept {
            reason = reason.of_wait_added(Wait::GangStands);
        }
        let never = kept && self.out.placements.is_empty() && !self.out.preemption_cut;
        self.unplaced_of.insert(pending.class, self.out.unplaced.len());
        self.out.unplaced.push(Unplaced {
            job: class.job,
            tasks: vec![pending.task.index],
            gang: never,
            never,
            reason,
            shape: class.shape,
            helpless: self.helpless(pending.class),
        });
    }

    /// See [`Unplaced`].
    fn helpless(&self, class: u32) -> Option<Reach> {
        let class = self.queue.classes.get(class as usize)?;
        let ids = [(class.shape, class.reach), (class.shape, class.reach.unclaimed())];
        ids.into_iter().any(|id| self.preemption_dry(id)).then_some(class.reach)
    }

    /// Why a class's next task fits nowhere as the plan stands.
    fn reason(&mut self, class: u32) -> Option<Explanation> {
        let class = self.queue.classes.get(class as usize)?;
        if let Some(known) = self.exhausted.get(&class.shape) {
            return Some(known.clone());
        }
        let shape = self.snapshot.shapes.get(class.shape)?;
        let reason = explanation_of_nodes(&self.work, shape, self.now_ms);
        // Where tasks depend on others, those that are still to be placed may let them in.
        if shape.job.is_none() && reason.nodes_fit == 0 {
            self.exhausted.insert(class.shape, reason.clone());
        }
        Some(reason)
    }

    /// Changes how many tasks of a job stand in the domains of a node, where the plan follows that.
    fn domains_counted(&mut self, job: JobId, node: u32, change: impl Fn(u32) -> u32) {
        if let Some(job) = self.jobs.get_mut(&job) {
            let domains = job.domains(&self.snapshot.nodes, node);
            job.counted(&domains, change);
        }
    }

    /// Gives one task its node, ports and charge, or nothing; `kept` is what it is kept to.
    fn placed(&mut self, pending: PendingTask, kept: Option<Kept>) -> Option<Placement> {
        let class = self.queue.classes.get(pending.class as usize)?;
        if self.exhausted.contains_key(&class.shape) {
            return None;
        }
        let entry = self.snapshot.jobs.get(&class.job)?;
        let slot = entry.task(pending.task.index);
        let avoid = slot.and_then(|slot| slot.avoided).and_then(|node| self.snapshot.nodes.ordinal(node));
        let node = self.chosen(pending.class, kept, avoid)?;
        let plan_of = self.plan_on(pending.class, kept)?;
        let plan = self.plans.get(plan_of.number)?.as_ref()?;
        let spec = entry.spec_current()?;
        let ports = ports_named(spec, ports_given(&self.work, &plan.requirement, node, self.now_ms))?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let terms = tokens(&self.work, &plan.requirement, node);
        let witnesses = witnesses(&self.work, &plan.requirement, node, &mut self.witnesses, &self.evictions);
        let asked = &self.snapshot.shapes.get(class.shape)?.resources;
        let (charge, demand) = charge_on(&self.work, &plan.requirement, asked, node)?;
        let ruled = !plan.requirement.rules.rules.is_empty() || !terms.is_empty();
        self.work.taken(node, &demand, &numbers);
        self.work.counted(class.job, node, true);
        self.work.held_moved(pending.task, true);
        if !plan_of.plain {
            self.domains_counted(plan_of.job, node, |count| count.saturating_add(1));
        }
        let placement = self.placement(entry, pending, node, (ports, charge))?;
        Some(Placement { terms, witnesses, ruled, ..placement })
    }

    /// The next life of a task, on a node, held against no rule and at nobody's cost.
    fn placement(
        &self,
        entry: &JobEntry,
        pending: PendingTask,
        node: u32,
        (ports, charge): (Vec<PortAssignment>, Resources),
    ) -> Option<Placement> {
        let life = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default();
        Some(Placement {
            task: pending.task,
            node: self.snapshot.nodes.id(node),
            incarnation: life.next(),
            ports,
            charge,
            spec_version: entry.row.as_ref()?.spec_version,
            gang: pending.gang,
            terms: Vec::new(),
            witnesses: Vec::new(),
            ruled: false,
            held: false,
            victims: Vec::new(),
        })
    }

    /// The best node of a class, whose search begins here when it is met first.
    fn chosen(&mut self, class: u32, kept: Option<Kept>, avoid: Option<u32>) -> Option<u32> {
        let PlanOf { number, plain, job, shape: id } = self.plan_on(class, kept)?;
        if !plain && !self.jobs.contains_key(&job) {
            self.jobs.insert(job, JobPlan::new(self.snapshot, job)?);
        }
        let slot = self.plans.get_mut(number)?;
        if slot.is_none() {
            let shape = self.grounds.shape(id).or_else(|| self.snapshot.shapes.get(id))?;
            let requirement = Requirement::of(shape, self.snapshot);
            self.out.counters.classes += 1;
            let members = self.members.get(number).copied().unwrap_or(1);
            *slot = Some(ClassPlan::new(requirement, members, &self.work));
        }
        let requirement = &slot.as_ref()?.requirement;
        if !self.bases.contains_key(&id) {
            let shape = self.grounds.shape(id).or_else(|| self.snapshot.shapes.get(id))?;
            let profile = shape.profile.unwrap_or(self.snapshot.settings.profile);
            let judge = Arc::new(Judge::new(profile, &self.figures, requirement));
            let mut clear = Clear {
                work: &self.clear,
                requirement,
                now_ms: self.now_ms,
                judge: &judge,
                counters: &mut self.out.counters,
            };
            let base = match self.grounds.shape(id) {
                Some(shape) => base_on_ground(shape, requirement, &self.work, self.vantage, &judge),
                None => base_begun(&mut clear, &self.work, id, (self.vantage, &judge), self.cache)?,
            };
            self.bases.insert(id, base);
        }
        let job = if plain { &mut self.plain } else { self.jobs.get_mut(&job)? };
        let mut ground = Ground {
            work: &self.work,
            clear: &self.clear,
            base: self.bases.get_mut(&id)?,
            beyond: self.vantage.beyond,
            now_ms: self.now_ms,
            counters: &mut self.out.counters,
        };
        self.plans.get_mut(number)?.as_mut()?.chosen(&mut ground, job, avoid)
    }
}
