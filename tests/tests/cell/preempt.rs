//! A full node: which task is evicted for which, with what notice, and which comes back.

use borough_proto::v1::{StopReason, Task, TaskState};
use borough_tests::{TestCell, Watcher, is_up, options, until};

/// A job of `count` tasks that each need one of the node's cards, and that do not end before they are killed.
fn job(name: &str, band: &str, count: u32, more: &str) -> String {
    format!(
        "name: {name}\npriority: {band}\ncount: {count}\ntask:\n  command: [sh, -c, \"trap '' TERM; echo up; while true; do \
         sleep 0.05; done\"]\n  grace: 2s\n  resources: {{cpu: 10m, memory: 8MiB, devices: {{gpu: 1}}}}\n{more}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_production_job_preempts_batch_tasks_which_return_with_free_capacity() {
    let cell = TestCell::start(options!().nodes(1).cards(&["gpu=GPU-a", "gpu=GPU-b"])).await;
    cell.run("low.yaml", &job("low", "batch", 2, "preemption: {down_max: 1}\n")).await;
    cell.tasks_until("low", "running", |tasks| is_up(tasks, 2)).await;
    // The plan shows it before it happens: one task of the two is evicted.
    let file = cell.file("high.yaml", &job("high", "production", 1, ""));
    let plan = cell.borough(&["job", "plan", &file, "-o", "json"]).await.ended(1).json();
    let placed = &plan["placements"][0];
    assert_eq!((&placed["held"], placed["victims"].as_array().unwrap().len()), (&true.into(), 1), "{plan}");
    let shown = placed["victims"][0]["task"].as_str().unwrap().to_owned();
    let text = cell.borough(&["job", "plan", &file]).await.ended(1);
    text.prints(&format!("evicts task {shown} (priority 100)"));

    cell.borough(&["job", "run", &file, "--detach"]).await.ended(0);
    let index: usize = shown.rsplit('/').next().unwrap().parse().unwrap();
    // It is held until its victim, which ignores SIGTERM, is killed at the end of its grace: both never run at once.
    let seen = until("the victim being stopped", || async {
        let (low, high) = (cell.tasks("low").await, cell.tasks("high").await);
        let victim = low.get(index).filter(|task| task.state() == TaskState::Stopping).cloned();
        victim.map(|victim| (victim, high))
    });
    let (victim, high) = seen.await;
    assert_eq!(victim.stop(), StopReason::Preempted, "{victim:?}");
    assert!(high.iter().all(|task| task.state() == TaskState::Held), "{high:?}");
    cell.tasks_until("high", "running in the freed place", |tasks| is_up(tasks, 1)).await;
    let low = cell.tasks("low").await;
    let waits = |task: &Task| task.state() == TaskState::Pending;
    assert!(waits(&low[index]) && low[1 - index].incarnation == 1, "{low:?}");
    // No task of lower priority is left to evict: the explanation says so, and nobody else is evicted.
    let why = cell.borough(&["why", &format!("low/{index}")]).await.ended(0);
    why.prints("fits on none");
    // Capacity is free again, and the evicted task returns: the eviction was no failure of it.
    cell.borough(&["job", "stop", "high"]).await.ended(0);
    let low = cell.tasks_until("low", "both running again", |tasks| is_up(tasks, 2)).await;
    assert_eq!((low[index].incarnation, low[index].failures), (2, 0), "{low:?}");
    cell.borough(&["job", "stop", "low"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_preemptor_bounds_the_notice_and_the_victim_is_withdrawn_at_once() {
    let cell = TestCell::start(options!().nodes(1).cards(&["gpu=GPU-a"])).await;
    let served = job("low", "batch", 1, "").replace("grace: 2s", "grace: 10m");
    let served = served.replace("task:\n", "task:\n  ports: [http]\n");
    cell.run("low.yaml", &served).await;
    let watcher = Watcher::start(cell.client(), "low").await;
    watcher.until_published(1).await;
    // Without the bound it would wait for ten minutes, longer than this test does.
    let bounded = job("high", "production", 1, "preemption: {notice_max: 100ms}\n");
    cell.borough(&["job", "run", &cell.file("high.yaml", &bounded)]).await.ended(0);
    watcher.until_published(0).await;
    cell.tasks_until("high", "running in the freed place", |tasks| is_up(tasks, 1)).await;
    watcher.assert_sound();
    // One that never evicts waits.
    let meek = job("meek", "monitoring", 1, "preemption: {never: true}\n");
    let plan =
        cell.borough(&["job", "plan", &cell.file("meek.yaml", &meek), "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    // A production task evicts no other production task.
    let equal = job("equal", "299", 1, "");
    let plan =
        cell.borough(&["job", "plan", &cell.file("equal.yaml", &equal), "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    // First the waiting one: once the card is free it would run again, and take its ten minutes.
    for job in ["low", "high"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_freshly_started_task_is_protected_until_the_operator_changes_that() {
    let cell = TestCell::start(options!().nodes(1).cards(&["gpu=GPU-a"])).await;
    cell.borough(&["cell", "set", "--fresh-start", "25h"]).await.ended(2).warns("accepted: 0s to 24h");
    cell.borough(&["cell", "set", "--fresh-start", "1h"]).await.ended(0).prints("fresh start");
    cell.run("low.yaml", &job("low", "batch", 1, "").replace("2s", "100ms")).await;
    cell.tasks_until("low", "running", |tasks| is_up(tasks, 1)).await;
    let high = cell.file("high.yaml", &job("high", "production", 1, "").replace("2s", "100ms"));
    let plan = cell.borough(&["job", "plan", &high, "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    cell.borough(&["job", "run", &high, "--detach"]).await.ended(0);
    let why = cell.borough(&["why", "high"]).await;
    why.prints("waits for tasks of lower priority that have only just started");
    // Workers and gateways use the present settings, without a restart.
    cell.borough(&["cell", "set", "--fresh-start", "0s"]).await.ended(0);
    cell.tasks_until("high", "running in the freed place", |tasks| is_up(tasks, 1)).await;
    assert_eq!(cell.tasks("low").await[0].incarnation, 1);
    for job in ["low", "high"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_queue_reclaims_its_guarantee_once_the_operator_allows_it() {
    let running = |tasks: &[Task]| tasks.iter().filter(|task| task.state() == TaskState::Running).count();
    let cards = ["gpu=GPU-a", "gpu=GPU-b", "gpu=GPU-c", "gpu=GPU-d"];
    let cell = TestCell::start(options!().nodes(1).cards(&cards)).await;
    let queues =
        ["cell", "set", "--queueing", "hierarchical", "--queue", "research:guaranteed=50%", "--queue", "ops"];
    cell.borough(&queues).await.ended(0);
    let job = |name: &str, queue: &str, count| {
        job(name, "batch", count, &format!("queue: {queue}\n")).replace("2s", "300ms")
    };
    cell.run("spare.yaml", &job("spare", "ops", 4)).await;
    cell.tasks_until("spare", "running", |tasks| is_up(tasks, 4)).await;
    let owed = cell.file("owed.yaml", &job("owed", "research", 3));
    let plan = cell.borough(&["job", "plan", &owed, "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["placements"], serde_json::json!([]), "{plan}");
    cell.borough(&["job", "run", &owed, "--detach"]).await.ended(0);
    cell.borough(&["why", "owed"]).await.ended(0).prints("fit on none");

    cell.borough(&["cell", "set", "--reclaim"]).await.ended(0).prints("queues take back their guarantee");
    let owed = cell.tasks_until("owed", "two running", |tasks| running(tasks) == 2).await;
    assert!(owed.iter().any(|task| task.state() == TaskState::Pending), "{owed:?}");
    let spare = cell.tasks_until("spare", "what is left running", |tasks| running(tasks) == 2).await;
    let evicted = spare.iter().filter(|task| task.state() == TaskState::Pending);
    assert!(evicted.clone().count() == 2 && evicted.clone().all(|task| task.incarnation == 1), "{spare:?}");
    let why = cell.borough(&["why", "owed"]).await.ended(0);
    why.prints("queue research has 50% of the cell and is guaranteed 50%: it takes no more back");
    // The evicted task evicts nobody, and returns when capacity is free.
    cell.borough(&["job", "stop", "owed"]).await.ended(0);
    cell.tasks_until("spare", "all running again", |tasks| is_up(tasks, 4)).await;
    let later = cell.file("later.yaml", &job("later", "research", 1));
    let plan = cell.borough(&["job", "plan", &later]).await.ended(1);
    plan.prints("(priority 100, beyond the guarantee of queue ops)");
    let idle = cell.borough(&["cell", "set", "--queueing", "fifo"]).await.ended(0);
    idle.prints("warning: reclaim is set, and does nothing with queueing fifo");
    cell.borough(&["job", "stop", "spare"]).await.ended(0);
    cell.finish().await;
}
