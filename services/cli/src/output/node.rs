//! Nodes.

use std::collections::BTreeMap;

use borough_model::resource::cpu_display;
use borough_proto::v1;
use serde::Serialize;

use super::table::{Tabular, table};
use super::task::TaskOutput;
use super::text::{ResourcesView, bytes, facts, time, word};
use super::{Foreign, Style};
use crate::args::condition_value;

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TaintView {
    pub(crate) key: Foreign,
    pub(crate) value: Foreign,
    pub(crate) effect: String,
    pub(crate) added_ms: i64,
}

impl From<v1::Taint> for TaintView {
    fn from(taint: v1::Taint) -> Self {
        let effect = word(taint.effect().as_str_name(), "TAINT_EFFECT_");
        Self { key: taint.key.into(), value: taint.value.into(), effect, added_ms: taint.added_ms }
    }
}

impl TaintView {
    /// Its form on the command line.
    pub(crate) fn text(&self) -> String {
        let equal = if self.value.is_empty() { "" } else { "=" };
        format!("{}{equal}{}:{}", self.key, self.value, self.effect)
    }
}

/// The measured load of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LoadView {
    pub(crate) cpu_millis: u64,
    pub(crate) memory_bytes: u64,
    /// The requests of the tasks whose use is part of it.
    pub(crate) covered_cpu_millis: u64,
    pub(crate) covered_memory_bytes: u64,
    pub(crate) changed_ms: i64,
}

impl From<v1::NodeLoad> for LoadView {
    fn from(load: v1::NodeLoad) -> Self {
        Self {
            cpu_millis: load.cpu_millis,
            memory_bytes: load.memory_bytes,
            covered_cpu_millis: load.covered_cpu_millis,
            covered_memory_bytes: load.covered_memory_bytes,
            changed_ms: load.changed_ms,
        }
    }
}

/// Failed sessions of a node's agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SessionFailureView {
    /// The number of sessions that have failed in a row.
    pub(crate) sessions: u32,
    /// Why the last one ended.
    pub(crate) error: Foreign,
    pub(crate) at_ms: i64,
}

