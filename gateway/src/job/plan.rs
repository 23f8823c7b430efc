//! Explains what a submission would do, and why tasks have no node. The scheduler's own code computes both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borough_model::daemon::DaemonRules;
use borough_model::job::file::file_diff;
use borough_model::job::{
    After, AfterCondition, ChangeClass, FieldChange, JobKind, JobState, OnFailure, Rollout, change_class,
    fields_fixed, member_check, member_fits, runs_alike, set_change_check, spec_diff, spec_with_scheduler,
};
use borough_model::rollout::{AttemptFit, AttemptFits, RolloutBegin, RolloutRules};
use borough_model::{FieldError, JobId, JobRow, JobSpec, Name, TaskRow, TaskState};
use borough_proto::convert::ports_to_message;
use borough_proto::v1;
use borough_scheduler_core::{DryRun, EvictionReport, Explanation, ReplacedAttempts, VictimReport, dry_run};
use borough_store::lease::SCHEDULER_DEFAULT;
use borough_store::mirror::MirrorState;
use tonic::Status;

use super::daemon::nodes_planned;
use super::need::{PlannedInPlace, nodes_before, planned_needs};
use super::rehearsal::submission_refusal;
use crate::cell::{CellContext, cursor_to_message, scheduler_shards_read, scheduler_unserved};
use crate::status::{refusal_of_fixed, status_from_validation};

/// The spec as it would be admitted, with its scheduler: the named one, that of the running job, or the choice of
/// `rules`.
pub(super) fn spec_planned(
    cell: &CellContext,
    spec: &JobSpec,
    rules: &BTreeMap<String, Name>,
) -> Result<JobSpec, Status> {
    cell.state(|state| {
        let live = state.job_by_name(&spec.user, &spec.name).filter(|row| !is_over(row));
        let live = live.and_then(|row| state.spec_of(row));
        spec_with_scheduler(spec, live.as_deref(), rules).into_owned()
    })
}

/// The scheduler that a job names or was given.
pub fn scheduler_named(state: &MirrorState, job: JobId) -> Option<Name> {
    state.spec_of(state.jobs().get(&job)?)?.scheduler.clone()
}

/// Warnings about a scheduler whose tasks would wait. The default scheduler gets none here: `why` reports it, and each
/// submission would have to read every lease.
pub(super) async fn warnings_of(cell: &CellContext, scheduler: Option<&Name>) -> Vec<String> {
    let Some(scheduler) = scheduler.filter(|name| name.as_str() != SCHEDULER_DEFAULT) else {
        return Vec::new();
    };
    // The request has succeeded. That the leases could not be read is no reason to fail it.
    let Ok(shards) = scheduler_shards_read(cell).await else { return Vec::new() };
    scheduler_unserved(&shards, scheduler.as_str(), cell.clock.wall_ms()).into_iter().collect()
}

/// Warnings about jobs that `spec` starts after, and that do not end by themselves. A job that runs has started.
pub(super) fn after_warnings(state: &MirrorState, spec: &JobSpec) -> Vec<String> {
    let own = state.job_by_name(&spec.user, &spec.name);
    if own.is_some_and(|row| matches!(row.state, JobState::Running | JobState::Stopping)) {
        return Vec::new();
    }
    let warning = |after: &After| {
        let row = state.job_by_name(&spec.user, &after.job).filter(|row| !is_over(row))?;
        let other = state.spec_of(row)?;
        other.restart.is_endless().then(|| after_warning(&spec.user, after, other.kind))
    };
    spec.after.iter().filter_map(warning).collect()
}

fn after_warning(user: &Name, after: &After, kind: JobKind) -> String {
    let job = &after.job;
    let endless = match kind {
        JobKind::Service => "is a service",
        JobKind::Daemon => "serves its nodes",
        JobKind::AllocSet => "holds its places",
        JobKind::Batch => "starts again after each end",
    };
    match after.condition {
        AfterCondition::Finished => format!(
            "after: job {user}/{job} {endless} and runs until somebody stops it; this job waits for that"
        ),
        AfterCondition::Succeeded => format!(
            "after: job {user}/{job} {endless} and never succeeds, so this job never starts; accepted: a batch job, or \
             {{job: {job}, condition: finished}}"
        ),
    }
}

