//! Quotas: what is charged is the sum of what jobs and tasks hold.

use std::collections::{BTreeMap, BTreeSet};

use borough_model::Name;
use borough_model::TaskId;
use borough_model::job::{Band, JobState, band};
use borough_model::resource::ResourceError;
use borough_model::task::TaskRow;

use super::{CellRows, Violations};
use crate::quota::{QuotaUsed, job_remainder, task_charge};

pub(super) fn check(found: &mut Violations, rows: &CellRows) {
    let expected = match expected(rows) {
        Ok(expected) => expected,
        Err(error) => return found.require(false, "quota_sum", || error.to_string()),
    };
    let lines: BTreeSet<&(Name, Band)> = rows.quota.keys().chain(expected.keys()).collect();
    for line in lines {
        let charged = rows.quota.get(line).cloned().unwrap_or_default();
        let held = expected.get(line).cloned().unwrap_or_default();
        found.require(charged == held, "quota_sum", || {
            format!("{} {:?} is charged {charged:?}; its jobs and tasks hold {held:?}", line.0, line.1)
        });
    }
}

fn expected(rows: &CellRows) -> Result<BTreeMap<(Name, Band), QuotaUsed>, ResourceError> {
    let mut lines: BTreeMap<(Name, Band), QuotaUsed> = BTreeMap::new();
    for job in rows.jobs.values() {
        let Some(spec) = rows.specs.get(&(job.id, job.spec_version)) else { continue };
        let range = TaskId { job: job.id, index: 0 }..=TaskId { job: job.id, index: u32::MAX };
        let tasks: Vec<&TaskRow> = rows.tasks.range(range).map(|(_, row)| row).collect();
        let mut held = match job.state {
            JobState::Ended { .. } => QuotaUsed::default(),
            JobState::Waiting | JobState::Running | JobState::Stopping => {
                job_remainder(spec, job.count, tasks.iter().copied())?
            }
        };
        for row in tasks {
            held = held.plus(&task_charge(spec, row))?;
        }
        let line = lines.entry((job.user.clone(), band(job.priority))).or_default();
        *line = line.plus(&held)?;
    }
    Ok(lines)
}
