//! A placement fails if something that it relies on has changed meanwhile: the task that it stands near to, or the name
//! of the job whose task it evicts.

use std::collections::BTreeMap;

use borough_kv::database::CommitAtError;
use borough_model::task::{
    Attempt, Health, Placement as Place, StopReason, TaskEvent, TaskRow, task_transition,
};
use borough_model::{Incarnation, JobId, Name, NodeId, RequestId, Resources, TaskId};

use super::super::*;
use crate::keys::{self, JobNameKey, LeaseKey, TaskKey};
use crate::testing::{TestCell, gate_open};

const NEAR: TaskId = TaskId { job: JobId(2), index: 0 };
const RESIDENT: TaskId = TaskId { job: JobId(1), index: 7 };

fn placed(task: TaskId, node: NodeId) -> TaskRow {
    let place = Place {
        node,
        incarnation: Incarnation::default().next(),
        ports: Vec::new(),
        resources: Resources::default(),
        spec_version: 1,
        gang: None,
        alloc: None,
    };
    task_transition(&TaskRow::never_placed(task), &TaskEvent::Place(place), 1_000).unwrap().row
}

/// A published task of job `ada/web` is evicted for the other one.
fn eviction() -> Eviction {
    let before = placed(RESIDENT, NodeId(5));
    let attempt = Attempt { node: NodeId(5), incarnation: before.incarnation };
    let (health, cores) = (Health::Healthy, Vec::new());
    let started = TaskEvent::ProcessStarted { attempt, pid: 1, started_ms: 1_000, health, cores };
    let runs = task_transition(&before, &started, 1_000).unwrap().row;
    let stop = TaskEvent::StopRequested { reason: StopReason::Preempted };
    let stopped = task_transition(&runs, &stop, 1_000).unwrap();
    let name = |text: &str| Name::new(text).unwrap();
    Eviction {
        user: name("ada"),
        job: name("web"),
        revision_before: runs.revision,
        row: stopped.row,
        effects: stopped.effects,
        preemptor: NEAR,
        priorities: (100, 200),
    }
}

fn batch() -> PlacementBatch {
    let node = NodeId(5);
    let row = placed(NEAR, node);
    let known = PlacementNode { revision: 1, capacity: Resources::default(), alloc: Default::default() };
    PlacementBatch {
        id: RequestId(9),
        lease: LeaseKey { role: "scheduler".to_owned(), shard: 0 },
        at_ms: 1_000,
        nodes: BTreeMap::from([(node, known)]),
        placements: vec![PlacementChange {
            revision_before: 0,
            row,
            terms: Vec::new(),
            dependencies: vec![RESIDENT],
            constrained: true,
        }],
        evictions: Vec::new(),
        gangs: Vec::new(),
    }
}

#[tokio::test]
async fn a_placement_falls_with_the_task_that_it_was_placed_near_to() {
    let cell = TestCell::new().await;
    for (written, lost) in
        [(None, false), (Some(TaskId { index: 8, ..RESIDENT }), false), (Some(RESIDENT), true)]
    {
        let gate = cell.run(async |tx| gate_open(&tx, &cell.space).await).await.unwrap();
        if let Some(task) = written {
            let row = TaskRow::never_placed(task);
            cell.run(async |tx| keys::write(&tx, &cell.space, &TaskKey::of(task), &row)).await.unwrap();
        }
        let batch = batch();
        let commit =
            cell.db.commit_at("test", gate.version(), |tx| placement_commit(tx, &gate, &batch)).await;
        assert_eq!(commit.is_err(), lost, "{written:?}: {commit:?}");
        let Err(CommitAtError { conflicting, .. }) = commit else { continue };
        let conflicts = placement_conflicts(&cell.space, &conflicting, &batch);
        assert_eq!(conflicts.tasks.into_iter().collect::<Vec<_>>(), [RESIDENT]);
        let conflicts = placement_conflicts(&cell.space, &conflicting, &batch);
        assert_eq!(placement_losers(&conflicts, &batch).into_iter().collect::<Vec<_>>(), [NEAR]);
    }
}

/// The withdrawal of a victim's endpoint is blind. It must not clear the endpoint of a later job of the name.
#[tokio::test]
async fn a_placement_falls_with_the_name_of_the_job_that_gives_way() {
    let cell = TestCell::new().await;
    let key = |job: &str| JobNameKey { user: Name::new("ada").unwrap(), name: Name::new(job).unwrap() };
    for (written, lost) in [(None, false), (Some("other"), false), (Some("web"), true)] {
        let gate = cell.run(async |tx| gate_open(&tx, &cell.space).await).await.unwrap();
        if let Some(name) = written {
            cell.run(async |tx| keys::write(&tx, &cell.space, &key(name), &JobId(3))).await.unwrap();
        }
        let batch = PlacementBatch { evictions: vec![eviction()], ..batch() };
        let commit =
            cell.db.commit_at("test", gate.version(), |tx| placement_commit(tx, &gate, &batch)).await;
        assert_eq!(commit.is_err(), lost, "{written:?}: {commit:?}");
        let Err(CommitAtError { conflicting, .. }) = commit else { continue };
        let conflicts = placement_conflicts(&cell.space, &conflicting, &batch);
        assert_eq!(conflicts.jobs.iter().copied().collect::<Vec<_>>(), [RESIDENT.job]);
        assert_eq!(placement_losers(&conflicts, &batch).into_iter().collect::<Vec<_>>(), [NEAR]);
    }
}
