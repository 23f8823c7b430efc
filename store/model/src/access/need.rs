//! What an action needs, and whether an identity may do it.

use super::{AccessTable, GrantReason, Identity, Right};
use crate::id::Name;
use crate::job::{Band, JobSpec};

/// What a caller must have for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionNeed {
    /// Any valid credential.
    Identity,
    /// Any right in the cell.
    Any,
    /// A right, whatever the action is about.
    Right(Right),
    /// [`Right::RunJobs`] for what is the caller's own, another right for what belongs to other users or to all.
    Own { others: Right },
}

/// Returns true if `after` would take anything more than `before` with `count` tasks takes: more tasks, more of a
/// resource, or a higher priority. What cannot be compared counts as more.
pub fn asks_for_more(before: &JobSpec, count: u32, after: &JobSpec) -> bool {
    let taken = |spec: &JobSpec| spec.with_helpers(&spec.task.resources).into_owned();
    let (held, amounts) = (taken(before), taken(after).amounts());
    let wider = amounts.iter().any(|(dimension, amount)| *amount > held.amount(dimension));
    let unlike =
        before.gang != after.gang || before.overrides != after.overrides || before.kind != after.kind;
    after.count > count || after.priority > before.priority || wider || unlike
}

/// A caller may not do something. Ask somebody who has `administer` for a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefused {
    /// No grant gives the right.
    #[error("{user} has no grant of {} here", right.name())]
    Missing { user: Name, right: Right, own_only: bool },
    /// A grant denies it.
    #[error("{}: {} is denied to {by}", user, right.name())]
    Denied { user: Name, right: Right, by: String },
    /// No grant gives anything.
    #[error("{user} has no grant here")]
    Nothing { user: Name },
    /// The band of a job needs a quota or a right.
    #[error("{user} has no quota in the {} band, and no grant of raise_priority", band.name())]
    Band { user: Name, band: Band },
}

impl ActionNeed {
    /// The right that the action needs of `identity` if it concerns `owner` (absent: everybody); `None`: no single one.
    fn right(self, identity: &Identity, owner: Option<&Name>) -> Option<Right> {
        match self {
            Self::Identity | Self::Any => None,
            Self::Right(right) => Some(right),
            Self::Own { .. } if owner == Some(&identity.user) => Some(Right::RunJobs),
            Self::Own { others } => Some(others),
        }
    }

    /// Decides whether `identity` may do an action that concerns `owner` (absent: everybody). Returns the grant that
    /// gives it; `None`: the action needs none.
    ///
    /// # Errors
    /// What the caller lacks, or what denies it.
    pub fn decide(
        self,
        table: &AccessTable,
        identity: &Identity,
        owner: Option<&Name>,
    ) -> Result<Option<GrantReason>, AccessRefused> {
        let user = || identity.user.clone();
        let Some(right) = self.right(identity, owner) else {
            if self == Self::Identity {
                return Ok(None);
            }
            let mut found = Right::ALL.into_iter().filter_map(|right| table.reason(identity, right).ok()?);
            let reason = found.next().ok_or_else(|| AccessRefused::Nothing { user: user() })?;
            return Ok(Some(reason));
        };
        let own = owner == Some(&identity.user);
        let given = table.reason(identity, right)?;
        if given.is_some() {
            return Ok(given);
        }
        // Who may see, or change, what everybody has may do so with the own, too.
        if let (Self::Own { others }, true) = (self, own)
            && let Ok(Some(reason)) = table.reason(identity, others)
        {
            return Ok(Some(reason));
        }
        let own_only = matches!(self, Self::Own { .. })
            && !own
            && matches!(table.reason(identity, Right::RunJobs), Ok(Some(_)));
        Err(AccessRefused::Missing { user: user(), right, own_only })
    }
}
