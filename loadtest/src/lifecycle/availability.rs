//! An independent watcher of a job's endpoints. It counts how many of its tasks clients cannot reach at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use borough_client::{Client, EndpointItem, JobRef};
use borough_proto::v1;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Interval of checks of a condition.
const LOOK: Duration = Duration::from_millis(50);

/// The endpoints of a job as the watcher knows them.
#[derive(Debug, Default)]
struct KnownEndpoints {
    /// Tasks of the job.
    tasks: u32,
    /// The incarnation of each healthy endpoint, by the index of its task.
    healthy: BTreeMap<u32, u64>,
    /// The most tasks without a healthy endpoint after any change since the last [`AvailabilityWatch::begin`].
    unavailable_max: u32,
    changes: u64,
}

impl KnownEndpoints {
    fn unavailable(&self) -> u32 {
        self.tasks.saturating_sub(u32::try_from(self.healthy.len()).unwrap_or(u32::MAX))
    }

    fn published(&mut self, endpoint: &v1::Endpoint) {
        if endpoint.health() == v1::Health::Healthy {
            self.healthy.insert(endpoint.index, endpoint.incarnation);
        } else {
            self.healthy.remove(&endpoint.index);
        }
        self.changed();
    }

    fn withdrawn(&mut self, gone: &v1::EndpointWithdrawn) {
        if self.healthy.get(&gone.index).is_some_and(|incarnation| *incarnation <= gone.incarnation) {
            self.healthy.remove(&gone.index);
        }
        self.changed();
    }

    fn changed(&mut self) {
        self.changes += 1;
        self.unavailable_max = self.unavailable_max.max(self.unavailable());
    }
}

/// What the watcher has seen since it began to count.
#[derive(Clone, Copy, Debug)]
pub(super) struct AvailabilitySeen {
    pub unavailable_max: u32,
    /// Endpoints published, changed or withdrawn.
    pub changes: u64,
}

/// The running watcher. It ends when dropped.
pub(super) struct AvailabilityWatch {
    known: Arc<Mutex<KnownEndpoints>>,
    watcher: JoinHandle<anyhow::Result<()>>,
}

impl AvailabilityWatch {
    /// Follows the endpoints of a job of so many tasks, over a connection of its own.
    pub(super) fn start(client: Client, job: &JobRef, tasks: u32) -> Self {
        let known = Arc::new(Mutex::new(KnownEndpoints { tasks, ..KnownEndpoints::default() }));
        let watcher = tokio::spawn(follow(client, job.clone(), Arc::clone(&known)));
        Self { known, watcher }
    }

    /// Waits until every task has a healthy endpoint.
    ///
    /// # Errors
    /// The watch has ended, or that took longer than `wait`.
    pub(super) async fn all_available(&self, wait: Duration) -> anyhow::Result<()> {
        let reached = async {
            while self.known.lock().unavailable() > 0 {
                ensure!(!self.watcher.is_finished(), "the watch of the endpoints has ended");
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        };
        let reached: Result<anyhow::Result<()>, _> = tokio::time::timeout(wait, reached).await;
        let left = self.known.lock().unavailable();
        reached.with_context(|| format!("{left} tasks had no healthy endpoint within {wait:?}"))?
    }

    /// Begins to count.
    pub(super) fn begin(&self) {
        let mut known = self.known.lock();
        (known.unavailable_max, known.changes) = (known.unavailable(), 0);
    }

    /// What it has seen since it began to count.
    ///
    /// # Errors
    /// The watch has ended, so it may have missed a change.
    pub(super) async fn end(mut self) -> anyhow::Result<AvailabilitySeen> {
        if self.watcher.is_finished() {
            (&mut self.watcher).await??;
            bail!("the watch of the endpoints has ended");
        }
        let known = self.known.lock();
        Ok(AvailabilitySeen { unavailable_max: known.unavailable_max, changes: known.changes })
    }
}

impl Drop for AvailabilityWatch {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

async fn follow(client: Client, job: JobRef, known: Arc<Mutex<KnownEndpoints>>) -> anyhow::Result<()> {
    let mut items = client.watch_endpoints(job.user, job.name, None);
    let mut begun = false;
    while let Some(item) = items.next().await {
        match item? {
            EndpointItem::Snapshot { endpoints, .. } => {
                // A second one would hide what happened between.
                ensure!(!std::mem::replace(&mut begun, true), "the watch of the endpoints began again");
                let mut known = known.lock();
                endpoints.iter().for_each(|endpoint| known.published(endpoint));
            }
            EndpointItem::Published(endpoint) => known.lock().published(&endpoint),
            EndpointItem::Withdrawn(gone) => known.lock().withdrawn(&gone),
            EndpointItem::Bookmark(_) | EndpointItem::Absent(_) => {}
            EndpointItem::Resync(why) => bail!("the watch of the endpoints fell behind: {why}"),
        }
    }
    bail!("the watch of the endpoints has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(index: u32, incarnation: u64, health: v1::Health) -> v1::Endpoint {
        v1::Endpoint { index, incarnation, health: health.into(), ..v1::Endpoint::default() }
    }

    fn gone(index: u32, incarnation: u64) -> v1::EndpointWithdrawn {
        v1::EndpointWithdrawn { index, incarnation, ..v1::EndpointWithdrawn::default() }
    }

    #[test]
    fn the_most_tasks_without_a_healthy_endpoint_count() {
        let mut known = KnownEndpoints { tasks: 3, ..KnownEndpoints::default() };
        (0..3).for_each(|index| known.published(&endpoint(index, 1, v1::Health::Healthy)));
        known.unavailable_max = known.unavailable();
        known.withdrawn(&gone(0, 1));
        known.published(&endpoint(1, 1, v1::Health::Unhealthy));
        assert_eq!((known.unavailable(), known.unavailable_max), (2, 2));
        known.published(&endpoint(0, 2, v1::Health::Healthy));
        // That of the attempt before comes late, and takes nothing away.
        known.withdrawn(&gone(0, 1));
        assert_eq!((known.unavailable(), known.unavailable_max), (1, 2));
    }
}
