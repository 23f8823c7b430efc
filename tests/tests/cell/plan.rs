//! Plans: effects of a job file before they happen, and explanations of what is impossible.

use borough_proto::v1::TaskState;
use borough_tests::{TestCell, options};
use serde_json::Value;

use crate::example;

/// The index of a task, its node and its ports.
type Placed = (u64, String, Value);

/// Plans a job file, then runs it: what was planned, and what was done.
async fn planned_and_done(cell: &TestCell, name: &str, file: &str) -> (Vec<Placed>, Vec<Placed>) {
    let plan = cell.borough(&["job", "plan", file, "-o", "json"]).await.ended(1).json();
    cell.borough(&["job", "run", file]).await.ended(0);
    let planned = plan["placements"].as_array().unwrap().iter().map(|placed| {
        let node = placed["node"].as_str().unwrap().to_owned();
        (placed["index"].as_u64().unwrap(), node, placed["ports"].clone())
    });
    let done = cell.tasks(name).await.into_iter().map(|task| {
        let ports = task.ports.iter().map(|port| (port.name.clone(), Value::from(port.number)));
        (u64::from(task.index), task.node.clone(), Value::Object(ports.collect()))
    });
    (planned.collect(), done.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_plan_shows_exactly_what_run_then_does() {
    let cell = TestCell::start(options!().nodes(3)).await;
    for (name, count) in [("one", 1), ("four", 4), ("nine", 9)] {
        let text = format!(
            "name: {name}\ncount: {count}\ntask:\n  command: [sleep, 600]\n  ports: [http, admin]\n  grace: 200ms\n  \
             resources: {{cpu: 20m, memory: 4MiB}}\nspread: [rack, node.name]\n"
        );
        let file = cell.file(&format!("{name}.yaml"), &text);
        // A commit that meets another one of the cell decides again, and then other nodes may be as good.
        let mut tries = 1;
        loop {
            let (planned, done) = planned_and_done(&cell, name, &file).await;
            if done == planned {
                break;
            }
            assert!(tries < 3, "{name}: {done:?} was done, and {planned:?} was planned");
            tries += 1;
            cell.borough(&["job", "stop", name]).await.ended(0);
        }
        cell.borough(&["job", "plan", &file]).await.ended(0).prints("no change");
    }
    // For a shrink: which tasks stop. For a refusal: why.
    let fewer = "name: four\ncount: 2\ntask:\n  command: [sleep, 600]\n  ports: [http, admin]\n  grace: 200ms\n  \
        resources: {cpu: 20m, memory: 4MiB}\nspread: [rack, node.name]\n";
    let plan =
        cell.borough(&["job", "plan", &cell.file("fewer.yaml", fewer), "-o", "json"]).await.ended(1).json();
    assert_eq!(plan["stopped"], serde_json::json!([2, 3]));
    let longer = fewer.replace("[sleep, 600]", "[sleep, 601]").replace("count: 2", "count: 4");
    let plan = cell.borough(&["job", "plan", &cell.file("longer.yaml", &longer)]).await.ended(1);
    plan.prints("replace the attempts of tasks 0-3, at most 1 away at a time");
    let other = cell.file("other.yaml", &longer.replace("name: four\n", "name: four\nkind: batch\n"));
    let plan = cell.borough(&["job", "plan", &other]).await.ended(2);
    assert!(plan.stdout.contains("would refuse it") && plan.stdout.contains("kind"), "{plan:?}");
    let next = format!("to run it all the same: borough job stop tester/four, then borough job run {other}");
    plan.warns(&next);
    let ran = cell.borough(&["job", "run", &other]).await.ended(4).warns(&format!("hint: {next}"));
    assert!(ran.stderr.contains("~ kind: service -> batch") && ran.stderr.contains("601"), "{}", ran.stderr);
    assert_eq!(cell.tasks("four").await.len(), 4, "nothing has happened");
    refused_plans(&cell).await;
    for job in ["one", "four", "nine"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// A plan ends with 2 for whatever `job run` would refuse, and with 255 if there is no plan.
/// Tasks that ended because the job was smaller have had attempts. A plan that wants them again says where they go.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_plan_places_tasks_again_that_a_smaller_count_had_ended() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let of = |count: u32, seconds: u32| {
        format!(
            "name: grows\ncount: {count}\ntask: {{command: [sleep, '{seconds}'], grace: 100ms, resources: {{cpu: 10m, \
             memory: 4MiB}}}}\nupdate: {{surge_max: 1, unavailable_max: 0, healthy_after: 200ms}}\n"
        )
    };
    let file = cell.file("grows.yaml", &of(2, 600));
    cell.borough(&["job", "run", &file]).await.ended(0);
    cell.borough(&["job", "scale", "grows", "1"]).await.ended(0);
    let plan = cell.borough(&["job", "plan", &file, "-o", "json"]).await.ended(1).json();
    let planned = |plan: &Value| -> Vec<u64> {
        let placements = plan["placements"].as_array().unwrap().iter();
        placements.map(|placed| placed["index"].as_u64().unwrap()).collect()
    };
    assert_eq!(planned(&plan), [1], "{plan}");
    // The task that surges has had an attempt too.
    let changed = cell.file("changed.yaml", &of(1, 601));
    let plan = cell.borough(&["job", "plan", &changed, "-o", "json"]).await.ended(1).json();
    assert_eq!(planned(&plan), [0, 1], "{plan}");
    cell.borough(&["job", "stop", "grows"]).await.ended(0);
    cell.finish().await;
}

async fn refused_plans(cell: &TestCell) {
    let task = "task: {command: [sleep, 600], grace: 200ms, resources: {cpu: 20m, memory: 4MiB}}\n";
    let plan = async |name: &str, more: &str| {
        let file = cell.file("refused.yaml", &format!("name: {name}\n{more}{task}"));
        cell.borough(&["job", "plan", &file]).await
    };
    plan("own", "after: [own]\n").await.ended(2).warns("after");
    plan("lost", "queue: nowhere\n").await.ended(2).warns("queue");
    plan("worse", "count: many\n").await.ended(2).warns("count");
    let file = cell.file("fine.yaml", &format!("name: fine\n{task}"));
    let unreachable =
        cell.borough(&["--gateway", "127.0.0.1:1", "--cell", "alpha", "job", "plan", &file]).await;
    unreachable.ended(255);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unschedulable_task_is_explained_with_what_would_fit() {
    let cell = TestCell::start(options!().nodes(3)).await;
    let planned = cell.borough(&["job", "plan", example!("nowhere.yaml")]).await.ended(1);
    let ran = cell.borough(&["job", "run", example!("nowhere.yaml"), "--timeout", "3s"]).await.ended(1);
    assert!(ran.stderr.contains("0/1 healthy, 1 pending"), "{}", ran.stderr);
    let why = cell.borough(&["why", "nowhere"]).await.ended(0);
    for printed in [&planned, &why] {
        assert!(printed.stdout.contains("fits on none of 3 nodes"), "{}", printed.stdout);
        assert!(
            printed.stdout.contains("3 of 3 nodes refused by: constraint gpu.model"),
            "{}",
            printed.stdout
        );
        assert!(
            printed.stdout.contains("would fit on 3 nodes") && printed.stdout.contains("cpu <="),
            "{}",
            printed.stdout
        );
    }
    // Each filter is shown with its count of nodes.
    let big = "name: big\ntask: {command: [sleep, 600], resources: {cpu: 500}}\nconstraints: ['node.name != alpha-2']\n";
    cell.borough(&["job", "run", "--detach", &cell.file("big.yaml", big)]).await.ended(0);
    let why = cell.borough(&["why", "big", "-o", "json"]).await.ended(0).json();
    let losses = why[0]["losses"].as_array().unwrap();
    let counts: Vec<u64> = losses.iter().map(|loss| loss["nodes"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 3, "{why}");
    assert_eq!(counts.len(), 2, "{why}");
    assert!(cell.tasks("big").await.iter().all(|task| task.state() == TaskState::Pending));
    for job in ["nowhere", "big"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// A plan says where new attempts go, and why they go nowhere, as `why` does.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_plan_of_a_changed_spec_says_where_its_attempts_go_or_that_they_fit_nowhere() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let web = |cpu: &str| {
        format!(
            "name: web\ncount: 2\nupdate: {{healthy_after: 0s, resize: restart}}\n\
             task: {{command: [sleep, '600'], resources: {{cpu: {cpu}, memory: 4MiB}}, grace: 200ms}}\n"
        )
    };
    cell.run("web.yaml", &web("10m")).await;
    let fits = cell.borough(&["job", "plan", &cell.file("fits.yaml", &web("20m"))]).await.ended(1);
    let fits = fits.prints("replace the attempts of tasks 0-1, at most 1 away at a time");
    fits.prints("place tasks 0-1 again on alpha-1");
    let file = cell.file("vast.yaml", &web("900"));
    let vast = cell.borough(&["job", "plan", &file]).await.ended(1);
    let vast = vast.prints("replace the attempts of tasks 0-1").prints("can never fit");
    let vast = vast.prints("warning: the rollout stops there: task 0 gets no node for the new version");
    let json = cell.borough(&["job", "plan", &file, "-o", "json"]).await.ended(1).json();
    assert_eq!(
        (&json["replaced"], &json["placements"]),
        (&serde_json::json!([0, 1]), &serde_json::json!([]))
    );
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("web", "the first one is away", |tasks| tasks[0].state() == TaskState::Pending).await;
    let why = cell.borough(&["why", "web/0"]).await.ended(0).stdout;
    let reason = why.lines().find(|line| line.contains("can never fit")).unwrap();
    assert!(vast.stdout.contains(reason), "{reason:?} in\n{}", vast.stdout);
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn running_attempts_of_batch_work_go_on_and_a_plan_says_so() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let batch = |word: &str| {
        format!(
            "name: sums\nkind: batch\ncount: 2\ntask: {{command: [sh, -c, 'echo {word}; exec sleep 600'], \
             resources: {{cpu: 10m, memory: 4MiB}}, grace: 200ms}}\n"
        )
    };
    cell.borough(&["job", "run", "--detach", &cell.file("sums.yaml", &batch("one"))]).await.ended(0);
    cell.tasks_until("sums", "both run", |tasks| {
        tasks.len() == 2 && tasks.iter().all(|task| task.state() == TaskState::Running)
    })
    .await;
    let file = cell.file("sums.yaml", &batch("two"));
    let goes_on = "running attempts go on, and only later ones get the new version";
    cell.borough(&["job", "plan", &file]).await.ended(1).prints(goes_on);
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let status = cell.borough(&["rollout", "status", "sums"]).await.ended(0);
    status.prints("0 of 2 have it").prints(goes_on);
    cell.borough(&["job", "stop", "sums"]).await.ended(0);
    cell.finish().await;
}

/// A plan is for the job that it showed, and not for a later one of its name and revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_change_that_was_planned_for_a_job_does_not_change_the_next_one_of_its_name() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |count: u32| {
        format!(
            "name: web\ncount: {count}\n\
             task: {{command: [sleep, '600'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 300ms}}\n"
        )
    };
    let (one, two) = (cell.file("one.yaml", &job(1)), cell.file("two.yaml", &job(2)));
    cell.borough(&["job", "run", &one]).await.ended(0);
    let plan = cell.borough(&["job", "plan", &two, "-o", "json"]).await.ended(1).json();
    let checked = format!("{}@{}", plan["id"].as_str().unwrap(), plan["revision"]);
    let shown = cell.borough(&["job", "plan", &two]).await.ended(1);
    shown.warns(&format!("to do exactly this: borough job run --check-revision {checked} {two}"));
    // Another job takes its place, with the same revision.
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.borough(&["job", "purge", "web", "--yes"]).await.ended(0);
    cell.borough(&["job", "run", &one]).await.ended(0);
    let next = cell.borough(&["job", "plan", &two, "-o", "json"]).await.ended(1).json();
    assert_eq!(next["revision"], plan["revision"]);
    let refused = cell.borough(&["job", "run", "--check-revision", &checked, &two]).await.ended(4);
    let refused =
        refused.warns("job tester/web is not the one that the change was made for: no job has the id");
    refused.warns("it never existed, or its record has expired; plan again");
    assert_eq!(cell.tasks("web").await.len(), 1);
    let checked = format!("{}@{}", next["id"].as_str().unwrap(), next["revision"]);
    cell.borough(&["job", "run", "--check-revision", &checked, &two]).await.ended(0);
    assert_eq!(cell.tasks("web").await.len(), 2);
    // A later revision of the same job is refused as well.
    let late = cell.borough(&["job", "run", "--check-revision", &checked, &one]).await.ended(4);
    late.warns("the plan was made at");
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_a_smaller_count_ends_is_not_said_to_be_left_alone() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let web = |count: u32, seconds: u32| {
        let task = "resources: {cpu: 10m, memory: 8MiB}, grace: 200ms";
        format!("name: web\ncount: {count}\ntask: {{command: [sleep, '{seconds}'], {task}}}\n")
    };
    cell.run("web.yaml", &web(2, 600)).await;
    let plan = cell.borough(&["job", "plan", &cell.file("web.yaml", &web(1, 601))]).await.ended(1);
    let plan = plan.prints("stop task 1\n").prints("replace task 0: task.command");
    assert!(!plan.stdout.contains("alone"), "{}", plan.stdout);
    cell.finish().await;
}
