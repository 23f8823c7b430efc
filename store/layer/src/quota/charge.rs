//! Charges of a job and its tasks: arithmetic over specs and rows, and the key that conflicts with every sum of
//! charges.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use borough_kv::Transaction;
use borough_model::JobId;
use borough_model::job::{JobRow, JobSpec};
use borough_model::resource::{
    ResourceError, Resources, resources_add, resources_less, resources_most, resources_multiply,
    resources_sub,
};
use borough_model::task::{ChargeOwner, TaskRow, TaskState};

use super::QuotaUsed;
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, JobSpecKey};

/// The specs by which the tasks of a job are charged: the version in force, and during a rollout those that it
/// replaces. A task is charged the most that it takes in any of them, so that no step of a rollout needs room that was
/// not admitted.
#[derive(Clone, Debug)]
pub struct ChargeBasis<'s> {
    specs: Vec<&'s JobSpec>,
}

impl<'s> From<&'s JobSpec> for ChargeBasis<'s> {
    fn from(spec: &'s JobSpec) -> Self {
        Self { specs: vec![spec] }
    }
}

impl<'s> ChargeBasis<'s> {
    /// The basis of a job. `spec` gives a version of its spec; one that is missing is passed over, and `store check`
    /// finds it.
    pub fn of(row: &JobRow, spec: impl Fn(u32) -> Option<&'s JobSpec>) -> Self {
        let held = row.rollout.as_ref().map_or(&[][..], |rollout| &rollout.held);
        Self {
            specs: std::iter::once(&row.spec_version)
                .chain(held)
                .filter_map(|version| spec(*version))
                .collect(),
        }
    }

    /// The basis of a job whose spec in force and held versions were read.
    pub fn with(row: &JobRow, in_force: &'s JobSpec, held: &'s BTreeMap<u32, JobSpec>) -> Self {
        Self::of(row, |version| if version == row.spec_version { Some(in_force) } else { held.get(&version) })
    }

    /// Whether each of `count` tasks is charged for at least what it takes by `spec`.
    pub fn covers(&self, spec: &JobSpec, count: u32) -> bool {
        let mut specs: Vec<&JobSpec> = self.specs.clone();
        specs.push(spec);
        ChargeBasis { specs }.alike(0..count).all(|alike| {
            let charged = self.resources_for(alike.start);
            resources_most(&charged, &spec.node_resources_for(alike.start)) == charged
        })
    }

    /// The indexes in parts, in order. The tasks of each take the same: a job of 100,000 tasks is not summed up one by
    /// one.
    fn alike(&self, indexes: Range<u32>) -> impl Iterator<Item = Range<u32>> + use<> {
        let Range { start, end } = indexes;
        let mut starts = BTreeSet::from([start]);
        for spec in &self.specs {
            for (_, of_role) in spec.role_ranges() {
                starts.extend([of_role.start, of_role.end]);
            }
            let own = spec.overrides.range(start..end.max(start));
            starts.extend(own.flat_map(|(&index, _)| [index, index.saturating_add(1)]));
        }
        let starts: Vec<u32> = starts.into_iter().filter(|at| (start..end).contains(at)).collect();
        let ends: Vec<u32> = starts.iter().skip(1).copied().chain([end]).collect();
        starts.into_iter().zip(ends).map(|(start, end)| start..end)
    }

    /// The job's share for the task `index`.
    pub fn share_of(&self, index: u32) -> QuotaUsed {
        QuotaUsed { used: self.resources_for(index), tasks: 1 }
    }

    /// What the task `index` takes.
    pub fn resources_for(&self, index: u32) -> Resources {
        let each = self.specs.iter().map(|spec| spec.node_resources_for(index));
        each.fold(Resources::default(), |most, resources| resources_most(&most, &resources))
    }
}

/// The sum of the charges of the tasks `indexes`.
pub fn job_charge(basis: &ChargeBasis<'_>, indexes: Range<u32>) -> Result<QuotaUsed, ResourceError> {
    let mut sum = QuotaUsed::default();
    for alike in basis.alike(indexes) {
        let tasks = alike.end - alike.start;
        let used = resources_multiply(&basis.resources_for(alike.start), tasks)?;
        sum = sum.plus(&QuotaUsed { used, tasks: u64::from(tasks) })?;
    }
    Ok(sum)
}

