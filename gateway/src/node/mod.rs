//! `NodeService`: operators list, inspect and operate nodes.

mod operation;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::node::{AgentIdentity, NodeAlloc, NodeLoad, NodeRow, NodeSeen, silent_since_ms};
use borough_model::{Name, NodeId};
use borough_proto::convert::{
    FieldRefused, is_drained, labels_removed, name_from_text, node_state_to_message, node_to_message,
    taint_matches_from_message, taints_from_message,
};
use borough_proto::v1;
use borough_proto::v1::node_service_server::NodeService;
use borough_store::StoreError;
use borough_store::mirror::MirrorState;
use borough_store::node::{node_by_name, node_loads_read, node_removable, node_remove, nodes_held_elsewhere};
use tonic::{Request, Response, Status};

use self::operation::{NodeMutation, NodeOperation, node_tasks_stop, steer};
use crate::cell::{
    Ask, Asked, CellContext, Cells, KeyedRequest, cursor_to_message, keyed_found, keyed_run, lost_after_ms,
};
use crate::join::{token_create, token_revoke, tokens_list};
use crate::page::{ListPage, PagedList, page_cut, page_of};
use crate::select::{node_meets, selector_checked};
use crate::session::register::{WatchedLease, lease_watch};
use crate::status::{status_from_field, status_from_store, status_not_found, status_refused};

/// Nodes that are looked at under one hold of the mirror's lock.
const PART_NODES: usize = 1_024;
/// How long an answer waits for the loads of its nodes.
const LOADS_WAIT: Duration = Duration::from_secs(1);

/// The gRPC service of nodes.
#[derive(Clone)]
pub struct NodeServer {
    cells: Arc<Cells>,
    silence: Duration,
}

impl NodeServer {
    /// Serves `cells`. Another agent may take over a node after its lease was unchanged for `silence`.
    pub fn new(cells: Arc<Cells>, silence: Duration) -> Self {
        Self { cells, silence }
    }

    /// Watches the lease of a node that an operator gives to another agent, and returns it if it was silent. Skips the
    /// watch if the node already has that identity.
    async fn silent(
        &self,
        cell: &CellContext,
        name: &Name,
        identity: &AgentIdentity,
    ) -> Result<Option<NodeSeen>, Status> {
        let row = cell.state(|state| state.node_by_name(name).cloned())?;
        let row = row.ok_or_else(|| status_not_found(&format!("node {name} in cell {}", cell.name)))?;
        let known = row.identity.as_ref() == Some(identity);
        let silence = if known { Duration::ZERO } else { self.silence };
        match lease_watch(cell, row.id, silence).await.map_err(|error| status_from_store(&error))? {
            WatchedLease::Silent(seen) => Ok(seen),
            WatchedLease::Beats => {
                let recorded =
                    row.identity.as_ref().map_or_else(|| "of before".to_owned(), ToString::to_string);
                let text = format!(
                    "agent {recorded} of node {name} still reports from host {} (boot {}): end it first, then \
                     admit the other one",
                    row.host, row.boot_id
                );
                Err(status_refused("NODE_STILL_BEATS", text))
            }
        }
    }

    /// Watches that the agent of a node that is to be removed is silent. Refuses at once what a look at the mirror
    /// refuses.
    async fn gone(&self, cell: &CellContext, name: &Name) -> Result<Option<NodeSeen>, Status> {
        let (row, tasks) = cell.state(|state| {
            let row = state.node_by_name(name).cloned();
            let tasks = row.as_ref().map_or(0, |row| state.node_tasks_count(row.id));
            (row, tasks)
        })?;
        let row = row.ok_or_else(|| status_not_found(&format!("node {name} in cell {}", cell.name)))?;
        node_removable(&row, tasks).map_err(|error| status_from_store(&error))?;
        match lease_watch(cell, row.id, self.silence).await.map_err(|error| status_from_store(&error))? {
            WatchedLease::Silent(seen) => Ok(seen),
            WatchedLease::Beats => {
                let text = format!(
                    "the agent of node {name} was heard of from host {} just now; end it, wait some seconds, and then: \
                     borough node remove {name}",
                    row.host
                );
                Err(status_refused("NODE_STILL_BEATS", text))
            }
        }
    }

