//! The measured load of nodes. It has rows of its own, apart from commitments, so that a measurement never fails a
//! placement.
//!
//! The journal has loads only while somebody follows them ([`LoadJournal`]). Otherwise a change is written to the
//! node's row alone, which says so. Whoever begins to follow loads does the steps from [`LoadsStep::Begin`] on. After
//! the last one the journal has the load of every node.

use std::collections::BTreeMap;

use borough_kv::Transaction;
use borough_model::node::{LoadMeasured, NodeLoad, node_load_next};
use borough_model::{Delta, NodeId};
use futures::future::try_join_all;

use super::NodeWriter;
use crate::cell::cell_meta_read;
use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellMetaKey, CellSpace, NodeKey, NodeLoadKey, Prefix, RangeOptions};
use crate::row::{CellMeta, LoadJournal};

/// Writes agents' measurements; `None`: the agent cannot measure. Values above the node's capacity are clamped, and a
/// value that hardly differs from the stored one is not written. Returns the number of written rows.
///
/// Only the load is written, and only the load, the session and the cell's settings are read with a conflict. A report
/// therefore fails no other transaction. A registration, the removal of its node and a change of the settings fail a
/// report: after [`LoadsStep::Begin`] no row changes without the journal.
pub async fn node_loads_set(
    changes: &mut ChangeSet,
    reports: &[(&NodeWriter<'_>, Option<LoadMeasured>)],
) -> StoreResult<usize> {
    let Some((first, _)) = reports.first() else { return Ok(0) };
    let (space, now_ms) = (changes.space().clone(), changes.at_ms());
    let unjournalled =
        (cell_meta_read(first.tx(), &space).await?.loads == Some(LoadJournal::Off)).then_some(true);
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
        let load = NodeLoad { unjournalled, ..load };
        keys::write(writer.tx(), &space, &NodeLoadKey { node }, &load)?;
        if !load.is_unjournalled() {
            changes.push(Delta::NodeLoad { node, load });
        }
        written += 1;
    }
    Ok(written)
}

/// The present loads of these nodes, without conflicts.
pub async fn node_loads_read(
    tx: &Transaction,
    space: &CellSpace,
    nodes: &[NodeId],
) -> StoreResult<BTreeMap<NodeId, NodeLoad>> {
    let read = async |node: NodeId| {
        let load = keys::read_snapshot(tx, space, &NodeLoadKey { node }).await?;
        StoreResult::Ok(load.map(|load| (node, load)))
    };
    let loads = try_join_all(nodes.iter().map(|node| read(*node))).await?;
    Ok(loads.into_iter().flatten().collect())
}

/// Most nodes in one transaction: 500 loads take a third of a part of the journal.
const FOLLOWED_MAX: usize = 500;

/// A transaction by which the journal begins, or ends, to have the loads of nodes, and thus what is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadsStep {
    /// Begin, unless the journal has every load.
    Begin,
    /// Journal the loads of the nodes after this one.
    Page(Option<NodeId>),
    /// The journal has every load.
    Begun,
    /// Nobody follows loads any more.
    End,
    /// It is done.
    Over,
    /// Somebody has ended it meanwhile: begin again.
    Ended,
}

impl LoadsStep {
    /// Returns true if a transaction is left.
    pub fn is_left(self) -> bool {
        !matches!(self, Self::Over | Self::Ended)
    }

    /// The action of its entry.
    pub fn action(self) -> &'static str {
        match self {
            Self::Begin => "loads_begin",
            Self::Page(_) => "node_loads",
            Self::Begun | Self::Over | Self::Ended => "loads_begun",
            Self::End => "loads_end",
        }
    }

    /// Does it. Returns the next one.
    pub async fn write(self, tx: &Transaction, changes: &mut ChangeSet) -> StoreResult<Self> {
        Ok(match self {
            Self::Begin if loads_begin(tx, changes).await? => Self::Page(None),
            Self::Begin => Self::Over,
            Self::Page(after) => {
                let last = loads_journal(tx, changes, after, FOLLOWED_MAX).await?;
                last.map_or(Self::Begun, |last| Self::Page(Some(last)))
            }
            Self::Begun if loads_begun(tx, changes).await? => Self::Over,
            Self::Begun => Self::Ended,
            Self::End => {
                loads_end(tx, changes).await?;
                Self::Over
            }
            Self::Over | Self::Ended => self,
        })
    }
}

/// From its commit on the journal has every change of a load. Returns false if somebody has done all of it before.
/// Otherwise the loads of before are still to be journalled.
pub(crate) async fn loads_begin(tx: &Transaction, changes: &ChangeSet) -> StoreResult<bool> {
    let space = changes.space();
    let meta = cell_meta_read(tx, space).await?;
    match meta.loads {
        Some(LoadJournal::On) => return Ok(false),
        Some(LoadJournal::Begun) => {}
        // Absent: nobody has decided, or a process of an older version has written the settings without it.
        None | Some(LoadJournal::Off) => loads_write(tx, space, meta, LoadJournal::Begun)?,
    }
    Ok(true)
}

/// Journals the loads of up to `limit` nodes after `after` that the journal does not have. Returns the last of these
/// nodes; `None`: there are no more nodes.
pub(crate) async fn loads_journal(
    tx: &Transaction,
    changes: &mut ChangeSet,
    after: Option<NodeId>,
    limit: usize,
) -> StoreResult<Option<NodeId>> {
    let space = changes.space().clone();
    let options =
        RangeOptions { after: after.map(|node| NodeLoadKey { node }), limit, ..RangeOptions::snapshot() };
    let page = keys::range::<NodeLoadKey>(tx, &space, &Prefix::all(), options).await?;
    let last = page.last().filter(|_| page.len() >= limit).map(|(key, _)| key.node);
    for (key, _) in page.into_iter().filter(|(_, load)| load.is_unjournalled()) {
        // Again, with a conflict: its agent may report meanwhile.
        let Some(load) = keys::read(tx, &space, &key).await? else { continue };
        let load = NodeLoad { revision: load.revision.saturating_add(1), unjournalled: None, ..load };
        keys::write(tx, &space, &key, &load)?;
        changes.push(Delta::NodeLoad { node: key.node, load });
    }
    Ok(last)
}

/// The journal has every load. Returns false if somebody has ended it since [`LoadsStep::Begin`]: begin again.
pub(crate) async fn loads_begun(tx: &Transaction, changes: &ChangeSet) -> StoreResult<bool> {
    let space = changes.space();
    let meta = cell_meta_read(tx, space).await?;
    match meta.loads {
        Some(LoadJournal::On) => return Ok(true),
        None | Some(LoadJournal::Off) => return Ok(false),
        Some(LoadJournal::Begun) => loads_write(tx, space, meta, LoadJournal::On)?,
    }
    Ok(true)
}

/// Nobody follows loads any more: the journal has none from now on.
pub(crate) async fn loads_end(tx: &Transaction, changes: &ChangeSet) -> StoreResult<()> {
    let space = changes.space();
    let meta = cell_meta_read(tx, space).await?;
    if meta.loads == Some(LoadJournal::Off) {
        return Ok(());
    }
    loads_write(tx, space, meta, LoadJournal::Off)
}

/// Without a revision: workers need not list the cell again.
fn loads_write(tx: &Transaction, space: &CellSpace, meta: CellMeta, loads: LoadJournal) -> StoreResult<()> {
    keys::write(tx, space, &CellMetaKey {}, &CellMeta { loads: Some(loads), ..meta })
}
