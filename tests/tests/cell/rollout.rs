//! Rollouts: a changed file reaches the tasks of a running job, and what fails is taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use borough_proto::v1::{Health, RolloutState, Task, TaskState};
use borough_tests::{TestCell, Watcher, http_get, is_up, options, until};
use parking_lot::Mutex;

/// A service of three tasks that write `word`. `more` is further text of the file.
fn web(word: &str, more: &str) -> String {
    format!(
        "name: web\ncount: 3\nupdate: {{healthy_after: 300ms}}\nrestart: {{mode: always, backoff: 100ms}}\n{more}\
         task: {{command: [sh, -c, '{word}'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 300ms}}\n"
    )
}

pub(crate) fn says(word: &str) -> String {
    web(&format!("echo {word}; exec sleep 600"), "")
}

/// The numbers of the tasks' attempts, with the versions that they have.
pub(crate) fn attempts(tasks: &[Task]) -> Vec<(u64, u32)> {
    tasks.iter().map(|task| (task.incarnation, task.spec_version)).collect()
}

/// The tasks of the owner, whatever has surged beside them.
async fn own_tasks_of(cell: &TestCell) -> Vec<Task> {
    let own = |tasks: &[Task]| tasks.iter().filter(|task| task.index < 3).cloned().collect::<Vec<_>>();
    own(&cell.tasks_until("web", "three healthy tasks", |tasks| is_up(&own(tasks), 3)).await)
}