    /// Admits a change of a node, and makes it.
    async fn steered<M: NodeMutation + Ask>(
        &self,
        request: Request<M>,
        verb: impl FnOnce(&CellContext, &M) -> Result<NodeOperation, Status>,
    ) -> Result<(Option<v1::Node>, Option<v1::Cursor>), Status> {
        let (cell, caller, message) = self.cells.admit_change(request)?;
        steer(cell, &caller, verb(cell, &message)?, &message).await
    }
}

#[tonic::async_trait]
impl NodeService for NodeServer {
    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        selector_checked("selector", &request.selector)?;
        let list = PagedList::new(&cell.name, "nodes");
        let page = list.request(request.page.as_ref())?;
        let cursor = cell.state(MirrorState::cursor)?;
        let rows = nodes_of_page(cell, &request, &page).await;
        let (rows, next) = page_of(rows, &page, |row| row.name.to_string());
        let nodes = rows.iter().zip(node_messages(cell, &rows).await?);
        // The rows do not say that another gateway has the agent of a node.
        let nodes = nodes.filter(|(row, node)| is_listed(cell, &request, row, &|_| node.connected));
        let nodes: Vec<v1::Node> = nodes.map(|(_, node)| node).collect();
        let (nodes, next_page) = page_cut(nodes, next, |node: &v1::Node| node.name.clone());
        let next_page = list.token(&next_page);
        Ok(Response::new(v1::ListNodesResponse { nodes, next_page, cursor: Some(cursor_to_message(cursor)) }))
    }

    async fn get_node(
        &self,
        request: Request<v1::GetNodeRequest>,
    ) -> Result<Response<v1::GetNodeResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let name = name_from_text("name", &request.name).map_err(|refused| status_from_field(&refused))?;
        let (row, cursor) = cell.state(|state| (state.node_by_name(&name).cloned(), state.cursor()))?;
        let row = row.ok_or_else(|| status_not_found(&format!("node {name} in cell {}", cell.name)))?;
        let node = node_messages(cell, &[row]).await?.pop();
        Ok(Response::new(v1::GetNodeResponse { node, cursor: Some(cursor_to_message(cursor)) }))
    }

    async fn cordon_node(
        &self,
        request: Request<v1::CordonNodeRequest>,
    ) -> Result<Response<v1::CordonNodeResponse>, Status> {
        let (node, cursor) = self.steered(request, |_, _| Ok(NodeOperation::Cordon)).await?;
        Ok(Response::new(v1::CordonNodeResponse { node, cursor }))
    }

    async fn uncordon_node(
        &self,
        request: Request<v1::UncordonNodeRequest>,
    ) -> Result<Response<v1::UncordonNodeResponse>, Status> {
        let (node, cursor) = self.steered(request, |_, _| Ok(NodeOperation::Uncordon)).await?;
        Ok(Response::new(v1::UncordonNodeResponse { node, cursor }))
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainNodeResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let verb = if request.force && caller.is_dry_run() {
            NodeOperation::DrainForced
        } else {
            NodeOperation::Drain
        };
        let (node, cursor) = steer(cell, &caller, verb, &request).await?;
        if request.force {
            let name =
                name_from_text("name", &request.name).map_err(|refused| status_from_field(&refused))?;
            let stopped = node_tasks_stop(cell, &caller, &name).await;
            cell.settled(stopped.map(|cursor| ((), cursor))).await?;
        }
        Ok(Response::new(v1::DrainNodeResponse { node, cursor }))
    }

    async fn taint_node(
        &self,
        request: Request<v1::TaintNodeRequest>,
    ) -> Result<Response<v1::TaintNodeResponse>, Status> {
        let taints = |cell: &CellContext, request: &v1::TaintNodeRequest| {
            let taints = taints_from_message(&request.taints, cell.clock.wall_ms());
            Ok(NodeOperation::Taint(taints.map_err(|refused| status_from_field(&refused))?))
        };
        let (node, cursor) = self.steered(request, taints).await?;
        Ok(Response::new(v1::TaintNodeResponse { node, cursor }))
    }

    async fn untaint_node(
        &self,
        request: Request<v1::UntaintNodeRequest>,
    ) -> Result<Response<v1::UntaintNodeResponse>, Status> {
        let gone = |_: &CellContext, request: &v1::UntaintNodeRequest| {
            let gone = taint_matches_from_message(&request.taints);
            Ok(NodeOperation::Untaint(gone.map_err(|refused| status_from_field(&refused))?))
        };
        let (node, cursor) = self.steered(request, gone).await?;
        Ok(Response::new(v1::UntaintNodeResponse { node, cursor }))
    }

    async fn label_node(
        &self,
        request: Request<v1::LabelNodeRequest>,
    ) -> Result<Response<v1::LabelNodeResponse>, Status> {
        let labels = |_: &CellContext, request: &v1::LabelNodeRequest| {
            let remove = labels_removed(&request.labels, &request.remove);
            let remove = remove.map_err(|refused| status_from_field(&refused))?;
            Ok(NodeOperation::Label { set: request.labels.clone(), remove })
        };
        let (node, cursor) = self.steered(request, labels).await?;
        Ok(Response::new(v1::LabelNodeResponse { node, cursor }))
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let name = name_from_text("name", &request.name).map_err(|refused| status_from_field(&refused))?;
        // A completed request is answered again, even if another node has the name by now.
        let gone = self.gone(cell, &name).await;
        let keyed = KeyedRequest::new(&caller, "node_remove", &request);
        let seen = keyed_found(cell, &keyed, gone).await?.flatten();
        let (name, seen, space) = (&name, seen.as_ref(), &cell.space);
        let removed = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let node = node_by_name(&tx, space, name).await?.id;
            node_remove(&tx, &mut changes, node, seen).await?;
            Ok((node, changes))
        });
        let (_, cursor) = cell.settled(removed.await).await?;
        Ok(Response::new(v1::RemoveNodeResponse { cursor: Some(cursor_to_message(cursor)) }))
    }

    async fn create_join_token(
        &self,
        request: Request<v1::CreateJoinTokenRequest>,
    ) -> Result<Response<v1::CreateJoinTokenResponse>, Status> {
        token_create(&self.cells, request).await
    }

    async fn list_join_tokens(
        &self,
        request: Request<v1::ListJoinTokensRequest>,
    ) -> Result<Response<v1::ListJoinTokensResponse>, Status> {
        tokens_list(&self.cells, request).await
    }

    async fn revoke_join_token(
        &self,
        request: Request<v1::RevokeJoinTokenRequest>,
    ) -> Result<Response<v1::RevokeJoinTokenResponse>, Status> {
        token_revoke(&self.cells, request).await
    }

    async fn admit_node(
        &self,
        request: Request<v1::AdmitNodeRequest>,
    ) -> Result<Response<v1::AdmitNodeResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let identity: AgentIdentity = request.identity.parse().map_err(|_| {
            let accepted = "the identity that the refused agent logs: DURABLE@MACHINE";
            status_from_field(&FieldRefused::new("identity", request.identity.clone(), accepted))
        })?;
        let name = name_from_text("name", &request.name).map_err(|refused| status_from_field(&refused))?;
        // A completed request is answered again, even if another agent has the node by now and renews its lease.
        let silent = self.silent(cell, &name, &identity).await;
        let keyed = KeyedRequest::new(&caller, "node_admit", &request);
        let seen = keyed_found(cell, &keyed, silent).await?.flatten();
        let verb = NodeOperation::Admit(identity, seen);
        let (node, cursor) = steer(cell, &caller, verb, &request).await?;
        Ok(Response::new(v1::AdmitNodeResponse { node, cursor }))
    }
}

