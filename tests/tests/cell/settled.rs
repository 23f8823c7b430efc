//! Waits for federated jobs, and what an operator hears: two cells and their home in one process.

use std::time::Duration;

use borough_proto::v1::MemberHealth;
use borough_tests::{TestCell, options, until};

/// A home with another name than the usual one, and the cells `alpha` and `beta`.
async fn home_start() -> TestCell {
    let options = options!().nodes(1).cells(&["alpha", "beta"]).dev_arguments(&["--federation", "home"]);
    TestCell::start(options).await
}

/// Both cells join the federation, which no option names.
async fn joined() -> TestCell {
    let home = home_start().await;
    for cell in ["alpha", "beta"] {
        home.borough(&["cell", "join", cell, "--at", &home.grpc()]).await.ended(0);
        let client = home.client().with_cell("home");
        until(&format!("{cell} is current"), || async {
            let member = client.member_get(cell).await.ok()?;
            (member.health() == MemberHealth::Current).then_some(())
        })
        .await;
    }
    home
}

/// A job of both cells.
fn job(name: &str, command: &str) -> String {
    format!(
        "name: {name}\ncount: 2\nprogress_deadline: 5s\nupdate: {{healthy_after: 100ms}}\ntask: {{command: [sh, -c, \
         '{command}'], resources: {{cpu: 10m, memory: 8MiB}}, grace: 300ms}}\nfederation: {{split: weight}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_scale_after_an_undo_waits_for_its_tasks_alone() {
    let home = joined().await;
    let run = async |words: &[&str], command: &str| {
        let file = home.file("fz.yaml", &job("fz", command));
        home.borough(&[&["federation", "job", "run", &file], words].concat()).await
    };
    run(&[], "sleep 600").await.ended(0).prints("2/2 healthy in 2 cells");
    run(&["--detach"], "sleep 601").await.ended(0);
    home.borough(&["federation", "job", "undo", "fz", "--yes"]).await.ended(0).prints("reverted");
    let scaled = home.borough(&["federation", "job", "scale", "fz", "5"]).await.ended(0);
    let scaled = scaled.prints("5/5 healthy in 2 cells");
    assert!(!scaled.stderr.contains("error"), "{}", scaled.stderr);
    // Its owner wants the version after all. What differs is what the cells have.
    let file = home.file("fz.yaml", &job("fz", "sleep 601"));
    let planned = home.borough(&["federation", "job", "plan", &file]).await.ended(1);
    planned
        .prints("version 3 would follow version 2")
        .prints("~ task.command[2]: \"sleep 600\" -> \"sleep 601\"");
    run(&[], "sleep 601").await.ended(0).prints("version 3").prints("2/2 healthy in 2 cells");
    run(&[], "sleep 601").await.ended(0).warns("no change");
    let history = home.borough(&["federation", "job", "history", "fz"]).await.ended(0);
    history.prints("version 3: no field changed").prints("~ task.command[2]: \"sleep 600\" -> \"sleep 601\"");

    let part = home.borough(&["--cell", "alpha", "job", "scale", "fz", "7", "--detach"]).await.ended(0);
    part.warns("the federation home sets its count back").warns(" federation job scale tester/fz 7");
    let part = home.borough(&["--cell", "alpha", "job", "label", "fz", "tier=web"]).await.ended(0);
    part.warns("the federation home sets its labels back");
    home.finish().await;
}

/// A version that has failed in the cells is not begun again by a change of the count.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_scale_after_a_failed_release_brings_the_count_alone() {
    let home = joined().await;
    let run = async |name: &str, command: &str, on_failure: &str| {
        let text = job(name, command).replace("update: {", &format!("update: {{on_failure: {on_failure}, "));
        let file = home.file(&format!("{name}.yaml"), &text);
        home.borough(&["federation", "job", "run", &file]).await
    };
    let versions = async |name: &str| {
        let history = home.borough(&["--cell", "alpha", "job", "history", name, "-o", "json"]).await.ended(0);
        history.json().as_array().unwrap().len()
    };
    run("back", "sleep 600", "revert").await.ended(0);
    run("back", "exit 4", "revert").await.ended(1).warns("release of version 2");
    let before = versions("back").await;
    let scaled = home.borough(&["federation", "job", "scale", "back", "5"]).await.ended(0);
    scaled.prints("5/5 healthy in 2 cells");
    assert_eq!(versions("back").await, before, "the failed version is submitted again");
    // What was taken back before a cell had this version says nothing of it.
    home.borough(&["federation", "job", "undo", "back", "--yes"]).await.ended(0);
    home.borough(&["federation", "job", "scale", "back", "6"])
        .await
        .ended(0)
        .prints("6/6 healthy in 2 cells");
    let status = home.borough(&["federation", "job", "status", "back"]).await.ended(0);
    assert!(!status.stdout.contains("version 1 failed"), "{}", status.stdout);
    run("back", "sleep 600", "revert").await.ended(0).prints("version 3");

    // Tasks of a version that stays although it has failed are none that the owner has.
    run("stays", "sleep 600", "stop").await.ended(0);
    run("stays", "exit 4", "stop").await.ended(1).warns("release of version 2");
    let before = versions("stays").await;
    let scaled = home.borough(&["federation", "job", "scale", "stays", "4"]).await.ended(1);
    scaled.warns("no progress for 5s");
    assert_eq!(versions("stays").await, before);
    home.finish().await;
}

