//! Follows the endpoints of a job as a load balancer would: a table that is right after each item.
//!
//! ```text
//! cargo run -p borough-client --example endpoints -- 127.0.0.1:7400 TOKEN_FILE ann hello
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use std::collections::BTreeMap;

use borough_client::{Client, ClientConfig, ClientToken, EndpointItem};
use borough_kv::env::SeededRng;
use borough_proto::v1::Endpoint;
use futures::StreamExt as _;

/// The endpoints by the index of their task.
#[derive(Default)]
struct Table(BTreeMap<u32, Endpoint>);

impl Table {
    /// Applies an item. Returns whether the table may be used: it may not while a snapshot is missing.
    fn apply(&mut self, item: EndpointItem) -> bool {
        match item {
            EndpointItem::Snapshot { endpoints, .. } => {
                self.0 = endpoints.into_iter().map(|endpoint| (endpoint.index, endpoint)).collect();
            }
            EndpointItem::Published(endpoint) => drop(self.0.insert(endpoint.index, *endpoint)),
            // A withdrawal names the attempt: a later one of the same task stays.
            EndpointItem::Withdrawn(gone) => {
                self.0.retain(|index, known| *index != gone.index || known.incarnation > gone.incarnation);
            }
            // The last table may be used meanwhile.
            EndpointItem::Bookmark(_) | EndpointItem::Absent(_) => {}
            // Keep the last table in use until the snapshot that follows.
            EndpointItem::Resync(why) => {
                println!("resync: {why}");
                return false;
            }
        }
        true
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [gateway, token, user, job] = &arguments[..] else {
        return Err("usage: endpoints HOST:PORT TOKEN_FILE USER JOB".into());
    };
    let mut config = ClientConfig::new(vec![gateway.clone()], user, "alpha");
    config.token = Some(ClientToken::File(token.into()));
    let (rng, _) = SeededRng::from_kernel();
    let client = Client::new(config, rng)?;
    let mut table = Table::default();
    let mut items = client.watch_endpoints(user, job, None);
    while let Some(item) = items.next().await {
        if !table.apply(item?) {
            continue;
        }
        let ports = |endpoint: &Endpoint| endpoint.ports.first().map_or(0, |port| port.number);
        let list: Vec<String> =
            table.0.values().map(|known| format!("{}:{}", known.host, ports(known))).collect();
        println!("{} endpoints: {}", list.len(), list.join(" "));
    }
    Ok(())
}
