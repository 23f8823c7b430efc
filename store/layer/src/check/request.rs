//! Checks keyed requests: each is in the index by its time, and the index has no other entry.

use borough_model::RequestId;

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    for (id, row) in &rows.requests {
        found.require(rows.request_is_listed(*id), "request_expiry", || {
            let key = format!("request_expiry/{}/{}", row.expires_ms, row.entry_of(*id));
            wrong(key, "nothing, or others", format!("request {id}"))
        });
    }
    for (&(expires_ms, entry), listed) in &rows.request_expiries {
        for id in listed.requests(entry) {
            found.require(rows.request_expires(id, expires_ms, entry), "request_expiry", || {
                let expected = rows.requests.get(&id).map_or_else(
                    || format!("nothing: there is no request {id}"),
                    |known| format!("nothing: request {id} expires at {}", known.expires_ms),
                );
                wrong(format!("request_expiry/{expires_ms}/{entry}"), format!("request {id}"), expected)
            });
        }
    }
}

impl CellRows {
    /// Whether the entry that a request names lists it.
    pub(super) fn request_is_listed(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_some_and(|row| {
            let entry = row.entry_of(id);
            let listed = self.request_expiries.get(&(row.expires_ms, entry));
            listed.is_some_and(|listed| listed.requests(entry).contains(&id))
        })
    }

    /// Whether a request is there and names an entry.
    pub(super) fn request_expires(&self, id: RequestId, expires_ms: i64, entry: RequestId) -> bool {
        let row = self.requests.get(&id);
        row.is_some_and(|row| row.expires_ms == expires_ms && row.entry_of(id) == entry)
    }
}
