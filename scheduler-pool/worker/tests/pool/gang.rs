//! Gangs larger than a commit, gathered by holds, while the store fails and workers die. The test replays the journal:
//! no version has half a gang.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_kv::FaultPlan;
use borough_model::task::{GangRow, GangState};
use borough_model::{Delta, GangId, JobId, TaskId, TaskRow, TaskState};
use borough_testkit::{in_simulated_time, seeds};

use crate::cell::Cell;

/// Rows of tasks and gangs as a replay of the journal has them.
#[derive(Default)]
pub(crate) struct Replay {
    pub least: BTreeMap<JobId, usize>,
    pub tasks: BTreeMap<TaskId, TaskRow>,
    gangs: BTreeMap<GangId, GangRow>,
    /// How often each action was seen.
    actions: BTreeMap<String, usize>,
}

impl Replay {
    pub(crate) fn apply(&mut self, delta: &Delta) {
        match delta {
            Delta::Job { row, spec: Some(spec) } => {
                self.least.insert(row.id, spec.min_member as usize);
            }
            Delta::Task { row } => drop(self.tasks.insert(row.id, row.clone())),
            Delta::Gang { row } => drop(self.gangs.insert(row.id, row.clone())),
            _ => {}
        }
    }

    /// Returns true if a task is placed. A held task counts as placed once its gang was committed.
    pub(crate) fn placed(&self, row: &TaskRow) -> bool {
        let committed = |gang: GangId| {
            let gang = self.gangs.get(&gang);
            gang.is_some_and(|gang| gang.state == GangState::Committed && gang.epoch == row.gang_epoch)
        };
        match row.state {
            TaskState::Assigned | TaskState::Starting | TaskState::Running => true,
            TaskState::Held => row.gang.is_some_and(committed),
            _ => false,
        }
    }

    fn gangs_complete(&self, seed: u64) {
        for (&job, &least) in &self.least {
            let placed = self.tasks.values().filter(|row| row.id.job == job && self.placed(row)).count();
            assert!(placed == 0 || placed >= least, "seed {seed}: {placed} of a gang of {least} are placed");
        }
    }
}

/// Replays the journal, and checks the invariants at each version.
async fn replayed(cell: &Cell, seed: u64) -> Replay {
    let mut replay = Replay::default();
    for entry in cell.journal().await {
        *replay.actions.entry(entry.action.clone()).or_default() += 1;
        entry.deltas.iter().for_each(|delta| replay.apply(delta));
        replay.gangs_complete(seed);
    }
    assert_eq!(cell.violations().await, [], "seed {seed}");
    replay
}

/// Two nodes for 128 tasks each, and a third one.
async fn gang_cell(seed: u64, faults: FaultPlan) -> Cell {
    let cell = Cell::with_faults(seed, faults).await;
    for _ in 0..3 {
        cell.node_add().await;
    }
    cell
}

#[test]
fn a_gang_beyond_a_commit_gathers_by_holds_and_starts_whole() {
    in_simulated_time(async {
        let cell = gang_cell(1, FaultPlan::none()).await;
        // Each takes half a core: 384 fit.
        cell.gang_submit("large", 100, 500).await;
        cell.gang_submit("small", 8, 500).await;
        cell.gang_submit("vast", 400, 500).await;
        let worker = cell.worker_gathering(0, 8);
        cell.until("both gangs are placed", async || cell.assigned().await == 108).await;
        worker.end().await;
        let replay = replayed(&cell, 1).await;
        let count = |action: &str| replay.actions.get(action).copied().unwrap_or(0);
        assert_eq!((count("gang_begin"), count("gang_hold"), count("gang_commit")), (1, 13, 1));
        assert_eq!(count("placement_commit"), 1, "the small one is placed in one");
    });
}

#[test]
fn a_worker_that_dies_half_way_leaves_nothing_of_a_gang() {
    let mut orphans = 0;
    for seed in seeds(5) {
        in_simulated_time(async {
            let slow = FaultPlan {
                commit_slow: 0.7,
                commit_delay_max: Duration::from_millis(120),
                ..FaultPlan::heavy()
            };
            let cell = gang_cell(seed, slow).await;
            cell.gang_submit("first", 60, 500).await;
            cell.gang_submit("second", 90, 500).await;
            let dies = cell.worker_gathering(0, 4);
            tokio::time::sleep(Duration::from_millis(300 + cell.below(2_500))).await;
            dies.abort();
            let after = cell.worker_gathering(0, 4);
            cell.until("both gangs are placed", async || cell.assigned().await == 150).await;
            after.end().await;
            let replay = replayed(&cell, seed).await;
            let given_up = replay.actions.get("gang_give_up").copied().unwrap_or(0);
            orphans += given_up;
        });
    }
    assert!(orphans > 0 || std::env::var("BOROUGH_SEED").is_ok(), "no gang was left half-way");
}