pub(crate) async fn tasks_of(cell: &TestCell) -> Vec<Task> {
    cell.tasks_until("web", "three healthy tasks", |tasks| is_up(tasks, 3)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_changed_file_reaches_one_task_after_the_other() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &says("one")).await;
    cell.borough(&["rollout", "status", "web"]).await.ended(4).warns("has had no rollout");
    let file = cell.file("web.yaml", &says("two"));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("replace the attempts of tasks 0-2, at most 1 away at a time");
    let ran = cell.borough(&["job", "run", &file]).await.ended(0);
    ran.prints("tester/web: 3/3 healthy with version 2");
    assert_eq!(attempts(&tasks_of(&cell).await), [(2, 2); 3]);
    for index in ["0", "1", "2"] {
        cell.borough(&["task", "logs", &format!("web/{index}")]).await.ended(0).prints("two");
    }
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints("of version 2: done").prints("3 of 3 have it, 3 of these are healthy");
    // The same file changes nothing, and a label no task.
    cell.borough(&["job", "run", &file]).await.ended(0).warns("no change");
    cell.borough(&["job", "label", "web", "team=shop"]).await.ended(0);
    assert_eq!(attempts(&tasks_of(&cell).await), [(2, 2); 3]);
    // Only the task that the change concerns is replaced.
    let own = "overrides: {1: {environment: {COLOUR: red}}}\n";
    let file =
        cell.file("own.yaml", &web("echo two; exec sleep 600", &format!("labels: {{team: shop}}\n{own}")));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("tester/web: 1/1 healthy with version 4");
    assert_eq!(attempts(&tasks_of(&cell).await), [(2, 2), (3, 4), (2, 2)]);
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints("1 of 1 have it, 1 of these are healthy; 2 other tasks of the job need no change");
    // A change of the count alone waits for the new task, whatever the last rollout was.
    let text = std::fs::read_to_string(&file).unwrap().replace("count: 3", "count: 4");
    cell.borough(&["job", "run", &cell.file("four.yaml", &text)]).await.ended(0).prints("4/4 healthy");
    // It is no change of the last version, nor of the next one.
    let label = ["job", "label", "web", "team=store"];
    cell.borough(&label).await.ended(0);
    let history = cell.borough(&["job", "history", "web"]).await.ended(0).prints("version 5 of ");
    assert!(!history.stdout.contains("count: "), "{}", history.stdout);
    // What a running job keeps.
    let batch = cell.file("batch.yaml", "name: web\nkind: batch\ncount: 4\ntask: {command: ['true']}\n");
    let refused = cell.borough(&["job", "run", &batch]).await.ended(4);
    refused.warns(
        "has not ended, and keeps its kind, gang, scheduler and alloc set until then: kind cannot change",
    );
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_version_that_fails_is_taken_back_and_touches_no_more_tasks_than_it_may() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &says("one")).await;
    let crash = cell.file("crash.yaml", &web("echo no configuration; exit 7", ""));
    let failed = cell.borough(&["job", "run", &crash]).await.ended(1);
    // The attempt that failed is gone by now. What it was is still said.
    let why = "tester/web: version 2 was taken back: task 0 failed 3 times in a row; its attempt ended with exit code 7";
    failed.warns(why).warns("the last lines of tester/web/0:\n").warns("  no configuration\n");
    let after = attempts(&tasks_of(&cell).await);
    assert_eq!((after[0].1, &after[1..]), (3, &[(1, 1), (1, 1)][..]), "only task 0 was replaced");
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints("of version 3: done").prints("version 2").prints("task 0 failed 3 times in a row");
    cell.borough(&["task", "logs", "web/0"]).await.ended(0).prints("one");

    // One that is never healthy makes no progress.
    let never = "progress_deadline: 6s\n";
    let text =
        web("exec sleep 600", never).replace("resources:", "ports: [http], health: {tcp: http}, resources:");
    let file = cell.file("never.yaml", &text);
    let failed = cell.borough(&["job", "run", &file]).await.ended(1);
    failed
        .warns("version 4 was taken back: no further task became healthy within 6s")
        .warns("its probe has not passed since the start: a TCP connection to port http (");
    let after = attempts(&tasks_of(&cell).await);
    assert_eq!(&after[1..], [(1, 1), (1, 1)]);

    // A job that wants no way back stays as it is, and a correction goes on from there.
    let text =
        web("exit 7", "").replace("{healthy_after: 300ms}", "{healthy_after: 300ms, on_failure: stop}");
    let file = cell.file("stop.yaml", &text);
    let failed = cell.borough(&["job", "run", &file]).await.ended(1);
    failed.warns(
        "the rollout of version 6 failed: task 0 failed 3 times in a row; its attempt ended with exit code 7",
    );
    cell.borough(&["job", "list"]).await.ended(0).prints("running (rollout failed)");
    let why = "rollout of version 6 from 5, failed: task 0 failed 3 times in a row";
    cell.borough(&["why", "web"]).await.ended(0).prints(why);
    named_events(&cell).await;
    let file = cell.file("web.yaml", &says("mended"));
    cell.borough(&["job", "run", &file]).await.ended(0);
    let versions: Vec<u32> = tasks_of(&cell).await.iter().map(|task| task.spec_version).collect();
    assert_eq!(versions, [7, 7, 7]);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rollout_is_paused_resumed_superseded_and_taken_back() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &says("one")).await;
    // Each new attempt counts only after a minute, so the rollout stands at its first task.
    let slow = says("two").replace("healthy_after: 300ms", "healthy_after: 1m");
    let file = cell.file("slow.yaml", &slow);
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("web", "the first one is healthy with version 2", |tasks| {
        is_up(tasks, 3) && tasks[0].spec_version == 2 && tasks[0].health() == Health::Healthy
    })
    .await;
    let progress = "of version 2 from 1, rolling; 1 of 3 have it, 1 of these are healthy";
    let status = cell.borough(&["job", "status", "web"]).await.ended(0);
    let status = status.prints(progress).prints("TASK          STATE    HEALTH   VERSION  NODE");
    assert!(status.stdout.contains("running  healthy  2        alpha-1"), "{}", status.stdout);
    assert!(status.stdout.contains("running  healthy  1        alpha-1"), "{}", status.stdout);
    cell.borough(&["why", "web"]).await.ended(0).prints(&format!("rollout {progress}"));
    cell.borough(&["job", "list"]).await.ended(0).prints("running (rollout 1/3)");
    let listed = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    let rollout = &listed[0]["rollout"];
    assert_eq!(
        (&rollout["from"], &rollout["version"], &rollout["updated"]),
        (&1.into(), &2.into(), &1.into())
    );
    cell.borough(&["task", "list", "-o", "wide"]).await.ended(0).prints("VERSION");
    cell.borough(&["rollout", "pause", "web"]).await.ended(0).prints("of version 2: paused");
    cell.borough(&["job", "list"]).await.ended(0).prints("running (rollout paused 1/3)");
    cell.borough(&["rollout", "resume", "web"]).await.ended(0).prints("of version 2: rolling");
    // The same file again follows the rollout that goes on.
    let again = cell.borough(&["job", "run", "--timeout", "2s", &file]).await.ended(1);
    again.warns("no change").warns("1/3 healthy with version 2");
    // Without a minute's wait the second one supersedes the first.
    let file = cell.file("three.yaml", &says("three"));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("3/3 healthy with version 3");
    cell.borough(&["rollout", "undo", "web", "--to", "2", "--yes"])
        .await
        .ended(4)
        .warns("was not rolled out");
    let undone = cell.borough(&["rollout", "undo", "web", "--yes"]).await.ended(0);
    let undone =
        undone.warns("tester/web: from version 3 back to version 1:\n  ~ task.command").warns("exec sleep");
    undone.prints("of version 4: done").prints("takes back   version 3").prints("brings back  version 1");
    for index in ["0", "1", "2"] {
        cell.borough(&["task", "logs", &format!("web/{index}")]).await.ended(0).prints("one");
    }
    let history = cell.borough(&["job", "history", "web"]).await.ended(0).prints("VERSION  TIME");
    assert!(history.stdout.lines().nth(1).unwrap().contains("user/tester"), "{}", history.stdout);
    let history = cell.borough(&["job", "history", "web", "-o", "json"]).await.ended(0).json();
    assert!(
        history.as_array().unwrap().iter().all(|version| version["at_ms"].as_i64() > Some(0)),
        "{history}"
    );
    let job = cell.client().job_get(&cell.job("web")).await.unwrap().job.unwrap();
    let rollout = job.rollout.unwrap();
    assert_eq!((rollout.state(), rollout.reverts, rollout.versions), (RolloutState::Done, 3, vec![1, 3]));
    until("the endpoint of each task, as before", || async {
        is_up(&cell.client().task_list_of_job(&cell.job("web")).await.unwrap().0, 3).then_some(())
    })
    .await;
    // A rollout that was done before the job was stopped stays done.
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    let status = cell.borough(&["rollout", "status", "web", "--wait"]).await.ended(0);
    status.prints("of version 4: done, and the job is stopped");
    cell.finish().await;
}