/// Plans `spec` without submitting it.
pub(super) async fn plan_of(cell: &CellContext, spec: &JobSpec) -> Result<v1::PlanJobResponse, Status> {
    cell.state(|state| alloc_checked(state, spec))?.map_err(|error| status_from_validation(&[error]))?;
    let (mut response, mut rollout) = cell.state(|state| plan_changes(state, spec))?;
    if response.refusal.is_empty() {
        response.refusal = submission_refusal(cell, spec).await?.unwrap_or_default();
    }
    if response.refusal.is_empty() {
        let before = cell.state(|state| {
            let live = state.job_by_name(&spec.user, &spec.name).filter(|row| !is_over(row))?;
            Some(state.spec_of(live)?.in_force(live))
        })?;
        let job = cell.state(|state| Some(state.job_by_name(&spec.user, &spec.name)?.id))?;
        let mut daemon = None;
        if spec.kind == JobKind::Daemon {
            let planned = cell.state(|state| nodes_planned(state, spec))?;
            rollout.attempts.rows.retain(|row| !planned.withdrawn.contains(&row.id.index));
            rollout.attempts.revived.clone_from(&planned.rows);
            daemon = Some(planned);
        }
        let mut dry = dry_run_of(cell, spec, before.as_ref(), &rollout.attempts).await?;
        if let Some(job) = job {
            let crowded = cell.state(|state| rollout.in_place.crowd(state, job, spec, &dry.placements))?;
            if !crowded.is_empty() {
                rollout.attempts.rows.extend(crowded);
                cell.state(|state| {
                    state.jobs().get(&job).map(|row| needs_add(&mut response, state, row, spec, &rollout))
                })?;
                dry = dry_run_of(cell, spec, before.as_ref(), &rollout.attempts).await?;
            }
        }
        dry_add(&mut response, dry);
        if let Some(job) = job {
            cell.state(|state| nodes_before(&mut response, state, job))?;
        }
        if let Some(planned) = daemon {
            planned.add_to(&mut response);
        }
        let warning = rollout.rules.and_then(|rules| rollout_warning(&response, &rules));
        response.warnings.extend(warning);
    }
    Ok(response)
}

/// What a submission would do, by the tables of the scheduler.
async fn dry_run_of(
    cell: &CellContext,
    spec: &JobSpec,
    before: Option<&JobSpec>,
    attempts: &ReplacedAttempts,
) -> Result<DryRun, Status> {
    let (spec, before, attempts) = (spec.clone(), before.cloned(), attempts.clone());
    let now_ms = cell.clock.wall_ms();
    let shown =
        cell.scheduler.ask(move |snapshot| dry_run(snapshot, &spec, before.as_ref(), &attempts, now_ms));
    shown.await
}

/// The rollout that a submission would begin.
#[derive(Debug, Default)]
struct PlannedRollout {
    attempts: ReplacedAttempts,
    /// The most tasks that may be away while it ends healthy attempts, besides one for each that surges.
    unavailable_max: u32,
    surge: u32,
    canaries: u32,
    /// Attempts that it would change in place.
    in_place: PlannedInPlace,
    /// Healthy tasks that it would leave alone: it may end no more.
    skipped: usize,
    /// `None`: there would be none.
    rules: Option<RolloutRules>,
}

/// That the rollout cannot end, if the dry run found no node for tasks that it replaces.
fn rollout_warning(response: &v1::PlanJobResponse, rules: &RolloutRules) -> Option<String> {
    let replaced: BTreeSet<u32> = response.replaced.iter().copied().collect();
    let unplaced = response.unplaced.iter().flat_map(|explanation| &explanation.indexes);
    // Without a node for any that surges, none may be away.
    let surge_needed = |index: u32| index >= rules.count && rules.unavailable_max == 0;
    let is_stuck = |index: &u32| replaced.contains(index) || surge_needed(*index);
    let stuck: Vec<u32> = unplaced.copied().filter(is_stuck).collect();
    if stuck.iter().all(|index| *index >= rules.count)
        && stuck.len() < usize::try_from(rules.surge).unwrap_or(usize::MAX)
    {
        return None;
    }
    let task = match stuck.as_slice() {
        [] => return None,
        [index] => format!("task {index} gets"),
        many => format!("{} tasks get", many.len()),
    };
    let deadline = humantime::format_duration(Duration::from_millis(rules.deadline_ms));
    let then = match rules.on_failure {
        OnFailure::Revert => "is taken back",
        OnFailure::Stop => "stays as it is then",
    };
    Some(format!(
        "the rollout stops there: {task} no node for the new version; after {deadline} without one it fails and {then}"
    ))
}

