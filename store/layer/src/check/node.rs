//! Nodes: what is committed is the sum of what is charged, within what the node has, and the index says the same.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::node::{NodeAlloc, node_alloc_check, node_alloc_sum};
use borough_model::task::TaskRow;
use borough_model::{NodeId, TaskId};

use super::{CellRows, Violations};
use crate::task::is_on_node;

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let mut charged: BTreeMap<NodeId, Vec<&TaskRow>> = BTreeMap::new();
    for row in rows.tasks.values() {
        if let Some(node) = row.charged_node() {
            charged.entry(node).or_default().push(row);
        }
    }
    for node in rows.allocs.keys().chain(charged.keys()) {
        let known = rows.nodes.contains_key(node);
        found.require(known, "node_known", || format!("{node} is committed to, but is no node"));
    }
    let empty = NodeAlloc::default();
    for (node, row) in &rows.nodes {
        let alloc = rows.allocs.get(node).unwrap_or(&empty);
        let tasks = charged.get(node).map_or(&[][..], Vec::as_slice);
        sum_check(found, *node, alloc, tasks);
        if let Err(broken) = node_alloc_check(row, alloc) {
            found.require(false, "node_alloc", || format!("{node} {}: {broken}", row.name));
        }
    }
    index_check(found, rows);
}

fn sum_check(found: &mut Violations, node: NodeId, alloc: &NodeAlloc, tasks: &[&TaskRow]) {
    let sum = node_alloc_sum(tasks.iter().copied());
    let holds = sum.as_ref().is_ok_and(|sum| {
        (&sum.used, &sum.promised, sum.tasks) == (&alloc.used, &alloc.promised, alloc.tasks)
    });
    found.require(holds, "node_alloc_sum", || {
        let ids: Vec<TaskId> = tasks.iter().map(|row| row.id).collect();
        let (used, promised, count) = (&alloc.used, &alloc.promised, alloc.tasks);
        format!(
            "{node} says {count} tasks with {used}, promised {promised}; charged are {ids:?} with {sum:?}"
        )
    });
    let mut ports = BTreeSet::new();
    for (row, port) in
        tasks.iter().flat_map(|row| row.port_numbers().into_iter().map(move |port| (row, port)))
    {
        found.require(ports.insert(port), "port_unique", || {
            format!("{node}: port {port} again at {}", row.id)
        });
    }
    found.require(ports == alloc.ports, "node_alloc_ports", || {
        format!("{node} says ports {:?}; its tasks have {ports:?}", alloc.ports)
    });
}

fn index_check(found: &mut Violations, rows: &CellRows) {
    let there = rows.tasks.values().filter(|row| is_on_node(row.state));
    let expected: BTreeSet<(NodeId, TaskId)> = there.filter_map(|row| Some((row.node?, row.id))).collect();
    for (node, task) in expected.difference(&rows.node_tasks) {
        found.require(false, "node_tasks", || format!("{task} is on {node}, but not in its index"));
    }
    for (node, task) in rows.node_tasks.difference(&expected) {
        found.require(false, "node_tasks", || format!("{task} is in the index of {node}, but not on it"));
    }
}
