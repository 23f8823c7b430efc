//! Dry runs: what would happen to a job if it were submitted now, by the code that makes it happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::job::{ChangeClass, JobAlloc, JobState, change_class, job_new};
use borough_model::node::node_alloc_release;
use borough_model::rollout::RolloutBegin;
use borough_model::task::PortAssignment;
use borough_model::{JobId, JobRow, JobSpec, Name, NodeId, RequestId, TaskRow};

use crate::explain::{Explanation, VictimReport, after_unmet, explain_job, victim_reports};
use crate::plan::{Plan, PlanCounters, PlannedPlacement, plan};
use crate::seed::PLAN_SEED;
use crate::snapshot::Snapshot;
use crate::tables::CellTables;

/// How many tasks one plan of a dry run takes.
const BATCH_TASKS: usize = 1000;

/// In how many steps a dry run replaces attempts at most. Each costs a plan.
const REPLACED_STEPS_MAX: usize = 64;

/// What would happen to a job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DryRun {
    /// The tasks that would get a node, by index.
    pub placements: Vec<DryRunTask>,
    /// The tasks that would get no node now: one explanation per class.
    pub unplaced: Vec<(Vec<u32>, Explanation)>,
    /// The number of tasks that keep their present node.
    pub kept: u32,
    /// The indexes of tasks that would be stopped, because the job no longer wants them.
    pub stopped: Vec<u32>,
    /// What the plans cost, including tasks of other jobs that come first.
    pub counters: PlanCounters,
}

/// A task that would get a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunTask {
    /// The index of the task in its job.
    pub index: u32,
    /// The node that the plan would choose.
    pub node: NodeId,
    /// The name of that node.
    pub name: Name,
    /// The ports that it would get, in the order of the spec.
    pub ports: Vec<PortAssignment>,
    /// True if it would wait there until victims have gone.
    pub held: bool,
    /// The tasks that would be evicted for it.
    pub victims: Vec<VictimReport>,
    /// True if a rollout would end an attempt of the task first. Its ports are not known then.
    pub again: bool,
    /// The alloc that it would be in: its set, and its index there.
    pub alloc: Option<(Name, u32)>,
}

impl DryRunTask {
    /// After the end of its attempt.
    fn again(self) -> Self {
        Self { again: true, ports: Vec::new(), ..self }
    }
}

/// What the new spec would do to tasks that have had an attempt.
#[derive(Clone, Debug, Default)]
pub struct ReplacedAttempts {
    /// Tasks that have ended only because the job was smaller, and that it would want again. Of a daemon job, those
    /// that nodes would get.
    pub revived: Vec<TaskRow>,
    /// Tasks whose attempts a rollout would end, in its order.
    pub rows: Vec<TaskRow>,
    /// How many it ends at once.
    pub at_once: usize,
}

/// Returns what would happen if this job were submitted now. If its user has a job of that name that has not ended, the
/// dry run gives that job the new spec. It plans all pending tasks in their order, as the scheduler would. The snapshot
/// stays as it is.
///
/// `before` is the spec in force of that job. The snapshot keeps only what planning reads of it.
///
/// A rollout ends the attempts of `replaced`, and each step waits for the one before. The dry run therefore stops at
/// the first step whose tasks do not all get a node: they are `unplaced`, and later ones keep their attempts.
pub fn dry_run(
    snapshot: &Snapshot,
    spec: &JobSpec,
    before: Option<&JobSpec>,
    replaced: &ReplacedAttempts,
    now_ms: i64,
) -> DryRun {
    let mut trial = snapshot.clone();
    let (job, mut row) = row_on_trial(snapshot.tables(), spec, before, now_ms);
    let mut revived = replaced.revived.clone();
    revived.iter_mut().for_each(|row| row.id.job = job);
    if row.daemon.is_some() {
        // The nodes say how many tasks it has. The caller knows which of them get one.
        let known = snapshot.tables().job(job).map_or(0, |known| known.count);
        let last = revived.iter().map(|row| row.id.index.saturating_add(1)).max();
        row.count = known.max(last.unwrap_or(0));
    }
    let (kept, stopped) = resident(snapshot.tables(), job, row.count);
    let mut outcome = DryRun { kept, stopped, ..DryRun::default() };
    trial.job_upsert(&Arc::new(row), Some(spec));
    revived.iter().for_each(|row| attempt_end(&mut trial, row));
    let mut placed: BTreeMap<u32, PlannedPlacement> = BTreeMap::new();
    let mut visit = |plan: &Plan, placed: &mut BTreeMap<u32, PlannedPlacement>| {
        // A task that an early plan placed may be evicted by a later one.
        let evicted = plan.placements.iter().flat_map(|placement| &placement.victims);
        for victim in evicted.filter(|victim| victim.task.job == job) {
            placed.remove(&victim.task.index);
        }
        let own = plan.placements.iter().filter(|placement| placement.task.job == job);
        placed.extend(own.map(|placement| (placement.task.index, placement.clone())));
        counters_added(&mut outcome.counters, &plan.counters);
    };
    batches(&mut trial, job, now_ms, |plan| visit(plan, &mut placed));
    let mut again = BTreeSet::new();
    let steps = replaced.rows.len().div_ceil(REPLACED_STEPS_MAX);
    for step in replaced.rows.chunks(replaced.at_once.max(steps).max(1)) {
        step.iter().for_each(|row| attempt_end(&mut trial, row));
        again.extend(step.iter().map(|row| row.id.index));
        batches(&mut trial, job, now_ms, |plan| visit(plan, &mut placed));
        if !step.iter().all(|row| placed.contains_key(&row.id.index)) {
            break;
        }
    }
    outcome.kept = outcome.kept.saturating_sub(u32::try_from(again.len()).unwrap_or(u32::MAX));
    outcome.unplaced = explain_job(&trial, job, now_ms);
    let tasks = placed.into_values().filter_map(|placement| task_named(snapshot.tables(), placement));
    outcome.placements =
        tasks.map(|task| if again.contains(&task.index) { task.again() } else { task }).collect();
    outcome
}

