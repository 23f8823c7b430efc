//! Verbs on nodes.

use std::time::Duration;

use borough_client::Client;
use borough_proto::v1::{Node, TaskState};

use crate::args::{Global, NodeVerb};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{NodeStatusView, NodeView, Printer, Progress, TaskView, tally};

/// How often a drained node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn run(global: &Global, verb: NodeVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global)?;
    match verb {
        NodeVerb::List => {
            let views: Vec<NodeView> = client.node_list().await?.into_iter().map(NodeView::from).collect();
            printer.list(&views)?;
        }
        NodeVerb::Status { node } => status(&client, &node, printer).await?,
        NodeVerb::Cordon { node } => changed(client.node_cordon(&node).await?, printer)?,
        NodeVerb::Uncordon { node } => changed(client.node_uncordon(&node).await?, printer)?,
        NodeVerb::Taint { node, taints } => changed(client.node_taint(&node, taints).await?, printer)?,
        NodeVerb::Untaint { node, taints } => changed(client.node_untaint(&node, taints).await?, printer)?,
        NodeVerb::Drain { node, detach, timeout } => {
            let drained = client.node_drain(&node).await?;
            if !detach {
                emptied(&client, &node, timeout, printer).await?;
            }
            changed(drained, printer)?;
        }
    }
    Ok(Code::Done)
}

async fn status(client: &Client, name: &str, printer: &Printer) -> Result<(), Failure> {
    let node = client.node_get(name).await?;
    let (tasks, _) = client.task_list_of_node(name).await?;
    let tasks = tasks.into_iter().map(TaskView::from).collect();
    printer.one(&NodeStatusView { node: node.into(), tasks }, NodeStatusView::text)
}

fn changed(node: Node, printer: &Printer) -> Result<(), Failure> {
    printer.one(&NodeView::from(node), |node, _| format!("{}: {}", node.name, node.state_text()))
}

/// Waits until no task is left on the node.
async fn emptied(
    client: &Client,
    node: &str,
    timeout: Option<Duration>,
    printer: &Printer,
) -> Result<(), Failure> {
    let mut progress = Progress::new(printer);
    let emptying = async {
        loop {
            let (tasks, _) = client.task_list_of_node(node).await?;
            let left = tasks.iter().filter(|task| task.state() != TaskState::Dead).count();
            if left == 0 {
                return Ok(());
            }
            progress.stand(&format!("{node}: {} left", tally(left, "task")));
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let Some(timeout) = timeout else { return emptying.await };
    tokio::time::timeout(timeout, emptying).await.unwrap_or_else(|_| {
        let waited = humantime::format_duration(timeout);
        Err(Failure::new(Code::Failed, format!("{node} still has tasks after {waited}; the drain goes on")))
    })
}
