//! Helpers: programs that run before, beside or after the command of a task, within its attempt.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use borough_proto::v1::helper_status::State;
use borough_proto::v1::{HelperStatus, Node, Task, TaskState};
use borough_shim::process::ProcessId;
use borough_tests::{TestCell, is_running, is_up, options, until};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;

/// A helper: its name, when it runs, its script, and further fields.
fn helper(name: &str, when: &str, script: &str, more: &str) -> String {
    format!("{{name: {name}, when: {when}, command: [sh, -c, '{script}'], cpu: 10m, memory: 4MiB{more}}}")
}

/// A job `job` whose programs write lines into one file, in the order in which they run.
struct Traced {
    path: PathBuf,
}

impl Traced {
    fn new(cell: &TestCell) -> Self {
        // Tasks may run as users that can reach nothing else.
        let path = cell.tasks_directory().join("trace");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        Self { path }
    }

    /// The job file. `more` is further text at its top.
    fn file(&self, more: &str, command: &str, helpers: &[String]) -> String {
        format!(
            "name: job\n{more}restart: {{mode: never}}\ntask:\n  command: [sh, -c, '{command}']\n  \
             environment: {{T: {}, G: {}}}\n  resources: {{cpu: 20m, memory: 8MiB}}\n  grace: 2s\n  helpers:\n{}",
            self.path.display(),
            self.gate().display(),
            helpers.iter().map(|helper| format!("  - {helper}\n")).collect::<String>()
        )
    }

    /// A file that scripts wait for.
    fn gate(&self) -> PathBuf {
        self.path.with_extension("gate")
    }

    fn gate_open(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn has(&self, line: &str) {
        until(&format!("{line:?} in the trace"), || async {
            self.lines().iter().any(|has| has == line).then_some(())
        })
        .await;
    }
}

/// Writes a line when it begins and when it gets SIGTERM.
fn beside(name: &str) -> String {
    let script = format!(
        "trap \"echo {name}-ends >> $T; exit 0\" TERM; echo {name}-begins >> $T; while :; do sleep 0.05; done"
    );
    helper(name, "beside", &script, "")
}

const WAITS: &str = "while [ ! -e $G ]; do sleep 0.05; done";

fn named<'t>(task: &'t Task, name: &str) -> &'t HelperStatus {
    task.helpers.iter().find(|helper| helper.name == name).unwrap()
}

fn code_of(task: &Task, name: &str) -> Option<i32> {
    named(task, name).exit.as_ref()?.code
}

/// How many processes that run have this text in their command line.
fn running_with(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        ProcessId::find(pid)?;
        std::fs::read(format!("/proc/{pid}/environ")).ok()
    });
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn helpers_run_before_beside_and_after_the_command_in_order() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let after = "echo $BOROUGH_HELPER code=$BOROUGH_EXIT_CODE stopped=$BOROUGH_EXIT_STOPPED >> $T; exit 4";
    let helpers = [
        helper("report", "after", after, ""),
        beside("one"),
        helper(
            "make",
            "before",
            "echo make >> $T; echo made $WHAT in $BOROUGH_TASK_DIR; pwd > made",
            ", environment: {WHAT: it}",
        ),
        helper("check", "before", "echo check >> $T; test -s made", ""),
        beside("two"),
        helper("last", "after", "echo last >> $T", ""),
    ];
    let text = trace.file("kind: batch\n", "echo main >> $T; test -s made; sleep 0.3; exit 7", &helpers);
    let file = cell.file("job.yaml", &text);
    cell.borough(&["job", "run", &file]).await.ended(1);
    let tasks = cell.tasks_until("job", "over", |tasks| tasks[0].state() == TaskState::Dead).await;
    let lines = trace.lines();
    let expected = [
        "make",
        "check",
        "one-begins",
        "two-begins",
        "main",
        "two-ends",
        "one-ends",
        "report code=7 stopped=false",
        "last",
    ];
    // The two beside write by themselves, and the command does not wait for that.
    let at =
        |line: &str| lines.iter().position(|has| has == line).unwrap_or_else(|| panic!("{line}: {lines:?}"));
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for pair in [
        ["make", "check"],
        ["check", "one-begins"],
        ["check", "main"],
        ["main", "two-ends"],
        ["two-ends", "one-ends"],
        ["one-ends", "report code=7 stopped=false"],
        ["report code=7 stopped=false", "last"],
    ] {
        assert!(at(pair[0]) < at(pair[1]), "{pair:?}: {lines:?}");
    }
    // What a helper after the command comes to changes nothing.
    let task = &tasks[0];
    assert_eq!(task.exit.as_ref().unwrap().code, Some(7));
    assert_eq!(
        (code_of(task, "report"), code_of(task, "make"), code_of(task, "one")),
        (Some(4), Some(0), Some(0))
    );
    assert!(task.helpers.iter().all(|helper| helper.state() == State::Ended), "{:?}", task.helpers);
    let status = cell.borough(&["task", "status", "job/0"]).await.ended(0);
    status
        .prints("helpers\n  report: after the command, ended: exit code 4 at ")
        .prints("  make: before the command, ended: exit code 0 at ");
    let json = cell.borough(&["task", "status", "job/0", "-o", "json"]).await.ended(0).json();
    assert_eq!(
        (&json["task"]["helpers"][0]["name"], &json["task"]["helpers"][0]["exit"]["code"]),
        (&"report".into(), &4.into())
    );
    // Each has output of its own, also after the task is over.
    let made = cell.borough(&["task", "logs", "job/0", "--helper", "make"]).await.ended(0);
    made.prints("made it in /");
    let none = cell.borough(&["task", "logs", "job/0"]).await.ended(0);
    assert_eq!(none.stdout, "", "not among that of the command");
    cell.borough(&["job", "logs", "job", "--helper", "make"]).await.ended(0).prints("made it in ");
    unknown_helper_is_refused(&cell).await;
    cell.finish().await;
}

