//! Reads the liveness of nodes from the store: all of it once, and what has changed afterwards.

use borough_kv::{Database, Idempotency};
use borough_model::NodeId;
use borough_store::node::{
    LiveChanges, LiveCursor, live_changes_read, live_cursor_now, node_live_page, node_live_read,
};
use borough_store::{CellSpace, StoreResult};
use futures::future::try_join_all;

use crate::liveness::Observation;

/// Nodes in one transaction.
const NODES_MAX: usize = 2_000;

/// Follows the order of changes of liveness.
#[derive(Debug, Default)]
pub(crate) struct LiveReader {
    /// Up to where it has read; `None`: the next reading is one of all nodes.
    cursor: Option<LiveCursor>,
}

impl LiveReader {
    /// Reads what has changed since the last reading, and the rows of `also`. A failed reading shows nothing, and the
    /// next one shows the same again.
    pub(crate) async fn read(
        &mut self,
        db: &Database,
        space: &CellSpace,
        also: &[NodeId],
    ) -> StoreResult<Observation> {
        let mut observation = Observation::default();
        let mut cursor = match self.cursor {
            Some(cursor) => cursor,
            None => list(db, space, &mut observation).await?,
        };
        for part in also.chunks(NODES_MAX) {
            let rows = db.run("node_live_read", Idempotency::ReadOnly, |tx, _| async move {
                let row = async |node: NodeId| {
                    StoreResult::Ok((node, node_live_read(&tx, space, node).await?.map(|seen| seen.live)))
                };
                try_join_all(part.iter().map(|node| row(*node))).await
            });
            observation.nodes.extend(rows.await?);
        }
        loop {
            let changes = db.run("live_changes_read", Idempotency::ReadOnly, |tx, _| async move {
                live_changes_read(&tx, space, cursor, NODES_MAX).await
            });
            let LiveChanges { changed, gateways, cursor: next, is_more } = changes.await?;
            observation.nodes.extend(changed);
            cursor = next;
            if !is_more {
                observation.gateways = gateways;
                self.cursor = Some(cursor);
                return Ok(observation);
            }
        }
    }
}

/// Reads every node's row, in parts. Returns a position from which the changes in between are read.
async fn list(db: &Database, space: &CellSpace, observation: &mut Observation) -> StoreResult<LiveCursor> {
    let begin =
        db.run("live_cursor", Idempotency::ReadOnly, |tx, _| async move { live_cursor_now(&tx).await });
    let begin = begin.await?;
    let mut after: Option<NodeId> = None;
    loop {
        let page = db.run("node_live_list", Idempotency::ReadOnly, |tx, _| async move {
            node_live_page(&tx, space, after, NODES_MAX).await
        });
        let page = page.await?;
        let is_last = page.len() < NODES_MAX;
        after = page.last().map(|(node, _)| *node);
        observation.nodes.extend(page.into_iter().map(|(node, live)| (node, Some(live))));
        if is_last {
            return Ok(begin);
        }
    }
}
