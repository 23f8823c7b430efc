//! FoundationDB's client status as metrics: whether it reaches its cluster, and how many of its connections fail.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use foundationdb::Database;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;

/// The interval of reading the client's status.
const INTERVAL: Duration = Duration::from_secs(5);

/// How often, and with what pauses, the status of a connecting client is read.
const LOOKS: u32 = 8;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// The displayed part of the client's status (`fdb_database_get_client_status`, a JSON object).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ClientStatus {
    healthy: bool,
    num_connections_failed: i64,
    connections: Vec<ServerConnection>,
}

/// One server as the client knows it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ServerConnection {
    address: String,
    status: String,
    /// Whether it speaks the client's protocol; absent until it has answered.
    compatible: Option<bool>,
    protocol_version: Option<String>,
    connect_failed_count: i64,
}

impl ServerConnection {
    /// Returns true if the connection is being made, and did not fail before.
    fn begins(&self) -> bool {
        self.status == "connecting" && self.connect_failed_count == 0
    }
}

impl ClientStatus {
    fn read(json: &[u8]) -> Self {
        serde_json::from_slice(json).unwrap_or_default()
    }

    /// A server of another version, if the client knows one and does not reach its cluster.
    fn incompatible(&self) -> Option<String> {
        let other = self.connections.iter().find(|one| one.compatible == Some(false));
        let ServerConnection { address, protocol_version, .. } = other.filter(|_| !self.healthy)?;
        Some(match protocol_version {
            Some(version) => format!("{address} speaks protocol {version}"),
            None => format!("{address} speaks another protocol"),
        })
    }
}

/// The cluster's server of another version, for people; `None` if the client knows none. It reads only the client's
/// status, several times: for one of every four seconds the client forgets the server and connects again.
pub(crate) async fn incompatible_server(database: &Database) -> Option<String> {
    for _ in 0..LOOKS {
        let status = ClientStatus::read(&database.get_client_status().await.ok()?);
        let found = status.incompatible();
        if found.is_some() || !status.connections.iter().any(ServerConnection::begins) {
            return found;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    None
}

/// The metrics of one cluster.
#[derive(Clone, Debug, Default)]
struct ClusterStats {
    healthy: Gauge<i64, AtomicI64>,
    connections: Gauge<i64, AtomicI64>,
    connections_failed: Gauge<i64, AtomicI64>,
}

impl ClusterStats {
    /// Sets the metrics from a status. A client with an invalid status counts as unhealthy.
    fn show(&self, json: &[u8]) {
        let status = ClientStatus::read(json);
        self.healthy.set(i64::from(status.healthy));
        self.connections.set(i64::try_from(status.connections.len()).unwrap_or(i64::MAX));
        self.connections_failed.set(status.num_connections_failed);
    }
}

/// Registers the client's status in `registry` and keeps it up to date while the database is open. Without a runtime,
/// it does nothing.
pub(crate) fn status_register(database: &Arc<Database>, registry: &mut Registry) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let stats = ClusterStats::default();
    let registry = registry.sub_registry_with_prefix("store_fdb_client");
    registry.register("healthy", "1 where the client reaches its cluster", stats.healthy.clone());
    registry.register("connections", "connections of the client", stats.connections.clone());
    registry.register(
        "connections_failed",
        "connections that cannot be made",
        stats.connections_failed.clone(),
    );
    runtime.spawn(status_follow(Arc::downgrade(database), stats));
}

async fn status_follow(database: Weak<Database>, stats: ClusterStats) {
    while let Some(database) = database.upgrade() {
        let status = database.get_client_status();
        // Released during the wait: dropping the program's last handle closes the database.
        drop(database);
        match status.await {
            Ok(json) => stats.show(&json),
            Err(error) => {
                tracing::debug!(%error, "no status of the FoundationDB client");
                stats.show(b"");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_another_version_is_distinguished_from_one_that_is_away() {
        let of = |json: &str| ClientStatus::read(json.as_bytes()).incompatible();
        let connection =
            |more: &str| format!(r#"{{"Healthy":false,"Connections":[{{"Address":"a:1"{more}}}]}}"#);
        assert_eq!(of(&connection("")), None);
        assert_eq!(of(&connection(r#","Compatible":true"#)), None);
        let other = of(&connection(r#","Compatible":false,"ProtocolVersion":"fdb00b062010001""#));
        assert_eq!(other.as_deref(), Some("a:1 speaks protocol fdb00b062010001"));
        assert_eq!(of(&connection(r#","Compatible":false"#).replace("false,\"C", "true,\"C")), None);
    }

    #[test]
    fn a_status_is_shown_and_nonsense_is_not_well() {
        let stats = ClusterStats::default();
        stats.show(br#"{"Healthy":true,"ClusterID":"x","NumConnectionsFailed":1,"Connections":[{"Address":"a"},{"Address":"b"}]}"#);
        assert_eq!((stats.healthy.get(), stats.connections.get(), stats.connections_failed.get()), (1, 2, 1));
        stats.show(b"gone");
        assert_eq!((stats.healthy.get(), stats.connections.get(), stats.connections_failed.get()), (0, 0, 0));
    }
}
