//! `--dry-run`: the cell says what a change would do, or why it refuses it, and nothing changes.

use borough_tests::{TestCell, is_up, options};

const WEB: &str = "name: web\ncount: 2\nlabels: {app: shop}\nupdate: {healthy_after: 100ms}\n\
                   task: {command: [sleep, '600'], resources: {cpu: 10m, memory: 16MiB}, grace: 300ms}\n";

/// All that is recorded of changes, and all that they change.
async fn everything(cell: &TestCell) -> String {
    let mut all = String::new();
    for verb in [
        &["audit", "list"][..],
        &["event", "list", "--limit", "10000"],
        &["job", "list", "--all", "--ended"],
        &["job", "history", "web"],
        &["quota", "list"],
        &["auth", "grants"],
        &["name", "status"],
        &["auth", "keys", "list"],
        &["node", "join-token", "list"],
    ] {
        all.push_str(&cell.borough(&[verb, &["-o", "json"]].concat()).await.ended(0).stdout);
    }
    // The status of a cell has what its schedulers do as well, which no dry run is asked about.
    let status = cell.borough(&["cell", "status", "-o", "json"]).await.ended(0).json();
    all + &status["settings"].to_string()
}

/// Each change that a verb asks a cell for, with a part of what is said of it.
fn changes(changed: &str, new: &str) -> Vec<(Vec<String>, &'static str)> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut all = vec![
        (words("job scale web 5"), "job tester/web: "),
        (words("job stop web"), "job tester/web: stopping"),
        (words("job label web team=a"), "job tester/web: "),
        (words("job restart web"), "task tester/web/0: attempt 1 stopping"),
        (words("task restart web/1"), "task tester/web/1: attempt 1 stopping"),
        (words("task stop web/0"), "task tester/web/0: attempt 1 stopping"),
        (words("job stop -l app=shop"), "job tester/web: stopping"),
        (words("node cordon alpha-1"), "node alpha-1: ready, cordoned"),
        (words("node cordon alpha-1 alpha-2"), "node alpha-2: ready, cordoned"),
        (words("node drain alpha-1 --detach"), "node alpha-1: ready, draining"),
        (words("node drain alpha-1 --force --detach"), "node alpha-1: ready, draining"),
        (words("node taint alpha-2 disk=slow:no_schedule"), "node alpha-2: ready, tainted disk=slow"),
        (words("node drain alpha-1 alpha-2 --detach"), "node alpha-2: ready, draining"),
        (words("node label alpha-1 tier=web"), "node alpha-1: labels: "),
        (words("task signal web/0 HUP"), "task tester/web/0: its process gets SIGHUP"),
        (words("auth keys rotate"), "cell alpha: a new key "),
        (words("quota set tester --band production --cpu 4"), "quota tester/production: limited to cpu 4"),
        (words("auth grant user/ann --role runner"), "grant user/ann: roles: runner"),
        (words("name set shop -l app=shop"), "service tester/shop: "),
        (words("cell set --profile best-fit"), "profile: borg-hybrid -> best-fit"),
    ];
    let token = words(&format!("node join-token issue alpha-9 --to {changed}.token"));
    all.push((token, "a join token for node alpha-9, for "));
    all.push((vec!["job".to_owned(), "run".to_owned(), changed.to_owned()], "job tester/web: "));
    all.push((vec!["job".to_owned(), "run".to_owned(), new.to_owned()], "job tester/other: "));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dry_run_of_every_change_says_what_it_would_do_and_changes_nothing() {
    let cell = TestCell::start(options!().nodes(2)).await;
    cell.run("web.yaml", WEB).await;
    cell.tasks_until("web", "two healthy tasks", |tasks| is_up(tasks, 2)).await;
    let changed = cell.file("changed.yaml", &WEB.replace("'600'", "'601'"));
    let new = cell.file("new.yaml", &WEB.replace("name: web", "name: other"));
    let before = everything(&cell).await;
    for (words, text) in changes(&changed, &new) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = cell.borough(&[&words, &["--dry-run", "--yes"][..]].concat()).await.ended(1);
        let ran = ran.prints("dry run: the cell takes the change, and nothing was changed").prints(text);
        // Labels still list what they choose.
        assert!(!ran.stderr.contains("error: "), "{words:?}: {}", ran.stderr);
    }
    let stop = cell.borough(&["job", "stop", "web", "--dry-run", "-o", "json"]).await.ended(1).json();
    assert_eq!(stop["changes"], true);
    assert_eq!(stop["effects"][0]["subject"], "job tester/web");
    // What is there already is no change.
    let same = cell.file("web.yaml", WEB);
    cell.borough(&["job", "run", &same, "--dry-run"]).await.ended(0).prints("there is nothing to change");
    cell.borough(&["node", "uncordon", "alpha-1", "--dry-run"]).await.ended(0);
    assert_eq!(everything(&cell).await, before);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dry_run_is_refused_as_the_change_would_be() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", WEB).await;
    let huge =
        cell.file("huge.yaml", &WEB.replace("name: web", "name: huge").replace("count: 2", "count: 200"));
    cell.borough(&["quota", "set", "tester", "--band", "production", "--cpu", "1", "--yes"]).await.ended(0);
    let refused = cell.borough(&["job", "run", &huge, "--detach"]).await.ended(4);
    let dry = cell.borough(&["job", "run", &huge, "--detach", "--dry-run"]).await.ended(4);
    assert_eq!(dry.stderr, refused.stderr);
    let gone = cell.borough(&["job", "stop", "nothing", "--dry-run"]).await.ended(3);
    gone.warns("no job \"nothing\" of user tester in cell alpha");
    let used = cell.borough(&["job", "list", "--dry-run"]).await.ended(2);
    used.warns("--dry-run: this verb has no dry run");
    cell.borough(&["task", "exec", "web/0", "--dry-run", "--", "true"]).await.ended(2);
    cell.borough(&["context", "list", "--dry-run"]).await.ended(2);
    cell.finish().await;
}
