//! Verbs on several nodes: those that are named, or every one with some labels or attributes.

use borough_client::{Client, DrainMode, NodeFilter};
use borough_proto::v1::{LabelMatch, Node, NodeState, Task};
use futures::{StreamExt as _, stream};

use super::bulk::{
    BulkChange, BulkHarm, BulkOutcome, BulkWait, ChosenBy, SharedTimeout, WAITS_AT_ONCE, confirm_all,
    named_read, none_selected, selector_text,
};
use super::confirm::Unattended;
use super::drain::{DrainLimits, drain_mode, drain_wait};
use super::list::NoRows;
use super::node::drain_intent;
use super::selected::nodes_unknown;
use super::unknown::node_missing;
use crate::args::{DrainArguments, Global, NodeChoice, conditions_of};
use crate::exit::{Code, Failure};
use crate::output::{NodeOutput, Printer, labels_text, tally};

const NOUN: &str = "node";

/// The nodes that a verb on several is for.
pub(super) struct ChosenNodes {
    pub(super) names: Vec<String>,
    pub(super) by: ChosenBy,
}

impl ChosenNodes {
    /// The nodes that a command line chooses.
    pub(super) async fn of(client: &Client, choice: &NodeChoice) -> Result<Self, Failure> {
        if choice.nodes.is_empty() {
            return Self::labelled(client, &conditions_of(&choice.label)).await;
        }
        Self::named(client, &choice.nodes, Unattended::Proceed, |_| Ok(())).await
    }

    /// Those that are named, of which each exists and fits.
    async fn named(
        client: &Client,
        nodes: &[String],
        unattended: Unattended,
        check: fn(&Node) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let read = async |node: &String| {
            let row = match client.node_get(node).await {
                Ok(row) => row,
                Err(error) => return Err(node_missing(client, node, error.into()).await),
            };
            check(&row).map(|()| row.name)
        };
        let names = named_read(nodes, NOUN, read).await?;
        Ok(Self { names, by: ChosenBy::Names(unattended) })
    }

    /// Those that meet a selector, read page by page.
    pub(super) async fn labelled(client: &Client, selector: &[LabelMatch]) -> Result<Self, Failure> {
        let unknown = nodes_unknown(client, selector).await?;
        let filter = NodeFilter { selector: selector.to_vec(), ..NodeFilter::default() };
        let nodes = client.node_list_of(&filter).await?;
        // A mistyped key of `!=` would choose everything.
        if !unknown.is_empty() || nodes.is_empty() {
            let none = NoRows { rows: "nodes", user: None, cell: client.cell(), chosen: true, others: &[] };
            return Err(none_selected(&unknown, &none.text()).with_hint("borough node list -o wide"));
        }
        let names = nodes.into_iter().map(|node| node.name).collect();
        Ok(Self { names, by: ChosenBy::Labels })
    }
}

/// What a verb does to each of several nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodesChange<'c> {
    /// In the imperative, before the number of the nodes: `cordon`.
    pub(super) verb: &'c str,
    /// What a node is afterwards: `cordoned`.
    pub(super) done: &'static str,
    pub(super) shown: ChangedNodeFacts,
}

/// What is shown of nodes that were changed: what the change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedNodeFacts {
    /// As a list of nodes.
    Row,
    Labels,
    Taints,
}

impl ChangedNodeFacts {
    /// The line of a node, as the verb on a single one shows it; `None`: a table has it.
    fn line(self, node: &NodeOutput) -> Option<String> {
        match self {
            Self::Row => None,
            Self::Labels => Some(labels_text(&node.name.to_string(), &node.labels)),
            Self::Taints => Some(taints_line(node)),
        }
    }
}

/// The taints that a node has now, in a line.
pub(super) fn taints_line(node: &NodeOutput) -> String {
    format!("{}: {}; {}", node.name, node.state_text(), node.taints_text())
}

/// Changes each of the nodes, after a question, and shows what they are then.
pub(super) async fn nodes_change(
    global: &Global,
    client: &Client,
    chosen: ChosenNodes,
    what: NodesChange<'_>,
    change: impl AsyncFn(&str) -> Result<Node, Failure>,
    printer: &Printer,
) -> Result<Code, Failure> {
    let ChosenNodes { names, by } = chosen;
    let text = format!("{} {}", what.verb, tally(names.len(), NOUN));
    let bulk = BulkChange { what: &text, noun: NOUN, done: what.done, by, harm: BulkHarm::Mild };
    confirm_all(global, client, bulk, &names, printer)?;
    let mut outcome = BulkOutcome::new(bulk, names.len());
    let each = async |node: &String| change(node).await;
    let changed = outcome.each(&names, Clone::clone, each, printer).await;
    shown(changed, what.shown, outcome, printer)
}

/// Forgets several nodes. Each is checked before the first is forgotten.
pub(super) async fn remove_all(
    global: &Global,
    client: &Client,
    nodes: &[String],
    printer: &Printer,
) -> Result<Code, Failure> {
    let chosen = ChosenNodes::named(client, nodes, Unattended::Refuse, removable_check).await?;
    let ChosenNodes { names, by } = chosen;
    let what = format!("forget {}", tally(names.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "removed", by, harm: BulkHarm::Ends };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, names.len());
    let remove = async |node: &String| {
        client.node_remove(node).await?;
        printer.remark(&format!("{node}: removed from cell {}", client.cell()));
        Ok(())
    };
    outcome.each(&names, Clone::clone, remove, printer).await;
    outcome.done()
}

