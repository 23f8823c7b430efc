//! What would happen to a job if it were submitted now, by the code that makes it happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::job::JobState;
use borough_model::{JobId, JobRow, JobSpec, Name, NodeId, RequestId};

use crate::explain::{Wait, after_unmet};
use crate::pending::pending;
use crate::plan::{Plan, PlanCounters, Unplaced, plan};
use crate::seed::PLAN_SEED;
use crate::snapshot::Snapshot;

/// Tasks planned at once.
const BATCH_TASKS: usize = 1000;

/// What would happen to a job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DryRun {
    /// Reasons for which nothing of it is placed yet.
    pub waits: Vec<Wait>,
    /// The nodes that tasks go to, by name.
    pub placements: Vec<DryRunNode>,
    /// Tasks that find no node now, with the reason.
    pub unplaced: Vec<Unplaced>,
    /// Tasks that have a node already and keep it.
    pub kept: u32,
    /// Tasks that end, since their index is no longer wanted.
    pub ended: u32,
    /// What deciding cost, other jobs' tasks ahead of it included.
    pub counters: PlanCounters,
}

/// Tasks that go to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunNode {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// The tasks' indexes, ascending.
    pub tasks: Vec<u32>,
}

/// What would happen if this job were submitted now (or, where its user has a job of that name that has not ended, if
/// that job were given this spec): everything that waits is planned with it, in its order, as the scheduler would. The
/// snapshot stays as it is.
pub fn dry_run(snapshot: &Snapshot, spec: &JobSpec, now_ms: i64) -> DryRun {
    let mut overlay = snapshot.clone();
    let (job, row) = row_supposed(snapshot, spec, now_ms);
    let tasks = || snapshot.tasks(job).filter(|task| task.node.is_some());
    let standing = |wanted: bool| {
        let has_node = |task: &crate::TaskView| (task.id.index < spec.count) == wanted && !task.state_open();
        u32::try_from(tasks().filter(has_node).count()).unwrap_or(u32::MAX)
    };
    let mut outcome = DryRun { kept: standing(true), ended: standing(false), ..DryRun::default() };
    if row.state == JobState::Waiting {
        outcome.waits = after_unmet(snapshot, spec);
    }
    overlay.job_upsert(&row, Some(Arc::new(spec.clone())));
    let mut placed: BTreeMap<u32, NodeId> = BTreeMap::new();
    batches(&mut overlay, job, now_ms, |plan| {
        let own = plan.placements.iter().filter(|placement| placement.task.job == job);
        placed.extend(own.map(|placement| (placement.task.index, placement.node)));
        outcome.unplaced.extend(plan.unplaced.iter().filter(|unplaced| unplaced.job == job).cloned());
        counters_added(&mut outcome.counters, &plan.counters);
    });
    outcome.unplaced = unplaced_last(outcome.unplaced, &placed);
    outcome.placements = by_node(snapshot, &placed);
    outcome
}

/// The row that the submission would write, under an id that no job has.
fn row_supposed(snapshot: &Snapshot, spec: &JobSpec, now_ms: i64) -> (JobId, JobRow) {
    let known = snapshot.job_named(&spec.user, &spec.name);
    if let Some(known) = known.filter(|row| !matches!(row.state, JobState::Ended { .. })) {
        let same = snapshot.job_spec(known.id).is_some_and(|before| {
            let counted = JobSpec { count: spec.count, priority: spec.priority, ..(**before).clone() };
            counted == *spec
        });
        let row = JobRow {
            count: spec.count,
            priority: spec.priority,
            spec_version: if same { known.spec_version } else { known.spec_version.saturating_add(1) },
            revision: known.revision.saturating_add(1),
            changed_ms: now_ms,
            ..known.clone()
        };
        return (known.id, row);
    }
    let mut id = JobId(u64::MAX);
    while snapshot.job(id).is_some() {
        id = JobId(id.0.wrapping_sub(1));
    }
    let waits = !after_unmet(snapshot, spec).is_empty();
    let row = JobRow {
        id,
        user: spec.user.clone(),
        name: spec.name.clone(),
        state: if waits { JobState::Waiting } else { JobState::Running },
        count: spec.count,
        priority: spec.priority,
        spec_version: 1,
        revision: 1,
        submitted_ms: now_ms,
        changed_ms: now_ms,
        request: RequestId::default(),
        succeeded: 0,
        failed: 0,
    };
    (id, row)
}

/// Plans batch after batch until the job wants no more, or nothing more can be placed.
fn batches(overlay: &mut Snapshot, job: JobId, now_ms: i64, mut heard: impl FnMut(&Plan)) {
    while overlay.jobs.get(&job).is_some_and(|entry| entry.runs() && entry.open_count() > 0) {
        let queue = pending(overlay, &|_| true, now_ms, BATCH_TASKS);
        let outcome = plan(overlay, &queue, now_ms, PLAN_SEED);
        heard(&outcome);
        overlay.assume(&outcome);
        let blocked_before = overlay.blocked.count();
        overlay.remember(&outcome, now_ms);
        if outcome.placements.is_empty() && overlay.blocked.count() == blocked_before {
            break;
        }
    }
}

/// The last word on each task that found no node in the end.
fn unplaced_last(unplaced: Vec<Unplaced>, placed: &BTreeMap<u32, NodeId>) -> Vec<Unplaced> {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (number, unplaced) in unplaced.iter().enumerate() {
        let tasks = unplaced.tasks.iter().filter(|index| !placed.contains_key(index));
        last.extend(tasks.map(|&index| (index, number)));
    }
    let reduced = |(number, mut unplaced): (usize, Unplaced)| {
        unplaced.tasks.retain(|index| last.get(index) == Some(&number));
        (!unplaced.tasks.is_empty()).then_some(unplaced)
    };
    unplaced.into_iter().enumerate().filter_map(reduced).collect()
}

fn by_node(snapshot: &Snapshot, placed: &BTreeMap<u32, NodeId>) -> Vec<DryRunNode> {
    let mut nodes: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for (&index, &node) in placed {
        nodes.entry(node).or_default().push(index);
    }
    let named = |(node, tasks)| Some(DryRunNode { node, name: snapshot.node_name(node)?.clone(), tasks });
    let mut nodes: Vec<DryRunNode> = nodes.into_iter().filter_map(named).collect();
    nodes.sort_by(|left, right| left.name.cmp(&right.name));
    nodes
}

fn counters_added(total: &mut PlanCounters, more: &PlanCounters) {
    total.nodes_examined += more.nodes_examined;
    total.nodes_scored += more.nodes_scored;
    total.classes += more.classes;
}
