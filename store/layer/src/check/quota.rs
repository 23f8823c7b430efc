//! Checks quotas: the charge of each line less the releases is the sum of what jobs and tasks hold. The line of a group
//! has what the jobs hold that were charged to it, so the sums add up along the tree, also while parents change.
//!
//! Every parent is a line that is set, above no line below it, within the depth. The index by parent has every line
//! that is set, and no other.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::TaskId;
use borough_model::access::AccessSubject;
use borough_model::job::{Band, JobState};
use borough_model::quota::{QUOTA_GROUPS_MAX, QuotaGrant, quota_holder_text};
use borough_model::resource::ResourceError;
use borough_model::task::TaskRow;

use super::{CellRows, Violations, wrong};
use crate::keys::QuotaUsedKey;
use crate::quota::{ChargeBasis, below_rows, job_remainder, lines_of, quota_fold, task_charge};
use crate::row::{QuotaRow, QuotaUsed};

type Line = (AccessSubject, Band);

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    parents_check(found, rows);
    groups_check(found, rows);
    index_check(found, rows);
    sums_check(found, rows);
}

fn line_key(kind: &str, holder: &AccessSubject, band: Band) -> String {
    format!("{kind}/{}/{}", quota_holder_text(holder), band.name())
}

/// The groups above each line, up to one that is not set.
fn parents_check(found: &mut Violations, rows: &CellRows) {
    let set = |holder: AccessSubject, band: Band| {
        rows.quota_limits.get(&(holder, band)).map(QuotaRow::set).filter(|limit| !limit.is_empty())
    };
    for ((holder, band), row) in &rows.quota_limits {
        let (mut above, mut next) = (Vec::new(), row.parent.clone());
        let expected = loop {
            let Some(group) = next.take() else { break None };
            let own = AccessSubject::Group(group.clone());
            if own == *holder || above.contains(&group) {
                break Some(format!("no cycle: group/{group} is above itself"));
            }
            let Some(limit) = set(own, *band) else {
                break Some(format!("group/{group} has a quota in {}", band.name()));
            };
            above.push(group);
            next = limit.parent;
        };
        // A group is below its own users, so it counts.
        let own = usize::from(matches!(holder, AccessSubject::Group(_)));
        let deep = above.len().saturating_add(own) > QUOTA_GROUPS_MAX;
        let expected =
            expected.or_else(|| deep.then(|| format!("at most {QUOTA_GROUPS_MAX} groups above a user")));
        found.require(expected.is_none(), "quota_parent", || {
            let stored = row.parent.as_ref().map(|group| format!("below group/{group}")).unwrap_or_default();
            wrong(line_key("quota", holder, *band), stored, expected.unwrap_or_default())
        });
    }
}

/// The groups that each job is charged to.
fn groups_check(found: &mut Violations, rows: &CellRows) {
    for job in rows.jobs.values() {
        let groups = job.quota_groups.as_deref().unwrap_or_default();
        let distinct: BTreeSet<_> = groups.iter().collect();
        let fine = groups.len() <= QUOTA_GROUPS_MAX && distinct.len() == groups.len();
        found.require(fine, "quota_groups", || {
            let expected = format!("at most {QUOTA_GROUPS_MAX} groups, each once");
            wrong(format!("job_row/{}", job.id), format!("charged to {groups:?}"), expected)
        });
    }
}

/// The index by parent. A store from before it has none until a quota changes.
fn index_check(found: &mut Violations, rows: &CellRows) {
    if rows.meta.as_ref().and_then(|meta| meta.quotas_indexed) != Some(true) {
        return;
    }
    let expected = below_rows(&rows.quota_limits);
    let keys: BTreeSet<_> = expected.keys().chain(rows.quota_below.keys()).collect();
    for key in keys {
        let (stored, expected) = (rows.quota_below.get(key), expected.get(key));
        found.require(stored == expected, "quota_below", || {
            let (band, parent, holder) = key;
            let text = |grant: Option<&QuotaGrant>| {
                grant.map_or_else(|| "nothing".to_owned(), |grant| format!("{grant:?}"))
            };
            let key = format!("quota_below/{}/{parent}/{}", band.name(), quota_holder_text(holder));
            wrong(key, text(stored), text(expected))
        });
    }
}

fn sums_check(found: &mut Violations, rows: &CellRows) {
    let expected = match quota_held(rows) {
        Ok(expected) => expected,
        Err(error) => {
            return found.require(false, "quota_sum", || wrong("quota_used", error.to_string(), "a sum"));
        }
    };
    let released = rows.quota_released.keys().map(|(holder, band, _)| (holder.clone(), *band));
    let released: BTreeSet<Line> = released.collect();
    let lines: BTreeSet<&Line> = rows.quota_used.keys().chain(expected.keys()).chain(&released).collect();
    for line in lines {
        let charged = charged(rows, line);
        let held = expected.get(line).cloned().unwrap_or_default();
        found.require(charged.as_ref() == Ok(&held), "quota_sum", || {
            let key = format!("quota_used/{}/{:?}", quota_holder_text(&line.0), line.1);
            wrong(
                key,
                format!("{charged:?}, releases folded in"),
                format!("{held:?}, held by jobs and tasks"),
            )
        });
    }
}

/// The recorded charge less the releases, or why it cannot be computed.
fn charged(rows: &CellRows, line: &Line) -> Result<QuotaUsed, String> {
    let recorded = rows.quota_used.get(line).cloned().unwrap_or_default();
    let first = (line.0.clone(), line.1, String::new());
    let released = rows
        .quota_released
        .range(first..)
        .take_while(|((holder, band, _), _)| (holder, band) == (&line.0, &line.1));
    quota_fold(recorded, released.map(|((_, _, dimension), amount)| (dimension.as_str(), *amount)))
}

/// What jobs and tasks hold, by holder and band.
pub(crate) fn quota_held(rows: &CellRows) -> Result<BTreeMap<Line, QuotaUsed>, ResourceError> {
    let mut lines: BTreeMap<Line, QuotaUsed> = BTreeMap::new();
    for job in rows.jobs.values() {
        if !rows.specs.contains_key(&(job.id, job.spec_version)) {
            continue;
        }
        let basis = ChargeBasis::of(job, |version| rows.specs.get(&(job.id, version)));
        let range = TaskId { job: job.id, index: 0 }..=TaskId { job: job.id, index: u32::MAX };
        let tasks: Vec<&TaskRow> = rows.tasks.range(range).map(|(_, row)| row).collect();
        let mut held = match job.state {
            JobState::Ended { .. } => QuotaUsed::default(),
            JobState::Waiting | JobState::Running | JobState::Stopping => {
                job_remainder(&basis, job.count, tasks.iter().copied())?
            }
        };
        for row in tasks {
            held = held.plus(&task_charge(&basis, row))?;
        }
        for QuotaUsedKey { holder, band } in lines_of(job) {
            let line = lines.entry((holder, band)).or_default();
            *line = line.plus(&held)?;
        }
    }
    Ok(lines)
}
