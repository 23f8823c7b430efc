//! Workers plan and commit while jobs are scaled and stopped, nodes cordoned and lost, and agents report. After every
//! step the whole cell is checked.

mod agent;
mod dependency;
mod placer;
mod rebase;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};

use borough_model::job::JobState;
use parking_lot::Mutex;

use self::placer::{Fate, Planned};
use self::world::World;
use crate::check::{CheckMode, quota_held};
use crate::job::{job_stop, jobs_remove};
use crate::node::SessionFence;
use crate::task::TaskReport;

const STEPS: u32 = 250;
const WORKERS: usize = 3;

/// The steps of a run.
pub(crate) struct Steps {
    planned: Vec<Option<Planned>>,
    old: Mutex<Vec<(SessionFence, TaskReport)>>,
    fates: BTreeMap<Fate, u32>,
    actions: Vec<&'static str>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        let planned = vec![None; WORKERS];
        Self { planned, old: Mutex::default(), fates: BTreeMap::new(), actions: Vec::new() }
    }

    /// Some action of workers, operators, owners or agents.
    pub(crate) async fn step(&mut self, world: &mut World) {
        world.now_ms += i64::try_from(world.below(3_000)).unwrap();
        let worker = usize::try_from(world.below(3)).unwrap();
        let action = match (world.below(10), self.planned[worker].take()) {
            (0..=3, None) => {
                self.planned[worker] = world.plan(u32::try_from(worker).unwrap()).await;
                "plan"
            }
            (0..=2, Some(plan)) => {
                let (fate, next) = world.commit(plan).await;
                *self.fates.entry(fate).or_insert(0) += 1;
                self.planned[worker] = next;
                "commit"
            }
            (3 | 4, plan) => {
                self.planned[worker] = plan;
                world.operate().await
            }
            (5 | 6, plan) => {
                self.planned[worker] = plan;
                let (operated, ..) = tokio::join!(
                    world.operate(),
                    world.agent_report(&self.old),
                    world.agent_report(&self.old)
                );
                self.actions.extend(["report", "report", operated]);
                "a join"
            }
            (_, plan) => {
                self.planned[worker] = plan;
                world.agent_report(&self.old).await
            }
        };
        self.actions.push(action);
    }
}

/// One run. Returns the results of its batches, and the states that occurred.
async fn run(seed: u64) -> (BTreeMap<Fate, u32>, BTreeSet<String>) {
    let mut world = World::new(seed).await;
    let mut steps = Steps::new();
    for _ in 0..STEPS {
        steps.step(&mut world).await;
        let last = steps.actions.iter().rev().take(5).rev().copied().collect::<Vec<_>>().join(", ");
        world.check(CheckMode::Always, &last).await;
    }
    settle(&mut world).await;
    assert!(world.faults.injected().len() > 2, "seed {seed}: no faults were met");
    (steps.fates, world.seen)
}

/// Everything is stopped, ended and removed: nothing is left, and nothing is charged.
async fn settle(world: &mut World) {
    let jobs: Vec<_> = world.rows().await.jobs.into_keys().collect();
    for &job in &jobs {
        world.change("stop", async |tx, changes| job_stop(tx, changes, job).await).await;
        world.sweep(job).await;
    }
    world.agents_end_all().await;
    for &job in &jobs {
        world.sweep(job).await;
    }
    world.check(CheckMode::Settled, "the end").await;
    for &job in &jobs {
        world.change("remove", async |tx, changes| jobs_remove(tx, changes, &[job], usize::MAX).await).await;
    }
    world.check(CheckMode::Settled, "the removal").await;
    let rows = world.rows().await;
    let left: Vec<_> =
        rows.jobs.values().filter(|job| !matches!(job.state, JobState::Ended { .. })).collect();
    assert!(left.is_empty() && rows.tasks.is_empty() && rows.endpoints.is_empty(), "seed {}", world.seed);
    assert!(
        rows.allocs.values().all(|alloc| alloc.tasks == 0 && alloc.used.is_zero()),
        "seed {}",
        world.seed
    );
    // The check has compared the charges with what is held.
    let held = quota_held(&rows).unwrap();
    assert!(held.values().all(crate::quota::QuotaUsed::is_zero), "seed {}: {held:?}", world.seed);
}

/// One seed alone: `BOROUGH_SEED=<seed> cargo test -p borough-store placement`; more of them with
/// `BOROUGH_SEEDS=<count>`.
#[tokio::test(start_paused = true)]
async fn workers_operators_and_agents_keep_every_rule() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("BOROUGH_SEED"), number("BOROUGH_SEEDS"));
    let single = first.is_some();
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + count.unwrap_or(if single { 1 } else { 16 });
    let (mut fates, mut seen) = (BTreeMap::<Fate, u32>::new(), BTreeSet::new());
    for seed in seeds {
        let (own, there) = run(seed).await;
        for (fate, count) in own {
            *fates.entry(fate).or_insert(0) += count;
        }
        seen.extend(there);
    }
    for fate in [Fate::Committed, Fate::Found, Fate::Survived, Fate::Lost] {
        assert!(single || fates.contains_key(&fate), "never {fate:?}: {fates:?}");
    }
    let expected = [
        "Pending None",
        "Held None",
        "Assigned None",
        "Starting None",
        "Running None",
        "Stopping None",
        "Lost None",
        "Releasing Some(Again)",
        "Dead Some(Stopped)",
        "Dead Some(Succeeded)",
        "Dead Some(Failed)",
        "published Healthy",
        "published Unknown",
        "Running",
        "Stopping",
        "Ended { outcome: Stopped }",
        "Ended { outcome: Succeeded }",
        "Ended { outcome: Failed }",
    ];
    for state in expected {
        assert!(single || seen.contains(state), "never {state}: {seen:?}");
    }
}