/// The quota that a row holds. If the job still owns the charge, it is the share of the index. If the row does, it is
/// its attempt's share, and during a rollout at least what the index is charged. While the row waits for a node, it is
/// what its next attempt takes: a worker places it without a look at its charge. After the release it is nothing.
pub fn task_charge(basis: &ChargeBasis<'_>, row: &TaskRow) -> QuotaUsed {
    row_charge(basis, row, || basis.resources_for(row.id.index))
}

/// The same; `share` is what the index takes.
fn row_charge(basis: &ChargeBasis<'_>, row: &TaskRow, share: impl FnOnce() -> Resources) -> QuotaUsed {
    let resources = match row.charge.owner {
        ChargeOwner::Job => share(),
        ChargeOwner::Task if row.state == TaskState::Pending => share(),
        // Quota does not distinguish the cards of a node.
        ChargeOwner::Task if basis.specs.len() < 2 => row.charge.resources.without_cards(),
        ChargeOwner::Task => resources_most(&row.charge.resources.without_cards(), &share()),
        ChargeOwner::Released => return QuotaUsed::default(),
    };
    QuotaUsed { used: resources, tasks: 1 }
}

/// What each index takes, computed once for all that take the same.
struct IndexShares {
    /// By the first index of each part.
    parts: Vec<(u32, Resources)>,
}

impl IndexShares {
    fn of(basis: &ChargeBasis<'_>) -> Self {
        let parts = basis.alike(0..u32::MAX).map(|alike| (alike.start, basis.resources_for(alike.start)));
        Self { parts: parts.collect() }
    }

    fn at(&self, index: u32) -> Resources {
        let at = self.parts.partition_point(|(start, _)| *start <= index).saturating_sub(1);
        self.parts.get(at).map(|(_, resources)| resources.clone()).unwrap_or_default()
    }
}

/// The job's unplaced remainder: the charges of indexes below `count` without a row, or with a row that only waits to
/// be revived. `rows` are all rows of the job. (A row whose charge the job owns counts with the rows, by
/// [`task_charge`]: it ends as a row.)
pub fn job_remainder<'a>(
    basis: &ChargeBasis<'_>,
    count: u32,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Result<QuotaUsed, ResourceError> {
    remainder(basis, &IndexShares::of(basis), count, rows)
}

fn remainder<'a>(
    basis: &ChargeBasis<'_>,
    shares: &IndexShares,
    count: u32,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Result<QuotaUsed, ResourceError> {
    let mut left = job_charge(basis, 0..count)?;
    for row in rows {
        if row.id.index < count && !row.is_spared() {
            left.used = resources_sub(&left.used, &shares.at(row.id.index))?;
            left.tasks = left.tasks.saturating_sub(1);
        }
    }
    Ok(left)
}

/// All that a job holds: its remainder, and its rows.
pub fn job_held<'a>(
    basis: &ChargeBasis<'_>,
    count: u32,
    rows: impl IntoIterator<Item = &'a TaskRow> + Clone,
) -> Result<QuotaUsed, ResourceError> {
    let shares = IndexShares::of(basis);
    let mut held = remainder(basis, &shares, count, rows.clone())?;
    for row in rows {
        held = held.plus(&row_charge(basis, row, || shares.at(row.id.index)))?;
    }
    Ok(held)
}

/// The token of a job's charges: version 0 of its spec, which no job has. Nothing is stored there; it only serves for
/// conflicts.
fn charges_token(job: JobId) -> JobSpecKey {
    JobSpecKey { job, version: 0 }
}

/// Makes the commit fail if a charge of a task of the job is released meanwhile. A transaction that sums the job's
/// charges reads its rows without conflicts under this guard.
pub(crate) fn charges_guard(tx: &Transaction, space: &CellSpace, job: JobId) -> StoreResult<()> {
    keys::guard(tx, space, &charges_token(job))
}

/// Records the release of a charge of a task of the job: fails transactions that sum them. Releases do not fail each
/// other.
pub(crate) fn charges_touch(tx: &Transaction, space: &CellSpace, job: JobId) -> StoreResult<()> {
    keys::touch(tx, space, &charges_token(job))
}

