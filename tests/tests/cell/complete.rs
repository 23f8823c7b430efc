//! Completion as a person has it: keys typed in a shell on a terminal.

use std::path::Path;
use std::process::Stdio;

use borough_kv::exercise::not_exercised;
use borough_tests::{DEADLINE, TestCell, options};
use tokio::io::AsyncWriteExt as _;

/// Starts a shell on a terminal. Types each line of the input with a tab behind it, and waits for the text behind its
/// `=>`. Presses tab again if nothing comes: completion gives up soon, and the machine may be busy. Ends with the text
/// that never came, or with 0.
const SHELL: &str = r"
import os, pty, re, select, sys, time
script, words = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(words[0], words)
shown = b''
def until(text, again=b''):
    global shown
    end = time.monotonic() + 30
    while text not in shown:
        left = end - time.monotonic()
        if left > 0 and not select.select([terminal], [], [], min(left, 3))[0]:
            os.write(terminal, again)
        elif left <= 0:
            os.kill(pid, 9)
            sys.exit('no ' + repr(text) + ' in ' + repr(shown))
        if not select.select([terminal], [], [], 0)[0]:
            continue
        shown = re.sub(rb'\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][AB0]|\x07', b'', shown + os.read(terminal, 4096))
    shown = shown[shown.index(text) + len(text):]
os.write(terminal, script.encode() + b'; echo rea\x22\x22dy\r')
until(b'\nready')
for line in sys.stdin:
    typed, text = line.rstrip('\n').split(' => ')
    shown = b''
    os.write(terminal, typed.encode() + b'\t')
    until(text.encode(), again=b'\t')
    os.write(terminal, b'\x15')
os.write(terminal, b'exit\r')
os.kill(pid, 9)
os.waitpid(pid, 0)
";

/// What is typed, and what then stands in the line.
const TYPED: &str = "\
borough job status ty => typed
borough task logs typed-w => typed-web/
borough task logs typed-web/ => typed-web/0
borough job stop tester/typed-w => tester/typed-web
borough node status alp => alpha-1
borough cell status al => alpha
borough --cell al => alpha
borough --context pr => prod
borough context use pr => prod
borough task status typed-w => typed-web/
borough task status typed-web/ => typed-web/0
borough node list --state cord => cordoned
borough node list --state ready,tain => ready,tainted
borough task list --state pend => pending
borough job list --state dep => dependency_failed
borough job status typed-web --state assi => assigned
borough job stop -l ti => tier=
borough node cordon -l arc => arch=
borough task signal typed-web/0 WIN => WINCH
borough task signal typed-web/0 sigte => sigterm
borough quota set ann --band prod => production
borough auth grant user/ann --role view => viewer
borough cell set --profile best => best-fit
borough cell members --federation ho => homebase
borough name set shop --share typed-w => typed-web=
borough audit list --method StopJ => StopJob
borough job logs typed-web --helper sid => side
borough node untaint alpha-1 typ => typed:no_schedule
borough explain task.resources.mem => task.resources.memory
borough job sta => status
borough job run --det => --detach
";

fn is_here(shell: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| Path::new(&path).join(shell).exists())
}

/// The same behind `=`, where some shells end words.
const TYPED_BEHIND_EQUALS: &str = "\
borough job list -l tier=w => tier=web
borough job list --state=runn => --state=running
borough job init --kind=we => --kind=web
borough node taint alpha-1 typed:no_sch => typed:no_schedule
";

async fn typed_in(cell: &TestCell, shell: &[&str], script: &str) {
    let home = tempfile::tempdir().unwrap();
    let programs = home.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let program = env!("CARGO_BIN_EXE_borough-under-test");
    std::os::unix::fs::symlink(program, programs.join("borough")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let dir = cell.root().display().to_string();
    let context = ["context", "add", "prod", "--dir", &dir];
    let added = cell.command(&context).env("XDG_CONFIG_HOME", home.path()).output().await.unwrap();
    assert!(added.status.success(), "{added:?}");
    let mut command = tokio::process::Command::new("python3");
    command.args(["-c", SHELL, script]).args(shell).env("PATH", path).env("HOME", home.path());
    command.env("BOROUGH_DIR", &dir).env("BOROUGH_USER", "tester").env("XDG_CONFIG_HOME", home.path());
    command.env("TERM", "dumb").env("PS1", "$ ");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(TYPED.as_bytes()).await.unwrap();
    input.write_all(TYPED_BEHIND_EQUALS.as_bytes()).await.unwrap();
    drop(input);
    let output =
        tokio::time::timeout(DEADLINE * 4, child.wait_with_output()).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{shell:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_tab_completes_the_names_of_the_cell_in_every_shell_that_is_here() {
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--federation", "homebase"])).await;
    let join = ["cell", "join", "beta", "--at", "127.0.0.1:1", "--federation", "homebase"];
    cell.borough(&join).await.ended(0);
    let text = "name: typed-web\nlabels: {tier: web}\ntask: {command: [sleep, 600], resources: {cpu: 10m}, grace: 100ms, \
                helpers: [{name: side, when: beside, command: [sleep, 600]}]}\n";
    cell.run("web.yaml", text).await;
    cell.borough(&["node", "taint", "alpha-1", "typed:no_schedule"]).await.ended(0);
    let source = "source <(borough completion";
    typed_in(&cell, &["bash", "--norc", "--noprofile", "-i"], &format!("{source} bash)")).await;
    if is_here("zsh") {
        let script = format!("autoload -U compinit; compinit -u -D; {source} zsh)");
        typed_in(&cell, &["zsh", "-f", "-i"], &script).await;
    } else {
        not_exercised("completion in zsh", "it is not installed");
    }
    if is_here("fish") {
        typed_in(&cell, &["fish", "--no-config", "-i"], "borough completion fish | source").await;
    } else {
        not_exercised("completion in fish", "it is not installed");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_gateway_that_does_not_answer_leaves_the_shell_without_names_before_a_verb_gives_up() {
    // Takes connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = silent.local_addr().unwrap().to_string();
    let program = || {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let mut verb = program();
    verb.args(["--gateway", &gateway, "--cell", "alpha", "node", "list"]);
    let mut shell = program();
    shell.args(["--", "borough", "node", "status", &format!("--gateway={gateway}"), "--cell=alpha", "a"]);
    shell.env("_CLAP_COMPLETE_INDEX", "5").env("BOROUGH_COMPLETE", "bash");
    tokio::select! {
        biased;
        output = shell.output() => {
            let output = output.unwrap();
            assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
        }
        ended = verb.output() => panic!("the verb gave up first: {ended:?}"),
    }
}