/// That a rollout leaves healthy tasks alone.
fn skipped_warning(skipped: usize) -> Option<String> {
    let what = match skipped {
        0 => return None,
        1 => "1 healthy task: it keeps its version until it begins again".to_owned(),
        _ => format!("{skipped} healthy tasks: they keep their version until they begin again"),
    };
    Some(format!("`update.disruptions_max` skips {what}"))
}

/// The changes to the job itself.
fn plan_changes(state: &MirrorState, spec: &JobSpec) -> (v1::PlanJobResponse, PlannedRollout) {
    let live = state.job_by_name(&spec.user, &spec.name).filter(|row| !is_over(row));
    let current = live.and_then(|row| Some((row, state.spec_of(row)?.in_force(row))));
    let mut response = v1::PlanJobResponse {
        changed: true,
        revision: live.map_or(0, |row| row.revision),
        changed_revision: live.and_then(|row| row.changes.as_ref()).map_or(0, |changes| changes.revision),
        job_id: live.map(|row| row.id.to_string()).unwrap_or_default(),
        cursor: Some(cursor_to_message(state.cursor())),
        ..v1::PlanJobResponse::default()
    };
    let mut rollout = PlannedRollout::default();
    if let Some((row, current)) = &current {
        if row.state == JobState::Stopping {
            response.refusal = format!(
                "job {}/{} is stopping: submit it again once it has ended, or under another name",
                row.user, row.name
            );
            return (response, rollout);
        }
        if let Err(refused) = row.count_check(spec.count) {
            response.refusal = format!("job {}/{}: {refused}", row.user, row.name);
            return (response, rollout);
        }
        response.diff = spec_diff(current, spec).iter().map(change_message).collect();
        response.file_diff = file_diff(current, spec).iter().map(change_message).collect();
        match change_class(current, spec) {
            class @ (ChangeClass::Nothing | ChangeClass::CountOrPriorityOnly | ChangeClass::Metadata) => {
                if let Some(failed) = row.rollout_failed() {
                    response.warnings.push(again_warning(failed));
                    rollout = rollout_add(&mut response, state, row, spec, Some(failed));
                } else {
                    response.changed = class != ChangeClass::Nothing;
                }
            }
            ChangeClass::NeedsUpdate => {
                let fixed = fields_fixed(current, spec);
                if !fixed.is_empty() {
                    response.refusal = refusal_of_fixed(&format!("job {}/{}", row.user, row.name), &fixed);
                    return (response, rollout);
                }
                rollout = rollout_add(&mut response, state, row, spec, None);
            }
        }
        let wanted = spec.count.saturating_add(rollout.surge.max(row.surge()));
        let revived = state.job_tasks(row.id).filter(|task| task.id.index < wanted && task.is_shrunk_away());
        rollout.attempts.revived = revived.map(|task| (**task).clone()).collect();
        // What they wait for is over once the rollout has begun.
        let pauses = |task: &&Arc<TaskRow>| {
            rollout.rules.is_some() && task.state == TaskState::Pending && task.not_before_ms > 0
        };
        let pauses = state.job_tasks(row.id).filter(pauses).map(|task| (**task).clone());
        let pauses: Vec<TaskRow> = pauses.filter(|task| task.id.index < wanted).collect();
        rollout.attempts.revived.extend(pauses);
        let first = if row.daemon.is_some() { row.count } else { spec.count.saturating_add(row.surge()) };
        let above = state.job_tasks(row.id).filter(|task| task.id.index >= first);
        let above = above.filter(|task| !matches!(task.state, TaskState::Dead | TaskState::Pending));
        response.stopped = above.map(|task| task.id.index).collect();
    }
    (response, rollout)
}

/// Adds the rollout of a submission to its plan. `again`: it has failed, and begins again.
fn rollout_add(
    response: &mut v1::PlanJobResponse,
    state: &MirrorState,
    row: &JobRow,
    spec: &JobSpec,
    again: Option<&Rollout>,
) -> PlannedRollout {
    let rollout = rollout_planned(state, row, spec, again);
    needs_add(response, state, row, spec, &rollout);
    response.unavailable_max = rollout.unavailable_max;
    response.surge = rollout.surge;
    response.canaries = rollout.canaries;
    response.warnings.extend(skipped_warning(rollout.skipped));
    rollout
}

