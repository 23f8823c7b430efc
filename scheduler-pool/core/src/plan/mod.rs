//! Planning: chooses nodes for pending tasks, in order.
//!
//! A plan charges each placement to its overlay, so that it never promises more of a node than the node has. It does
//! not change the tables. The journal later reports what became of the plan.

mod cache;
mod candidates;
mod cause;
mod change;
mod charge;
mod class;
mod domain_capacity;
mod domain_set;
mod equivalence;
mod evict;
mod gang;
mod in_alloc;
mod order;
mod pending;
mod pinned;
mod refusal;
mod score;
mod search;
mod spread;
mod token;
mod topology;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::{InAlloc, Placement as TaskPlacement, PortAssignment, TaskEvent};
use borough_model::{GangId, Incarnation, JobId, NodeAlloc, NodeId, Resources, TaskId};

use crate::census::NodeCensus;
use crate::count::CountChange;
use crate::filter::{Requirement, ports_given};
use crate::node_order::StartOffset;
use crate::overlay::PlanOverlay;
use crate::preempt::{Evictions, PreemptionScope, Victim};
use crate::tables::{AllocsGiven, CellTables, ShapeId};
pub use cache::PlanCache;
pub(crate) use cause::{DomainsShort, GangCause, UnplacedCause};
use change::{changes_of, task_wanted};
use charge::charge_on;
use domain_set::DomainSetId;
use evict::{Preemptions, ports_named};
pub use pending::{PendingClass, PendingGang, PendingQueue, PendingTask};
use refusal::{Refusal, Refusals};
use search::ClassSearches;
pub use token::TermToken;
use token::{ReadDependencies, dependencies, tokens};
use topology::GangDomains;

/// A task with the node that the plan chose for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPlacement {
    /// The task that is placed.
    pub task: TaskId,
    /// The node that it is placed on.
    pub node: NodeId,
    /// The attempt that begins.
    pub incarnation: Incarnation,
    /// Its ports, in the order of the spec.
    pub ports: Vec<PortAssignment>,
    /// What it takes of the node, with its cards and its socket or NUMA domain.
    pub charge: Resources,
    /// The spec version it runs.
    pub spec_version: u32,
    /// Placements with the same number are committed together or not at all.
    pub gang: Option<u32>,
    /// What it depends on besides its node. Two placements with the same token cannot both be committed from the same
    /// view of the cell.
    pub terms: Vec<TermToken>,
    /// Resident tasks that it was placed near, one for each such rule. It is valid only while they have not changed.
    pub dependencies: Vec<TaskId>,
    /// True if it depends on rules between tasks or on the shares of queues. Then only a new plan can check it again
    /// after a conflict.
    pub constrained: bool,
    /// True if its share is only promised. It waits on its node until its victims, or other leaving tasks, have gone.
    pub held: bool,
    /// The tasks that are evicted for it.
    pub victims: Vec<Victim>,
    /// Its place in an alloc, if its job is in an alloc set. It takes no resources of the node then.
    pub alloc: Option<Box<InAlloc>>,
}

impl PlannedPlacement {
    /// The event of the task once this is committed. `gang` is the gang it is committed with, and the gang's epoch.
    pub fn event(&self, gang: Option<(GangId, u64)>) -> TaskEvent {
        let placement = TaskPlacement {
            node: self.node,
            incarnation: self.incarnation,
            ports: self.ports.clone(),
            resources: self.charge.clone(),
            spec_version: self.spec_version,
            gang,
            alloc: self.alloc.clone(),
        };
        if self.held { TaskEvent::HoldPromised(placement) } else { TaskEvent::Place(placement) }
    }
}

/// The new allocation of a node after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node that placements touch.
    pub node: NodeId,
    /// The new allocation. Its epoch is one more than in the tables. It leaves out ports that have cooled down.
    pub alloc: NodeAlloc,
}

/// Tasks of one class that the plan did not place, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The job of the tasks.
    pub job: JobId,
    /// The indexes of the tasks in their job.
    pub tasks: Vec<u32>,
    /// True if they had to be placed together, and some of them would have fitted.
    pub gang: bool,
    /// True if they would not fit even if the plan had placed nothing.
    pub never: bool,
    /// The cause. [`crate::explain_unplaced`] turns it into an explanation.
    pub(crate) cause: UnplacedCause,
    pub(crate) shape: ShapeId,
    /// The scope of its class, if no eviction in that scope helps any more.
    pub(crate) no_victims: Option<PreemptionScope>,
    /// True if each of them is for one node, which does not take it now.
    pub(crate) pinned: bool,
}

/// What the plan cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PlanCounters {
    /// Nodes that filters checked.
    pub nodes_examined: u64,
    /// Nodes that were scored. Divided by the placements, the scored nodes per decision.
    pub nodes_scored: u64,
    /// Planned classes. Jobs with equal requests and without rules between their tasks are one class.
    pub classes: u64,
    /// Searches that continued the search of an earlier plan.
    pub searches_reused: u64,
    /// Searches that began with nothing.
    pub searches_begun: u64,
    /// Tasks that victim searches examined.
    pub victims_examined: u64,
}

