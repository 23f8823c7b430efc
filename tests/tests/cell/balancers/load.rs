//! Clients of a load balancer that ask without a pause, and count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use borough_tests::{http_get, until};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// HTTP clients at a time, of one load balancer.
const HTTP_CLIENTS: u64 = 2;
/// Their pause between two requests.
const HTTP_PAUSE: Duration = Duration::from_millis(20);

/// What the clients of one load balancer have seen.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) name: &'static str,
    /// How many requests are under way at a time, at most.
    pub(super) clients: u64,
    asked: AtomicU64,
    failures: Mutex<Vec<String>>,
    servers: Mutex<BTreeSet<String>>,
}

impl Tally {
    pub(super) fn new(name: &'static str, clients: u64) -> Arc<Self> {
        let (failures, servers) = (Mutex::default(), Mutex::default());
        Arc::new(Self { name, clients, asked: AtomicU64::new(0), failures, servers })
    }

    /// Counts a request by its answer: the server that gave it, or why there is none.
    pub(super) fn count(&self, answer: Result<String, String>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match answer {
            Ok(server) => drop(self.servers.lock().insert(server)),
            Err(failure) => self.failures.lock().push(failure),
        }
    }

    /// Takes the number of all requests until now.
    pub(super) fn asked_set(&self, asked: u64) {
        self.asked.store(asked, Ordering::Relaxed);
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn server_seen(&self, server: &str) {
        self.servers.lock().insert(server.to_owned());
    }

    pub(super) fn failure_seen(&self, failure: &str) {
        self.failures.lock().push(failure.to_owned());
    }

    /// Takes the failures since the last call.
    pub(super) fn failures_take(&self) -> Vec<String> {
        std::mem::take(&mut self.failures.lock())
    }

    /// Forgets which servers have answered.
    pub(super) fn servers_forget(&self) {
        self.servers.lock().clear();
    }

    /// Waits until this many servers have answered since they were forgotten.
    pub(super) async fn servers_until(&self, count: usize) {
        let what = format!("answers of {count} servers through {}", self.name);
        until(&what, || async { (self.servers.lock().len() >= count).then_some(()) }).await;
    }

    /// Waits for as many further requests, so that what happened before has had its effect.
    pub(super) async fn asked_until_more(&self, more: u64) {
        let before = self.asked();
        let what = format!("{more} more requests through {}", self.name);
        until(&what, || async { (self.asked() >= before + more).then_some(()) }).await;
    }
}

/// HTTP clients of one load balancer. Each has one request under way, on a connection of its own.
pub(super) struct HttpLoad {
    pub(super) tally: Arc<Tally>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl HttpLoad {
    /// Waits for a first answer, then asks until the end.
    pub(super) async fn start(name: &'static str, address: String, path: &'static str) -> Self {
        until(&format!("an answer through {name}"), || async { ask(&address, path).await.ok() }).await;
        let (tally, over) = (Tally::new(name, HTTP_CLIENTS), Arc::new(AtomicBool::new(false)));
        let client = |_| {
            let (tally, over, address) = (Arc::clone(&tally), Arc::clone(&over), address.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    tally.count(ask(&address, path).await);
                    tokio::time::sleep(HTTP_PAUSE).await;
                }
            })
        };
        let tasks = (0..HTTP_CLIENTS).map(client).collect();
        Self { tally, over, tasks }
    }

    pub(super) async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// The server that answers.
async fn ask(address: &str, path: &str) -> Result<String, String> {
    match http_get(address, path, None).await? {
        (200, server) => Ok(server),
        (status, body) => Err(format!("{status} {body}")),
    }
}
