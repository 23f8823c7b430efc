//! Running attempts adopt a version with other weights: their endpoints change in place.

use borough_model::Delta;

use super::*;
use crate::Cursor;
use crate::gate::cell_gate_read;
use crate::journal::journal_tail;
use crate::keys::{EndpointKey, Prefix, RangeOptions};

impl World {
    async fn adopt(&self, revision: u64, indexes: &[u32]) -> usize {
        let mut attempts = Vec::new();
        for index in indexes {
            attempts.push((task(*index), self.row(*index).await.unwrap().incarnation));
        }
        let attempts = &attempts;
        self.change("rollout_adopt", async |tx, changes| {
            rollout_adopt(tx, changes, JOB, revision, attempts).await
        })
        .await
        .unwrap()
    }

    /// The weights of the endpoints, in the order of the tasks.
    async fn weights(&self) -> Vec<u32> {
        let cell = &self.cell;
        let read = async |tx| {
            let prefix = Prefix::<EndpointKey>::of_two(&name("ada"), &name("web"));
            keys::range(&tx, &cell.space, &prefix, RangeOptions::default()).await
        };
        let rows = cell.run(read).await.unwrap();
        rows.iter().map(|(_, row)| row.endpoint.weight).collect()
    }

    async fn with_two_endpoints() -> Self {
        let world = Self::new().await;
        world.submit(&spec(2, 100, "one")).await.unwrap();
        world.run(0).await;
        world.run(1).await;
        world
    }
}

fn weighing(weight: u32, cpu_millis: u64) -> JobSpec {
    let mut spec = spec(2, cpu_millis, "one");
    spec.task.weight = weight;
    spec.overrides.insert(1, TaskOverride { weight: Some(weight * 2), ..TaskOverride::default() });
    spec
}

/// The rows say what is left: a controller that ends between two steps leaves a rollout that another one ends.
#[tokio::test(start_paused = true)]
async fn weights_reach_the_endpoints_in_steps_and_nothing_is_withdrawn() {
    let world = World::with_two_endpoints().await;
    assert_eq!(world.weights().await, [1, 1]);
    let pids = [world.row(0).await.unwrap().pid, world.row(1).await.unwrap().pid];
    world.submit(&weighing(9, 100)).await.unwrap();
    let revision = world.job().await.revision;
    assert_eq!(world.adopt(revision, &[0]).await, 1);
    assert_eq!((world.weights().await, world.versions().await), (vec![9, 1], vec![2, 1]));
    assert_eq!(world.adopt(revision, &[1]).await, 0, "it was decided by an old state");
    assert_eq!(world.weights().await, [9, 1]);
    assert_eq!(world.adopt(world.job().await.revision, &[0, 1]).await, 1);
    assert_eq!((world.weights().await, world.versions().await), (vec![9, 18], vec![2, 2]));
    assert_eq!([world.row(0).await.unwrap().pid, world.row(1).await.unwrap().pid], pids);
    world.done().await;
    let cell = &world.cell;
    let read = async |tx| {
        let begin = Cursor::start(cell_gate_read(&tx, &cell.space).await?.store_epoch);
        journal_tail(&tx, &cell.space, begin, usize::MAX).await
    };
    let entries = cell.run(read).await.unwrap().entries;
    let deltas: Vec<&Delta> = entries.iter().flat_map(|(_, entry)| &entry.deltas).collect();
    assert!(deltas.iter().any(|delta| matches!(delta, Delta::Endpoint { .. })));
    assert!(!deltas.iter().any(|delta| matches!(delta, Delta::EndpointWithdrawn { .. })));
}

/// A way back that only changes weights in place needs nobody that stands in.
#[tokio::test(start_paused = true)]
async fn an_undo_of_a_weight_surges_for_nobody() {
    let world = World::with_two_endpoints().await;
    let surging = |weight| {
        let update = UpdateSpec { surge_max: Some(1), ..UpdateSpec::default() };
        JobSpec { update: Some(update), ..weighing(weight, 100) }
    };
    for weight in [3, 9] {
        world.submit(&surging(weight)).await.unwrap();
        world.adopt(world.job().await.revision, &[0, 1]).await;
        world.done().await;
    }
    world.order(RolloutOrder::Undo(None)).await.unwrap();
    let (job, rollout) = (world.job().await, world.rollout().await);
    assert_eq!((job.count, rollout.surge, rollout.state), (2, 0, RolloutState::Rolling));
}

#[tokio::test(start_paused = true)]
async fn what_differs_in_more_than_its_weight_adopts_nothing() {
    let world = World::with_two_endpoints().await;
    let mut other = weighing(9, 100);
    other.task.command.push("more".to_owned());
    world.submit(&other).await.unwrap();
    assert_eq!(world.adopt(world.job().await.revision, &[0, 1]).await, 0);
    assert_eq!((world.weights().await, world.versions().await), (vec![1, 1], vec![1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_weight_that_comes_with_other_amounts_is_published_when_these_are_in_force() {
    let world = World::with_two_endpoints().await;
    world.submit(&weighing(9, 300)).await.unwrap();
    assert_eq!(world.adopt(world.job().await.revision, &[0, 1]).await, 0);
    assert_eq!(world.resize(world.job().await.revision, &[0, 1]).await, 2);
    assert_eq!(world.weights().await, [1, 1]);
    world.settle(0, false).await;
    world.settle(1, true).await;
    assert_eq!((world.weights().await, world.versions().await), (vec![9, 1], vec![2, 1]));
}
