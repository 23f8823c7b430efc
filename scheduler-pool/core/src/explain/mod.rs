//! Why a task has no node: per filter how many nodes it lost, and what would fit. The filters are those of the plan.

mod evictions;
mod nearest;
mod reason;
mod text;
mod turn;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use borough_model::job::{
    Affinity, After, AfterCondition, AfterDecision, Constraint, ConstraintOperator, JobOutcome, JobState,
    after_decide,
};
use borough_model::node::{CardSelector, TaintEffect, Within};
use borough_model::resource::Dimension;
use borough_model::{JobId, JobRow, JobSpec, Name, NodeId, TaskId, TaskState};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::filter::{FilterReason, Requirement, large_enough, passes_with_time, refusals};
use crate::pending::{PendingQueue, gang_queue, task_queue};
use crate::plan::{PlanOverlay, plan};
use crate::queueing::QueueingPolicy;
use crate::seed::PLAN_SEED;
use crate::snapshot::{Shape, ShapeId, Snapshot, SnapshotJob};
use evictions::evictions_told;
pub(crate) use evictions::victims_told;
pub use evictions::{EvictionReport, VictimReport};
pub use reason::{PENDING_REASONS, PENDING_TURN};
pub use turn::Ahead;
use turn::ahead_of;
use words::filter;

/// Why a task has no node.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Reasons that lie in no node. Those that say that a gang does not fit and [`WaitReason::Turn`] are besides what
    /// nodes say; with any other nodes were not asked.
    pub waits: Vec<WaitReason>,
    /// How many nodes were asked.
    pub nodes: u32,
    /// How many of them would take the task now.
    pub nodes_fit: u32,
    /// How many of the others would take it once tasks there, or elsewhere, have ended.
    #[serde(default)]
    pub nodes_room: u32,
    /// How many nodes are large enough for it when they are empty.
    #[serde(default)]
    pub nodes_large: u32,
    /// Attributes that it asks for and that no node has.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// The others, each counted at the first filter that refuses it, in filter order.
    pub lost: Vec<FilterLoss>,
    /// Small changes that would let nodes in, the one that lets in most first.
    pub nearest: Vec<NearestFit>,
    /// What evictions can do for it, where it fits nowhere and is no gang.
    #[serde(default)]
    pub evictions: Option<EvictionReport>,
}

/// A reason to wait that lies in no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    /// There is no such job here.
    JobUnknown,
    /// The job's spec in force has not been seen yet.
    SpecUnknown,
    /// It starts after another job of the same user, which has not ended as it must.
    After {
        /// That job.
        job: Name,
        /// How it must have ended.
        condition: AfterCondition,
        /// Whether that job exists.
        known: bool,
        /// Whether it has ended otherwise, so that this one never starts.
        never: bool,
    },
    /// All jobs it starts after have ended; it is about to be let go.
    AfterMet,
    /// The job is being stopped.
    JobStopping,
    /// The job is over.
    JobEnded {
        /// How.
        outcome: JobOutcome,
    },
    /// Its queue, or one that it is in, would have more than its limit.
    QueueLimit {
        /// The queue, by its path.
        queue: String,
        /// What it has, in thousandths of the cell, by the resource of which it has most.
        share_per_mille: u32,
        /// What it may have.
        limit_per_mille: u32,
    },
    /// The job has fewer tasks than that.
    IndexBeyondCount {
        /// Its desired number of tasks.
        count: u32,
    },
    /// The task failed and is not started again before a moment.
    BackOff {
        /// Wall time, milliseconds since 1970.
        until_ms: i64,
        /// Failures in a row.
        failures: u32,
    },
    /// The task does not want a node now.
    State {
        /// Where it is in its attempt.
        state: TaskState,
        /// The node it is or was on.
        node: Option<NodeId>,
    },
    /// So many members must be placed together.
    Gang {
        /// Members that still need a node.
        needed: u32,
        /// Members that found one before the first that did not.
        fitted: u32,
    },
    /// So many members must be placed together, and not as many want a node now.
    GangMembers {
        /// Members that still need a node.
        needed: u32,
    },
    /// So many members must be placed together within so many failure domains, and none have room for them.
    GangTopology {
        /// The attribute that names the domain.
        attribute: String,
        /// Over how many domains they may stand.
        domains_max: u32,
        /// How many domains there are.
        domains: u32,
        /// Members that still need a node.
        needed: u32,
        /// The domains that have room for most of them.
        nearest: Vec<String>,
        /// For how many.
        fitted: u32,
    },
    /// Other members of its gang stand already, and the domains that it may join have no room.
    GangStands,
    /// So many members must be placed together, and the cell could hold fewer, were it empty: that never fits.
    GangNever {
        /// Members that still need a node.
        needed: u32,
        /// How many there is room for in all.
        most: u32,
    },
    /// It fits and waits for its turn.
    Turn {
        /// What has its turn before.
        ahead: Ahead,
    },
}

