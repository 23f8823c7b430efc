//! Checks federated jobs: each row has the name of its key and an id of its own, and its newest version is kept. What
//! was promised is of a known job and adds up.

use std::collections::BTreeMap;

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let mut by_id = BTreeMap::new();
    for ((user, name), row) in &rows.federated_jobs {
        let key = || format!("federated_job/{user}/{name}");
        found.require(user == row.user() && name == row.name(), "federated_job_name", || {
            wrong(key(), format!("{}/{}", row.user(), row.name()), "the name of its key")
        });
        found.require(by_id.insert(row.id, row).is_none(), "federated_job_id", || {
            wrong(key(), row.id.to_string(), "an id that no other has")
        });
        let newest = rows.federated_versions.contains_key(&(row.id, row.version));
        found.require(newest, "federated_version_newest", || {
            wrong(format!("federated_version/{}/{}", row.id, row.version), "none", "the newest version")
        });
    }
    for (job, version) in rows.federated_versions.keys() {
        found.require(by_id.contains_key(job), "federated_version_job", || {
            wrong(format!("federated_version/{job}/{version}"), "a row", "none: no such job")
        });
    }
    for job in &rows.federated_statuses {
        found.require(by_id.contains_key(job), "federated_status_job", || {
            wrong(format!("federated_status/{job}"), "a row", "none: no such job")
        });
    }
    for ((job, cell), part) in &rows.federated_parts {
        let key = || format!("federated_part/{job}/{cell}");
        found.require(by_id.contains_key(job) && *cell == part.cell, "federated_part_job", || {
            wrong(key(), part.cell.to_string(), "none: no such job, or another cell")
        });
        let fits = part.target <= part.count && part.arrived <= part.promise;
        found.require(fits, "federated_part_numbers", || {
            let numbers =
                format!("{} of {}, promise {} of {}", part.target, part.count, part.arrived, part.promise);
            wrong(key(), numbers, "a target of at most the count, and no arrival before its promise")
        });
    }
}
