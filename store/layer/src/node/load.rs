//! The real load of nodes, as their agents measure it: rows beside what is committed, so that a measurement never stands in
//! the way of a placement.

use borough_kv::Transaction;
use borough_model::node::{LoadMeasured, NodeLoad, node_load_next};
use borough_model::{Delta, NodeId};
use futures::future::try_join_all;

use super::NodeWriter;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeKey, NodeLoadKey};

/// Notes what agents have measured; `None`: the agent cannot tell. What is no more than its node has is taken as it is,
/// the rest is clamped; what hardly differs from what is known writes nothing. Answers how many rows were written.
///
/// Nothing but the load is written, and nothing but the load and the session is read with a conflict: so a report fails
/// no other transaction, and only a registration or the removal of its node fails a report.
pub async fn node_loads_set(
    changes: &mut ChangeSet,
    reports: &[(&NodeWriter<'_>, Option<LoadMeasured>)],
) -> StoreResult<usize> {
    let (space, now_ms) = (changes.space().clone(), changes.at_ms());
    let read = async |writer: &NodeWriter<'_>| {
        let (tx, node) = (writer.tx(), writer.node());
        let before = keys::read(tx, &space, &NodeLoadKey { node }).await?;
        Ok::<_, StoreError>((before, keys::read_snapshot(tx, &space, &NodeKey { node }).await?))
    };
    let known = try_join_all(reports.iter().map(|(writer, _)| read(writer))).await?;
    let mut written = 0;
    for ((writer, measured), (before, row)) in reports.iter().zip(known) {
        let (node, Some(row)) = (writer.node(), row) else { continue };
        let Some(load) = node_load_next(before.as_ref(), &row, *measured, now_ms) else { continue };
        keys::write(writer.tx(), &space, &NodeLoadKey { node }, &load)?;
        changes.push(Delta::NodeLoad { node, load });
        written += 1;
    }
    Ok(written)
}

/// What is known of a node's load, without a conflict.
pub async fn node_load_read(
    tx: &Transaction,
    space: &CellSpace,
    node: NodeId,
) -> StoreResult<Option<NodeLoad>> {
    keys::read_snapshot(tx, space, &NodeLoadKey { node }).await
}
