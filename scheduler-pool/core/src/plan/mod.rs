//! Planning: what wants a node, in order, onto the nodes of a tables.
//!
//! The plan takes from the tables as it goes, so that its placements never promise more of a node than it has, and
//! leaves the tables itself as it is: what became of the plan is told by the journal.

mod candidates;
mod cause;
mod change;
mod charge;
mod class;
mod domain_capacity;
mod equivalence;
mod evict;
mod gang;
mod order;
mod pending;
mod score;
mod spread;
mod token;
mod topology;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::{Placement as TaskPlacement, PortAssignment, TaskEvent};
use borough_model::{GangId, Incarnation, JobId, NodeAlloc, NodeId, Resources, TaskId};

use crate::census::NodeCensus;
use crate::filter::{Requirement, ports_given};
use crate::node_order::StartOffset;
use crate::overlay::PlanOverlay;
use crate::preempt::{Evictions, PreemptionScope, Victim};
use crate::scoring::{CellStats, Scorer};
use crate::tables::{CellJob, CellTables, ShapeId};
pub use candidates::PlanCache;
use candidates::{CandidateCache, SearchContext, candidates_begun};
pub(crate) use cause::{DomainsShort, GangCause, UnplacedCause};
use change::{changes_of, task_wanted};
use charge::charge_on;
use class::{ClassContext, ClassPlan};
use equivalence::{PlanOf, plans_of};
use evict::{PlannedPreemption, PreemptionKey, ports_named};
pub use pending::{PendingClass, PendingGang, PendingQueue, PendingTask};
use spread::JobPlan;
pub use token::TermToken;
use token::{ReadDependencies, dependencies, tokens};
use topology::{DomainSetId as Kept, DomainSets, candidates_on_domain_set, on_domain_set};

/// A task given a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPlacement {
    /// The task.
    pub task: TaskId,
    /// Its node.
    pub node: NodeId,
    /// The attempt that begins.
    pub incarnation: Incarnation,
    /// Its ports, in the order of the spec.
    pub ports: Vec<PortAssignment>,
    /// What it takes of the node, with the cards and the socket or domain it has.
    pub charge: Resources,
    /// The spec version it runs.
    pub spec_version: u32,
    /// Placements with the same number here hold together or not at all.
    pub gang: Option<u32>,
    /// What it depends on besides its node: another placement that reads and writes the same cannot be committed with
    /// it on the same view of the cell.
    pub terms: Vec<TermToken>,
    /// Standing tasks that it was placed near to, one for each such rule: it holds only as long as they have not
    /// changed.
    pub dependencies: Vec<TaskId>,
    /// Whether it was held against other tasks, or against what queues have: with those it falls, and only a plan can
    /// hold it against them again.
    pub constrained: bool,
    /// Whether its share is only promised: it waits on its node until those are gone that give way to it, or leave
    /// anyway.
    pub held: bool,
    /// Tasks that give way to it.
    pub victims: Vec<Victim>,
}

impl PlannedPlacement {
    /// What happens to the task once this is committed; `gang` is the gang it is committed with, and the gang's epoch.
    pub fn event(&self, gang: Option<(GangId, u64)>) -> TaskEvent {
        let placement = TaskPlacement {
            node: self.node,
            incarnation: self.incarnation,
            ports: self.ports.clone(),
            resources: self.charge.clone(),
            spec_version: self.spec_version,
            gang,
        };
        if self.held { TaskEvent::HoldPromised(placement) } else { TaskEvent::Place(placement) }
    }
}

/// What is to be committed on a node after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node.
    pub node: NodeId,
    /// The new value; its epoch is one more than in the tables. Ports that have cooled down are left out of it.
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
    /// Why: [`crate::explain_unplaced`] says it in words.
    pub(crate) cause: UnplacedCause,
    pub(crate) shape: ShapeId,
    /// Whose places it may take, where it is known that none of them helps any more.
    pub(crate) no_victims: Option<PreemptionScope>,
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
    /// Searches that were begun again.
    pub bases_made: u64,
    /// Tasks that were looked at for victims.
    pub victims_examined: u64,
}

/// Who goes where, and who nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// In the order in which they were chosen.
    pub placements: Vec<PlannedPlacement>,
    /// The new value of each node that the placements touch, by node.
    pub changes: Vec<NodeChange>,
    /// What found no node.
    pub unplaced: Vec<Unplaced>,
    /// What deciding cost.
    pub counters: PlanCounters,
    /// Whether the search for victims was cut short: look again at once.
    pub preemption_cut: bool,
}

/// Plans a queue on a tables. Tasks that are no longer wanted (the tables has moved on since the queue was made)
/// are left out. The same tables, queue, time and seed give the same plan, whatever order the tables was filled in.
pub fn plan(tables: &CellTables, queue: &PendingQueue, now_ms: i64, seed: u64) -> Plan {
    plan_from(tables, queue, now_ms, StartOffset::whole(seed), &mut PlanCache::default())
}

