//! `node cordon`, `node uncordon` and `node drain` of every node with some labels or attributes.

use borough_client::{Client, DrainMode, NodeFilter};
use borough_proto::v1::{LabelMatch, Node, Task};
use futures::{StreamExt as _, stream};

use super::bulk::{
    BulkChange, BulkOutcome, BulkWait, SharedTimeout, WAITS_AT_ONCE, confirm_all, none_selected,
};
use super::drain::{drain_mode, drain_wait};
use super::list::NoRows;
use super::node::drain_intent;
use super::selected::nodes_unknown;
use crate::args::{DrainArguments, Global};
use crate::exit::{Code, Failure};
use crate::output::{NodeOutput, Printer, tally};

const NOUN: &str = "node";

/// The names of the nodes that meet a selector, read page by page.
async fn nodes_named(client: &Client, selector: &[LabelMatch]) -> Result<Vec<String>, Failure> {
    let unknown = nodes_unknown(client, selector).await?;
    let filter = NodeFilter { selector: selector.to_vec(), ..NodeFilter::default() };
    let nodes = client.node_list_of(&filter).await?;
    // A mistyped key of `!=` would choose everything.
    if !unknown.is_empty() || nodes.is_empty() {
        let none = NoRows { rows: "nodes", user: None, cell: client.cell(), chosen: true, others: &[] };
        return Err(none_selected(&unknown, &none.text()).with_hint("borough node list -o wide"));
    }
    Ok(nodes.into_iter().map(|node| node.name).collect())
}

pub(super) async fn cordon_all(
    global: &Global,
    client: &Client,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<Code, Failure> {
    let nodes = nodes_named(client, selector).await?;
    let what = format!("cordon {}", tally(nodes.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "cordoned" };
    confirm_all(global, client, change, &nodes, printer)?;
    let mut outcome = BulkOutcome::new(change, nodes.len());
    let cordon = async |node: &String| Ok(client.node_cordon(node).await?);
    let cordoned = outcome.each(&nodes, Clone::clone, cordon, printer).await;
    shown(cordoned, outcome, printer)
}

pub(super) async fn uncordon_all(
    global: &Global,
    client: &Client,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<Code, Failure> {
    let nodes = nodes_named(client, selector).await?;
    let what = format!("uncordon {}", tally(nodes.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "uncordoned" };
    confirm_all(global, client, change, &nodes, printer)?;
    let mut outcome = BulkOutcome::new(change, nodes.len());
    let uncordon = async |node: &String| Ok(client.node_uncordon(node).await?);
    let uncordoned = outcome.each(&nodes, Clone::clone, uncordon, printer).await;
    shown(uncordoned, outcome, printer)
}

/// Drains nodes. All are cordoned first: a task that leaves one must not move to the next.
pub(super) async fn drain_all(
    global: &Global,
    client: &Client,
    arguments: &DrainArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let nodes = nodes_named(client, &arguments.choice.label).await?;
    let what = format!("{} {}", drain_intent(arguments), tally(nodes.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "drained" };
    confirm_all(global, client, change, &nodes, printer)?;
    let mut outcome = BulkOutcome::new(change, nodes.len());
    let cordon = async |node: &String| Ok(client.node_cordon(node).await.map(|_| node.clone())?);
    let cordoned = outcome.each(&nodes, Clone::clone, cordon, printer).await;
    if outcome.is_hopeless() {
        return outcome.done();
    }
    let drain = async |node: &String| {
        // Listed before anything is stopped, so that no leaving task is missed.
        let (before, _) = client.task_list_of_node(node).await?;
        Ok((client.node_drain(node, drain_mode(arguments)).await?, before))
    };
    let drained = outcome.each(&cordoned, Clone::clone, drain, printer).await;
    if arguments.detach || outcome.is_hopeless() {
        return shown(drained.into_iter().map(|(node, _)| node).collect(), outcome, printer);
    }
    let emptied = all_emptied(client, drained, arguments, &mut outcome, printer).await;
    let selector = selector_text(&arguments.choice.label);
    shown(emptied, outcome, printer).map_err(|failure| drain_hinted(failure, &selector))
}

/// The failure of a drain whose wait has ended before all nodes were empty, with what to run next.
fn drain_hinted(failure: Failure, selector: &str) -> Failure {
    if failure.code() != Code::NotDone || failure.hint().is_some() {
        return failure;
    }
    failure.with_hint(format!(
        "why tasks are left: borough node drain NODE; to stop them: borough node drain -l '{selector}' --force; to end the \
         drains: borough node uncordon -l '{selector}'"
    ))
}

/// A selector as a person types it.
fn selector_text(selector: &[LabelMatch]) -> String {
    let one =
        |LabelMatch { key, value, not }: &LabelMatch| format!("{key}{}={value}", if *not { "!" } else { "" });
    selector.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Waits until the tasks of the nodes run elsewhere.
async fn all_emptied(
    client: &Client,
    drained: Vec<(Node, Vec<Task>)>,
    arguments: &DrainArguments,
    outcome: &mut BulkOutcome<'_>,
    printer: &Printer,
) -> Vec<Node> {
    let names: Vec<String> = drained.iter().map(|(node, _)| node.name.clone()).collect();
    let (timeout, still) = (SharedTimeout::begin(arguments.timeout), printer.without_motion());
    let (timeout, still) = (&timeout, &still);
    let wait_for = async |(node, before): (Node, Vec<Task>)| {
        let name = node.name.clone();
        let ended = drain_wait(client, &before, node, None, timeout.left(), still).await;
        BulkWait { name, objects: 1, ended }
    };
    let waits = stream::iter(drained).map(wait_for).buffer_unordered(WAITS_AT_ONCE);
    // All at one time, also those that are not waited for yet.
    let forced = async {
        if let Some(after) = arguments.force.filter(|after| !after.is_zero()) {
            tokio::time::sleep(after).await;
            printer.remark("out of time: stopping the tasks that are left");
            for node in &names {
                if let Err(error) = client.node_drain(node, DrainMode::Force).await {
                    printer.remark(&format!("{node}: {}", Failure::from(error).message()));
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        emptied = outcome.waited(waits) => emptied,
        () = forced => Vec::new(),
    }
}

/// Shows the nodes that were changed, by name, and ends with what has failed.
fn shown(mut nodes: Vec<Node>, outcome: BulkOutcome<'_>, printer: &Printer) -> Result<Code, Failure> {
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    let views: Vec<NodeOutput> = nodes.into_iter().map(NodeOutput::from).collect();
    if !views.is_empty() || printer.is_machine() {
        printer.list(&views, "")?;
    }
    outcome.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_several_drains_that_ends_early_says_what_to_run() {
        let one = |key: &str, not| LabelMatch { key: key.to_owned(), value: "r1".to_owned(), not };
        let selector = selector_text(&[one("rack", false), one("zone", true)]);
        assert_eq!(selector, "rack=r1,zone!=r1");
        let failure = drain_hinted(Failure::new(Code::NotDone, "2 of 2 nodes: not drained"), &selector);
        let hint = failure.hint().unwrap_or_default();
        assert!(hint.contains("borough node drain -l 'rack=r1,zone!=r1' --force"), "{hint}");
        // The failure of a single node has its own.
        let own = Failure::new(Code::NotDone, "n1: 1 task left").with_hint("borough why op/pin");
        assert_eq!(drain_hinted(own, &selector).hint(), Some("borough why op/pin"));
        let refused = drain_hinted(Failure::new(Code::Refused, "no"), &selector);
        assert_eq!(refused.hint(), None);
    }
}
