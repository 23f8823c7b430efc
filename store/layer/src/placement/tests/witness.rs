//! A placement near a standing task falls where that task has changed meanwhile, whoever changed it and on whatever node.

use std::collections::BTreeMap;

use borough_kv::database::CommitAtError;
use borough_model::task::{Placement as Place, TaskEvent, TaskRow, task_transition};
use borough_model::{Incarnation, JobId, NodeId, RequestId, Resources, TaskId};

use super::super::*;
use crate::cell::cell_gate_at;
use crate::keys::{self, LeaseKey, TaskKey};
use crate::testing::TestCell;

const NEAR: TaskId = TaskId { job: JobId(2), index: 0 };
const STANDS: TaskId = TaskId { job: JobId(1), index: 7 };

fn batch() -> PlacementBatch {
    let node = NodeId(5);
    let place = Place {
        node,
        incarnation: Incarnation::default().next(),
        ports: Vec::new(),
        resources: Resources::default(),
        spec_version: 1,
        unit: None,
    };
    let row = task_transition(&TaskRow::never_placed(NEAR), &TaskEvent::Place(place), 1_000).unwrap().row;
    let known = PlacementNode { revision: 1, capacity: Resources::default(), alloc: Default::default() };
    PlacementBatch {
        id: RequestId(9),
        lease: LeaseKey { role: "scheduler".to_owned(), shard: 0 },
        at_ms: 1_000,
        nodes: BTreeMap::from([(node, known)]),
        placements: vec![Placement {
            revision_before: 0,
            row,
            terms: Vec::new(),
            witnesses: vec![STANDS],
            ruled: true,
        }],
        evictions: Vec::new(),
        units: Vec::new(),
    }
}

#[tokio::test]
async fn a_placement_falls_with_the_task_that_it_was_placed_near_to() {
    let cell = TestCell::new().await;
    for (written, lost) in [(None, false), (Some(TaskId { index: 8, ..STANDS }), false), (Some(STANDS), true)]
    {
        let gate = cell.run(async |tx| cell_gate_at(&tx, &cell.space).await?.open()).await.unwrap();
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
        assert_eq!(conflicts.tasks.into_iter().collect::<Vec<_>>(), [STANDS]);
        let conflicts = placement_conflicts(&cell.space, &conflicting, &batch);
        assert_eq!(placement_losers(&conflicts, &batch).into_iter().collect::<Vec<_>>(), [NEAR]);
    }
}