/// The same from a place of one's own in the cell, and with what earlier plans of this tables have found, which
/// changes nothing but the cost.
pub fn plan_from(
    tables: &CellTables,
    queue: &PendingQueue,
    now_ms: i64,
    start_offset: StartOffset,
    cache: &mut PlanCache,
) -> Plan {
    let (plan_of, members) = plans_of(tables, queue);
    let stats = CellStats::new(tables, std::mem::take(&mut cache.mix));
    let mut planner = Planner {
        tables,
        queue,
        now_ms,
        start_offset,
        cache,
        clear: PlanOverlay::new(tables),
        work: PlanOverlay::new(tables),
        plain: JobPlan::plain(),
        jobs: BTreeMap::new(),
        bases: BTreeMap::new(),
        plans: members.iter().map(|_| None).collect(),
        plan_of,
        members,
        exhausted: BTreeMap::new(),
        unplaced_of: BTreeMap::new(),
        dependencies: ReadDependencies::new(),
        stats,
        domain_sets: DomainSets::default(),
        preemptions: BTreeMap::new(),
        evictions: Evictions::default(),
        out: Plan::default(),
    };
    planner.items();
    let Planner { mut out, bases, cache, evictions, stats, .. } = planner;
    cache.mix = stats.kept();
    cache.kept(bases.into_iter().filter(|&(id, _)| !on_domain_set(id)));
    out.counters.victims_examined = evictions.examined;
    out.changes = changes_of(tables, &out.placements, now_ms);
    out
}

struct Planner<'a, 'c> {
    tables: &'a CellTables,
    queue: &'a PendingQueue,
    now_ms: i64,
    start_offset: StartOffset,
    cache: &'c mut PlanCache,
    /// The tables as it is, but for the rules that speak of who gives way by this plan: they are held to it no
    /// longer.
    clear: PlanOverlay<'a>,
    work: PlanOverlay<'a>,
    plain: JobPlan,
    jobs: BTreeMap<JobId, JobPlan>,
    /// What was found for each shape.
    bases: BTreeMap<ShapeId, CandidateCache>,
    plans: Vec<Option<ClassPlan>>,
    plan_of: Vec<PlanOf>,
    /// Tasks per search.
    members: Vec<usize>,
    /// Shapes that fit nowhere any more, with the reason.
    exhausted: BTreeMap<ShapeId, Arc<NodeCensus>>,
    /// Where in the plan a class's unplaced tasks are.
    unplaced_of: BTreeMap<u32, usize>,
    dependencies: ReadDependencies,
    stats: CellStats<'a>,
    domain_sets: DomainSets,
    /// Searches for room by evictions.
    preemptions: BTreeMap<PreemptionKey, PlannedPreemption>,
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
        if !task_wanted(self.tables, pending.task) {
            return false;
        }
        let context = self.domain_set_alone(pending);
        let placement = self.placed(pending, context);
        let placement = placement.or_else(|| self.preempted_alone(pending, context));
        match (&placement, context) {
            (None, _) => self.unplaced(pending, context.is_some()),
            (Some(placement), Some(context)) => self.domain_set_taken(context, placement),
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
        let Some(census) = self.census(pending.class) else { return };
        let Some(class) = self.queue.classes.get(pending.class as usize) else { return };
        let gang = if kept { vec![GangCause::DomainsTaken] } else { Vec::new() };
        let never = kept && self.out.placements.is_empty() && !self.out.preemption_cut;
        self.unplaced_of.insert(pending.class, self.out.unplaced.len());
        self.out.unplaced.push(Unplaced {
            job: class.job,
            tasks: vec![pending.task.index],
            gang: never,
            never,
            cause: UnplacedCause { census, gang },
            shape: class.shape,
            no_victims: self.no_victims(pending.class),
        });
    }

    /// See [`Unplaced`].
    fn no_victims(&self, class: u32) -> Option<PreemptionScope> {
        let class = self.queue.classes.get(class as usize)?;
        let ids = [(class.shape, class.scope), (class.shape, class.scope.unclaimed())];
        ids.into_iter().any(|id| self.preemption_dry(id)).then_some(class.scope)
    }

    /// What the nodes say of a class's next task as the plan stands.
    fn census(&mut self, class: u32) -> Option<Arc<NodeCensus>> {
        let class = self.queue.classes.get(class as usize)?;
        if let Some(known) = self.exhausted.get(&class.shape) {
            return Some(Arc::clone(known));
        }
        let shape = self.tables.shapes.get(class.shape)?;
        let requirement = Requirement::of(shape, self.tables);
        let census = Arc::new(NodeCensus::of(&self.work, &requirement, self.now_ms));
        // Where tasks depend on others, those that are still to be placed may let them in.
        if shape.job.is_none() && census.fit == 0 {
            self.exhausted.insert(class.shape, Arc::clone(&census));
        }
        Some(census)
    }

