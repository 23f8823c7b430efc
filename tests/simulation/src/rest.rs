//! The state of a cell at rest: every job has what it wants, or the scheduler says why not.

use std::collections::BTreeMap;

use borough_model::daemon::{DaemonRules, NodeFit};
use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause};
use borough_model::job::{JobKind, JobState, RolloutState};
use borough_model::node::NodeState;
use borough_model::task::{Health, TaskRow};
use borough_model::{Delta, JobRow, NodeId, TaskId, TaskState};
use borough_scheduler_core::{
    CellSettings, Explanation, Snapshot, WaitReason, explain, explain_elsewhere, explain_job,
};
use borough_store::check::CellRows;

/// The unfinished work of the cell at `now_ms`, for people; empty if it is at rest.
pub fn unsettled(rows: &CellRows, now_ms: i64) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let away = rows.nodes.values().filter(|row| row.state != NodeState::Ready);
    open.extend(away.map(|row| format!("{} is {:?}", row.name, row.state)));
    for (node, alloc) in &rows.allocs {
        if alloc.ports_cooling.values().any(|until_ms| *until_ms > now_ms) {
            open.push(format!("ports of {node} cool down"));
        }
    }
    let snapshot = snapshot_of(rows);
    for job in rows.jobs.values() {
        job_unsettled(rows, &snapshot, job, now_ms, &mut open);
    }
    open
}

fn job_unsettled(rows: &CellRows, snapshot: &Snapshot, job: &JobRow, now_ms: i64, open: &mut Vec<String>) {
    let name = format!("{}/{}", job.user, job.name);
    match job.state {
        JobState::Ended { .. } => {}
        JobState::Stopping => open.push(format!("{name} is stopping")),
        JobState::Waiting => {
            let explained = explain(snapshot, job.id, 0, now_ms);
            let waits =
                explained.waits.iter().any(|wait| matches!(wait, WaitReason::After { never: false, .. }));
            if !waits {
                open.push(format!("{name} waits for nothing: {explained:?}"));
            }
        }
        JobState::Running => {
            for index in 0..job.count {
                let row = rows.tasks.get(&TaskId { job: job.id, index });
                open.extend(row.and_then(task_unsettled));
            }
            let mut stuck = false;
            for (indexes, explained) in explain_job(snapshot, job.id, now_ms) {
                // The scheduler knows no quotas. `daemon_unsettled` asks the quota of a daemon job without any task.
                let is_unadmitted =
                    indexes.is_empty() && job.daemon.as_ref().is_some_and(|counts| counts.unadmitted > 0);
                if !is_stuck(&explained) && !is_unadmitted {
                    open.push(format!("{name} {indexes:?} could have nodes: {explained:?}"));
                }
                stuck = true;
            }
            open.extend(daemon_unsettled(rows, job).into_iter().map(|what| format!("{name}: {what}")));
            open.extend(drain_unsettled(rows, snapshot, job, now_ms).map(|what| format!("{name}: {what}")));
            open.extend(rollout_unsettled(rows, job, stuck).map(|what| format!("{name}: {what}")));
        }
    }
    let unwanted =
        rows.tasks.range(TaskId { job: job.id, index: job.count }..=TaskId { job: job.id, index: u32::MAX });
    let alive = unwanted.filter(|(_, row)| row.state != TaskState::Dead);
    open.extend(alive.map(|(task, row)| format!("{task} of {name} is unwanted and {:?}", row.state)));
}

/// A daemon job has one task for each node that it serves and that its quota has room for, and none for a node that
/// does not match.
fn daemon_unsettled(rows: &CellRows, job: &JobRow) -> Vec<String> {
    let spec = rows.specs.get(&(job.id, job.spec_version));
    let (Some(counts), Some(spec)) = (job.daemon.as_deref(), spec) else { return Vec::new() };
    let rules = DaemonRules::of(spec, job.priority);
    let mut of_node: BTreeMap<NodeId, u32> = BTreeMap::new();
    let own = TaskId { job: job.id, index: 0 }..=TaskId { job: job.id, index: u32::MAX };
    for (_, row) in rows.tasks.range(own).filter(|(_, row)| !row.is_withdrawn()) {
        *of_node.entry(row.node_served().unwrap_or_default()).or_default() += 1;
    }
    let (mut open, mut lacking) = (Vec::new(), 0);
    for node in rows.nodes.values() {
        let tasks = of_node.remove(&node.id).unwrap_or_default();
        let fit = rules.fit(node);
        lacking += u32::from(fit == NodeFit::Served && tasks == 0);
        if tasks > u32::from(fit != NodeFit::Unmatched) {
            open.push(format!("{tasks} tasks are for {}, which is {fit:?}", node.name));
        }
    }
    open.extend(of_node.keys().map(|node| format!("a task is for {node}, which is gone")));
    if lacking != counts.unadmitted || counts.left != 0 {
        open.push(format!("{lacking} nodes lack a task, and it says {counts:?}"));
    }
    open
}

