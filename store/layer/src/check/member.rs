//! Checks member cells: each row has the name of its key and an id of its own, and what was seen is of a known one.

use std::collections::BTreeSet;

use borough_model::member::MEMBERS_OF_FEDERATION_MAX;

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let mut ids = BTreeSet::new();
    for (cell, row) in &rows.members {
        let key = || format!("member/{cell}");
        found.require(*cell == row.cell, "member_name", || {
            wrong(key(), row.cell.to_string(), "the name of its key")
        });
        found.require(ids.insert(row.id), "member_id", || {
            wrong(key(), row.id.to_string(), "an id that no other has")
        });
    }
    found.require(rows.members.len() <= MEMBERS_OF_FEDERATION_MAX, "member_count", || {
        wrong(
            "member".to_owned(),
            format!("{} rows", rows.members.len()),
            format!("at most {MEMBERS_OF_FEDERATION_MAX}"),
        )
    });
    for cell in &rows.members_seen {
        found.require(rows.members.contains_key(cell), "member_seen_row", || {
            wrong(format!("member_seen/{cell}"), "a row".to_owned(), "none: no such cell is a member")
        });
    }
}
