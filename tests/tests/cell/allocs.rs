//! Alloc sets: jobs share places on nodes, with their ports and a directory, and move together.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use borough_proto::v1::{Task, TaskState};
use borough_tests::{TestCell, is_healthy, is_stopped, options, until};
use rustix::process::{Pid, Signal, kill_process};

const SET: &str = "name: places\nkind: alloc_set\ntask: {resources: {cpu: 300m, memory: 64MiB}, ports: [http], grace: \
                   300ms}\nupdate: {healthy_after: 200ms}\n";

/// A job of `count` tasks in the set that run this script.
fn member(name: &str, count: u32, script: &str) -> String {
    format!(
        "name: {name}\ncount: {count}\nalloc_set: places\ntask: {{command: [sh, -c, '{script}'], resources: {{cpu: \
         100m, memory: 16MiB}}, grace: 300ms}}\nupdate: {{healthy_after: 200ms}}\nrestart: {{mode: always, backoff: \
         100ms}}\n"
    )
}

const SLEEP: &str = "exec sleep 600";

/// The only task of a job, once it is healthy in this or a later attempt.
async fn healthy(cell: &TestCell, job: &str, attempt: u64) -> Task {
    let what = format!("healthy in attempt {attempt}");
    let wanted = |tasks: &[Task]| tasks.iter().any(|task| is_healthy(task) && task.incarnation >= attempt);
    cell.tasks_until(job, &what, wanted).await.remove(0)
}

