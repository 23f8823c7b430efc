//! Verbs on nodes.

use borough_client::{Client, LabelChange, NodeFilter};
use borough_proto::v1::{LabelMatch, Node, Taint, TaintMatch, WatchFilter};

use super::confirm::{Intent, confirm};
use super::drain::{drain, staying_explained};
use super::list::{NoRows, list_page};
use super::node_bulk::{
    ChangedNodeFacts, ChosenNodes, NodesChange, drain_all, nodes_change, remove_all, taints_line,
};
use super::removed::{labels_absent, taints_absent};
use super::selected::nodes_selected;
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::NodeChoice;
use crate::args::{
    DrainArguments, Global, LabelConditions, ListArguments, NameOrChange, NodeStateOrCondition, NodeVerb,
    WatchArguments, conditions_of, label_change, taint_match,
};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{Foreign, NodeOutput, NodeStatusView, Printer, TaskOutput, labels_text};
use crate::role::token::node_token;

pub(super) async fn run(global: &Global, verb: NodeVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        NodeVerb::List { label, state, list } => {
            return self::list(&client, filter_of(&state, conditions_of(&label)), &list, printer).await;
        }
        // Made locally, without a gateway.
        NodeVerb::Token(arguments) => return node_token(global, &arguments, printer),
        NodeVerb::JoinToken(verb) => return super::join::run(global, &client, verb, printer).await,
        NodeVerb::Status { node: Some(node), watching } => {
            return status(&client, &node, watching, printer).await;
        }
        NodeVerb::Status { node: None, watching } => {
            let listed = ListArguments { watching, ..ListArguments::default() };
            return self::list(&client, NodeFilter::default(), &listed, printer).await;
        }
        NodeVerb::Cordon(choice) => {
            let what = NodesChange { verb: "cordon", done: "cordoned", shown: ChangedNodeFacts::Row };
            let cordon = async |node: &str| Ok(client.node_cordon(node).await?);
            return each_chosen(global, &client, &choice, what, cordon, printer).await;
        }
        NodeVerb::Uncordon(choice) => {
            let what = NodesChange { verb: "uncordon", done: "uncordoned", shown: ChangedNodeFacts::Row };
            let uncordon = async |node: &str| Ok(client.node_uncordon(node).await?);
            return each_chosen(global, &client, &choice, what, uncordon, printer).await;
        }
        NodeVerb::Admit { node, identity } => {
            let what = format!("give node {node} to agent {identity}");
            confirm(global, &client, Intent::stop(&what), printer)?;
            changed(client.node_admit(&node, &identity).await?, printer)?;
        }
        NodeVerb::Label { node, changes, label } => {
            let (node, changes) = apart(node, changes, &label, "borough node label --help")?;
            let change = label_change(changes).map_err(|text| Failure::new(Code::Usage, text))?;
            match node {
                Some(node) => labelled(&client, &node, change, printer).await?,
                None => return label_all(global, &client, &conditions_of(&label), &change, printer).await,
            }
        }
        NodeVerb::Remove { nodes } => {
            let [node] = nodes.as_slice() else {
                return remove_all(global, &client, &nodes, printer).await;
            };
            remove(global, &client, node, printer).await?;
        }
        NodeVerb::Taint { node, taints, label } => {
            let (node, taints) = apart(node, taints, &label, "borough node taint --help")?;
            match node {
                Some(node) => tainted(client.node_taint(&node, taints).await?, printer)?,
                None => return taint_all(global, &client, &conditions_of(&label), &taints, printer).await,
            }
        }
        NodeVerb::Untaint { node, taints, label } if label.is_empty() => {
            taints_absent(&client, &node, &taints, printer).await?;
            tainted(client.node_untaint(&node, taints).await?, printer)?;
        }
        NodeVerb::Untaint { node: first, taints, label } => {
            return untaint_all(global, &client, &label, taints_of_words(&first, taints)?, printer).await;
        }
        NodeVerb::Drain(arguments) => {
            let [node] = arguments.choice.nodes.as_slice() else {
                return drain_all(global, &client, &arguments, printer).await;
            };
            drain_one(global, &client, node, &arguments, printer).await?;
        }
    }
    Ok(Code::Done)
}

