//! Who may do what in a cell: rights, the roles that bundle them, the grants that give them, and the decision.
//!
//! Nobody has a right that no grant gives, and a right that any grant denies is denied. The design follows the roles of
//! Kubernetes and the capabilities of Nomad and Borg, with a deny that wins over every allow.

mod need;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, FieldErrors};
use crate::id::Name;

pub use need::{AccessRefused, ActionNeed, asks_for_more};
pub use table::{AccessTable, GrantReason, QuotaTie, QuotaWindow};

/// The most entries of each list of a grant.
pub const GRANT_ENTRIES_MAX: usize = 16;
/// The most groups of an identity that count. An identity with more is refused.
pub const GROUPS_MAX: usize = 256;

/// Something that a subject may do in a cell.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[cbor(index_only)]
pub enum Right {
    /// See everything of the cell, also what other users run, and their logs.
    #[n(0)]
    Read,
    /// Run jobs under the own name, and see, change, stop, read and enter them.
    #[n(1)]
    RunJobs,
    /// Change and stop jobs of every user.
    #[n(2)]
    ModifyAnyJob,
    /// Run commands inside tasks of every user.
    #[n(3)]
    ExecAnyTask,
    /// Run jobs in the production and monitoring bands without a quota there.
    #[n(4)]
    RaisePriority,
    /// Change nodes, settings, quotas and grants.
    #[n(5)]
    Administer,
}

impl Right {
    /// Every right, in the order of codes.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::RunJobs,
        Self::ModifyAnyJob,
        Self::ExecAnyTask,
        Self::RaisePriority,
        Self::Administer,
    ];

    /// Its name in commands and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::RunJobs => "run_jobs",
            Self::ModifyAnyJob => "modify_any_job",
            Self::ExecAnyTask => "exec_any_task",
            Self::RaisePriority => "raise_priority",
            Self::Administer => "administer",
        }
    }

    /// What it lets a subject do, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Read => "see everything of the cell, also other users' jobs and logs",
            Self::RunJobs => "run, see, change, stop and enter jobs under the own name",
            Self::ModifyAnyJob => "change and stop every user's jobs",
            Self::ExecAnyTask => "run commands inside every user's tasks",
            Self::RaisePriority => "run in the production and monitoring bands without a quota there",
            Self::Administer => "change nodes, settings, quotas and grants",
        }
    }

    /// The right with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A bundle of rights.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[cbor(index_only)]
pub enum AccessRole {
    /// Sees everything, changes nothing.
    #[n(0)]
    Viewer,
    /// Runs jobs under the own name.
    #[n(1)]
    Runner,
    /// Looks after the jobs of every user.
    #[n(2)]
    Maintainer,
    /// Has every right.
    #[n(3)]
    Admin,
}

impl AccessRole {
    /// Every role, in the order of codes.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Runner, Self::Maintainer, Self::Admin];

    /// Its name in commands and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Runner => "runner",
            Self::Maintainer => "maintainer",
            Self::Admin => "admin",
        }
    }

    /// The rights of the role.
    pub const fn rights(self) -> &'static [Right] {
        match self {
            Self::Viewer => &[Right::Read],
            Self::Runner => &[Right::RunJobs],
            Self::Maintainer => &[Right::Read, Right::RunJobs, Right::ModifyAnyJob, Right::ExecAnyTask],
            Self::Admin => &Right::ALL,
        }
    }

    /// The role with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl std::fmt::Display for AccessRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whom a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessSubject {
    User(Name),
    /// Everybody whose identity says that the caller is in the group.
    Group(Name),
}

impl From<&Name> for AccessSubject {
    /// A plain name is that of a user.
    fn from(user: &Name) -> Self {
        Self::User(user.clone())
    }
}

impl std::fmt::Display for AccessSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(name) => write!(f, "user/{name}"),
            Self::Group(name) => write!(f, "group/{name}"),
        }
    }
}

impl std::str::FromStr for AccessSubject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let accepted = || "user/NAME or group/NAME, such as user/ann or group/web-team".to_owned();
        let (kind, name) = text.split_once('/').ok_or_else(accepted)?;
        let name = Name::new(name).map_err(|error| format!("{}; {error}", accepted()))?;
        match kind {
            "user" => Ok(Self::User(name)),
            "group" => Ok(Self::Group(name)),
            _ => Err(accepted()),
        }
    }
}

/// What a subject is given, and what it is denied.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AccessGrant {
    pub roles: BTreeSet<AccessRole>,
    /// Rights beside those of the roles.
    pub allow: BTreeSet<Right>,
    /// Rights that the subject never has, whatever other grants say.
    pub deny: BTreeSet<Right>,
}

impl AccessGrant {
    /// Returns true if it neither gives nor denies anything.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.allow.is_empty() && self.deny.is_empty()
    }

    /// Why it gives `right`; `None` if it does not.
    fn gives(&self, right: Right) -> Option<String> {
        if self.allow.contains(&right) {
            return Some(format!("allows {right}"));
        }
        let role = self.roles.iter().find(|role| role.rights().contains(&right))?;
        Some(format!("has role {role}"))
    }
}

/// Refuses a grant that allows and denies the same right: the deny would win, and its author cannot have meant both.
pub fn grant_check(grant: &AccessGrant) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    for right in grant.allow.intersection(&grant.deny) {
        let accepted = "a right that is allowed or denied, and not both: a deny wins";
        fields.refuse("grant.deny", format!("{:?}", right.name()), accepted);
    }
    fields.done()
}

/// Who makes a request, as a credential proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: Name,
    pub groups: BTreeSet<Name>,
}

impl Identity {
    /// The subjects whose grants count for the identity.
    pub fn subjects(&self) -> impl Iterator<Item = AccessSubject> + '_ {
        let groups = self.groups.iter().cloned().map(AccessSubject::Group);
        std::iter::once(AccessSubject::User(self.user.clone())).chain(groups)
    }
}
