//! Operations on nodes: what a request asks of the store.

use std::collections::{BTreeMap, BTreeSet};

use borough_kv::{Idempotency, Transaction};
use borough_model::node::{AgentIdentity, NodeRow, NodeSeen, Taint, TaintMatch};
use borough_model::task::StopReason;
use borough_model::{Name, NodeId, TaskId};
use borough_proto::convert::name_from_text;
use borough_proto::v1;
use borough_store::journal::{ChangeSet, Cursor};
use borough_store::node::{
    node_agent_admit, node_by_name, node_cordon, node_drain, node_labels_set, node_taints_set, node_uncordon,
};
use borough_store::task::{task_list_by_node, task_stop_begin};
use borough_store::{RefusalRemedy, StoreError, StoreResult};
use tonic::Status;

use super::node_messages;
use crate::cell::{Caller, CellContext, KeyedRequest, cursor_to_message, keyed_run};
use crate::status::{status_from_field, status_not_found};

/// Most tasks that one transaction stops.
const STOPPED_MAX: usize = 256;

/// Changes a node. The caller may do so.
pub(super) async fn steer(
    cell: &CellContext,
    caller: &Caller,
    verb: NodeOperation,
    asked: &impl NodeMutation,
) -> Result<(Option<v1::Node>, Option<v1::Cursor>), Status> {
    let name = asked.name();
    let name = name_from_text("name", name).map_err(|refused| status_from_field(&refused))?;
    let (verb, known, space) = (&verb, &name, &cell.space);
    let request = KeyedRequest::new(caller, verb.action(), asked);
    let steered = keyed_run(cell, &request, |tx, mut changes| async move {
        let node = node_by_name(&tx, space, known).await?.id;
        verb.apply(&tx, &mut changes, node).await?;
        Ok((node, changes))
    });
    let (node, cursor) = cell.settled(steered.await).await?;
    let row = cell.state(|state| state.nodes().get(&node).cloned())?;
    let message = node_messages(cell, row.as_slice()).await?.pop();
    let message = message.ok_or_else(|| status_not_found(&format!("node {name} any more")))?;
    Ok((Some(message), Some(cursor_to_message(cursor))))
}

/// A request that changes one node.
pub(super) trait NodeMutation: prost::Message {
    /// The node's name.
    fn name(&self) -> &str;
}

macro_rules! node_mutations {
    ($($request:ident),+) => {$(
        impl NodeMutation for v1::$request {
            fn name(&self) -> &str {
                &self.name
            }
        }
    )+};
}

node_mutations!(
    CordonNodeRequest,
    UncordonNodeRequest,
    DrainNodeRequest,
    TaintNodeRequest,
    UntaintNodeRequest,
    AdmitNodeRequest,
    LabelNodeRequest
);

/// An operation on a node.
#[derive(Clone, Debug)]
pub(super) enum NodeOperation {
    Cordon,
    Uncordon,
    Drain,
    /// With the first stops, which otherwise follow in transactions of their own: for a dry run.
    DrainForced,
    Taint(Vec<Taint>),
    Untaint(Vec<TaintMatch>),
    Admit(AgentIdentity, Option<NodeSeen>),
    Label {
        set: BTreeMap<String, String>,
        remove: BTreeSet<String>,
    },
}

impl NodeOperation {
    fn action(&self) -> &'static str {
        match self {
            Self::Cordon => "node_cordon",
            Self::Uncordon => "node_uncordon",
            Self::Drain | Self::DrainForced => "node_drain",
            Self::Taint(_) => "node_taint",
            Self::Untaint(_) => "node_untaint",
            Self::Admit(..) => "node_admit",
            Self::Label { .. } => "node_label",
        }
    }

    async fn apply(&self, tx: &Transaction, changes: &mut ChangeSet, node: NodeId) -> StoreResult<NodeRow> {
        match self {
            Self::Cordon => node_cordon(tx, changes, node).await,
            Self::Uncordon => node_uncordon(tx, changes, node).await,
            Self::Drain => node_drain(tx, changes, node).await,
            Self::DrainForced => {
                let row = node_drain(tx, changes, node).await?;
                node_tasks_page_stop(tx, changes, node, None).await?;
                Ok(row)
            }
            Self::Taint(taints) => node_taints_set(tx, changes, node, taints, &[]).await,
            Self::Untaint(gone) => node_taints_set(tx, changes, node, &[], gone).await,
            Self::Admit(identity, seen) => node_agent_admit(tx, changes, node, identity, seen.as_ref()).await,
            Self::Label { set, remove } => node_labels_set(tx, changes, node, set, remove).await,
        }
    }
}

/// Begins to stop the next tasks of a node that are of no daemon job. Returns behind which task others follow.
async fn node_tasks_page_stop(
    tx: &Transaction,
    changes: &mut ChangeSet,
    node: NodeId,
    after: Option<TaskId>,
) -> StoreResult<Option<TaskId>> {
    let page = task_list_by_node(tx, changes.space(), node, after, STOPPED_MAX).await?;
    // Those of daemon jobs end last: the controller ends them when the others have left.
    let charged = page.rows.iter().filter(|row| row.state.is_charged() && row.daemon_node.is_none());
    let attempts: Vec<_> = charged.map(|row| (row.id, row.incarnation)).collect();
    task_stop_begin(tx, changes, &attempts, StopReason::Drained).await?;
    Ok(page.next)
}

/// Begins to stop every task of a drained node that is of no daemon job, in as many transactions as needed. Fails if
/// the node accepts tasks again by now.
pub(super) async fn node_tasks_stop(
    cell: &CellContext,
    caller: &Caller,
    name: &Name,
) -> StoreResult<Option<Cursor>> {
    let change = cell.change(caller, "node_drain_force");
    let (change, space) = (&change, &cell.space);
    let (mut after, mut cursor) = (None, None);
    loop {
        let stopped = cell.db.run_committed(change.action, Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let node = node_by_name(&tx, space, name).await?;
            if !node.draining {
                return Err(StoreError::refused_with(
                    RefusalRemedy::ReadAgain,
                    format!("node {name} is not drained any more"),
                ));
            }
            let next = node_tasks_page_stop(&tx, &mut changes, node.id, after).await?;
            let epoch = changes.store_epoch();
            changes.append(&tx)?;
            Ok::<_, StoreError>((next, epoch))
        });
        let ((next, epoch), committed) = stopped.await?;
        cursor = committed.stamp.map(|stamp| Cursor { store_epoch: epoch, stamp }).or(cursor);
        after = next;
        if after.is_none() {
            return Ok(cursor);
        }
    }
}
