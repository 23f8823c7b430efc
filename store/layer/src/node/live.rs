//! Liveness of nodes: the row of each node, and the order of its changes. A declaration of loss is void if a sign of
//! life came first. [`super::gateway`] has the rows by which gateways vouch.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::{Transaction, Versionstamp};
use borough_model::NodeId;
use borough_model::node::{
    GatewayLive, NodeEvent, NodeLive, NodeRow, NodeSeen, NodeState, REGISTERED, Voucher,
};
use futures::future::try_join_all;

use super::NodeWriter;
use super::step::{node_event, node_read};
use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{
    self, CellSpace, GatewayLiveKey, NodeLiveAtKey, NodeLiveChangeKey, NodeLiveKey, Prefix, RangeOptions,
};

/// Writes that the session in force has proved something. The journal never contains it. `beat` must be higher than the
/// previous one of the same session, or [`REGISTERED`]. `report_revision` is the last report of the agent that is
/// durable. From then on `voucher` vouches for the node. `None`: this writing alone counts.
///
/// A transaction writes the liveness of a node once: see `live_write`.
pub async fn node_live_renew(
    writer: &NodeWriter<'_>,
    space: &CellSpace,
    beat: u64,
    report_revision: u64,
    voucher: Option<Voucher>,
) -> StoreResult<()> {
    let (gateway, session) = (writer.gateway().to_owned(), writer.session());
    let live = NodeLive { beat, gateway, session, report_revision, voucher, silent_ms: 0 };
    live_write(writer.tx(), space, writer.node(), &live).await
}

/// Writes that nobody vouches for the node any more: the session in force has been silent for `silent_ms`. That proves
/// nothing of the node. Returns true if a gateway had vouched.
pub async fn node_live_withdraw(
    writer: &NodeWriter<'_>,
    space: &CellSpace,
    silent_ms: u64,
) -> StoreResult<bool> {
    let node = writer.node();
    let live = keys::read(writer.tx(), space, &NodeLiveKey { node }).await?;
    let Some(live) = live.filter(|live| live.voucher.is_some()) else { return Ok(false) };
    live_write(writer.tx(), space, node, &NodeLive { voucher: None, silent_ms, ..live }).await?;
    Ok(true)
}

/// Writes the row of a node, and moves the node to the end of the order of changes.
///
/// Only once per node in a transaction: the stamp of the node's place is unreadable until the commit.
async fn live_write(tx: &Transaction, space: &CellSpace, node: NodeId, live: &NodeLive) -> StoreResult<()> {
    place_clear(tx, space, node).await?;
    keys::write(tx, space, &NodeLiveKey { node }, live)?;
    keys::write_stamped_value(tx, space, &NodeLiveAtKey { node })?;
    keys::write_stamped_key(tx, space, &NodeLiveChangeKey { stamp: Versionstamp::MAX, node }, &())
}

/// Removes everything about the liveness of a node.
pub(super) async fn node_live_clear(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<()> {
    place_clear(tx, space, node).await?;
    keys::clear(tx, space, &NodeLiveAtKey { node })?;
    keys::clear(tx, space, &NodeLiveKey { node })
}

async fn place_clear(tx: &Transaction, space: &CellSpace, node: NodeId) -> StoreResult<()> {
    match keys::read(tx, space, &NodeLiveAtKey { node }).await? {
        Some(place) => keys::clear(tx, space, &NodeLiveChangeKey { stamp: place.0, node }),
        None => Ok(()),
    }
}

/// Up to `limit` nodes after `after` with their rows, without conflicts.
pub async fn node_live_page(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<NodeId>,
    limit: usize,
) -> StoreResult<Vec<(NodeId, NodeLive)>> {
    let after = after.map(|node| NodeLiveKey { node });
    let options = RangeOptions { after, limit, ..RangeOptions::snapshot() };
    let rows = keys::range::<NodeLiveKey>(tx, space, &Prefix::all(), options).await?;
    Ok(rows.into_iter().map(|(key, live)| (key.node, live)).collect())
}

/// Every node's row, without conflicts. For checks of small cells; observers follow [`live_changes_read`].
pub async fn node_live_list(tx: &Transaction, space: &CellSpace) -> StoreResult<BTreeMap<NodeId, NodeLive>> {
    Ok(node_live_page(tx, space, None, 0).await?.into_iter().collect())
}

/// What one reading shows of a node, if it ever had a session, without a conflict.
pub async fn node_live_read(
    tx: &Transaction,
    space: &CellSpace,
    node: NodeId,
) -> StoreResult<Option<NodeSeen>> {
    let Some(live) = keys::read_snapshot(tx, space, &NodeLiveKey { node }).await? else { return Ok(None) };
    let gateway = match live.voucher {
        Some(Voucher { gateway, .. }) => keys::read_snapshot(tx, space, &GatewayLiveKey { gateway }).await?,
        None => None,
    };
    Ok(Some(NodeSeen::of(live, gateway.as_ref())))
}

/// Those of these nodes that have a session with another gateway than the one at `own`: it vouches for them. Reads
/// without conflicts.
pub async fn nodes_held_elsewhere(
    tx: &Transaction,
    space: &CellSpace,
    nodes: &[NodeId],
    own: &str,
) -> StoreResult<BTreeSet<NodeId>> {
    let each = nodes.iter().map(async |&node| {
        let seen = node_live_read(tx, space, node).await?;
        let is_held = seen.is_some_and(|seen| seen.beat.is_some() && seen.live.gateway != own);
        StoreResult::Ok(is_held.then_some(node))
    });
    Ok(try_join_all(each).await?.into_iter().flatten().collect())
}

/// As [`node_live_read`], with conflicts: a sign of life that commits first fails the transaction.
pub(super) async fn node_live_guarded(
    tx: &Transaction,
    space: &CellSpace,
    node: NodeId,
) -> StoreResult<Option<NodeSeen>> {
    let Some(live) = keys::read(tx, space, &NodeLiveKey { node }).await? else { return Ok(None) };
    let gateway = match live.voucher {
        Some(Voucher { gateway, .. }) => keys::read(tx, space, &GatewayLiveKey { gateway }).await?,
        None => None,
    };
    Ok(Some(NodeSeen::of(live, gateway.as_ref())))
}

/// A position in the order of changes of liveness. It is valid in the store that gave it, until that is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveCursor {
    stamp: Versionstamp,
    node: NodeId,
}

