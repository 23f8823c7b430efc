//! Checks keyed requests: each is in the index by its time, and the index has no other entry.

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for (id, row) in &rows.requests {
        found.require(rows.request_expiries.contains(&(row.expires_ms, *id)), "request_expiry", || {
            wrong(format!("request_expiry/{}/{id}", row.expires_ms), "nothing", format!("request {id}"))
        });
    }
    for (expires_ms, id) in &rows.request_expiries {
        let known = rows.requests.get(id).map(|row| row.expires_ms);
        found.require(known == Some(*expires_ms), "request_expiry", || {
            let expected = known.map_or_else(
                || format!("nothing: there is no request {id}"),
                |known| format!("nothing: request {id} expires at {known}"),
            );
            wrong(format!("request_expiry/{expires_ms}/{id}"), "an entry", expected)
        });
    }
}
