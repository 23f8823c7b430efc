//! What a leader records for people.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::federation::{CellsReason, FederatedJobRow, ReleaseWait};

/// What a release waits for, with the command by which a person lets it go on.
pub(super) fn wait_words(reason: &ReleaseWait, row: &FederatedJobRow) -> String {
    let verb = match reason {
        ReleaseWait::Approval { .. } => "approve",
        ReleaseWait::Paused => "resume",
        _ => return reason.to_string(),
    };
    format!("{reason}: borough federation job {verb} {}/{}", row.user(), row.name())
}

/// The cells by what is said of them.
pub(super) fn reasons_grouped<'n>(cells: impl Iterator<Item = (String, &'n Name)>) -> Vec<CellsReason> {
    let mut by_words: BTreeMap<String, Vec<Name>> = BTreeMap::new();
    cells.for_each(|(words, cell)| by_words.entry(words).or_default().push(cell.clone()));
    by_words.into_iter().map(|(words, cells)| CellsReason { words, cells }).collect()
}
