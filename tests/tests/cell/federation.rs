//! A federation: a process that looks at member cells in other stores, and what an operator sees of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use borough_proto::v1::{Member, MemberHealth};
use borough_tests::{TestCell, options, until};
use rustix::process::Signal;

use crate::output::Following;
use crate::overload::streams;

/// The home of a federation, with the cell `alpha` beside it in the same process.
pub(crate) async fn home_start() -> TestCell {
    TestCell::start(options!().nodes(1).dev_arguments(&["--federation"])).await
}

/// A cell in a process and a store of its own. Its name differs from that of the home's own cell.
pub(crate) async fn member_start(name: &str) -> TestCell {
    TestCell::start(options!().nodes(2).cells(&[name])).await
}

/// Gives the home the token of a member.
pub(crate) fn token_give(home: &TestCell, member: &TestCell, name: &str) {
    let directory = home.root().join("federation");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{name}.token"));
    fs::write(&path, member.token()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The member, once it is as wanted.
pub(crate) async fn member_until(
    home: &TestCell,
    name: &str,
    what: &str,
    wanted: impl Fn(&Member) -> bool,
) -> Member {
    let client = home.client().with_cell("federation");
    until(&format!("{name}: {what}"), || async {
        let member = client.member_get(name).await.ok()?;
        wanted(&member).then_some(member)
    })
    .await
}

pub(crate) fn is_current(member: &Member) -> bool {
    member.health() == MemberHealth::Current
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dark_cell_is_unknown_since_a_time_and_keeps_its_report() {
    let home = home_start().await;
    let mut gamma = member_start("gamma").await;
    gamma
        .run("web.yaml", "name: web\ncount: 2\ntask: {command: [sleep, '600']}\n")
        .await
        .prints("2/2 healthy");
    let none = home.borough(&["cell", "members"]).await.ended(0);
    none.warns("borough cell join CELL --at HOST:PORT; a cell of this gateway: --at ");

    // Without the token of the cell nobody gets in: the federation says which file it looks for.
    let joined =
        home.borough(&["cell", "join", "gamma", "--at", &gamma.grpc(), "--label", "region=eu"]).await;
    // The answer shows what is known by then: the federation may have looked at the member already.
    let joined = joined.ended(0).prints("gamma");
    assert!(!joined.stdout.contains("current"), "{}", joined.stdout);
    let refused =
        member_until(&home, "gamma", "refused", |member| member.health() == MemberHealth::Refused).await;
    assert!(refused.report.is_none() && !refused.problem.is_empty(), "{refused:?}");
    token_give(&home, &gamma, "gamma");
    let current = member_until(&home, "gamma", "current", is_current).await;
    let report = current.report.unwrap();
    assert_eq!((report.nodes, report.nodes_ready, report.jobs, report.running), (2, 2, 1, 2));
    home.borough(&["cell", "join", "alpha", "--at", &home.grpc()]).await.ended(0);
    member_until(&home, "alpha", "current", is_current).await;
    let listed = home.borough(&["cell", "members", "-l", "region=eu"]).await.ended(0);
    assert!(!listed.stdout.contains("alpha"), "{}", listed.stdout);
    listed.prints("gamma").prints("current").prints("2/2");

    // The cell goes dark: its report stays, with its age. Its tasks go on.
    gamma.control_kill();
    let dark = member_until(&home, "gamma", "silent", |member| member.health() == MemberHealth::Silent).await;
    assert_eq!(dark.report.as_ref().map(|report| report.running), Some(2));
    assert!(dark.health_since_ms > 0, "{dark:?}");
    home.borough(&["cell", "members", "gamma"]).await.ended(0).prints("unknown since").prints("old");
    assert_eq!(member_until(&home, "alpha", "current", is_current).await.cell, "alpha");
    gamma.control_start().await;
    member_until(&home, "gamma", "current again", is_current).await;

    home.finish().await;
    gamma.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_goes_on_without_its_federation_and_another_process_takes_over() {
    let mut home = home_start().await;
    let gamma = member_start("gamma").await;
    token_give(&home, &gamma, "gamma");
    // Its first gateway takes connections, and never answers.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("{},{}", hanging.local_addr().unwrap(), gamma.grpc());
    home.borough(&["cell", "join", "gamma", "--at", &at]).await.ended(0);
    member_until(&home, "gamma", "current", is_current).await;

    // With the federation killed, the cell admits, places and scales as before.
    home.control_kill();
    gamma
        .run("web.yaml", "name: web\ncount: 1\ntask: {command: [sleep, '600']}\n")
        .await
        .prints("1/1 healthy");
    gamma.borough(&["job", "scale", "web", "2"]).await.ended(0).prints("2/2 healthy");
    home.control_start().await;
    let seen = |member: &Member| {
        is_current(member) && member.report.as_ref().is_some_and(|report| report.running == 2)
    };
    member_until(&home, "gamma", "current with the new tasks", seen).await;

    // A federation that is only paused knows nothing in between, and says so afterwards.
    home.control().signal(Signal::STOP).unwrap();
    gamma.borough(&["job", "scale", "web", "1", "--yes"]).await.ended(0);
    home.control().signal(Signal::CONT).unwrap();
    let seen = |member: &Member| {
        is_current(member) && member.report.as_ref().is_some_and(|report| report.running == 1)
    };
    member_until(&home, "gamma", "current with one task", seen).await;
    home.finish().await;
    gamma.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cell_joins_once_under_its_own_name_and_leaves_without_notice() {
    let home = home_start().await;
    let at = home.grpc();
    let join = async |name: &str| home.borough(&["cell", "join", name, "--at", &at]).await;
    join("alpha").await.ended(0);
    let twice = join("alpha").await.ended(4);
    twice.warns("cell alpha is a member").warns("borough cell rename-endpoint alpha --at HOST:PORT");
    join("federation").await.ended(4).warns("is the home of the federation");
    // Its gateways do not know it by that name. A join with them is refused at once, and another address is looked at.
    join("omega").await.ended(3).warns("there is no cell \"omega\"");
    home.borough(&["cell", "join", "omega", "--at", "127.0.0.1:1"]).await.ended(0);
    home.borough(&["cell", "rename-endpoint", "omega", "--at", &at]).await.ended(0);
    let refused =
        member_until(&home, "omega", "refused", |member| member.health() == MemberHealth::Refused).await;
    assert!(refused.problem.contains("omega"), "{refused:?}");

    home.borough(&["cell", "cordon", "alpha"]).await.ended(0).prints("cordoned");
    home.borough(&["cell", "label", "alpha", "region=eu", "zone=a"])
        .await
        .ended(0)
        .prints("region=eu,zone=a");
    home.borough(&["cell", "label", "alpha", "zone-"]).await.ended(0).prints("region=eu");
    home.borough(&["cell", "rename-endpoint", "alpha", "--at", "127.0.0.1:1"]).await.ended(0);
    member_until(&home, "alpha", "silent", |member| member.health() == MemberHealth::Silent).await;
    home.borough(&["cell", "rename-endpoint", "alpha", "--at", &at]).await.ended(0);
    let back = member_until(&home, "alpha", "current", is_current).await;
    assert!(back.cordoned && back.revision == 6, "{back:?}");
    home.borough(&["cell", "uncordon", "alpha"]).await.ended(0);
    home.borough(&["cell", "leave", "alpha"]).await.ended(0).prints("cell alpha has left the federation");
    home.borough(&["cell", "leave", "alpha"]).await.ended(3).warns("borough cell members");
    let events = home.borough(&["event", "list", "--cell", "federation"]).await.ended(0);
    events.prints("member alpha").prints("joined: at").prints("left the federation");
    let elsewhere = home.borough(&["cell", "members", "--federation", "nowhere"]).await.ended(3);
    elsewhere.warns("borough dev --federation nowhere");
    home.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watched_list_of_members_follows_the_home() {
    let home = home_start().await;
    let before = until("the streams", || streams(&home)).await;
    let list = Following::start(&home, "members", &["cell", "members", "-w", "-o", "json"]);
    let one = home.borough(&["cell", "join", "beta", "--at", "127.0.0.1:1"]).await;
    one.ended(0);
    list.until_shown("\"name\":\"beta\"").await;
    // It follows a stream, and does not only read again at intervals.
    home.borough(&["cell", "list"]).await.ended(0).prints("open, home of 1 cell ");
    let json = home.borough(&["cell", "list", "-o", "json"]).await.ended(0);
    let json = json.stdout.replace(' ', "");
    assert!(json.contains("\"members\":1") && json.contains("\"members\":0"), "{json}");
    until("a stream", || async { streams(&home).await.filter(|now| *now > before) }).await;
    home.borough(&["--yes", "cell", "leave", "beta"]).await.ended(0);
    list.until_shown("\"removed\"").await;
    drop(list.end().await);
    home.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wrong_argument_of_a_member_is_named_as_it_was_given() {
    let home = home_start().await;
    let at = async |at: &str| home.borough(&["cell", "join", "beta", "--at", at]).await.ended(2);
    let nothing = at(",").await.warns("--at: \"\"; accepted: HOST:PORT");
    assert_eq!(nothing.stderr.matches("accepted:").count(), 1, "{}", nothing.stderr);
    at("999.1.1.1:5").await.warns("--at: \"999.1.1.1:5\"; accepted: HOST:PORT");
    home.borough(&["cell", "join", "beta", "--at", "127.0.0.1:1"]).await.ended(0);
    let labels: Vec<String> = (0..65).map(|number| format!("k{number}=v")).collect();
    let mut line = vec!["cell", "label", "beta"];
    line.extend(labels.iter().map(String::as_str));
    let many = home.borough(&line).await.ended(2).warns("LABEL: 65 entries; accepted: at most 64");
    assert!(!many.stderr.contains("--label"), "{}", many.stderr);
    let moved = home.borough(&["cell", "rename-endpoint", "beta", "--at", "host"]).await.ended(2);
    moved.warns("--at: \"host\"; accepted: HOST:PORT");
    home.finish().await;
}
