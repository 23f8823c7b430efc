//! Bad input for verbs that change jobs, tasks and nodes: a clear line, a code, and no effect.

use borough_tests::{TestCell, options};

const LABEL: &str = "accepted: KEY=VALUE to set a label, KEY- to remove it";

/// The words of the command, its exit code, and a part of the message.
type Bad = (&'static [&'static str], i32, &'static str);

const BAD: [Bad; 45] = [
    (&["job", "purge"], 2, "needs one of JOB, --label, --all-ended"),
    (&["job", "purge", "Web", "--yes"], 2, "accepted: a-z"),
    (&["job", "purge", "a/b/c", "--yes"], 2, "accepted: JOB or USER/JOB"),
    (&["job", "purge", "web", "--all-ended"], 2, "exclude each other"),
    (&["job", "purge", "nothing", "--yes"], 3, "no job \"nothing\" of user tester in cell alpha"),
    (&["job", "purge", "ann/web", "--yes"], 3, "did you mean \"tester/web\"?"),
    (&["job", "purge", "web", "--yes"], 4, "borough job stop tester/web && borough job purge tester/web"),
    (&["job", "purge", "done"], 2, "repeat the command with --yes"),
    (&["job", "purge", "--all-ended"], 2, "repeat the command with --yes"),
    (&["job", "label", "web"], 2, "LABEL"),
    (&["job", "label", "web", "tier"], 2, LABEL),
    (&["job", "label", "web", "=front"], 2, LABEL),
    (&["job", "label", "web", ""], 2, LABEL),
    (&["job", "label", "web", ".x=y"], 2, "LABEL: \".x=y\" has the key \".x\""),
    (&["job", "label", "web", "a\nb=c"], 2, "accepted: 1 to 128"),
    (&["job", "label", "web", "x=a\nb"], 2, "on one line"),
    (&["job", "label", "web", "x=1", "x-"], 2, "stands twice"),
    (&["job", "label", "nothing", "x=1"], 3, "no job \"nothing\" of user tester in cell alpha"),
    (&["job", "label", "done", "x=1"], 4, "job tester/done: the job is over: succeeded"),
    (&["job", "edit"], 2, "JOB"),
    (&["job", "edit", "web"], 2, "repeat the command with --yes"),
    (
        &["job", "edit", "web", "--yes", "--timeout", "soon"],
        2,
        "is no duration; accepted: 1ms to 365d, such as 30s or 5m",
    ),
    (&["job", "edit", "nothing", "--yes"], 3, "no job \"nothing\" of user tester in cell alpha"),
    (&["job", "edit", "done", "--yes"], 4, "only a job that runs or waits can be edited"),
    (&["job", "restart"], 2, "JOB"),
    (&["job", "restart", "web/0"], 2, "borough task restart web/0"),
    (&["job", "restart", "web", "--task", "-1"], 2, "accepted: indexes from 0 to 99999, such as 3 or 0-2,5"),
    (&["job", "restart", "web", "--task", "one"], 2, "accepted: indexes from 0 to 99999"),
    (&["job", "restart", "web", "--task", "0,1"], 3, "job tester/web has no task 1; the only one is 0"),
    (&["job", "restart", "web", "--from", "4294967296"], 2, "accepted: a whole number, 0 to 99999"),
    (&["job", "restart", "nothing"], 3, "no job \"nothing\" of user tester in cell alpha"),
    (&["job", "restart", "done"], 4, "job tester/done is succeeded, so none of its tasks runs"),
    (&["task", "stop", "web"], 2, "accepted: JOB/INDEX"),
    (&["task", "stop", "web/1"], 3, "the only one is 0"),
    (&["task", "stop", "done/0"], 4, "its job does not run"),
    (&["node", "label", "alpha-1"], 2, "LABEL"),
    (&["node", "label", "alpha-1", "tier"], 2, LABEL),
    (&["node", "label", "alpha-1", "tier=x", "tier-"], 2, "stands twice"),
    (&["node", "label", "alpha-1", "node.name=x"], 2, "node.name and those of package/ are set by the cell"),
    (
        &["node", "label", "alpha-1", "package/web/1=x"],
        2,
        "node.name and those of package/ are set by the cell",
    ),
    (&["node", "label", "Alpha", "x=1"], 2, "Alpha"),
    (&["node", "label", "nothing", "x=1"], 3, "no node \"nothing\" in cell alpha"),
    (&["node", "remove", "alpha-1"], 2, "repeat the command with --yes"),
    (&["node", "remove", "nothing", "--yes"], 3, "no node \"nothing\" in cell alpha"),
    (&["node", "remove", "alpha-1", "--yes"], 4, "borough node drain alpha-1"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bad_input_of_a_verb_is_answered_in_words_and_changes_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let job = |name: &str, kind: &str, command: &str| {
        format!(
            "name: {name}\nkind: {kind}\ntask: {{command: [{command}], resources: {{cpu: 10m, memory: 4MiB}}, \
             grace: 100ms}}\n"
        )
    };
    cell.run("web.yaml", &job("web", "service", "sleep, 600")).await;
    cell.run("done.yaml", &job("done", "batch", "'true'")).await;
    let before = seen(&cell).await;
    let mut wrong = Vec::new();
    for (words, code, message) in BAD {
        let ran = cell.borough(words).await;
        if ran.code != Some(code) || !ran.stderr.contains(message) {
            wrong.push(format!("{words:?}: {:?}, expected {code} and {message:?}\n{}", ran.code, ran.stderr));
        }
    }
    // More labels, and longer ones, than anything may have.
    let many: Vec<String> = (0..65).map(|number| format!("key-{number}=x")).collect();
    let long = [format!("{}=x", "k".repeat(129)), format!("x={}", "v".repeat(257))];
    for object in [["job", "label", "web"], ["node", "label", "alpha-1"]] {
        for (labels, message) in
            [(&many[..], "65"), (&long[..1], "accepted: 1 to 128"), (&long[1..], "256 bytes")]
        {
            let words: Vec<&str> = object.into_iter().chain(labels.iter().map(String::as_str)).collect();
            let ran = cell.borough(&words).await;
            if ran.code != Some(2) || !ran.stderr.contains(message) {
                wrong.push(format!("{object:?}: {:?}, expected 2 and {message:?}\n{}", ran.code, ran.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen(&cell).await, before);
    cell.borough(&["job", "stop", "web"]).await.ended(0);
    cell.finish().await;
}

/// Everything that a verb of the table could have changed.
async fn seen(cell: &TestCell) -> Vec<String> {
    let client = cell.client();
    let filter = borough_client::JobFilter { ended: true, ..Default::default() };
    let jobs = client.job_list(&filter).await.unwrap().into_iter();
    let jobs = jobs.map(|job| format!("{} {} {}", job.name, job.id, job.revision));
    let tasks =
        cell.tasks("web").await.into_iter().map(|task| format!("{} {}", task.incarnation, task.state));
    let node = client.node_get("alpha-1").await.unwrap();
    let node = format!("{} {:?} {} {}", node.id, node.labels, node.schedulable, node.revision);
    jobs.chain(tasks).chain([node]).collect()
}
