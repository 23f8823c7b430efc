//! Federated jobs over cells with stores of their own: real processes, and the command line of an operator.

use std::time::Duration;

use borough_client::JobRef;
use borough_proto::v1::{FederatedJob, FederatedRelease, Job, JobState, ReleasePhase};
use borough_tests::{Ran, TestCell, is_healthy, until};
use rustix::process::Signal;

use crate::federation::{home_start, is_current, member_start, member_until, token_give};

/// A federation of the cells `beta` and `gamma`. Their stores, and that of the home, are three.
struct Federation {
    home: TestCell,
    beta: TestCell,
    gamma: TestCell,
}

/// The job `web` with so many tasks. `word` makes another version.
fn web(count: u32, word: &str, federation: &str) -> String {
    format!(
        "name: web\ncount: {count}\nupdate: {{healthy_after: 100ms}}\ntask: {{command: [sleep, '600'], environment: \
         {{WORD: {word}}}, resources: {{cpu: 10m, memory: 8MiB}}, grace: 300ms}}\nfederation: {federation}\n"
    )
}

impl Federation {
    async fn start() -> Self {
        let (home, beta, gamma) = futures::join!(home_start(), member_start("beta"), member_start("gamma"));
        for (cell, name) in [(&beta, "beta"), (&gamma, "gamma")] {
            token_give(&home, cell, name);
            home.borough(&["cell", "join", name, "--at", &cell.grpc()]).await.ended(0);
        }
        member_until(&home, "beta", "current", is_current).await;
        member_until(&home, "gamma", "current", is_current).await;
        Self { home, beta, gamma }
    }

    /// Runs the file as the federated job that it describes.
    async fn run(&self, text: &str) -> Ran {
        let file = self.home.file("web.yaml", text);
        self.home.borough(&["federation", "job", "run", &file, "--timeout", "90s"]).await
    }

    /// Asks what would become of it.
    async fn plan(&self, text: &str) -> Ran {
        let file = self.home.file("web.yaml", text);
        self.home.borough(&["federation", "job", "plan", &file]).await
    }

    async fn job(&self) -> FederatedJob {
        let client = self.home.client().with_cell("federation");
        let job = JobRef::new("tester", "web");
        until("an answer of the home", || async { client.federated_get(&job).await.ok()?.job }).await
    }

    /// The federated job, once it is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&FederatedJob) -> bool) -> FederatedJob {
        let client = self.home.client().with_cell("federation");
        let job = JobRef::new("tester", "web");
        until(what, || async {
            let job = client.federated_get(&job).await.ok()?.job?;
            wanted(&job).then_some(job)
        })
        .await
    }

    async fn finish(self) {
        self.home.finish().await;
        self.beta.finish().await;
        self.gamma.finish().await;
    }
}

/// The job `web` of a cell; `None`: there is none, or it has ended.
async fn part(cell: &TestCell) -> Option<Job> {
    let job = cell.client().job_get(&JobRef::new("tester", "web")).await.ok()?.job?;
    matches!(job.state(), JobState::Running | JobState::Waiting).then_some(job)
}

async fn part_until(cell: &TestCell, what: &str, wanted: impl Fn(Option<&Job>) -> bool) {
    until(what, || async {
        let part = part(cell).await;
        wanted(part.as_ref()).then_some(())
    })
    .await;
}

