//! Checks nodes: the commitment is the sum of the charges and within the capacity, and the indexes agree.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::node::{NodeAlloc, PORT_KEPT_BACK_MS, node_alloc_check};
use borough_model::task::{TaskRow, TaskState, node_alloc_sum};
use borough_model::{NodeId, TaskId};

use super::{CellRows, Violations, wrong};
use crate::task::is_on_node;

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let mut charged: BTreeMap<NodeId, Vec<&TaskRow>> = BTreeMap::new();
    let mut lost: BTreeSet<(NodeId, u16)> = BTreeSet::new();
    for row in rows.tasks.values() {
        if let Some(node) = row.charged_node() {
            charged.entry(node).or_default().push(row);
        }
        if let (Some(node), TaskState::Lost) = (row.node, row.state) {
            lost.extend(row.port_numbers().into_iter().map(|port| (node, port)));
        }
    }
    known_check(found, rows, &charged);
    let empty = NodeAlloc::default();
    for (node, row) in &rows.nodes {
        found.require(row.id == *node, "node_key", || {
            wrong(format!("node/{node}"), format!("the row of {}", row.id), format!("the row of {node}"))
        });
        let alloc = rows.allocs.get(node).unwrap_or(&empty);
        let tasks = charged.get(node).map_or(&[][..], Vec::as_slice);
        sum_check(found, *node, alloc, tasks);
        kept_back_check(found, &lost, *node, alloc);
        if let Err(broken) = node_alloc_check(row, alloc) {
            found.require(false, "node_alloc", || {
                let expected = format!("what node {} can hold: {broken}", row.name);
                wrong(format!("node_alloc/{node}"), format!("{alloc:?}"), expected)
            });
        }
    }
    names_check(found, rows);
    index_check(found, rows);
}

fn known_check(found: &mut Violations, rows: &CellRows, charged: &BTreeMap<NodeId, Vec<&TaskRow>>) {
    for (kind, node) in rows
        .allocs
        .keys()
        .map(|node| ("node_alloc", node))
        .chain(rows.node_leases.iter().map(|node| ("node_live", node)))
        .chain(rows.node_live_places.iter().map(|node| ("node_live_at", node)))
        .chain(rows.node_live_changes.iter().map(|(_, node)| ("node_live_change", node)))
        .chain(rows.node_sessions.iter().map(|node| ("node_session", node)))
        .chain(rows.loads.keys().map(|node| ("node_load", node)))
    {
        found.require(rows.nodes.contains_key(node), "node_known", || {
            wrong(format!("{kind}/{node}"), "a row", "nothing: there is no such node")
        });
    }
    for (node, tasks) in charged {
        found.require(rows.nodes.contains_key(node), "node_known", || {
            let tasks: Vec<TaskId> = tasks.iter().map(|row| row.id).collect();
            wrong(format!("node/{node}"), "nothing", format!("a node: {tasks:?} are charged to it"))
        });
    }
}

fn names_check(found: &mut Violations, rows: &CellRows) {
    for (name, node) in &rows.node_names {
        let same = rows.nodes.get(node).is_some_and(|row| row.name == *name);
        found.require(same, "node_name", || {
            let other = rows.nodes.get(node).map(|row| row.name.to_string());
            let expected =
                format!("a node of this name; {node} is {}", other.as_deref().unwrap_or("not there"));
            wrong(format!("node_name/{name}"), node.to_string(), expected)
        });
    }
    for (node, row) in &rows.nodes {
        let stored = rows.node_names.get(&row.name);
        found.require(stored == Some(node), "node_name", || {
            wrong(format!("node_name/{}", row.name), format!("{stored:?}"), node.to_string())
        });
    }
}

/// A port is kept back only for a lost attempt. Nothing else would ever free it.
fn kept_back_check(found: &mut Violations, lost: &BTreeSet<(NodeId, u16)>, node: NodeId, alloc: &NodeAlloc) {
    let kept = alloc.ports_cooling.iter().filter(|&(_, &until_ms)| until_ms == PORT_KEPT_BACK_MS);
    for (&port, _) in kept {
        found.require(lost.contains(&(node, port)), "port_kept_back", || {
            wrong(
                format!("node_alloc/{node}"),
                format!("port {port} kept back"),
                "a lost attempt that has it",
            )
        });
    }
}

fn sum_check(found: &mut Violations, node: NodeId, alloc: &NodeAlloc, tasks: &[&TaskRow]) {
    let sum = node_alloc_sum(tasks.iter().copied());
    let holds = sum.as_ref().is_ok_and(|sum| {
        (&sum.used, &sum.promised, sum.tasks) == (&alloc.used, &alloc.promised, alloc.tasks)
    });
    found.require(holds, "node_alloc_sum", || {
        let ids: Vec<TaskId> = tasks.iter().map(|row| row.id).collect();
        let text = |alloc: &NodeAlloc| {
            format!("{} tasks with {}, promised {}", alloc.tasks, alloc.used, alloc.promised)
        };
        let sum = sum.as_ref().map_or_else(ToString::to_string, text);
        wrong(format!("node_alloc/{node}"), text(alloc), format!("{sum}, the sum over {ids:?}"))
    });
    let mut ports = BTreeSet::new();
    for (row, port) in
        tasks.iter().flat_map(|row| row.port_numbers().into_iter().map(move |port| (row, port)))
    {
        found.require(ports.insert(port), "port_unique", || {
            wrong(format!("task/{}", row.id), format!("port {port}"), "a port no other task of the node has")
        });
    }
    found.require(ports == alloc.ports, "node_alloc_ports", || {
        wrong(
            format!("node_alloc/{node}"),
            format!("ports {:?}", alloc.ports),
            format!("{ports:?}, those of its tasks"),
        )
    });
}

fn index_check(found: &mut Violations, rows: &CellRows) {
    for row in rows.tasks.values().filter(|row| is_on_node(row.state)) {
        let Some(node) = row.node else { continue };
        found.require(rows.node_tasks.contains(&(node, row.id)), "node_tasks", || {
            let expected = format!("an entry: the task is {:?} there", row.state);
            wrong(format!("node_tasks/{node}/{}", row.id), "nothing", expected)
        });
    }
    for (node, task) in &rows.node_tasks {
        let row = rows.tasks.get(task);
        let there = row.is_some_and(|row| is_on_node(row.state) && row.node == Some(*node));
        found.require(there, "node_tasks", || {
            let on = row.map(|row| (row.state, row.node));
            wrong(format!("node_tasks/{node}/{task}"), "an entry", format!("nothing: the task is {on:?}"))
        });
    }
}
