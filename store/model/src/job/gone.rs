//! Which versions of a job's spec are kept: the newest ones, and those that something needs. A job that lives for years
//! gets a version with each change of its labels, and each mirror of its cell has all that are kept.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::JobRow;

/// With more versions than this, old ones are forgotten.
pub const VERSIONS_KEPT_MAX: usize = 40;
/// The newest versions, which are kept in any case.
const NEWEST: usize = 20;
/// Versions that are forgotten together, at least: each time costs a change of the row.
const GONE_LEAST: usize = 10;
/// Versions that are forgotten in one transaction, at most.
const GONE_MOST: usize = 5_000;
/// Old versions that a row names as kept. More of them are in use only by a job whose tasks are hardly ever replaced.
const USED_MAX: usize = 256;

/// The versions of a spec that are kept no more. The row of the job has them, so that each mirror drops the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct GoneVersions {
    /// Those below this one are gone, except `kept`.
    #[n(0)]
    pub below: u32,
    /// Ascending.
    #[n(1)]
    pub kept: Vec<u32>,
}

impl GoneVersions {
    /// Whether a version is gone.
    pub fn has(&self, version: u32) -> bool {
        version < self.below && self.kept.binary_search(&version).is_err()
    }

    /// Those of `versions` that are gone.
    pub fn among(&self, versions: impl Iterator<Item = u32>) -> Vec<u32> {
        versions.filter(|version| self.has(*version)).collect()
    }

    /// What may go of the versions `known`, of which tasks use `used`. `None`: too little for a change of the row.
    ///
    /// It holds as long as the row is the same: until then tasks only come to versions that the row needs.
    pub fn decide(row: &JobRow, known: &BTreeSet<u32>, used: &BTreeSet<u32>) -> Option<Self> {
        // Without a record of its changes the row cannot say what is gone.
        row.changes.as_ref()?;
        if known.len() <= VERSIONS_KEPT_MAX {
            return None;
        }
        let newest = known.iter().rev().nth(NEWEST.saturating_sub(1)).copied()?;
        let below = known.iter().nth(GONE_MOST).map_or(newest, |most| newest.min(*most));
        let old = known.range(..below).copied();
        let (kept, gone): (Vec<u32>, Vec<u32>) =
            old.partition(|version| used.contains(version) || row.needs_version(*version));
        (gone.len() >= GONE_LEAST && kept.len() <= USED_MAX).then_some(Self { below, kept })
    }
}

impl JobRow {
    /// Whether the row itself names the version, so that tasks may get it or go back to it.
    fn needs_version(&self, version: u32) -> bool {
        let of_rollout = self.rollout.as_deref().is_some_and(|rollout| {
            rollout.version == version
                || rollout.base == version
                || rollout.reverts == Some(version)
                || rollout.stable.contains(&version)
                || rollout.held.contains(&version)
        });
        version == self.spec_version || of_rollout
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{JobId, Name, RequestId};
    use crate::job::{JobKind, JobSpec, Rollout, job_new};

    fn row(version: u32, rolling: &[u32]) -> JobRow {
        let (user, name) = (Name::new("ada").unwrap(), Name::new("web").unwrap());
        let spec = JobSpec::defaults(user, name, JobKind::Service, vec!["true".to_owned()]);
        let mut row = JobRow { spec_version: version, ..job_new(JobId(1), &spec, RequestId(1), 0) };
        row.change_record(None, "user/ada");
        if let [stable, held, base, reverts] = *rolling {
            let rollout = Rollout::begin(&row, 0, "user/ada", 0);
            let (stable, held) = (vec![stable], vec![held]);
            row.rollout = Some(Box::new(Rollout { stable, held, base, reverts: Some(reverts), ..rollout }));
        }
        row
    }

    proptest! {
        /// Whatever is known and used: what somebody may still ask for stays, and a second look finds nothing.
        #[test]
        fn nothing_goes_that_is_new_or_in_use(
            mut known in proptest::collection::btree_set(1..300_u32, 1..200),
            used in proptest::collection::btree_set(1..300_u32, 0..30),
            rolling in proptest::collection::vec(1..300_u32, 4),
        ) {
            let row = row(*known.last().unwrap(), &rolling);
            let Some(gone) = GoneVersions::decide(&row, &known, &used) else {
                let old = known.len().saturating_sub(NEWEST + GONE_LEAST + used.len() + 5);
                prop_assert!(known.len() <= VERSIONS_KEPT_MAX || old == 0, "{} known", known.len());
                return Ok(());
            };
            for version in known.iter().rev().take(NEWEST).chain(&used).chain(&rolling) {
                prop_assert!(!known.contains(version) || !gone.has(*version), "{version} of {gone:?}");
            }
            let before = known.len();
            known.retain(|version| !gone.has(*version));
            prop_assert!(known.len() + GONE_LEAST <= before);
            prop_assert_eq!(GoneVersions::decide(&row, &known, &used), None);
        }
    }

    #[test]
    fn a_job_with_few_versions_keeps_all() {
        let known: BTreeSet<u32> = (1..=40).collect();
        assert_eq!(GoneVersions::decide(&row(40, &[]), &known, &BTreeSet::new()), None);
        let known: BTreeSet<u32> = (1..=41).collect();
        let gone = GoneVersions::decide(&row(41, &[]), &known, &[3].into()).unwrap();
        assert_eq!(gone, GoneVersions { below: 22, kept: vec![3] });
        assert!(gone.has(1) && gone.has(21) && !gone.has(3) && !gone.has(22));
    }

    /// A job that had its versions before they were ever forgotten loses them in bounded steps.
    #[test]
    fn many_versions_go_step_by_step() {
        let known: BTreeSet<u32> = (1..=12_000).collect();
        let gone = GoneVersions::decide(&row(12_000, &[]), &known, &BTreeSet::new()).unwrap();
        assert_eq!(gone.below, 5_001);
    }
}
