//! A watcher of endpoints that never forgets: it checks every event against all earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, EndpointItem};
use borough_proto::v1::Endpoint;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::wait::{now, until};

/// An event that a watcher has received.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time, by [`now`].
    pub at: Duration,
    pub item: EndpointItem,
}

/// A job and the index of one of its tasks.
type Place = (String, u32);

#[derive(Debug, Default)]
struct EndpointHistory {
    seen: Vec<Seen>,
    current: BTreeMap<Place, Endpoint>,
    /// The newest withdrawn attempt of each task.
    withdrawn: BTreeMap<Place, u64>,
    broken: Vec<String>,
}

/// A watcher of a user's endpoints, from its start until it is dropped, over broken connections.
pub struct Watcher {
    history: Arc<Mutex<EndpointHistory>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Watches the endpoints of the client's user, or of one of the user's jobs if `job` is not empty. Returns after
    /// the first snapshot.
    pub async fn start(client: &Client, job: &str) -> Self {
        let history = Arc::new(Mutex::new(EndpointHistory::default()));
        let mut items = client.watch_endpoints(client.user(), job, None);
        let own = Arc::clone(&history);
        let task = tokio::spawn(async move {
            while let Some(item) = items.next().await {
                let mut history = own.lock();
                match item {
                    Ok(item) => history.take(item),
                    Err(error) => history.broken.push(format!("the watch ended: {error}")),
                }
            }
        });
        let watcher = Self { history, task };
        until("a snapshot of endpoints", || async {
            (!watcher.history.lock().seen.is_empty()).then_some(())
        })
        .await;
        watcher
    }

    /// The published endpoints, by task index. For watchers of one job.
    pub fn published(&self) -> BTreeMap<u32, Endpoint> {
        let history = self.history.lock();
        history.current.iter().map(|((_, index), endpoint)| (*index, endpoint.clone())).collect()
    }

    /// Every event except bookmarks and absences of the gateway.
    pub fn seen(&self) -> Vec<Seen> {
        let history = self.history.lock();
        let is_event =
            |seen: &&Seen| !matches!(seen.item, EndpointItem::Bookmark(_) | EndpointItem::Absent(_));
        history.seen.iter().filter(is_event).cloned().collect()
    }

    /// When the attempt `incarnation` of the task `index` was withdrawn, or replaced by a snapshot without it.
    pub fn withdrawn_at(&self, index: u32, incarnation: u64) -> Option<Duration> {
        let gone = |seen: &&Seen| match &seen.item {
            EndpointItem::Withdrawn(gone) => gone.index == index && gone.incarnation == incarnation,
            _ => false,
        };
        self.history.lock().seen.iter().find(gone).map(|seen| seen.at)
    }

    /// Waits until `count` tasks of the one job are published.
    pub async fn until_published(&self, count: usize) -> BTreeMap<u32, Endpoint> {
        until(&format!("{count} endpoints"), || async {
            let published = self.published();
            (published.len() == count).then_some(published)
        })
        .await
    }

    /// Asserts that no endpoint was published wrongly.
    ///
    /// # Panics
    /// An endpoint was published wrongly.
    pub fn assert_sound(&self) {
        let history = self.history.lock();
        let seen: Vec<String> =
            history.seen.iter().map(|seen| format!("{:?} {:?}", seen.at, seen.item)).collect();
        assert!(
            history.broken.is_empty(),
            "{:#?}\nof all that the watch sent:\n{}",
            history.broken,
            seen.join("\n")
        );
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EndpointHistory {
    fn take(&mut self, item: EndpointItem) {
        match &item {
            EndpointItem::Snapshot { endpoints, .. } => {
                self.current.clear();
                for endpoint in endpoints {
                    self.publish(endpoint);
                }
            }
            EndpointItem::Published(endpoint) => self.publish(endpoint),
            EndpointItem::Withdrawn(gone) => {
                let place = (gone.job.clone(), gone.index);
                let known = self.current.remove(&place).map_or(0, |known| known.incarnation);
                if gone.incarnation < known {
                    self.broken
                        .push(format!("{place:?}: {} was withdrawn, {known} served", gone.incarnation));
                }
                let newest = self.withdrawn.entry(place).or_default();
                *newest = (*newest).max(known).max(gone.incarnation);
            }
            EndpointItem::Bookmark(_) | EndpointItem::Absent(_) | EndpointItem::Resync(_) => {}
        }
        self.seen.push(Seen { at: now(), item });
    }

    fn publish(&mut self, endpoint: &Endpoint) {
        let place = (endpoint.job.clone(), endpoint.index);
        let attempt = endpoint.incarnation;
        if self.withdrawn.get(&place).is_some_and(|gone| *gone >= attempt) {
            self.broken.push(format!("{place:?}: attempt {attempt} is published after its withdrawal"));
        }
        if let Some(known) = self.current.get(&place).filter(|known| known.incarnation != attempt) {
            self.broken.push(format!(
                "{place:?}: attempt {attempt} is published beside attempt {}",
                known.incarnation
            ));
        }
        self.current.insert(place, endpoint.clone());
    }
}
