//! Whether the version in force would run a task as its attempt does: pure comparisons of specs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::daemon::NodeFit;
use crate::job::{JobKind, JobRow, JobSpec, RolloutState};
use crate::resize::{SpecAdoption, SpecResize, concerns_all};
use crate::task::{ResizeWish, TaskRow};

/// Which tasks the difference between two versions of a spec concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecDifference {
    /// Whether it concerns every task.
    everywhere: bool,
    /// The tasks whose overrides differ.
    indexes: BTreeSet<u32>,
    /// Which attempts can be resized instead of replaced.
    resize: SpecResize,
    /// Which attempts adopt the new version as they run.
    adoption: SpecAdoption,
    /// Whether all other attempts go on with their version: the job is batch work.
    keeps: bool,
}

impl SpecDifference {
    /// The difference between the specs of two versions of one job.
    pub fn between(old: &JobSpec, new: &JobSpec) -> Self {
        let own = |index: &&u32| old.overrides.get(index) != new.overrides.get(index);
        let indexes = old.overrides.keys().chain(new.overrides.keys()).filter(own).copied().collect();
        Self {
            everywhere: concerns_all(old, new),
            indexes,
            resize: SpecResize::between(old, new),
            adoption: SpecAdoption::between(old, new),
            // It has a value that a new attempt would lose. Later attempts have the new version.
            keeps: new.kind == JobKind::Batch,
        }
    }

    /// What the difference between two versions asks of the attempts of all tasks together.
    fn reach(old: &JobSpec, new: &JobSpec) -> DifferenceReach {
        let difference = Self::between(old, new);
        let roles = new.role_ranges().map(|(_, range)| range.start);
        // A task beyond all indexes has no override.
        let indexes =
            old.overrides.keys().chain(new.overrides.keys()).copied().chain(roles).chain([u32::MAX]);
        let fits: BTreeSet<AttemptFit> = indexes.map(|index| difference.fit(index)).collect();
        if fits.contains(&AttemptFit::Stale) {
            DifferenceReach::Replaces
        } else if fits.contains(&AttemptFit::Resizes) {
            DifferenceReach::InPlace
        } else if fits.contains(&AttemptFit::Adopts) {
            DifferenceReach::Adopted
        } else {
            DifferenceReach::None
        }
    }

    /// Whether both versions run the task `index` alike, except for its weight at most.
    pub fn runs_alike(&self, index: u32) -> bool {
        !self.concerns(index) || self.adoption.reaches(index)
    }

    /// Whether anything of the task `index` differs.
    fn concerns(&self, index: u32) -> bool {
        self.everywhere || self.indexes.contains(&index)
    }

    /// Whether the new version would run the task `index` as an attempt of the old one does.
    pub fn fit(&self, index: u32) -> AttemptFit {
        if !self.concerns(index) {
            AttemptFit::Fits
        } else if self.adoption.reaches(index) {
            AttemptFit::Adopts
        } else if self.keeps {
            AttemptFit::Fits
        } else if self.resize.reaches(index) {
            AttemptFit::Resizes
        } else {
            AttemptFit::Stale
        }
    }
}

/// What a difference asks of attempts, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DifferenceReach {
    None,
    /// They adopt the version as they run.
    Adopted,
    /// Some are resized in place, and none is replaced.
    InPlace,
    Replaces,
}

/// How a rollout begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutBegin {
    /// How many canaries have the version first.
    pub canaries: u32,
    /// Whether nothing surges at first: all attempts that the change concerns go on.
    pub in_place: bool,
}

impl RolloutBegin {
    /// Of a change of a job from the spec in force to `spec`, if its owner wants `count` tasks. It is in place only if
    /// each attempt has the version in force. Canaries would try nothing if no process runs otherwise.
    pub fn of(row: &JobRow, in_force: &JobSpec, spec: &JobSpec, count: u32) -> Self {
        let settled = is_settled(row);
        let reach = SpecDifference::reach(in_force, spec);
        if settled && reach == DifferenceReach::Adopted {
            return Self { canaries: 0, in_place: true };
        }
        let canaries = spec.canaries(count);
        Self { canaries, in_place: settled && canaries == 0 && reach == DifferenceReach::InPlace }
    }

