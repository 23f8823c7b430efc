//! Cells that no node can join: they have moved to another store, or their import is not complete. `dev` starts no
//! agents for them, since their store would refuse each message of an agent, and says what to do.

use borough_kv::{Database, Idempotency};
use borough_model::Name;
use borough_store::cell::{CellState, cell_gate_read};
use borough_store::keys::CellSpace;

/// A cell that takes no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClosedCell {
    pub(super) name: Name,
    state: CellState,
}

/// The cells that take no change. What cannot be read counts as open.
pub(super) async fn closed_cells(db: &Database, cells: &[Name]) -> Vec<ClosedCell> {
    let mut closed = Vec::new();
    for name in cells {
        let space = &CellSpace::new(name.clone());
        let gate = db.run("cell_gate_read", Idempotency::ReadOnly, |tx, _| async move {
            cell_gate_read(&tx, space).await
        });
        match gate.await {
            Ok(gate) if matches!(gate.state, CellState::Moved | CellState::Importing) => {
                closed.push(ClosedCell { name: name.clone(), state: gate.state });
            }
            _ => {}
        }
    }
    closed
}

/// What is said of these cells, and what to do; `None` if there are none.
pub(super) fn closed_text(closed: &[ClosedCell]) -> Option<String> {
    let line = |ClosedCell { name, state }: &ClosedCell| match state {
        CellState::Moved => format!(
            "cell {name} has moved to another store: it takes no change here, and none of its nodes is started; to undo \
             the move: end dev, then borough store import --replace --from FILE; to go without it: borough dev --cells \
             NAMES"
        ),
        state => format!(
            "cell {name} is {}: it takes no change, and none of its nodes is started; to finish its import: end dev, \
             then repeat borough store import with the same file",
            state.as_str()
        ),
    };
    (!closed.is_empty()).then(|| closed.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_closed_cell_is_named_with_the_way_back() {
        assert_eq!(closed_text(&[]), None);
        let closed = |name: &str, state| ClosedCell { name: Name::new(name).unwrap(), state };
        let text =
            closed_text(&[closed("alpha", CellState::Moved), closed("beta", CellState::Importing)]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("cell alpha has moved") && lines[0].contains("import --replace"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("cell beta is importing") && lines[1].contains("the same file"),
            "{text}"
        );
    }
}
