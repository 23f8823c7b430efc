//! What the owner of a federated job says of its cells: which may have tasks, and how the tasks are divided among them.

use std::collections::BTreeMap;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::check::{
    away_from_check, cells_check, conditions_check, failover_check, groups_check, limits_check,
    overrides_check, spread_check, tolerations_check, weights_check,
};
use super::read::{
    away_from_read, cells_read, cells_schema, conditions_read, conditions_schema, failover_read,
    failover_schema, groups_read, groups_schema, limits_read, limits_schema, overrides_read,
    overrides_schema, spread_read, spread_schema, weights_read, weights_schema,
};
use super::release::{ReleaseSpec, stage_cells_check};
use crate::id::Name;
use crate::job::file::kind::{SpecWord, Truth, Whole, Words};
use crate::job::file::read::{tolerations_read, tolerations_schema};
use crate::job::{COUNT_MAX, Toleration};
use crate::merged::LabelCondition;

/// The `federation` part of a job file: the cells of the job, and how its tasks are divided among them.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, FileMessage)]
#[serde(default)]
pub struct FederationSpec {
    /// The cells that may have tasks, by name. Their order counts for `split: order`.
    #[n(0)]
    #[field(
        read = cells_read,
        check = cells_check,
        schema = cells_schema,
        value = "names of cells, at most 1024. With `where` both must hold",
        default = "every cell that meets `where`; without either, every cell of the federation",
        example = ["a", "b"]
    )]
    pub cells: Vec<Name>,
    /// Conditions on the labels of a cell. All of them hold.
    #[n(1)]
    #[field(
        file = "where",
        read = conditions_read,
        check = conditions_check,
        schema = conditions_schema,
        value = "at most 16 conditions, such as `region=eu` or `tier!=test`. A cell without the label meets `!=`",
        default = "no condition",
        example = ["region=eu", "tier!=test"]
    )]
    pub conditions: Vec<LabelCondition>,
    /// Groups of cells in the order in which they get tasks: each gets what does not fit into those before it.
    #[n(2)]
    #[field(
        read = groups_read,
        check = groups_check,
        schema = groups_schema,
        value = "at most 16 maps of `cells` and `where`. A cell belongs to the first group that has it",
        default = "one group of all cells",
        example = [{"where": ["tier=own"]}, {"where": ["tier!=own"]}]
    )]
    pub groups: Vec<CellGroup>,
    /// How the tasks are divided among the cells of a group.
    #[n(3)]
    #[field(
        kind = Words(&SplitPolicy::NAMES),
        value = "`free` (in proportion to the room that is free), `weight` (by `weights`), `pack` (into as few cells as \
                 possible), `order` (each cell is filled before the next in `cells`), or `duplicate` (each cell has the \
                 whole count)",
        default = "`free`",
        example = "pack"
    )]
    pub split: SplitPolicy,
    /// The weights of cells for `split: weight`, 1 to 1000.
    #[n(4)]
    #[field(
        read = weights_read,
        check = weights_check,
        schema = weights_schema,
        value = "a map from cells to weights of 1 to 1000",
        default = "1 for each cell",
        example = {"a": 3}
    )]
    pub weights: BTreeMap<Name, u32>,
    /// A cell has at least so many tasks, or none.
    #[n(5)]
    #[field(kind = Whole::of(1, COUNT_MAX, "1 to 100000 tasks"), default = "1", example = 2)]
    pub cell_min: Option<u32>,
    /// A cell has at most so many tasks.
    #[n(6)]
    #[field(kind = Whole::of(1, COUNT_MAX, "1 to 100000 tasks"), default = "no limit", example = 50)]
    pub cell_max: Option<u32>,
    /// Limits of single cells in place of `cell_min` and `cell_max`.
    #[n(7)]
    #[field(
        read = limits_read,
        check = limits_check,
        schema = limits_schema,
        value = "a map from cells to maps of `min` and `max`",
        default = "`cell_min` and `cell_max`",
        example = {"a": {"min": 2, "max": 5}}
    )]
    pub limits: BTreeMap<Name, CellLimits>,
    /// Over how many different values of a label of cells the tasks are spread.
    #[n(8)]
    #[field(
        read = spread_read,
        check = spread_check,
        schema = spread_schema,
        value = "at most 8 maps of `by` (`cell`, or a label of cells such as `region`), `min` and `max`",
        default = "no rule",
        example = [{"by": "region", "min": 2}, {"by": "cell", "max": 8}]
    )]
    pub spread: Vec<CellSpread>,
    /// Taints of cells that do not keep its tasks away.
    #[n(9)]
    #[field(
        read = tolerations_read,
        check = tolerations_check,
        schema = tolerations_schema,
        value = "as the tolerations of a job, with the effects `no_schedule` (no new tasks) and `no_execute` (tasks leave)",
        default = "none",
        example = ["maintenance"]
    )]
    pub tolerations: Vec<Toleration>,
    /// Federated jobs of the same user. A cell that has tasks of one gets none of this job.
    #[n(10)]
    #[field(
        read = away_from_read,
        check = away_from_check,
        schema = cells_schema,
        value = "names of jobs, at most 64",
        default = "none",
        example = ["other"]
    )]
    pub away_from: Vec<Name>,
    /// By cell, the fields of the job file that differ there: a merge patch (RFC 7386).
    #[n(11)]
    #[field(
        read = overrides_read,
        check = overrides_check,
        schema = overrides_schema,
        value = "a map from cells to fields of a job file that differ there. `null` takes a field away. A list \
                 replaces the whole list",
        default = "none",
        example = {"a": {"task": {"environment": {"ZONE": "a"}}}}
    )]
    pub overrides: BTreeMap<Name, String>,
    /// How long a cell may be silent before its tasks are promised to other cells.
    #[n(12)]
    #[field(
        read = failover_read,
        check = failover_check,
        schema = failover_schema,
        value = "30s to 168h, or `never`",
        default = "5m",
        example = "10m"
    )]
    pub failover_after: FailoverAfter,
    /// Which tasks stay when a cell is back after its tasks were promised to others.
    #[n(13)]
    #[field(
        kind = Words(&ReturnPolicy::NAMES),
        value = "`keep_new`, `keep_old`, `keep_older` (those that have run for longer) or `keep_both` (until the others \
                 are healthy)",
        default = "`keep_new`",
        example = "keep_old"
    )]
    pub returns: ReturnPolicy,
    /// Whether a split that is made again moves nothing that runs where it is allowed.
    #[n(14)]
    #[field(kind = Truth, default = "`true`", example = false)]
    pub avoid_disruption: bool,
    /// How a new version of the job reaches its cells.
    #[n(15)]
    #[cbor(default)]
    #[field(
        nested,
        check = stage_cells_check,
        value = "a map of `stages` (a list of maps of `cells`, `where`, `prove`, `at_once` and `approve`), `failures_max` \
                 and `revert`",
        default = "one cell after the other, none after a cell has failed",
        example = {
            "stages": [{"cells": ["a"], "prove": "10m", "approve": true}, {"where": ["tier!=last"], "at_once": 4}],
            "failures_max": 1,
            "revert": true
        }
    )]
    pub rollout: ReleaseSpec,
}