async fn unknown_helper_is_refused(cell: &TestCell) {
    let all = cell.borough(&["job", "logs", "job", "--helper", "mke"]).await.ended(3);
    all.warns("error: tester/job/0: attempt 1: this attempt has no helper \"mke\"");
    let unknown = cell.borough(&["task", "logs", "job/0", "--helper", "mke"]).await.ended(3);
    unknown.warns("has no helper \"mke\": it has report, one, make, check, two, last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_helper_that_fails_before_the_command_is_a_failure_of_the_attempt() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let late = helper("late", "before", "sleep 600", ", deadline: 1s");
    let cases = [
        (
            helper("broken", "before", "echo no schema; exit 3", ""),
            "its helper \"broken\" (before its command) failed: exit code 3",
        ),
        (late, "its helper \"late\" (before its command) failed: it did not end within its deadline of 1s"),
        (
            "{name: absent, when: beside, command: [no-such-program]}".to_owned(),
            "its helper \"absent\" (beside its command) failed: cannot execute \"no-such-program\"",
        ),
    ];
    for (case, reason) in cases {
        let helpers = [
            case,
            helper("never", "before", "echo never >> $T", ""),
            helper("after", "after", "echo after >> $T", ""),
        ];
        // One that starts beside the command comes after all that run before it.
        let helpers: Vec<String> = if reason.contains("beside") {
            vec![helpers[0].clone(), helpers[2].clone()]
        } else {
            helpers.to_vec()
        };
        let file = cell.file("job.yaml", &trace.file("kind: batch\n", "echo main >> $T", &helpers));
        let ran = cell.borough(&["job", "run", &file]).await.ended(1).warns(reason);
        if reason.contains("broken") {
            ran.warns("the last lines of helper broken of tester/job/0:\n")
                .warns("  no schema\n")
                .warns("borough task logs tester/job/0 --previous --helper broken");
        }
        let tasks = cell
            .tasks_until("job", "over", |tasks| tasks.iter().all(|task| task.state() == TaskState::Dead))
            .await;
        assert!(tasks[0].exit.as_ref().unwrap().message.starts_with(reason), "{:?}", tasks[0].exit);
        assert_eq!(trace.lines(), [""; 0], "nothing follows");
        cell.borough(&["task", "status", "job/0"]).await.ended(0).prints("never started");
    }
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_beside_the_command_is_restarted_and_keeps_no_attempt_running() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let helpers = [
        helper("prepared", "before", "true", ""),
        helper("flaky", "beside", "echo flaky >> $T; exit 5", ""),
        beside("deaf"),
    ];
    let file = trace.file("kind: batch\n", &format!("echo main >> $T; {WAITS}"), &helpers);
    cell.borough(&["job", "run", "--detach", &cell.file("job.yaml", &file)]).await.ended(0);
    let is_flaky =
        |task: &Task| named(task, "flaky").restarts >= 2 && named(task, "deaf").state() == State::Running;
    let tasks = cell
        .tasks_until("job", "restarted twice", |tasks| {
            tasks.iter().all(|task| is_running(task) && task.helpers.len() == 3 && is_flaky(task))
        })
        .await;
    assert_eq!((tasks[0].incarnation, code_of(&tasks[0], "flaky")), (1, Some(5)));
    let status = cell.borough(&["task", "status", "job/0"]).await.ended(0);
    let status = status.prints("  deaf: beside the command, running\n").prints("last exit code 5 at ");
    // The one before it is done, and does not wait.
    status.prints("  prepared: before the command, ended: exit code 0 at ");
    // A command in the task runs in the environment of the main command.
    let exec =
        cell.borough(&["task", "exec", "job/0", "--", "sh", "-c", "echo ${BOROUGH_HELPER:-main}"]).await;
    exec.ended(0).prints("main");
    trace.gate_open();
    let tasks = cell.tasks_until("job", "over", |tasks| tasks[0].state() == TaskState::Dead).await;
    assert_eq!(tasks[0].exit.as_ref().unwrap().code, Some(0));
    assert_eq!(trace.lines().iter().filter(|line| *line == "main").count(), 1);
    trace.has("deaf-ends").await;
    until("no process is left", || async {
        (running_with(&trace.path.display().to_string()) == 0).then_some(())
    })
    .await;
    cell.finish().await;
}

/// A service with one helper of each kind. The helpers before and after the command wait for the gate.
fn service(trace: &Traced) -> String {
    let helpers = [
        helper("prepare", "before", &format!("echo prepare >> $T; {WAITS}; echo prepared >> $T"), ""),
        beside("logs"),
        helper(
            "goodbye",
            "after",
            &format!(
                "echo goodbye code=$BOROUGH_EXIT_CODE stopped=$BOROUGH_EXIT_STOPPED >> $T; {WAITS}; echo gone >> $T"
            ),
            "",
        ),
    ];
    let main = "trap \"exit 0\" TERM; echo main >> $T; while :; do sleep 0.05; done";
    trace
        .file("", main, &helpers)
        .replace("restart: {mode: never}", "restart: {mode: always, backoff: 100ms}")
}

/// Kills the agent of the cell's node, and waits for the next one.
async fn agent_kill(cell: &TestCell) {
    let nodes = cell.client().node_list().await.unwrap();
    let node = nodes.first().map(|node: &Node| node.name.clone()).unwrap();
    let agent = cell.agent_found(&node).await;
    agent.signal(Signal::KILL).unwrap();
    until("the next agent", || async { cell.agent(&node).filter(|next| *next != agent) }).await;
    cell.nodes_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_that_is_killed_in_any_phase_runs_nothing_twice_and_leaves_nothing() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let file = cell.file("job.yaml", &service(&trace));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    trace.has("prepare").await;
    agent_kill(&cell).await;
    assert_eq!(trace.lines(), ["prepare"], "the helper goes on, and nothing else begins");
    let starting = cell.tasks_until("job", "its helper runs", |tasks| {
        tasks.iter().all(|task| task.state() == TaskState::Starting && task.helpers.len() == 3)
    });
    assert_eq!(named(&starting.await[0], "prepare").state(), State::Running);
    trace.gate_open();
    let running = cell.tasks_until("job", "its command runs", |tasks| is_up(tasks, 1)).await;
    trace.has("logs-begins").await;
    agent_kill(&cell).await;
    // Ended under the next agent, which adopts the helper and the command.
    let again = cell.tasks_until("job", "it is known again", |tasks| is_up(tasks, 1)).await;
    assert_eq!((again[0].pid, again[0].incarnation), (running[0].pid, 1));
    std::fs::remove_file(trace.gate()).unwrap();
    cell.borough(&["job", "stop", "job", "--detach"]).await.ended(0);
    trace.has("goodbye code=0 stopped=true").await;
    agent_kill(&cell).await;
    let releasing = cell.tasks_until("job", "its helper after the command runs", |tasks| {
        tasks.iter().all(|task| {
            task.state() == TaskState::Releasing && named(task, "goodbye").state() == State::Running
        })
    });
    assert!(releasing.await[0].charge.is_some(), "its node is still charged");
    trace.gate_open();
    cell.tasks_until("job", "over", |tasks| tasks[0].state() == TaskState::Dead).await;
    let lines = trace.lines();
    let mut sorted = lines.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), lines.len(), "each ran once: {lines:?}");
    for line in ["prepared", "main", "logs-begins", "logs-ends", "gone"] {
        assert!(lines.iter().any(|has| has == line), "{line}: {lines:?}");
    }
    until("no process is left", || async {
        (running_with(&trace.path.display().to_string()) == 0).then_some(())
    })
    .await;
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_drain_ends_the_helpers_with_the_attempt_and_the_next_one_begins_with_its_own() {
    let cell = TestCell::start(options!().nodes(2)).await;
    let trace = Traced::new(&cell);
    trace.gate_open();
    cell.run("job.yaml", &service(&trace)).await;
    let before = cell.tasks_until("job", "runs", |tasks| is_up(tasks, 1)).await;
    cell.borough(&["node", "drain", &before[0].node]).await.ended(0);
    let after = cell
        .tasks_until("job", "runs elsewhere", |tasks| is_up(tasks, 1) && tasks[0].node != before[0].node)
        .await;
    assert!(after[0].helpers.iter().all(|helper| helper.restarts == 0));
    trace.has("gone").await;
    let count = |line: &str| trace.lines().iter().filter(|has| *has == line).count();
    until("both attempts", || async { (count("logs-begins") == 2).then_some(()) }).await;
    let counts =
        ["prepare", "prepared", "main", "logs-ends", "goodbye code=0 stopped=true", "gone"].map(count);
    assert_eq!(counts, [2, 2, 2, 1, 1, 1], "{:?}", trace.lines());
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stop_before_the_command_lets_nothing_start() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let file = cell.file("job.yaml", &service(&trace));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    trace.has("prepare").await;
    cell.borough(&["job", "stop", "job"]).await.ended(0);
    assert_eq!(trace.lines(), ["prepare"]);
    until("no process is left", || async {
        (running_with(&trace.path.display().to_string()) == 0).then_some(())
    })
    .await;
    cell.finish().await;
}

