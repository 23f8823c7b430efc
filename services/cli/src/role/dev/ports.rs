//! Nodes of an earlier start that get other ports. Workers give tasks that wait a node at once, before its agent
//! registers again. So the store learns of the ports first.

use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency};
use borough_model::Name;
use borough_model::node::NodeEvent;
use borough_store::journal::{Change, ChangeSet};
use borough_store::node::{node_by_name, node_event};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};

use super::layout::Layout;
use super::nodes::{NodePlan, is_locked};

/// Gives the nodes that the store knows the ports of this plan. Agents that still run keep theirs.
pub(super) async fn node_ports_set(
    db: &Database,
    layout: &Layout,
    plan: &[NodePlan],
    clock: &Arc<dyn Clock>,
    rng: &Arc<dyn Rng>,
) {
    for node in plan.iter().filter(|node| !is_locked(&layout.node(&node.name))) {
        let Ok(name) = Name::new(&node.name) else { continue };
        let change = Change {
            request: request_id_random(&**rng),
            actor: "dev".to_owned(),
            action: "node_ports_set",
            at_ms: clock.wall_ms(),
        };
        let (space, name, change) = (&CellSpace::new(node.cell.clone()), &name, &change);
        let event = &NodeEvent::PortsSet { first: node.port_first, last: node.port_last };
        let set = db.run("node_ports_set", Idempotency::Natural, |tx, _| async move {
            let known = match node_by_name(&tx, space, name).await {
                Ok(row) => row.id,
                Err(StoreError::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            if node_event(&tx, &mut changes, known, event).await?.changed {
                changes.append(&tx)?;
            }
            StoreResult::Ok(())
        });
        // A closed cell takes no change. Its agent registers the ports once it can.
        if let Err(error) = set.await {
            tracing::info!(node = %node.name, error = %error_chain(&error), "the store does not take the ports of a node");
        }
    }
}
