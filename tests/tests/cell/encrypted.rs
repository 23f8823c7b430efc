//! Encrypted connections: certificates of an authority, what they prove, and how they end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use borough_agent::ProcessGuard;
use borough_tests::{NEVER_SHORT, PortSlot, RECORDS_VARIABLE, Ran, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A gateway with an authority of its own, and processes around it.
struct EncryptedCell {
    children: BTreeMap<String, Child>,
    ports: PortSlot,
    _guard: ProcessGuard,
    directory: tempfile::TempDir,
}

impl EncryptedCell {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let guard = ProcessGuard::new(directory.path()).unwrap();
        let token = directory.path().join("token");
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let cell = Self { children: BTreeMap::new(), ports: PortSlot::take(), _guard: guard, directory };
        cell.authority(&["init"]).ended(0);
        let server = ["--dns", "localhost", "--ip", "127.0.0.1"];
        cell.issue("gateway", "gateway", &server).ended(0);
        cell.issue("operator", "operator", &[]).ended(0);
        cell.issue("user/ann", "ann", &["--group", "web"]).ended(0);
        for node in ["n1", "n2"] {
            cell.issue(&format!("alpha/{node}"), node, &[]).ended(0);
        }
        cell
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn command(arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_borough-under-test"));
        command.args(arguments).env("NO_COLOR", "1").env_remove("BOROUGH_CONTEXT").env_remove("BOROUGH_USER");
        command.stdin(Stdio::null());
        command
    }

    fn program(&self, arguments: &[&str]) -> Ran {
        let mut command = Self::command(arguments);
        command.env("XDG_CONFIG_HOME", self.directory.path()).env("BOROUGH_DIR", self.path("no-dev-cell"));
        Ran::new(arguments.join(" "), &command.output().unwrap())
    }

    fn authority(&self, words: &[&str]) -> Ran {
        self.program(&[&["auth", "ca"], words, &["--ca", &self.text("ca")]].concat())
    }

    fn issue(&self, holder: &str, to: &str, words: &[&str]) -> Ran {
        let to = self.text(to);
        self.authority(&[&["issue", holder, "--to", &to], words].concat())
    }

    /// The options by which `who` shows its certificate.
    fn certificate(&self, who: &str) -> Vec<String> {
        let file = |name: &str| self.path(who).join(name).display().to_string();
        ["--tls-ca", &file("ca.pem"), "--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")]
            .map(str::to_owned)
            .to_vec()
    }

    fn grpc(&self) -> String {
        format!("localhost:{}", self.ports.grpc())
    }

    /// Starts a process that runs until the end of the test.
    fn start(&mut self, name: &str, arguments: &[&str]) {
        let log = fs::File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut command = Self::command(arguments);
        command.env(RECORDS_VARIABLE, self.path("records")).stdout(log.try_clone().unwrap()).stderr(log);
        self.children.insert(name.to_owned(), command.spawn().unwrap());
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Starts a gateway with the certificate of `who`.
    fn gateway(&mut self, name: &str, who: &str, grpc: &str, http: &str) {
        let (store, token) =
            (format!("embedded:{}", self.text(&format!("{name}-store"))), self.text("token"));
        let list = self.path("ca").join("crl.pem").display().to_string();
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let line =
            ["gateway", "--store", &store, "--cells", "alpha", "--token-file", &token, "--tls-crl", &list];
        self.start(name, &[&line[..], &["--listen", grpc, "--http-listen", http], &own[..]].concat());
    }

    async fn gateway_ready(&mut self) {
        let (grpc, http) = (self.ports.grpc(), self.ports.http());
        self.gateway("gateway", "gateway", &format!("127.0.0.1:{grpc}"), &format!("127.0.0.1:{http}"));
        until("the gateway's answer", || async {
            (self.ask("operator", &["cell", "list"]).code == Some(0)).then_some(())
        })
        .await;
    }

    fn agent(&mut self, name: &str, who: &str, node: &str, gateway: &str) {
        let (state, records) = (self.text(&format!("{name}-state")), self.text("records"));
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let line = ["agent", "--cell", "alpha", "--node", node, "--gateway", gateway, "--state-dir", &state];
        self.start(name, &[&line[..], &["--record-dir", &records], &own[..], &NEVER_SHORT].concat());
    }

    /// Runs a verb with the certificate of `who`, without any token.
    fn ask(&self, who: &str, words: &[&str]) -> Ran {
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let user = if who == "operator" { &["--user", "tester"][..] } else { &["--user", who][..] };
        let gateway = self.grpc();
        self.program(&[&["--gateway", &gateway, "--cell", "alpha"], user, &own[..], words].concat())
    }

    async fn node_ready(&self, node: &str) {
        until(&format!("node {node}"), || async {
            let ran = self.ask("operator", &["node", "list", "-o", "json"]);
            let nodes = (ran.code == Some(0)).then(|| ran.json())?;
            let is = |one: &&serde_json::Value| one["name"] == node && one["connected"] == true;
            nodes.as_array()?.iter().find(is).map(drop)
        })
        .await;
    }

    async fn logged(&self, name: &str, text: &str) {
        until(&format!("{text:?} in the log of {name}"), || async {
            self.log(name).contains(text).then_some(())
        })
        .await;
    }
}

impl Drop for EncryptedCell {
    #[expect(clippy::print_stderr, reason = "a failing test prints what it saw")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in self.children.keys() {
                eprintln!("--- {name}\n{}", self.log(name));
            }
        }
        for child in self.children.values_mut() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn certificates_prove_roles_and_nothing_goes_unencrypted() {
    let mut cell = EncryptedCell::new();
    let gateway = cell.grpc();
    // A node speaks for itself alone. An agent that is given the certificate of another one says so and ends; this one
    // gets it while it runs.
    let own = cell.certificate("n1");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let (state, line) = (cell.text("wrong-state"), ["agent", "--cell", "alpha", "--node", "n2", "--gateway"]);
    let wrong = cell.program(&[&line[..], &[&gateway, "--state-dir", &state], &own[..]].concat()).ended(2);
    wrong.warns("is the certificate of node n1 of cell alpha; this agent is for node n2 of cell alpha");
    cell.issue("alpha/n2", "posing", &[]).ended(0);
    cell.agent("posing", "posing", "n2", &gateway);
    cell.logged("posing", "gateway").await;
    for file in ["cert.pem", "key.pem"] {
        fs::copy(cell.path("n1").join(file), cell.path("posing").join(file)).unwrap();
    }
    cell.gateway_ready().await;
    cell.agent("n1", "n1", "n1", &format!("https://{gateway}"));
    cell.node_ready("n1").await;
    cell.logged("posing", "this token is for node n1 of cell alpha").await;
    // Users have what the grants say.
    cell.ask("ann", &["node", "list"]).ended(6).warns("ann has no grant of read");
    cell.ask("operator", &["auth", "grant", "group/web", "--role", "viewer"]).ended(0);
    cell.ask("ann", &["node", "list"]).ended(0).prints("n1");
    cell.ask("ann", &["auth", "whoami"]).ended(0).warns("user/ann, groups web");
    cell.ask("n1", &["job", "list"]).ended(6).warns("opens sessions of agents and nothing else");
    cell.ask("gateway", &["job", "list"]).ended(6).warns("needs a token");
    // A token still counts, over an encrypted connection only.
    let (token, ca) = (cell.text("token"), cell.path("ca").join("ca.pem").display().to_string());
    let line = ["--gateway", &gateway, "--cell", "alpha", "--user", "tester", "--token-file", &token];
    cell.program(&[&line[..], &["--tls-ca", &ca, "node", "list"]].concat()).ended(0).prints("n1");
    cell.program(&[&line[..], &["node", "list"]].concat()).ended(5).warns("--tls-ca");
    // A context keeps the way.
    let own = cell.certificate("ann");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let add = ["context", "add", "work", "--gateway", &gateway, "--cell", "alpha", "--user", "ann"];
    cell.program(&[&add[..], &own[..]].concat()).ended(0);
    cell.program(&["--context", "work", "job", "list"]).ended(0);
    cell.program(&["context", "list", "-o", "json"]).ended(0).prints("cert.pem");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nobody_poses_as_a_gateway() {
    let mut cell = EncryptedCell::new();
    // A node that was taken over listens where agents and users look for a gateway.
    let (grpc, http) =
        (format!("127.0.0.1:{}", cell.ports.grpc()), format!("127.0.0.1:{}", cell.ports.http()));
    cell.gateway("false", "n2", &grpc, &http);
    cell.logged("false", "borough gateway").await;
    cell.logged("false", "nobody will trust this role").await;
    let refused = cell.ask("operator", &["cell", "list"]).ended(5);
    refused.warns("certificate");
    let gateway = cell.grpc();
    cell.agent("n1", "n1", "n1", &gateway);
    cell.logged("n1", "certificate").await;
    assert!(!cell.log("n1").contains("connected to"), "{}", cell.log("n1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn certificates_are_renewed_and_revoked_while_everything_runs() {
    let mut cell = EncryptedCell::new();
    cell.gateway_ready().await;
    let gateway = cell.grpc();
    cell.agent("n1", "n1", "n1", &gateway);
    cell.agent("n2", "n2", "n2", &gateway);
    cell.node_ready("n1").await;
    cell.node_ready("n2").await;
    cell.ask("operator", &["auth", "grant", "user/ann", "--role", "viewer"]).ended(0);
    cell.ask("ann", &["node", "list"]).ended(0);
    // The gateway takes its new certificate without a restart: the old one is revoked, and clients would not mind, but
    // its serial number shows.
    let server = ["--dns", "localhost", "--ip", "127.0.0.1", "--renew"];
    cell.issue("gateway", "gateway", &server).ended(0);
    cell.logged("gateway", "certificates read again").await;
    cell.ask("ann", &["node", "list"]).ended(0);
    cell.authority(&["list"]).ended(0).prints("user/ann").prints("valid");
    // One node and one user are revoked. Their connections end within seconds, and no new one begins.
    let own = cell.certificate("ann");
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let watch =
        ["--gateway", &gateway, "--cell", "alpha", "--user", "ann", "node", "list", "--watch", "-o", "json"];
    cell.start("watch", &[&watch[..], &own[..]].concat());
    cell.logged("watch", "n1").await;
    for name in ["user/ann", "cell/alpha/node/n2"] {
        cell.authority(&["revoke", name]).ended(0).warns("revoked 1 of 1");
    }
    cell.authority(&["revoke", "user/zoe"]).ended(3).warns("has issued nothing that is called");
    until("the end of the connections", || async {
        let log = cell.log("gateway");
        log.lines()
            .any(|line| line.contains("certificates read again") && !line.contains("cut=0"))
            .then_some(())
    })
    .await;
    cell.ask("ann", &["node", "list"]).ended(5).warns("expired, revoked, or of another authority");
    until("the loss of the session of n2", || async {
        let ran = cell.ask("operator", &["node", "list", "-o", "json"]).ended(0).json();
        let gone = |one: &&serde_json::Value| one["name"] == "n2" && one["connected"] == false;
        ran.as_array()?.iter().find(gone).map(drop)
    })
    .await;
    cell.node_ready("n1").await;
    // The renewed certificate of the same node is another one.
    cell.issue("alpha/n2", "n2", &["--renew"]).ended(0);
    cell.node_ready("n2").await;
}

#[test]
fn a_role_without_certificates_stays_on_loopback() {
    let cell = EncryptedCell::new();
    let (store, token) = (format!("embedded:{}", cell.text("store")), cell.text("token"));
    let line = [
        "gateway",
        "--store",
        &store,
        "--cells",
        "alpha",
        "--token-file",
        &token,
        "--http-listen",
        "127.0.0.1:0",
    ];
    let open = cell.program(&[&line, &["--listen", "0.0.0.0:0"][..]].concat()).ended(2);
    open.warns("is no loopback address").warns("--tls-ca, --tls-cert and --tls-key").warns("--plaintext");
    let half = cell.path("gateway").join("ca.pem").display().to_string();
    cell.program(&[&line, &["--tls-ca", &half][..]].concat()).ended(4).warns("a server needs a certificate");
    let missing = cell.issue("gateway", "other", &[]).ended(2);
    missing.warns("--dns HOST or --ip ADDRESS");
    cell.issue("user/ann", "ann", &[]).ended(4).warns("is there already");
    cell.issue("node", "other", &[]).ended(2).warns("user/NAME, or CELL/NODE");
    cell.program(&["auth", "ca", "list", "--ca", &cell.text("none")]).ended(4).warns("borough auth ca init");
}
