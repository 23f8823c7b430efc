//! Checks how a rollout may replace tasks: it must be able to begin, and what surges must fit the job.

use super::COUNT_MAX;
use super::gang::{count_sources, gang_sources};
use crate::field_error::FieldErrors;
use crate::job::{JobKind, JobSpec, UpdateSpec};

pub(in crate::job) fn update_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    let Some(update) = spec.update else { return };
    let surges = update.surges();
    let own = ["update.surge_max", "update.surge_percent_max"];
    fields.related(&own).require(
        surges || update.unavailable_max != Some(0),
        &format!("{path}.unavailable_max"),
        0,
        "1 or more, or 0 with a `surge_max` of 1 or more: otherwise no task could ever be replaced",
    );
    if !surges {
        return;
    }
    let field = if update.surge_max.unwrap_or(0) > 0 { "surge_max" } else { "surge_percent_max" };
    let value = update.surge_max.filter(|most| *most > 0).or(update.surge_percent_max).unwrap_or(0);
    let path = format!("{path}.{field}");
    let related: Vec<String> = gang_sources(spec).into_iter().chain(["kind".to_owned()]).collect();
    if spec.kind == JobKind::Batch {
        let accepted =
            "none in batch work: it serves nobody, and its attempts go on with the earlier version";
        fields.related(&related).refuse(&path, value, accepted);
    } else if spec.keeps_together() {
        let accepted = "none in a gang or a job of roles: it runs only as it is, and is replaced together";
        fields.related(&related).refuse(&path, value, accepted);
    } else {
        let (most, surge) = (surge_most(spec.count), update.surge(spec.count));
        let accepted = format!("at most {most} beside {} tasks: a job has {COUNT_MAX} at most", spec.count);
        fields.related(&count_sources(spec)).require(surge <= most, &path, value, accepted);
    }
}

/// The most tasks beside a count.
fn surge_most(count: u32) -> u32 {
    COUNT_MAX.saturating_sub(count)
}

/// A count leaves room for what surges beside it.
pub(super) fn count_with_surge_check(fields: &mut FieldErrors, count: u32, spec: &JobSpec) {
    let surge = spec.surge(count);
    let most = COUNT_MAX.saturating_sub(surge);
    let accepted = format!("at most {most} beside the {surge} tasks that `update` lets surge");
    fields.require(count > COUNT_MAX || surge <= surge_most(count), "count", count, accepted);
}

impl UpdateSpec {
    /// Whether a rollout of some job with these rules surges.
    fn surges(self) -> bool {
        self.surge_max.unwrap_or(0) > 0 || self.surge_percent_max.unwrap_or(0) > 0
    }
}
