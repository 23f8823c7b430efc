//! Unmodified load balancers over the name service, under load: no request fails in planned changes.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::exercise::not_exercised;
use borough_tests::{TestCell, http_get, options, until};
use tokio::io::AsyncBufReadExt as _;
use tokio::process::{Child, Command};

/// A job with its own drain delay: more than HAProxy needs to see a withdrawal.
const WEB: &str = r#"
name: web
kind: service
count: 3
task:
  command: [python3, -u, -m, http.server, --bind, 127.0.0.1, "${PORT_HTTP}"]
  resources: {cpu: 50m, memory: 64MiB}
  ports: [http]
  health: {http: {port: http, path: /}, interval: 1s, timeout: 1s}
  grace: 3s
drain_delay: 4s
"#;

/// A program of this machine.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Starts a program that ends with this process, however this process ends: its shell waits for the end of a pipe.
fn held(program: &PathBuf, arguments: &[&str]) -> Child {
    let hold = "\"$@\" & held=$!; read -r _; kill $held; wait $held";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", hold, "sh"]).arg(program).args(arguments);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().unwrap()
}

/// A client that asks without a pause, and counts.
struct Load {
    asked: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Clients at a time.
const CLIENTS: u64 = 2;

impl Load {
    fn start(address: &str) -> Self {
        let (asked, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let over = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let (asked, failed, over) = (Arc::clone(&asked), Arc::clone(&failed), Arc::clone(&over));
            let address = address.to_owned();
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let answer = http_get(&address, "/", None).await;
                    if !answer.as_ref().is_ok_and(|(status, _)| *status == 200) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        };
        let tasks = (0..CLIENTS).map(client).collect();
        Self { asked, failed, over, tasks }
    }

    fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

fn haproxy_file(cell: &TestCell) -> String {
    let text = format!(
        "defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
resolvers borough
    nameserver names tcp@{dns}
    accepted_payload_size 65535
    timeout resolve 1s
    timeout retry 1s
    hold valid 1s
    hold obsolete 0s
    hold nx 5s
    hold other 30s
    hold refused 30s
    hold timeout 30s
frontend in
    bind {balancer}
    default_backend web
backend web
    balance roundrobin
    option redispatch 1
    option httpchk GET /
    server-template web 20 _http._tcp.web.tester.alpha.borough.internal resolvers borough resolve-opts allow-dup-ip init-addr none check inter 1s
",
        dns = cell.dns(),
        balancer = cell.balancer(),
    );
    cell.file("haproxy.cfg", &text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn haproxy_loses_no_request_while_a_job_is_scaled_and_restarted() {
    let Some(haproxy) = program("haproxy") else {
        return not_exercised("HAProxy over the names of a cell", "haproxy is not installed");
    };
    let mut cell = TestCell::start(options!()).await;
    cell.run("web.yaml", WEB).await;
    let file = haproxy_file(&cell);
    let _haproxy = held(&haproxy, &["-f", &file]);
    let balancer = cell.balancer();
    until("an answer through HAProxy", || async {
        http_get(&balancer, "/", None).await.ok().filter(|(status, _)| *status == 200)
    })
    .await;
    let load = Load::start(&balancer);
    for count in ["8", "3"] {
        cell.borough(&["job", "scale", "web", count]).await.ended(0);
    }
    cell.borough(&["job", "restart", "web"]).await.ended(0);
    assert_eq!(load.failed(), 0, "of {} requests, in planned changes", load.asked());
    // Without the name service, HAProxy keeps what it knows.
    cell.control_kill();
    let before = load.asked();
    until("requests while the name service is away", || async {
        (load.asked() > before + 300).then_some(())
    })
    .await;
    cell.control_start().await;
    cell.nodes_ready().await;
    assert_eq!(load.failed(), 0, "of {} requests, without the name service", load.asked());
    assert!(load.asked() > 500, "only {} requests", load.asked());
    load.end().await;
    cell.finish().await;
}

/// A Python with gRPC: that of the variable, or the usual one.
async fn python_with_grpc() -> Option<PathBuf> {
    let given = std::env::var_os("BOROUGH_TEST_PYTHON").map(PathBuf::from);
    let python = given.or_else(|| program("python3"))?;
    let asked = Command::new(&python).args(["-c", "import grpc"]).stderr(Stdio::null()).status().await;
    asked.is_ok_and(|status| status.success()).then_some(python)
}

/// The lines of a client, as far as they have come.
#[derive(Clone, Default)]
struct ClientLines(Arc<parking_lot::Mutex<Vec<String>>>);

impl ClientLines {
    fn servers(&self) -> usize {
        self.0.lock().iter().filter(|line| line.starts_with("server ")).count()
    }

    fn last(&self) -> Option<String> {
        self.0.lock().iter().find(|line| line.starts_with("over ")).cloned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_grpc_client_loses_no_call_while_a_job_is_scaled_and_restarted() {
    let Some(python) = python_with_grpc().await else {
        return not_exercised(
            "gRPC over xDS",
            "python3 has no module grpc, and BOROUGH_TEST_PYTHON names none",
        );
    };
    // Tasks of other users may not execute this Python.
    let cell = TestCell::start(options!().agent_arguments(&["--task-user=agent"])).await;
    let server = cell.file("server.py", include_str!("grpc/server.py"));
    let job = format!(
        "name: echo\nkind: service\ncount: 2\ntask:\n  command: [{}, -u, {server}, \"${{PORT_GRPC}}\"]\n  \
         resources: {{cpu: 50m, memory: 64MiB}}\n  ports: [grpc]\n  \
         health: {{tcp: {{port: grpc}}, interval: 1s, timeout: 1s}}\n  grace: 5s\ndrain_delay: 1s\n",
        python.display()
    );
    cell.run("echo.yaml", &job).await;
    let bootstrap = serde_json::json!({
        "xds_servers": [{
            "server_uri": cell.xds(),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": "test"},
    });
    let client = cell.file("client.py", include_str!("grpc/client.py"));
    let mut command = Command::new(&python);
    command.args(["-u", &client, "xds:///echo.tester.alpha"]);
    command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
    // It ends with its input, however this process ends.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = command.spawn().unwrap();
    let lines = ClientLines::default();
    let (read, output) = (lines.clone(), client.stdout.take().unwrap());
    tokio::spawn(async move {
        let mut output = tokio::io::BufReader::new(output).lines();
        while let Ok(Some(line)) = output.next_line().await {
            read.0.lock().push(line);
        }
    });
    until("both servers", || async { (lines.servers() >= 2).then_some(()) }).await;
    cell.borough(&["job", "scale", "echo", "5"]).await.ended(0);
    until("all five servers", || async { (lines.servers() >= 5).then_some(()) }).await;
    cell.borough(&["job", "scale", "echo", "2"]).await.ended(0);
    cell.borough(&["job", "restart", "echo"]).await.ended(0);
    drop(client.stdin.take());
    let last = until("the sum of the client", || async { lines.last() }).await;
    let (calls, failed) = last.strip_prefix("over ").unwrap().split_once(' ').unwrap();
    assert_eq!(failed, "0", "of {calls} calls: {:?}", lines.0.lock());
    assert!(calls.parse::<u64>().unwrap() > 100, "only {calls} calls");
    client.wait().await.unwrap();
    cell.finish().await;
}
