//! A cell under test: `borough dev` as a child process, with everything that a test does to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use borough_agent::ProcessGuard;
use borough_client::{Client, ClientConfig, ClientToken, JobRef, TaskRef};
use borough_kv::env::SeededRng;
use borough_kv::secret::Secret;
use borough_proto::v1::{Node, NodeState, Task};
use borough_shim::process::ProcessId;
use borough_shim::record::ProcessKind;
use rustix::process::Signal;

use crate::RECORDS_VARIABLE;
use crate::check::store_violations;
use crate::command::Ran;
use crate::options::Options;
use crate::process::recorded;
use crate::slot::PortSlot;
use crate::store::TestStore;
use crate::wait::{DEADLINE, until};

/// The user of the tests' calls.
const USER: &str = "tester";
/// Lines of a log that a failed test shows.
const LOG_LINES: usize = 60;

/// A cell under test. Dropping it, or killing the test, ends it with everything that it has started.
pub struct TestCell {
    options: Options,
    ports: PortSlot,
    /// Whose ports its tasks get instead.
    task_ports: Option<PortSlot>,
    dev: Option<Child>,
    guard: Option<ProcessGuard>,
    /// For the control process, which records itself first. Not on a disk that a test may fill.
    control_guard: Option<(ProcessGuard, tempfile::TempDir)>,
    store: TestStore,
    client: Client,
    /// A directory that task users can reach; nobody else can pass through the cell's own.
    tasks: tempfile::TempDir,
    directory: tempfile::TempDir,
}

impl TestCell {
    /// Starts a cell and waits until every node is ready.
    pub async fn start(options: Options) -> Self {
        let cell = Self::start_bare(options).await;
        cell.nodes_ready().await;
        cell
    }

    /// Starts a cell and waits until it answers.
    ///
    /// # Panics
    /// It does not answer.
    pub async fn start_bare(options: Options) -> Self {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("borough-test-");
        let directory = match &options.below {
            Some(below) => builder.tempdir_in(below),
            None => builder.tempdir(),
        };
        let directory = directory.expect("a directory");
        let root = directory.path().join("dev");
        fs::create_dir_all(&root).expect("the cell's directory");
        let guard = ProcessGuard::new(&root).expect("a guard");
        let control_below = options.control_below.as_ref().or(options.below.as_ref());
        let control_directory = match control_below {
            Some(below) => tempfile::tempdir_in(below),
            None => tempfile::tempdir(),
        };
        let control_directory = control_directory.expect("a directory");
        let control_guard = ProcessGuard::new(control_directory.path()).expect("a guard");
        let control_guard = Some((control_guard, control_directory));
        let ports = PortSlot::take();
        // `dev` makes it if it is missing. Made here so that a client can be made before anything runs.
        let token = Secret::create(&root.join("token"), "borough-operator").expect("the token");
        let mut config = ClientConfig::new(
            vec![format!("127.0.0.1:{}", ports.grpc())],
            USER,
            options.cells.first().expect("a cell").as_str(),
        );
        config.token = Some(ClientToken::Value(token.expose().to_owned()));
        let client = Client::new(config, SeededRng::from_kernel().0).expect("a client");
        let store = TestStore::start(directory.path());
        let tasks = tempfile::Builder::new().prefix("borough-tasks-").tempdir().expect("a directory");
        fs::set_permissions(tasks.path(), fs::Permissions::from_mode(0o711)).expect("its mode");
        let mut cell = Self {
            tasks,
            options,
            ports,
            task_ports: None,
            dev: None,
            guard: Some(guard),
            control_guard,
            store,
            client,
            directory,
        };
        cell.control_spawn();
        cell.answers().await;
        cell
    }