impl QuotaUsed {
    /// The sum of both.
    pub fn plus(&self, other: &Self) -> Result<Self, ResourceError> {
        let used = resources_add(&self.used, &other.used)?;
        Ok(Self { used, tasks: self.tasks.saturating_add(other.tasks) })
    }

    /// What this has beyond the other.
    pub fn beyond(&self, other: &Self) -> Self {
        Self { used: resources_less(&self.used, &other.used), tasks: self.tasks.saturating_sub(other.tasks) }
    }

    /// Returns true if nothing is charged.
    pub fn is_zero(&self) -> bool {
        self.tasks == 0 && self.used.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use borough_model::job::{GangSpec, JobKind, Role, TaskOverride};
    use borough_model::{Name, Resources, TaskId};
    use proptest::prelude::*;

    fn role(name: &str, count: u32, cpu_millis: Option<u64>) -> Role {
        let resources = cpu_millis.map(|cpu_millis| Resources { cpu_millis, ..Resources::default() });
        let task = TaskOverride { resources, ..TaskOverride::default() };
        Role { name: Name::new(name).unwrap(), count, min_member: 0, task }
    }

    fn spec(overrides: &[(u32, u64)]) -> JobSpec {
        let name = |text: &str| Name::new(text).unwrap();
        let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["x".to_owned()]);
        for &(index, cpu_millis) in overrides {
            let resources = Some(Resources { cpu_millis, ..Resources::default() });
            spec.overrides.insert(index, TaskOverride { resources, ..TaskOverride::default() });
        }
        spec
    }

    proptest! {
        #[test]
        fn a_range_is_charged_as_its_tasks(
            overrides in proptest::collection::vec((0..20_u32, 0..1000_u64), 0..5),
            start in 0..20_u32,
            length in 0..20_u32,
            roles in proptest::option::of((0..9_u32, proptest::option::of(0..1000_u64))),
        ) {
            let mut spec = spec(&overrides);
            spec.gang = roles.map(|(count, cpu_millis)| GangSpec {
                roles: vec![role("plain", count, None), role("own", 7, cpu_millis)],
                ..GangSpec::default()
            });
            let basis = ChargeBasis::from(&spec);
            let charged = job_charge(&basis, start..start + length).unwrap();
            let mut sum = QuotaUsed::default();
            for index in start..start + length {
                let row = TaskRow::never_placed(TaskId { job: JobId(1), index });
                sum = sum.plus(&task_charge(&basis, &row)).unwrap();
            }
            prop_assert_eq!(charged, sum);
        }

        /// During a rollout a task is charged the most of several versions.
        #[test]
        fn a_range_of_several_versions_is_charged_as_its_tasks(
            versions in proptest::collection::vec(
                (proptest::collection::vec((0..20_u32, 0..1000_u64), 0..4), 0..1000_u64, 0..9_u32),
                2..4,
            ),
            later in proptest::collection::vec((0..20_u32, 0..1000_u64), 0..4),
            start in 0..20_u32,
            length in 0..20_u32,
        ) {
            let specs: Vec<JobSpec> = versions
                .iter()
                .map(|(overrides, cpu_millis, of_role)| {
                    let mut spec = spec(overrides);
                    spec.task.resources.cpu_millis = *cpu_millis;
                    let roles = vec![role("plain", *of_role, None), role("own", 7, Some(500))];
                    spec.gang = Some(GangSpec { roles, ..GangSpec::default() });
                    spec
                })
                .collect();
            let basis = ChargeBasis { specs: specs.iter().collect() };
            let charged = job_charge(&basis, start..start + length).unwrap();
            let mut sum = QuotaUsed::default();
            for index in start..start + length {
                sum = sum.plus(&basis.share_of(index)).unwrap();
            }
            prop_assert_eq!(charged, sum);
            let later = spec(&later);
            let is_covered = |index| {
                let charged = basis.resources_for(index);
                resources_most(&charged, &later.node_resources_for(index)) == charged
            };
            prop_assert_eq!(basis.covers(&later, length), (0..length).all(is_covered));
        }
    }
}