/// Ends an attempt on trial: its node takes the room back, and its task wants a node. Its ports do not cool down, so a
/// task with a fixed port does not seem to wait for it.
fn attempt_end(trial: &mut Snapshot, row: &TaskRow) {
    let nodes = &trial.tables().nodes;
    let alloc = row.charged_node().and_then(|node| Some((node, nodes.alloc(nodes.ordinal(node)?)?)));
    if let Some((node, alloc)) = alloc
        && let Ok(left) = node_alloc_release(&alloc, &row.charge.resources, &row.port_numbers(), None)
    {
        trial.alloc_upsert(node, &left);
    }
    let TaskRow { id, incarnation, spec_version, crashed_on, crashes_there, .. } = *row;
    let revision = row.revision.saturating_add(1);
    let (daemon_node, alloc) = (row.daemon_node.clone(), row.alloc.clone());
    let pending = TaskRow { daemon_node, alloc, ..TaskRow::never_placed(id) };
    trial.task_upsert(&TaskRow { incarnation, spec_version, crashed_on, crashes_there, revision, ..pending });
}

/// How many tasks of a job keep their node, and which ones a count stops.
fn resident(tables: &CellTables, job: JobId, count: u32) -> (u32, Vec<u32>) {
    let resident = tables.tasks(job).filter(|task| task.state.is_charged()).map(|task| task.id.index);
    let (kept, stopped): (Vec<u32>, Vec<u32>) = resident.partition(|&index| index < count);
    (u32::try_from(kept.len()).unwrap_or(u32::MAX), stopped)
}

fn task_named(tables: &CellTables, placement: PlannedPlacement) -> Option<DryRunTask> {
    let name = tables.node_name(placement.node)?.clone();
    let victims = victim_reports(tables, &placement);
    let PlannedPlacement { task, node, ports, held, alloc, .. } = placement;
    let alloc = alloc.and_then(|place| Some((tables.job(place.alloc.job)?.name.clone(), place.alloc.index)));
    Some(DryRunTask { index: task.index, node, name, ports, held, victims, again: false, alloc })
}

/// The row that the submission would write, under an id that no job has.
fn row_on_trial(
    tables: &CellTables,
    spec: &JobSpec,
    before: Option<&JobSpec>,
    now_ms: i64,
) -> (JobId, JobRow) {
    let known = tables.job_named(&spec.user, &spec.name);
    if let Some(known) = known.filter(|row| !matches!(row.state, JobState::Ended { .. })) {
        let class = before.map(|before| change_class(before, spec));
        let same = matches!(class, Some(ChangeClass::Nothing | ChangeClass::CountOrPriorityOnly));
        let begin = before
            .filter(|_| class == Some(ChangeClass::NeedsUpdate))
            .map(|before| RolloutBegin::of(known, before, spec, spec.count));
        let surge = begin.map_or(0, |begin| begin.surge(spec, spec.count)).max(known.surge());
        // By the new version, whatever canaries there are of another one.
        let rollout = known.rollout.clone().filter(|_| class != Some(ChangeClass::NeedsUpdate));
        let row = JobRow {
            count: spec.count.saturating_add(surge),
            priority: spec.priority,
            spec_version: if same { known.spec_version } else { known.spec_version.saturating_add(1) },
            revision: known.revision.saturating_add(1),
            changed_ms: now_ms,
            rollout,
            ..known.clone()
        };
        return (known.id, row);
    }
    let mut id = JobId(u64::MAX);
    while tables.job(id).is_some() {
        id = JobId(id.0.wrapping_sub(1));
    }
    let mut row = job_new(id, spec, RequestId::default(), now_ms);
    let set = spec.alloc_set.as_ref().and_then(|set| tables.job_named(&spec.user, set));
    if let Some(set) = set {
        row.alloc = Some(Box::new(JobAlloc::Member { set: set.id }));
    }
    if after_unmet(tables, &spec.user, &spec.after).is_empty() {
        row.state = JobState::Running;
    }
    (id, row)
}

/// Plans batch after batch until every task of the job has a node, or nothing more can be placed.
fn batches(trial: &mut Snapshot, job: JobId, now_ms: i64, mut visit: impl FnMut(&Plan)) {
    while trial.tables().jobs.get(&job).is_some_and(|entry| entry.runs() && entry.open_count() > 0) {
        let queue = trial.queue_of(job);
        let queue = trial.pending_in(&queue, now_ms, BATCH_TASKS);
        let outcome = plan(trial.tables(), &queue, now_ms, PLAN_SEED);
        visit(&outcome);
        trial.suppose(&outcome, now_ms);
        let unschedulable_before = trial.backlog().unschedulable_count();
        trial.remember(&outcome, now_ms);
        if outcome.placements.is_empty() && trial.backlog().unschedulable_count() == unschedulable_before {
            break;
        }
    }
}

fn counters_added(total: &mut PlanCounters, more: &PlanCounters) {
    total.nodes_examined += more.nodes_examined;
    total.nodes_scored += more.nodes_scored;
    total.classes += more.classes;
    total.searches_reused += more.searches_reused;
    total.searches_begun += more.searches_begun;
}
