//! Gangs of real processes: they wait until all of them fit, then all start; and they find their roles.

use borough_proto::v1::TaskState;
use borough_tests::{TestCell, is_up, options, until};

/// More than half of the processor time of each node, in thousandths of a core: one such task fits a node.
async fn more_than_half(cell: &TestCell) -> u64 {
    let node = cell.client().node_get("alpha-1").await.unwrap();
    node.capacity.unwrap().cpu_millis * 6 / 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_gang_waits_until_all_of_it_fits_and_then_starts_whole() {
    let cell = TestCell::start(options!().nodes(3)).await;
    let millis = more_than_half(&cell).await;
    cell.borough(&["node", "cordon", "alpha-3"]).await.ended(0);
    let gang = format!(
        "name: gang\nroles:\n  - {{name: server}}\n  - {{name: worker, count: 2}}\ntask:\n  command: [sh, -c, \
         'echo \"I am $BOROUGH_ROLE $BOROUGH_ROLE_INDEX\"; exec sleep 600']\n  grace: 200ms\n  resources: {{cpu: \
         {millis}m, memory: 4MiB}}\n"
    );
    cell.borough(&["job", "run", "--detach", &cell.file("gang.yaml", &gang)]).await.ended(0);
    until("the reason why the gang waits", || async {
        let why = cell.borough(&["why", "gang"]).await;
        why.stdout.contains("3 tasks must be placed together and 2 fit").then_some(())
    })
    .await;
    // Others are placed meanwhile: the gang holds nothing.
    let small = "name: small\ncount: 2\ntask: {command: [sleep, 600], resources: {cpu: 10m, memory: 4MiB}, grace: 200ms}\n";
    cell.run("small.yaml", small).await;
    assert!(cell.tasks("gang").await.iter().all(|task| task.state() == TaskState::Pending));
    cell.borough(&["node", "uncordon", "alpha-3"]).await.ended(0);
    let tasks = cell.tasks_until("gang", "all of the gang runs", |tasks| is_up(tasks, 3)).await;
    let mut nodes: Vec<&str> = tasks.iter().map(|task| task.node.as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["alpha-1", "alpha-2", "alpha-3"]);
    for (index, line) in ["I am server 0", "I am worker 0", "I am worker 1"].into_iter().enumerate() {
        let task = format!("gang/{index}");
        until(line, || async {
            let logs = cell.borough(&["task", "logs", &task]).await;
            logs.stdout.contains(line).then_some(())
        })
        .await;
    }
    let scaled = cell.borough(&["job", "scale", "gang", "4"]).await;
    assert!(scaled.stderr.contains("the sum of its roles"), "{scaled:?}");
    for job in ["gang", "small"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_gang_is_placed_together_or_explains_why_not() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let millis = more_than_half(&cell).await;
    let gang = |name: &str, millis: u64| {
        format!(
            "name: {name}\ncount: 2\ngang_topology: node.name\ntask: {{command: [sleep, 600], resources: {{cpu: {millis}m, \
             memory: 4MiB}}, grace: 200ms}}\n"
        )
    };
    cell.run("near.yaml", &gang("near", 20)).await;
    let tasks = cell.tasks("near").await;
    assert_eq!(tasks[0].node, tasks[1].node);
    cell.borough(&["job", "run", "--detach", &cell.file("never.yaml", &gang("never", millis))])
        .await
        .ended(0);
    let why = cell.borough(&["why", "never"]).await.ended(0);
    assert!(why.stdout.contains("2 tasks must be placed together in one node.name"), "{}", why.stdout);
    assert!(why.stdout.contains("can never fit: 2 are needed together"), "{}", why.stdout);
    let refused = gang("refused", 20).replace("count: 2", "count: 2\nmin_member: 3");
    let refused = cell.borough(&["job", "run", &cell.file("refused.yaml", &refused)]).await;
    assert!(refused.stderr.contains("min_member: 3; accepted: at most the count, 2"), "{refused:?}");
    for job in ["near", "never"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_gang_that_is_over_is_not_scaled_whatever_its_least_size() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let gang = "name: gang\nkind: batch\ncount: 3\nmin_member: 3\ntask: {command: ['true'], resources: {cpu: 20m}}\n";
    cell.run("gang.yaml", gang).await;
    for count in ["1", "5", "100000"] {
        let refused = cell.borough(&["job", "scale", "gang", count]).await.ended(4);
        let refused = refused.warns("error: job tester/gang: the job is over: succeeded");
        assert!(!refused.stderr.contains("min_member"), "{refused:?}");
    }
    cell.finish().await;
}