async fn list(
    client: &Client,
    filter: NodeFilter,
    listed: &ListArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    nodes_selected(client, &filter.selector, printer).await?;
    let fetch = async |page| {
        let answer = client.node_list_page(&filter, page).await?;
        Ok(list_page::<_, NodeOutput>(answer.nodes, answer.next_page))
    };
    let watched = WatchedView::cell(client.clone(), changes_of(""));
    let chosen = filter != NodeFilter::default();
    let none = NoRows { rows: "nodes", user: None, cell: client.cell(), chosen, others: &[] };
    list_or_watch(watched, listed, none.text(), printer, fetch).await
}

/// Drains a node after the question.
async fn drain_one(
    global: &Global,
    client: &Client,
    node: &str,
    arguments: &DrainArguments,
    printer: &Printer,
) -> Result<(), Failure> {
    let what = format!("{} node {node}", drain_intent(arguments));
    confirm(global, client, Intent::stop(&what), printer)?;
    changed(drain(client, node, arguments, printer).await?, printer)
}

/// Forgets a node after the question.
async fn remove(global: &Global, client: &Client, node: &str, printer: &Printer) -> Result<(), Failure> {
    client.node_get(node).await?;
    confirm(global, client, Intent::forget(&format!("forget node {node}")), printer)?;
    printer.remark(&format!(
        "{node}: the gateway first watches for reports of its agent, which may take a minute"
    ));
    client.node_remove(node).await?;
    printer.remark(&format!("{node}: removed from cell {}", client.cell()));
    Ok(())
}

/// Changes one node by its name, or several.
async fn each_chosen(
    global: &Global,
    client: &Client,
    choice: &NodeChoice,
    what: NodesChange<'_>,
    change: impl AsyncFn(&str) -> Result<Node, Failure>,
    printer: &Printer,
) -> Result<Code, Failure> {
    if let [node] = choice.nodes.as_slice() {
        changed(change(node).await?, printer)?;
        return Ok(Code::Done);
    }
    let chosen = ChosenNodes::of(client, choice).await?;
    nodes_change(global, client, chosen, what, change, printer).await
}

/// Sets and removes labels of every node with some labels or attributes.
async fn label_all(
    global: &Global,
    client: &Client,
    selector: &[LabelMatch],
    change: &LabelChange,
    printer: &Printer,
) -> Result<Code, Failure> {
    let chosen = ChosenNodes::labelled(client, selector).await?;
    let what = NodesChange { verb: "change labels of", done: "labelled", shown: ChangedNodeFacts::Labels };
    let set = async |node: &str| Ok(client.node_label(node, change.clone()).await?);
    nodes_change(global, client, chosen, what, set, printer).await
}

/// Taints every node with some labels or attributes.
async fn taint_all(
    global: &Global,
    client: &Client,
    selector: &[LabelMatch],
    taints: &[Taint],
    printer: &Printer,
) -> Result<Code, Failure> {
    let chosen = ChosenNodes::labelled(client, selector).await?;
    let what = NodesChange { verb: "taint", done: "tainted", shown: ChangedNodeFacts::Taints };
    let set = async |node: &str| Ok(client.node_taint(node, taints.to_vec()).await?);
    nodes_change(global, client, chosen, what, set, printer).await
}

/// The taints to remove with `--label`, where every word is one: a bare key looks like the name of a node.
fn taints_of_words(first: &str, rest: Vec<TaintMatch>) -> Result<Vec<TaintMatch>, Failure> {
    let first = taint_match(first).map_err(|problem| {
        Failure::new(Code::Usage, format!("{first:?} {problem}")).with_hint("borough node untaint --help")
    })?;
    Ok(std::iter::once(first).chain(rest).collect())
}