/// A wanted task must run, be over, or wait for a node. In any other state it is not settled.
fn task_unsettled(row: &TaskRow) -> Option<String> {
    match row.state {
        state if row.is_shrunk_away() => Some(format!("{} is wanted again and {state:?}", row.id)),
        TaskState::Dead | TaskState::Pending => None,
        TaskState::Running if row.health == Health::Healthy => None,
        state => Some(format!("{} is {state:?} on {:?}, {:?}", row.id, row.node, row.health)),
    }
}

/// A healthy task stays on a drained node only if it fits on no other node, or its job can spare none now.
fn drain_unsettled(rows: &CellRows, snapshot: &Snapshot, job: &JobRow, now_ms: i64) -> Option<String> {
    let spec = rows.specs.get(&(job.id, job.spec_version))?;
    let of_job = || rows.tasks.values().filter(|row| row.id.job == job.id);
    let drains = |row: &&TaskRow| {
        let node = row.charged_node().and_then(|node| rows.nodes.get(&node));
        row.id.index < job.count && node.is_some_and(|node| node.draining && node.state == NodeState::Ready)
    };
    let fits = |row: &&TaskRow| explain_elsewhere(snapshot, job.id, row.id.index, now_ms).fits();
    let budget = DisruptionBudget::of(spec, job, DisruptionCause::Move);
    // What is in an alloc leaves with it, and the jobs in a set may have to wait for others of their tasks.
    if job.alloc_set().is_some() || job.alloc_members().is_some_and(|members| !members.is_empty()) {
        return None;
    }
    if spec.is_gang() || BudgetUse::of_rows(&budget, of_job(), now_ms).left(&budget, now_ms) == 0 {
        return None;
    }
    let may_leave = of_job().filter(drains).find(fits)?;
    Some(format!("task {} may leave its drained node", may_leave.id.index))
}

/// The rollout of a service is over or paused, or its healthy canaries wait. If some of its tasks have no node, it may
/// go on until its deadline, which is far away unless the spec names one. A rollout of batch work waits for attempts of
/// earlier versions.
fn rollout_unsettled(rows: &CellRows, job: &JobRow, stuck: bool) -> Option<String> {
    let rollout = job.rollout.as_deref().filter(|rollout| rollout.state == RolloutState::Rolling)?;
    let spec = rows.specs.get(&(job.id, job.spec_version))?;
    // Canaries wait for a person, if they do not promote their version.
    let is_tried = rollout.canaries_healthy_ms > 0;
    let may_wait = is_tried || spec.kind == JobKind::Batch || (stuck && spec.progress_deadline_ms.is_none());
    (!may_wait).then(|| format!("its rollout of version {} goes on", rollout.version))
}

/// No node fits, or not enough for the gang.
fn is_stuck(explained: &Explanation) -> bool {
    let gang = explained
        .waits
        .iter()
        .any(|wait| matches!(wait, WaitReason::Gang { needed, fitted } if fitted < needed));
    let in_allocs = matches!(explained.waits.as_slice(), [WaitReason::InAllocs { .. }]);
    if in_allocs {
        return true;
    }
    let waits = explained.waits.iter().any(|wait| !matches!(wait, WaitReason::Gang { .. }));
    !waits && (gang || explained.nodes_fit == 0)
}

/// The rows as a snapshot of a worker.
fn snapshot_of(rows: &CellRows) -> Snapshot {
    let settings = CellSettings { failure_domains: vec!["rack".to_owned()], ..CellSettings::default() };
    let mut snapshot = Snapshot::new(settings);
    for row in rows.nodes.values() {
        snapshot.apply(&Delta::Node { row: row.clone() });
    }
    for (&node, alloc) in &rows.allocs {
        snapshot.apply(&Delta::NodeAlloc { node, alloc: alloc.clone() });
    }
    for row in rows.jobs.values() {
        let spec = rows.specs.get(&(row.id, row.spec_version)).cloned().map(Box::new);
        snapshot.apply(&Delta::Job { row: row.clone().into(), spec });
        let base =
            row.earlier_version().and_then(|version| Some((version, rows.specs.get(&(row.id, version))?)));
        if let Some((version, spec)) = base {
            snapshot.job_base_upsert(row.id, version, spec);
        }
    }
    for row in rows.tasks.values() {
        snapshot.apply(&Delta::Task { row: row.clone() });
    }
    snapshot
}
