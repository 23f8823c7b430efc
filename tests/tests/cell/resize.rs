//! Running tasks get other amounts in place: their processes go on, and their limits and charges change.

use std::path::PathBuf;

use borough_kv::exercise::not_exercised;
use borough_proto::v1::{Resources, Task};
use borough_tests::{TestCell, is_up, options, until};
use rustix::process::Signal;

/// A service that runs `script`, with these amounts. `more` is further text of the file.
fn web(script: &str, cpu: &str, memory: &str, more: &str) -> String {
    format!(
        "name: web\ncount: 2\nrestart: {{mode: always, backoff: 100ms}}\n{more}task: {{command: [sh, -c, '{script}'], \
         resources: {{cpu: {cpu}, memory: {memory}}}, grace: 300ms}}\n"
    )
}

const SLEEPS: &str = "exec sleep 600";
const UPDATE: &str = "update: {healthy_after: 300ms}\n";
const MIB: u64 = 1 << 20;

fn processes(tasks: &[Task]) -> Vec<(Option<u32>, u64)> {
    tasks.iter().map(|task| (task.pid, task.incarnation)).collect()
}

async fn healthy(cell: &TestCell) -> Vec<Task> {
    cell.tasks_until("web", "two healthy tasks", |tasks| is_up(tasks, 2)).await
}

/// Processor time and memory of each task's charge.
fn charges(tasks: &[Task]) -> Vec<(u64, u64)> {
    let amounts = |charge: &Resources| (charge.cpu_millis, charge.memory_bytes);
    tasks.iter().map(|task| task.charge.as_ref().map(amounts).unwrap_or_default()).collect()
}

/// What all nodes are charged together: processor time and memory.
async fn committed(cell: &TestCell) -> (u64, u64) {
    let nodes = cell.client().node_list().await.expect("nodes");
    let used = nodes.iter().filter_map(|node| node.used.as_ref());
    used.fold((0, 0), |sum, used| (sum.0 + used.cpu_millis, sum.1 + used.memory_bytes))
}

/// The file with the memory limit of a process; `None`, and a note, on a host that has no such limit.
async fn memory_limit(cell: &TestCell, pid: u32) -> Option<PathBuf> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = |is: &dyn Fn(&[&str]) -> bool| {
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields.into_iter().find(|fields| is(fields)).map(|fields| PathBuf::from(fields[1]))
    };
    let group = |name: &str| {
        let parts = groups.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        parts
            .into_iter()
            .find(|parts| parts[1] == name)
            .map(|parts| parts[2].trim_start_matches('/').to_owned())
    };
    let v1 = mount(&|fields| fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "memory"));
    let v1 = v1.zip(group("memory")).map(|(mount, group)| mount.join(group).join("memory.limit_in_bytes"));
    let v2 = mount(&|fields| fields[2] == "cgroup2").zip(group(""));
    let v2 = v2.map(|(mount, group)| mount.join(group).join("memory.max"));
    let nodes = cell.client().node_list().await.expect("nodes");
    let has = |name: &str| nodes.iter().all(|node| node.attributes.get(name).is_some_and(|has| has == "yes"));
    let found = [v1, v2].into_iter().flatten().find(|path| path.exists()).filter(|_| has("cgroup.memory"));
    if found.is_none() {
        not_exercised("the memory limit of a cgroup", "the nodes of this machine have none");
    }
    found
}

