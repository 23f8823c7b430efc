//! How the tasks of a job belong together: which of them must fit before any is placed, in which roles they are, and
//! within how many failure domains they stand.

use std::ops::Range;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::file::read::{gang_topology_schema, roles_schema};
use super::{JobSpec, TaskOverride};
use crate::id::Name;

/// What makes a job more than a number of tasks that are alike. A job without it has `min_member` alone.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode, Serialize, Deserialize, FileMessage)]
pub struct GangSpec {
    /// Within how many failure domains the members of the gang stand; absent: anywhere.
    #[n(0)]
    #[field(
        by_hand,
        file = "gang_topology",
        schema = gang_topology_schema,
        value = "the members of a gang stand in one domain: `rack`; or in few: `{attribute: rack, at_most: 2}`, \
                 `{attribute: rack, exactly: 2}`, with `prefer: true` where they may stand elsewhere. See below",
        default = "anywhere"
    )]
    pub topology: Option<GangTopology>,
    /// The roles, in the order of their indexes: the first has the indexes from 0, each other one those that follow.
    /// Empty: all tasks have one role.
    #[n(1)]
    #[cbor(default)]
    #[serde(default)]
    #[field(by_hand, schema = roles_schema, value = "see below", default = "all tasks alike")]
    pub roles: Vec<Role>,
}

/// The members of a gang within few failure domains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
pub struct GangTopology {
    /// The attribute that names the domain: `rack`, `zone` or any other. A node without it is in none, and takes no
    /// member.
    #[n(0)]
    pub attribute: String,
    /// Over at least so many domains; 1: no more is asked.
    #[n(1)]
    pub domains_min: u32,
    /// Over at most so many domains; 1: all in one.
    #[n(2)]
    pub domains_max: u32,
    /// Whether they stand elsewhere where no domains have room for them.
    #[n(3)]
    pub preferred: bool,
}

/// Tasks of one job that do the same: one group of a job of several. All roles are placed together, each with at least
/// so many members as it must have, or none is.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Role {
    /// Its name, unique in the job; its tasks find it in `BOROUGH_ROLE`, and their number in it in
    /// `BOROUGH_ROLE_INDEX`.
    #[n(0)]
    pub name: Name,
    /// How many tasks.
    #[n(1)]
    pub count: u32,
    /// How many of them must fit before any task of the job is placed; 0: none.
    #[n(2)]
    pub min_member: u32,
    /// What its tasks have otherwise than the job says. An override of a single task goes before it.
    #[n(3)]
    pub task: TaskOverride,
}

impl JobSpec {
    /// The roles; empty where all tasks have one.
    pub fn roles(&self) -> &[Role] {
        self.gang.as_ref().map_or(&[], |gang| &gang.roles)
    }

    /// Within how many failure domains the gang stands.
    pub fn gang_topology(&self) -> Option<&GangTopology> {
        self.gang.as_ref().and_then(|gang| gang.topology.as_ref())
    }

    /// The roles with the indexes of their tasks.
    pub fn role_ranges(&self) -> impl Iterator<Item = (&Role, Range<u32>)> {
        let mut first = 0u32;
        self.roles().iter().map(move |role| {
            let range = first..first.saturating_add(role.count);
            first = range.end;
            (role, range)
        })
    }

    /// The role of a task, and the task's number in it.
    pub fn role_of(&self, index: u32) -> Option<(&Role, u32)> {
        let mut ranges = self.role_ranges();
        let (role, range) = ranges.find(|(_, range)| range.contains(&index))?;
        Some((role, index - range.start))
    }

    /// How many tasks of each role must be placed together, with the indexes that count: of a job without roles all
    /// count for its `min_member`. The count is the one in force.
    pub fn minimums(&self, count: u32) -> Vec<(Range<u32>, u32)> {
        if self.roles().is_empty() {
            return vec![(0..count, self.min_member)];
        }
        self.role_ranges().map(|(role, range)| (range, role.min_member)).collect()
    }

    /// The default of `min_member`, by the kind of work. It is 1 for a service and for batch work, because each task is
    /// useful alone. It is the sum of the roles' minimums, and the whole count with a gang topology.
    pub fn min_member_default(&self) -> u32 {
        match (self.roles(), self.gang_topology()) {
            ([], None) => 1,
            ([], Some(_)) => self.count.max(1),
            (roles, _) => roles.iter().fold(0, |sum: u32, role| sum.saturating_add(role.min_member)),
        }
    }
}