/// Each change of a rollout has a name in the list of events.
async fn named_events(cell: &TestCell) {
    let events = cell.borough(&["event", "list", "--job", "web", "--limit", "500"]).await.ended(0);
    events
        .prints("rollout of version 2 begun; ")
        .prints("rollout of version 2: step 1 ends attempts of earlier versions; ")
        .prints("rollout of version 2 failed: task 0 failed 3 times in a row; version 3 takes it back; ")
        .prints("rollout of version 3 done; ")
        .prints("rollout of version 6 failed: task 0 failed 3 times in a row; ");
}

/// A change is bound to what people have changed, and not to the steps of a rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_checked_change_is_refused_after_another_one_and_not_after_a_step() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &says("one")).await;
    let slow = |word: &str| says(word).replace("healthy_after: 300ms", "healthy_after: 1m");
    let plan = async |file: &str| {
        let plan = cell.borough(&["job", "plan", file, "-o", "json"]).await.ended(1).json();
        format!("{}@{}", plan["id"].as_str().unwrap(), plan["revision"])
    };
    cell.borough(&["job", "run", "--detach", &cell.file("two.yaml", &slow("two"))]).await.ended(0);
    let (ours, theirs) = (cell.file("ours.yaml", &slow("ours")), cell.file("theirs.yaml", &slow("theirs")));
    let (checked, late) = (plan(&ours).await, plan(&theirs).await);
    cell.tasks_until("web", "the first one has version 2", |tasks| tasks[0].spec_version == 2).await;
    cell.borough(&["rollout", "pause", "web"]).await.ended(0);
    let run = async |checked: &str, file: &str| {
        cell.borough(&["job", "run", "--detach", "--check-revision", checked, file]).await
    };
    run(&checked, &ours).await.ended(0);
    // The second one sees what the first one has changed, and how to go on.
    let refused = run(&late, &theirs).await.ended(4);
    let refused = refused.warns("the plan was made at").warns(": user/tester has changed it at revision ");
    let refused = refused.warns("what has changed since revision ").warns("~ task.command[2]: ");
    refused.warns("echo ours").warns(&format!("hint: borough job plan {theirs}"));
    // An editor is open while the controller steps, and while somebody else changes the job.
    let program = cell.command(&[]).as_std().get_program().to_str().unwrap().to_owned();
    let edit = async |meanwhile: &str, script: &str| {
        let editor = format!("{program} {meanwhile}; sed -i {script}");
        let variables = [("VISUAL", ""), ("EDITOR", editor.as_str())];
        cell.borough_with(&["job", "edit", "web", "--yes", "--detach"], &variables).await
    };
    edit("rollout pause web", "s/ours/edited/").await.ended(0);
    let late = edit("job scale web 2 --detach", "s/edited/late/").await.ended(4);
    late.warns("since the editor showed revision").warns(", last by user/tester").warns("~ count: 3 -> 2");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// A service of one task whose rollouts surge. Each version answers with its own page.