/// Waits until the kernel shows the limit.
async fn limit_is(cell: &TestCell, pid: u32, bytes: u64) {
    let Some(path) = memory_limit(cell, pid).await else { return };
    let look =
        || async { std::fs::read_to_string(&path).ok().filter(|text| text.trim() == bytes.to_string()) };
    until(&format!("a limit of {bytes} in {}", path.display()), look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_amounts_reach_running_tasks_in_place_up_and_down() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", &web(SLEEPS, "10m", "32MiB", UPDATE)).await;
    let before = healthy(&cell).await;
    let idle = committed(&cell).await;
    for (version, cpu, memory, charge) in [
        (2, "20m", "64MiB", (20, 64 * MIB)),
        (3, "5m", "96MiB", (5, 96 * MIB)),
        (4, "40m", "16MiB", (40, 16 * MIB)),
    ] {
        let file = cell.file("web.yaml", &web(SLEEPS, cpu, memory, UPDATE));
        let ran = cell.borough(&["job", "run", &file]).await.ended(0);
        ran.prints(&format!("tester/web: 2/2 healthy with version {version}"));
        let after = healthy(&cell).await;
        assert_eq!(processes(&after), processes(&before), "the processes go on");
        assert_eq!(charges(&after), [charge; 2]);
        assert!(after.iter().all(|task| task.resize.is_none() && task.spec_version == version));
        let node = committed(&cell).await;
        let own = (2 * charge.0, 2 * charge.1);
        assert_eq!(node, (idle.0 - 20 + own.0, idle.1 - 64 * MIB + own.1));
        for task in &after {
            limit_is(&cell, task.pid.unwrap(), charge.1).await;
        }
    }
    let status = cell.borough(&["rollout", "status", "web"]).await.ended(0);
    status.prints("of version 4: done").prints("2 of 2 have it, 2 of these are healthy");
    cell.finish().await;
}

/// Canaries try other amounts, too: the plan says so, and the running tasks get them in place after the promotion.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn canaries_try_other_amounts_before_running_tasks_get_them() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let update = "update: {healthy_after: 300ms, canaries: 1}\n";
    cell.run("web.yaml", &web(SLEEPS, "10m", "32MiB", update)).await;
    let before = healthy(&cell).await;
    let file = cell.file("web.yaml", &web(SLEEPS, "20m", "64MiB", update));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("1 canary first, task 2; once it is healthy and promoted:\nno attempt is replaced\nresize tasks 0-1 in place");
    let ran = cell.borough(&["job", "run", &file]).await.ended(0);
    ran.prints("1 canary is healthy with version 2; to go on: borough rollout promote tester/web");
    let owned = |tasks: &[Task]| tasks.iter().filter(|task| task.index < 2).cloned().collect::<Vec<_>>();
    let tried = cell.tasks_until("web", "two healthy tasks and a canary", |tasks| is_up(tasks, 3)).await;
    assert_eq!(
        (processes(&owned(&tried)), charges(&owned(&tried))),
        (processes(&before), vec![(10, 32 * MIB); 2])
    );
    cell.borough(&["rollout", "promote", "web"]).await.ended(0);
    let resized = |tasks: &[Task]| charges(&owned(tasks)) == [(20, 64 * MIB); 2];
    let after = cell.tasks_until("web", "two resized tasks", resized).await;
    assert_eq!(processes(&owned(&after)), processes(&before), "the processes go on");
    cell.finish().await;
}

/// Keeps 40 MB of memory, then writes a line and goes on.
const HOLDS: &str = "x=$(head -c 40000000 /dev/zero | tr \"\\0\" x); echo holds; while :; do sleep 1; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn memory_below_its_use_is_refused_with_the_figures_and_nothing_restarts() {
    let cell = TestCell::start(options!().nodes(1).agent_arguments(&["--sample-ms=50"])).await;
    cell.run("web.yaml", &web(HOLDS, "10m", "96MiB", UPDATE)).await;
    cell.tasks_until("web", "40 MB in use", |tasks| {
        is_up(tasks, 2)
            && tasks.iter().all(|task| task.usage.is_some_and(|usage| usage.memory_bytes >= 40_000_000))
    })
    .await;
    let before = healthy(&cell).await;
    let small = cell.file("small.yaml", &web(HOLDS, "20m", "16MiB", UPDATE));
    cell.borough(&["job", "run", "--detach", &small]).await.ended(0);
    let is_refused = |task: &Task| task.resize.as_ref().is_some_and(|resize| !resize.refused.is_empty());
    let refused = cell
        .tasks_until("web", "both refused", |tasks| tasks.iter().all(is_refused) && is_up(tasks, 2))
        .await;
    assert_eq!(processes(&refused), processes(&before), "it does not restart");
    assert_eq!(charges(&refused), [(10, 96 * MIB); 2], "with what it had");
    assert!(refused.iter().all(|task| task.spec_version == 1));
    for task in &refused {
        limit_is(&cell, task.pid.unwrap(), 96 * MIB).await;
    }
    // Each place says how much it uses, and what was asked for.
    let than = "of memory, which is more than the 16MiB that it is to have";
    let status = cell.borough(&["task", "status", "web/0"]).await.ended(0);
    status.prints("in force    cpu 10m, memory 96MiB").prints("asked for").prints("it uses ").prints(than);
    let why = cell.borough(&["why", "web"]).await.ended(0);
    why.prints("keep their amounts: tester/web/0: it uses ")
        .prints(than)
        .prints("borough task restart tester/web/0");
    cell.borough(&["rollout", "status", "web"]).await.ended(0).prints(": rolling").prints(than);
    let waits = cell.borough(&["job", "run", "--timeout", "1s", &small]).await;
    waits.warns("not resized: it uses ").warns(than);
    // A version that is taken back asks for nothing any more.
    cell.borough(&["--yes", "rollout", "undo", "web"]).await.ended(0);
    let status = cell.borough(&["task", "status", "web/0"]).await.ended(0);
    assert!(!status.stdout.contains("asked for"), "{}", status.stdout);
    // A file that asks for enough reaches the same processes.
    let file = cell.file("web.yaml", &web(HOLDS, "20m", "64MiB", UPDATE));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("2/2 healthy with version 4");
    let after = healthy(&cell).await;
    assert_eq!((processes(&after), charges(&after)), (processes(&before), vec![(20, 64 * MIB); 2]));
    cell.finish().await;
}

