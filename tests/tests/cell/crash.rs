//! The control process is killed at each step of rollouts, again and again. They end as if nothing had happened.
//!
//! `dev` is the control process: gateway, scheduler workers, controller and store. Its agents go on. The test watches
//! what changes, and kills `dev` with SIGKILL at the change whose kind has had the fewest kills so far, or after a few
//! others. So each kind of transition gets its turn.
//!
//! The suite kills a few times. 200 kills take some minutes:
//!
//! ```text
//! cargo test -p borough-tests --test cell -- --ignored --exact crash::two_hundred_kills_at_every_transition
//! ```

use std::collections::BTreeMap;

use borough_client::CellItem;
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::{Health, Job, RolloutState, Task, TaskState, WatchFilter};
use borough_tests::{TestCell, is_healthy, options, until};
use futures::StreamExt as _;
use rustix::process::Signal;

const TASKS: u32 = 3;
const NODES: [&str; 2] = ["alpha-1", "alpha-2"];
/// With every so many kills of the control process, the agents are killed too.
const AGENT_KILLS: usize = 4;
/// The most transitions without a kill.
const QUIET_MAX: usize = 5;

/// What a version of the job is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// It replaces one task after the other.
    Plain,
    /// It is tried by a canary, and promotes itself.
    Canary,
    /// Its tasks fail, so that it is taken back.
    Broken,
}

const RELEASES: [Release; 3] = [Release::Plain, Release::Canary, Release::Broken];

/// The job file of a release. Its tasks write `word`.
fn file(release: Release, word: &str) -> String {
    let canary = if release == Release::Canary { ", canaries: 1, auto_promote: true" } else { "" };
    let end = if release == Release::Broken { "exit 7" } else { "exec sleep 600" };
    format!(
        "name: web\ncount: {TASKS}\nupdate: {{healthy_after: 100ms, failures_max: 1{canary}}}\nrestart: {{mode: \
         always, backoff: 100ms}}\ntask: {{command: [sh, -c, 'echo {word}; {end}'], resources: {{cpu: 10m, memory: \
         4MiB}}, grace: 300ms}}\n"
    )
}

/// What was last seen of the job, and which kinds of transitions have had how many kills.
#[derive(Default)]
struct Crashes {
    tasks: BTreeMap<u32, TaskState>,
    job: String,
    kills: BTreeMap<String, usize>,
    /// Transitions since the last kill.
    since: usize,
}

impl Crashes {
    fn total(&self) -> usize {
        self.kills.values().sum()
    }

    /// The kind of a transition; `None`: it is none.
    fn kind(&mut self, change: &Change) -> Option<String> {
        match change {
            Change::Task(task) => {
                let healthy = if task.health() == Health::Healthy { " healthy" } else { "" };
                let before = self.tasks.insert(task.index, task.state());
                let role = if task.surges { "surging" } else { "task" };
                let from = before.map_or("none", |state| state.as_str_name());
                Some(format!("{role}: {from} to {}{healthy}", task.state().as_str_name()))
            }
            Change::Job(job) => {
                let rollout = job.rollout.as_ref()?;
                let reverts = if rollout.reverts > 0 { " back" } else { "" };
                let canaries = if rollout.canaries > 0 { " canaries" } else { "" };
                let now = format!("rollout{reverts}{canaries}: {}", rollout.state().as_str_name());
                let kind = if now == self.job { format!("{now}, a step") } else { now.clone() };
                self.job = now;
                Some(kind)
            }
            _ => None,
        }
    }

    /// Whether the control process is killed at this transition: at the kinds that have had the fewest kills, and after
    /// a few others, since some kinds are rare.
    fn is_due(&mut self, kind: String, most: usize) -> bool {
        let fewest = self.kills.values().min().copied().unwrap_or(0);
        self.since += 1;
        let of_kind = self.kills.entry(kind).or_default();
        let due = (*of_kind <= fewest || self.since >= QUIET_MAX) && most > 0;
        *of_kind += usize::from(due);
        if due {
            self.since = 0;
        }
        due
    }
}

fn agents_kill(cell: &TestCell) {
    for agent in NODES.iter().filter_map(|node| cell.agent(node)) {
        agent.signal(Signal::KILL).unwrap();
    }
}

async fn job(cell: &TestCell) -> Job {
    cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap()
}

