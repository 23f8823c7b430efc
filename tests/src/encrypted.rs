//! A cell whose connections are encrypted: an authority of its own, a gateway, and processes around it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use borough_agent::ProcessGuard;
use borough_client::{Client, ClientConfig};
use borough_kv::env::SeededRng;
use borough_proto::connect::Connector;
use borough_proto::tls::{ClientTls, TlsFiles};

use crate::RECORDS_VARIABLE;
use crate::command::Ran;
use crate::options::NEVER_SHORT;
use crate::process::child_terminated;
use crate::slot::PortSlot;
use crate::wait::{DEADLINE, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A gateway with an authority of its own, and processes around it.
pub struct EncryptedCell {
    program: PathBuf,
    children: BTreeMap<String, Child>,
    pub ports: PortSlot,
    _guard: ProcessGuard,
    directory: tempfile::TempDir,
}

impl EncryptedCell {
    /// Makes its authority, and certificates for a gateway, an operator, the user ann, and the nodes n1 and n2.
    ///
    /// # Panics
    /// The program does not issue them.
    pub fn new(program: &str) -> Self {
        let directory = tempfile::tempdir().expect("a test that can go on");
        let guard = ProcessGuard::new(directory.path()).expect("a test that can go on");
        let token = directory.path().join("token");
        fs::write(&token, TOKEN).expect("a test that can go on");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("a test that can go on");
        let cell = Self {
            program: PathBuf::from(program),
            children: BTreeMap::new(),
            ports: PortSlot::take(),
            _guard: guard,
            directory,
        };
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

    /// The path of a file of the cell.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("NO_COLOR", "1").env_remove("BOROUGH_CONTEXT").env_remove("BOROUGH_USER");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program to its end, without contexts of the person who runs the tests.
    pub fn program(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(arguments);
        command.env("XDG_CONFIG_HOME", self.directory.path()).env("BOROUGH_DIR", self.path("no-dev-cell"));
        Ran::new(arguments.join(" "), &command.output().expect("a test that can go on"))
    }

    /// Runs a verb of the authority.
    pub fn authority(&self, words: &[&str]) -> Ran {
        self.program(&[&["auth", "ca"], words, &["--ca", &self.text("ca")]].concat())
    }

    /// Issues a certificate.
    pub fn issue(&self, holder: &str, to: &str, words: &[&str]) -> Ran {
        let to = self.text(to);
        self.authority(&[&["issue", holder, "--to", &to], words].concat())
    }

    /// The options by which `who` shows its certificate.
    pub fn certificate(&self, who: &str) -> Vec<String> {
        let file = |name: &str| self.path(who).join(name).display().to_string();
        ["--tls-ca", &file("ca.pem"), "--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")]
            .map(str::to_owned)
            .to_vec()
    }

    /// The address of gRPC.
    pub fn grpc(&self) -> String {
        format!("localhost:{}", self.ports.grpc())
    }

    /// Starts a process that runs until the end of the test.
    pub fn start(&mut self, name: &str, arguments: &[&str]) {
        let log = fs::File::create(self.path(&format!("{name}.log"))).expect("a test that can go on");
        let mut command = self.command(arguments);
        command
            .env(RECORDS_VARIABLE, self.path("records"))
            .stdout(log.try_clone().expect("a test that can go on"))
            .stderr(log);
        self.children.insert(name.to_owned(), command.spawn().expect("a test that can go on"));
    }

    /// What a process has logged.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Starts a gateway with the certificate of `who`, on a store of its own.
    pub fn gateway(&mut self, name: &str, who: &str, grpc: &str, http: &str) {
        self.gateway_on(name, who, grpc, http, &format!("{name}-store"));
    }

    /// The same on a store of this name. Another gateway on it must have ended.
    pub fn gateway_on(&mut self, name: &str, who: &str, grpc: &str, http: &str, store: &str) {
        let (store, token) = (format!("embedded:{}", self.text(store)), self.text("token"));
        let list = self.path("ca").join("crl.pem").display().to_string();
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let line =
            ["gateway", "--store", &store, "--cells", "alpha", "--token-file", &token, "--tls-crl", &list];
        self.start(name, &[&line[..], &["--listen", grpc, "--http-listen", http], &own[..]].concat());
    }

    /// Sends SIGTERM to a process, and waits until it has ended with success.
    ///
    /// # Panics
    /// It ends otherwise.
    pub async fn terminate(&mut self, name: &str) {
        let child = self.children.remove(name).expect("a process of this name");
        let status = child_terminated(child).await;
        assert!(status.success(), "{name} ended with {status}:\n{}", self.log(name));
    }

    /// Connects with the certificate of `who`.
    pub fn connector(&self, who: &str) -> Connector {
        let file = |name: &str| self.path(who).join(name);
        let files = TlsFiles {
            authorities: file("ca.pem"),
            certificate: Some(file("cert.pem")),
            key: Some(file("key.pem")),
            revoked: None,
        };
        Connector::tls(ClientTls::load(files).expect("the files of a certificate"))
    }

    /// A client of gateways with the certificate of `who`. It waits for a gateway that starts.
    pub fn client(&self, who: &str, gateways: &[&str]) -> Client {
        let user = if who == "operator" { "tester" } else { who };
        let gateways = gateways.iter().map(|gateway| format!("https://{gateway}")).collect();
        let mut config = ClientConfig::new(gateways, user, "alpha");
        config.connector = self.connector(who);
        config.deadline = DEADLINE;
        config.retry.attempts_max = 1_000;
        config.retry.backoff_max = Duration::from_millis(200);
        Client::new(config, SeededRng::from_kernel().0).expect("a client")
    }

    /// Waits for it.
    pub async fn gateway_ready(&mut self) {
        let (grpc, http) = (self.ports.grpc(), self.ports.http());
        self.gateway("gateway", "gateway", &format!("127.0.0.1:{grpc}"), &format!("127.0.0.1:{http}"));
        until("the gateway's answer", || async {
            (self.ask("operator", &["cell", "list"]).code == Some(0)).then_some(())
        })
        .await;
    }

    /// Starts an agent with the certificate of `who`.
    pub fn agent(&mut self, name: &str, who: &str, node: &str, gateway: &str) {
        let (state, records) = (self.text(&format!("{name}-state")), self.text("records"));
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let line = ["agent", "--cell", "alpha", "--node", node, "--gateway", gateway, "--state-dir", &state];
        self.start(name, &[&line[..], &["--record-dir", &records], &own[..], &NEVER_SHORT].concat());
    }

    /// Runs a verb with the certificate of `who`, without any token.
    pub fn ask(&self, who: &str, words: &[&str]) -> Ran {
        let own = self.certificate(who);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let user = if who == "operator" { &["--user", "tester"][..] } else { &["--user", who][..] };
        let gateway = self.grpc();
        self.program(&[&["--gateway", &gateway, "--cell", "alpha"], user, &own[..], words].concat())
    }

    /// Waits for it.
    pub async fn node_ready(&self, node: &str) {
        until(&format!("node {node}"), || async {
            let ran = self.ask("operator", &["node", "list", "-o", "json"]);
            let nodes = (ran.code == Some(0)).then(|| ran.json())?;
            let is = |one: &&serde_json::Value| one["name"] == node && one["connected"] == true;
            nodes.as_array()?.iter().find(is).map(drop)
        })
        .await;
    }

    /// Waits for it.
    pub async fn logged(&self, name: &str, text: &str) {
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
