//! Converts the core's decisions to batches for the store: pure.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::{JobRow, JobState};
use borough_model::task::{GangRow, GangState, TaskEvent, TransitionRefused, task_transition};
use borough_model::{GangId, JobId, RequestId, TaskId, TaskRow};
use borough_scheduler_core::{Plan, PlannedPlacement as Planned, Snapshot, TermToken, Victim};
use borough_store::keys::{ConstraintKey, LeaseKey};
use borough_store::placement::{Eviction, PlacementBatch, PlacementChange};

use crate::view::CellView;

/// The epoch of gangs that are placed whole in one commit.
const GANG_EPOCH: u64 = 1;

/// Ids and times of a batch, made outside.
#[derive(Clone, Debug)]
pub struct BatchStamp {
    pub id: RequestId,
    /// The lease under which it is committed.
    pub lease: LeaseKey,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
}

/// Takes the gangs of more than `most` members out of a plan: one commit cannot place them. Two kinds of gangs stay.
/// Those held against other tasks stay, since their holds could not record that. Those that preempt others stay too.
pub(crate) fn gangs_split(plan: &mut Plan, most: usize) -> Vec<Vec<Planned>> {
    let mut members: BTreeMap<u32, usize> = BTreeMap::new();
    for gang in plan.placements.iter().filter_map(|placement| placement.gang) {
        *members.entry(gang).or_default() += 1;
    }
    let evicts = |placement: &Planned| placement.held || !placement.victims.is_empty();
    let constrained = |placement: &Planned| {
        placement.constrained
            || !placement.terms.is_empty()
            || !placement.dependencies.is_empty()
            || evicts(placement)
    };
    for gang in plan
        .placements
        .iter()
        .filter(|placement| constrained(placement))
        .filter_map(|constrained| constrained.gang)
    {
        members.remove(&gang);
    }
    members.retain(|_, &mut members| members > most);
    let mut large: BTreeMap<u32, Vec<Planned>> = BTreeMap::new();
    if members.is_empty() {
        return Vec::new();
    }
    plan.placements.retain(|placement| {
        let Some(gang) = placement.gang.filter(|gang| members.contains_key(gang)) else { return true };
        large.entry(gang).or_default().push(placement.clone());
        false
    });
    large.into_values().collect()
}

/// The batch of a plan over `view`. It omits and returns placements whose task or node the snapshot refuses. The
/// planner and the state machine then disagree: a defect worth a log line, but no reason to delay the others.
///
/// `running` has the rows of victims that are more than held. If one of them has changed since, its placement is
/// omitted silently, whole gangs together: the commit would only conflict.
pub fn batch_of_plan(
    plan: &Plan,
    view: &CellView,
    stamp: BatchStamp,
    running: &BTreeMap<TaskId, TaskRow>,
) -> (PlacementBatch, Vec<(TaskId, TransitionRefused)>) {
    let snapshot = &view.snapshot;
    let mut refused = Vec::new();
    let evictions = evictions_of(plan, snapshot, running, stamp.at_ms);
    let waiting = gangs_waiting(&plan.placements);
    let mut batch = PlacementBatch {
        id: stamp.id,
        lease: stamp.lease,
        at_ms: stamp.at_ms,
        nodes: BTreeMap::new(),
        placements: Vec::with_capacity(plan.placements.len()),
        evictions: Vec::new(),
        gangs: Vec::new(),
    };
    for (placement, evicted) in plan.placements.iter().zip(evictions) {
        let Some(evicted) = evicted else { continue };
        let before = snapshot
            .tables()
            .task_row(placement.task)
            .cloned()
            .unwrap_or_else(|| TaskRow::never_placed(placement.task));
        let gang = placement.gang.map(|gang| (gang_id(stamp.id, gang), GANG_EPOCH));
        let waits = placement.gang.is_some_and(|gang| waiting.contains(&gang));
        let event = if waits { waiting_event(placement, gang) } else { placement.event(gang) };
        match task_transition(&before, &event, stamp.at_ms) {
            Ok(transition) => {
                batch.evictions.extend(evicted);
                batch.placements.push(PlacementChange {
                    revision_before: before.revision,
                    row: transition.row,
                    terms: placement.terms.iter().map(term_key).collect(),
                    dependencies: placement.dependencies.clone(),
                    constrained: placement.constrained,
                });
            }
            Err(error) => refused.push((placement.task, error)),
        }
    }
    batch.gangs = gangs_of(plan, &batch, &waiting);
    let touched = batch.placements.iter().filter_map(|placement| placement.row.node);
    for node in touched.collect::<BTreeSet<_>>() {
        if let Some(known) = view.placement_node(node) {
            batch.nodes.insert(node, known);
        }
    }
    (batch, refused)
}