/// Removes taints of every node with some labels or attributes.
async fn untaint_all(
    global: &Global,
    client: &Client,
    selector: &[LabelConditions],
    taints: Vec<TaintMatch>,
    printer: &Printer,
) -> Result<Code, Failure> {
    let chosen = ChosenNodes::labelled(client, &conditions_of(selector)).await?;
    let what = NodesChange { verb: "remove taints of", done: "untainted", shown: ChangedNodeFacts::Taints };
    let set = async |node: &str| Ok(client.node_untaint(node, taints.clone()).await?);
    nodes_change(global, client, chosen, what, set, printer).await
}

/// The node that is named, if one is, and the changes.
fn apart<C>(
    first: Option<NameOrChange<String, C>>,
    rest: Vec<C>,
    selector: &[LabelConditions],
    hint: &str,
) -> Result<(Option<String>, Vec<C>), Failure> {
    let apart = NameOrChange::apart(first, rest, selector, "NODE");
    apart.map_err(|text| Failure::new(Code::Usage, text).with_hint(hint))
}

/// Sets and removes labels of one node.
async fn labelled(
    client: &Client,
    node: &str,
    change: LabelChange,
    printer: &Printer,
) -> Result<(), Failure> {
    if !change.remove.is_empty() {
        let before = client.node_get(node).await?;
        labels_absent(node, &change.remove, before.labels.keys(), printer);
    }
    let node = client.node_label(node, change).await?;
    printer.one(&NodeOutput::from(node), |node, _| labels_text(&node.name.to_string(), &node.labels))
}

/// What a drain does, in the imperative.
pub(super) fn drain_intent(arguments: &DrainArguments) -> &'static str {
    if arguments.force.is_some() { "stop every task of" } else { "move every task off" }
}

fn filter_of(shown: &[NodeStateOrCondition], selector: Vec<LabelMatch>) -> NodeFilter {
    let mut filter = NodeFilter { selector, ..NodeFilter::default() };
    for word in shown {
        match word {
            NodeStateOrCondition::State(state) => filter.states.push(*state),
            NodeStateOrCondition::Condition(condition) => filter.conditions.push(*condition),
        }
    }
    filter
}

async fn status(
    client: &Client,
    name: &str,
    watching: WatchArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let fetch = async |_| {
        let node = client.node_get(name).await?;
        let (mut tasks, _) = client.task_list_of_node(name).await?;
        tasks.sort_by(|one, other| {
            (&one.user, &one.job, one.index).cmp(&(&other.user, &other.job, other.index))
        });
        let drain = if node.draining { staying_explained(client, &tasks).await? } else { Vec::new() };
        let tasks = tasks.into_iter().map(TaskOutput::from).collect();
        let drain = drain.iter().flat_map(|text| text.lines()).map(Foreign::from).collect();
        Ok(NodeStatusView { node: node.into(), drain, tasks })
    };
    if watching.watch {
        let watched = WatchedView::cell(client.clone(), changes_of(name));
        return status_watch(watched, printer, fetch, NodeStatusView::text).await;
    }
    printer.one(&fetch(None).await?, NodeStatusView::text)?;
    Ok(Code::Done)
}

/// The changes of a node and its tasks, or of all.
fn changes_of(node: &str) -> WatchFilter {
    WatchFilter { node: node.to_owned(), nodes: true, tasks: true, ..WatchFilter::default() }
}

/// Shows the taints that a node has now.
fn tainted(node: Node, printer: &Printer) -> Result<(), Failure> {
    printer.one(&NodeOutput::from(node), |node, _| taints_line(node))
}

fn changed(node: Node, printer: &Printer) -> Result<(), Failure> {
    printer.one(&NodeOutput::from(node), |node, _| format!("{}: {}", node.name, node.state_text()))
}
