//! What FoundationDB's client says of itself, as figures: whether it reaches its cluster, and how many of its
//! connections fail.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foundationdb::Database;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;

/// How often the client is asked.
const INTERVAL: Duration = Duration::from_secs(5);

/// The part of the client's status that is shown (`fdb_database_get_client_status`, a JSON object).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ClientStatus {
    healthy: bool,
    num_connections_failed: i64,
    connections: Vec<serde::de::IgnoredAny>,
}

/// The figures of one cluster.
#[derive(Clone, Debug, Default)]
struct Figures {
    healthy: Gauge<i64, AtomicI64>,
    connections: Gauge<i64, AtomicI64>,
    connections_failed: Gauge<i64, AtomicI64>,
}

impl Figures {
    /// Shows a status; a client that says nothing sensible is not well.
    fn show(&self, json: &[u8]) {
        let status: ClientStatus = serde_json::from_slice(json).unwrap_or_default();
        self.healthy.set(i64::from(status.healthy));
        self.connections.set(i64::try_from(status.connections.len()).unwrap_or(i64::MAX));
        self.connections_failed.set(status.num_connections_failed);
    }
}

/// Shows the client's status in `registry` and keeps it up to date for as long as the database lives. Needs a runtime;
/// where there is none, nothing is shown.
pub(crate) fn status_register(database: &Arc<Database>, registry: &mut Registry) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let figures = Figures::default();
    let registry = registry.sub_registry_with_prefix("store_fdb_client");
    registry.register("healthy", "1 where the client reaches its cluster", figures.healthy.clone());
    registry.register("connections", "connections of the client", figures.connections.clone());
    registry.register(
        "connections_failed",
        "connections that cannot be made",
        figures.connections_failed.clone(),
    );
    runtime.spawn(status_follow(Arc::downgrade(database), figures));
}

async fn status_follow(database: Weak<Database>, figures: Figures) {
    while let Some(database) = database.upgrade() {
        let status = database.get_client_status();
        // Not held while waiting: the last handle of the program ends the database.
        drop(database);
        match status.await {
            Ok(json) => figures.show(&json),
            Err(error) => {
                tracing::debug!(%error, "no status of the FoundationDB client");
                figures.show(b"");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_shown_and_nonsense_is_not_well() {
        let figures = Figures::default();
        figures.show(br#"{"Healthy":true,"ClusterID":"x","NumConnectionsFailed":1,"Connections":[{"Address":"a"},{"Address":"b"}]}"#);
        assert_eq!(
            (figures.healthy.get(), figures.connections.get(), figures.connections_failed.get()),
            (1, 2, 1)
        );
        figures.show(b"gone");
        assert_eq!(
            (figures.healthy.get(), figures.connections.get(), figures.connections_failed.get()),
            (0, 0, 0)
        );
    }
}
