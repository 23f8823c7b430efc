//! The tour of README.md, typed from the page itself.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use borough_tests::{DEADLINE, Ran, TestCell, options};
use tokio::io::AsyncReadExt as _;

/// A line of the tour: a command, and what its comment promises in double quotes.
struct Step {
    line: String,
    promised: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn steps() -> Vec<Step> {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let tour = page.split_once("## A tour").expect("a tour").1;
    let lines =
        tour.lines().skip_while(|line| !line.starts_with("    ")).take_while(|line| line.starts_with("    "));
    let step = |line: &str| {
        let (line, comment) = line.split_once(" #").unwrap_or((line, ""));
        let promised = comment.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        Step { line: line.trim().to_owned(), promised }
    };
    lines.map(step).filter(|step| step.line.starts_with("borough ")).collect()
}

/// Follows until the first output comes, as a reader who then types Ctrl-C.
async fn followed(cell: &TestCell, words: &[&str]) {
    let mut child = cell.command(words).current_dir(root()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let first = tokio::time::timeout(DEADLINE, out.read_u8()).await;
    first.unwrap_or_else(|_| panic!("no output of {words:?}")).unwrap();
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_tour_of_the_readme_runs_as_it_is_written() {
    let cell = TestCell::start(options!().nodes(3)).await;
    let steps = steps();
    assert!(steps.len() >= 9, "only {} steps", steps.len());
    for step in steps {
        let mut shown = String::new();
        for command in step.line.split("&&") {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            if words.contains(&"-f") {
                // A request, so that the server writes a line.
                let endpoint = &cell.client().endpoint_list("tester", "web").await.unwrap().0[0];
                let address = format!("{}:{}", endpoint.host, endpoint.ports[0].number);
                borough_tests::http_get(&address, "/", None).await.unwrap();
                followed(&cell, &words).await;
                continue;
            }
            let output = cell.command(&words).current_dir(root()).output();
            let output = tokio::time::timeout(DEADLINE * 2, output).await.expect("it ends").unwrap();
            // 1: the job would change.
            let code = i32::from(words.starts_with(&["job", "plan"]));
            let ran = Ran::new(command.to_owned(), &output).ended(code);
            shown.push_str(&ran.stdout);
            shown.push_str(&ran.stderr);
        }
        for promised in step.promised {
            let promised = promised.replace("you/", "tester/");
            assert!(shown.contains(&promised), "{} does not show {promised:?}:\n{shown}", step.line);
        }
    }
    cell.finish().await;
}