    /// Of a way back from the spec in force to `spec`, which has served before: it has no canaries.
    pub fn of_way_back(row: &JobRow, in_force: &JobSpec, spec: &JobSpec) -> Self {
        let reach = SpecDifference::reach(in_force, spec);
        let goes_on = matches!(reach, DifferenceReach::Adopted | DifferenceReach::InPlace);
        Self { canaries: 0, in_place: is_settled(row) && goes_on }
    }

    /// How many tasks run beside the `count` of the owner when it begins: its canaries, or what surges.
    pub fn surge(self, spec: &JobSpec, count: u32) -> u32 {
        match self.canaries {
            _ if self.in_place => 0,
            0 => spec.surge(count),
            canaries => canaries,
        }
    }
}

/// Whether each attempt has the version in force.
fn is_settled(row: &JobRow) -> bool {
    row.rollout.as_deref().is_none_or(|last| last.state == RolloutState::Done && last.skipped == 0)
}

/// The attempts of a job's tasks against one version of its spec. It compares each earlier version once.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptFits {
    version: u32,
    spec: Arc<JobSpec>,
    /// `None`: the spec is not known, so its attempts are replaced.
    earlier: BTreeMap<u32, Option<SpecDifference>>,
}

impl AttemptFits {
    /// Against `version`, which has this spec.
    pub fn new(version: u32, spec: Arc<JobSpec>) -> Self {
        Self { version, spec, earlier: BTreeMap::new() }
    }

    /// Whether the attempt of a task fits. `spec_of` gives the spec of an earlier version.
    pub fn fit(&mut self, task: &TaskRow, spec_of: impl FnOnce(u32) -> Option<Arc<JobSpec>>) -> AttemptFit {
        self.fit_of(task.id.index, task.spec_version, spec_of)
    }

    /// Whether an attempt of task `index` with this version fits.
    pub fn fit_of(
        &mut self,
        index: u32,
        version: u32,
        spec_of: impl FnOnce(u32) -> Option<Arc<JobSpec>>,
    ) -> AttemptFit {
        if version == 0 || version == self.version {
            return AttemptFit::Fits;
        }
        let new = &self.spec;
        let difference = self
            .earlier
            .entry(version)
            .or_insert_with(|| spec_of(version).map(|old| SpecDifference::between(&old, new)));
        difference.as_ref().map_or(AttemptFit::Stale, |difference| difference.fit(index))
    }
}

/// Whether the version in force would run a task as its attempt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptFit {
    /// As it does, or the task has no attempt of an earlier version.
    Fits,
    /// Otherwise: the attempt is to be replaced.
    Stale,
    /// Otherwise, but only in amounts that a node changes while the attempt runs, and perhaps in its weight.
    Resizes,
    /// As it does, except for its weight at most: the attempt gets the version, and its endpoint the weight.
    Adopts,
    /// Otherwise, but the node of its daemon job takes no new attempt now: this one keeps its version until it begins
    /// again.
    Kept,
    /// Otherwise, but the node of its daemon job is too small for the version: this attempt goes on, and the rollout
    /// cannot be done.
    Larger,
}

impl AttemptFit {
    /// The same for an attempt of a daemon job, which runs on this node or nowhere.
    #[must_use]
    pub fn on_node(self, node: NodeFit) -> Self {
        match (self, node) {
            (Self::Stale | Self::Resizes, NodeFit::Kept) => Self::Kept,
            (Self::Stale | Self::Resizes, NodeFit::TooSmall) => Self::Larger,
            _ => self,
        }
    }

    /// Whether the attempt is to be resized in place.
    pub fn resize_wish(self) -> ResizeWish {
        if self == Self::Resizes { ResizeWish::Wanted } else { ResizeWish::None }
    }
}