    /// The directory of the cell.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("dev")
    }

    /// Where agents, shims and tasks of the cell are recorded.
    pub fn records(&self) -> PathBuf {
        self.root().join("records")
    }

    /// The directory of tasks that run as other users than the agents.
    pub fn tasks_directory(&self) -> &Path {
        self.tasks.path()
    }

    /// Its store. An embedded one may be opened only while no control process runs.
    pub fn store(&self) -> &TestStore {
        &self.store
    }

    /// Where the control process is recorded.
    pub fn control_records(&self) -> PathBuf {
        let (guard, _) = self.control_guard.as_ref().expect("held until the end");
        guard.records().to_path_buf()
    }

    /// A client of the first cell.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The test's job of this name.
    pub fn job(&self, name: &str) -> JobRef {
        JobRef::new(USER, name)
    }

    /// A task of the test's job of this name.
    pub fn task(&self, name: &str, index: u32) -> TaskRef {
        TaskRef { job: self.job(name), index }
    }

    /// The address of gRPC.
    pub fn grpc(&self) -> String {
        format!("127.0.0.1:{}", self.ports.grpc())
    }

    /// The address of HTTP.
    pub fn http(&self) -> String {
        format!("127.0.0.1:{}", self.ports.http())
    }

    /// The address of the name service's HTTP.
    pub fn names(&self) -> String {
        format!("127.0.0.1:{}", self.ports.names())
    }

    /// The address of DNS.
    pub fn dns(&self) -> String {
        format!("127.0.0.1:{}", self.ports.dns())
    }

    /// The address of a load balancer that the test starts, by its number.
    pub fn balancer(&self, number: u16) -> String {
        format!("127.0.0.1:{}", self.ports.balancer(number))
    }

    /// The address of xDS.
    pub fn xds(&self) -> String {
        format!("127.0.0.1:{}", self.ports.xds())
    }

    /// The token.
    ///
    /// # Panics
    /// The cell has none.
    pub fn token(&self) -> String {
        fs::read_to_string(self.root().join("token")).expect("the token").trim().to_owned()
    }

    /// The command that starts `dev`.
    pub fn dev_command(&self) -> Command {
        let options = &self.options;
        let mut command = match &options.prelude {
            None => Command::new(&options.program),
            Some(prelude) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("{prelude}\nexec \"$@\""), "sh"]).arg(&options.program);
                shell
            }
        };
        let number = |number: u64| number.to_string();
        command
            .arg("dev")
            .arg("--dir")
            .arg(self.root())
            .args(["--port", &self.ports.grpc().to_string(), "--http-port", &self.ports.http().to_string()])
            .args(["--dns-port", &self.ports.dns().to_string(), "--xds-port", &self.ports.xds().to_string()])
            .args(["--names-port", &self.ports.names().to_string()])
            .args(["--task-ports", &self.task_ports.as_ref().unwrap_or(&self.ports).tasks()])
            .args(["--nodes", &options.nodes.to_string(), "--schedulers", &options.schedulers.to_string()])
            .args(["--scheduler", &options.served.join(",")])
            .args(["--cells", &options.cells.join(",")])
            .args(["--lost-after-ms", &number(options.lost_after_ms)])
            .args(options.cards.iter().flat_map(|card| ["--card", card]))
            .args(options.agent_arguments.iter().flat_map(|argument| ["--agent-argument", argument]))
            .args(["--agent-argument", &format!("--task-dir={}", self.tasks.path().display())])
            .args(&options.dev_arguments)
            .env(RECORDS_VARIABLE, self.control_records())
            .stdin(Stdio::null());
        if let Some(store) = self.store.location() {
            command.args(["--store", &store]);
        }
        if options.faults {
            command.args(["--inject-faults", &number(options.seed)]);
        }
        command
    }

    /// From its next start on, `dev` runs this many nodes.
    pub fn nodes_set(&mut self, nodes: u32) {
        self.options.nodes = nodes;
    }

    /// From its next start on, tasks get other ports: FIRST-LAST.
    pub fn task_ports_change(&mut self) -> String {
        self.task_ports.insert(PortSlot::take()).tasks()
    }

    /// The log of the control process.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("dev.log")
    }

    fn control_spawn(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).expect("a log");
        let mut command = self.dev_command();
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        self.dev = Some(command.spawn().expect("the program starts"));
    }

    /// Starts the control process again, on the files of the last one, and waits until it answers.
    ///
    /// # Panics
    /// It runs already, or does not answer.
    pub async fn control_start(&mut self) {
        assert!(self.dev.is_none(), "the control process runs");
        self.control_spawn();
        self.answers().await;
    }

    /// Sends SIGKILL to the control process: agents and tasks keep running.
    pub fn control_kill(&mut self) {
        if let Some(mut dev) = self.dev.take() {
            dev.kill().expect("killed");
            dev.wait().expect("waited for");
        }
    }

    /// The control process.
    ///
    /// # Panics
    /// It does not run.
    pub fn control(&self) -> ProcessId {
        let pid = self.dev.as_ref().expect("the control process runs").id();
        ProcessId::find(pid).expect("the control process attempts")
    }

    /// Sends SIGTERM to the control process: it ends its agents and tasks, then itself.
    pub async fn control_stop(&mut self) -> ExitStatus {
        self.control().signal(Signal::TERM).expect("signalled");
        self.control_ended().await
    }

    /// Waits for the end of the control process, after a signal.
    ///
    /// # Panics
    /// It does not end.
    pub async fn control_ended(&mut self) -> ExitStatus {
        let dev = parking_lot::Mutex::new(self.dev.take().expect("the control process runs"));
        until("the end of the control process", || async { dev.lock().try_wait().expect("waited for") }).await
    }

    async fn answers(&mut self) {
        let dev = parking_lot::Mutex::new(self.dev.as_mut().expect("the control process runs"));
        until("an answer of the cell", || async {
            let ended = dev.lock().try_wait().expect("waited for");
            assert!(ended.is_none(), "the control process has ended: {ended:?}");
            self.client.cell_get().await.ok()
        })
        .await;
    }

    /// Waits until every node takes tasks.
    pub async fn nodes_ready(&self) {
        until("all nodes ready", || async {
            let nodes = self.client.node_list().await.ok()?;
            let ready = |node: &&Node| node.state() == NodeState::Ready && node.connected;
            (nodes.iter().filter(ready).count() == usize::try_from(self.options.nodes).ok()?).then_some(())
        })
        .await;
    }

    /// The node's agent.
    pub fn agent(&self, node: &str) -> Option<ProcessId> {
        let state = self.root().join("nodes").join(node).display().to_string();
        let is_of = |process: &ProcessId| {
            let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == state.as_bytes())
        };
        let agents = recorded(&self.records()).into_iter().filter(|record| record.kind == ProcessKind::Agent);
        agents.map(|record| record.process).find(is_of)
    }

    /// Waits for the node's agent.
    pub async fn agent_found(&self, node: &str) -> ProcessId {
        until(&format!("the agent of {node}"), || async { self.agent(node) }).await
    }

    /// Writes a job file and returns its path.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    }

    /// The program with these arguments, set up for the cell and not started.
    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.options.program);
        command
            .args(arguments)
            .env("BOROUGH_DIR", self.root())
            // Not the contexts of the person who runs the tests.
            .env("XDG_CONFIG_HOME", self.directory.path())
            .env_remove("BOROUGH_CONTEXT")
            .env("BOROUGH_USER", USER)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a verb to its end.
    ///
    /// # Panics
    /// It does not end.
    pub async fn borough(&self, arguments: &[&str]) -> Ran {
        let line = arguments.join(" ");
        let ran = tokio::time::timeout(DEADLINE * 2, self.command(arguments).output()).await;
        let output = ran.unwrap_or_else(|_| panic!("borough {line} does not end"));
        Ran::new(line, &output.expect("the program starts"))
    }

    /// Runs a job file and waits until the job is up, or over.
    pub async fn run(&self, name: &str, text: &str) -> Ran {
        let file = self.file(name, text);
        self.borough(&["job", "run", &file]).await.ended(0)
    }

    /// The tasks of the test's job of this name.
    ///
    /// # Panics
    /// They cannot be listed.
    pub async fn tasks(&self, job: &str) -> Vec<Task> {
        self.client.task_list_of_job(&self.job(job)).await.expect("tasks").0
    }

    /// Waits until the tasks of a job are `wanted`, and returns them.
    pub async fn tasks_until(&self, job: &str, what: &str, wanted: impl Fn(&[Task]) -> bool) -> Vec<Task> {
        let job = self.job(job);
        until(&format!("{job}: {what}"), || async {
            let tasks = self.client.task_list_of_job(&job).await.ok()?.0;
            wanted(&tasks).then_some(tasks)
        })
        .await
    }

    /// Stops the cell and checks the store that it leaves against every rule.
    ///
    /// # Panics
    /// A rule is broken.
    pub async fn finish(mut self) {
        if self.dev.is_some() {
            let status = self.control_stop().await;
            assert!(status.success(), "the control process ended with {status}");
        }
        let violations = store_violations(&self.store, &self.options.cells).await;
        assert!(violations.is_empty(), "the store is broken:\n  {}", violations.join("\n  "));
        // A log names things. It shows no whole row: that is for debuggers.
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let dumped = log.lines().find(|line| ["Row {", "Spec {"].iter().any(|dump| line.contains(dump)));
        assert_eq!(dumped, None, "a line of the log shows a whole row");
    }

    fn history_print(&self) {
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        eprintln!("--- {name} failed; repeat it with\n{}", self.options.repeat(&name));
        let logs = fs::read_dir(self.root().join("log")).into_iter().flatten().flatten();
        let logs = std::iter::once(self.log()).chain(logs.map(|entry| entry.path()));
        for log in logs {
            eprintln!("--- the end of {}\n{}", log.display(), tail(&log));
        }
    }
}

impl Drop for TestCell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.history_print();
        }
        drop(self.control_guard.take());
        drop(self.guard.take());
        if let Some(mut dev) = self.dev.take() {
            dev.kill().ok();
            dev.wait().ok();
        }
    }
}

fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
