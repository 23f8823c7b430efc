//! Contexts: where commands connect, and what questions name.

use std::process::Stdio;

use borough_tests::{DEADLINE, Ran, TestCell, options};

/// Runs a command on a terminal of its own and answers the first question.
const ON_TERMINAL: &str = r"
import os, pty, sys
answer, words = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(words[0], words)
shown, asked = b'', False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
    if not asked and b'[y/N]' in shown:
        asked = True
        os.write(terminal, answer.encode() + b'\n')
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(status))
";

/// A user with the contexts of a file, and with nothing else that says where to connect.
struct Person<'c> {
    cell: &'c TestCell,
    home: tempfile::TempDir,
}

impl Person<'_> {
    fn prepared(
        &self,
        mut command: tokio::process::Command,
        variables: &[(&str, &str)],
    ) -> tokio::process::Command {
        command.env_remove("BOROUGH_DIR").env("XDG_CONFIG_HOME", self.home.path());
        command.env("XDG_STATE_HOME", self.home.path()).envs(variables.iter().copied());
        command
    }

    async fn with(&self, variables: &[(&str, &str)], words: &[&str]) -> Ran {
        let mut command = self.prepared(self.cell.command(words), variables);
        let output = tokio::time::timeout(DEADLINE, command.output()).await;
        Ran::new(words.join(" "), &output.expect("it ends").unwrap())
    }

    async fn borough(&self, words: &[&str]) -> Ran {
        self.with(&[], words).await
    }

    /// On a terminal; what it shows is in `stdout`.
    async fn answers(&self, answer: &str, words: &[&str]) -> Ran {
        let mut command =
            self.prepared(tokio::process::Command::new("python3"), &[("BOROUGH_USER", "tester")]);
        command.args(["-c", ON_TERMINAL, answer, env!("CARGO_BIN_EXE_borough-under-test")]).args(words);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, command.output()).await;
        Ran::new(words.join(" "), &output.expect("it ends").unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_context_says_where_to_connect() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let person = Person { cell: &cell, home: tempfile::tempdir().unwrap() };
    let token = cell.root().join("token").display().to_string();
    let gateway = cell.grpc();
    person.borough(&["node", "list"]).await.ended(5).warns("no gateway is named");
    let prod = ["context", "add", "prod", "--gateway", &gateway, "--cell", "alpha", "--token-file", &token];
    person.borough(&prod).await.ended(0).warns("borough context use prod");
    person.borough(&prod).await.ended(4).warns("a context \"prod\" exists");
    person.borough(&["context", "add", "none"]).await.ended(2).warns("--gateway HOST:PORT");
    person.borough(&["context", "add", "both", "--gateway", "h:1", "--dir", "d"]).await.ended(2);

    // By option, by variable, by choice.
    person.borough(&["--context", "prod", "node", "list"]).await.ended(0).prints("ready");
    person.with(&[("BOROUGH_CONTEXT", "prod")], &["node", "list"]).await.ended(0).prints("ready");
    person.borough(&["node", "list"]).await.ended(5);
    person.borough(&["context", "use", "prdo"]).await.ended(3).warns("known: prod");
    person.borough(&["context", "use", "prod"]).await.ended(0);
    person.borough(&["node", "list"]).await.ended(0).prints("ready");
    person.borough(&["--context", "", "node", "list"]).await.ended(5);
    person.borough(&["--context", "prdo", "node", "list"]).await.ended(3).warns("known: prod");
    let both = person.borough(&["--context", "prod", "--gateway", &gateway, "node", "list"]).await.ended(2);
    both.warns("--context and --gateway both say where to connect");
    // An option replaces a part of it.
    person.borough(&["--cell", "beta", "node", "list"]).await.ended(3).warns("beta");

    // A token by its variable, and never in the file.
    let var =
        ["context", "add", "var", "--gateway", &gateway, "--token-variable", "PROD_TOKEN", "--cell", "alpha"];
    person.borough(&var).await.ended(0);
    person
        .borough(&["--context", "var", "node", "list"])
        .await
        .ended(6)
        .warns("PROD_TOKEN, which is not set");
    let variables = [("PROD_TOKEN", cell.token())];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    person.with(&variables, &["--context", "var", "node", "list"]).await.ended(0).prints("ready");
    let kept = std::fs::read_to_string(person.home.path().join("borough/contexts.json")).unwrap();
    assert!(!kept.contains(&cell.token()) && kept.contains("PROD_TOKEN"), "{kept}");

    // A dev cell by its directory.
    let dir = cell.root().display().to_string();
    person.borough(&["context", "add", "local", "--dir", &dir]).await.ended(0);
    person.borough(&["--context", "local", "node", "list"]).await.ended(0).prints("ready");

    let listed = person.borough(&["context", "list", "-o", "json"]).await.ended(0).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["local", "prod", "var"]);
    assert_eq!((listed[1]["current"].as_bool(), listed[1]["cell"].as_str()), (Some(true), Some("alpha")));
    let unused = person.borough(&["context", "remove", "var"]).await.ended(0);
    unused.warns("context \"var\" is removed\n");
    let removed = person.borough(&["context", "remove", "prod"]).await.ended(0);
    removed.warns("it was in use, and now none is: ").warns("borough context use NAME; known: local\n");
    person.borough(&["node", "list"]).await.ended(5);
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dead_gateway_of_a_context_is_named_with_the_context_and_its_file() {
    let cell = TestCell::start_bare(options!().nodes(1)).await;
    let person = Person { cell: &cell, home: tempfile::tempdir().unwrap() };
    // Nobody listens on the port of `discard`.
    let old = ["context", "add", "old", "--gateway", "127.0.0.1:9", "--cell", "alpha"];
    person.borough(&old).await.ended(0);
    let file = person.home.path().join("borough/contexts.json").display().to_string();
    let named = format!("\n  it is the gateway of context \"old\" in {file}\n");
    let told = |ran: Ran| {
        let ran = ran.ended(5).warns("no gateway answers at 127.0.0.1:9 ").warns(&named);
        ran.warns("hint: borough context list; to use another one: borough context use NAME")
    };
    told(person.borough(&["--context", "old", "node", "list"]).await);
    person.borough(&["context", "use", "old"]).await.ended(0);
    told(person.borough(&["node", "list"]).await);
    // An option that names the gateway names no context.
    let other = person.borough(&["--gateway", "127.0.0.1:9", "node", "list"]).await.ended(5);
    assert!(!other.stderr.contains("context"), "{other:?}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_question_of_a_destructive_verb_names_the_context() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("web.yaml", "name: web\ntask: {command: [sleep, 600], resources: {cpu: 10m}, grace: 100ms}\n")
        .await;
    let person = Person { cell: &cell, home: tempfile::tempdir().unwrap() };
    let dir = cell.root().display().to_string();
    person.borough(&["context", "add", "prod", "--dir", &dir, "--cell", "alpha"]).await.ended(0);
    person.borough(&["context", "use", "prod"]).await.ended(0);
    let question = "context \"prod\", cell alpha: stop job tester/web? [y/N]";
    for answer in ["n", "", "what"] {
        let asked = person.answers(answer, &["job", "stop", "web"]).await.ended(1).prints(question);
        asked.prints("nothing was changed");
    }
    let drain = person.answers("n", &["node", "drain", "alpha-1", "--force"]).await.ended(1);
    drain.prints("context \"prod\", cell alpha: stop every task of node alpha-1? [y/N]");
    for (verb, what) in [
        (&["job", "restart", "web"][..], "restart the tasks of job tester/web, one at a time"),
        (&["job", "restart", "web", "--task", "0"], "restart task 0 of job tester/web"),
        (&["task", "stop", "web/0"], "stop task tester/web/0"),
        (&["node", "remove", "alpha-1"], "forget node alpha-1"),
    ] {
        let asked = person.answers("n", verb).await.ended(1);
        asked.prints(&format!("context \"prod\", cell alpha: {what}? [y/N]"));
    }
    let state = person.borough(&["job", "status", "web", "-o", "json"]).await.ended(0).json();
    assert_eq!(state["job"]["state"], "running");
    person.answers("y", &["job", "stop", "web"]).await.ended(0).prints(question);
    cell.run("web.yaml", "name: web\ntask: {command: [sleep, 600], resources: {cpu: 10m}, grace: 100ms}\n")
        .await;
    let stopped = person.answers("n", &["job", "stop", "web", "--yes"]).await.ended(0);
    assert!(!stopped.stdout.contains("[y/N]"), "{}", stopped.stdout);
    cell.finish().await;
}
