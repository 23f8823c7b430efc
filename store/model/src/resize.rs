//! Which changes of a spec reach a running attempt in place: pure comparisons of two versions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::job::file::{FileMessage as _, file_diff};
use crate::job::{FieldChange, JobKind, JobSpec, ResizeMode, SpecChange};
use crate::resource::{Dimension, Resources};

/// The dimensions that a node changes while an attempt runs.
pub const RESIZED: [Dimension; 4] =
    [Dimension::Cpu, Dimension::Memory, Dimension::DiskRate, Dimension::NetworkRate];

/// Which tasks the attempts of an earlier version can be resized for, in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecResize {
    /// Whether it can for tasks without overrides.
    plain: bool,
    /// The tasks with overrides for which it can.
    own: BTreeSet<u32>,
    /// The tasks with overrides, in either version.
    overridden: BTreeSet<u32>,
}

impl SpecResize {
    /// Compares the specs of two versions of one job.
    pub fn between(old: &JobSpec, new: &JobSpec) -> Self {
        if resize_prevented(new).is_some() || !is_else_alike(old, new) {
            return Self::default();
        }
        let overridden: BTreeSet<u32> = old.overrides.keys().chain(new.overrides.keys()).copied().collect();
        let own = overridden.iter().copied().filter(|index| task_resizes(old, new, *index)).collect();
        // A task beyond all indexes has no override.
        Self { plain: task_resizes(old, new, u32::MAX), own, overridden }
    }

    /// Whether the attempt of the task `index` can be resized to what the new version asks for.
    pub fn reaches(&self, index: u32) -> bool {
        if self.overridden.contains(&index) { self.own.contains(&index) } else { self.plain }
    }
}

/// Which tasks the attempts of an earlier version need nothing for: at most their endpoints get another weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecAdoption {
    /// Whether it is so for tasks without a role and without overrides.
    plain: bool,
    /// The tasks of each role without overrides.
    of_role: Vec<(Range<u32>, bool)>,
    /// The tasks with overrides, in either version.
    own: BTreeMap<u32, bool>,
}

impl SpecAdoption {
    /// Compares the specs of two versions of one job.
    pub fn between(old: &JobSpec, new: &JobSpec) -> Self {
        if !is_else_alike(old, new) {
            return Self::default();
        }
        let overridden = old.overrides.keys().chain(new.overrides.keys());
        let own = overridden.map(|&index| (index, task_adopts(old, new, index))).collect();
        let bare = |spec: &JobSpec| JobSpec { overrides: BTreeMap::new(), ..spec.clone() };
        let (old, new) = (bare(old), bare(new));
        let of_role = new.role_ranges().map(|(_, range)| {
            let adopts = task_adopts(&old, &new, range.start);
            (range, adopts)
        });
        // A task beyond all indexes has no role.
        Self { plain: task_adopts(&old, &new, u32::MAX), of_role: of_role.collect(), own }
    }

    /// Whether the attempt of the task `index` can have the new version as it runs.
    pub fn reaches(&self, index: u32) -> bool {
        let of_role =
            || self.of_role.iter().find(|(range, _)| range.contains(&index)).map(|(_, adopts)| adopts);
        *self.own.get(&index).or_else(of_role).unwrap_or(&self.plain)
    }
}

/// Why a rollout to this spec resizes no attempt in place, for people; `None`: it may.
pub fn resize_prevented(new: &JobSpec) -> Option<&'static str> {
    if new.update.unwrap_or_default().resize == ResizeMode::Restart {
        Some("`update.resize` is `restart`")
    } else if new.is_gang() || !new.roles().is_empty() {
        Some("the members of a gang are replaced together")
    } else if new.task.exclusive_cores || new.task.within.is_some() {
        Some("its cores and its domain were chosen by its amounts")
    } else if new.kind == JobKind::AllocSet {
        Some("what is in an alloc counts on its amounts")
    } else if new.alloc_set.is_some() {
        Some("its tasks take their amounts of an alloc")
    } else if new.kind == JobKind::Batch {
        Some("a rollout ends no attempt of batch work")
    } else {
        None
    }
}

/// Whether two versions differ for a task only in amounts that a node changes while the attempt runs.
pub fn amounts_only(old: &JobSpec, new: &JobSpec, index: u32) -> bool {
    is_else_alike(old, new) && task_resizes(old, new, index)
}

/// The fields of a file that differ between two versions and that attempts see.
pub fn attempt_diff(old: &JobSpec, new: &JobSpec) -> Vec<FieldChange> {
    file_diff(&with_job_parts_of(old, new), new)
}

/// Whether two versions differ in what their tasks run at most.
fn is_else_alike(old: &JobSpec, new: &JobSpec) -> bool {
    let mut same = old.clone();
    same.task.clone_from(&new.task);
    same.overrides.clone_from(&new.overrides);
    same.role_weights_adopt(new);
    !concerns_all(&same, new)
}

/// Whether the difference between two versions concerns every task, besides those with other overrides.
pub(crate) fn concerns_all(old: &JobSpec, new: &JobSpec) -> bool {
    let mut same = with_job_parts_of(old, new);
    same.overrides.clone_from(&new.overrides);
    same != *new
}

/// `old` with the parts of `new` that are of the job as it is in force, whatever the version of an attempt.
fn with_job_parts_of(old: &JobSpec, new: &JobSpec) -> JobSpec {
    let mut same = old.clone();
    same.adopt(new, SpecChange::CountOrPriority);
    same.adopt(new, SpecChange::Metadata);
    (same.after, same.queue) = (new.after.clone(), new.queue.clone());
    (same.profile, same.preemption) = (new.profile.clone(), new.preemption);
    same.lost_after_ms = new.lost_after_ms;
    same
}

fn task_resizes(old: &JobSpec, new: &JobSpec, index: u32) -> bool {
    let (mut before, after) = (old.for_task(index), new.for_task(index));
    if before.resources == after.resources {
        return false;
    }
    before.resources = resized(&before.resources, &after.resources);
    before.weight = after.weight;
    before == after
}

/// Whether two versions run a task alike: at most its weight differs, which its process does not see.
fn task_adopts(old: &JobSpec, new: &JobSpec, index: u32) -> bool {
    let (mut before, after) = (old.for_task(index), new.for_task(index));
    before.weight = after.weight;
    before == after
}

/// `before` with the amounts of `after` that a node changes in place.
fn resized(before: &Resources, after: &Resources) -> Resources {
    let mut resized = before.clone();
    for dimension in &RESIZED {
        resized.amount_set(dimension, after.amount(dimension));
    }
    resized
}

/// What an attempt is charged that asks for `asked`, and has the single cards of `charge`.
pub fn with_cards_of(asked: &Resources, charge: &Resources) -> Resources {
    let mut all = asked.clone();
    let plain = charge.without_cards();
    let cards = charge.device_millis.iter().filter(|(card, _)| !plain.device_millis.contains_key(*card));
    all.device_millis.extend(cards.map(|(card, millis)| (card.clone(), *millis)));
    all
}