/// Waits until the same processes have these amounts of a version.
async fn in_force(cell: &TestCell, version: u32, charge: (u64, u64), before: &[Task]) {
    let after = cell
        .tasks_until("web", &format!("version {version} in force"), |tasks| {
            is_up(tasks, 2) && tasks.iter().all(|task| task.resize.is_none() && task.spec_version == version)
        })
        .await;
    assert_eq!((processes(&after), charges(&after)), (processes(before), vec![charge; 2]));
    for task in &after {
        limit_is(cell, task.pid.unwrap(), charge.1).await;
    }
}

/// An order is on its way, and everything dies: the larger amounts stay charged, and the same process gets its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_order_survives_its_agent_and_the_control_process() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    // Both at a time.
    const UPDATE: &str = "update: {healthy_after: 300ms, unavailable_max: 2}\n";
    cell.run("web.yaml", &web(SLEEPS, "10m", "64MiB", UPDATE)).await;
    let before = healthy(&cell).await;
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::STOP).unwrap();
    let file = cell.file("web.yaml", &web(SLEEPS, "20m", "32MiB", UPDATE));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let is_ordered = |task: &Task| task.resize.as_ref().is_some_and(|resize| resize.refused.is_empty());
    let ordered = cell.tasks_until("web", "both ordered", |tasks| tasks.iter().all(is_ordered)).await;
    assert_eq!(charges(&ordered), [(20, 64 * MIB); 2], "the most of what is granted and in force");
    let status = cell.borough(&["task", "status", "web/0"]).await.ended(0);
    status
        .prints("asked for   cpu 20m, memory 32MiB, not in force yet")
        .prints("charged     cpu 20m, memory 64MiB");
    cell.borough(&["rollout", "status", "web"]).await.ended(0).prints("0 of 2 have it");
    agent.signal(Signal::KILL).unwrap();
    in_force(&cell, 2, (20, 32 * MIB), &before).await;
    // The control process dies, and its agents begin again with it.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::STOP).unwrap();
    let file = cell.file("web.yaml", &web(SLEEPS, "10m", "48MiB", UPDATE));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("web", "both ordered again", |tasks| tasks.iter().all(is_ordered)).await;
    cell.control_kill();
    cell.control_start().await;
    in_force(&cell, 3, (10, 48 * MIB), &before).await;
    // A later agent reads what is in force, and applies nothing again.
    let agent = cell.agent_found("alpha-1").await;
    agent.signal(Signal::KILL).unwrap();
    until("the next agent", || async { cell.agent("alpha-1").filter(|next| *next != agent) }).await;
    cell.nodes_ready().await;
    in_force(&cell, 3, (10, 48 * MIB), &before).await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_no_room_on_its_node_is_moved_and_the_plan_says_so() {
    let cell = TestCell::start(options!().nodes(2).agent_arguments(&["--memory=200MiB"])).await;
    cell.borough(&["node", "cordon", "alpha-2"]).await.ended(0);
    cell.run("web.yaml", &web(SLEEPS, "10m", "64MiB", UPDATE)).await;
    cell.borough(&["node", "uncordon", "alpha-2"]).await.ended(0);
    let before = healthy(&cell).await;
    let file = cell.file("web.yaml", &web(SLEEPS, "10m", "128MiB", UPDATE));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("replace the attempts of task 1, at most 1 away at a time")
        .prints("resize task 0 in place, which keeps its process: task.resources.memory")
        .prints("replace task 1: task.resources.memory; its node alpha-1 has no room to resize it in place: memory: 64MiB")
        .prints("place task 1 again on alpha-2, moved from alpha-1");
    cell.borough(&["job", "run", &file]).await.ended(0).prints("2/2 healthy with version 2");
    let after = healthy(&cell).await;
    assert_eq!(processes(&after)[0], processes(&before)[0]);
    assert_eq!((after[0].node.as_str(), after[1].node.as_str()), ("alpha-1", "alpha-2"));
    assert_eq!((after[1].incarnation, charges(&after)), (2, vec![(10, 128 * MIB); 2]));
    cell.finish().await;
}