/// Some changes of liveness.
#[derive(Clone, Debug)]
pub struct LiveChanges {
    /// Nodes with their present rows. A node that is removed in between has none.
    pub changed: Vec<(NodeId, Option<NodeLive>)>,
    pub gateways: BTreeMap<u64, GatewayLive>,
    /// After these changes.
    pub cursor: LiveCursor,
    /// Whether more changes wait after the cursor.
    pub is_more: bool,
}

/// The position after everything that is committed now.
pub async fn live_cursor_now(tx: &Transaction) -> StoreResult<LiveCursor> {
    Ok(LiveCursor { stamp: Versionstamp::new(tx.read_version().await?, u16::MAX), node: NodeId(u64::MAX) })
}

/// Reads every gateway's row, and up to `limit` changes of nodes after `after`, without conflicts. Its cost depends on
/// the gateways and the changes, not on the nodes.
pub async fn live_changes_read(
    tx: &Transaction,
    space: &CellSpace,
    after: LiveCursor,
    limit: usize,
) -> StoreResult<LiveChanges> {
    let now = live_cursor_now(tx).await?;
    let gateways = keys::range::<GatewayLiveKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    let after = NodeLiveChangeKey { stamp: after.stamp, node: after.node };
    let options = RangeOptions { after: Some(after), limit, ..RangeOptions::snapshot() };
    let mut places = keys::range::<NodeLiveChangeKey>(tx, space, &Prefix::all(), options).await?;
    // A store that was restored may hold stamps of versions that it has yet to reach.
    places.retain(|(place, ())| place.stamp <= now.stamp);
    let is_more = places.len() >= limit;
    let last = places.last().filter(|_| is_more);
    let cursor = last.map_or(now, |(place, ())| LiveCursor { stamp: place.stamp, node: place.node });
    let row = async |place: NodeLiveChangeKey| {
        let node = place.node;
        StoreResult::Ok((node, keys::read_snapshot(tx, space, &NodeLiveKey { node }).await?))
    };
    let changed = try_join_all(places.into_iter().map(|(place, ())| row(place))).await?;
    let gateways = gateways.into_iter().map(|(key, row)| (key.gateway, row)).collect();
    Ok(LiveChanges { changed, gateways, cursor, is_more })
}

/// The result of a declaration of loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredLost {
    /// The node is lost from now on.
    Lost(NodeRow),
    /// It was lost already.
    Before(NodeRow),
    /// It has shown a sign of life since it was observed.
    Beaten,
}

/// Declares a node lost that was silent since `observed` was read. The rows are read with a conflict: a sign of life
/// that commits first voids the declaration, and a later one finds it.
pub async fn node_declare_lost(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    observed: Option<&NodeSeen>,
) -> StoreResult<DeclaredLost> {
    let seen = node_live_guarded(tx, changes.space(), node).await?;
    // A session that was only registered has not proved anything since.
    let beaten = seen.as_ref().is_some_and(|seen| seen.live.beat != REGISTERED) && seen.as_ref() != observed;
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
