//! What a registration makes of a node: a pure function of the row and the report.

use std::collections::BTreeMap;

use borough_model::node::{NodeRow, NodeState};
use borough_model::{Name, NodeId, Resources};

/// What an agent says of its node when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRegistration {
    /// The node's name: by it a node is known again.
    pub name: Name,
    /// What it has for tasks, normalised.
    pub capacity: Resources,
    /// TCP ports it hands out: first, inclusive.
    pub port_first: u16,
    /// TCP ports it hands out: last, inclusive.
    pub port_last: u16,
    /// Facts its agent found, and failure domains.
    pub attributes: BTreeMap<String, String>,
    /// Where its tasks are reached.
    pub host: String,
    /// The boot it runs in.
    pub boot_id: String,
    /// The agent's version.
    pub agent_version: String,
    /// Whether it runs tasks now. A node that is new to the store and does must be sorted out first.
    pub carries_tasks: bool,
}

/// What a registration came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The row in force.
    pub row: NodeRow,
    /// Whether the node is new to the store.
    pub created: bool,
    /// Whether it was declared lost: its old tasks are placed elsewhere and it must be told which to stop.
    pub returning: bool,
    /// Whether it runs in another boot than when it last registered: no process of before lives.
    pub rebooted: bool,
    /// Whether anything was written.
    pub changed: bool,
}

/// What `registration` makes of `before`. `id` is used where the node is new.
pub(super) fn registration_decide(
    before: Option<&NodeRow>,
    registration: &NodeRegistration,
    id: NodeId,
    at_ms: i64,
) -> Registered {
    let created = before.is_none();
    let returning = before.is_some_and(|row| row.state == NodeState::Lost);
    let rebooted = before.is_some_and(|row| row.boot_id != registration.boot_id);
    let fresh_state = if registration.carries_tasks { NodeState::Recovering } else { NodeState::Ready };
    let state = match before.map(|row| row.state) {
        None => fresh_state,
        Some(NodeState::Lost) => NodeState::Recovering,
        Some(state) => state,
    };
    let mut row = NodeRow {
        id: before.map_or(id, |row| row.id),
        name: registration.name.clone(),
        state,
        schedulable: before.is_none_or(|row| row.schedulable),
        draining: before.is_some_and(|row| row.draining),
        capacity: registration.capacity.clone(),
        port_first: registration.port_first,
        port_last: registration.port_last,
        attributes: registration.attributes.clone(),
        labels: before.map(|row| row.labels.clone()).unwrap_or_default(),
        host: registration.host.clone(),
        boot_id: registration.boot_id.clone(),
        agent_version: registration.agent_version.clone(),
        revision: before.map_or(0, |row| row.revision),
        changed_ms: before.map_or(at_ms, |row| row.changed_ms),
    };
    let changed = before != Some(&row);
    if changed {
        row.revision = row.revision.saturating_add(1);
        row.changed_ms = at_ms;
    }
    Registered { row, created, returning, rebooted, changed }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::node) fn registration(name: &str) -> NodeRegistration {
        NodeRegistration {
            name: Name::new(name).unwrap(),
            capacity: Resources { cpu_millis: 4_000, memory_bytes: 1 << 30, ..Resources::default() },
            port_first: 20_000,
            port_last: 20_999,
            attributes: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]),
            host: "127.0.0.1".to_owned(),
            boot_id: "boot-1".to_owned(),
            agent_version: "0.1.0".to_owned(),
            carries_tasks: false,
        }
    }

    #[test]
    fn registering_again_changes_nothing() {
        let first = registration_decide(None, &registration("n1"), NodeId(7), 100);
        assert!(first.created && first.changed && !first.returning && !first.rebooted);
        assert_eq!((first.row.id, first.row.state, first.row.revision), (NodeId(7), NodeState::Ready, 1));
        let again = registration_decide(Some(&first.row), &registration("n1"), NodeId(8), 200);
        assert!(!again.created && !again.changed);
        assert_eq!(again.row, first.row);
    }

    #[test]
    fn what_operators_set_survives_registration() {
        let mut row = registration_decide(None, &registration("n1"), NodeId(7), 100).row;
        row.schedulable = false;
        row.draining = true;
        row.labels.insert("team".to_owned(), "a".to_owned());
        let report = NodeRegistration { boot_id: "boot-2".to_owned(), ..registration("n1") };
        let again = registration_decide(Some(&row), &report, NodeId(8), 200);
        assert!(again.rebooted && again.changed);
        assert!(!again.row.schedulable && again.row.draining && again.row.labels == row.labels);
        assert_eq!((again.row.id, again.row.revision), (NodeId(7), 2));
    }

    #[test]
    fn a_lost_node_and_a_stranger_with_tasks_recover_first() {
        let mut row = registration_decide(None, &registration("n1"), NodeId(7), 100).row;
        row.state = NodeState::Lost;
        let again = registration_decide(Some(&row), &registration("n1"), NodeId(8), 200);
        assert!(again.returning && again.row.state == NodeState::Recovering);
        let twice = registration_decide(Some(&again.row), &registration("n1"), NodeId(8), 300);
        assert!(!twice.returning && !twice.changed && twice.row.state == NodeState::Recovering);
        let stranger = NodeRegistration { carries_tasks: true, ..registration("n2") };
        let new = registration_decide(None, &stranger, NodeId(9), 100);
        assert_eq!(new.row.state, NodeState::Recovering);
    }
}
