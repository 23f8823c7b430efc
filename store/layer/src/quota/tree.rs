//! The tree of quotas: which line is above which, without cycles and of a bounded depth.

use borough_kv::Transaction;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::quota::{QUOTA_GROUPS_MAX, QuotaLimit, quota_holder_text};
use borough_model::{FieldError, Name};

use super::below::below_read;
use super::quota_get;
use crate::error::{StoreError, StoreResult};
use crate::keys::{CellSpace, RangeOptions};

/// Children that a refusal names.
const CHILDREN_SHOWN: usize = 3;

/// Checks that the tree stays one if the line of `holder` in a band becomes `limit`. Every line that decides is read
/// with a conflict, so two changes at once cannot make a cycle together.
pub(super) async fn tree_check(
    tx: &Transaction,
    space: &CellSpace,
    holder: &AccessSubject,
    band: Band,
    limit: &QuotaLimit,
) -> StoreResult<()> {
    let below = match holder {
        AccessSubject::User(_) => Below::default(),
        AccessSubject::Group(group) => Below::read(tx, space, group, band, limit).await?,
    };
    if limit.is_empty() && !below.children.is_empty() {
        let shown: Vec<String> = below.children.iter().take(CHILDREN_SHOWN).map(quota_holder_text).collect();
        let more = if below.children.len() > CHILDREN_SHOWN { " and others" } else { "" };
        return Err(StoreError::refused(format!(
            "{} is the parent of {}{more} in {}; give these another parent first, with --parent",
            quota_holder_text(holder),
            shown.join(", "),
            band.name(),
        )));
    }
    let Some(parent) = &limit.parent else { return Ok(()) };
    let above = above_read(tx, space, parent, band).await?;
    let shown =
        |groups: &[Name]| groups.iter().map(|group| format!("group/{group}")).collect::<Vec<_>>().join(", ");
    let Some(above) = above else {
        return Err(field_refused(
            format!("group/{parent}"),
            format!("a group with a quota in {}; set that of the group first", band.name()),
        ));
    };
    if let AccessSubject::Group(group) = holder
        && above.contains(group)
    {
        let accepted = format!("a group that is not below group/{group} itself");
        return Err(field_refused(format!("group/{parent}"), accepted));
    }
    // A user is above nobody, so only groups count.
    let own = usize::from(matches!(holder, AccessSubject::Group(_)));
    if above.len() + own + below.height > QUOTA_GROUPS_MAX {
        let accepted = format!("a group with which at most {QUOTA_GROUPS_MAX} groups are above any user");
        return Err(field_refused(
            format!("{} with {} above it", shown(&above[..1]), above.len() - 1),
            accepted,
        ));
    }
    Ok(())
}

fn field_refused(value: String, accepted: String) -> StoreError {
    let path = "limit.parent".to_owned();
    StoreError::InvalidSpec { errors: vec![FieldError { path, value, accepted }] }
}

/// A group and those above it; `None`: the group has no quota in the band.
async fn above_read(
    tx: &Transaction,
    space: &CellSpace,
    group: &Name,
    band: Band,
) -> StoreResult<Option<Vec<Name>>> {
    let (mut above, mut next) = (Vec::new(), Some(group.clone()));
    while let Some(group) = next.filter(|next| !above.contains(next)) {
        let row = quota_get(tx, space, &AccessSubject::Group(group.clone()), band).await?;
        let row = row.filter(|row| !row.set().is_empty());
        if row.is_none() && above.is_empty() {
            return Ok(None);
        }
        above.push(group);
        next = row.and_then(|row| row.parent);
    }
    Ok(Some(above))
}

/// What is below a group.
#[derive(Default)]
struct Below {
    /// Some holders right below it.
    children: Vec<AccessSubject>,
    /// The most groups below it on any way down.
    height: usize,
}

impl Below {
    /// Reads the lines below, with conflicts, as far as the change needs them. If the line goes, these are some of
    /// those right below. If it gets a parent, they are the groups of each level.
    async fn read(
        tx: &Transaction,
        space: &CellSpace,
        group: &Name,
        band: Band,
        limit: &QuotaLimit,
    ) -> StoreResult<Self> {
        let mut below = Self::default();
        if limit.is_empty() {
            let some = RangeOptions { limit: CHILDREN_SHOWN.saturating_add(1), ..RangeOptions::default() };
            let children = below_read(tx, space, band, Some(group), some).await?;
            below.children = children.into_iter().map(|(holder, _)| holder).collect();
        }
        if limit.parent.is_none() {
            return Ok(below);
        }
        let mut level = vec![group.clone()];
        while below.height <= QUOTA_GROUPS_MAX {
            let mut next = Vec::new();
            for group in &level {
                let children = below_read(tx, space, band, Some(group), RangeOptions::default()).await?;
                next.extend(children.into_iter().filter_map(|(holder, _)| group_of(holder)));
            }
            if next.is_empty() {
                break;
            }
            level = next;
            below.height = below.height.saturating_add(1);
        }
        Ok(below)
    }
}

fn group_of(holder: AccessSubject) -> Option<Name> {
    match holder {
        AccessSubject::Group(name) => Some(name),
        AccessSubject::User(_) => None,
    }
}
