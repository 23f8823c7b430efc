//! Nodes: list, describe and operate them.

use std::time::Duration;

use borough_proto::v1::node_service_client::NodeServiceClient;
use borough_proto::v1::{
    AdmitNodeRequest, CordonNodeRequest, DrainNodeRequest, GetNodeRequest, LabelMatch, LabelNodeRequest,
    ListNodesRequest, ListNodesResponse, Node, NodeCondition, NodeState, PageRequest, RemoveNodeRequest,
    Taint, TaintMatch, TaintNodeRequest, UncordonNodeRequest, UntaintNodeRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;
use crate::job::LabelChange;

/// The gateway watches the silence of the recorded agent before it answers.
const SILENCE_DEADLINE: Duration = Duration::from_secs(60);

/// How a drain treats tasks without room elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainMode {
    /// They keep running until they have room.
    Wait,
    /// They are stopped, and wait for a node.
    Force,
}

/// Which nodes are listed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeFilter {
    /// Only those in one of these states or conditions; without both: all.
    pub states: Vec<NodeState>,
    pub conditions: Vec<NodeCondition>,
    /// Only those with labels that meet all of these conditions.
    pub selector: Vec<LabelMatch>,
}

impl Client {
    /// Every node of the cell, by name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_list(&self) -> Result<Vec<Node>, ClientError> {
        self.node_list_of(&NodeFilter::default()).await
    }

    /// Every page of [`Client::node_list_page`].
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_list_of(&self, filter: &NodeFilter) -> Result<Vec<Node>, ClientError> {
        let (mut nodes, mut page) = (Vec::new(), PageRequest::default());
        loop {
            let answer = self.node_list_page(filter, page).await?;
            nodes.extend(answer.nodes);
            if answer.next_page.is_empty() {
                return Ok(nodes);
            }
            page = PageRequest { limit: 0, page: answer.next_page };
        }
    }

    /// One page of the nodes, by name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_list_page(
        &self,
        filter: &NodeFilter,
        page: PageRequest,
    ) -> Result<ListNodesResponse, ClientError> {
        let message = ListNodesRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            page: Some(page),
            selector: filter.selector.clone(),
            states: filter.states.iter().map(|&state| state.into()).collect(),
            conditions: filter.conditions.iter().map(|&condition| condition.into()).collect(),
        };
        self.call("ListNodes", message, rpc!(NodeServiceClient.list_nodes)).await
    }

    /// One node.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the node does not exist.
    pub async fn node_get(&self, name: &str) -> Result<Node, ClientError> {
        let message = GetNodeRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
        };
        let answer = self.call("GetNode", message, rpc!(NodeServiceClient.get_node)).await?;
        present("GetNode", "node", answer.node)
    }

    /// Cordons the node: nothing is placed there after the answer.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_cordon(&self, name: &str) -> Result<Node, ClientError> {
        let message = CordonNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
        };
        let answer = self.call("CordonNode", message, rpc!(NodeServiceClient.cordon_node)).await?;
        present("CordonNode", "node", answer.node)
    }

    /// Lets the node take new tasks again; ends a drain.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_uncordon(&self, name: &str) -> Result<Node, ClientError> {
        let message = UncordonNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
        };
        let answer = self.call("UncordonNode", message, rpc!(NodeServiceClient.uncordon_node)).await?;
        present("UncordonNode", "node", answer.node)
    }

    /// Cordons the node and moves its tasks elsewhere, each as soon as it has room there; with `DrainMode::Force` every
    /// task is stopped now. Returns when that is committed.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_drain(&self, name: &str, mode: DrainMode) -> Result<Node, ClientError> {
        let message = DrainNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
            force: mode == DrainMode::Force,
        };
        let answer = self.call("DrainNode", message, rpc!(NodeServiceClient.drain_node)).await?;
        present("DrainNode", "node", answer.node)
    }

    /// Sets taints of the node; one of the same key and effect gets the new value. Running tasks that do not tolerate a
    /// new one of `NO_EXECUTE` are moved elsewhere. Returns when that is committed.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` names an invalid taint.
    pub async fn node_taint(&self, name: &str, taints: Vec<Taint>) -> Result<Node, ClientError> {
        let message = TaintNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
            taints,
        };
        let answer = self.call("TaintNode", message, rpc!(NodeServiceClient.taint_node)).await?;
        present("TaintNode", "node", answer.node)
    }

    /// Gives the node to the agent `identity` (`DURABLE@MACHINE`), since the machine of the recorded one is gone for
    /// good. The gateway first watches the silence of the recorded agent. Returns when the change is committed.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the recorded agent still reports, or the node is not lost yet.
    pub async fn node_admit(&self, name: &str, identity: &str) -> Result<Node, ClientError> {
        let message = AdmitNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
        };
        let answer = {
            let send = rpc!(NodeServiceClient.admit_node);
            self.call_within(SILENCE_DEADLINE, "AdmitNode", message, send).await?
        };
        present("AdmitNode", "node", answer.node)
    }

    /// Sets and removes labels of the node.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` names an invalid label.
    pub async fn node_label(&self, name: &str, change: LabelChange) -> Result<Node, ClientError> {
        let message = LabelNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
            labels: change.set,
            remove: change.remove,
        };
        let answer = self.call("LabelNode", message, rpc!(NodeServiceClient.label_node)).await?;
        present("LabelNode", "node", answer.node)
    }

    /// Forgets a node that is gone. The gateway first watches the silence of its agent. Returns when the removal is
    /// committed.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` while the node could be given tasks, has some, or its agent reports.
    pub async fn node_remove(&self, name: &str) -> Result<(), ClientError> {
        let message = RemoveNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
        };
        let send = rpc!(NodeServiceClient.remove_node);
        self.call_within(SILENCE_DEADLINE, "RemoveNode", message, send).await.map(drop)
    }

    /// Removes taints of the node; missing ones are ignored.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_untaint(&self, name: &str, taints: Vec<TaintMatch>) -> Result<Node, ClientError> {
        let message = UntaintNodeRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            name: name.to_owned(),
            taints,
        };
        let answer = self.call("UntaintNode", message, rpc!(NodeServiceClient.untaint_node)).await?;
        present("UntaintNode", "node", answer.node)
    }
}