/// The tasks that were promised, by cell.
fn promised(job: &FederatedJob) -> Vec<(&str, u32)> {
    let parts = job.parts.iter().filter(|part| part.count > 0);
    parts.map(|part| (part.cell.as_str(), part.count)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_is_divided_scaled_and_stopped_over_cells() {
    let federation = Federation::start().await;
    let Federation { home, beta, gamma } = &federation;
    let planned = federation.plan(&web(4, "a", "{split: weight}")).await.ended(1);
    planned.prints("would be new").prints("beta   0      2").warns("borough federation job run ");
    home.borough(&["federation", "job", "status", "web"]).await.ended(3);
    federation.run(&web(4, "a", "{split: weight}")).await.ended(0).prints("4/4 healthy in 2 cells");
    let job = federation.job().await;
    assert_eq!((promised(&job), job.version, job.unplaced), (vec![("beta", 2), ("gamma", 2)], 1, 0));
    let labels = part(beta).await.unwrap().labels;
    assert_eq!(labels.get("borough.federation").map(String::as_str), Some("federation"));
    assert_eq!(labels.get("borough.federated-job"), Some(&job.id));
    let status = home.borough(&["federation", "job", "why", "web"]).await.ended(0);
    status.prints("current").prints("this is its part");

    // A plan says what would become of it, and nothing does.
    federation.plan(&web(4, "a", "{split: weight}")).await.ended(0).prints("no change");
    let planned = federation.plan(&web(6, "b", "{cells: [beta]}")).await.ended(1);
    planned.prints("version 2 would follow version 1").warns("--check-revision 1 ");
    let file = home.file("web.yaml", &web(6, "b", "{cells: [beta]}"));
    let planned = home.borough(&["-o", "json", "federation", "job", "plan", &file]).await.ended(1).json();
    let parts = planned["after"]["parts"].as_array().unwrap();
    let then: Vec<_> = parts.iter().map(|part| (part["cell"].as_str(), part["target"].as_u64())).collect();
    assert_eq!(then, [(Some("beta"), Some(6)), (Some("gamma"), Some(0))]);
    let refused = federation.plan(&web(6, "b", "{split: weight, weights: {beta: 0, gamma: 0}}")).await;
    refused.ended(2).warns("weights");
    let now = federation.job().await;
    assert_eq!((promised(&now), now.revision), (vec![("beta", 2), ("gamma", 2)], 1));

    // The same again changes nothing. A larger count keeps what there is.
    federation.run(&web(4, "a", "{split: weight}")).await.ended(0).warns("no change");
    home.borough(&["federation", "job", "scale", "web", "7"]).await.ended(0).prints("7/7 healthy");
    let counts: u32 = promised(&federation.job().await).iter().map(|(_, count)| count).sum();
    assert_eq!(counts, 7);
    home.borough(&["federation", "job", "list"]).await.ended(0).prints("web").prints("active");

    // A smaller count is waited for until the cells have ended what is too much.
    home.borough(&["federation", "job", "scale", "web", "0"]).await.ended(0).prints("0/0 healthy in 0 cells");
    let ended = federation.job().await;
    assert!(ended.parts.iter().all(|part| part.arrived && part.running == 0), "{ended:?}");
    let stranger = federation.plan(&web(7, "a", "{cells: [beta, nosuch]}")).await.ended(1);
    stranger.prints("7 tasks in 1 cell would begin").warns("nosuch is no member of the federation");
    home.borough(&["federation", "job", "scale", "web", "7"]).await.ended(0).prints("7/7 healthy");

    // Another version reaches one cell after the other.
    federation.run(&web(7, "b", "{split: weight}")).await.ended(0).prints("version 2");
    for cell in [beta, gamma] {
        let spec = cell.client().job_get(&JobRef::new("tester", "web")).await.unwrap().spec.unwrap();
        assert_eq!(spec.task.unwrap().environment.get("WORD").map(String::as_str), Some("b"));
    }
    home.borough(&["federation", "job", "history", "web"]).await.ended(0).prints("VERSION");

    // Somebody stops or scales the part of a cell by hand: what was promised holds.
    let stopped = beta.borough(&["job", "stop", "web", "--yes"]).await.ended(0);
    stopped.warns("the federation runs it again").warns("borough federation job stop tester/web");
    part_until(beta, "runs again", |part| part.is_some()).await;
    beta.borough(&["job", "scale", "web", "1", "--yes", "--detach"]).await.ended(0);
    let wanted = federation.job().await.parts.iter().find(|part| part.cell == "beta").unwrap().count;
    part_until(beta, "the count is what was promised", |part| part.is_some_and(|part| part.count == wanted))
        .await;

    let refused = home.borough(&["federation", "job", "stop", "web"]).await.ended(4);
    refused.warns("has tasks in 2 cells: beta (").warns("--all-cells").warns("forget");
    home.borough(&["federation", "job", "stop", "web", "--all-cells"]).await.ended(0).prints("stopped");
    part_until(beta, "stopped", |part| part.is_none()).await;
    part_until(gamma, "stopped", |part| part.is_none()).await;

    // The name can be used again, by another job.
    federation.run(&web(1, "c", "{cells: [gamma]}")).await.ended(0).prints("version 1");
    assert_eq!(promised(&federation.job().await), [("gamma", 1)]);
    // Forgotten, its tasks go on in the cell.
    home.borough(&["federation", "job", "forget", "web", "--yes"])
        .await
        .ended(0)
        .prints("go on in gamma (1 task)");
    home.borough(&["federation", "job", "status", "web"]).await.ended(3).warns("borough federation job list");
    assert!(part(gamma).await.is_some());
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_leader_that_dies_loses_and_doubles_nothing() {
    let mut federation = Federation::start().await;
    federation.run(&web(2, "a", "{split: weight}")).await.ended(0);
    // It dies just after it was asked for more, again and again.
    for count in [4, 6, 3] {
        let count_text = count.to_string();
        let scale = ["federation", "job", "scale", "web", count_text.as_str(), "--detach"];
        federation.home.borough(&scale).await.ended(0);
        federation.home.control_kill();
        federation.home.control_start().await;
        let settled = federation
            .until("all tasks are healthy", |job| {
                job.healthy == count && job.parts.iter().all(|part| part.arrived && part.target == part.count)
            })
            .await;
        assert_eq!(promised(&settled).iter().map(|(_, count)| count).sum::<u32>(), count);
        let mut sum = 0;
        for cell in [&federation.beta, &federation.gamma] {
            sum += part(cell).await.map_or(0, |part| part.count);
        }
        assert_eq!(sum, count, "the cells have what was promised");
    }
    // While the federation is gone, the cells go on, and change nothing.
    federation.home.control_kill();
    federation.beta.borough(&["job", "list"]).await.ended(0).prints("web");
    federation.home.control_start().await;
    federation.until("healthy again", |job| job.healthy == 3).await;
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_is_emptied_while_its_tasks_are_replaced_first() {
    let federation = Federation::start().await;
    let Federation { home, beta, gamma } = &federation;
    federation.run(&web(4, "a", "{split: weight}")).await.ended(0);
    // A cordoned cell gets nothing new, and keeps what it has.
    home.borough(&["cell", "cordon", "gamma"]).await.ended(0);
    home.borough(&["federation", "job", "scale", "web", "6"]).await.ended(0);
    assert_eq!(promised(&federation.job().await), [("beta", 4), ("gamma", 2)]);
    home.borough(&["cell", "uncordon", "gamma"]).await.ended(0);
    home.borough(&["cell", "drain", "beta", "--timeout", "90s"])
        .await
        .ended(0)
        .prints("draining")
        .warns("beta has no federated task any more")
        .warns("borough cell uncordon beta");
    assert_eq!(promised(&federation.job().await), [("gamma", 6)]);
    part_until(beta, "stopped", |part| part.is_none()).await;
    assert_eq!(part(gamma).await.unwrap().tasks.unwrap().healthy, 6);

    // The last cell that may have the job keeps its tasks, and the drain says why.
    let kept = home.borough(&["cell", "drain", "gamma", "--timeout", "3s"]).await.ended(7);
    kept.warns("tester/web: 6 tasks in gamma").warns("still has 6 federated tasks").warns("uncordon");
    home.borough(&["cell", "uncordon", "beta"]).await.ended(0);
    home.borough(&["cell", "drain", "gamma", "--timeout", "90s"]).await.ended(0);
    assert_eq!(promised(&federation.job().await), [("beta", 6)]);
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_that_is_dark_or_refuses_holds_up_no_other() {
    let federation = Federation::start().await;
    let Federation { home, beta, gamma } = &federation;
    // The name belongs to somebody in one cell: that job is left alone.
    beta.run("own.yaml", "name: web\ncount: 1\ntask: {command: [sleep, '600']}\n").await.ended(0);
    let file = home.file("web.yaml", &web(4, "a", "{split: weight}"));
    home.borough(&["federation", "job", "run", &file, "--detach"]).await.ended(0);
    let job = federation.until("all are healthy elsewhere", |job| job.healthy == 4).await;
    assert_eq!(promised(&job), [("gamma", 4)]);
    let taken = job.reasons.iter().find(|reason| reason.cells == ["beta"]).unwrap();
    assert!(taken.words.contains("a job of this name of its own"), "{taken:?}");
    assert_eq!(part(beta).await.unwrap().count, 1);
    beta.borough(&["job", "stop", "web"]).await.ended(0);

    // A cell that stands still costs nothing but its own tasks, and has what was promised when it is back.
    gamma.control().signal(Signal::STOP).unwrap();
    member_until(home, "gamma", "silent", |member| !is_current(member)).await;
    home.borough(&["federation", "job", "scale", "web", "8", "--detach"]).await.ended(0);
    let dark = federation
        .until("beta has the new ones", |job| promised(job).iter().map(|(_, count)| count).sum::<u32>() == 8)
        .await;
    assert_eq!(promised(&dark), [("beta", 4), ("gamma", 4)]);
    part_until(beta, "four tasks", |part| part.is_some_and(|part| part.count == 4)).await;
    gamma.control().signal(Signal::CONT).unwrap();
    federation.until("all are healthy", |job| job.healthy == 8).await;
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_release_goes_from_a_canary_cell_outward_and_stops_by_itself() {
    let mut federation = Federation::start().await;
    let stages = "rollout: {stages: [{cells: [beta], prove: 1s, approve: true}]}";
    federation.run(&web(4, "a", &format!("{{split: weight, {stages}}}"))).await.ended(0);

    // The version works in the canary cell, and not in the next one.
    let bad = "overrides: {gamma: {task: {command: [sh, -c, 'exit 7']}}}";
    let file = federation.home.file("bad.yaml", &web(4, "b", &format!("{{split: weight, {stages}, {bad}}}")));
    federation.home.borough(&["federation", "job", "run", &file, "--detach"]).await.ended(0);
    let waits = |job: &FederatedJob| job.release.clone().unwrap_or_default().waits;
    let asked = federation.until("a person is asked", |job| waits(job).contains("approve")).await;
    let versions = |job: &FederatedJob| -> Vec<u64> { job.parts.iter().map(|part| part.version).collect() };
    assert_eq!(versions(&asked), [2, 1]);

    // Another leader goes on from there, and knows the version that the other cell has.
    federation.home.control_kill();
    federation.home.control_start().await;
    let Federation { home, beta, gamma } = &federation;
    gamma.borough(&["job", "scale", "web", "1", "--yes", "--detach"]).await.ended(0);
    part_until(gamma, "what was promised", |part| part.is_some_and(|part| part.count == 2)).await;
    assert_eq!(versions(&federation.job().await), [2, 1]);
    home.borough(&["federation", "job", "status", "web"])
        .await
        .ended(0)
        .prints("rolling: stage 0 has proved");
    home.borough(&["federation", "job", "pause", "web"]).await.ended(0);
    federation.until("paused", |job| job.release.as_ref().is_some_and(|release| release.paused)).await;
    home.borough(&["federation", "job", "pause", "web"]).await.ended(0);
    home.borough(&["federation", "job", "resume", "web"]).await.ended(0);
    federation.until("it goes on", |job| !job.release.as_ref().is_some_and(|release| release.paused)).await;
    home.borough(&["federation", "job", "approve", "web"]).await.ended(0);
    let phase = |job: &FederatedJob| job.release.as_ref().map(FederatedRelease::phase);
    let failed = federation.until("it has failed", |job| phase(job) == Some(ReleasePhase::Failed)).await;
    assert_eq!(failed.release.unwrap().failed[0].cells, ["gamma"]);
    // The cell has taken its own tasks back: they run all the time.
    federation.until("all are healthy", |job| job.healthy == 4).await;
    let status = home.borough(&["federation", "job", "status", "web"]).await.ended(0);
    status.prints("failed in gamma").prints("failed, stage 1");

    // Taken back, every cell has the version of before. The canary has its old word again.
    let undone = home.borough(&["federation", "job", "undo", "web", "--yes"]).await.ended(0);
    undone.warns("release of version 2 is being taken back to version 1").prints("reverted");
    let back = federation.job().await;
    assert_eq!((versions(&back), phase(&back)), (vec![1, 1], Some(ReleasePhase::Reverted)));
    let word = async |cell: &TestCell| {
        let spec = cell.client().job_get(&JobRef::new("tester", "web")).await.unwrap().spec.unwrap();
        spec.task.unwrap().environment.get("WORD").cloned().unwrap_or_default()
    };
    assert_eq!((word(beta).await.as_str(), word(gamma).await.as_str()), ("a", "a"));
    // A version that works in both replaces it, without a person where none is asked for.
    federation.run(&web(4, "c", "{split: weight}")).await.ended(0).prints("version 3");
    assert_eq!((word(beta).await.as_str(), word(gamma).await.as_str()), ("c", "c"));
    federation.finish().await;
}

/// Longer than any tolerance of the test, the wait of a new leader, and what follows from both.
const FAILOVER_DEADLINE: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_tasks_of_a_cell_that_is_lost_go_to_others_and_it_gives_way_when_it_is_back() {
    let mut federation = Federation::start().await;
    // Two of three answer: a majority.
    let at = federation.home.grpc();
    federation.home.borough(&["cell", "join", "alpha", "--at", &at]).await.ended(0);
    member_until(&federation.home, "alpha", "current", is_current).await;
    let part = "{cells: [beta, gamma], split: weight, failover_after: 30s}";
    federation.run(&web(4, "a", part)).await.ended(0);
    let client = federation.home.client().with_cell("federation");
    let job = JobRef::new("tester", "web");
    let until_long = async |what: &str, wanted: fn(&FederatedJob) -> bool| {
        let found = async {
            loop {
                let now = client.federated_get(&job).await.ok().and_then(|answer| answer.job);
                if let Some(job) = now.filter(wanted) {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(FAILOVER_DEADLINE, found).await.unwrap_or_else(|_| panic!("not {what}"))
    };
    federation.beta.control_kill();
    // Meanwhile it says why nothing moves.
    let held = until_long("held", |job| job.holds.iter().any(|hold| hold.cells == ["beta"])).await;
    assert!(held.parts.iter().all(|part| part.failed_over_ms == 0), "{held:?}");
    let status = federation.home.borough(&["federation", "job", "why", "web"]).await.ended(0);
    status.prints("beta: no answer, and no failover: ");
    let lost = until_long("failed over", |job| {
        job.parts.iter().any(|part| part.failed_over_ms > 0) && job.parts.iter().any(|part| part.healthy == 4)
    });
    let lost = lost.await;
    let of = |job: &FederatedJob, cell: &str| job.parts.iter().find(|part| part.cell == cell).cloned();
    assert_eq!(of(&lost, "gamma").unwrap().count, 4);
    assert_eq!(of(&lost, "beta").unwrap().count, 2, "nobody could tell it anything");

    // It is back with its two tasks: the new ones stay.
    federation.beta.control_start().await;
    let settled = until_long("settled", |job| {
        job.parts.iter().all(|part| part.failed_over_ms == 0 && part.arrived) && job.healthy == 4
    });
    let settled = settled.await;
    assert_eq!(promised(&settled), [("gamma", 4)]);
    assert!(settled.holds.is_empty(), "{settled:?}");
    let beta = federation.beta.client();
    until("over in the cell that was lost", || async {
        let job = beta.job_get(&JobRef::new("tester", "web")).await.ok()?.job?;
        let goes_on = matches!(job.state(), JobState::Running | JobState::Waiting | JobState::Stopping);
        (!goes_on).then_some(())
    })
    .await;
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn batch_work_over_cells_is_done_once() {
    let federation = Federation::start().await;
    let Federation { home, beta, gamma } = &federation;
    let file = home.file(
        "web.yaml",
        "name: web\nkind: batch\ncount: 4\ntask: {command: ['true'], resources: {cpu: 10m, memory: 8MiB}}\nfederation: {split: weight}\n",
    );
    home.borough(&["federation", "job", "run", &file]).await.ended(0).prints("4 done").prints("has ended");
    let ids = async || {
        let mut ids = Vec::new();
        for cell in [beta, gamma] {
            let job = cell.client().job_get(&JobRef::new("tester", "web")).await.unwrap().job.unwrap();
            assert_eq!(job.state(), JobState::Succeeded);
            ids.push(job.id);
        }
        ids
    };
    let first = ids().await;
    let job = federation.job().await.id;
    home.borough(&["federation", "job", "list"]).await.ended(0).prints("web  succeeded");
    let refused = home.borough(&["federation", "job", "scale", "web", "6"]).await.ended(4);
    refused.warns("all its tasks have ended; to run it again: borough federation job run FILE");
    // A cell that joins, or is emptied, is a reason to divide again. What is done stays done.
    let divided = federation.job().await.divided_ms;
    home.borough(&["cell", "drain", "beta"]).await.ended(0);
    federation.until("divided again", |job| job.divided_ms > divided).await;
    assert_eq!(ids().await, first);
    assert_eq!(promised(&federation.job().await), [("beta", 2), ("gamma", 2)]);
    // Also when a cell has forgotten it.
    beta.borough(&["job", "purge", "web", "--yes"]).await.ended(0);
    home.borough(&["cell", "uncordon", "beta"]).await.ended(0);
    let divided = federation.job().await.divided_ms;
    home.borough(&["cell", "label", "gamma", "zone=g"]).await.ended(0);
    federation.until("divided again", |job| job.divided_ms > divided).await;
    assert!(part(beta).await.is_none());
    // Its owner runs it once more: another job of the name.
    home.borough(&["federation", "job", "run", &file]).await.ended(0).prints("4 done").prints("version 1");
    assert_ne!(federation.job().await.id, job);
    // It is healthy for a while before it fails.
    let text = std::fs::read_to_string(&file).unwrap().replace("'true'", "sh, -c, 'sleep 4; exit 1'");
    let fails = home.file("fails.yaml", &format!("{text}restart: {{mode: never}}\n"));
    let failed = home.borough(&["federation", "job", "run", &fails]).await.ended(1);
    failed.warns("tester/web: 4 tasks failed, in beta, gamma").prints("tester/web: failed, ");
    federation.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_federated_job_that_cannot_be_is_refused_whole() {
    let home = home_start().await;
    let run = async |text: &str| {
        let file = home.file("bad.yaml", text);
        home.borough(&["federation", "job", "run", &file]).await
    };
    run("name: web\ntask: {command: [x]}\n").await.ended(2).warns("\"federation\" is missing");
    run(&web(2, "a", "{split: best}")).await.ended(2).warns("federation.split");
    let patch = "{overrides: {beta: {task: {resources: {cpu: -1}}}}}";
    run(&web(2, "a", patch)).await.ended(2).warns("federation.overrides").warns("beta");
    // No cell is a member: the job is admitted, and nobody waits for what only an operator can change.
    let file = home.file("web.yaml", &web(2, "a", "{}"));
    let ran = home.borough(&["federation", "job", "run", &file, "--timeout", "10m"]).await.ended(1);
    ran.prints("2 without a cell").warns("the federation has no cells").warns("borough cell join CELL --at");
    // Who takes it for a job of the cell learns where it is.
    let ran = home.borough(&["job", "scale", "web", "3"]).await.ended(3);
    ran.warns("it is a federated job, with tasks in no cell")
        .warns("borough federation job status tester/web");
    home.finish().await;
}

/// Tasks stay where they are until a person has them divided again. None is missing meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rebalance_moves_tasks_to_a_cell_that_came_later_and_none_is_missing() {
    let federation = Federation::start().await;
    let Federation { home, beta, gamma } = &federation;
    home.borough(&["cell", "cordon", "gamma"]).await.ended(0);
    federation.run(&web(4, "a", "{split: weight}")).await.ended(0);
    home.borough(&["cell", "uncordon", "gamma"]).await.ended(0);
    let rebalance = async |words: &[&str]| {
        home.borough(&[&["federation", "job", "rebalance", "web"], words].concat()).await
    };
    let planned = rebalance(&["--dry-run"]).await.ended(1);
    planned.prints("tasks would move").prints("beta   4      2").prints("gamma  0      2");
    rebalance(&["--stuck"]).await.ended(0).prints("no task would move");
    assert_eq!(promised(&federation.job().await), [("beta", 4)]);

    let healthy = async |cell: &TestCell| match part(cell).await {
        Some(_) => cell.tasks("web").await.iter().filter(|task| is_healthy(task)).count(),
        None => 0,
    };
    let least = std::sync::atomic::AtomicUsize::new(usize::MAX);
    let watched = async {
        loop {
            let now = healthy(gamma).await + healthy(beta).await;
            least.fetch_min(now, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let moved = tokio::select! {
        never = watched => never,
        ran = rebalance(&[]) => ran,
    };
    moved.ended(0).warns("tasks would move").prints("4/4 healthy in 2 cells");
    let job = federation.job().await;
    assert_eq!((promised(&job), job.version), (vec![("beta", 2), ("gamma", 2)], 1));
    assert_eq!(least.into_inner(), 4, "a task began in its new cell before it ended in its old one");
    rebalance(&[]).await.ended(0).prints("no task would move");

    federation.run(&web(1, "a", "{split: duplicate}")).await.ended(0);
    rebalance(&["--dry-run"]).await.ended(4).warns("split: duplicate");
    home.borough(&["federation", "job", "stop", "web", "--all-cells"]).await.ended(0);
    rebalance(&[]).await.ended(4).warns("is stopped");
    federation.finish().await;
}
