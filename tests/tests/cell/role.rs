//! Control roles as separate processes over one FoundationDB server: each can be killed, and the others continue.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use borough_agent::ProcessGuard;
use borough_client::{Client, ClientConfig, ClientToken, JobFilter, JobRef, LogQuery, TaskRef};
use borough_kv::env::SeededRng;
use borough_kv::exercise::not_exercised;
use borough_proto::v1::{JobState, RolloutState, Task};
use borough_tests::{
    NEVER_SHORT, PortSlot, RECORDS_VARIABLE, TestStore, child_terminated, is_fdb, is_running, options,
    store_violations, until,
};
use futures::StreamExt as _;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Processes of one cell, by name.
pub(crate) struct Roles {
    children: BTreeMap<String, Child>,
    /// The arguments of each process, to start it again.
    arguments: BTreeMap<String, Vec<String>>,
    /// The seed of the faults in every role's store.
    seed: String,
    store: TestStore,
    ports: PortSlot,
    program: PathBuf,
    _guard: ProcessGuard,
    directory: tempfile::TempDir,
}

impl Roles {
    /// No process yet, and the tokens of two nodes.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let guard = ProcessGuard::new(root).unwrap();
        let token = root.join("token");
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let store = TestStore::start(root);
        let options = options!();
        let (program, seed) = (options.program.clone(), options.seed.to_string());
        let ports = PortSlot::take();
        for node in ["node-1", "node-2"] {
            let mut mint = Command::new(&program);
            mint.args(["--cell", "alpha", "node", "token", node, "--to"])
                .arg(root.join(format!("{node}.token")));
            assert!(mint.arg("--accepted").arg(root.join("accepted")).status().unwrap().success());
        }
        let (children, arguments) = (BTreeMap::new(), BTreeMap::new());
        Self { children, arguments, seed, store, ports, program, _guard: guard, directory }
    }

    /// Starts a role under a name.
    fn start(&mut self, name: &str, arguments: &[&str]) {
        let root = self.directory.path();
        let log =
            fs::OpenOptions::new().create(true).append(true).open(root.join(format!("{name}.log"))).unwrap();
        // An agent has a token of its own, for its node alone.
        let token = if arguments[0] == "agent" { format!("{name}.token") } else { "token".to_owned() };
        let child = Command::new(&self.program)
            .args(arguments)
            .arg("--token-file")
            .arg(root.join(token))
            .env("BOROUGH_NODE_TOKENS", root.join("accepted"))
            .env(RECORDS_VARIABLE, root.join("records"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children.insert(name.to_owned(), child);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.arguments.insert(name.to_owned(), arguments);
    }

    /// Sends SIGKILL to a process, and starts it again with the same arguments.
    pub(crate) fn restart(&mut self, name: &str) {
        self.kill(name);
        let arguments = self.arguments[name].clone();
        self.start(name, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Starts a control role; its name begins with that of the role.
    pub(crate) fn control(&mut self, name: &str, arguments: &[&str]) {
        let store = self.store.location().unwrap();
        let role = name.split('-').next().unwrap();
        let seed = self.seed.clone();
        let common = [role, "--store", &store, "--cells", "alpha", "--inject-faults", &seed];
        self.start(name, &[&common, arguments].concat());
    }

    /// Starts the agent of a node.
    pub(crate) fn agent(&mut self, node: &str, gateways: &str, ports: &str) {
        let state = self.directory.path().join(node).display().to_string();
        let records = self.directory.path().join("records").display().to_string();
        let cell = ["agent", "--cell", "alpha", "--node", node, "--gateway", gateways];
        let own = ["--state-dir", &state, "--ports", ports, "--record-dir", &records];
        let capacity = ["--cpu", "1", "--memory", "1GiB", "--disk", "1GiB"];
        self.start(node, &[cell.as_slice(), &own, &capacity, &NEVER_SHORT].concat());
    }

    /// Sends SIGKILL to a process.
    pub(crate) fn kill(&mut self, name: &str) {
        let mut child = self.children.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends SIGTERM to a process, and waits until it has ended with success.
    pub(crate) async fn terminate(&mut self, name: &str) {
        let child = self.children.remove(name).unwrap();
        assert!(child_terminated(child).await.success(), "{name} does not end with success");
    }

    /// What calls without the client library show.
    pub(crate) fn authorization(&self) -> String {
        format!("Bearer {TOKEN}")
    }

    /// The address of the port with this number, from the first one on.
    pub(crate) fn address(&self, offset: u16) -> String {
        format!("127.0.0.1:{}", self.ports.grpc() + offset)
    }

    /// Ten ports for tasks, from this number on.
    pub(crate) fn task_ports(&self, from: u16) -> String {
        let first = self.ports.grpc() + from;
        format!("{first}-{}", first + 9)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn store(&self) -> &TestStore {
        &self.store
    }

    /// A client of gateways.
    pub(crate) fn client(&self, gateways: &[&str]) -> Client {
        let gateways = gateways.iter().map(|gateway| (*gateway).to_owned()).collect();
        let mut config = ClientConfig::new(gateways, "tester", "alpha");
        config.token = Some(ClientToken::Value(TOKEN.to_owned()));
        Client::new(config, SeededRng::from_kernel().0).unwrap()
    }

    /// The program, set up to ask these gateways, with commas between.
    pub(crate) fn command(&self, gateways: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(["--gateway", gateways, "--cell", "alpha", "--user", "tester", "--token-file"]);
        command.arg(self.directory.path().join("token")).env("XDG_CONFIG_HOME", self.directory.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Submits a service of two through the program.
    async fn run(&self, gateway: &str, name: &str) {
        let root = self.directory.path();
        let file = root.join("job.yaml");
        let command = "[sh, -c, 'echo this is it; exec sleep 600']";
        let task = format!("{{command: {command}, resources: {{cpu: 50m, memory: 16MiB}}, grace: 200ms}}");
        fs::write(&file, format!("name: {name}\ncount: 2\ntask: {task}\nspread: [node.name]\n")).unwrap();
        until(&format!("{name} taken by {gateway}"), || async {
            let mut command = self.command(gateway);
            command.args(["job", "run", "--detach"]).arg(&file);
            command.output().await.ok()?.status.success().then_some(())
        })
        .await;
    }

    fn logs(&self) -> String {
        let read = |name: &String| {
            let text = fs::read_to_string(self.directory.path().join(format!("{name}.log")));
            format!("--- {name}\n{}", text.unwrap_or_default())
        };
        self.children.keys().map(read).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Roles {
    #[expect(clippy::print_stderr, reason = "a failing test prints what it saw")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- seed of the faults: {}\n{}", self.seed, self.logs());
        }
        // If the agents ended first, the guard would have to end their tasks by their records.
        for child in self.children.values_mut() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

async fn tasks_until(
    client: &Client,
    job: &JobRef,
    what: &str,
    wanted: impl Fn(&[Task]) -> bool,
) -> Vec<Task> {
    until(&format!("{job}: {what}"), || async {
        let tasks = client.task_list_of_job(job).await.ok()?.0;
        wanted(&tasks).then_some(tasks)
    })
    .await
}

/// A gateway reads the output of each task, and signals it.
async fn reaches(client: &Client, job: &JobRef, tasks: &[Task]) {
    // A gateway answers from its mirror, which may be behind that of the other.
    tasks_until(client, job, "two running at each gateway", |tasks| {
        tasks.iter().filter(|task| is_running(task)).count() == 2
    })
    .await;
    for task in tasks {
        let task = TaskRef { job: job.clone(), index: task.index };
        let text = format!("the output of {task:?}");
        until(&text, || async {
            let mut stream = client.task_logs(&task, LogQuery::default()).await.ok()?;
            let chunk = stream.next().await?.ok()?;
            String::from_utf8_lossy(&chunk.data).contains("this is").then_some(())
        })
        .await;
        // SIGCHLD, which a shell ignores.
        client.task_signal(&task, 17).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn roles_are_processes_of_their_own_and_any_of_them_may_die() {
    if !is_fdb() {
        not_exercised(
            "roles as processes of their own",
            "they need FoundationDB, which several processes share",
        );
        return;
    }
    let mut roles = Roles::new();
    let [grpc_a, http_a, grpc_b, http_b, one, two, lead, wait] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|offset| roles.address(offset));
    roles.control("gateway-a", &["--listen", &grpc_a, "--http-listen", &http_a]);
    roles.control("gateway-b", &["--listen", &grpc_b, "--http-listen", &http_b]);
    roles.control("scheduler-1", &["--shards", "2", "--http-listen", &one]);
    roles.control("scheduler-2", &["--shards", "2", "--http-listen", &two]);
    roles.control("controller-1", &["--http-listen", &lead]);
    until("the first controller leads", || async { roles.logs().contains("leads the cell").then_some(()) })
        .await;
    roles.control("controller-2", &["--http-listen", &wait]);
    // Each agent begins with a gateway of its own, and uses the other one when that is gone.
    let (near, far) = (roles.task_ports(20), roles.task_ports(40));
    roles.agent("node-1", &format!("{grpc_a},{grpc_b}"), &near);
    roles.agent("node-2", &format!("{grpc_b},{grpc_a}"), &far);
    let (a, b) = (roles.client(&[&grpc_a]), roles.client(&[&grpc_b]));

    let job = JobRef::new("tester", "first");
    roles.run(&grpc_a, "first").await;
    let up = tasks_until(&b, &job, "two running", |tasks| {
        tasks.iter().filter(|task| is_running(task)).count() == 2
    });
    let tasks = up.await;
    // The agents have sessions with different gateways, and each gateway reaches both.
    for client in [&a, &b] {
        reaches(client, &job, &tasks).await;
    }

    // Another role takes over from each dead one: a scheduler or controller after its lease, an agent's session at the
    // remaining gateway.
    roles.kill("scheduler-1");
    roles.kill("controller-1");
    roles.kill("gateway-a");
    let attempts =
        |tasks: &[Task]| tasks.iter().map(|task| (task.index, task.incarnation)).collect::<Vec<_>>();
    for name in ["second", "third", "fourth"] {
        roles.run(&grpc_b, name).await;
        let job = JobRef::new("tester", name);
        tasks_until(&b, &job, "two running", |tasks| {
            tasks.iter().filter(|task| is_running(task)).count() == 2
        })
        .await;
    }
    let still = tasks_until(&b, &job, "still running", |tasks| tasks.iter().all(is_running)).await;
    assert_eq!(attempts(&still), attempts(&tasks), "what ran went on");
    for name in ["first", "second", "third", "fourth"] {
        b.job_stop(&JobRef::new("tester", name)).await.unwrap();
    }
    let ended = JobState::Stopped;
    until("every job ended", || async {
        let filter = JobFilter { user: "tester".to_owned(), ended: true, ..JobFilter::default() };
        let jobs = b.job_list(&filter).await.ok()?;
        (jobs.len() == 4 && jobs.iter().all(|job| job.state() == ended)).then_some(())
    })
    .await;
    let violations = store_violations(&roles.store, &["alpha".to_owned()]).await;
    assert!(violations.is_empty(), "the store is broken:\n  {}", violations.join("\n  "));
}

/// A service of two with a progress deadline of ten seconds, whose attempts write `word`.
fn with_deadline(word: &str) -> String {
    let task = format!(
        "{{command: [sh, -c, 'echo {word}; exec sleep 600'], resources: {{cpu: 50m, memory: 16MiB}}}}"
    );
    format!("name: web\ncount: 2\nprogress_deadline: 10s\nupdate: {{healthy_after: 8s}}\ntask: {task}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_outage_of_every_gateway_takes_no_good_version_back() {
    if !is_fdb() {
        not_exercised(
            "a rollout without any gateway",
            "only with FoundationDB is the gateway a process of its own",
        );
        return;
    }
    let mut roles = Roles::new();
    let [grpc, http, scheduler, controller] = [0, 1, 2, 3].map(|offset| roles.address(offset));
    roles.control("gateway-a", &["--listen", &grpc, "--http-listen", &http]);
    roles.control("scheduler-1", &["--http-listen", &scheduler]);
    roles.control("controller-1", &["--http-listen", &controller]);
    let ports = roles.task_ports(20);
    roles.agent("node-1", &grpc, &ports);
    let (client, job) = (roles.client(&[&grpc]), JobRef::new("tester", "web"));
    let file = roles.directory().join("web.yaml");
    for word in ["one", "two"] {
        fs::write(&file, with_deadline(word)).unwrap();
        until(&format!("{word} is taken"), || async {
            let mut command = roles.command(&grpc);
            command.args(["job", "run", "--detach"]).arg(&file);
            command.output().await.ok()?.status.success().then_some(())
        })
        .await;
        tasks_until(&client, &job, "an attempt of its version", |tasks| {
            let version = if word == "one" { 1 } else { 2 };
            tasks.iter().any(|task| task.spec_version == version && is_running(task))
        })
        .await;
    }
    let before = client.job_get(&job).await.unwrap().job.unwrap().rollout.unwrap();
    assert_eq!((before.state(), before.version), (RolloutState::Rolling, 2));
    // The first beat of a gateway comes after four seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    roles.kill("gateway-a");
    // Longer than the deadline.
    tokio::time::sleep(Duration::from_secs(14)).await;
    roles.control("gateway-a", &["--listen", &grpc, "--http-listen", &http]);
    let after = until("the end of the rollout", || async {
        let rollout = client.job_get(&job).await.ok()?.job?.rollout?;
        (rollout.state() != RolloutState::Rolling).then_some(rollout)
    })
    .await;
    assert_eq!((after.state(), after.version), (RolloutState::Done, 2), "{after:?}");
}