/// Adds what each task needs.
fn needs_add(
    response: &mut v1::PlanJobResponse,
    state: &MirrorState,
    row: &JobRow,
    spec: &JobSpec,
    rollout: &PlannedRollout,
) {
    let replaced: BTreeSet<u32> = rollout.attempts.rows.iter().map(|row| row.id.index).collect();
    response.needs = planned_needs(state, row, spec, &rollout.in_place, &replaced);
    response.replaced = replaced.into_iter().collect();
}

/// That a submission of the spec in force begins its rollout again.
fn again_warning(failed: &Rollout) -> String {
    let why = failed.failure.map(|failure| format!(": {failure}")).unwrap_or_default();
    format!("the rollout of version {} has failed{why}; the submission begins it again", failed.version)
}

/// Checks what a submission checks about allocs.
fn alloc_checked(state: &MirrorState, spec: &JobSpec) -> Result<(), FieldError> {
    let live = state.job_by_name(&spec.user, &spec.name).filter(|row| !is_over(row));
    let with_spec = |row: &JobRow| Some((row.clone(), state.spec_of(row)?.in_force(row)));
    let alive = |row: &JobRow| {
        let members = row.alloc_members().unwrap_or_default().iter();
        let rows = members.filter_map(|job| state.jobs().get(job)).filter(|row| !is_over(row));
        rows.filter_map(|row| with_spec(row)).collect::<Vec<_>>()
    };
    if let Some(row) = live.filter(|row| row.alloc_members().is_some()) {
        let members: Vec<JobSpec> = alive(row).into_iter().map(|(_, member)| member).collect();
        let before = with_spec(row);
        return before.map_or(Ok(()), |(_, before)| set_change_check(&before, spec, &members));
    }
    let name = spec.alloc_set.as_ref();
    let set = name.and_then(|name| state.job_by_name(&spec.user, name)).filter(|row| !is_over(row));
    let set = set.and_then(|row| with_spec(row));
    let set = set.as_ref().map(|(row, spec)| (row, spec));
    match (live, set) {
        // It is in the set already: another one is refused as a field that it keeps.
        (Some(_), set) => set.map_or(Ok(()), |(_, set)| member_fits(spec, set)),
        (None, set) => member_check(spec, set, set.map_or(0, |(row, _)| alive(row).len())),
    }
}

/// The attempts that a rollout of `spec` would replace, in its order: first those that serve nobody.
fn rollout_planned(
    state: &MirrorState,
    row: &JobRow,
    spec: &JobSpec,
    again: Option<&Rollout>,
) -> PlannedRollout {
    if row.state != JobState::Running {
        return PlannedRollout::default();
    }
    // The owner of a daemon job decides about no count.
    let is_daemon = row.daemon.is_some();
    let (count, wanted) =
        if is_daemon { (row.owner_count(), row.wanted_count()) } else { (spec.count, spec.count) };
    let earlier = row.earlier_version().and_then(|version| state.spec(row.id, version));
    let in_force = state.spec_of(row).map(|in_force| in_force.in_force(row));
    let begin = in_force.map(|in_force| RolloutBegin::of(row, &in_force, spec, count));
    // What the tasks had before is not tried again.
    let (canaries, surge) = match (again, earlier) {
        (Some(failed), _) => (failed.canaries, failed.surge),
        (None, Some(earlier)) if runs_alike(&earlier.in_force(row), spec) => (0, spec.surge(count)),
        _ => begin.map_or((0, 0), |begin| (begin.canaries, begin.surge(spec, count))),
    };
    let surge = surge.max(row.surge());
    // The plan shows what follows the promotion, too.
    let rollout = again.map_or_else(|| Rollout::begin(row, 0, "", 0), |failed| failed.again("", 0));
    let rollout = rollout.with_surge(surge);
    let rules = RolloutRules::of(spec, &rollout, count, wanted);
    let has_attempt = |task: &&Arc<TaskRow>| {
        task.id.index < count && !matches!(task.state, TaskState::Pending | TaskState::Dead)
    };
    // Against the version that the submission would make.
    let mut fits = AttemptFits::new(row.spec_version.saturating_add(1), Arc::new(spec.clone()));
    let daemon = is_daemon.then(|| DaemonRules::of(spec, spec.priority));
    let (mut rows, mut in_place) = (Vec::new(), PlannedInPlace::default());
    for task in state.job_tasks(row.id).filter(has_attempt) {
        let fit = fits.fit(task, |version| state.spec(row.id, version));
        let node = task.node_served().and_then(|node| state.nodes().get(&node));
        let on_node = daemon.as_ref().zip(node).map(|(rules, node)| fit.on_node(rules.fit(node)));
        match on_node.unwrap_or(fit) {
            // One that is kept goes on as it is: its node takes no new one.
            AttemptFit::Fits | AttemptFit::Kept => {}
            AttemptFit::Adopts => in_place.adopt(task.id.index),
            AttemptFit::Resizes if in_place.resize(state, task, spec) => {}
            AttemptFit::Resizes | AttemptFit::Stale | AttemptFit::Larger => rows.push((**task).clone()),
        }
    }
    rows.sort_by_key(TaskRow::is_healthy);
    let healthy = rows.iter().filter(|row| row.is_healthy()).count();
    let left = rules.disruptions_left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
    let skipped = healthy.saturating_sub(left);
    rows.truncate(rows.len().saturating_sub(skipped));
    // The members of a gang are ended together.
    let most = if rules.together { count } else { rules.unavailable_max };
    let at_once = usize::try_from(most.saturating_add(rules.surge)).unwrap_or(usize::MAX);
    PlannedRollout {
        attempts: ReplacedAttempts { rows, at_once, ..ReplacedAttempts::default() },
        unavailable_max: most,
        surge: rules.surge,
        canaries,
        in_place,
        skipped,
        rules: Some(rules),
    }
}