/// The nodes of a page, and one more that shows that others follow. Each hold of the mirror's lock looks at a part.
async fn nodes_of_page(
    cell: &CellContext,
    request: &v1::ListNodesRequest,
    page: &ListPage,
) -> Vec<Arc<NodeRow>> {
    let (mut rows, mut after) = (Vec::new(), page.after.clone());
    let is_held_here = |row: &NodeRow| cell.sessions.get(row.id).is_some();
    loop {
        let part: Vec<Arc<NodeRow>> = cell
            .mirror
            .read(|state| state.nodes_behind(after.as_deref()).take(PART_NODES).cloned().collect());
        let last = part.last().filter(|_| part.len() >= PART_NODES).map(|row| row.name.to_string());
        rows.extend(part.into_iter().filter(|row| is_listed(cell, request, row, &is_held_here)));
        rows.truncate(page.limit.saturating_add(1));
        if last.is_none() || rows.len() > page.limit {
            return rows;
        }
        after = last;
        tokio::task::yield_now().await;
    }
}

fn is_listed(
    cell: &CellContext,
    request: &v1::ListNodesRequest,
    row: &NodeRow,
    is_connected: &dyn Fn(&NodeRow) -> bool,
) -> bool {
    let is_any = request.states.is_empty() && request.conditions.is_empty();
    let is_in_state = is_any || request.states().any(|state| state == node_state_to_message(row.state));
    let is_in = |condition| match condition {
        v1::NodeCondition::NotConnected => !is_connected(row),
        other => is_in_condition(cell, row, other),
    };
    (is_in_state || request.conditions().any(is_in)) && node_meets(&request.selector, row)
}

