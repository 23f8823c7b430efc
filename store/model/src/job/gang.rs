//! The gang of a job: which tasks must fit before any is placed, their roles, and the number of their failure domains.

use std::ops::Range;

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::file::read::{gang_topology_schema, roles_schema};
use super::{JobSpec, TaskOverride};
use crate::id::Name;

/// The gang of a job, beyond its `min_member`.
#[derive(Clone, Debug, PartialEq, Default, Encode, Decode, Serialize, Deserialize, FileMessage)]
pub struct GangSpec {
    /// The number of failure domains that the members run in; absent: any.
    #[n(0)]
    #[field(
        by_hand,
        file = "gang_topology",
        schema = gang_topology_schema,
        value = "the members of a gang stand in one domain: `rack`; or in few: `{attribute: rack, at_most: 2}`, \
                 `{attribute: rack, exactly: 2}`, with `prefer: true` where they may stand elsewhere",
        default = "anywhere"
    )]
    pub topology: Option<GangTopology>,
    /// The roles, in the order of their indexes. The first role has the indexes from 0, and each role continues after
    /// the one before it. Empty: all tasks have one role.
    #[n(1)]
    #[cbor(default)]
    #[serde(default)]
    #[field(by_hand, schema = roles_schema, value = "see below", default = "all tasks alike")]
    pub roles: Vec<Role>,
}

/// The limit of the failure domains that a gang may run in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct GangTopology {
    /// The attribute that names the domain: `rack`, `zone` or any other. A node without it takes no member.
    #[n(0)]
    pub attribute: String,
    /// The fewest domains; 1: no lower limit.
    #[n(1)]
    pub domains_min: u32,
    /// The most domains; 1: all members in one.
    #[n(2)]
    pub domains_max: u32,
    /// Whether the members may run in more domains if no such domains have room.
    #[n(3)]
    pub preferred: bool,
}

/// Tasks of one job that do the same work, such as drivers or workers. The scheduler places all roles together, each
/// with at least its own minimum, or none of them.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, Deserialize)]
pub struct Role {
    /// Its name, unique in the job. A task reads it from `BOROUGH_ROLE`, and its number within the role from
    /// `BOROUGH_ROLE_INDEX`.
    #[n(0)]
    pub name: Name,
    /// The number of its tasks.
    #[n(1)]
    pub count: u32,
    /// How many of them must fit before any task of the job is placed; 0: none.
    #[n(2)]
    pub min_member: u32,
    /// Fields of the job that differ for its tasks. An override of a single task has priority over it.
    #[n(3)]
    pub task: TaskOverride,
}

impl JobSpec {
    /// The roles; empty if all tasks have the same one.
    pub fn roles(&self) -> &[Role] {
        self.gang.as_ref().map_or(&[], |gang| &gang.roles)
    }

    /// Takes the weights of the roles of another version, as far as both have the same roles.
    pub(crate) fn role_weights_adopt(&mut self, other: &Self) {
        let roles = self.gang.iter_mut().flat_map(|gang| &mut gang.roles);
        for (role, other) in roles.zip(other.roles()) {
            role.task.weight = other.task.weight;
        }
    }

    /// The limit of the failure domains of the gang, if any.
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

    /// How many tasks of each role must be placed together, with the indexes that count. In a job without roles, all
    /// indexes count for its `min_member`. `count` is the one in force.
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
