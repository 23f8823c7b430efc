//! Which changes of a spec reach a running attempt in place: pure comparisons of two versions.

use std::collections::BTreeSet;

use crate::job::file::FileMessage as _;
use crate::job::{JobKind, JobSpec, ResizeMode, SpecChange};
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
        if !spec_resizes(new) || !is_else_alike(old, new) {
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

/// Whether a rollout to this spec resizes attempts in place. It ends no attempt of batch work, and replaces the members
/// of a gang together. Cores and domains of an attempt are chosen by its amounts, and stay.
fn spec_resizes(new: &JobSpec) -> bool {
    new.kind != JobKind::Batch
        && !new.is_gang()
        && new.roles().is_empty()
        && new.update.unwrap_or_default().resize == ResizeMode::InPlace
        && !new.task.exclusive_cores
        && new.task.within.is_none()
}

/// Whether two versions differ in what their tasks run at most.
fn is_else_alike(old: &JobSpec, new: &JobSpec) -> bool {
    let mut same = old.clone();
    same.task.clone_from(&new.task);
    same.overrides.clone_from(&new.overrides);
    !concerns_all(&same, new)
}

/// Whether the difference between two versions concerns every task, besides those with other overrides.
pub(crate) fn concerns_all(old: &JobSpec, new: &JobSpec) -> bool {
    let mut same = old.clone();
    same.adopt(new, SpecChange::CountOrPriority);
    same.adopt(new, SpecChange::Metadata);
    same.overrides.clone_from(&new.overrides);
    // These are of the job as it is in force, whatever the version of an attempt.
    (same.after, same.queue) = (new.after.clone(), new.queue.clone());
    (same.profile, same.preemption) = (new.profile.clone(), new.preemption);
    same.lost_after_ms = new.lost_after_ms;
    same != *new
}

fn task_resizes(old: &JobSpec, new: &JobSpec, index: u32) -> bool {
    let (mut before, after) = (old.for_task(index), new.for_task(index));
    if before.resources == after.resources {
        return false;
    }
    before.resources = resized(&before.resources, &after.resources);
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
