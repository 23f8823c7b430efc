//! Checks quotas: the charge of each line less the releases is the sum of what jobs and tasks hold. The line of a group
//! has what the jobs hold that were charged to it.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::TaskId;
use borough_model::access::AccessSubject;
use borough_model::job::{Band, JobState};
use borough_model::quota::quota_holder_text;
use borough_model::resource::ResourceError;
use borough_model::task::TaskRow;

use super::{CellRows, Violations, wrong};
use crate::keys::QuotaUsedKey;
use crate::quota::{ChargeBasis, job_remainder, lines_of, quota_fold, task_charge};
use crate::row::QuotaUsed;

type Line = (AccessSubject, Band);

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
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
