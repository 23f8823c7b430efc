//! Verbs on nodes.

use borough_client::Client;
use borough_proto::v1::Node;

use super::confirm::{Intent, confirm};
use super::drain::drain;
use crate::args::{Global, NodeVerb, label_change};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{NodeOutput, NodeStatusView, Printer, TaskOutput, labels_text};
use crate::role::token::node_token;

pub(super) async fn run(global: &Global, verb: NodeVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        NodeVerb::List => {
            let views: Vec<NodeOutput> =
                client.node_list().await?.into_iter().map(NodeOutput::from).collect();
            printer.list(&views)?;
        }
        // Made locally, without a gateway.
        NodeVerb::Token(arguments) => return node_token(global, &arguments, printer),
        NodeVerb::Status { node } => status(&client, &node, printer).await?,
        NodeVerb::Cordon { node } => changed(client.node_cordon(&node).await?, printer)?,
        NodeVerb::Uncordon { node } => changed(client.node_uncordon(&node).await?, printer)?,
        NodeVerb::Admit { node, identity } => {
            let what = format!("give node {node} to agent {identity}");
            confirm(global, &client, Intent::stop(&what), printer)?;
            changed(client.node_admit(&node, &identity).await?, printer)?;
        }
        NodeVerb::Label { node, labels } => {
            let node = client.node_label(&node, label_change(labels)).await?;
            printer
                .one(&NodeOutput::from(node), |node, _| labels_text(&node.name.to_string(), &node.labels))?;
        }
        NodeVerb::Remove { node } => {
            confirm(global, &client, Intent::forget(&format!("forget node {node}")), printer)?;
            client.node_remove(&node).await?;
            printer.remark(&format!("{node}: removed from cell {}", client.cell()));
        }
        NodeVerb::Taint { node, taints } => changed(client.node_taint(&node, taints).await?, printer)?,
        NodeVerb::Untaint { node, taints } => changed(client.node_untaint(&node, taints).await?, printer)?,
        NodeVerb::Drain(arguments) => {
            let what = if arguments.force.is_some() { "stop every task of" } else { "move every task off" };
            let what = format!("{what} node {}", arguments.node);
            confirm(global, &client, Intent::stop(&what), printer)?;
            let node = drain(&client, &arguments, printer).await?;
            changed(node, printer)?;
        }
    }
    Ok(Code::Done)
}

async fn status(client: &Client, name: &str, printer: &Printer) -> Result<(), Failure> {
    let node = client.node_get(name).await?;
    let (tasks, _) = client.task_list_of_node(name).await?;
    let tasks = tasks.into_iter().map(TaskOutput::from).collect();
    printer.one(&NodeStatusView { node: node.into(), tasks }, NodeStatusView::text)
}

fn changed(node: Node, printer: &Printer) -> Result<(), Failure> {
    printer.one(&NodeOutput::from(node), |node, _| format!("{}: {}", node.name, node.state_text()))
}