impl Default for FederationSpec {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            conditions: Vec::new(),
            groups: Vec::new(),
            split: SplitPolicy::Free,
            weights: BTreeMap::new(),
            cell_min: None,
            cell_max: None,
            limits: BTreeMap::new(),
            spread: Vec::new(),
            tolerations: Vec::new(),
            away_from: Vec::new(),
            overrides: BTreeMap::new(),
            failover_after: FailoverAfter::DEFAULT,
            returns: ReturnPolicy::New,
            avoid_disruption: true,
            rollout: ReleaseSpec::default(),
        }
    }
}

impl FederationSpec {
    /// The least tasks that a cell with tasks has: at least 1.
    pub fn min_of(&self, cell: &Name) -> u32 {
        let own = self.limits.get(cell).and_then(|limits| limits.min);
        own.or(self.cell_min).unwrap_or(1).max(1)
    }

    /// The most tasks that a cell has; `None`: no limit.
    pub fn max_of(&self, cell: &Name) -> Option<u32> {
        self.limits.get(cell).and_then(|limits| limits.max).or(self.cell_max)
    }

    /// The weight of a cell for [`SplitPolicy::Weight`].
    pub fn weight_of(&self, cell: &Name) -> u32 {
        self.weights.get(cell).copied().unwrap_or(1)
    }
}