/// The decisions for one batch of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// The placements in the order in which they were chosen.
    pub placements: Vec<PlannedPlacement>,
    /// The new allocation of each node that the placements touch, by node.
    pub changes: Vec<NodeChange>,
    /// The tasks that found no node.
    pub unplaced: Vec<Unplaced>,
    /// What the plan cost.
    pub counters: PlanCounters,
    /// True if the search for victims was cut short. The worker plans again at once.
    pub preemption_cut: bool,
}

impl Plan {
    /// Returns true if each placement depends on its own task, job and node only: on no rule between tasks, no gang and
    /// no eviction.
    pub fn is_independent(&self) -> bool {
        self.placements.iter().all(|placement| {
            let alone = placement.gang.is_none() && placement.terms.is_empty() && !placement.constrained;
            alone && placement.dependencies.is_empty() && !placement.held && placement.victims.is_empty()
        })
    }
}

/// Plans a queue on the tables of a cell. It leaves out tasks that no longer want a node, because the tables may be
/// newer than the queue. The same tables, queue, time and seed give the same plan, in whatever order the tables were
/// filled.
pub fn plan(tables: &CellTables, queue: &PendingQueue, now_ms: i64, seed: u64) -> Plan {
    plan_from(tables, queue, now_ms, StartOffset::undivided(seed), &mut PlanCache::default())
}

/// The same with the worker's own start offset, and with the findings of earlier plans of these tables. The cache
/// changes only what the plan costs.
pub fn plan_from(
    tables: &CellTables,
    queue: &PendingQueue,
    now_ms: i64,
    start_offset: StartOffset,
    cache: &mut PlanCache,
) -> Plan {
    let input = PlanInput { tables, queue, now_ms, start_offset };
    let mut planner = Planner {
        input,
        overlays: PlanOverlays {
            without_placements: PlanOverlay::new(tables),
            current: PlanOverlay::new(tables),
        },
        searches: ClassSearches::new(input, cache),
        preemptions: Preemptions::default(),
        gang_domains: GangDomains::default(),
        refusals: Refusals::default(),
        dependencies: ReadDependencies::new(),
        pinned: BTreeMap::new(),
        in_allocs: AllocsGiven::new(),
        placements: Vec::new(),
        preemption_cut: false,
    };
    planner.items();
    let Planner { searches, preemptions, refusals, placements, preemption_cut, .. } = planner;
    let counters = PlanCounters { victims_examined: preemptions.evictions.examined, ..searches.finish() };
    let changes = changes_of(tables, &placements, now_ms);
    Plan { placements, changes, unplaced: refusals.unplaced, counters, preemption_cut }
}

/// The input of a plan.
#[derive(Clone, Copy)]
struct PlanInput<'a> {
    tables: &'a CellTables,
    queue: &'a PendingQueue,
    now_ms: i64,
    start_offset: StartOffset,
}

impl<'a> PlanInput<'a> {
    fn class(self, pending: PendingTask) -> Option<&'a PendingClass> {
        self.queue.classes.get(pending.class as usize)
    }
}

/// The two overlays of a plan.
struct PlanOverlays<'a> {
    /// Everything that the plan has taken.
    current: PlanOverlay<'a>,
    /// Evictions only, in the terms. Candidate caches use it: it shows the tables without placements, and victims no
    /// longer count in any rule.
    without_placements: PlanOverlay<'a>,
}

impl PlanOverlays<'_> {
    /// Counts a task that gets its place, or loses it.
    fn task_counted(&mut self, task: TaskId, node: u32, change: CountChange) {
        self.current.count(task.job, node, change);
        self.current.held_change(task, change);
    }

    /// Counts a victim that leaves its place, or gets it back.
    fn victim_counted(&mut self, victim: &Victim, node: u32, change: CountChange) {
        self.task_counted(victim.task, node, change);
        self.without_placements.count(victim.task.job, node, change);
    }
}

/// Goes through the queue. Each part owns its own findings.
struct Planner<'a, 'c> {
    input: PlanInput<'a>,
    overlays: PlanOverlays<'a>,
    searches: ClassSearches<'a, 'c>,
    preemptions: Preemptions,
    gang_domains: GangDomains,
    refusals: Refusals,
    dependencies: ReadDependencies,
    /// What the tasks of daemon jobs, and those in allocs, ask of their nodes.
    pinned: BTreeMap<ShapeId, Arc<Requirement>>,
    /// What the plan has given out of each alloc.
    in_allocs: AllocsGiven,
    placements: Vec<PlannedPlacement>,
    preemption_cut: bool,
}

impl Planner<'_, '_> {
    fn item(&mut self, item: &[PendingTask]) -> bool {
        match item {
            [single] if single.gang.is_none() => self.single(*single),
            gang => self.gang(gang),
        }
    }

