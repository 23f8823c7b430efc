//! The measured load of nodes. It has rows of its own, apart from commitments, so that a measurement never fails a
//! placement.

use borough_model::Delta;
use borough_model::node::{LoadMeasured, node_load_next};
use futures::future::try_join_all;

use super::NodeWriter;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, NodeKey, NodeLoadKey};

/// Writes agents' measurements; `None`: the agent cannot measure. Values above the node's capacity are clamped, and a
/// value that hardly differs from the stored one is not written. Returns the number of written rows.
///
/// Only the load is written, and only the load and the session are read with a conflict. A report therefore fails no
/// other transaction, and only a registration or the removal of its node fails a report.
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
