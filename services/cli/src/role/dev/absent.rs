//! Nodes of an earlier start that this one leaves out, because it runs fewer nodes. They stay in the store, so their
//! owner must hear of them: the cell declares them lost, and only `node remove` forgets them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use borough_kv::{Database, Idempotency};
use borough_model::Name;
use borough_store::keys::CellSpace;
use borough_store::node::node_by_name;

use super::layout::Layout;
use super::nodes::{NodePlan, cell_of, is_locked, number_of};

/// A node that the store has and the plan of this start does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AbsentNode {
    cell: String,
    /// Orders `alpha-10` behind `alpha-9`.
    number: u32,
    name: String,
    /// Its agent outlived the `dev` that started it.
    has_agent: bool,
}

impl AbsentNode {
    /// Without an agent if that was just ended. It may still be on its way out.
    pub(super) fn ended(self, ended: &BTreeSet<String>) -> Self {
        Self { has_agent: self.has_agent && !ended.contains(&self.name), ..self }
    }
}

/// The nodes of the directory that this start leaves out and the cell still has. What cannot be read is left out.
pub(super) async fn absent_nodes(
    db: &Database,
    layout: &Layout,
    cells: &[Name],
    plan: &[NodePlan],
) -> Vec<AbsentNode> {
    let mut absent = Vec::new();
    for entry in fs::read_dir(layout.nodes()).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let cell = cells.iter().find(|cell| cell_of(&name) == Some(cell.as_str()));
        let (Some(cell), Some(number)) = (cell, number_of(&name)) else { continue };
        if !plan.iter().any(|node| node.name == name) && is_known(db, cell, &name).await {
            let has_agent = is_locked(&entry.path());
            absent.push(AbsentNode { cell: cell.to_string(), number, name, has_agent });
        }
    }
    absent.sort_unstable();
    absent
}

/// What is said of cells of earlier starts that this one leaves out, and what starts them too; `None` if there are
/// none. A cell of which no node was ever started has no tasks.
pub(super) fn cells_text(layout: &Layout, cells: &[Name]) -> Option<String> {
    let nodes = fs::read_dir(layout.nodes()).into_iter().flatten().flatten();
    let names = nodes.filter_map(|entry| entry.file_name().into_string().ok());
    let known: BTreeSet<String> = names.filter_map(|name| Some(cell_of(&name)?.to_owned())).collect();
    let absent: Vec<String> =
        known.into_iter().filter(|cell| !cells.iter().any(|kept| kept.as_str() == cell)).collect();
    let all: Vec<&str> = cells.iter().map(Name::as_str).chain(absent.iter().map(String::as_str)).collect();
    (!absent.is_empty()).then(|| {
        format!(
            "cells of an earlier start that nothing serves now: {}; to start them too: borough dev --cells {}",
            absent.join(", "),
            all.join(",")
        )
    })
}

/// Returns true if the cell has the node: nobody has removed it.
async fn is_known(db: &Database, cell: &Name, name: &str) -> bool {
    let Ok(name) = Name::new(name) else { return false };
    let (space, name) = (&CellSpace::new(cell.clone()), &name);
    let found = db.run("node_read", Idempotency::ReadOnly, |tx, _| async move {
        node_by_name(&tx, space, name).await.map(drop)
    });
    found.await.is_ok()
}

/// What is said of these nodes, and what to run; `None` if there are none. The first cell is the one in use.
pub(super) fn absent_text(absent: &[AbsentNode], cells: &[Name]) -> Option<String> {
    let most = absent.iter().map(|node| node.number).max()?;
    let names = |has_agent| {
        let names = absent.iter().filter(|node| node.has_agent == has_agent);
        names.map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (gone, running) = (names(false), names(true));
    let mut lines = Vec::new();
    if !gone.is_empty() {
        lines.push(format!(
            "nodes of an earlier start without an agent now: {gone}; the cell declares them lost and moves their tasks"
        ));
    }
    if !running.is_empty() {
        lines.push(format!(
            "nodes of an earlier start whose agents still run: {running}; nothing starts these agents again"
        ));
    }
    let mut by_cell: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in absent {
        by_cell.entry(&node.cell).or_default().push(&node.name);
    }
    let in_use = cells.first().map(Name::as_str);
    let removals = by_cell.into_iter().map(|(cell, names)| {
        let of = if in_use == Some(cell) { String::new() } else { format!("--cell {cell} ") };
        format!("borough {of}node remove {}", names.join(" "))
    });
    let removals = removals.collect::<Vec<_>>().join("; ");
    lines.push(format!(
        "to forget them once they are lost: {removals}; to run them again: borough dev --nodes {most}"
    ));
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_left_out_are_named_with_what_starts_them() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::open(directory.path()).unwrap();
        let text = |cells: &[&str]| {
            let cells: Vec<Name> = cells.iter().map(|cell| Name::new(*cell).unwrap()).collect();
            cells_text(&layout, &cells)
        };
        assert_eq!(text(&["p"]), None, "there was no earlier start");
        for node in ["p-1", "q-1", "q-2"] {
            fs::create_dir_all(layout.node(node)).unwrap();
        }
        assert_eq!(text(&["q", "p"]), None);
        let left_out = text(&["p"]).unwrap();
        assert!(left_out.contains("serves now: q; to start them too: borough dev --cells p,q"), "{left_out}");
    }

    #[test]
    fn nodes_that_are_left_out_are_named_with_what_to_run() {
        let cells = [Name::new("alpha").unwrap(), Name::new("beta").unwrap()];
        let node = |cell: &str, number, has_agent| AbsentNode {
            cell: cell.to_owned(),
            number,
            name: format!("{cell}-{number}"),
            has_agent,
        };
        assert_eq!(absent_text(&[], &cells), None);
        let all = [node("alpha", 9, false), node("alpha", 10, false), node("beta", 9, true)];
        let text = absent_text(&all, &cells).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("without an agent now: alpha-9, alpha-10; "), "{text}");
        assert!(lines[1].contains("whose agents still run: beta-9; "), "{text}");
        let removals = "borough node remove alpha-9 alpha-10; borough --cell beta node remove beta-9; ";
        assert!(lines[2].contains(removals) && lines[2].ends_with("borough dev --nodes 10"), "{text}");
    }
}
