//! Disruptions of a job by choice: drains of a service that may miss no task, and a limit for an update.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use borough_proto::v1::{Task, TaskState};
use borough_tests::{TestCell, Watcher, is_up, options};

use crate::rollout::{Requests, alone, attempts, says, tasks_of};

/// An update may end one healthy task in all. The others keep their version until they begin again.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_update_that_may_end_one_healthy_task_skips_the_others() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let limited = |word: &str| {
        says(word).replace("{healthy_after: 300ms}", "{healthy_after: 300ms, disruptions_max: 1}")
    };
    cell.run("web.yaml", &limited("one")).await;
    let file = cell.file("web.yaml", &limited("two"));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    let skipped =
        "`update.disruptions_max` skips 2 healthy tasks: they keep their version until they begin again";
    plan.prints("replace the attempts of task 0, at most 1 away at a time").prints(skipped);
    let ran = cell.borough(&["job", "run", &file]).await.ended(0);
    let keep = "2 tasks skipped: they keep the earlier version until they begin again";
    ran.prints(&format!("tester/web: 1/3 healthy with version 2; {keep}"));
    assert_eq!(attempts(&tasks_of(&cell).await), [(2, 2), (1, 1), (1, 1)]);
    for verb in [["rollout", "status"], ["job", "status"]] {
        cell.borough(&[verb[0], verb[1], "web"]).await.ended(0).prints(keep);
    }
    cell.borough(&["task", "restart", "web/1"]).await.ended(0);
    let again = |tasks: &[Task]| is_up(tasks, 3) && tasks[1].incarnation == 2;
    let tasks = cell.tasks_until("web", "the next attempt of task 1", again).await;
    assert_eq!(attempts(&tasks), [(2, 2), (2, 2), (1, 1)]);
    let gang = cell.file("gang.yaml", &limited("one").replace("count: 3", "count: 3\nmin_member: 2"));
    cell.borough(&["job", "run", &gang]).await.ended(2).warns("update.disruptions_max");
    cell.finish().await;
}

/// A drain has a further task serve before it ends the only one, and the count goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_service_of_one_task_that_surges_answers_every_request_through_drains() {
    let cell = TestCell::start(options!().nodes(2)).await;
    cell.run("web.yaml", &alone("one", "")).await;
    let watcher = Arc::new(Watcher::start(cell.client(), "web").await);
    watcher.until_published(1).await;
    let requests = Requests::start(Arc::clone(&watcher));
    for _ in 0..2 {
        let before = cell.tasks_until("web", "one task", |tasks| is_up(&tasks[..1], 1)).await.remove(0);
        cell.borough(&["node", "drain", &before.node]).await.ended(0);
        let over = |tasks: &[Task]| is_up(&tasks[..1], 1) && tasks[1].state() == TaskState::Dead;
        let after = cell.tasks_until("web", "one task again", over).await;
        assert_ne!(after[0].node, before.node);
        assert_eq!((after[0].incarnation, after[0].spec_version), (before.incarnation + 1, 1));
        requests.all_answered();
        cell.borough(&["node", "uncordon", &before.node]).await.ended(0);
    }
    cell.borough(&["job", "list", "-o", "json"]).await.ended(0).prints("\"count\": 1");
    let events = cell.borough(&["event", "list", "--job", "web"]).await.ended(0);
    events
        .prints("a further task surges while others are moved; running; count 1 and 1 surging, ")
        .prints("what surged while others were moved ends; running; count 1, ");
    assert!(requests.answered.load(Ordering::Relaxed) > 10);
    watcher.assert_sound();
    drop(requests);
    cell.finish().await;
}