impl From<v1::SessionFailure> for SessionFailureView {
    fn from(failure: v1::SessionFailure) -> Self {
        Self { sessions: failure.sessions, error: failure.error.into(), at_ms: failure.at_ms }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeOutput {
    pub(crate) cell: Foreign,
    pub(crate) name: Foreign,
    pub(crate) id: Foreign,
    pub(crate) state: String,
    pub(crate) schedulable: bool,
    pub(crate) draining: bool,
    /// Whether its drain is done: no task is left.
    pub(crate) drained: bool,
    /// Whether its agent's session is open.
    pub(crate) connected: bool,
    /// Since when its agent does not answer; null: it answers, as far as the cell knows.
    pub(crate) silent_since_ms: Option<i64>,
    /// When it will be declared lost, about; null: not known.
    pub(crate) lost_at_ms: Option<i64>,
    pub(crate) tasks: u32,
    pub(crate) capacity: ResourcesView,
    pub(crate) used: ResourcesView,
    /// Its measured load; absent: not known.
    pub(crate) load: Option<LoadView>,
    pub(crate) port_first: u32,
    pub(crate) port_last: u32,
    pub(crate) ports_used: u32,
    pub(crate) attributes: BTreeMap<Foreign, Foreign>,
    pub(crate) labels: BTreeMap<Foreign, Foreign>,
    pub(crate) taints: Vec<TaintView>,
    /// Installed packages, each as `name/version`.
    pub(crate) packages: Vec<Foreign>,
    /// Its agent's failed sessions since the last successful one; absent: none.
    pub(crate) session_failure: Option<SessionFailureView>,
    pub(crate) host: Foreign,
    pub(crate) boot_id: Foreign,
    /// The agent that owns the node; empty: not known yet.
    pub(crate) identity: Foreign,
    pub(crate) agent_version: Foreign,
    pub(crate) revision: u64,
    pub(crate) changed_ms: i64,
}

impl From<v1::Node> for NodeOutput {
    fn from(node: v1::Node) -> Self {
        Self {
            state: word(node.state().as_str_name(), "NODE_STATE_"),
            cell: node.cell.into(),
            name: node.name.into(),
            id: node.id.into(),
            schedulable: node.schedulable,
            draining: node.draining,
            drained: node.drained,
            connected: node.connected,
            silent_since_ms: Some(node.silent_since_ms).filter(|&since| since > 0),
            lost_at_ms: Some(node.lost_at_ms).filter(|&at| at > 0),
            tasks: node.tasks,
            capacity: node.capacity.unwrap_or_default().into(),
            used: node.used.unwrap_or_default().into(),
            load: node.load.map(LoadView::from),
            port_first: node.port_first,
            port_last: node.port_last,
            ports_used: node.ports_used,
            attributes: pairs_of(node.attributes),
            labels: pairs_of(node.labels),
            taints: node.taints.into_iter().map(TaintView::from).collect(),
            packages: node.packages.into_iter().map(Foreign::from).collect(),
            session_failure: node.session_failure.map(SessionFailureView::from),
            host: node.host.into(),
            boot_id: node.boot_id.into(),
            identity: node.identity.into(),
            agent_version: node.agent_version.into(),
            revision: node.revision,
            changed_ms: node.changed_ms,
        }
    }
}

impl NodeOutput {
    /// Its taints as the command line has them.
    pub(crate) fn taints_text(&self) -> String {
        let taints: Vec<String> = self.taints.iter().map(TaintView::text).collect();
        if taints.is_empty() { "no taints".to_owned() } else { format!("taints: {}", taints.join(", ")) }
    }

    /// The state, with the operator's settings.
    pub(crate) fn state_text(&self) -> String {
        let steered = if self.drained {
            ", drained"
        } else if self.draining {
            ", draining"
        } else if self.schedulable {
            ""
        } else {
            ", cordoned"
        };
        let tainted = if self.taints.is_empty() { "" } else { ", tainted" };
        let silent = if self.silent_since_ms.is_some() {
            ", silent"
        } else if self.connected {
            ""
        } else {
            ", not connected"
        };
        let failing = if self.session_failure.is_some() { ", session failing" } else { "" };
        format!("{}{steered}{tainted}{silent}{failing}", self.state)
    }
}

impl NodeOutput {
    /// The measured load, if known.
    fn load_text(&self) -> Option<String> {
        let load = self.load?;
        let cpu = share(load.cpu_millis, self.capacity.cpu_millis, cpu_display);
        let memory = share(load.memory_bytes, self.capacity.memory_bytes, bytes);
        Some(format!("cpu {cpu}, memory {memory}"))
    }
}

fn pairs_of(map: impl IntoIterator<Item = (String, String)>) -> BTreeMap<Foreign, Foreign> {
    map.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// `2 of 4`, with the share.
fn share(used: u64, capacity: u64, show: fn(u64) -> String) -> String {
    let percent = (u128::from(used) * 100).checked_div(u128::from(capacity)).unwrap_or(0);
    format!("{}/{} ({percent}%)", show(used), show(capacity))
}

impl Tabular for NodeOutput {
    const PLURAL: &'static str = "nodes";

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let heads = vec!["NODE", "STATE", "TASKS", "CPU", "MEMORY"];
        (heads, vec!["LOAD", "HOST", "PORTS", "ATTRIBUTES", "LABELS", "TAINTS", "AGENT"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let pairs = |map: &BTreeMap<Foreign, Foreign>| {
            let pair =
                |(key, value): (&Foreign, &Foreign)| format!("{key}={}", condition_value(&value.to_string()));
            map.iter().map(pair).collect::<Vec<_>>().join(",")
        };
        let cells = vec![
            self.name.to_string(),
            self.state_text(),
            self.tasks.to_string(),
            share(self.used.cpu_millis, self.capacity.cpu_millis, cpu_display),
            share(self.used.memory_bytes, self.capacity.memory_bytes, bytes),
        ];
        let more = vec![
            self.load_text().unwrap_or_else(|| "-".to_owned()),
            self.host.to_string(),
            format!("{}-{} ({} used)", self.port_first, self.port_last, self.ports_used),
            pairs(&self.attributes),
            pairs(&self.labels),
            self.taints.iter().map(TaintView::text).collect::<Vec<_>>().join(","),
            self.agent_version.to_string(),
        ];
        (cells, more)
    }
}

/// One node with its tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NodeStatusView {
    pub(crate) node: NodeOutput,
    /// What its drain waits for; empty if it is not drained, or nothing stays there.
    pub(crate) drain: Vec<Foreign>,
    pub(crate) tasks: Vec<TaskOutput>,
}

impl NodeStatusView {
    pub(crate) fn text(&self, style: &Style) -> String {
        let node = &self.node;
        let mut shown = vec![
            ("node", format!("{} in cell {}", node.name, node.cell)),
            ("state", node.state_text()),
            ("host", node.host.to_string()),
            ("capacity", node.capacity.text_of_whole()),
            ("domains", node.capacity.domains_text()),
            ("charged", node.used.text()),
            ("load", node.load_text().unwrap_or_else(|| "not known".to_owned())),
            ("ports", format!("{} to {}, {} used", node.port_first, node.port_last, node.ports_used)),
            ("agent", node.agent_version.to_string()),
            ("identity", node.identity.to_string()),
            ("changed", style.time(node.changed_ms)),
        ];
        // A node with one domain, or of an older agent, says nothing about them.
        shown.retain(|(what, text)| *what != "domains" || !text.is_empty());
        let mut text = facts(&shown);
        if let Some(since_ms) = node.silent_since_ms {
            let lost = node.lost_at_ms.map(|at| format!("; declared lost at about {}", time(at)));
            let lost = lost.unwrap_or_default();
            text.push_str(&format!("silent\n  its agent does not answer since {}{lost}\n", time(since_ms)));
        }
        if let Some(failure) = &node.session_failure {
            let line = format!(
                "session failed\n  {} in a row, the last at {}: {}\n",
                failure.sessions,
                time(failure.at_ms),
                failure.error
            );
            text.push_str(&line);
        }
        if !self.drain.is_empty() {
            text.push_str("drain\n");
            text.extend(self.drain.iter().map(|line| format!("  {line}\n")));
            text.push_str(&format!("  to stop what stays: borough node drain {} --force\n", node.name));
        }
        for (head, map) in [("attributes", &node.attributes), ("labels", &node.labels)] {
            if !map.is_empty() {
                text.push_str(&format!("{head}\n"));
                let lines = map.iter().map(|(key, value)| format!("  {key} = {value}\n"));
                text.extend(lines);
            }
        }
        if !node.packages.is_empty() {
            text.push_str("packages\n");
            text.extend(node.packages.iter().map(|package| format!("  {package}\n")));
        }
        if !node.taints.is_empty() {
            text.push_str("taints\n");
            text.extend(
                node.taints
                    .iter()
                    .map(|taint| format!("  {}, since {}\n", taint.text(), time(taint.added_ms))),
            );
        }
        if !self.tasks.is_empty() {
            text.push('\n');
            text.push_str(&table(&self.tasks, style));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_drain_is_done_is_drained() {
        let state = v1::NodeState::Ready.into();
        let of = |drained| {
            let node = v1::Node { state, draining: true, drained, connected: true, ..v1::Node::default() };
            NodeOutput::from(node).state_text()
        };
        assert_eq!((of(false).as_str(), of(true).as_str()), ("ready, draining", "ready, drained"));
    }
}
