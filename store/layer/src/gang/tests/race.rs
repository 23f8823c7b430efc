//! Workers gather, commit and give up one gang at a time, under faults. The test replays the journal. A gang is
//! committed only with enough holds of its epoch, a hold becomes a placement only by that commit, and every other hold
//! is void.

use std::rc::Rc;

use borough_kv::FaultPlan;
use borough_kv::env::{Rng, SeededRng};
use borough_model::Delta;
use borough_model::task::{GangRow, TaskRow};

use super::*;
use crate::check::{CellRows, delta_apply};
use crate::journal::journal_tail;
use crate::row::Cursor;
use crate::task::gang_holds_settle;
use crate::testing::{LATE, seeds};

const MEMBERS: u32 = 2;

/// A random step of a worker. Refusals and store errors count as success, since other workers act at the same time.
async fn step(cell: &TestCell, rng: &dyn Rng, now_ms: i64) {
    let draw = |bound: u64| rng.next_u64() % bound;
    let gang = cell.run(async |tx| gang_get(&tx, &cell.space, GANG).await).await;
    let epoch = gang.as_ref().map_or(1, |row| row.epoch);
    let index = u32::try_from(draw(3)).unwrap();
    let task = TaskId { job: JobId(1), index };
    let row = cell.run(async |tx| keys::read(&tx, &cell.space, &TaskKey::of(task)).await).await;
    let attempt = row.ok().flatten().map_or(0, |row: TaskRow| row.incarnation.0);
    let change = Change { at_ms: now_ms, ..change(u128::from(rng.next_u64()), "race") };
    match draw(10) {
        0 | 1 => drop(
            cell.change(change, async |tx, changes| {
                gang_begin(tx, &mut changes.open()?, GANG, JobId(1), MEMBERS, now_ms + 400).await
            })
            .await,
        ),
        2..=5 => drop(hold_at(cell, change, index, attempt + 1, epoch).await),
        6 => drop(
            cell.change(change, async |tx, changes| gang_commit(tx, &mut changes.open()?, GANG, epoch).await)
                .await,
        ),
        7 => drop(cell.change(change, async |tx, changes| gang_expire(tx, changes, GANG).await).await),
        8 => {
            drop(cell.change(change, async |tx, changes| gang_give_up(tx, changes, GANG, epoch).await).await)
        }
        _ => drop(
            cell.change(change, async |tx, changes| gang_holds_settle(tx, changes, GANG, None, 10).await)
                .await,
        ),
    }
}

/// Checks one entry against the rows before it. Returns true if it committed a gang.
fn entry_check(before: &CellRows, deltas: &[Delta], seed: u64) -> bool {
    let old_gang = before.gangs.get(&GANG);
    let mut committed = false;
    for delta in deltas {
        match delta {
            Delta::Gang { row } if row.state == GangState::Committed => {
                let old = old_gang.filter(|old| old.state == GangState::Gathering);
                let old: &GangRow = old.unwrap_or_else(|| panic!("seed {seed}: {row:?} was not gathering"));
                let holds = before.tasks.values().filter(|task| {
                    task.state == TaskState::Held && task.gang == Some(GANG) && task.gang_epoch == old.epoch
                });
                assert!(holds.count() >= MEMBERS as usize, "seed {seed}: committed with too few");
                assert_eq!(row.epoch, old.epoch, "seed {seed}");
                committed = true;
            }
            Delta::Gang { row } => {
                let epoch = old_gang.map_or(0, |old| old.epoch);
                assert!(row.epoch >= epoch, "seed {seed}: the epoch went back");
            }
            Delta::Task { row } => task_check(before.tasks.get(&row.id), row, old_gang, seed),
            _ => {}
        }
    }
    committed
}

fn task_check(old: Option<&TaskRow>, row: &TaskRow, gang: Option<&GangRow>, seed: u64) {
    let held = old.filter(|old| old.state == TaskState::Held);
    let gang_state = gang.map(|gang| (gang.state, gang.epoch));
    match (held, row.state) {
        (None, TaskState::Held) => {
            assert_eq!(
                gang_state,
                Some((GangState::Gathering, row.gang_epoch)),
                "seed {seed}: a hold for nothing"
            );
        }
        (Some(held), TaskState::Assigned) => {
            assert_eq!(
                gang_state,
                Some((GangState::Committed, held.gang_epoch)),
                "seed {seed}: placed too early"
            );
        }
        _ => {}
    }
}

/// One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-store gang`.
#[tokio::test(start_paused = true)]
async fn a_gang_is_placed_whole_or_not_at_all_whatever_the_store_does() {
    let mut commits = 0_u32;
    for seed in seeds(15) {
        let cell = Rc::new(world_in(TestCell::with_faults(seed, FaultPlan::heavy()).await).await);
        let workers = tokio::task::LocalSet::new();
        for worker in 0..3_u64 {
            let (cell, rng) = (Rc::clone(&cell), SeededRng::shared(seed * 7 + worker));
            workers.spawn_local(async move {
                for round in 0..40 {
                    step(&cell, &*rng, 1_000 + 25 * round).await;
                }
            });
        }
        workers.await;
        tokio::time::sleep(LATE).await;
        let page = loop {
            let tail = cell.run(async |tx| journal_tail(&tx, &cell.space, Cursor::start(1), 1_000_000).await);
            if let Ok(page) = tail.await {
                break page;
            }
        };
        let mut model = CellRows::default();
        for (at, entry) in page.entries {
            commits += u32::from(entry_check(&model, &entry.deltas, seed));
            entry.deltas.into_iter().for_each(|delta| delta_apply(&mut model, at, delta));
        }
        let found = loop {
            let check = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await);
            if let Ok(found) = check.await {
                break found;
            }
        };
        assert_eq!(found, [], "seed {seed}");
    }
    assert!(commits > 5 || std::env::var("BOROUGH_SEED").is_ok(), "only {commits} gangs were committed");
}
