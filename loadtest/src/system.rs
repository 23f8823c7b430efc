//! The system under test: `borough dev` in the production configuration, ephemeral, with real agents.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use borough_client::{Client, ClientConfig, ClientToken};
use borough_kv::env::SeededRng;

/// The time limit for a cell to be ready.
const READY_WAIT: Duration = Duration::from_secs(60);
/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(10);

/// The parts of the system, and its place.
#[derive(Clone, Debug)]
pub(crate) struct SystemOptions {
    pub borough: PathBuf,
    /// The parent of its directories.
    pub directory: PathBuf,
    /// Nodes of the cell.
    pub nodes: u32,
    /// Scheduler workers of the cell.
    pub schedulers: u32,
}

impl SystemOptions {
    /// Without a given program, searches for it next to this one.
    pub(crate) fn new(
        borough: Option<PathBuf>,
        directory: PathBuf,
        nodes: u32,
        schedulers: u32,
    ) -> anyhow::Result<Self> {
        let sibling = || std::env::current_exe().ok()?.parent().map(|folder| folder.join("borough"));
        let borough = borough.or_else(sibling).context("give the program with --borough")?;
        if !borough.exists() {
            bail!(
                "{} is not there: build it first (cargo build --release -p borough-cli)",
                borough.display()
            );
        }
        Ok(Self { borough, directory, nodes, schedulers })
    }

    /// A folder of this process on the disk that is measured.
    pub(crate) fn scratch(&self) -> anyhow::Result<PathBuf> {
        scratch(&self.directory)
    }
}

/// A folder of this process below `directory`.
pub(crate) fn scratch(directory: &Path) -> anyhow::Result<PathBuf> {
    let path = directory.join(format!("borough-loadtest-{}", std::process::id()));
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// A running cell. Dropping it ends it with everything that it has started.
pub(crate) struct System {
    options: SystemOptions,
    /// Further arguments of `dev`.
    arguments: Vec<OsString>,
    directory: PathBuf,
    control: Child,
}

impl System {
    /// Starts a cell and waits until its nodes are ready.
    pub(crate) async fn start(options: &SystemOptions) -> anyhow::Result<Self> {
        Self::start_with(options, &[]).await
    }

    /// As [`System::start`], with further arguments of `dev`.
    pub(crate) async fn start_with(options: &SystemOptions, arguments: &[OsString]) -> anyhow::Result<Self> {
        let (options, arguments) = (options.clone(), arguments.to_vec());
        let directory = options.scratch()?.join("cell");
        let control = control_start(&options, &arguments, &directory)?;
        let system = Self { options, arguments, directory, control };
        system.ready().await?;
        Ok(system)
    }

    /// The control process.
    pub(crate) fn control_pid(&self) -> u32 {
        self.control.id()
    }

    /// Kills the control process with SIGKILL.
    pub(crate) fn control_kill(&mut self) -> anyhow::Result<()> {
        self.control.kill()?;
        self.control.wait()?;
        Ok(())
    }

    /// Ends the control process as a service manager does, and waits for it.
    pub(crate) fn control_end(&mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.control.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.context("it has no number")?, rustix::process::Signal::TERM)?;
        self.control.wait()?;
        Ok(())
    }

    /// The directory of the cell, as for `borough --dir`.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of its store.
    pub(crate) fn store_directory(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// Starts the control process again on the same directory.
    pub(crate) fn control_restart(&mut self) -> anyhow::Result<()> {
        self.control = control_start(&self.options, &self.arguments, &self.directory)?;
        Ok(())
    }

    /// A client of the cell that tries each call once: a measurement includes the retries.
    pub(crate) fn client_once(&self) -> anyhow::Result<Client> {
        self.client_with(|config| config.retry.attempts_max = 1)
    }

    /// A client of the cell.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.client_with(|_| ())
    }

    /// Addresses of its gateways, and their token.
    pub(crate) fn access(&self) -> anyhow::Result<(Vec<String>, String)> {
        let (gateways, _) = self.client_file()?;
        let token = fs::read_to_string(self.directory.join("token"))?.trim().to_owned();
        Ok((gateways.into_iter().map(|gateway| format!("http://{gateway}")).collect(), token))
    }

    /// Where the control process answers HTTP, as `http://HOST:PORT`.
    pub(crate) fn http(&self) -> anyhow::Result<String> {
        let text = fs::read_to_string(self.directory.join("client.json"))?;
        let file: serde_json::Value = serde_json::from_str(&text)?;
        file["http"].as_str().map(str::to_owned).context("client.json has no address for HTTP")
    }

    fn client_file(&self) -> anyhow::Result<(Vec<String>, String)> {
        client_file(&self.directory)
    }

    /// A client of the cell whose settings `set` changes.
    ///
    /// # Errors
    /// The cell has not written its client file.
    pub(crate) fn client_with(&self, set: impl FnOnce(&mut ClientConfig)) -> anyhow::Result<Client> {
        client_of(&self.directory, set)
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn ready(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            if let Ok(client) = self.client() {
                let nodes = client.node_list().await.unwrap_or_default();
                let ready = i32::from(borough_proto::v1::NodeState::Ready);
                let ready = nodes.iter().filter(|node| node.state == ready).count();
                if u32::try_from(ready)? == self.options.nodes {
                    return Ok(());
                }
            }
            if begin.elapsed() > READY_WAIT {
                bail!("the cell was not ready within {READY_WAIT:?}; see {}", self.directory.display());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Gateways and the default cell of the client file of a cell.
fn client_file(directory: &Path) -> anyhow::Result<(Vec<String>, String)> {
    let text = fs::read_to_string(directory.join("client.json"))?;
    let file: serde_json::Value = serde_json::from_str(&text)?;
    let gateways = file["gateways"].as_array().context("client.json has no gateways")?;
    let gateways = gateways.iter().filter_map(|gateway| gateway.as_str().map(str::to_owned)).collect();
    let cell = file["default_cell"].as_str().context("client.json has no cell")?;
    Ok((gateways, cell.to_owned()))
}

/// A client of the cell in a directory, as in [`System::client_with`].
pub(crate) fn client_of(directory: &Path, set: impl FnOnce(&mut ClientConfig)) -> anyhow::Result<Client> {
    let (gateways, cell) = client_file(directory)?;
    let mut config = ClientConfig::new(gateways, "loadtest", cell);
    config.token = Some(ClientToken::File(directory.join("token")));
    set(&mut config);
    let (rng, _) = SeededRng::from_kernel();
    Ok(Client::new(config, rng)?)
}

impl Drop for System {
    fn drop(&mut self) {
        // The cell is ephemeral: its guard process ends agents and tasks after the control process.
        if matches!(self.control.try_wait(), Ok(None))
            && let Ok(pid) = i32::try_from(self.control.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        self.control.wait().ok();
        fs::remove_dir_all(self.options.directory.join(format!("borough-loadtest-{}", std::process::id())))
            .ok();
    }
}

fn control_start(options: &SystemOptions, arguments: &[OsString], directory: &Path) -> anyhow::Result<Child> {
    let log = options.scratch()?.join("control.log");
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    Command::new(&options.borough)
        .args(["dev", "--cells", "bench", "--port", "0", "--http-port", "0"])
        .args(["--nodes", &options.nodes.to_string(), "--schedulers", &options.schedulers.to_string()])
        .arg("--dir")
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .spawn()
        .with_context(|| format!("cannot start {}", options.borough.display()))
}
