//! Verbs on nodes.

use borough_client::{Client, NodeFilter};
use borough_proto::v1::Node;

use super::drain::drain;
use super::list::{self, list_page};
use crate::args::{Global, NodeVerb};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{NodeOutput, NodeStatusView, Printer, TaskOutput};
use crate::role::token::node_token;

pub(super) async fn run(global: &Global, verb: NodeVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        NodeVerb::List { label, state, list } => {
            let filter = NodeFilter { states: state, selector: label };
            let fetch = async |page| {
                let answer = client.node_list_page(&filter, page).await?;
                Ok(list_page::<_, NodeOutput>(answer.nodes, answer.next_page))
            };
            return list::list(&list, printer, fetch).await;
        }
        // Made locally, without a gateway.
        NodeVerb::Token(arguments) => return node_token(global, &arguments, printer),
        NodeVerb::Status { node } => status(&client, &node, printer).await?,
        NodeVerb::Cordon { node } => changed(client.node_cordon(&node).await?, printer)?,
        NodeVerb::Uncordon { node } => changed(client.node_uncordon(&node).await?, printer)?,
        NodeVerb::Admit { node, identity } => changed(client.node_admit(&node, &identity).await?, printer)?,
        NodeVerb::Taint { node, taints } => changed(client.node_taint(&node, taints).await?, printer)?,
        NodeVerb::Untaint { node, taints } => changed(client.node_untaint(&node, taints).await?, printer)?,
        NodeVerb::Drain(arguments) => {
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
