//! Settings of a cell, changed while it runs.

use std::collections::BTreeSet;

use borough_proto::v1::TaskState;
use borough_tests::{TestCell, options};

fn file(name: &str, profile: &str) -> String {
    format!(
        "name: {name}\ncount: 1\ntask: {{command: [sleep, 600], resources: {{cpu: 10m, memory: 4MiB}}, \
         grace: 300ms}}\n{profile}"
    )
}

/// The node of the only task of a job.
async fn node_of(cell: &TestCell, name: &str, profile: &str) -> String {
    cell.run(&format!("{name}.yaml"), &file(name, profile)).await;
    let tasks = cell
        .tasks_until(name, "up", |tasks| tasks.iter().all(|task| task.state() == TaskState::Running))
        .await;
    tasks[0].node.clone()
}

/// An event of a change of labels or settings has what was changed, and not only that something was.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn events_say_which_labels_and_settings_were_changed() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &file("web", "labels: {app: shop}\n")).await;
    for words in [
        &["job", "label", "web", "app=mail", "tier=db"][..],
        &["job", "label", "web", "tier-"],
        &["node", "label", "alpha-1", "rack=r7"],
        &["cell", "set", "--job-retention", "12h", "--reclaim"],
    ] {
        cell.borough(words).await.ended(0);
    }
    let events = cell.borough(&["event", "list"]).await.ended(0);
    let events = events.prints("labels: app: shop -> mail, tier: (none) -> db; running");
    let events = events.prints("labels: tier: db -> (none); running");
    let events = events.prints("labels: rack: (none) -> r7; ready");
    let settings = "changed to revision 2: job-retention: 1d -> 12h, reclaim: false -> true";
    events.prints(settings);
    // Who asks for a job does not mean the cell.
    let of_job = cell.borough(&["event", "list", "--job", "web"]).await.ended(0);
    assert!(!of_job.stdout.contains("cell settings"), "{}", of_job.stdout);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_is_filled_by_the_profile_that_it_was_given_last() {
    let cell = TestCell::start(options!()).await;
    cell.borough(&["cell", "status"]).await.ended(0).prints("borg-hybrid");
    let first = node_of(&cell, "first", "").await;
    assert_eq!(node_of(&cell, "second", "").await, first, "the fuller node");

    let refused = cell.borough(&["cell", "set", "--profile", "fastest"]).await;
    refused.ended(2).warns("accepted: best-fit, borg-hybrid,");
    let set = cell.borough(&["cell", "set", "--profile", "swarm-spread", "--failure-domains", "rack"]).await;
    set.ended(0).prints("swarm-spread").prints("rack");
    let third = node_of(&cell, "third", "").await;
    assert_ne!(third, first, "the one with fewer tasks, without a restart");
    // A job's own profile overrides the cell's.
    let own = node_of(&cell, "own", "profile: swarm-binpack\n").await;
    assert_eq!(own, first);
    let plan = cell.file("planned.yaml", &file("planned", ""));
    cell.borough(&["job", "plan", &plan]).await.prints(&third);
    let unknown = cell.file("unknown.yaml", &file("unknown", "profile: \"kubernetes:spread=NaN\"\n"));
    cell.borough(&["job", "run", &unknown]).await.ended(2).warns("from 0 to 100");
    // Queues: a job names an existing one, and waits if it is full.
    let queues = [
        "cell",
        "set",
        "--queueing",
        "hierarchical",
        "--queue",
        "ops:limit=0.1%",
        "--queue",
        "default:weight=3",
    ];
    cell.borough(&queues).await.ended(0).prints("ops (weight 1, guaranteed 0%, limit 0.1%)");
    cell.borough(&["cell", "set", "--queue", "a/b"]).await.ended(2).warns("\"a\" is not");
    let elsewhere = cell.file("elsewhere.yaml", &file("elsewhere", "queue: research\n"));
    cell.borough(&["job", "run", &elsewhere]).await.ended(2).warns("default, ops");
    let full = cell.file("full.yaml", &file("full", "queue: ops\n").replace("10m", "100m"));
    cell.borough(&["job", "run", "--detach", &full]).await.ended(0);
    cell.borough(&["why", "full"]).await.prints("queue ops has 0% of the cell and may have 0.1%");
    for job in ["first", "second", "third", "own", "full"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// The actors that have placed a job's tasks.
async fn placers(cell: &TestCell, job: &str) -> BTreeSet<String> {
    let events = cell.borough(&["event", "list", "--job", job, "-o", "json"]).await.ended(0).json();
    let placed = events.as_array().unwrap().iter().filter(|event| event["action"] == "placement_commit");
    let actors = placed.map(|event| event["actor"].as_str().unwrap().rsplit_once('/').unwrap().0);
    actors.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn batch_work_and_services_have_schedulers_of_their_own_by_a_rule_of_the_cell() {
    let cell = TestCell::start(options!().served(&["default", "fast"])).await;
    let refused = cell.borough(&["cell", "set", "--scheduler", "cron=fast"]).await;
    refused.ended(2).warns("rules for gang, band:monitoring").warns("service, batch");
    let set = ["cell", "set", "--scheduler", "batch=fast", "--scheduler", "band:best_effort=spare"];
    let set = cell.borough(&set).await.ended(0);
    set.prints("band:best_effort=spare, batch=fast")
        .prints("warning: no worker serves scheduler spare, and none ever has");

    let batch = |name: &str| format!("{}kind: batch\n", file(name, ""));
    for (name, text) in [("web", file("web", "")), ("sums", batch("sums"))] {
        let file = cell.file(&format!("{name}.yaml"), &text);
        cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
        cell.tasks_until(name, "up", |tasks| tasks.iter().all(|task| task.state() == TaskState::Running))
            .await;
    }
    assert_eq!(placers(&cell, "web").await, BTreeSet::from(["scheduler".to_owned()]));
    assert_eq!(placers(&cell, "sums").await, BTreeSet::from(["scheduler/fast".to_owned()]));
    cell.borough(&["job", "plan", &cell.file("again.yaml", &batch("sums"))])
        .await
        .ended(0)
        .prints("no change");

    // A scheduler without a worker: the job is admitted, and every view says why it waits.
    let spare = cell.file("spare.yaml", &format!("{}priority: 50\n", batch("spare")));
    let unserved = "no worker serves scheduler spare, and none ever has";
    let plan = cell.borough(&["job", "plan", &spare]).await.ended(1);
    plan.prints("scheduler spare decides over it").prints(&format!("warning: {unserved}"));
    cell.borough(&["job", "run", "--detach", &spare]).await.ended(0).warns(unserved);
    let why = cell.borough(&["why", "spare"]).await.ended(0).prints(unserved);
    assert!(!why.stdout.contains("its turn"), "{}", why.stdout);
    cell.borough(&["cell", "status"]).await.ended(0).prints(&format!("warning: {unserved}; 1 job is its"));
    assert!(cell.tasks("spare").await.iter().all(|task| task.state() == TaskState::Pending));
    // It keeps its scheduler; a later job of its name is a new one.
    cell.borough(&["cell", "set", "--no-schedulers"]).await.ended(0);
    cell.borough(&["job", "plan", &spare]).await.ended(0).prints("no change");
    cell.borough(&["job", "stop", "spare"]).await.ended(0);
    cell.borough(&["job", "plan", &spare]).await.ended(1).prints("a new job").prints("place task 0 on");
    for job in ["web", "sums"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}
