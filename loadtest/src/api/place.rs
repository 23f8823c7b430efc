//! The gateway under test: one process with an embedded store, in its production configuration. Its connections are
//! encrypted, its callers have tokens of an issuer, rights of a grant and a quota, and it records every change in the
//! audit.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use borough_client::{Client, ClientConfig, ClientToken};
use borough_kv::env::SeededRng;
use borough_proto::connect::Connector;
use borough_proto::tls::{ClientTls, TlsFiles};

use super::{CELL, USER};
use crate::system::SystemOptions;

/// How long the gateway may take to answer.
const READY_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Whether the connections to the gateway are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Tls,
    Plaintext,
}

/// A running gateway. Dropping it ends it, and removes what it wrote.
pub(super) struct ApiPlace {
    borough: PathBuf,
    directory: PathBuf,
    encryption: Encryption,
    grpc: String,
    gateway: Option<Child>,
}

impl ApiPlace {
    /// Makes the certificates, the tokens and the rights, and starts the gateway.
    pub(super) async fn start(options: &SystemOptions, encryption: Encryption) -> anyhow::Result<Self> {
        let directory = options.scratch()?.join("api");
        fs::create_dir_all(&directory)?;
        let (grpc, http) = ports()?;
        let grpc = format!("localhost:{grpc}");
        let mut place = Self { borough: options.borough.clone(), directory, encryption, grpc, gateway: None };
        place.secret("token")?;
        place.run(&["auth", "ca", "init", "--ca", &place.text("ca")])?;
        let server = ["--dns", "localhost", "--ip", "127.0.0.1"];
        let (ca, to) = (place.text("ca"), place.text("gateway"));
        place.run(&[&["auth", "ca", "issue", "gateway", "--ca", &ca, "--to", &to], &server[..]].concat())?;
        let (key, issuer) = (place.text("issuer.key"), place.text("issuer.json"));
        place.run(&["auth", "issuer", "--key", &key, "--to", &issuer])?;
        place.run(&["auth", "token", USER, "--key", &key, "--to", &place.text("user.token")])?;
        place.gateway_start(http)?;
        place.ready().await?;
        place.operate(&["auth", "grant", &format!("user/{USER}"), "--role", "maintainer"])?;
        let limits = ["--tasks", "1000000000", "--cpu", "1000000000", "--memory", "1000000TiB"];
        place.operate(&[&["quota", "set", USER, "--band", "batch"], &limits[..]].concat())?;
        Ok(place)
    }

    /// The number of its process.
    pub(super) fn pid(&self) -> anyhow::Result<i32> {
        Ok(i32::try_from(self.gateway.as_ref().context("no gateway runs")?.id())?)
    }

    /// A client of the user, with a connection of its own. It tries each call once: a figure includes no retries.
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        self.client_with(&self.directory.join("user.token"), USER)
    }

    /// A client of the operator, who submits in every user's name.
    pub(super) fn operator(&self) -> anyhow::Result<Client> {
        self.client_with(&self.directory.join("token"), "operator")
    }

    fn client_with(&self, token: &std::path::Path, user: &str) -> anyhow::Result<Client> {
        let scheme = if self.encryption == Encryption::Tls { "https" } else { "http" };
        let mut config = ClientConfig::new(vec![format!("{scheme}://{}", self.grpc)], user, CELL);
        config.token = Some(ClientToken::File(token.to_owned()));
        config.retry.attempts_max = 1;
        config.deadline = Duration::from_secs(60);
        if self.encryption == Encryption::Tls {
            let authorities = self.directory.join("gateway").join("ca.pem");
            let files = TlsFiles { authorities, ..TlsFiles::default() };
            config.connector = Connector::tls(ClientTls::load(files)?);
        }
        let (rng, _) = SeededRng::from_kernel();
        Ok(Client::new(config, rng)?)
    }

    fn text(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Writes a secret that only this user may read.
    fn secret(&self, name: &str) -> anyhow::Result<()> {
        let (rng, _) = SeededRng::from_kernel();
        let text = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
        let path = self.directory.join(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(file.write_all(text.as_bytes())?)
    }

    fn certificate(&self) -> Vec<String> {
        let file = |name: &str| self.directory.join("gateway").join(name).display().to_string();
        let files =
            ["--tls-ca", &file("ca.pem"), "--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")];
        files.map(str::to_owned).to_vec()
    }

    fn gateway_start(&mut self, http: u16) -> anyhow::Result<()> {
        let log = fs::File::create(self.directory.join("gateway.log"))?;
        let mut command = Command::new(&self.borough);
        command.args(["gateway", "--store", &format!("embedded:{}", self.text("store")), "--cells", CELL]);
        command.args(["--listen", &self.grpc.replace("localhost", "127.0.0.1")]);
        command.args(["--http-listen", &format!("127.0.0.1:{http}"), "--token-file", &self.text("token")]);
        command.args(["--issuer", &self.text("issuer.json")]);
        if self.encryption == Encryption::Tls {
            command.args(self.certificate());
        }
        command.stdin(Stdio::null()).stdout(Stdio::from(log.try_clone()?)).stderr(Stdio::from(log));
        self.gateway = Some(command.spawn().context("cannot start the gateway")?);
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
    async fn ready(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let client = self.client_with(&self.directory.join("token"), "operator")?;
        while client.node_list().await.is_err() {
            if begun.elapsed() > READY_WAIT {
                let log = fs::read_to_string(self.directory.join("gateway.log")).unwrap_or_default();
                bail!("the gateway was not ready within {READY_WAIT:?}: {log}");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Runs a verb as the operator.
    fn operate(&self, words: &[&str]) -> anyhow::Result<()> {
        let (token, ca) = (self.text("token"), self.directory.join("gateway").join("ca.pem"));
        let ca = ca.display().to_string();
        let mut line = vec!["--gateway", &self.grpc, "--cell", CELL, "--token-file", &token];
        if self.encryption == Encryption::Tls {
            line.extend(["--tls-ca", &ca]);
        }
        line.extend(words);
        self.run(&line)
    }

    fn run(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(&self.borough);
        command.args(words).env_remove("BOROUGH_CONTEXT").env("XDG_CONFIG_HOME", &self.directory);
        command.env("BOROUGH_DIR", self.directory.join("no-dev-cell")).stdin(Stdio::null());
        let output = command.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "borough {} has failed: {error}", words.join(" "));
        Ok(())
    }
}

impl Drop for ApiPlace {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            gateway.kill().ok();
            gateway.wait().ok();
        }
        fs::remove_dir_all(&self.directory).ok();
    }
}

/// Two ports that nobody has at this moment.
fn ports() -> anyhow::Result<(u16, u16)> {
    let (grpc, http) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((grpc.local_addr()?.port(), http.local_addr()?.port()))
}