/// New tasks get their nodes at once, and a rollout resizes step by step.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_plan_gives_room_to_new_tasks_before_it_gives_it_to_resizes() {
    let cell = TestCell::start(options!().nodes(2).agent_arguments(&["--memory=200MiB"])).await;
    let tasks = |count: u32, memory| {
        web(SLEEPS, "10m", memory, UPDATE).replace("count: 2", &format!("count: {count}"))
    };
    cell.borough(&["node", "cordon", "alpha-2"]).await.ended(0);
    cell.run("web.yaml", &tasks(1, "64MiB")).await;
    cell.borough(&["node", "uncordon", "alpha-2"]).await.ended(0);
    cell.borough(&["node", "cordon", "alpha-1"]).await.ended(0);
    cell.run("web.yaml", &tasks(2, "64MiB")).await;
    cell.borough(&["node", "uncordon", "alpha-1"]).await.ended(0);
    healthy(&cell).await;
    let file = cell.file("web.yaml", &tasks(4, "128MiB"));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    let plan = plan
        .prints("place task 2 on alpha-")
        .prints("place task 3 on alpha-")
        .prints("replace task 0: task.resources.memory; its node alpha-1 has no room to resize it in place: memory: 64MiB")
        .prints("replace task 1: task.resources.memory; its node alpha-2 has no room to resize it in place: memory: 64MiB")
        .prints("the rollout stops there: task 0 gets no node for the new version");
    assert!(!plan.stdout.contains("resize task"), "{}", plan.stdout);
    // Without new tasks both have room.
    let file = cell.file("web.yaml", &tasks(2, "128MiB"));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("resize tasks 0-1 in place, which keep their processes: task.resources.memory");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_refuses_resizes_or_asks_for_a_signal() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let told = "trap \"echo told\" USR1; echo ready; while :; do sleep 0.1; done";
    let signal = "update: {healthy_after: 300ms, resize_signal: SIGUSR1}\n";
    cell.run("web.yaml", &web(told, "10m", "32MiB", signal)).await;
    until("both listen", || async {
        let mut ready = 0;
        for task in ["web/0", "web/1"] {
            ready += usize::from(cell.borough(&["task", "logs", task]).await.stdout.contains("ready"));
        }
        (ready == 2).then_some(())
    })
    .await;
    let before = healthy(&cell).await;
    let file = cell.file("web.yaml", &web(told, "20m", "32MiB", signal));
    cell.borough(&["job", "run", &file]).await.ended(0);
    until("both are told", || async {
        let mut told = 0;
        for task in ["web/0", "web/1"] {
            told += usize::from(cell.borough(&["task", "logs", task]).await.stdout.contains("told"));
        }
        (told == 2).then_some(())
    })
    .await;
    assert_eq!(processes(&healthy(&cell).await), processes(&before));
    // A program that reads its limits at its start wants another one.
    let restart = "update: {healthy_after: 300ms, resize: restart}\n";
    let file = cell.file("web.yaml", &web(told, "30m", "32MiB", restart));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("replace tasks 0-1: task.resources.cpu; `update.resize` is `restart`")
        .prints("place tasks 0-1 again on alpha-1, their node");
    cell.borough(&["job", "run", &file]).await.ended(0);
    let attempts: Vec<u64> = healthy(&cell).await.iter().map(|task| task.incarnation).collect();
    assert_eq!(attempts, [2, 2]);
    cell.finish().await;
}

/// Such an agent does not know the order, so it never gets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn under_an_agent_that_does_not_resize_the_rollout_restarts() {
    let cell = TestCell::start(options!().nodes(1).agent_arguments(&["--attribute=agent.resize=no"])).await;
    cell.run("web.yaml", &web(SLEEPS, "10m", "32MiB", UPDATE)).await;
    let file = cell.file("web.yaml", &web(SLEEPS, "20m", "32MiB", UPDATE));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints(
        "replace tasks 0-1: task.resources.cpu; the agent of its node alpha-1 is of a version that does not",
    );
    cell.borough(&["job", "run", &file]).await.ended(0);
    let after = healthy(&cell).await;
    assert!(after.iter().all(|task| task.incarnation == 2 && task.spec_version == 2), "{after:?}");
    cell.finish().await;
}
