//! Every grant of a cell, in memory, and what follows from them.

use std::collections::BTreeMap;

use super::{AccessGrant, AccessRefused, AccessSubject, Identity, Right};
use crate::id::Name;
use crate::job::{Band, band};
use crate::quota::QUOTA_GROUPS_MAX;

/// The grants of a cell, and which users have quotas in the bands that need one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AccessTable {
    pub grants: BTreeMap<AccessSubject, AccessGrant>,
    /// Lines of quotas, by holder and band.
    pub quotas: BTreeMap<(AccessSubject, Band), QuotaTie>,
}

/// What the table has of a line of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QuotaTie {
    /// When it limits something; absent: it limits nothing itself.
    pub window: Option<QuotaWindow>,
    /// The group whose line counts too.
    pub parent: Option<Name>,
}

/// When a quota holds: wall times, milliseconds since 1970; absent: without that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QuotaWindow {
    pub from_ms: Option<i64>,
    pub until_ms: Option<i64>,
}

impl QuotaWindow {
    fn is_open(self, now_ms: i64) -> bool {
        self.from_ms.is_none_or(|from| from <= now_ms) && self.until_ms.is_none_or(|until| now_ms < until)
    }
}

/// The grant that gives a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantReason {
    pub right: Right,
    pub subject: AccessSubject,
    /// Such as `has role admin`.
    pub by: String,
}

impl std::fmt::Display for GrantReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.subject, self.by)
    }
}

impl AccessTable {
    /// The grant that gives `right` to an identity; `None`: no grant does.
    ///
    /// # Errors
    /// A grant of the user or of one of the groups denies it.
    pub fn reason(&self, identity: &Identity, right: Right) -> Result<Option<GrantReason>, AccessRefused> {
        let mut found = None;
        for subject in identity.subjects() {
            let Some(grant) = self.grants.get(&subject) else { continue };
            if grant.deny.contains(&right) {
                let user = identity.user.clone();
                return Err(AccessRefused::Denied { user, right, by: subject.to_string() });
            }
            if found.is_none()
                && let Some(by) = grant.gives(right)
            {
                found = Some(GrantReason { right, subject, by });
            }
        }
        Ok(found)
    }

    /// Decides whether an identity may run a job of `owner` with this priority at wall time `now_ms`. Batch and best
    /// effort need no more than the job itself. A quota serves its user alone: who runs jobs of others there needs the
    /// right.
    ///
    /// # Errors
    /// The band needs a quota of the owner, or the right to raise priorities.
    pub fn priority_decide(
        &self,
        identity: &Identity,
        owner: &Name,
        priority: u32,
        now_ms: i64,
    ) -> Result<(), AccessRefused> {
        let band = band(priority);
        if matches!(band, Band::BestEffort | Band::Batch) {
            return Ok(());
        }
        let own = *owner == identity.user;
        if own && self.has_quota(owner, band, now_ms) {
            return Ok(());
        }
        match self.reason(identity, Right::RaisePriority) {
            Ok(Some(_)) => Ok(()),
            Ok(None) if own => Err(AccessRefused::Band { user: owner.clone(), band }),
            Ok(None) => {
                let (user, right) = (identity.user.clone(), Right::RaisePriority);
                Err(AccessRefused::Missing { user, right, own_only: false })
            }
            Err(denied) => Err(denied),
        }
    }

    /// The lines that count what a user admits in a band: the user's own one, and those of the groups above, the
    /// nearest first.
    fn quota_ties<'a>(
        &'a self,
        user: &Name,
        band: Band,
    ) -> impl Iterator<Item = (AccessSubject, &'a QuotaTie)> + 'a {
        let find = move |holder: AccessSubject| {
            let tie = self.quotas.get(&(holder.clone(), band))?;
            Some((holder, tie))
        };
        let own = find(AccessSubject::User(user.clone()));
        let next = move |(_, tie): &(AccessSubject, &QuotaTie)| {
            tie.parent.clone().map(AccessSubject::Group).and_then(find)
        };
        std::iter::successors(own, next).take(QUOTA_GROUPS_MAX.saturating_add(1))
    }

    /// Whether a user has a quota in a band: the own line or that of a group above limits something, and the windows of
    /// all of them are open.
    fn has_quota(&self, user: &Name, band: Band, now_ms: i64) -> bool {
        let mut windows = self.quota_ties(user, band).filter_map(|(_, tie)| tie.window).peekable();
        windows.peek().is_some() && windows.all(|window| window.is_open(now_ms))
    }

    /// The topmost group with a limit that counts what a user admits in a band: the users below it wait for each other.
    /// `None`: no group above the user limits anything.
    pub fn quota_group_top(&self, user: &Name, band: Band) -> Option<Name> {
        let limited = self.quota_ties(user, band).filter(|(_, tie)| tie.window.is_some());
        let groups = limited.filter_map(|(holder, _)| match holder {
            AccessSubject::Group(group) => Some(group),
            AccessSubject::User(_) => None,
        });
        groups.last()
    }

    /// The subjects that a grant gives `right`, with what gives it. A member of a group may still be denied it.
    pub fn holders(&self, right: Right) -> impl Iterator<Item = (AccessSubject, String)> + '_ {
        let given = move |(subject, grant): (&AccessSubject, &AccessGrant)| {
            if grant.deny.contains(&right) {
                return None;
            }
            grant.gives(right).map(|by| (subject.clone(), by))
        };
        self.grants.iter().filter_map(given)
    }
}