    fn single(&mut self, pending: PendingTask) -> bool {
        if !task_wanted(self.input.tables, pending.task) {
            return false;
        }
        if self.is_pinned(pending) {
            return self.pinned(pending);
        }
        if let Some(set) = self.alloc_set(pending) {
            return self.in_alloc(pending, set);
        }
        let domain_set = self.domain_set_alone(pending);
        let placement = self.placed(pending, domain_set);
        let Some(placement) = placement.or_else(|| self.preempted_alone(pending, domain_set)) else {
            self.refused(pending, domain_set);
            return false;
        };
        if let Some(key) = domain_set.and_then(|domain_set| self.searches.domain_sets.key(domain_set)) {
            self.gang_domains.task_placed(self.input.tables, &placement, key);
        }
        self.placements.push(placement);
        true
    }

    /// Records a task that was not placed. The placed members of its gang may restrict it to their domains.
    fn refused(&mut self, pending: PendingTask, domain_set: Option<DomainSetId>) {
        if self.refusals.joined(pending) {
            return;
        }
        let Some(&class) = self.input.class(pending) else { return };
        let Some(census) = self.census(pending) else { return };
        let restricted = domain_set.is_some();
        let causes = if restricted { vec![GangCause::DomainsTaken] } else { Vec::new() };
        let never = restricted && self.placements.is_empty() && !self.preemption_cut;
        let no_victims = self.preemptions.none_left(&class);
        self.refusals.refused(
            pending,
            class,
            Refusal { census, causes, gang: never, never, no_victims, pinned: false },
        );
    }

    /// The census of the nodes for a task, as the plan has left them.
    fn census(&mut self, pending: PendingTask) -> Option<Arc<NodeCensus>> {
        let shape = self.input.class(pending)?.shape;
        self.refusals.census(self.input, &self.overlays.current, shape)
    }

    /// Places one task in a domain set or anywhere: chooses its node, ports and charge. `None` if it fits nowhere.
    fn placed(&mut self, pending: PendingTask, domain_set: Option<DomainSetId>) -> Option<PlannedPlacement> {
        let tables = self.input.tables;
        let class = self.input.class(pending)?;
        if self.refusals.exhausted(class.shape) {
            return None;
        }
        let entry = tables.jobs.get(&class.job)?;
        let slot = entry.task(pending.task.index);
        let avoid = slot.and_then(|slot| slot.avoided).and_then(|node| tables.nodes.ordinal(node));
        let search_key = self.searches.search_key(pending.class, domain_set)?;
        let node = self.searches.chosen(&self.overlays, search_key, avoid)?;
        let requirement = self.searches.requirement(search_key)?;
        let evictions = &self.preemptions.evictions;
        let (overlays, dependencies) = (&mut self.overlays, &mut self.dependencies);
        let placement =
            placement_on(self.input, overlays, dependencies, evictions, pending, requirement, node)?;
        if !search_key.domains_alike {
            self.searches.task_added(search_key.job, node);
        }
        Some(placement)
    }

    /// Voids every search that may rely on something that has changed back.
    fn searches_void(&mut self) {
        self.overlays.current.generation += 1;
        self.refusals.void();
        self.searches.void();
    }
}

/// Places a task on a node that takes it, with its ports and its charge.
fn placement_on(
    input: PlanInput<'_>,
    overlays: &mut PlanOverlays<'_>,
    read: &mut ReadDependencies,
    evictions: &Evictions,
    pending: PendingTask,
    requirement: &Requirement,
    node: u32,
) -> Option<PlannedPlacement> {
    let tables = input.tables;
    let class = input.class(pending)?;
    let entry = tables.jobs.get(&class.job)?;
    let overlay = &mut overlays.current;
    let given = ports_given(overlay, requirement, node, input.now_ms);
    let ports = ports_named(entry.spec_of_task(pending.task.index)?, given)?;
    let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
    let terms = tokens(overlay, requirement, node);
    let dependencies = dependencies(overlay, requirement, node, read, evictions);
    let asked = &tables.shapes.get(class.shape)?.resources;
    let (charge, demand) = charge_on(overlay, requirement, asked, node)?;
    let constrained = !requirement.rules.rules.is_empty() || !terms.is_empty();
    overlay.taken(node, &demand, &numbers);
    overlays.task_counted(pending.task, node, CountChange::Add);
    let placement = placement_new(tables, pending, node)?;
    Some(PlannedPlacement { ports, charge, terms, dependencies, constrained, ..placement })
}

/// The next attempt of a task on a node, still without ports, charge, rules and victims.
fn placement_new(tables: &CellTables, pending: PendingTask, node: u32) -> Option<PlannedPlacement> {
    let entry = tables.jobs.get(&pending.task.job)?;
    let attempt = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default();
    Some(PlannedPlacement {
        task: pending.task,
        node: tables.nodes.id(node),
        incarnation: attempt.next(),
        ports: Vec::new(),
        charge: Resources::default(),
        spec_version: entry.row.as_ref()?.version_of(pending.task.index),
        gang: pending.gang,
        terms: Vec::new(),
        dependencies: Vec::new(),
        constrained: false,
        held: false,
        victims: Vec::new(),
        alloc: None,
    })
}
