//! Explanations: why a task has no node. They count the nodes that each filter refused, and say what would fit. The
//! filters are those of the plan.

mod after;
mod amount;
mod evictions;
mod explanation;
mod in_alloc;
mod steps;
mod text;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use borough_model::job::{
    Affinity, After, AfterDecision, Constraint, ConstraintOperator, JobOutcome, JobState, after_cycle,
    after_decide,
};
use borough_model::{JobId, JobRow, Name, TaskId};

use crate::backlog::{gang_queue, task_queue};
use crate::census::NodeCensus;
use crate::filter::{FilterReason, Requirement, refusals};
use crate::overlay::PlanOverlay;
use crate::plan::{DomainsShort, GangCause, PendingQueue, Unplaced, plan};
use crate::preempt::PreemptionScope;
use crate::queueing::QueueingPolicy;
use crate::seed::PLAN_SEED;
use crate::snapshot::Snapshot;
use crate::tables::{CellJob, CellTables, Shape, ShapeId};
use evictions::eviction_report;
pub(crate) use evictions::victim_reports;
pub use evictions::{EvictionReport, VictimReport};
pub use explanation::{AllocLeft, Explanation, FilterLoss, FilterStep, NearestFit, WaitReason};
use in_alloc::explain_in_alloc;
use steps::{filter, nearest_fit};
pub use turn::Ahead;
use turn::ahead_of;

impl From<&GangCause> for WaitReason {
    fn from(cause: &GangCause) -> Self {
        match cause {
            &GangCause::Short { needed, fitted } => Self::Gang { needed, fitted },
            GangCause::DomainsShort(short) => {
                let DomainsShort { attribute, domains_max, domains, needed, nearest, fitted } = short.clone();
                Self::GangTopology { attribute, domains_max, domains, needed, nearest, fitted }
            }
            GangCause::DomainsTaken => Self::GangStands,
            &GangCause::Never { needed, most, within } => Self::GangNever { needed, most, within },
        }
    }
}

/// Explains why a plan of these tables left tasks without a node.
pub fn explain_unplaced(tables: &CellTables, unplaced: &Unplaced) -> Explanation {
    let Some(shape) = tables.shapes.get(unplaced.shape) else {
        return Explanation::of_wait(WaitReason::SpecUnknown);
    };
    let requirement = Requirement::of(shape, tables);
    let waits = unplaced.cause.gang.iter().map(WaitReason::from).collect();
    Explanation { waits, ..of_census(&unplaced.cause.census, &requirement, shape, tables) }
}

/// Explains why tasks of a job have no node: one explanation per class, with the indexes of its tasks. A job that is
/// over has one explanation without indexes. Empty if no task of a running job wants a node.
pub fn explain_job(snapshot: &Snapshot, job: JobId, now_ms: i64) -> Vec<(Vec<u32>, Explanation)> {
    let Some(entry) = snapshot.tables().jobs.get(&job) else { return Vec::new() };
    if entry.row.as_ref().is_some_and(|row| matches!(row.state, JobState::Stopping | JobState::Ended { .. }))
    {
        return vec![(Vec::new(), explain(snapshot, job, 0, now_ms))];
    }
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
    if is_daemon(snapshot.tables(), entry) {
        return explain_daemon(snapshot.tables(), entry, classes.into_values().flatten(), now_ms);
    }
    classes.into_values().filter_map(explained).collect()
}

/// Returns true if each task of the job is for one node.
pub(crate) fn is_daemon(tables: &CellTables, entry: &CellJob) -> bool {
    entry.shape.and_then(|shape| tables.shapes.get(shape)).is_some_and(|shape| shape.daemon)
}

/// Explains the tasks of a daemon job that wait for their nodes: one explanation per first filter that refuses a task's
/// own node, over the nodes of these tasks. If the job has no task at all, it explains why no node matches.
fn explain_daemon(
    tables: &CellTables,
    entry: &CellJob,
    waiting: impl Iterator<Item = u32>,
    now_ms: i64,
) -> Vec<(Vec<u32>, Explanation)> {
    let Some(shape) = entry.shape.and_then(|shape| tables.shapes.get(shape)) else { return Vec::new() };
    let requirement = Requirement::of(shape, tables);
    let overlay = PlanOverlay::new(tables);
    let mut groups: BTreeMap<Option<FilterReason>, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    let mut backing_off = Vec::new();
    for index in waiting {
        let Some(slot) = entry.task(index) else { continue };
        if slot.not_before_ms > now_ms {
            backing_off.push(index);
            continue;
        }
        let node = slot.node_served().and_then(|node| tables.nodes.ordinal(node));
        let first = node.and_then(|node| {
            refusals(&overlay, &requirement, node, now_ms, ControlFlow::Break).break_value()
        });
        let (indexes, nodes) = groups.entry(first).or_default();
        indexes.push(index);
        nodes.extend(node);
    }
    let of_group = |(indexes, nodes): (Vec<u32>, Vec<u32>)| {
        let census = NodeCensus::of_nodes(&overlay, &requirement, now_ms, &nodes);
        let explanation = of_census(&census, &requirement, shape, tables);
        (indexes, Explanation { own_nodes: true, ..explanation })
    };
    let mut explained: Vec<_> = groups.into_values().map(of_group).collect();
    for index in backing_off {
        let Some(row) = entry.row.as_ref() else { continue };
        let waits = waits(tables, entry, row, index, now_ms);
        explained.push((vec![index], Explanation { waits, ..Explanation::default() }));
    }
    let looked = entry.row.as_ref().filter(|row| row.daemon.as_ref().is_some_and(|daemon| daemon.steps > 0));
    if explained.is_empty() && looked.is_some_and(|row| row.wanted_count() == 0) {
        explained.push((Vec::new(), explanation_of_nodes(tables, shape, now_ms)));
    }
    explained
}

