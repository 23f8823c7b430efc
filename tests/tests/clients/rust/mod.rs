//! The runner of the Rust client.

mod expect;
mod federated;
mod job;
mod joins;
mod step;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, ClientConfig, ClientToken, JobRef};
use borough_kv::env::SeededRng;
use borough_proto::connect::Connector;
use borough_proto::tls::{ClientTls, TlsFiles};
use parking_lot::Mutex;
use serde_json::Value;

use self::watch::EndpointLog;

/// A step that did not do what the scenario says.
type Problem = String;

/// What the steps of a scenario share.
pub(crate) struct Stage<'w> {
    world: &'w Value,
    client: Mutex<Client>,
    saved: Mutex<BTreeMap<String, String>>,
    watches: Mutex<BTreeMap<String, Arc<EndpointLog>>>,
    /// The names of the jobs that were submitted.
    jobs: Mutex<Vec<String>>,
}

/// Carries out a scenario and cleans up after it.
///
/// # Errors
/// The step that failed, and why.
pub(crate) async fn carry_out(world: &Value, scenario: &Value) -> Result<(), Problem> {
    let stage = Stage {
        world,
        client: Mutex::new(client(world, &Value::Null)?),
        saved: Mutex::default(),
        watches: Mutex::default(),
        jobs: Mutex::default(),
    };
    let mut outcome = Ok(());
    for (number, step) in scenario["steps"].as_array().ok_or("no steps")?.iter().enumerate() {
        if let Err(problem) = Box::pin(stage.step(step)).await {
            outcome = Err(format!("step {number} ({}): {problem}", step["do"]));
            break;
        }
    }
    stage.clean().await;
    outcome
}

impl Stage<'_> {
    fn client(&self) -> Client {
        self.client.lock().clone()
    }

    fn job_named(&self, name: &str) -> JobRef {
        JobRef::new(self.client().user(), name)
    }

    async fn clean(&self) {
        self.watches.lock().clear();
        self.fault(&serde_json::json!({"kind": "heal"})).await.ok();
        let Ok(client) = client(self.world, &Value::Null) else { return };
        let jobs = std::mem::take(&mut *self.jobs.lock());
        for name in jobs {
            client.job_stop(&JobRef::new(client.user(), name)).await.ok();
        }
    }
}

/// A client as `options` says; what they leave out is as the world says.
fn client(world: &Value, options: &Value) -> Result<Client, Problem> {
    let text = |name: &str| {
        let given = options[name].as_str().or_else(|| world[name].as_str());
        given.map(str::to_owned).ok_or_else(|| format!("the world has no {name}"))
    };
    let of_world = |place: &Value| match place.as_u64().and_then(|place| usize::try_from(place).ok()) {
        Some(place) => world["gateways"][place].as_str().map(str::to_owned),
        None => place.as_str().map(str::to_owned),
    };
    let gateways = options["gateways"].as_array().or_else(|| world["gateways"].as_array());
    let gateways: Option<Vec<String>> = gateways.ok_or("no gateways")?.iter().map(of_world).collect();
    let mut config = ClientConfig::new(gateways.ok_or("a gateway is no text")?, text("user")?, text("cell")?);
    if let Some(deadline) = options["deadline"].as_u64() {
        config.deadline = Duration::from_millis(deadline);
    }
    if let Some(attempts) = options["attempts"].as_u64() {
        config.retry.attempts_max = u32::try_from(attempts).map_err(|error| error.to_string())?;
    }
    let token = text("token")?;
    config.token = (token != "none").then_some(ClientToken::Value(token));
    if options["tls"] == true {
        let path = |name: &str| world["tls"][name].as_str().unwrap_or_default();
        config.gateways = vec![path("gateway").to_owned()];
        config.token = None;
        config.connector = tls(path("ca"), path("certificate"), path("key"))?;
    }
    let client = Client::new(config, SeededRng::from_kernel().0).map_err(|error| error.to_string())?;
    Ok(if options["dry_run"] == true { client.with_dry_run() } else { client })
}

fn tls(ca: &str, certificate: &str, key: &str) -> Result<Connector, Problem> {
    let (certificate, key) = (Some(certificate.into()), Some(key.into()));
    let tls = ClientTls::load(TlsFiles { authorities: ca.into(), certificate, key, revoked: None });
    Ok(Connector::tls(tls.map_err(|error| error.to_string())?))
}