/// How many nodes a filter lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterLoss {
    /// The filter.
    pub filter: FilterStep,
    /// Nodes that it was the first to refuse.
    pub nodes: u32,
}

/// A filter, with what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FilterStep {
    /// The node is back after a loss and first ends what it still runs.
    Recovering,
    /// The node is lost.
    Lost,
    /// An operator keeps new tasks away from the node.
    Cordoned,
    /// An operator empties the node.
    Draining,
    /// The node has a taint that the job does not tolerate.
    Taint {
        /// Its key.
        key: String,
        /// Its value, often empty.
        value: String,
        /// What it does.
        effect: TaintEffect,
    },
    /// A hard constraint is not met.
    Constraint {
        /// It.
        constraint: Constraint,
    },
    /// A hard affinity is not met: none of the tasks to be near is there, or one to be apart from is.
    Affinity {
        /// It.
        affinity: Affinity,
    },
    /// A task that keeps apart from the tasks of this job is there.
    Kept {
        /// The attribute that names the domain.
        attribute: String,
    },
    /// The limit of a spread is reached in the node's domain, or the node is in none.
    Spread {
        /// The attribute that names the domain.
        attribute: String,
        /// How many tasks more than the emptiest domain it may have.
        max_skew: Option<u32>,
        /// How many tasks of the job it may have.
        tasks_max: Option<u32>,
    },
    /// A fixed port is taken or cools down.
    PortFixed {
        /// Its number.
        number: u16,
    },
    /// The node's range has too few free ports.
    PortsDynamic {
        /// How many are asked for.
        asked: u16,
    },
    /// The node has enough devices of a kind, but not of those that were asked for.
    Device {
        /// The kind.
        device: String,
        /// Which of them will do.
        selector: CardSelector,
    },
    /// None of the node's sockets, or NUMA domains, has room, or they are not known.
    Within {
        /// Within what it would have to stay.
        within: Within,
        /// Whether it asks for cores of its own there.
        #[serde(default)]
        exclusive_cores: bool,
    },
    /// The node is too small even when empty.
    Capacity {
        /// In this dimension.
        dimension: Dimension,
        /// How much is asked for, in the dimension's gang.
        asked: u64,
    },
    /// Too little is free on the node now.
    Free {
        /// In this dimension.
        dimension: Dimension,
        /// How much is asked for, in the dimension's gang.
        asked: u64,
    },
}

