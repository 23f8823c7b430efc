//! Ended jobs that other jobs still wait for. Without its row, such a job would never have ended for them.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::{JobId, Name};
use borough_store::mirror::MirrorState;

/// What jobs that wait name in `after`. It remembers the specs that it has read.
#[derive(Default)]
pub(super) struct AwaitedJobs {
    /// For each waiting job the version of its spec and the names in it.
    read: BTreeMap<JobId, (u32, Vec<Name>)>,
}

impl AwaitedJobs {
    /// The jobs that somebody waits for: those that have the names now.
    pub(super) fn of(&mut self, state: &MirrorState) -> BTreeSet<JobId> {
        let mut waiting = BTreeMap::new();
        let mut awaited = BTreeSet::new();
        for row in state.waiting_jobs() {
            let known = self.read.remove(&row.id).filter(|(version, _)| *version == row.spec_version);
            let names = known.map(|(_, names)| names).or_else(|| {
                let spec = state.spec_of(row)?;
                Some(spec.after.iter().map(|after| after.job.clone()).collect())
            });
            // The spec comes with the row, in one entry of the journal.
            let Some(names) = names else { continue };
            let named = names.iter().filter_map(|name| state.job_by_name(&row.user, name));
            awaited.extend(named.map(|named| named.id));
            waiting.insert(row.id, (row.spec_version, names));
        }
        self.read = waiting;
        awaited
    }
}