fn dry_add(response: &mut v1::PlanJobResponse, dry: DryRun) {
    let placement = |task: borough_scheduler_core::DryRunTask| v1::PlannedPlacement {
        index: task.index,
        node: task.name.to_string(),
        ports: ports_to_message(&task.ports),
        held: task.held,
        victims: task.victims.iter().map(victim_message).collect(),
        again: task.again,
        from: String::new(),
        alloc: task.alloc.map(|(set, index)| format!("{set}/{index}")).unwrap_or_default(),
    };
    response.placements = dry.placements.into_iter().map(placement).collect();
    response.placements.sort_by_key(|placement| placement.index);
    let explained = |(indexes, reason): (Vec<u32>, Explanation)| explanation_message(indexes, &reason);
    response.unplaced = dry.unplaced.into_iter().map(explained).collect();
    response.stopped = dry.stopped;
}

pub(super) fn is_over(row: &JobRow) -> bool {
    matches!(row.state, JobState::Ended { .. })
}

/// Converts a change of one field to a message.
pub(super) fn change_message(change: &FieldChange) -> v1::FieldChange {
    let json =
        |value: &Option<serde_json::Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    v1::FieldChange { path: change.path.clone(), old_json: json(&change.old), new_json: json(&change.new) }
}

/// Converts an explanation of the tasks `indexes` to a message.
pub fn explanation_message(indexes: Vec<u32>, explanation: &Explanation) -> v1::Explanation {
    let loss = |loss: &borough_scheduler_core::FilterLoss| v1::FilterLoss {
        filter: loss.filter.to_string(),
        nodes: loss.nodes,
    };
    let near = |near: &borough_scheduler_core::NearestFit| v1::NearestFit {
        change: near.change(),
        nodes: near.nodes(),
    };
    let (victims, victims_node) = match &explanation.evictions {
        Some(EvictionReport::Help { node, victims, .. }) => (victims.as_slice(), node.to_string()),
        _ => Default::default(),
    };
    v1::Explanation {
        indexes,
        summary: explanation.to_string(),
        headline: explanation.headline(),
        nodes: explanation.nodes,
        losses: explanation.lost.iter().map(loss).collect(),
        nearest: explanation.nearest.iter().map(near).collect(),
        victims: victims.iter().map(victim_message).collect(),
        victims_node,
        fits: explanation.fits(),
        ..v1::Explanation::default()
    }
}

fn victim_message(victim: &VictimReport) -> v1::Victim {
    v1::Victim {
        user: victim.user.to_string(),
        job: victim.job.to_string(),
        index: victim.index,
        priority: victim.priority,
        holds: victim.holds,
        reclaimed_from: victim.reclaimed_from.clone().unwrap_or_default(),
    }
}
