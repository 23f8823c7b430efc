//! `job restart`: one task at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use borough_client::Client;
use borough_proto::v1::Task;
use borough_tests::{TestCell, is_healthy, options};
use serde_json::json;

fn incarnations(tasks: &[Task]) -> Vec<u64> {
    tasks.iter().map(|task| task.incarnation).collect()
}

/// Looks at a job all the time, and counts the most tasks that were not healthy at once.
struct DownWatch {
    over: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    looks: tokio::task::JoinHandle<()>,
}

impl DownWatch {
    fn start(client: Client, job: borough_client::JobRef) -> Self {
        let (over, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ended, seen) = (Arc::clone(&over), Arc::clone(&most));
        let looks = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                let tasks = client.task_list_of_job(&job).await.unwrap().0;
                let down = tasks.iter().filter(|task| !is_healthy(task)).count();
                seen.fetch_max(down, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Self { over, most, looks }
    }

    async fn most(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.looks.await.unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_is_restarted_one_task_at_a_time() {
    let cell = TestCell::start(options!()).await;
    let task = "task: {command: [sleep, '600'], resources: {cpu: 10m, memory: 4MiB}, grace: 100ms}";
    cell.run("web.yaml", &format!("name: web\ncount: 4\n{task}\n")).await;
    assert_eq!(incarnations(&cell.tasks("web").await), [1; 4]);
    let watch = DownWatch::start(cell.client().clone(), cell.job("web"));
    let ran = cell.borough(&["job", "restart", "web", "-o", "json"]).await.ended(0);
    assert_eq!(watch.most().await, 1, "one at a time");
    let expected = json!({"user": "tester", "name": "web", "restarted": [0, 1, 2, 3], "left": []});
    assert_eq!(ran.json(), expected);
    let tasks = cell.tasks("web").await;
    assert!(incarnations(&tasks) == [2; 4] && tasks.iter().all(is_healthy), "{tasks:?}");

    cell.borough(&["job", "restart", "web", "--task", "2"])
        .await
        .ended(0)
        .prints("tester/web: 1 task restarted");
    cell.borough(&["job", "restart", "web", "--from", "3"])
        .await
        .ended(0)
        .prints("tester/web: 1 task restarted");
    assert_eq!(incarnations(&cell.tasks("web").await), [2, 2, 3, 3]);
    cell.borough(&["job", "restart", "web", "--task", "0,9"])
        .await
        .ended(3)
        .warns("no task 9; accepted: 0 to 3");
    assert_eq!(incarnations(&cell.tasks("web").await), [2, 2, 3, 3], "refused whole");
    cell.borough(&["job", "restart", "nothing"]).await.ended(3).warns("no job \"nothing\" of user tester");

    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.borough(&["job", "restart", "web"]).await.ended(4).warns("job tester/web is stopped");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_restart_stops_at_the_task_that_does_not_come_back() {
    let cell = TestCell::start(options!().nodes(1)).await;
    // The second attempt of task 1 never lives.
    let script = "test $BOROUGH_INDEX$BOROUGH_ATTEMPT = 12 && exit 3; exec sleep 600";
    let job = format!(
        "name: ill\ncount: 3\nrestart: {{mode: always, backoff: 1h, backoff_max: 1h}}\n\
         task: {{command: [sh, -c, '{script}'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 100ms}}\n"
    );
    cell.run("ill.yaml", &job).await;
    let ran = cell.borough(&["job", "restart", "ill", "--timeout", "15s"]).await.ended(1);
    let ran = ran.warns("tester/ill/1: pending").warns("after 15s").warns("exit code 3");
    let ran = ran
        .warns("stopped at task 1; restarted before: task 0")
        .warns("borough job restart tester/ill --from 1");
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let tasks = cell.tasks("ill").await;
    assert_eq!(incarnations(&tasks), [2, 2, 1], "the last one is left alone");

    // A task that was never placed has no output to look at.
    let wide = "name: wide\ntask: {command: [sleep, '600'], resources: {cpu: 900, memory: 4MiB}}\n";
    let wide = cell.file("wide.yaml", wide);
    cell.borough(&["job", "run", "--detach", &wide]).await.ended(0);
    let never = cell.borough(&["job", "restart", "wide", "--task", "0"]).await.ended(4);
    assert!(never.stderr.ends_with("hint: borough why tester/wide/0\n"), "{never:?}");
    for verb in [&["task", "logs", "wide/0"][..], &["task", "logs", "-f", "wide/0"]] {
        let none = cell.borough(verb).await.ended(4);
        none.warns("task tester/wide/0 was never placed").warns("hint: borough why tester/wide/0");
    }
    let none = cell.borough(&["task", "exec", "wide/0", "--", "true"]).await.ended(255);
    none.warns("hint: borough why tester/wide/0");
    cell.borough(&["job", "stop", "wide"]).await.ended(0);

    // The task in its pause is left alone by the next restart, and started by one that names it.
    let left = cell.borough(&["job", "restart", "ill", "--from", "1"]).await.ended(0);
    left.prints("tester/ill: 1 task restarted")
        .prints("task 1 was left alone: it waits for the end of its back-off after a failure");
    cell.borough(&["job", "restart", "ill", "--task", "1"]).await.ended(0);
    let tasks = cell.tasks("ill").await;
    assert!(incarnations(&tasks) == [2, 3, 2] && tasks.iter().all(is_healthy), "{tasks:?}");
    cell.borough(&["job", "stop", "ill"]).await.ended(0);
    cell.finish().await;
}
