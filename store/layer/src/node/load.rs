//! The real load of nodes, as their agents measure it: rows beside what is committed, so that a measurement never stands in
//! the way of a placement.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::node::{LoadMeasured, NodeLoad, node_load_next};
use borough_model::{Delta, NodeId};

use crate::error::StoreResult;
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeKey, NodeLiveKey, NodeLoadKey};

/// What an agent has measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// The session that says so.
    pub session: u64,
    /// The measurement; absent: the agent cannot tell.
    pub measured: Option<LoadMeasured>,
}

/// Notes what agents have measured. What is no more than its node has is taken as it is, the rest is clamped; what hardly
/// differs from what is known writes nothing. Reports of nodes that are not there, and of sessions that others have taken
/// over from, are left out. Answers how many rows were written.
///
/// Nothing but the load is written, and nothing but the load is read with a conflict: so a report fails no other
/// transaction, and only the removal of its node, which clears the load's row, fails a report.
pub async fn node_loads_set(
    tx: &Transaction,
    changes: &mut ChangeSet,
    reports: &BTreeMap<NodeId, LoadReport>,
) -> StoreResult<usize> {
    let (space, now_ms) = (changes.space().clone(), changes.at_ms());
    let mut written = 0;
    for (&node, report) in reports {
        let before = keys::read(tx, &space, &NodeLoadKey { node }).await?;
        let Some(row) = keys::read_snapshot(tx, &space, &NodeKey { node }).await? else { continue };
        let live = keys::read_snapshot(tx, &space, &NodeLiveKey { node }).await?;
        if live.is_none_or(|live| live.session != report.session) {
            continue;
        }
        let Some(load) = node_load_next(before.as_ref(), &row, report.measured, now_ms) else { continue };
        keys::write(tx, &space, &NodeLoadKey { node }, &load)?;
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
