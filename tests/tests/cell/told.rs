//! What is done although it changes or finds nothing, and what a person is told then on standard error.

use std::process::Stdio;

use borough_tests::{DEADLINE, Ran, TestCell, options};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const JOB: &str = "name: web\ncount: 3\nlabels: {team: shop}\ntask: {command: [sleep, '600'], resources: {cpu: 10m, \
    memory: 4MiB}, grace: 100ms}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_removal_of_what_is_not_there_is_done_and_says_so() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let borough = async |words: &[&str]| cell.borough(words).await.ended(0);
    borough(&["node", "label", "alpha-1", "k-"]).await.warns("alpha-1 had no label \"k\"; its labels: none");
    borough(&["node", "label", "alpha-1", "tier=db"]).await;
    let both = borough(&["node", "label", "alpha-1", "teir-", "tier-"]).await;
    both.warns("alpha-1 had no label \"teir\"; its labels: tier").prints("alpha-1: no labels");
    borough(&["node", "untaint", "alpha-1", "k"]).await.warns("alpha-1 had no taint \"k\"; its taints: none");
    borough(&["node", "taint", "alpha-1", "k=v:prefer_no_schedule"]).await;
    let other = borough(&["node", "untaint", "alpha-1", "k:no_execute"]).await;
    other.warns("alpha-1 had no taint \"k:no_execute\"; its taints: k=v:prefer_no_schedule");
    let gone = borough(&["node", "untaint", "alpha-1", "k"]).await;
    assert_eq!(gone.stderr, "", "it was there");
    borough(&["job", "label", "web", "j-"]).await.warns("tester/web had no label \"j\"; its labels: team");
    assert_eq!(borough(&["job", "label", "web", "team-"]).await.stderr, "");
    assert_eq!(
        borough(&["-q", "job", "label", "web", "team-"]).await.stderr,
        "",
        "a remark is left out with -q"
    );
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_selector_chooses_attributes_too_and_tells_of_keys_that_nothing_has() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    cell.borough(&["node", "label", "alpha-1", "tier=db", "rack=r9"]).await.ended(0);
    let listed = async |words: &[&str]| {
        let ran = cell.borough(&[words, &["-o", "json"]].concat()).await.ended(0);
        let rows = ran.json().as_array().unwrap().len();
        (rows, ran.stderr)
    };
    let fine = |rows| (rows, String::new());
    assert_eq!(listed(&["node", "list", "-l", "os=linux"]).await, fine(1), "an attribute");
    assert_eq!(listed(&["node", "list", "-l", "os==linux,tier==db"]).await, fine(1));
    assert_eq!(listed(&["node", "list", "-l", "os!=linux"]).await, fine(0));
    assert_eq!(
        listed(&["node", "list", "-l", "rack=r9"]).await,
        fine(1),
        "a label hides the attribute of its key"
    );
    assert_eq!(listed(&["node", "list", "-l", "rack=r1"]).await, fine(0));
    assert_eq!(listed(&["node", "list", "-l", "node.name=alpha-1"]).await, fine(1));
    let (rows, told) = listed(&["node", "list", "-l", "teir!=db"]).await;
    assert_eq!(rows, 1, "{told}");
    assert_eq!(told, "no node has the label or attribute \"teir\", did you mean \"tier\"?\n");
    assert_eq!(listed(&["job", "list", "-l", "team==shop"]).await, fine(1));
    for noun in ["job", "task"] {
        let (rows, told) = listed(&[noun, "list", "-l", "taem=shop"]).await;
        let first = told.lines().next().unwrap_or_default();
        let wanted = "no job of user tester has the label \"taem\", did you mean \"team\"?";
        assert_eq!((rows, first), (0, wanted));
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_of_what_is_not_there_says_that_it_waits() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let no_job = "no job \"wbe\" of user tester in cell alpha, did you mean \"web\"?; the watch waits for it";
    let no_node = "no node \"alpha-2\" in cell alpha, did you mean \"alpha-1\"?; the watch waits for it";
    for (words, wanted) in [
        (&["name", "watch", "wbe"][..], no_job),
        (&["event", "watch", "--job", "wbe"], no_job),
        (&["event", "watch", "--node", "alpha-2"], no_node),
    ] {
        let mut command = cell.command(words);
        let mut watch =
            command.stderr(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines();
        let said = tokio::time::timeout(DEADLINE, lines.next_line()).await.expect("a line").unwrap();
        assert_eq!(said.as_deref(), Some(wanted), "{words:?}");
        watch.kill().await.unwrap();
    }
    // A list is no watch: it ends, and the job is asked for only if nothing is listed.
    cell.borough(&["name", "list", "wbe"])
        .await
        .ended(3)
        .warns("no job \"wbe\" of user tester in cell alpha");
    cell.borough(&["name", "list", "web"]).await.ended(0);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn tasks_are_named_as_ranges() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", JOB).await;
    let restarted = cell.borough(&["job", "restart", "web", "--task", "1-2", "-o", "json"]).await.ended(0);
    assert_eq!(restarted.json()["restarted"], serde_json::json!([1, 2]), "{}", restarted.stdout);
    cell.borough(&["job", "restart", "web", "--task", "0,2-3"]).await.ended(3).warns("accepted: 0 to 2");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_person_without_a_home_directory_is_told_what_to_set() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let homeless = async |home: Option<&str>, words: &[&str]| {
        let mut command = cell.command(words);
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "BOROUGH_DIR"] {
            command.env_remove(variable);
        }
        command.envs(home.map(|home| ("HOME", home)));
        let output = tokio::time::timeout(DEADLINE, command.output()).await.expect("it ends").unwrap();
        Ran::new(words.join(" "), &output)
    };
    let gateway = cell.grpc();
    let token = cell.root().join("token").display().to_string();
    let connected =
        ["--gateway", gateway.as_str(), "--token-file", token.as_str(), "--cell", "alpha", "job", "list"];
    for home in [None, Some(""), Some("relative")] {
        let hint = "hint: set HOME to your home directory";
        let none = homeless(home, &["job", "list"]).await.ended(5);
        none.warns("no gateway is named, and without HOME no dev cell is known").warns(hint);
        let kept = homeless(home, &["context", "add", "x", "--gateway", "h:1"]).await.ended(2);
        kept.warns("neither XDG_CONFIG_HOME nor HOME is an absolute path").warns(hint);
        homeless(home, &["context", "list"]).await.ended(0).warns("no contexts");
        homeless(home, &["dev"]).await.ended(2).warns("borough dev --dir DIR");
        homeless(home, &connected).await.ended(0);
    }
    cell.finish().await;
}
