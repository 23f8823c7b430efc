//! What every runner finds: a cell, a proxy before it, and a gateway that takes certificates only.

use borough_tests::{EncryptedCell, FaultProxy, Options, TestCell};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// The user of the scenarios.
const USER: &str = "suite";

/// The world of one language.
pub(crate) struct World {
    /// What the runner is told.
    pub(crate) facts: Value,
    cell: TestCell,
    _encrypted: EncryptedCell,
    _proxy: FaultProxy,
}

impl World {
    pub(crate) async fn start(language: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_borough-under-test");
        let cell = TestCell::start(Options::new(program, env!("CARGO_CRATE_NAME"))).await;
        let mut encrypted = EncryptedCell::new(program);
        encrypted.gateway_ready().await;
        let proxy = FaultProxy::start(cell.grpc()).await;
        let certificate = |name: &str| encrypted.path("operator").join(name).display().to_string();
        let short: String = language.chars().take(2).collect();
        let facts = json!({
            "gateways": proxy.gateways.map(|address| format!("http://{address}")),
            "direct": format!("http://{}", cell.grpc()),
            "web": format!("http://{}", cell.http()),
            "control": format!("http://{}", proxy.control),
            "token": cell.token(),
            "user": USER,
            "cell": "alpha",
            "run": format!("{short}{}", std::process::id()),
            "id": format!("{:032x}", std::process::id()),
            "tls": {
                "gateway": format!("https://{}", encrypted.grpc()),
                "ca": certificate("ca.pem"),
                "certificate": certificate("cert.pem"),
                "key": certificate("key.pem"),
            },
        });
        Self { facts, cell, _encrypted: encrypted, _proxy: proxy }
    }

    /// The same as a file.
    pub(crate) fn file(&self) -> String {
        self.cell.file("world.json", &self.facts.to_string())
    }
}

/// The processes of a runner. Ended when it is dropped.
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// The group that `child` leads.
    pub(crate) fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}