/// The running victims of a plan, whose rows must be read: the snapshot only has those of held ones.
pub(crate) fn victims_running(plan: &Plan) -> BTreeSet<TaskId> {
    let victims = plan.placements.iter().flat_map(|placement| &placement.victims);
    victims.filter(|victim| !victim.holds).map(|victim| victim.task).collect()
}

/// The evictions of each placement, in their order. `None`: one of them, or of its gang, is no longer possible.
fn evictions_of(
    plan: &Plan,
    snapshot: &Snapshot,
    running: &BTreeMap<TaskId, TaskRow>,
    at_ms: i64,
) -> Vec<Option<Vec<Eviction>>> {
    let eviction = |victim: &Victim| {
        let row =
            if victim.holds { snapshot.tables().task_row(victim.task) } else { running.get(&victim.task) };
        let row = row.filter(|row| row.revision == victim.revision)?;
        // Remaining tasks of an ended job end by themselves, and another job may have its name by now.
        let ended = |job: &JobRow| matches!(job.state, JobState::Ended { .. });
        let job = snapshot.tables().job(victim.task.job).filter(|job| !ended(job))?;
        let priorities = (job.priority, snapshot.tables().job(victim.evicted.by.job)?.priority);
        let stopped = task_transition(row, &TaskEvent::Evict(victim.evicted), at_ms).ok()?;
        Some(Eviction {
            user: job.user.clone(),
            job: job.name.clone(),
            revision_before: row.revision,
            row: stopped.row,
            effects: stopped.effects,
            preemptor: victim.evicted.by,
            priorities,
        })
    };
    let of_placement = |placement: &Planned| placement.victims.iter().map(eviction).collect();
    let mut evictions: Vec<Option<Vec<Eviction>>> = plan.placements.iter().map(of_placement).collect();
    let gangs = || plan.placements.iter().map(|placement| placement.gang);
    let torn = gangs().zip(&evictions).filter(|(_, evictions)| evictions.is_none());
    let torn: BTreeSet<u32> = torn.filter_map(|(gang, _)| gang).collect();
    for (evictions, gang) in evictions.iter_mut().zip(gangs()) {
        if gang.is_some_and(|gang| torn.contains(&gang)) {
            *evictions = None;
        }
    }
    evictions
}

fn term_key(token: &TermToken) -> ConstraintKey {
    ConstraintKey { term: token.term.clone(), domain: token.domain.clone() }
}

/// The gangs with a member that waits for victims on its node: all their members wait, and start together.
fn gangs_waiting(placements: &[Planned]) -> BTreeSet<u32> {
    placements.iter().filter(|placement| placement.held).filter_map(|placement| placement.gang).collect()
}

/// The event of a placed member of a gang that waits for its victims: it holds its share until all members have theirs.
fn waiting_event(placement: &Planned, gang: Option<(GangId, u64)>) -> TaskEvent {
    match placement.event(gang) {
        TaskEvent::Place(member) => TaskEvent::Hold(member),
        event => event,
    }
}

/// The rows of the plan's gangs: committed with it, or waiting for their victims.
fn gangs_of(plan: &Plan, batch: &PlacementBatch, waiting: &BTreeSet<u32>) -> Vec<GangRow> {
    let placed: BTreeSet<TaskId> = batch.placements.iter().map(|placement| placement.row.id).collect();
    let mut gangs: BTreeMap<u32, (JobId, u32)> = BTreeMap::new();
    for placement in plan.placements.iter().filter(|placement| placed.contains(&placement.task)) {
        let Some(gang) = placement.gang else { continue };
        gangs.entry(gang).or_insert((placement.task.job, 0)).1 += 1;
    }
    let gang = |(gang, (job, min_member)): (u32, (JobId, u32))| GangRow {
        id: gang_id(batch.id, gang),
        job,
        min_member,
        state: if waiting.contains(&gang) { GangState::Waiting } else { GangState::Committed },
        epoch: GANG_EPOCH,
        expires_ms: 0,
        revision: 1,
    };
    gangs.into_iter().map(gang).collect()
}

/// The id of a gang of a batch: batch ids are random, so this is too.
fn gang_id(batch: RequestId, gang: u32) -> GangId {
    let low = u64::try_from(batch.0 & u128::from(u64::MAX)).unwrap_or_default();
    GangId(low.wrapping_add(u64::from(gang)))
}
