//! The fence of sessions: only the session in force of a node's agent writes for the node.
//!
//! A registration writes `node_session`. Everything that a gateway writes for a node afterwards needs a [`NodeWriter`],
//! and only the check in the same transaction returns one. The check reads the key with a conflict. A registration
//! through any gateway that commits first fails the transaction, and the retry finds another session and writes
//! nothing.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::NodeId;
use borough_model::node::NodeSession;
use futures::future::try_join_all;

use crate::error::StoreResult;
use crate::keys::{self, CellSpace, NodeSessionKey};

/// The session in whose name a gateway writes for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionFence {
    pub node: NodeId,
    /// The session of its agent, as its registration has written it.
    pub session: u64,
}

/// The right to write for a node within one transaction. Only [`node_writer`], [`node_writers`] and
/// [`node_register`](super::node_register) make one, after that transaction has checked or written the session.
pub struct NodeWriter<'t> {
    tx: &'t Transaction,
    node: NodeId,
    row: NodeSession,
}

impl std::fmt::Debug for NodeWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeWriter").field("node", &self.node).field("row", &self.row).finish_non_exhaustive()
    }
}

impl<'t> NodeWriter<'t> {
    /// The writer of a session that `tx` has checked or written.
    pub(super) fn of(tx: &'t Transaction, node: NodeId, row: NodeSession) -> Self {
        Self { tx, node, row }
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The session in force.
    pub fn session(&self) -> u64 {
        self.row.session
    }

    /// The gateway that holds the session.
    pub fn gateway(&self) -> &str {
        &self.row.gateway
    }

    /// The transaction in which the session was checked.
    pub(crate) fn tx(&self) -> &'t Transaction {
        self.tx
    }
}

/// The writer of a node, if the session of `fence` is in force; otherwise `None`.
pub async fn node_writer<'t>(
    tx: &'t Transaction,
    space: &CellSpace,
    fence: SessionFence,
) -> StoreResult<Option<NodeWriter<'t>>> {
    let row = keys::read(tx, space, &NodeSessionKey { node: fence.node }).await?;
    let current = row.filter(|row| row.session == fence.session && row.session != 0);
    Ok(current.map(|row| NodeWriter::of(tx, fence.node, row)))
}

/// The writers of several nodes, read at once. Skips sessions that are not in force.
pub async fn node_writers<'t>(
    tx: &'t Transaction,
    space: &CellSpace,
    fences: impl IntoIterator<Item = SessionFence>,
) -> StoreResult<BTreeMap<SessionFence, NodeWriter<'t>>> {
    let check = |fence| async move { Ok((fence, node_writer(tx, space, fence).await?)) };
    let checked: StoreResult<Vec<_>> = try_join_all(fences.into_iter().map(check)).await;
    Ok(checked?.into_iter().filter_map(|(fence, writer)| Some((fence, writer?))).collect())
}
