//! Checks the cell as a whole: its gate and settings, and that the heartbeat of each lease has the lease's epoch.

use super::{CellRows, Violations, wrong};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    found.require(rows.gate.is_some(), "cell_gate", || wrong("cell_gate", "nothing", "a gate"));
    found.require(rows.meta.is_some(), "meta", || wrong("meta", "nothing", "settings"));
    for (key, beat) in &rows.lease_beats {
        let epoch = rows.leases.get(key).map(|lease| lease.epoch);
        found.require(epoch == Some(beat.epoch), "lease_beat", || {
            let epoch = epoch
                .map_or_else(|| "no beat: there is no lease".to_owned(), |epoch| format!("epoch {epoch}"));
            wrong(format!("lease_beat/{}/{}", key.0, key.1), format!("epoch {}", beat.epoch), epoch)
        });
    }
    for number in rows.workload.signers.keys() {
        let is_published = rows.workload.published.contains_key(number);
        found.require(is_published, "workload_signer", || {
            wrong(format!("workload_signer/{number}"), "a private key", "none: its public half is missing")
        });
    }
    for (name, join) in &rows.joins {
        found.require(join.is_sound(), "node_join", || {
            wrong(
                format!("node_join/{name}"),
                "an identity without its beginning",
                "a token or an identity of one line",
            )
        });
    }
    for (role, shard) in rows.leases.keys().filter(|key| !rows.lease_beats.contains_key(key)) {
        found.require(false, "lease_beat", || {
            wrong(format!("lease_beat/{role}/{shard}"), "nothing", "the beat of the lease")
        });
    }
}