/// A cell is asked for no more room than a job wants, so what is promised to one job at the time of the question is
/// lacking to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_empties_a_cell_of_several_jobs() {
    let home = joined().await;
    for name in ["one", "two", "three"] {
        let file = home.file(
            &format!("{name}.yaml"),
            &job(name, "sleep 600")
                .replace("count: 2", "count: 4")
                .replace("progress_deadline: 5s", "progress_deadline: 60s"),
        );
        home.borough(&["federation", "job", "run", &file]).await.ended(0).prints("4/4 healthy in 2 cells");
    }
    home.borough(&["cell", "drain", "beta", "--timeout", "90s"]).await.ended(0);
    for name in ["one", "two", "three"] {
        let status = home.borough(&["federation", "job", "status", name]).await.ended(0);
        status.prints("4/4 healthy in 1 cell");
    }
    home.finish().await;
}

/// What a cell's own user does to a part of a federated job does not last, and the user hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_file_of_the_name_in_a_cell_is_set_back() {
    let home = joined().await;
    let file = home.file("fo.yaml", &job("fo", "sleep 600"));
    home.borough(&["federation", "job", "run", &file]).await.ended(0);
    let own = "name: fo\ntask: {command: [sleep, '99'], resources: {cpu: 10m}, grace: 300ms}\n";
    let own = home.file("own.yaml", own);
    let ran = home.borough(&["--cell", "beta", "job", "run", "--detach", &own]).await.ended(0);
    ran.warns("the federation home sets back what it runs");
    until("the part of beta is back", || async {
        let shown = home.client().with_cell("beta").job_get(&home.job("fo")).await.ok()?;
        let command = shown.spec?.task?.command;
        (command == ["sh", "-c", "sleep 600"] && shown.job?.labels.len() == 2).then_some(())
    })
    .await;
    home.finish().await;
}