/// Returns true if the drain of a node is done.
fn is_emptied(cell: &CellContext, row: &NodeRow) -> bool {
    // Only a drained node needs the mirror's lock.
    let empty = NodeAlloc::default();
    row.draining
        && cell
            .mirror
            .read(|state| is_drained(row, state.allocs().get(&row.id).map_or(&empty, |alloc| &**alloc)))
}

fn is_in_condition(cell: &CellContext, row: &NodeRow, condition: v1::NodeCondition) -> bool {
    match condition {
        // Whoever asks says who is connected.
        v1::NodeCondition::Unspecified | v1::NodeCondition::NotConnected => false,
        v1::NodeCondition::Cordoned => !row.schedulable && !row.draining,
        v1::NodeCondition::Draining => row.draining && !is_emptied(cell, row),
        v1::NodeCondition::Drained => is_emptied(cell, row),
        v1::NodeCondition::Tainted => !row.taints.is_empty(),
        v1::NodeCondition::Silent => silent_since_ms(&row.taints).is_some(),
        v1::NodeCondition::SessionFailing => cell.sessions.failures.of(row.id).is_some(),
    }
}

/// Converts nodes to messages, with the loads that their rows have: the journal, and thus the mirror, has loads only
/// while somebody follows them. If the store does not answer, a message has the load that the mirror knows.
async fn node_messages(cell: &CellContext, rows: &[Arc<NodeRow>]) -> Result<Vec<v1::Node>, Status> {
    let nodes: Vec<NodeId> = rows.iter().map(|row| row.id).collect();
    let not_here: Vec<NodeId> =
        nodes.iter().copied().filter(|node| cell.sessions.get(*node).is_none()).collect();
    let (nodes, not_here, space, own) = (&nodes, &not_here, &cell.space, cell.sessions.address.as_str());
    let read = cell.db.run("nodes_seen_read", Idempotency::ReadOnly, |tx, _| async move {
        let loads = node_loads_read(&tx, space, nodes).await?;
        Ok::<_, StoreError>((loads, nodes_held_elsewhere(&tx, space, not_here, own).await?))
    });
    let (loads, elsewhere) = match tokio::time::timeout(LOADS_WAIT, read).await {
        Ok(Ok((loads, elsewhere))) => (Some(loads), elsewhere),
        Ok(Err(_)) | Err(_) => (None, BTreeSet::new()),
    };
    let mut messages: Vec<v1::Node> = cell.state(|state| {
        let load_of = |node| match &loads {
            Some(loads) => loads.get(&node),
            None => state.loads().get(&node).map(|load| &**load),
        };
        let message = |row: &Arc<NodeRow>| {
            let message = node_message(cell, state, row, load_of(row.id));
            v1::Node { connected: message.connected || elsewhere.contains(&row.id), ..message }
        };
        rows.iter().map(message).collect()
    })?;
    let is_silent = |node: &v1::Node| node.silent_since_ms > 0 && node.state() != v1::NodeState::Lost;
    if messages.iter().any(is_silent)
        && let Some(tolerance_ms) = lost_after_ms(cell).await
    {
        for node in messages.iter_mut().filter(|node| is_silent(node)) {
            node.lost_at_ms = node.silent_since_ms.saturating_add_unsigned(tolerance_ms);
        }
    }
    Ok(messages)
}

/// Converts a node of the mirror to a message.
pub fn node_message(
    cell: &CellContext,
    state: &MirrorState,
    row: &NodeRow,
    load: Option<&NodeLoad>,
) -> v1::Node {
    let empty = NodeAlloc::default();
    let alloc = state.allocs().get(&row.id).map_or(&empty, |alloc| &**alloc);
    let connected = cell.sessions.get(row.id).is_some();
    let session_failure = cell.sessions.failures.of(row.id);
    v1::Node { connected, session_failure, ..node_to_message(&cell.name, row, alloc, load) }
}
