//! Checks merged services: each row has the name of its key and an id of its own, and a user has a bounded number.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::Name;
use borough_model::merged::MERGED_SERVICES_MAX;

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let mut ids = BTreeSet::new();
    let mut users: BTreeMap<&Name, usize> = BTreeMap::new();
    for ((user, name), row) in &rows.merged_services {
        let key = || format!("merged_service/{user}/{name}");
        found.require((user, name) == (&row.user, &row.name), "merged_service_name", || {
            wrong(key(), format!("{}/{}", row.user, row.name), "the name of its key")
        });
        found.require(ids.insert(row.id), "merged_service_id", || {
            wrong(key(), row.id.to_string(), "an id that no other has")
        });
        *users.entry(user).or_default() += 1;
    }
    for (user, count) in users {
        found.require(count <= MERGED_SERVICES_MAX, "merged_service_count", || {
            wrong(
                format!("merged_service/{user}"),
                format!("{count} rows"),
                format!("at most {MERGED_SERVICES_MAX}"),
            )
        });
    }
}