/// Who scales waits for the tasks, and not for a person who has to let a release go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_scale_does_not_wait_for_the_approval_of_a_release() {
    let home = joined().await;
    let staged =
        "federation: {split: weight, rollout: {stages: [{cells: [alpha], approve: true}, {cells: [beta]}]}}";
    let run = async |command: &str, words: &[&str]| {
        let file = home.file("fa.yaml", &job("fa", command).replace("federation: {split: weight}", staged));
        home.borough(&[&["federation", "job", "run", &file], words].concat()).await
    };
    run("sleep 600", &[]).await.ended(0);
    run("sleep 601", &["--detach"]).await.ended(0);
    let status_until = async |text: &str| {
        until(&format!("the status says {text:?}"), || async {
            let status = home.borough(&["federation", "job", "status", "fa"]).await.ended(0);
            status.stdout.contains(text).then_some(())
        })
        .await;
    };
    status_until("federation job approve tester/fa").await;
    let scaled = home.borough(&["federation", "job", "scale", "fa", "4"]).await.ended(0);
    scaled.prints("4/4 healthy in 2 cells");
    // A pause ends with the next version, and its owner hears of it.
    home.borough(&["federation", "job", "pause", "fa"]).await.ended(0);
    status_until("federation job resume tester/fa").await;
    run("sleep 602", &["--detach"]).await.ended(0).warns("the release of version 2 was paused");
    home.borough(&["federation", "job", "stop", "fa", "--all-cells", "--yes"]).await.ended(0);
    let stopped = home.borough(&["federation", "job", "status", "fa"]).await.ended(0);
    let stopped = stopped.prints("stopped").prints("by user/tester");
    assert!(!stopped.stdout.contains("release of version"), "{}", stopped.stdout);
    home.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_federated_job_that_crashes_is_explained_by_its_cells_and_not_waited_for() {
    let home = joined().await;
    let file = home.file("fbad.yaml", &job("fbad", "exit 4"));
    let line = ["federation", "job", "run", &file, "--timeout", "10m"];
    let ran = tokio::time::timeout(Duration::from_secs(60), home.borough(&line)).await;
    let ran = ran.expect("the progress deadline ends the wait").ended(1);
    let ran = ran
        .warns("no progress for 5s")
        .warns("alpha says (borough --cell alpha why tester/fbad)")
        .warns("exit code 4");
    ran.warns("hint: borough federation job status tester/fbad; borough --cell alpha why tester/fbad");
    let status = home.borough(&["federation", "job", "status", "fbad"]).await.ended(0);
    status.prints("beta says (borough --cell beta why tester/fbad)").prints("exit code 4");
    home.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_a_cell_has_of_its_own_is_seen_and_other_cells_have_the_tasks() {
    let home = joined().await;
    home.run("own.yaml", "name: own\ntask: {command: [sleep, '600'], resources: {cpu: 10m}}\n")
        .await
        .ended(0);
    let file = home.file("fown.yaml", &job("own", "sleep 600"));
    let planned = home.borough(&["federation", "job", "plan", &file]).await.ended(1);
    planned.prints("  alpha: it has a job of this name of its own, which the federation leaves alone");
    home.borough(&["federation", "job", "run", &file]).await.ended(0).prints("2/2 healthy in 1 cell");
    let status = home.borough(&["federation", "job", "status", "own"]).await.ended(0);
    status.prints("  alpha: it has a job of this name of its own").prints("  beta: this is its part");
    // In every cell, none can have them.
    let two = "name: two\ntask: {command: [sleep, '600'], resources: {cpu: 10m}}\n";
    for cell in ["alpha", "beta"] {
        let own = home.file("two.yaml", two);
        home.borough(&["--cell", cell, "job", "run", &own]).await.ended(0);
    }
    let file = home.file("ftwo.yaml", &job("two", "sleep 600"));
    let ran = home.borough(&["federation", "job", "run", &file]).await.ended(1);
    ran.warns("2 without a cell").warns("no progress for 5s");
    home.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_address_that_is_certainly_wrong_does_not_join() {
    let home = home_start().await;
    let none = home.borough(&["cell", "members"]).await.ended(0);
    none.warns("no cells in the federation");
    let join = async |cell: &str, at: &str| home.borough(&["cell", "join", cell, "--at", at]).await;
    join("zzz", &home.grpc()).await.ended(3).warns("there is no cell \"zzz\"");
    let http = home.http();
    let http = http.trim_start_matches("http://");
    join("q", http).await.ended(2).warns("is the HTTP port of a gateway");
    home.borough(&["cell", "members", "q"]).await.ended(3);
    // A gateway may be down for now.
    join("far", "127.0.0.1:1").await.ended(0).warns("warning: no gateway answers at 127.0.0.1:1");
    // Nobody has joined who answers: the job waits no longer than its progress deadline, and says for what.
    let file = home.file("alone.yaml", &job("alone", "sleep 600"));
    home.borough(&["federation", "job", "run", &file]).await.ended(1).warns("2 without a cell");
    home.finish().await;
}