pub(crate) fn alone(version: &str, more: &str) -> String {
    let page = format!(
        "mkdir -p www; echo {version} > www/index.html; {more}cd www; exec python3 -u -m http.server"
    );
    format!(
        "name: web\ncount: 1\ndrain_delay: 1s\nupdate: {{unavailable_max: 0, surge_max: 1, healthy_after: 500ms}}\n\
         restart: {{mode: always, backoff: 100ms}}\ntask:\n  command: [sh, -c, '{page} --bind 127.0.0.1 $PORT_HTTP']\n  \
         resources: {{cpu: 20m, memory: 32MiB}}\n  ports: [http]\n  grace: 1s\n  \
         health: {{tcp: http, interval: 1s, timeout: 1s, failures: 10, initial_grace: 20s}}\n"
    )
}

/// Sends a request to a healthy endpoint again and again. Every one of them must be answered.
pub(crate) struct Requests {
    failed: Arc<Mutex<Vec<String>>>,
    pub(crate) answered: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<()>,
}

impl Requests {
    pub(crate) fn start(watcher: Arc<Watcher>) -> Self {
        let (failed, answered) = (Arc::default(), Arc::default());
        let (of_task, count): (Arc<Mutex<Vec<String>>>, Arc<AtomicU32>) =
            (Arc::clone(&failed), Arc::clone(&answered));
        let task = tokio::spawn(async move {
            loop {
                let published = watcher.published();
                let healthy = published.values().find(|endpoint| endpoint.health() == Health::Healthy);
                let answer = match healthy {
                    None => Err(format!("no healthy endpoint: {published:?}")),
                    Some(endpoint) => {
                        let address = format!("{}:{}", endpoint.host, endpoint.ports[0].number);
                        http_get(&address, "/", None).await.map_err(|error| format!("{endpoint:?}: {error}"))
                    }
                };
                match answer {
                    Ok((200, _)) => drop(count.fetch_add(1, Ordering::Relaxed)),
                    other => of_task.lock().push(format!("{other:?}")),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Self { failed, answered, task }
    }

    pub(crate) fn all_answered(&self) {
        let failed = self.failed.lock();
        assert!(
            failed.is_empty(),
            "{} failed: {:#?}",
            failed.len(),
            failed.iter().take(5).collect::<Vec<_>>()
        );
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_one_task_that_surges_answers_every_request() {
    let cell = TestCell::start(options!().nodes(2)).await;
    cell.run("web.yaml", &alone("one", "")).await;
    let watcher = Arc::new(Watcher::start(cell.client(), "web").await);
    watcher.until_published(1).await;
    let requests = Requests::start(Arc::clone(&watcher));
    let file = cell.file("web.yaml", &alone("two", ""));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("place task 1 on alpha-")
        .prints("replace the attempts of task 0, at most 1 away at a time, while 1 more surges");
    let ran = cell.borough(&["job", "run", &file]).await.ended(0);
    ran.prints("tester/web: 1/1 healthy with version 2");
    let tasks = cell.client().task_list_of_job(&cell.job("web")).await.unwrap().0;
    assert_eq!((tasks[0].spec_version, tasks[1].state()), (2, TaskState::Dead), "{tasks:?}");
    requests.all_answered();
    // It has ended, and only who asks for it sees it.
    for verb in [&["job", "status", "web"][..], &["task", "list"], &["task", "status", "web"]] {
        let shown = cell.borough(verb).await.ended(0).prints("tester/web/0");
        assert!(!shown.stdout.contains("tester/web/1"), "{}", shown.stdout);
    }
    cell.borough(&["task", "list", "--state", "dead"]).await.ended(0).prints("tester/web/1");
    cell.borough(&["task", "status", "web", "--index", "1"]).await.ended(0).prints("tester/web/1");

    // One that surges is no task of the owner: the count stays, and it ends with the rollout.
    let slow = alone("three", "").replace("healthy_after: 500ms", "healthy_after: 1m");
    cell.borough(&["job", "run", "--detach", &cell.file("slow.yaml", &slow)]).await.ended(0);
    cell.tasks_until("web", "two healthy tasks", |tasks| is_up(tasks, 2)).await;
    cell.borough(&["job", "status", "web"])
        .await
        .ended(0)
        .prints("1 wanted and 1 surging: ")
        .prints("; 1 surging");
    cell.borough(&["task", "list"]).await.ended(0).prints("running (surging)");
    cell.borough(&["job", "list", "-o", "json"]).await.ended(0).prints("\"count\": 1");
    let events = cell.borough(&["event", "list", "--job", "web"]).await.ended(0);
    let events = events.prints("count 1 and 1 surging, ");
    assert_eq!(events.stdout.matches("rollout of version 3 begun").count(), 1, "{}", events.stdout);
    let again =
        cell.borough(&["job", "run", "--timeout", "2s", &cell.file("slow.yaml", &slow)]).await.ended(1);
    again.warns("0/1 healthy with version 3, 1 surging");
    // Version 3 still surges, so the next one replaces task 0. It fails and is taken back, and version 3 has served.
    let crash = cell.file("crash.yaml", &alone("four", "exit 7; "));
    let failed = cell.borough(&["job", "run", &crash]).await.ended(1);
    failed.warns("version 4 was taken back: task 0 failed 3 times in a row");
    let over = |tasks: &[Task]| is_up(&tasks[..1], 1) && tasks[1].state() == TaskState::Dead;
    let before = cell.tasks_until("web", "one task", over).await;
    requests.all_answered();
    // Nothing surges any more, so the same again replaces nothing.
    let failed = cell.borough(&["job", "run", &crash]).await.ended(1);
    failed.warns("version 6 was taken back: task 1 failed 3 times in a row");
    let after = cell.tasks_until("web", "one task", over).await;
    assert_eq!(attempts(&after[..1]), attempts(&before[..1]));
    requests.all_answered();
    assert!(requests.answered.load(Ordering::Relaxed) > 10);
    watcher.assert_sound();

    // Without a surge, a bound of none could never begin.
    let never = cell.file("never.yaml", &alone("five", "").replace(", surge_max: 1", ""));
    let refused = cell.borough(&["job", "run", &never]).await.ended(2);
    refused.warns("update.unavailable_max").warns("or 0 with a `surge_max` or `canaries` of 1 or more");
    drop(requests);
    cell.finish().await;
}

/// One canary beside the job's own tasks runs the new version. The others keep theirs until somebody promotes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_canary_is_tried_and_promoted_and_one_that_fails_touches_no_other_task() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let tried = |word: &str, more: &str| {
        let text = web(word, "");
        text.replace("{healthy_after: 300ms}", &format!("{{healthy_after: 300ms, canaries: 1{more}}}"))
    };
    let sleeps = |word: &str| format!("echo {word}; exec sleep 600");
    cell.run("web.yaml", &tried(&sleeps("one"), "")).await;
    cell.borough(&["rollout", "promote", "web"]).await.ended(4).warns("has had no rollout");
    let file = cell.file("two.yaml", &tried(&sleeps("two"), ""));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints(
        "1 canary first, task 3; once it is healthy and promoted:\nreplace the attempts of tasks 0-2, at most",
    );
    let ran = cell.borough(&["job", "run", &file]).await.ended(0);
    ran.prints("1 canary is healthy with version 2; to go on: borough rollout promote tester/web");
    let versions = |tasks: &[Task]| tasks.iter().map(|task| task.spec_version).collect::<Vec<_>>();
    let up = |tasks: &[Task]| is_up(tasks, 4);
    assert_eq!(versions(&cell.tasks_until("web", "a canary beside three", up).await), [1, 1, 1, 2]);
    cell.borough(&["task", "logs", "web/3"]).await.ended(0).prints("two");
    let status = cell.borough(&["rollout", "status", "--wait", "web"]).await.ended(0);
    status
        .prints("of version 2: rolling")
        .prints("1 canary is healthy since ")
        .prints("borough rollout promote tester/web");
    cell.borough(&["job", "list"]).await.ended(0).prints("running (canary waits for promote)");
    let listed = cell.borough(&["job", "list", "-o", "json"]).await.ended(0).json();
    assert_eq!(listed[0]["rollout"]["canaries"], 1);
    assert!(listed[0]["rollout"]["canaries_healthy_ms"].is_i64(), "{listed}");
    // A task of the owner that begins again has the version that it had.
    cell.borough(&["task", "restart", "web/0"]).await.ended(0);
    let tasks = cell.tasks_until("web", "task 0 again", |tasks| up(tasks) && tasks[0].incarnation == 2).await;
    assert_eq!(versions(&tasks), [1, 1, 1, 2]);
    cell.borough(&["event", "list"])
        .await
        .ended(0)
        .prints("its canaries are healthy and wait for `rollout promote`");

    // A further version that crashes is taken back, and no task of the owner has had it.
    let file = cell.file("crash.yaml", &tried("echo no configuration; exit 7", ""));
    let failed = cell.borough(&["job", "run", &file]).await.ended(1);
    failed.warns(
        "version 3 was taken back: task 3 failed 3 times in a row; its attempt ended with exit code 7",
    );
    assert_eq!(attempts(&own_tasks_of(&cell).await), [(2, 1), (1, 1), (1, 1)]);

    let ran =
        cell.borough(&["job", "run", &cell.file("two.yaml", &tried(&sleeps("two"), ""))]).await.ended(0);
    ran.prints("1 canary is healthy with version 5");
    let promoted = cell.borough(&["rollout", "promote", "web"]).await.ended(0);
    promoted.prints("of version 5: done").prints("3 of 3 have it, 3 of these are healthy");
    assert_eq!(versions(&own_tasks_of(&cell).await), [5, 5, 5]);
    cell.borough(&["rollout", "promote", "web"]).await.ended(4).warns("its rollout is over: done");
    // Canaries that promote the version themselves.
    let file = cell.file("auto.yaml", &tried(&sleeps("three"), ", auto_promote: true"));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("3/3 healthy with version 6");
    assert_eq!(versions(&own_tasks_of(&cell).await), [6, 6, 6]);
    cell.finish().await;
}

/// A task that is to surge and fits nowhere holds up the whole rollout. Each place that shows the rollout says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_rollout_says_that_a_surging_task_has_no_node() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let file = |cpu: &str, more: &str| {
        let update = format!("{{healthy_after: 300ms, surge_max: 1{more}}}");
        let text =
            web("exec sleep 600", "progress_deadline: 4s\n").replace("{healthy_after: 300ms}", &update);
        // Other amounts alone would be tried in place first.
        text.replace("cpu: 10m", &format!("cpu: {cpu}"))
            .replace("sleep 600", &format!("sleep 600.{}", cpu.trim_end_matches('m')))
    };
    cell.run("web.yaml", &file("10m", "")).await;
    let large = cell.file("large.yaml", &file("900", ""));
    let failed = cell.borough(&["job", "run", &large]).await.ended(1);
    let reason = "no further task became healthy within 4s, and 1 surging task had no node";
    failed
        .warns("0/3 healthy with version 2; 1 surging task waits for a node (borough why tester/web)")
        .warns(&format!(
            "error: tester/web: version 2 was taken back: {reason}\n  surging task 3: fits on none"
        ))
        .warns("; borough why tester/web\n");
    // What surged for the way back ends first: until then it has its node.
    let has_ended = |tasks: &[Task]| tasks[3..].iter().all(|task| task.state() == TaskState::Dead);
    cell.tasks_until("web", "three tasks", has_ended).await;
    // While it waits, and when nothing takes it back.
    let large = cell.file("large.yaml", &file("900", ", on_failure: stop").replace("4s", "6s"));
    cell.borough(&["job", "run", "--detach", &large]).await.ended(0);
    // The scheduler looks at the new version in a moment.
    let status = until("a reason of the surging task", || async {
        let status = cell.borough(&["rollout", "status", "web"]).await;
        status.stdout.contains("surging task 3: fits on none").then_some(status)
    });
    let status = status.await.ended(0);
    let waits = "; 1 surging task waits for a node (borough why tester/web)\n";
    status.prints(": rolling\n").prints(waits).prints("\nsurging task 3: fits on none of 1 node");
    let listed = cell.borough(&["job", "list"]).await.ended(0);
    listed.prints("running (rollout 0/3, 1 to surge)").prints("  3/3  ");
    let failed = cell.borough(&["job", "run", &large]).await.ended(1);
    failed.warns("the rollout of version 4 failed: ").warns("; borough rollout undo tester/web\n");
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints(": failed\n").prints(waits).prints("\nsurging task 3: fits on none of 1 node");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.borough(&["job", "status", "web"]).await.ended(0).prints("failed").prints("; the job is stopped");
    cell.finish().await;
}

/// A task that ends since its job is smaller has not failed, and none of its restarts is one of a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_smaller_and_a_larger_count_restart_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &says("one")).await;
    // The second time, the tasks still end when they are wanted again.
    for shrink in [&["job", "scale", "web", "1"][..], &["job", "scale", "web", "1", "--detach"]] {
        cell.borough(shrink).await.ended(0);
        cell.borough(&["job", "scale", "web", "3"]).await.ended(0);
        let tasks = tasks_of(&cell).await;
        assert!(tasks.iter().all(|task| (task.restarts, task.failures) == (0, 0)), "{tasks:?}");
        assert!(tasks[1..].iter().all(|task| task.incarnation > 1), "{tasks:?}");
    }
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}
