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
