//! A cell of one node for one test, and helpers for tasks.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use borough_agent::{AgentConfig, AgentError, Intervals, ProcessGuard};
use borough_kv::env::{SeededRng, SystemClock};
use borough_kv::secret::Secret;
use borough_proto::v1;
use borough_shim::process::ProcessId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;

const SETTINGS: &str = "BOROUGH_TEST_AGENT";

/// One test's cell. Dropped in order: agents first, then the guard, then the directory.
pub(crate) struct Cell {
    pub gateway: Gateway,
    pub address: String,
    agent: Option<(CancellationToken, JoinHandle<Result<(), AgentError>>)>,
    pub guard: ProcessGuard,
    directory: tempfile::TempDir,
}

impl Cell {
    /// A gateway without an agent.
    pub(crate) async fn new() -> Self {
        let gateway = Gateway::default();
        let (address, _server) = gateway.serve().await;
        let directory = tempfile::Builder::new().prefix("borough-agent-test").tempdir().unwrap();
        let guard = ProcessGuard::new(directory.path()).unwrap();
        Self { gateway, address, agent: None, guard, directory }
    }

    /// With an agent in this process.
    pub(crate) async fn with_agent() -> Self {
        let mut cell = Self::new().await;
        cell.agent_start(cell.config());
        cell
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub(crate) fn attempt_dir(&self, attempt: &v1::TaskAttempt) -> PathBuf {
        let name = format!("{}.{}.{}", attempt.job_id, attempt.index, attempt.incarnation);
        let live = self.state_dir().join("attempts").join(&name);
        if live.exists() { live } else { self.state_dir().join("ended").join(&name) }
    }

    pub(crate) fn config(&self) -> AgentConfig {
        config(&self.state_dir(), &self.address, self.guard.records())
    }

    pub(crate) fn agent_start(&mut self, config: AgentConfig) {
        let shutdown = CancellationToken::new();
        self.agent = Some((shutdown.clone(), tokio::spawn(borough_agent::run(config, shutdown))));
    }

    /// Ends the agent of this process; its tasks keep running.
    pub(crate) async fn agent_stop(&mut self) {
        if let Some((shutdown, task)) = self.agent.take() {
            shutdown.cancel();
            task.await.unwrap().unwrap();
        }
    }

    /// The agent as a separate process: this very program, started as one.
    pub(crate) fn agent_process(&self) -> Child {
        self.process(self.agent_command())
    }

    /// The same, in a process that acts as a test with a guard of its own, and may be killed.
    pub(crate) fn guarded_process(&self) -> Child {
        let (program, arguments, (name, settings)) = self.agent_command();
        self.process((program, arguments, (name, format!("{settings}\nguarded"))))
    }

    fn process(&self, (program, arguments, (name, settings)): AgentCommand) -> Child {
        let mut command = Command::new(program);
        command.args(arguments).env(name, settings).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// The program, its arguments, and the variable that turns this program into the agent.
    pub(crate) fn agent_command(&self) -> AgentCommand {
        let settings = [
            self.state_dir().display().to_string(),
            self.address.clone(),
            self.guard.records().display().to_string(),
        ];
        let arguments = ["--exact", "agent_process", "--nocapture"];
        (std::env::current_exe().unwrap(), arguments, (SETTINGS, settings.join("\n")))
    }
}

type AgentCommand = (PathBuf, [&'static str; 3], (&'static str, String));

/// The main function of [`Cell::agent_process`]. Does nothing without its settings.
pub(crate) fn agent_process_main() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let mut parts = settings.lines();
    let (state, address, records) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let mut config = config(Path::new(state), address, Path::new(records));
    let guard = parts.next().map(|_| ProcessGuard::new(&Path::new(state).with_extension("guarded")).unwrap());
    if let Some(guard) = &guard {
        config.record_dir = Some(guard.records().to_owned());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(borough_agent::run(config, CancellationToken::new())).unwrap();
}

/// The token of the test's agents, next to the directory of its records.
pub(crate) fn token(records: &Path) -> Secret {
    Secret::ensure(&records.with_file_name("token"), "borough-node").unwrap()
}

fn config(state_dir: &Path, address: &str, records: &Path) -> AgentConfig {
    let mut config =
        AgentConfig::new("test", "n1", state_dir, SystemClock::shared(), SeededRng::from_kernel().0);
    config.gateways = vec![address.to_owned()];
    config.token = Some(token(records));
    config.record_dir = Some(records.to_owned());
    // Short, so that tests soon see periodic events. No test asserts how long anything takes.
    config.intervals = Intervals { sample: Duration::from_millis(200), ..Intervals::default() };
    config
}

pub(crate) fn attempt(index: u32, incarnation: u64) -> v1::TaskAttempt {
    v1::TaskAttempt { job_id: "j00000000000000ab".to_owned(), index, incarnation }
}

/// An attempt that runs a shell script.
pub(crate) fn script(attempt: &v1::TaskAttempt, script: &str) -> v1::Assignment {
    command(attempt, &["sh", "-c", script])
}

pub(crate) fn command(attempt: &v1::TaskAttempt, command: &[&str]) -> v1::Assignment {
    v1::Assignment {
        attempt: Some(attempt.clone()),
        cell: "test".to_owned(),
        user: "ann".to_owned(),
        job: "work".to_owned(),
        spec: Some(v1::TaskSpec {
            command: command.iter().map(|part| (*part).to_owned()).collect(),
            resources: Some(v1::Resources {
                cpu_millis: 100,
                memory_bytes: 64 << 20,
                ..v1::Resources::default()
            }),
            grace_ms: 5000,
            ..v1::TaskSpec::default()
        }),
        ..v1::Assignment::default()
    }
}

pub(crate) fn stop(attempt: &v1::TaskAttempt, grace_ms: u64) -> v1::StopCommand {
    v1::StopCommand {
        attempt: Some(attempt.clone()),
        reason: v1::StopReason::JobStopped.into(),
        drain_delay_ms: 0,
        grace_ms,
    }
}

/// Polls until `look` returns a value.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(crate::gateway::DEADLINE, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// The number in a file that a task writes.
pub(crate) async fn number_in(path: PathBuf) -> u32 {
    let what = format!("a number in {}", path.display());
    until(&what, || std::fs::read_to_string(&path).ok()?.trim().parse().ok()).await
}

pub(crate) fn runs(pid: u32) -> bool {
    ProcessId::find(pid).is_some()
}

/// An attempt's own output.
pub(crate) fn output(directory: &Path) -> String {
    use borough_shim::log::{OutputStream, file_numbers, file_path};
    let numbers = file_numbers(directory, OutputStream::Stdout);
    numbers
        .into_iter()
        .map(|n| std::fs::read_to_string(file_path(directory, OutputStream::Stdout, n)).unwrap())
        .collect()
}