    /// Changes how many tasks of a job stand in the domains of a node, where the plan follows that.
    fn domains_counted(&mut self, job: JobId, node: u32, change: impl Fn(u32) -> u32) {
        if let Some(job) = self.jobs.get_mut(&job) {
            let domains = job.domains(&self.tables.nodes, node);
            job.counted(&domains, change);
        }
    }

    /// Gives one task its node, ports and charge, or nothing; `kept` is what it is kept to.
    fn placed(&mut self, pending: PendingTask, kept: Option<Kept>) -> Option<PlannedPlacement> {
        let class = self.queue.classes.get(pending.class as usize)?;
        if self.exhausted.contains_key(&class.shape) {
            return None;
        }
        let entry = self.tables.jobs.get(&class.job)?;
        let slot = entry.task(pending.task.index);
        let avoid = slot.and_then(|slot| slot.avoided).and_then(|node| self.tables.nodes.ordinal(node));
        let node = self.chosen(pending.class, kept, avoid)?;
        let plan_of = self.plan_on(pending.class, kept)?;
        let plan = self.plans.get(plan_of.number)?.as_ref()?;
        let spec = entry.spec_current()?;
        let ports = ports_named(spec, ports_given(&self.work, &plan.requirement, node, self.now_ms))?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let terms = tokens(&self.work, &plan.requirement, node);
        let dependencies =
            dependencies(&self.work, &plan.requirement, node, &mut self.dependencies, &self.evictions);
        let asked = &self.tables.shapes.get(class.shape)?.resources;
        let (charge, demand) = charge_on(&self.work, &plan.requirement, asked, node)?;
        let constrained = !plan.requirement.rules.rules.is_empty() || !terms.is_empty();
        self.work.taken(node, &demand, &numbers);
        self.work.counted(class.job, node, true);
        self.work.held_moved(pending.task, true);
        if !plan_of.plain {
            self.domains_counted(plan_of.job, node, |count| count.saturating_add(1));
        }
        let placement = self.placement(entry, pending, node, (ports, charge))?;
        Some(PlannedPlacement { terms, dependencies, constrained, ..placement })
    }

    /// The next attempt of a task, on a node, held against no rule and at nobody's cost.
    fn placement(
        &self,
        entry: &CellJob,
        pending: PendingTask,
        node: u32,
        (ports, charge): (Vec<PortAssignment>, Resources),
    ) -> Option<PlannedPlacement> {
        let attempt = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default();
        Some(PlannedPlacement {
            task: pending.task,
            node: self.tables.nodes.id(node),
            incarnation: attempt.next(),
            ports,
            charge,
            spec_version: entry.row.as_ref()?.spec_version,
            gang: pending.gang,
            terms: Vec::new(),
            dependencies: Vec::new(),
            constrained: false,
            held: false,
            victims: Vec::new(),
        })
    }

    /// The best node of a class, whose search begins here when it is met first.
    fn chosen(&mut self, class: u32, kept: Option<Kept>, avoid: Option<u32>) -> Option<u32> {
        let PlanOf { number, plain, job, shape: id } = self.plan_on(class, kept)?;
        if !plain && !self.jobs.contains_key(&job) {
            self.jobs.insert(job, JobPlan::new(self.tables, job)?);
        }
        let slot = self.plans.get_mut(number)?;
        if slot.is_none() {
            let shape = self.domain_sets.shape(id).or_else(|| self.tables.shapes.get(id))?;
            let requirement = Requirement::of(shape, self.tables);
            self.out.counters.classes += 1;
            let members = self.members.get(number).copied().unwrap_or(1);
            *slot = Some(ClassPlan::new(requirement, members, &self.work));
        }
        let requirement = &slot.as_ref()?.requirement;
        if !self.bases.contains_key(&id) {
            let shape = self.domain_sets.shape(id).or_else(|| self.tables.shapes.get(id))?;
            let profile = shape.profile.unwrap_or(self.tables.settings.profile);
            let scorer = Arc::new(Scorer::new(profile, &self.stats, requirement));
            let mut clear = SearchContext {
                work: &self.clear,
                requirement,
                now_ms: self.now_ms,
                scorer: &scorer,
                counters: &mut self.out.counters,
            };
            let candidates = match self.domain_sets.shape(id) {
                Some(shape) => {
                    candidates_on_domain_set(shape, requirement, &self.work, self.start_offset, &scorer)
                }
                None => {
                    candidates_begun(&mut clear, &self.work, id, (self.start_offset, &scorer), self.cache)?
                }
            };
            self.bases.insert(id, candidates);
        }
        let job = if plain { &mut self.plain } else { self.jobs.get_mut(&job)? };
        let mut context = ClassContext {
            work: &self.work,
            clear: &self.clear,
            candidates: self.bases.get_mut(&id)?,
            beyond: self.start_offset.beyond,
            now_ms: self.now_ms,
            counters: &mut self.out.counters,
        };
        self.plans.get_mut(number)?.as_mut()?.chosen(&mut context, job, avoid)
    }
}