/// A small change that would let nodes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NearestFit {
    /// Asking for less of one dimension: the smallest reduction that fits anywhere.
    Resource {
        /// The dimension.
        dimension: Dimension,
        /// The most that fits, in the dimension's gang; 0: only without it.
        at_most: u64,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Asking for fewer ports.
    Ports {
        /// The most that a node has free.
        at_most: u16,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Doing without one filter: dropping the constraint or the fixed port, opening the nodes.
    Without {
        /// The filter.
        filter: FilterStep,
        /// How many nodes it then fits.
        nodes: u32,
    },
    /// Several changes at once, where none alone lets any node in: the fewest that do.
    Together {
        /// The changes.
        changes: Vec<NearestFit>,
        /// How many nodes it then fits.
        nodes: u32,
    },
}

impl Explanation {
    fn of_wait(wait: WaitReason) -> Self {
        Self { waits: vec![wait], ..Self::default() }
    }

    /// The same for a gang, of which so many members found a node.
    pub(crate) fn of_gang(self, needed: u32, fitted: u32) -> Self {
        self.of_wait_added(WaitReason::Gang { needed, fitted })
    }

    /// The same with one reason more.
    pub(crate) fn of_wait_added(mut self, wait: WaitReason) -> Self {
        self.waits.push(wait);
        self
    }
}

/// Why the tasks of a job have no nodes: those that want one, and those of a job that does not run, each class with the
/// indexes of its tasks. Empty where no task wants a node.
pub fn explain_job(snapshot: &Snapshot, job: JobId, now_ms: i64) -> Vec<(Vec<u32>, Explanation)> {
    let Some(entry) = snapshot.jobs.get(&job) else { return Vec::new() };
    let mut classes: BTreeMap<(Option<ShapeId>, i64), Vec<u32>> = BTreeMap::new();
    let mut from = 0;
    while let Some(index) = entry.open_next(from) {
        let not_before_ms = entry.task(index).map_or(0, |slot| slot.not_before_ms);
        let later_ms = if not_before_ms > now_ms { not_before_ms } else { 0 };
        classes.entry((entry.shape_of(index), later_ms)).or_default().push(index);
        from = index + 1;
    }
    let explained = |indexes: Vec<u32>| {
        let first = *indexes.first()?;
        Some((indexes, explain(snapshot, job, first, now_ms)))
    };
    classes.into_values().filter_map(explained).collect()
}

/// Why task `index` of a job has no node as of `now_ms`, or that it only waits for its turn.
pub fn explain(snapshot: &Snapshot, job: JobId, index: u32, now_ms: i64) -> Explanation {
    let Some((entry, row)) = snapshot.jobs.get(&job).and_then(|entry| Some((entry, entry.row.as_ref()?)))
    else {
        return Explanation::of_wait(WaitReason::JobUnknown);
    };
    let waits = waits(snapshot, entry, row, index, now_ms);
    if !waits.is_empty() {
        return Explanation { waits, ..Explanation::default() };
    }
    let needed = entry.gang_need();
    if needed > 0 {
        let Some(queue) = gang_queue(snapshot, job, now_ms) else {
            return Explanation::of_wait(WaitReason::GangMembers { needed });
        };
        return alone_explanation(snapshot, &queue, now_ms);
    }
    let kept = entry
        .spec_current()
        .and_then(|spec| spec.gang_topology())
        .is_some_and(|topology| !topology.preferred);
    if let Some(queue) = task_queue(snapshot, TaskId { job, index }).filter(|_| kept) {
        return alone_explanation(snapshot, &queue, now_ms);
    }
    let shape = entry.shape_of(index).and_then(|shape| snapshot.shapes.get(shape));
    let Some(shape) = shape else { return Explanation::of_wait(WaitReason::SpecUnknown) };
    let mut explanation = explanation_of_nodes(&PlanOverlay::new(snapshot), shape, now_ms);
    if explanation.nodes_fit == 0 && explanation.nodes > 0 {
        explanation.evictions =
            Some(evictions_told(snapshot, shape, snapshot.scope_of(entry, index), now_ms));
    }
    turn_added(explanation, || ahead_of(snapshot, job))
}

fn turn_added(mut explanation: Explanation, ahead: impl FnOnce() -> Ahead) -> Explanation {
    if explanation.nodes_fit > 0 || matches!(explanation.evictions, Some(EvictionReport::Help { .. })) {
        let ahead = ahead();
        explanation.waits.push(WaitReason::Turn { ahead });
    }
    explanation
}

/// What keeps a task waiting whatever the nodes.
fn waits(snapshot: &Snapshot, entry: &SnapshotJob, row: &JobRow, index: u32, now_ms: i64) -> Vec<WaitReason> {
    match row.state {
        JobState::Stopping => return vec![WaitReason::JobStopping],
        JobState::Ended { outcome } => return vec![WaitReason::JobEnded { outcome }],
        JobState::Waiting => {
            let unmet = entry.spec_current().map(|spec| after_unmet(snapshot, spec)).unwrap_or_default();
            return if unmet.is_empty() { vec![WaitReason::AfterMet] } else { unmet };
        }
        JobState::Running => {}
    }
    if index >= row.count {
        return vec![WaitReason::IndexBeyondCount { count: row.count }];
    }
    if entry.spec_current().is_none() {
        return vec![WaitReason::SpecUnknown];
    }
    let limited = || queue_limited(snapshot, entry, index).into_iter().collect();
    let Some(slot) = entry.task(index) else { return limited() };
    match slot.state {
        Some(state) if !slot.open() => vec![WaitReason::State { state, node: slot.node }],
        Some(_) if slot.not_before_ms > now_ms => {
            vec![WaitReason::BackOff { until_ms: slot.not_before_ms, failures: slot.failures }]
        }
        _ => limited(),
    }
}

/// Whether a task would take a queue beyond its limit.
fn queue_limited(snapshot: &Snapshot, entry: &SnapshotJob, index: u32) -> Option<WaitReason> {
    let queueing = &snapshot.settings.queueing;
    if queueing.policy != QueueingPolicy::Hierarchical {
        return None;
    }
    let limit =
        snapshot.shares().limited(entry.turn.as_ref()?, entry.spec_current()?.resources_for(index))?;
    let queue = queueing.queue_numbered(limit.queue)?;
    Some(WaitReason::QueueLimit {
        queue: queue.path.clone(),
        share_per_mille: u32::try_from(limit.share / 1_000).unwrap_or(u32::MAX),
        limit_per_mille: queue.limit_per_mille,
    })
}

/// The jobs that a spec's job starts after and that have not ended as they must.
pub(crate) fn after_unmet(snapshot: &Snapshot, spec: &JobSpec) -> Vec<WaitReason> {
    let unmet = |after: &After| {
        let state = snapshot.job_named(&spec.user, &after.job).map(|row| row.state);
        let alone = JobSpec { after: vec![after.clone()], ..spec.clone() };
        let decided = after_decide(&alone, |_| state);
        let wait = WaitReason::After {
            job: after.job.clone(),
            condition: after.condition,
            known: state.is_some(),
            never: matches!(decided, AfterDecision::Never(_)),
        };
        (decided != AfterDecision::Go).then_some(wait)
    };
    spec.after.iter().filter_map(unmet).collect()
}

/// Plans a gang or a task alone, as the scheduler would, and tells what became of it.
fn alone_explanation(snapshot: &Snapshot, queue: &PendingQueue, now_ms: i64) -> Explanation {
    let outcome = plan(snapshot, queue, now_ms, PLAN_SEED);
    let ahead =
        || queue.tasks.first().map(|pending| ahead_of(snapshot, pending.task.job)).unwrap_or_default();
    match outcome.unplaced.into_iter().next() {
        Some(unplaced) => unplaced.reason,
        None => Explanation::of_wait(WaitReason::Turn { ahead: ahead() }),
    }
}

/// Holds a shape against every node.
pub(crate) fn explanation_of_nodes(work: &PlanOverlay<'_>, shape: &Shape, now_ms: i64) -> Explanation {
    let requirement = Requirement::of(shape, work.snapshot);
    let mut lost: BTreeMap<FilterReason, u32> = BTreeMap::new();
    let mut nearest = nearest::Search::new(&requirement);
    let (mut nodes_fit, mut nodes_room, mut nodes_large) = (0, 0, 0);
    for &node in &work.nodes.order {
        let mut heard: SmallVec<[FilterReason; 8]> = SmallVec::new();
        let _ = refusals(work, &requirement, node, now_ms, |refusal| -> ControlFlow<()> {
            heard.push(refusal);
            ControlFlow::Continue(())
        });
        match heard.first() {
            Some(first) => *lost.entry(*first).or_default() += 1,
            None => nodes_fit += 1,
        }
        if large_enough(work, &requirement, node) {
            nodes_large += 1;
            let room = !heard.is_empty() && heard.iter().all(|refusal| passes_with_time(*refusal));
            nodes_room += u32::from(room);
        }
        nearest.node_heard(work, &requirement, node, now_ms, &heard);
    }
    let loss =
        |(refusal, nodes)| FilterLoss { filter: filter(refusal, &requirement, shape, work.snapshot), nodes };
    Explanation {
        waits: Vec::new(),
        nodes: u32::try_from(work.nodes.count()).unwrap_or(u32::MAX),
        nodes_fit,
        nodes_room,
        nodes_large,
        unknown: unknown(shape, work.snapshot),
        lost: lost.into_iter().map(loss).collect(),
        nearest: nearest.found(&requirement, shape, work.snapshot),
        evictions: None,
    }
}

/// Attributes that a shape's hard constraints, spread and affinity need and that no node has: misspelt, perhaps.
fn unknown(shape: &Shape, snapshot: &Snapshot) -> Vec<String> {
    use ConstraintOperator::{Absent, NotIn};
    let needs = |one: &&Constraint| one.preference.is_none() && !matches!(one.operator, Absent | NotIn);
    let asked = shape.constraints.iter().filter(needs).map(|one| one.attribute.as_str());
    let spec = shape.job.and_then(|job| snapshot.jobs.get(&job)?.spec_current());
    let near = |one: &&Affinity| one.preference.is_none();
    let affinity = spec.into_iter().flat_map(|spec| &spec.affinity).filter(near);
    let spread = spec.into_iter().flat_map(|spec| &spec.spread).filter(|spread| spread.is_hard());
    let domains = affinity.map(|one| one.attribute.as_str()).chain(spread.map(|one| one.attribute.as_str()));
    let nodes = &snapshot.nodes;
    let borne = |attribute: &str| {
        nodes.texts.known(attribute).is_some_and(|key| nodes.index.values_of(key).next().is_some())
    };
    let unknown: BTreeSet<&str> = asked.chain(domains).filter(|attribute| !borne(attribute)).collect();
    unknown.into_iter().map(str::to_owned).collect()
}
