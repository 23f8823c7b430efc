//! A watch of a scenario: everything that it has shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_client::{Client, EndpointItem};
use borough_proto::v1::{Cursor, Endpoint};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

/// What a watch has shown so far.
#[derive(Default)]
struct Shown {
    live: BTreeMap<u32, Endpoint>,
    /// The newest withdrawn attempt of each task.
    withdrawn: BTreeMap<u32, u64>,
    cursor: Option<Cursor>,
    snapshots: u64,
    resyncs: u64,
    absences: u64,
    withdrawals: u64,
    problems: Vec<String>,
}

/// Follows the endpoints of a job in the background, until it is dropped.
pub(super) struct EndpointLog {
    shown: Arc<Mutex<Shown>>,
    follows: JoinHandle<()>,
    client: Client,
    job: String,
}

impl EndpointLog {
    pub(super) fn start(client: Client, job: String) -> Self {
        let shown = Arc::new(Mutex::new(Shown::default()));
        let mut items = client.watch_endpoints(client.user(), job.clone(), None);
        let own = Arc::clone(&shown);
        let follows = tokio::spawn(async move {
            while let Some(item) = items.next().await {
                match item {
                    Ok(item) => own.lock().take(item),
                    Err(error) => own.lock().problems.push(format!("the watch has ended: {error}")),
                }
            }
        });
        Self { shown, follows, client, job }
    }

    /// The indexes of the published endpoints; absent before the first snapshot.
    pub(super) fn live(&self) -> Option<Vec<u64>> {
        let shown = self.shown.lock();
        (shown.snapshots > 0).then(|| shown.live.keys().map(|index| u64::from(*index)).collect())
    }

    /// Whether each published endpoint has the weight and the labels of a step, as far as it has any.
    pub(super) fn all(&self, step: &Value) -> bool {
        let labels = |endpoint: &Endpoint| serde_json::json!(endpoint.labels);
        let shown = self.shown.lock();
        shown.live.values().all(|endpoint| {
            let weight = step["weight"].as_u64();
            weight.is_none_or(|weight| weight == u64::from(endpoint.weight))
                && (step["labels"].is_null() || step["labels"] == labels(endpoint))
        })
    }

    /// How many items of a kind have come.
    pub(super) fn items(&self, kind: &str) -> u64 {
        let shown = self.shown.lock();
        match kind {
            "snapshots" => shown.snapshots,
            "resyncs" => shown.resyncs,
            "withdrawals" => shown.withdrawals,
            _ => shown.absences,
        }
    }

    /// Checks that nothing was lost or repeated.
    pub(super) async fn audit(&self) -> Result<(), String> {
        let listed = self.client.endpoint_list(self.client.user(), &self.job).await;
        let (listed, _) = listed.map_err(|error| error.to_string())?;
        let shown = self.shown.lock();
        if !shown.problems.is_empty() {
            return Err(shown.problems.join("; "));
        }
        let attempts = |endpoints: &mut dyn Iterator<Item = &Endpoint>| {
            endpoints.map(|endpoint| (endpoint.index, endpoint.incarnation)).collect::<BTreeMap<_, _>>()
        };
        let (live, listed) = (attempts(&mut shown.live.values()), attempts(&mut listed.iter()));
        if live == listed { Ok(()) } else { Err(format!("shown: {live:?}, listed: {listed:?}")) }
    }
}

impl Drop for EndpointLog {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

impl Shown {
    fn take(&mut self, item: EndpointItem) {
        match item {
            EndpointItem::Snapshot { endpoints, cursor } => {
                self.snapshots += 1;
                self.live.clear();
                for endpoint in endpoints {
                    self.published(endpoint);
                }
                self.at(cursor);
            }
            EndpointItem::Published(endpoint) => self.published(*endpoint),
            EndpointItem::Withdrawn(gone) => {
                self.withdrawals += 1;
                let attempt = self.withdrawn.entry(gone.index).or_default();
                *attempt = gone.incarnation.max(*attempt);
                if self.live.remove(&gone.index).is_none() {
                    self.problems.push(format!("{} is withdrawn twice", gone.index));
                }
            }
            EndpointItem::Bookmark(cursor) => self.at(cursor),
            EndpointItem::Absent(_) => self.absences += 1,
            EndpointItem::Resync(_) => self.resyncs += 1,
        }
    }

    fn published(&mut self, endpoint: Endpoint) {
        let (index, attempt) = (endpoint.index, endpoint.incarnation);
        if self.withdrawn.get(&index).is_some_and(|withdrawn| attempt <= *withdrawn) {
            self.problems.push(format!("attempt {attempt} of {index} comes back"));
        }
        if self.live.get(&index) == Some(&endpoint) {
            self.problems.push(format!("{index} is published twice alike"));
        }
        self.live.insert(index, endpoint);
    }

    fn at(&mut self, cursor: Cursor) {
        let back = self
            .cursor
            .as_ref()
            .is_some_and(|known| known.store_epoch == cursor.store_epoch && known.stamp > cursor.stamp);
        if back {
            self.problems.push("the cursor goes back".to_owned());
        }
        self.cursor = Some(cursor);
    }
}
