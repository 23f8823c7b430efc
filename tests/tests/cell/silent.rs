//! Nodes whose agents do not answer, before they are lost: who waits for them hears of it, and nothing new goes there.

use borough_proto::v1::NodeState;
use borough_shim::process::ProcessId;
use borough_tests::{Ran, TestCell, is_stopped, is_up, options, until};
use rustix::process::Signal;

use crate::output::Following;

/// A service of one task that has written a line.
const TALKER: &str = "name: talker\ntask:\n  command: [sh, -c, 'echo one; exec sleep 600']\n  \
                      resources: {cpu: 10m, memory: 4MiB}\n  grace: 300ms\n  ports: [http]\n";

fn sleeper(name: &str, count: u32, constraint: &str) -> String {
    format!(
        "name: {name}\ncount: {count}\n\
         task: {{command: [sleep, '600'], resources: {{cpu: 10m, memory: 4MiB}}, grace: 300ms}}\n\
         constraints: [{constraint}]\n"
    )
}

async fn agent_stopped(cell: &TestCell, node: &str) -> ProcessId {
    let agent = cell.agent_found(node).await;
    agent.signal(Signal::STOP).unwrap();
    until("the stop", || async { is_stopped(agent.pid).then_some(()) }).await;
    agent
}

async fn silent_since(cell: &TestCell, node: &str) -> i64 {
    until("the node", || async { cell.client().node_get(node).await.ok() }).await.silent_since_ms
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_silent_node_is_named_to_who_waits_and_gets_no_new_task() {
    let cell = TestCell::start(options!().lost_after_ms(90_000)).await;
    let agent = agent_stopped(&cell, "alpha-1").await;
    // Nobody knows yet that the node is silent.
    let bound = cell.file("bound.yaml", &sleeper("bound", 2, "'node.name == alpha-1'"));
    let waiting = Following::start(&cell, "bound", &["job", "run", &bound]);
    cell.tasks_until("bound", "placed", |tasks| {
        tasks.len() == 2 && tasks.iter().all(|task| task.node == "alpha-1")
    })
    .await;
    until("the silence", || async { (silent_since(&cell, "alpha-1").await > 0).then_some(()) }).await;

    // Who waits for the node hears of it, once.
    waiting
        .until_warned(
            "tester/bound: 0/2 healthy, 2 starting; 2 tasks wait for node alpha-1, which does not answer",
        )
        .await;
    waiting.until_warned("2 tasks (0-1): placed on alpha-1, which has not answered for ").await;
    let why = cell.borough(&["why", "bound"]).await.ended(0);
    why.prints("the node is declared lost in about ").prints("borough node status alpha-1");
    let one = cell.borough(&["why", "bound/1", "-o", "json"]).await.ended(0).json();
    let silent = one.as_array().unwrap().iter().find(|view| view["silent_node"] == "alpha-1").unwrap();
    assert_eq!(silent["indexes"], serde_json::json!([1]));
    let tolerance = silent["lost_at_ms"].as_i64().unwrap() - silent["silent_since_ms"].as_i64().unwrap();
    assert_eq!(tolerance, 90_000);
    let status = cell.borough(&["node", "status", "alpha-1"]).await.ended(0);
    cell.borough(&["node", "list", "--state", "silent"]).await.ended(0).prints("alpha-1");
    status.prints("ready, tainted, silent").prints("its agent does not answer since ");
    let task = cell.borough(&["task", "status", "bound/0"]).await.ended(0);
    task.prints("its node alpha-1 does not answer since ").prints(": borough node status alpha-1");
    let task = cell.borough(&["task", "status", "bound/0", "-o", "json"]).await.ended(0).json();
    let silent = &task["silent"];
    let tolerance = silent["lost_at_ms"].as_i64().unwrap() - silent["silent_since_ms"].as_i64().unwrap();
    assert_eq!((silent["node"].as_str(), tolerance), (Some("alpha-1"), 90_000));
    let late = ["job", "run", &bound, "--timeout", "3s"];
    cell.borough(&late).await.ended(1).warns(
        "2 tasks wait for node alpha-1, which does not answer; the wait ended after 3s; the job goes on",
    );

    // A job that may run elsewhere does, and one that may not waits.
    cell.run("free.yaml", &sleeper("free", 4, "")).await;
    assert!(cell.tasks("free").await.iter().all(|task| task.node == "alpha-2"));
    let later = cell.file("later.yaml", &sleeper("later", 1, "'node.name == alpha-1'"));
    cell.borough(&["job", "run", "--detach", &later]).await.ended(0);
    until("why it waits", || async {
        let why = cell.borough(&["why", "later"]).await.ended(0);
        (why.stdout.contains("refused by: silent") && why.stdout.contains("once not silent")).then_some(())
    })
    .await;

    // It answers again: everything starts.
    agent.signal(Signal::CONT).unwrap();
    cell.tasks_until("later", "up", |tasks| is_up(tasks, 1)).await;
    cell.tasks_until("bound", "up", |tasks| is_up(tasks, 2)).await;
    assert_eq!(silent_since(&cell, "alpha-1").await, 0);
    let (shown, warned) = waiting.ended().await;
    assert!(shown.starts_with("tester/bound: 2/2 healthy"), "{shown}");
    assert_eq!(warned.matches("placed on alpha-1, which has not answered").count(), 1, "{warned}");
    for job in ["bound", "free", "later"] {
        cell.borough(&["job", "stop", job]).await.ended(0);
    }
    cell.finish().await;
}

/// Whoever wants the output of a task on a silent node, or runs a command there, hears of the node instead of waiting
/// without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn logs_and_commands_of_a_task_on_a_silent_node_name_it_and_its_silence() {
    let cell = TestCell::start(options!().nodes(1).lost_after_ms(90_000)).await;
    cell.run("talker.yaml", TALKER).await;
    let agent = agent_stopped(&cell, "alpha-1").await;
    // Nobody knows yet that the node is silent: the command waits, says so, and ends once it is known.
    let early = cell.borough(&["task", "logs", "talker/0"]).await.ended(5);
    let early = early.warns(
        "tester/talker/0: waiting for the agent of node alpha-1, which has not answered yet: borough node ",
    );
    let silence = "task tester/talker/0 is on alpha-1, which has not answered for ";
    let next = "hint: borough node status alpha-1; borough why tester/talker/0";
    let told = |ran: Ran| drop(ran.warns(silence).warns("the node is declared lost in about ").warns(next));
    told(early);
    told(cell.borough(&["task", "logs", "talker/0"]).await.ended(5));
    told(cell.borough(&["task", "exec", "talker/0", "--", "true"]).await.ended(255));
    told(cell.borough(&["task", "signal", "talker/0", "HUP"]).await.ended(5));
    cell.borough(&["job", "status", "talker"]).await.ended(0).prints("has not answered for ");
    let all = cell.borough(&["job", "logs", "talker"]).await.ended(5);
    all.warns(silence).warns("error: tester/talker/0: attempt 1 cannot be read further: ");

    // Who follows goes on waiting, and hears of it once.
    let follow = Following::start(&cell, "follow", &["task", "logs", "-f", "talker/0"]);
    let follow_all = Following::start(&cell, "follow-all", &["job", "logs", "-f", "talker"]);
    for waits in [&follow, &follow_all] {
        waits.until_warned(silence).await;
        waits
            .until_warned("; waiting for it: borough node status alpha-1; borough why tester/talker/0")
            .await;
    }
    agent.signal(Signal::CONT).unwrap();
    follow.until_shown("one\n").await;
    follow_all.until_shown("talker/0 | one\n").await;
    cell.borough(&["job", "stop", "talker"]).await.ended(0);
    for follows in [follow, follow_all] {
        let (_, warned) = follows.ended().await;
        assert_eq!(warned.matches("waiting for").count(), 1, "{warned}");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn logs_and_commands_of_a_task_on_a_lost_node_name_it() {
    let cell = TestCell::start(options!().nodes(1).lost_after_ms(3_000)).await;
    cell.run("talker.yaml", TALKER).await;
    let agent = agent_stopped(&cell, "alpha-1").await;
    until("the loss", || async {
        let node = cell.client().node_get("alpha-1").await.ok()?;
        (node.state() == NodeState::Lost).then_some(())
    })
    .await;
    // The endpoint stays, but nobody calls that a publication.
    let events = until("the event of the loss", || async {
        let events = cell.borough(&["event", "list"]).await.ended(0);
        events.stdout.contains("attempt 1 lost with alpha-1; kept at ").then_some(events.stdout)
    })
    .await;
    assert_eq!(events.matches("attempt 1 published at ").count(), 1, "{events}");
    let lost = cell.borough(&["task", "logs", "--attempt", "1", "talker/0"]).await.ended(5);
    lost.warns("task tester/talker/0 ran on alpha-1")
        .warns("the node is lost until its agent answers again")
        .warns("hint: borough node status alpha-1; borough why tester/talker/0");
    cell.borough(&["task", "exec", "talker/0", "--", "true"]).await.ended(255).warns("alpha-1");
    agent.signal(Signal::CONT).unwrap();
    cell.tasks_until("talker", "up", |tasks| is_up(tasks, 1)).await;
    cell.borough(&["job", "stop", "talker"]).await.ended(0);
    cell.finish().await;
}

/// A task that was lost with its node waits for another one, and its explanation says with which node.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_task_that_was_lost_with_its_node_is_explained_with_the_node() {
    let cell = TestCell::start(options!().lost_after_ms(2_000)).await;
    cell.run("bound.yaml", &sleeper("bound", 2, "'node.name == alpha-1'")).await;
    let agent = agent_stopped(&cell, "alpha-1").await;
    cell.tasks_until("bound", "lost", |tasks| {
        tasks.iter().all(|task| task.exit.as_ref().is_some_and(|exit| exit.node == "alpha-1"))
    })
    .await;
    for (asked, tasks) in [("bound", "2 tasks (0-1)"), ("bound/1", "task 1")] {
        let lost = format!("{tasks}: ran on node alpha-1, which was declared lost at ");
        let why = cell.borough(&["why", asked]).await.ended(0).prints(&lost);
        why.prints("  borough node status alpha-1\n").prints("refused by: lost");
    }
    agent.signal(Signal::CONT).unwrap();
    cell.tasks_until("bound", "up", |tasks| is_up(tasks, 2)).await;
    let why = cell.borough(&["why", "bound"]).await.ended(0);
    assert!(!why.stdout.contains("declared lost"), "{}", why.stdout);
    cell.borough(&["job", "stop", "bound"]).await.ended(0);
    cell.finish().await;
}
