//! Liveness: a coarse lease per node, renewed by the session in force, and the declaration of loss that a renewal
//! voids.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::NodeId;
use borough_model::node::{NodeEvent, NodeLive, NodeRow, NodeState, REGISTERED};

use super::NodeWriter;
use super::step::{node_event, node_read};
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeLiveKey, Prefix, RangeOptions};

/// Renews the lease of a node for the session in force. The journal never contains it. `beat` must differ from the
/// previous one of the same session. `report_revision` is the last report of the agent that is durable.
pub fn node_live_renew(
    writer: &NodeWriter<'_>,
    space: &CellSpace,
    beat: u64,
    report_revision: u64,
) -> StoreResult<()> {
    let (gateway, session) = (writer.gateway().to_owned(), writer.session());
    let live = NodeLive { beat, gateway, session, report_revision };
    keys::write(writer.tx(), space, &NodeLiveKey { node: writer.node() }, &live)
}

/// Every node's lease, without conflicts: for an observer of silence.
pub async fn node_live_list(tx: &Transaction, space: &CellSpace) -> StoreResult<BTreeMap<NodeId, NodeLive>> {
    let rows = keys::range::<NodeLiveKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    Ok(rows.into_iter().map(|(key, live)| (key.node, live)).collect())
}

/// One node's lease, if it ever had one, without a conflict.
pub async fn node_live_read(
    tx: &Transaction,
    space: &CellSpace,
    node: NodeId,
) -> StoreResult<Option<NodeLive>> {
    keys::read_snapshot(tx, space, &NodeLiveKey { node }).await
}

/// The result of a declaration of loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredLost {
    /// The node is lost from now on.
    Lost(NodeRow),
    /// It was lost already.
    Before(NodeRow),
    /// It has renewed its lease since it was observed.
    Beaten,
}

/// Declares a node lost that was silent since `observed` was read. The lease is read with a conflict: a renewal that
/// commits first voids the declaration, and a later one finds it.
pub async fn node_declare_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    observed: Option<&NodeLive>,
) -> StoreResult<DeclaredLost> {
    let live = keys::read(tx, changes.space(), &NodeLiveKey { node }).await?;
    // A session that was only registered has not proved anything since.
    let beaten = live.as_ref().is_some_and(|live| live.beat != REGISTERED) && live.as_ref() != observed;
    if beaten {
        return Ok(DeclaredLost::Beaten);
    }
    let row = node_read(tx, changes.space(), node).await?;
    if row.state == NodeState::Lost {
        return Ok(DeclaredLost::Before(row));
    }
    let transition = node_event(tx, changes, node, &NodeEvent::DeclaredLost).await?;
    Ok(DeclaredLost::Lost(transition.row))
}