/// A service whose helpers are charged; `cpu` and `memory` are those of its command.
fn charged(cpu: &str, memory: &str, after_cpu: &str) -> String {
    format!(
        "name: job\nupdate: {{healthy_after: 300ms}}\ntask:\n  command: [sleep, \"600\"]\n  grace: 300ms\n  \
         resources: {{cpu: {cpu}, memory: {memory}}}\n  helpers:\n  - {{name: a, when: before, command: [\"true\"], \
         cpu: 30m, memory: 64MiB}}\n  - {{name: b, when: beside, command: [sleep, \"600\"], cpu: 10m, memory: 4MiB}}\n  \
         - {{name: c, when: beside, command: [sleep, \"600\"], cpu: 5m, memory: 2MiB}}\n  - {{name: d, when: after, \
         command: [\"true\"], cpu: {after_cpu}, memory: 1MiB}}\n"
    )
}

/// Kubernetes #125559: a resize of a request alone, which changes nothing on the machine, stayed in progress for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_resize_that_changes_nothing_on_the_machine_is_in_force_at_once() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("job.yaml", &charged("20m", "8MiB", "10m")).await;
    let before = cell.tasks_until("job", "healthy", |tasks| is_up(tasks, 1)).await;
    // The helper before the command needs more than the command and those beside it.
    let file = cell.file("job.yaml", &charged("20m", "12MiB", "10m"));
    cell.borough(&["job", "run", &file]).await.ended(0).prints("1/1 healthy with version 2");
    let after =
        cell.tasks_until("job", "in force", |tasks| is_up(tasks, 1) && tasks[0].spec_version == 2).await;
    assert_eq!((after[0].pid, after[0].incarnation, &after[0].charge), (before[0].pid, 1, &before[0].charge));
    assert!(after[0].resize.is_none(), "{after:?}");
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_holds_the_most_that_the_programs_of_an_attempt_need_at_one_time() {
    let cell = TestCell::start(options!().nodes(1)).await;
    cell.run("job.yaml", &charged("20m", "8MiB", "10m")).await;
    let charge = |tasks: &[Task]| {
        let charge = tasks[0].charge.clone().unwrap_or_default();
        (charge.cpu_millis, charge.memory_bytes)
    };
    let before = cell.tasks_until("job", "healthy", |tasks| is_up(tasks, 1)).await;
    assert_eq!(charge(&before), (35, 64 * MIB), "the command with those beside it, and the one before it");
    // Other amounts of the command reach it in place. The charge follows, as far as it is the most.
    for (cpu, memory, expected) in
        [("40m", "8MiB", (55, 64)), ("40m", "80MiB", (55, 86)), ("1m", "1MiB", (30, 64))]
    {
        let file = cell.file("job.yaml", &charged(cpu, memory, "10m"));
        cell.borough(&["job", "run", &file]).await.ended(0);
        let after =
            cell.tasks_until("job", "resized", |tasks| is_up(tasks, 1) && tasks[0].resize.is_none()).await;
        assert_eq!(charge(&after), (expected.0, expected.1 * MIB));
        assert_eq!((after[0].pid, after[0].incarnation), (before[0].pid, 1), "in place");
    }
    // A change of a helper is one of the version: the attempt is replaced.
    let file = cell.file("job.yaml", &charged("1m", "1MiB", "90m"));
    let plan = cell.borough(&["job", "plan", &file]).await.ended(1);
    plan.prints("task.helpers");
    cell.borough(&["job", "run", &file]).await.ended(0);
    let after =
        cell.tasks_until("job", "replaced", |tasks| is_up(tasks, 1) && tasks[0].incarnation == 2).await;
    assert_eq!(charge(&after), (90, 64 * MIB));
    cell.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_attempt_that_fails_before_its_command_and_is_cleared_slowly_begins_again() {
    let cell = TestCell::start(options!().nodes(1)).await;
    // The first helper ignores SIGTERM, so that the end of the attempt is reported well before its release.
    let job = "name: slow\ntask:\n  command: [sleep, '600']\n  resources: {cpu: 10m, memory: 4MiB}\n  grace: 1s\n  helpers:\n\
               \x20 - {name: deaf, when: beside, command: [sh, -c, 'trap \"\" TERM; while :; do sleep 0.2; done'], cpu: 10m, memory: 4MiB}\n\
               \x20 - {name: gone, when: beside, command: [/nonexistent/program], cpu: 10m, memory: 4MiB}\n\
               restart: {mode: always, backoff: 100ms}\n";
    let file = cell.file("slow.yaml", job);
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    cell.tasks_until("slow", "the third attempt", |tasks| tasks.iter().any(|task| task.incarnation >= 3))
        .await;
    cell.borough(&["job", "stop", "slow"]).await.ended(0);
    cell.finish().await;
}

/// Nobody should have to guess why a command does not run, or why a task is not over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_helper_that_runs_instead_of_the_command_is_what_the_task_waits_for() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let trace = Traced::new(&cell);
    let helpers = [
        helper("load", "before", "echo loads; until [ -e $G ]; do sleep 0.05; done", ""),
        helper("send", "after", "echo sends; until [ -e $G.sent ]; do sleep 0.05; done", ""),
    ];
    let file = cell.file("job.yaml", &trace.file("kind: batch\n", "echo main >> $T", &helpers));
    cell.borough(&["job", "run", "--detach", &file]).await.ended(0);
    let explained = async |what: &str| {
        until(what, || async {
            let why = cell.borough(&["why", "job"]).await;
            why.stdout.contains(what).then_some(())
        })
        .await;
        cell.borough(&["task", "status", "job/0"]).await.ended(0).prints(what);
        cell.borough(&["job", "status", "job"]).await.ended(0).prints(what);
    };
    explained("its helper load runs, and its command starts after that").await;
    let unbegun = cell.borough(&["task", "logs", "job/0", "--helper", "send"]).await.ended(0);
    assert_eq!(unbegun.stdout, "", "it has not begun");
    trace.gate_open();
    explained("its command has ended, and its helper send runs").await;
    let why = cell.borough(&["why", "job"]).await.ended(0);
    why.prints("what the helper writes: borough task logs tester/job/0 --helper send");
    cell.borough(&["task", "logs", "job/0", "--helper", "send"]).await.ended(0).prints("sends");
    std::fs::write(trace.gate().with_extension("gate.sent"), "").unwrap();
    cell.tasks_until("job", "over", |tasks| tasks[0].state() == TaskState::Dead).await;
    cell.finish().await;
}