/// Cells that get tasks together, before those of later groups.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellGroup {
    /// Its cells by name. With conditions both must hold.
    #[n(0)]
    pub cells: Vec<Name>,
    /// Conditions on the labels of its cells.
    #[n(1)]
    #[serde(rename = "where")]
    pub conditions: Vec<LabelCondition>,
}

/// The limits of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellLimits {
    /// At least so many tasks, or none.
    #[n(0)]
    pub min: Option<u32>,
    #[n(1)]
    pub max: Option<u32>,
}

/// The word of [`CellSpread::by`] for the cells themselves.
pub const SPREAD_BY_CELL: &str = "cell";

/// Over how many values of a label the tasks are spread.
#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CellSpread {
    /// The label of cells, or [`SPREAD_BY_CELL`].
    #[n(0)]
    pub by: String,
    /// At least so many values have tasks.
    #[n(1)]
    pub min: Option<u32>,
    /// At most so many values have tasks.
    #[n(2)]
    pub max: Option<u32>,
}

/// How the tasks are divided among the cells of a group.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum SplitPolicy {
    /// In proportion to what the cells can have of the job.
    #[default]
    #[n(0)]
    Free,
    /// In proportion to the weights that the job gives.
    #[n(1)]
    Weight,
    /// Into as few cells as possible.
    #[n(2)]
    Pack,
    /// Each cell is filled before the next one.
    #[n(3)]
    Order,
    /// Each cell has the whole count.
    #[n(4)]
    Duplicate,
}

impl SplitPolicy {
    /// Each with its name in a job file.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("free", Self::Free),
        ("weight", Self::Weight),
        ("pack", Self::Pack),
        ("order", Self::Order),
        ("duplicate", Self::Duplicate),
    ];

    /// Its name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

impl SpecWord for SplitPolicy {}

/// How long a cell may be silent before its tasks are promised to other cells.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FailoverAfter {
    /// They wait for the cell, however long it is silent.
    #[n(0)]
    Never,
    /// So many milliseconds.
    #[n(1)]
    Ms(#[n(0)] u64),
}

impl FailoverAfter {
    /// The wait of a job that names none: five minutes.
    pub const DEFAULT: Self = Self::Ms(300_000);
}

impl Default for FailoverAfter {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Which tasks stay when a cell is back after its tasks were promised to others.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
pub enum ReturnPolicy {
    /// Those of the other cells.
    #[default]
    #[n(0)]
    #[serde(rename = "keep_new")]
    New,
    /// Those of the cell that is back.
    #[n(1)]
    #[serde(rename = "keep_old")]
    Old,
    /// Those that have run for longer.
    #[n(2)]
    #[serde(rename = "keep_older")]
    Older,
    /// Both, until those that are to stay are healthy.
    #[n(3)]
    #[serde(rename = "keep_both")]
    Both,
}

impl ReturnPolicy {
    /// Each with its name in a job file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("keep_new", Self::New),
        ("keep_old", Self::Old),
        ("keep_older", Self::Older),
        ("keep_both", Self::Both),
    ];

    /// Its name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

impl SpecWord for ReturnPolicy {}