/// Refuses a node that the gateway would not forget, as far as its row shows.
fn removable_check(node: &Node) -> Result<(), Failure> {
    let name = &node.name;
    if node.schedulable && node.state() != NodeState::Lost {
        let text =
            format!("node {name} takes tasks: borough node drain {name}, end its agent, then remove it");
        return Err(Failure::new(Code::Refused, text));
    }
    if node.tasks > 0 {
        let tasks = tally(usize::try_from(node.tasks).unwrap_or(usize::MAX), "task");
        return Err(Failure::new(Code::Refused, format!("node {name} still has {tasks}")));
    }
    Ok(())
}

/// Drains nodes. All are cordoned first: a task that leaves one must not move to the next.
pub(super) async fn drain_all(
    global: &Global,
    client: &Client,
    arguments: &DrainArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let ChosenNodes { names: nodes, by } = ChosenNodes::of(client, &arguments.choice).await?;
    let what = format!("{} {}", drain_intent(arguments), tally(nodes.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done: "drained", by, harm: BulkHarm::Ends };
    confirm_all(global, client, change, &nodes, printer)?;
    let mut outcome = BulkOutcome::new(change, nodes.len());
    let cordon = async |node: &String| Ok(client.node_cordon(node).await.map(|_| node.clone())?);
    // A dry run cordons none, and asks for each what its drain would do.
    let cordoned = if global.dry_run {
        nodes.clone()
    } else {
        outcome.each(&nodes, Clone::clone, cordon, printer).await
    };
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
        let nodes = drained.into_iter().map(|(node, _)| node).collect();
        return shown(nodes, ChangedNodeFacts::Row, outcome, printer);
    }
    let mut left: Vec<String> = drained.iter().map(|(node, _)| node.name.clone()).collect();
    let emptied = all_emptied(client, drained, arguments, &mut outcome, printer).await;
    left.retain(|name| !emptied.iter().any(|node| node.name == *name));
    let choice = match by {
        ChosenBy::Labels => format!("-l {}", selector_text(&conditions_of(&arguments.choice.label))),
        ChosenBy::Names(_) => nodes.join(" "),
    };
    shown(emptied, ChangedNodeFacts::Row, outcome, printer)
        .map_err(|failure| drain_hinted(failure, &choice, &left))
}

/// The most nodes that a hint names.
const HINTED_MAX: usize = 3;

/// The failure of a drain whose wait has ended before all nodes were empty, with what to run next. `left` are those
/// that were not.
fn drain_hinted(failure: Failure, choice: &str, left: &[String]) -> Failure {
    if failure.code() != Code::NotDone || failure.hint().is_some() {
        return failure;
    }
    let left: Vec<String> =
        left.iter().take(HINTED_MAX).map(|node| format!("borough node status {node}")).collect();
    failure.with_hint(format!(
        "why tasks are left: {}; to stop them: borough node drain {choice} --force; to end the \
         drains: borough node uncordon {choice}",
        left.join("; ")
    ))
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
        let mode = drain_mode(arguments);
        let limits = DrainLimits { mode, force_after: None, timeout: timeout.left() };
        let ended = drain_wait(client, &before, node, limits, still).await;
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
fn shown(
    mut nodes: Vec<Node>,
    facts: ChangedNodeFacts,
    outcome: BulkOutcome<'_>,
    printer: &Printer,
) -> Result<Code, Failure> {
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    let views: Vec<NodeOutput> = nodes.into_iter().map(NodeOutput::from).collect();
    let lines: Option<Vec<String>> = views.iter().map(|node| facts.line(node)).collect();
    match lines.filter(|_| facts != ChangedNodeFacts::Row && !printer.is_machine()) {
        Some(lines) if lines.is_empty() => {}
        Some(lines) => printer.answer(&lines.join("\n"))?,
        None if views.is_empty() && !printer.is_machine() => {}
        None => printer.list(&views, "")?,
    }
    outcome.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of nodes has neither.
    #[test]
    fn a_verb_on_several_nodes_shows_what_it_has_changed() {
        let taint = borough_proto::v1::Taint { key: "gpu".to_owned(), ..Default::default() };
        let node = Node {
            name: "n1".to_owned(),
            labels: [("tier".to_owned(), "db".to_owned())].into(),
            taints: vec![taint],
            ..Node::default()
        };
        let node = NodeOutput::from(node);
        assert!(ChangedNodeFacts::Labels.line(&node).is_some_and(|line| line.contains("tier=db")));
        assert!(ChangedNodeFacts::Taints.line(&node).is_some_and(|line| line.contains("taints: gpu")));
        assert_eq!(ChangedNodeFacts::Row.line(&node), None);
    }

    #[test]
    fn a_wait_for_several_drains_that_ends_early_says_what_to_run() {
        let one = |key: &str, not| LabelMatch { key: key.to_owned(), value: "r1".to_owned(), not };
        let selector = selector_text(&[one("rack", false), one("zone", true)]);
        assert_eq!(selector, "'rack=r1,zone!=r1'");
        let left = ["n1", "n2"].map(str::to_owned);
        let failure = drain_hinted(
            Failure::new(Code::NotDone, "2 of 2 nodes: not drained"),
            &format!("-l {selector}"),
            &left,
        );
        let hint = failure.hint().unwrap_or_default();
        assert!(
            hint.starts_with("why tasks are left: borough node status n1; borough node status n2; to"),
            "{hint}"
        );
        assert!(hint.contains("borough node drain -l 'rack=r1,zone!=r1' --force"), "{hint}");
        // The failure of a single node has its own.
        let own = Failure::new(Code::NotDone, "n1: 1 task left").with_hint("borough why op/pin");
        assert_eq!(drain_hinted(own, &selector, &left).hint(), Some("borough why op/pin"));
        let refused = drain_hinted(Failure::new(Code::Refused, "no"), &selector, &left);
        assert_eq!(refused.hint(), None);
    }
}