/// Explains why task `index` of a job has no node as of `now_ms`, or that it only waits for its turn.
pub fn explain(snapshot: &Snapshot, job: JobId, index: u32, now_ms: i64) -> Explanation {
    let tables = snapshot.tables();
    let Some((entry, row)) = tables.jobs.get(&job).and_then(|entry| Some((entry, entry.row.as_ref()?)))
    else {
        return Explanation::of_wait(WaitReason::JobUnknown);
    };
    let waits = waits(tables, entry, row, index, now_ms);
    if !waits.is_empty() {
        return Explanation { waits, ..Explanation::default() };
    }
    let needed = entry.gang_need();
    if needed > 0 {
        let Some(queue) = gang_queue(tables, job, now_ms) else {
            return Explanation::of_wait(WaitReason::GangMembers { needed });
        };
        return alone_explanation(snapshot, &queue, now_ms);
    }
    let restricted = entry
        .spec_current()
        .and_then(|spec| spec.gang_topology())
        .is_some_and(|topology| !topology.preferred);
    if let Some(queue) = task_queue(tables, TaskId { job, index }).filter(|_| restricted) {
        return alone_explanation(snapshot, &queue, now_ms);
    }
    if let Some(set) = row.alloc_set() {
        return explain_in_alloc(snapshot, TaskId { job, index }, set, now_ms);
    }
    if is_daemon(tables, entry) {
        let explained = explain_daemon(tables, entry, std::iter::once(index), now_ms).into_iter().next();
        return explained.map_or_else(Explanation::default, |(_, explanation)| explanation);
    }
    let shape = entry.shape_of(index).and_then(|shape| tables.shapes.get(shape));
    let Some(shape) = shape else { return Explanation::of_wait(WaitReason::SpecUnknown) };
    let mut explanation = explanation_of_nodes(tables, shape, now_ms);
    if explanation.nodes_fit == 0 && explanation.nodes > 0 {
        explanation.evictions =
            Some(eviction_report(tables, shape, PreemptionScope::of_task(tables, entry, index), now_ms));
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

/// The reasons to wait that do not depend on nodes.
fn waits(tables: &CellTables, entry: &CellJob, row: &JobRow, index: u32, now_ms: i64) -> Vec<WaitReason> {
    match row.state {
        JobState::Stopping => return vec![WaitReason::JobStopping],
        JobState::Ended { outcome: JobOutcome::DependencyFailed } => {
            let mut failed = after_unmet(tables, &row.user, afters_of(entry));
            failed.retain(|wait| matches!(wait, WaitReason::After { never: true, .. }));
            let outcome = JobOutcome::DependencyFailed;
            return if failed.is_empty() { vec![WaitReason::JobEnded { outcome }] } else { failed };
        }
        JobState::Ended { outcome } => return vec![WaitReason::JobEnded { outcome }],
        JobState::Waiting => {
            let waits_for = |name: &Name| match tables.job_named(&row.user, name) {
                Some(waiting) if waiting.state == JobState::Waiting => {
                    let entry = tables.jobs.get(&waiting.id);
                    entry.map(|entry| afters_of(entry).iter().map(|after| after.job.clone()).collect())
                }
                _ => None,
            };
            if let Some(cycle) = after_cycle(&row.name, |name| waits_for(name).unwrap_or_default()) {
                return vec![WaitReason::AfterCycle { cycle }];
            }
            let unmet = after_unmet(tables, &row.user, afters_of(entry));
            return if unmet.is_empty() { vec![WaitReason::AfterMet] } else { unmet };
        }
        JobState::Running => {}
    }
    if index >= row.count {
        return vec![WaitReason::IndexBeyondCount { count: row.count }];
    }
    if entry.spec_of_task(index).is_none() {
        return vec![WaitReason::SpecUnknown];
    }
    let limited = || queue_limited(tables, entry, index).into_iter().collect();
    let Some(slot) = entry.task(index) else { return limited() };
    match slot.state {
        Some(state) if !slot.open() => vec![WaitReason::State { state, node: slot.node }],
        Some(_) if slot.not_before_ms > now_ms => {
            vec![WaitReason::BackOff { until_ms: slot.not_before_ms, failures: slot.failures }]
        }
        _ => limited(),
    }
}

/// The limit of a queue that a task would exceed.
fn queue_limited(tables: &CellTables, entry: &CellJob, index: u32) -> Option<WaitReason> {
    let queueing = &tables.settings.queueing;
    if queueing.policy != QueueingPolicy::Hierarchical {
        return None;
    }
    let limit =
        tables.shares().limited(entry.turn.as_ref()?, entry.spec_of_task(index)?.resources_for(index))?;
    let queue = queueing.queue_numbered(limit.queue)?;
    Some(WaitReason::QueueLimit {
        queue: queue.path.clone(),
        share_per_mille: u32::try_from(limit.share / 1_000).unwrap_or(u32::MAX),
        limit_per_mille: queue.limit_per_mille,
    })
}

/// The jobs that a job starts after, and that have not ended as they must.
pub(crate) fn after_unmet(tables: &CellTables, user: &Name, afters: &[After]) -> Vec<WaitReason> {
    let unmet = |after: &After| {
        let other = tables.job_named(user, &after.job);
        let state = other.map(|row| row.state);
        let other = other.and_then(|row| tables.jobs.get(&row.id)?.spec_current());
        let decided = after_decide(std::slice::from_ref(after), |_| state);
        let wait = WaitReason::After {
            job: after.job.clone(),
            condition: after.condition,
            known: state.is_some(),
            never: matches!(decided, AfterDecision::Never(_)),
            endless: other.is_some_and(|spec| spec.is_endless),
        };
        (decided != AfterDecision::Go).then_some(wait)
    };
    afters.iter().filter_map(unmet).collect()
}

/// What a job starts after, by its spec.
fn afters_of(entry: &CellJob) -> &[After] {
    entry.spec_current().map(|spec| spec.after.as_slice()).unwrap_or_default()
}

/// Plans a gang or a task alone, as the scheduler would, and explains the outcome.
fn alone_explanation(snapshot: &Snapshot, queue: &PendingQueue, now_ms: i64) -> Explanation {
    let outcome = plan(snapshot.tables(), queue, now_ms, PLAN_SEED);
    let ahead =
        || queue.tasks.first().map(|pending| ahead_of(snapshot, pending.task.job)).unwrap_or_default();
    match outcome.unplaced.into_iter().next() {
        Some(unplaced) => explain_unplaced(snapshot.tables(), &unplaced),
        None => Explanation::of_wait(WaitReason::Turn { ahead: ahead() }),
    }
}

/// Explains a shape by a census of all nodes.
fn explanation_of_nodes(tables: &CellTables, shape: &Shape, now_ms: i64) -> Explanation {
    let requirement = Requirement::of(shape, tables);
    let census = NodeCensus::of(&PlanOverlay::new(tables), &requirement, now_ms);
    of_census(&census, &requirement, shape, tables)
}

/// An explanation from a census.
fn of_census(
    census: &NodeCensus,
    requirement: &Requirement,
    shape: &Shape,
    tables: &CellTables,
) -> Explanation {
    let loss = |(&refusal, &nodes)| FilterLoss { filter: filter(refusal, requirement, shape, tables), nodes };
    let near = |miss| nearest_fit(miss, requirement, shape, tables);
    Explanation {
        waits: Vec::new(),
        elsewhere: false,
        own_nodes: false,
        nodes: census.nodes,
        nodes_fit: census.fit,
        nodes_room: census.fit_later,
        nodes_large: census.large,
        unknown: unknown(shape, tables),
        lost: census.refused.iter().map(loss).collect(),
        nearest: census.nearest.iter().map(near).collect(),
        evictions: None,
    }
}

/// Attributes that a shape's hard constraints, spread and affinity need and that no node has. They may be misspelt.
fn unknown(shape: &Shape, tables: &CellTables) -> Vec<String> {
    use ConstraintOperator::{Absent, NotIn};
    let needs = |one: &&Constraint| one.preference.is_none() && !matches!(one.operator, Absent | NotIn);
    let asked = shape.constraints.iter().filter(needs).map(|one| one.attribute.as_str());
    let spec = shape.job.and_then(|job| tables.jobs.get(&job)?.spec_current());
    let near = |one: &&Affinity| one.preference.is_none();
    let affinity = spec.into_iter().flat_map(|spec| &spec.affinity).filter(near);
    let spread = spec.into_iter().flat_map(|spec| &spec.spread).filter(|spread| spread.is_hard());
    let domains = affinity.map(|one| one.attribute.as_str()).chain(spread.map(|one| one.attribute.as_str()));
    let nodes = &tables.nodes;
    let borne = |attribute: &str| {
        nodes.texts.known(attribute).is_some_and(|key| nodes.index.values_of(key).next().is_some())
    };
    let unknown: BTreeSet<&str> = asked.chain(domains).filter(|attribute| !borne(attribute)).collect();
    unknown.into_iter().map(str::to_owned).collect()
}
