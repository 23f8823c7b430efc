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
mod domain_set;
mod equivalence;
mod evict;
mod gang;
mod order;
mod pending;
mod refusal;
mod score;
mod search;
mod spread;
mod token;
mod topology;
mod turn;

use std::sync::Arc;

use borough_model::task::{Placement as TaskPlacement, PortAssignment, TaskEvent};
use borough_model::{GangId, Incarnation, JobId, NodeAlloc, NodeId, Resources, TaskId};

use crate::census::NodeCensus;
use crate::filter::ports_given;
use crate::node_order::StartOffset;
use crate::overlay::PlanOverlay;
use crate::preempt::{PreemptionScope, Victim};
use crate::tables::{CellTables, ShapeId};
pub use candidates::PlanCache;
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

/// Plans a queue on the tables of a cell. Tasks that are no longer wanted (the tables have moved on since the queue was
/// made) are left out. The same tables, queue, time and seed give the same plan, in whatever order the tables were
/// filled.
pub fn plan(tables: &CellTables, queue: &PendingQueue, now_ms: i64, seed: u64) -> Plan {
    plan_from(tables, queue, now_ms, StartOffset::whole(seed), &mut PlanCache::default())
}

/// The same from a start offset of the worker's own, and with what earlier plans of these tables have found. That changes
/// nothing but the cost.
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
        overlays: PlanOverlays { clear: PlanOverlay::new(tables), work: PlanOverlay::new(tables) },
        searches: ClassSearches::new(input, cache),
        preemptions: Preemptions::default(),
        gang_domains: GangDomains::default(),
        refusals: Refusals::default(),
        dependencies: ReadDependencies::new(),
        placements: Vec::new(),
        preemption_cut: false,
    };
    planner.items();
    let Planner { searches, preemptions, refusals, placements, preemption_cut, .. } = planner;
    let counters = PlanCounters { victims_examined: preemptions.evictions.examined, ..searches.finish() };
    let changes = changes_of(tables, &placements, now_ms);
    Plan { placements, changes, unplaced: refusals.unplaced, counters, preemption_cut }
}

/// What a plan is made of.
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

/// What a plan has taken so far.
struct PlanOverlays<'a> {
    /// Everything.
    work: PlanOverlay<'a>,
    /// Only those who give way, for the rules that speak of them: nobody is held to them any longer.
    clear: PlanOverlay<'a>,
}

impl PlanOverlays<'_> {
    /// A task has a place, or has one no longer.
    fn task_counted(&mut self, task: TaskId, node: u32, more: bool) {
        self.work.counted(task.job, node, more);
        self.work.held_moved(task, more);
    }

    /// A victim has left its place, or has it after all.
    fn victim_counted(&mut self, victim: &Victim, node: u32, more: bool) {
        self.task_counted(victim.task, node, more);
        self.clear.counted(victim.task.job, node, more);
    }
}

/// Goes through the queue. Each part owns what it finds out.
struct Planner<'a, 'c> {
    input: PlanInput<'a>,
    overlays: PlanOverlays<'a>,
    searches: ClassSearches<'a, 'c>,
    preemptions: Preemptions,
    gang_domains: GangDomains,
    refusals: Refusals,
    dependencies: ReadDependencies,
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

    /// Notes a task that was not placed; the others of its gang may say in which domains it must be.
    fn refused(&mut self, pending: PendingTask, domain_set: Option<DomainSetId>) {
        if self.refusals.joined(pending) {
            return;
        }
        let Some(&class) = self.input.class(pending) else { return };
        let Some(census) = self.census(pending) else { return };
        let kept = domain_set.is_some();
        let causes = if kept { vec![GangCause::DomainsTaken] } else { Vec::new() };
        let never = kept && self.placements.is_empty() && !self.preemption_cut;
        let no_victims = self.preemptions.none_left(&class);
        self.refusals.refused(pending, class, Refusal { census, causes, gang: never, never, no_victims });
    }

    /// What the nodes say of a task as the plan stands.
    fn census(&mut self, pending: PendingTask) -> Option<Arc<NodeCensus>> {
        let shape = self.input.class(pending)?.shape;
        self.refusals.census(self.input, &self.overlays.work, shape)
    }

    /// Gives one task its node, ports and charge, in a domain set or anywhere, or nothing.
    fn placed(&mut self, pending: PendingTask, domain_set: Option<DomainSetId>) -> Option<PlannedPlacement> {
        let tables = self.input.tables;
        let class = self.input.class(pending)?;
        if self.refusals.exhausted(class.shape) {
            return None;
        }
        let entry = tables.jobs.get(&class.job)?;
        let slot = entry.task(pending.task.index);
        let avoid = slot.and_then(|slot| slot.avoided).and_then(|node| tables.nodes.ordinal(node));
        let plan_of = self.searches.plan_of(pending.class, domain_set)?;
        let node = self.searches.chosen(&self.overlays, plan_of, avoid)?;
        let requirement = self.searches.requirement(plan_of)?;
        let work = &mut self.overlays.work;
        let ports =
            ports_named(entry.spec_current()?, ports_given(work, requirement, node, self.input.now_ms))?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        let terms = tokens(work, requirement, node);
        let evictions = &self.preemptions.evictions;
        let dependencies = dependencies(work, requirement, node, &mut self.dependencies, evictions);
        let asked = &tables.shapes.get(class.shape)?.resources;
        let (charge, demand) = charge_on(work, requirement, asked, node)?;
        let constrained = !requirement.rules.rules.is_empty() || !terms.is_empty();
        work.taken(node, &demand, &numbers);
        self.overlays.task_counted(pending.task, node, true);
        if !plan_of.plain {
            self.searches.task_added(plan_of.job, node);
        }
        let placement = placement_new(tables, pending, node)?;
        Some(PlannedPlacement { ports, charge, terms, dependencies, constrained, ..placement })
    }

    /// Lets every search begin again that may have seen what is no longer so.
    fn searches_void(&mut self) {
        self.overlays.work.generation += 1;
        self.refusals.void();
        self.searches.void();
    }
}

/// The next attempt of a task, on a node, with nothing of it yet, held against no rule and at nobody's cost.
fn placement_new(tables: &CellTables, pending: PendingTask, node: u32) -> Option<PlannedPlacement> {
    let entry = tables.jobs.get(&pending.task.job)?;
    let attempt = entry.task(pending.task.index).map(|slot| slot.incarnation).unwrap_or_default();
    Some(PlannedPlacement {
        task: pending.task,
        node: tables.nodes.id(node),
        incarnation: attempt.next(),
        ports: Vec::new(),
        charge: Resources::default(),
        spec_version: entry.row.as_ref()?.spec_version,
        gang: pending.gang,
        terms: Vec::new(),
        dependencies: Vec::new(),
        constrained: false,
        held: false,
        victims: Vec::new(),
    })
}