async fn stopped(cell: &TestCell, jobs: &[&str]) {
    for job in jobs {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn jobs_in_an_alloc_share_its_ports_and_its_directory_and_are_charged_once() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("places.yaml", SET).await.prints("1/1 healthy");
    let write = "echo one > $BOROUGH_ALLOC_DIR/note; exec sleep 600";
    let read = "until [ -e $BOROUGH_ALLOC_DIR/note ]; do sleep 0.1; done; read note < $BOROUGH_ALLOC_DIR/note; echo \
                in $BOROUGH_ALLOC at $HOST:$BOROUGH_ALLOC_PORT_HTTP $note $BOROUGH_ALLOC_DIR; exec sleep 600";
    cell.run("web.yaml", &member("web", 1, write)).await.prints("1/1 healthy");
    cell.run("logs.yaml", &member("logs", 1, read)).await.prints("1/1 healthy");
    let alloc = healthy(&cell, "places", 1).await;
    let said = until("what it read", || async {
        let output = cell.borough(&["job", "logs", "logs"]).await.stdout;
        output.contains("in places/0").then_some(output)
    })
    .await;
    let port = alloc.ports[0].number;
    assert!(said.contains(&format!("in places/0 at {}:{port} one ", alloc.host)), "{said}");
    let directory = said.split_whitespace().last().expect("a path").to_owned();
    assert!(Path::new(&directory).join("note").exists());

    // The node and the quota are charged for the alloc, and for nothing in it.
    let [web, logs] = [healthy(&cell, "web", 1).await, healthy(&cell, "logs", 1).await];
    assert_eq!((&web.node, &logs.node), (&alloc.node, &alloc.node));
    assert_eq!(web.charge.unwrap().cpu_millis, 0);
    assert_eq!((alloc.charge.unwrap().cpu_millis, web.alloc.unwrap().index), (300, 0));
    let inside: Vec<&str> = alloc.inside.iter().map(|task| task.job.as_str()).collect();
    assert_eq!(inside.len(), 2, "{inside:?}");
    cell.borough(&["node", "status", &alloc.node]).await.ended(0).prints("300m");
    let status = cell.borough(&["job", "status", "places"]).await.ended(0);
    status.prints("jobs in it").prints("web, logs").prints("in tester/places/0: ").prints("web/0 (cpu 100m");
    cell.borough(&["task", "status", "web/0"])
        .await
        .ended(0)
        .prints("tester/places/0, of which it takes cpu 100m");

    // It is held when a job in it has ended, and ends after all of them.
    let refused = cell.borough(&["job", "stop", "places"]).await;
    assert!(
        refused.stderr.contains("Stop them first: borough job stop tester/web tester/logs"),
        "{}",
        refused.stderr
    );
    stopped(&cell, &["web"]).await;
    assert_eq!(healthy(&cell, "places", 1).await.incarnation, 1);
    assert!(Path::new(&directory).join("note").exists(), "the directory is the alloc's");
    stopped(&cell, &["logs", "places"]).await;
    until("the end of the directory", || async { (!Path::new(&directory).exists()).then_some(()) }).await;
    cell.finish().await;
}

/// The node of each job's only task, with its attempt.
async fn places(cell: &TestCell, attempt: u64) -> Vec<(String, u64)> {
    let mut places = Vec::new();
    for job in ["places", "web", "logs"] {
        let task = healthy(cell, job, attempt).await;
        places.push((task.node, task.incarnation));
    }
    places
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_alloc_moves_with_what_is_in_it() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    cell.run("places.yaml", SET).await;
    for job in ["web", "logs"] {
        cell.run(&format!("{job}.yaml"), &member(job, 1, SLEEP)).await;
    }
    let first = places(&cell, 1).await;
    assert!(first.iter().all(|place| *place == first[0]), "{first:?}");
    let other = if first[0].0 == "alpha-1" { "alpha-2" } else { "alpha-1" };

    // A drain.
    cell.borough(&["node", "drain", &first[0].0]).await.ended(0);
    let drained = places(&cell, 2).await;
    assert!(drained.iter().all(|place| *place == (other.to_owned(), 2)), "{drained:?}");
    cell.borough(&["node", "uncordon", &first[0].0]).await.ended(0);

    // A lost node.
    let agent = cell.agent_found(other).await;
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;
    let lost = places(&cell, 3).await;
    assert!(lost.iter().all(|place| *place == (first[0].0.clone(), 3)), "{lost:?}");
    agent.signal(Signal::CONT).unwrap();

    // A restart by its owner, and the end of its own process.
    cell.borough(&["task", "restart", "places/0"]).await.ended(0);
    let again = places(&cell, 4).await;
    assert!(again.iter().all(|place| place.0 == again[0].0), "{again:?}");
    let holder = cell.tasks("places").await[0].pid.expect("it runs");
    kill_process(Pid::from_raw(i32::try_from(holder).unwrap()).unwrap(), Signal::KILL).unwrap();
    let after = places(&cell, 5).await;
    assert!(after.iter().all(|place| place.0 == after[0].0), "{after:?}");
    let web = cell.tasks("web").await.remove(0);
    assert_eq!(web.exit.unwrap().message, "its alloc ends or leaves the node");
    assert_eq!(web.restarts, 0, "what ended none by itself is no restart of it");

    // The tasks restart alone, and the alloc stays.
    cell.borough(&["task", "restart", "web/0"]).await.ended(0);
    let web = healthy(&cell, "web", 6).await;
    assert_eq!((web.node, cell.tasks("places").await[0].incarnation), (after[0].0.clone(), after[0].1));
    // A set is stopped after the jobs in it, however the names are ordered.
    cell.borough(&["job", "stop", "places", "web", "logs", "--yes"]).await.ended(0).prints("places");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_no_room_in_any_alloc_waits_and_says_what_each_has_left() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("places.yaml", &SET.replace("ports: [http], ", "").replace("kind:", "count: 2\nkind:")).await;
    let file = cell.file("web.yaml", &member("web", 7, SLEEP));
    let plan = cell.borough(&["job", "plan", &file]).await;
    plan.prints("place tasks 0, 2, 4 in alloc places/0 on alpha-1")
        .prints("waits for an alloc of set places");
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("web", "six healthy and one that waits", |tasks| {
        tasks.iter().filter(|task| is_healthy(task)).count() == 6
    })
    .await;
    let why = cell.borough(&["why", "web"]).await.ended(0);
    why.prints("waits for an alloc of set places with cpu 0.1 cores and memory 16MiB left")
        .prints("places/0 on alpha-1 has cpu 0 cores and memory 16MiB left");
    // The allocs hold as much as they do, whatever the node has.
    cell.borough(&["job", "scale", "places", "3"]).await.ended(0);
    cell.tasks_until("web", "seven healthy", |tasks| {
        tasks.iter().filter(|task| is_healthy(task)).count() == 7
    })
    .await;
    // A changed file reaches all, in their places.
    cell.run("web.yaml", &member("web", 7, "exec sleep 601")).await;
    let tasks = cell.tasks("web").await;
    assert!(
        tasks.iter().all(|task| task.spec_version == 2 && task.state() == TaskState::Running),
        "{tasks:?}"
    );
    stopped(&cell, &["web", "places"]).await;
    cell.finish().await;
}

/// Both jobs in an alloc may miss one task at a time, and their set may miss any number.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_changed_set_takes_one_alloc_after_the_other_with_what_is_in_it() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let set = SET
        .replace("kind:", "count: 2\nkind:")
        .replace("{healthy_after: 200ms}", "{healthy_after: 200ms, unavailable_max: 2}");
    cell.run("places.yaml", &set).await.prints("2/2 healthy");
    cell.run("web.yaml", &member("web", 2, SLEEP)).await.prints("2/2 healthy");
    let file = cell.file("places.yaml", &set.replace("cpu: 300m", "cpu: 310m"));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let fewest = std::cell::Cell::new(2);
    cell.tasks_until("web", "healthy in their second attempts", |tasks| {
        let healthy = tasks.iter().filter(|task| is_healthy(task)).count();
        fewest.set(fewest.get().min(healthy));
        healthy == 2 && tasks.iter().all(|task| task.incarnation == 2)
    })
    .await;
    assert!(fewest.get() >= 1, "the job may miss one");
    stopped(&cell, &["web", "places"]).await;
    cell.finish().await;
}