/// Follows one rollout to its end, and kills the control process on the way, at most so often.
async fn followed(cell: &mut TestCell, crashes: &mut Crashes, most: usize) {
    let filter = || WatchFilter {
        user: "tester".to_owned(),
        job: "web".to_owned(),
        jobs: true,
        tasks: true,
        ..WatchFilter::default()
    };
    let end = crashes.total() + most;
    'watched: loop {
        let is_done =
            |job: &Job| job.rollout.as_ref().is_some_and(|rollout| rollout.state() == RolloutState::Done);
        let answer = cell.client().job_get(&cell.job("web")).await.unwrap();
        if is_done(&answer.job.unwrap()) {
            return;
        }
        let mut changes = cell.client().watch_cell(filter(), answer.cursor);
        loop {
            let item = tokio::time::timeout(borough_tests::DEADLINE, changes.next()).await;
            let item = item.expect("the rollout stands still").expect("a watch does not end").unwrap();
            let CellItem::Change(change) = item else { continue };
            let Some(change) = change.change else { continue };
            let Some(kind) = crashes.kind(&change) else { continue };
            let left = end.saturating_sub(crashes.total());
            if crashes.is_due(kind, left) {
                cell.control_kill();
                // Agents wait longer and longer for a gateway that ends again and again. New ones do not, and adopt.
                if crashes.total().is_multiple_of(AGENT_KILLS) {
                    agents_kill(cell);
                }
                cell.control_start().await;
                continue 'watched;
            }
            if matches!(&change, Change::Job(job) if is_done(job)) {
                return;
            }
        }
    }
}

async fn settled(cell: &TestCell, version: u32) -> Vec<Task> {
    let is_settled = |tasks: &[Task]| {
        let own = tasks.iter().filter(|task| task.index < TASKS);
        own.clone().count() == TASKS as usize
            && own.clone().all(is_healthy)
            && tasks.iter().filter(|task| task.index >= TASKS).all(|task| task.state() == TaskState::Dead)
            && own.clone().all(|task| task.spec_version >= version)
    };
    let tasks = cell.tasks_until("web", "settled", is_settled).await;
    tasks.into_iter().filter(|task| task.index < TASKS).collect()
}

async fn committed(cell: &TestCell) -> (u64, u64) {
    let nodes = cell.client().node_list().await.unwrap();
    let used = nodes.iter().filter_map(|node| node.used.as_ref());
    used.fold((0, 0), |sum, used| (sum.0 + used.cpu_millis, sum.1 + used.memory_bytes))
}

/// Runs releases until the control process was killed so often.
async fn crashed(kills: usize) -> BTreeMap<String, usize> {
    let mut cell = TestCell::start(options!().nodes(2)).await;
    cell.run("web.yaml", &file(Release::Plain, "v0")).await;
    let mut crashes = Crashes::default();
    let mut before = settled(&cell, 1).await;
    let charge = committed(&cell).await;
    let mut word = "v0".to_owned();
    for (at, release) in RELEASES.into_iter().cycle().enumerate() {
        let left = kills - crashes.total();
        if left == 0 && at >= RELEASES.len() {
            break;
        }
        let version = job(&cell).await.spec_version;
        let next = format!("v{}", at + 1);
        let path = cell.file("web.yaml", &file(release, &next));
        cell.borough(&["job", "run", "--detach", &path]).await.ended(0);
        followed(&mut cell, &mut crashes, left).await;
        let is_broken = release == Release::Broken;
        let after = settled(&cell, if is_broken { 0 } else { version + 1 }).await;
        // As if nothing had happened: each task was replaced once, or none but the one that failed.
        for (old, new) in before.iter().zip(&after) {
            let begun = new.incarnation - old.incarnation;
            match release {
                Release::Plain | Release::Canary => assert_eq!(begun, 1, "{release:?}: {old:?} {new:?}"),
                Release::Broken if new.index == 0 => assert!(begun >= 2, "{new:?}"),
                Release::Broken => assert_eq!(begun, 0, "{old:?} {new:?}"),
            }
        }
        let rollout = job(&cell).await.rollout.unwrap();
        assert_eq!((rollout.state(), rollout.reverts > 0), (RolloutState::Done, is_broken), "{rollout:?}");
        word = if is_broken { word } else { next };
        until("the charge of before", || async { (committed(&cell).await == charge).then_some(()) }).await;
        cell.nodes_ready().await;
        for index in 0..TASKS {
            cell.borough(&["task", "logs", &format!("web/{index}")]).await.ended(0).prints(&word);
        }
        before = after;
    }
    let count = crashes.total();
    assert!(count >= kills, "{count} of {kills}: {:?}", crashes.kills);
    cell.finish().await;
    crashes.kills
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_control_process_is_killed_at_transitions_of_rollouts() {
    let kills = crashed(10).await;
    assert!(kills.len() >= 8, "{kills:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "some minutes: run it by hand, with the command at the top of this file"]
async fn two_hundred_kills_at_every_transition() {
    let kills = crashed(200).await;
    eprintln!("kills by kind of transition: {kills:#?}");
    assert!(kills.len() >= 20, "{kills:?}");
}