/// All allocs are healthy, so nothing of the set itself tells why its rollout stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_changed_set_says_which_job_in_it_holds_it_up() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let set = SET.replace("kind:", "count: 2\nkind:");
    cell.run("places.yaml", &set).await.prints("2/2 healthy");
    // The directory of the cell is closed to its tasks.
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    let broken = open.path().join("broken");
    let script = format!("rm -f ok; [ -e {} ] || touch ok; exec sleep 600", broken.display());
    let health =
        "health: {command: [test, -f, ok], interval: 200ms, initial_grace: 10m}, grace: 300ms}\nupdate";
    let web = member("web", 2, &script).replace("grace: 300ms}\nupdate", health);
    cell.run("web.yaml", &web).await.prints("2/2 healthy");
    // The first alloc takes its task with it. That runs again and is not healthy, which uses the budget.
    std::fs::write(&broken, "").unwrap();
    let file = cell.file("places.yaml", &set.replace("cpu: 300m", "cpu: 310m"));
    let run = cell.borough(&["job", "run", "--timeout", "20s", &file]).await.ended(1);
    run.warns("the rollout waits for the disruption budget of job tester/web: ");
    stopped(&cell, &["web", "places"]).await;
    cell.finish().await;
}

/// The restart of an alloc ends what is in it, so the next alloc waits for that too.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_restart_of_a_set_waits_for_the_tasks_in_each_alloc() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("places.yaml", &SET.replace("kind:", "count: 2\nkind:")).await.prints("2/2 healthy");
    let slow = "name: slow\ncount: 2\nalloc_set: places\ntask:\n  command: [sh, -c, 'sleep 1; touch ok; \
                exec sleep 600']\n  resources: {cpu: 50m, memory: 8MiB}\n  grace: 200ms\n  health: {command: [test, -f, ok], \
                interval: 200ms, initial_grace: 30s}\n";
    cell.run("slow.yaml", slow).await.prints("2/2 healthy");
    cell.borough(&["--yes", "job", "restart", "places"]).await.ended(0);
    let job = cell.borough(&["job", "status", "slow", "-o", "json"]).await.ended(0).json();
    assert_eq!(job["job"]["tasks"]["healthy"], 2, "{job}");
    stopped(&cell, &["slow", "places"]).await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_set_is_scaled_as_a_job_and_keeps_what_the_jobs_in_it_take() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("places.yaml", SET).await.prints("1/1 healthy");
    cell.run("web.yaml", &member("web", 3, SLEEP)).await.prints("3/3 healthy");
    cell.borough(&["job", "scale", "--yes", "places", "2"]).await.ended(0).prints("2/2 healthy");
    cell.run("logs.yaml", &member("logs", 1, SLEEP)).await.prints("1/1 healthy");
    assert_eq!(healthy(&cell, "logs", 1).await.alloc.unwrap().index, 1, "only the new alloc has room");
    cell.borough(&["job", "scale", "--yes", "places", "1"])
        .await
        .ended(4)
        .warns("an alloc that holds what all tasks of the jobs in the set take");
    let smaller = SET.replace("kind:", "count: 2\nkind:").replace("cpu: 300m", "cpu: 150m");
    let file = cell.file("places.yaml", &smaller);
    for verb in ["plan", "run"] {
        let refused = cell.borough(&["job", verb, "--yes", &file]).await.ended(2);
        refused
            .warns("task.resources")
            .warns("allocs that together hold what all tasks of the jobs in the set take, cpu 400m");
    }
    assert_eq!(healthy(&cell, "logs", 1).await.incarnation, 1, "a refused change touches nothing");
    stopped(&cell, &["logs"]).await;
    cell.borough(&["job", "scale", "--yes", "places", "1"]).await.ended(0).prints("1/1 healthy");
    assert!(
        cell.tasks_until("web", "running", |tasks| tasks.len() == 3)
            .await
            .iter()
            .all(|task| task.incarnation == 1)
    );
    stopped(&cell, &["web", "places"]).await;
    cell.finish().await;
}
