//! Checks how a rollout may replace tasks: it must be able to begin, and what surges and its canaries must fit the job.

use super::gang::{count_sources, gang_sources};
use super::{COUNT_MAX, tally};
use crate::field_error::FieldErrors;
use crate::job::{JobKind, JobSpec, ResizeMode, ResizeSignal, UpdateSpec};

pub(in crate::job) fn update_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    let Some(update) = spec.update else { return };
    let surges = update.surges();
    let own = ["update.surge_max", "update.surge_percent_max", "update.canaries"];
    fields.related(&["update.canaries"]).require(
        update.canaries > 0 || !update.auto_promote,
        &format!("{path}.auto_promote"),
        true,
        "`false`, or `true` with `canaries` of 1 or more: without one, nothing waits for a promotion",
    );
    fields.related(&["update.resize"]).require(
        update.resize_signal.is_none() || update.resize == ResizeMode::InPlace,
        &format!("{path}.resize_signal"),
        update.resize_signal.map_or("", ResizeSignal::name),
        "none beside `resize: restart`: a task that begins again is not resized in place, so nothing would send it",
    );
    fields.related(&own).require(
        surges || update.unavailable_max != Some(0),
        &format!("{path}.unavailable_max"),
        0,
        "1 or more, or 0 with a `surge_max` or `canaries` of 1 or more: otherwise no task could ever be replaced",
    );
    let limited = update.disruptions_max.filter(|_| spec.kind == JobKind::Batch || spec.keeps_together());
    if let Some(most) = limited {
        let related: Vec<String> = gang_sources(spec).into_iter().chain(["kind".to_owned()]).collect();
        let accepted = "none in batch work, which no rollout ends, and in a gang or a job of roles, which is replaced \
                        together";
        fields.related(&related).refuse(&format!("{path}.disruptions_max"), most, accepted);
    }
    if !surges {
        return;
    }
    let (field, value) = update.surging_field();
    let path = format!("{path}.{field}");
    let related: Vec<String> = gang_sources(spec).into_iter().chain(["kind".to_owned()]).collect();
    if spec.kind == JobKind::Batch {
        let accepted =
            "none in batch work: it serves nobody, and its attempts go on with the earlier version";
        fields.related(&related).refuse(&path, value, accepted);
    } else if spec.kind == JobKind::Daemon {
        let accepted = "none in a daemon job: each node has one of its tasks; `unavailable_max` says how many nodes may be \
                        without one at once";
        fields.related(&related).refuse(&path, value, accepted);
    } else if spec.kind == JobKind::AllocSet {
        let accepted = "none in an alloc set: what is in an alloc waits for that one; `unavailable_max` says how many may \
                        be away at once";
        fields.related(&related).refuse(&path, value, accepted);
    } else if spec.keeps_together() {
        let accepted = "none in a gang or a job of roles: it runs only as it is, and is replaced together";
        fields.related(&related).refuse(&path, value, accepted);
    } else {
        canaries_check(fields, &path, spec, update.canaries);
        let (most, surge) = (surge_most(spec.count), update.surge(spec.count));
        let tasks = tally(spec.count, "task");
        let accepted = format!("at most {most} beside {tasks}: a job has {COUNT_MAX} at most");
        fields.related(&count_sources(spec)).require(surge <= most, &path, value, accepted);
    }
}

/// A job that is parked with no tasks keeps its rules.
fn canaries_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec, canaries: u32) {
    let most = spec.count.min(surge_most(spec.count));
    let tasks = tally(spec.count, "task");
    let accepted = format!("at most {most} of a job with {tasks}: others serve while they are tried");
    let fits = canaries <= most || spec.count == 0;
    let path = path.rsplit_once('.').map_or(path, |(path, _)| path);
    fields.related(&count_sources(spec)).require(fits, &format!("{path}.canaries"), canaries, accepted);
}

/// The most tasks beside a count.
fn surge_most(count: u32) -> u32 {
    COUNT_MAX.saturating_sub(count)
}

/// A count leaves room for what surges beside it.
pub(super) fn count_with_surge_check(fields: &mut FieldErrors, count: u32, spec: &JobSpec) {
    let surge = spec.surge(count).max(spec.canaries(count));
    let most = COUNT_MAX.saturating_sub(surge);
    let accepted = format!("at most {most} beside the {surge} tasks that `update` lets surge");
    fields.require(count > COUNT_MAX || surge <= surge_most(count), "count", count, accepted);
    let canaries = spec.update.map_or(0, |update| update.canaries);
    let accepted = format!("at least {canaries}, as many as `update.canaries`, or 0");
    fields.require(count == 0 || canaries <= count, "count", count, accepted);
}

impl UpdateSpec {
    /// Whether a rollout of some job with these rules surges.
    fn surges(self) -> bool {
        self.surging_field().1 > 0
    }

    /// The first field that makes a rollout surge, and its value; 0: none does.
    fn surging_field(self) -> (&'static str, u32) {
        let fields = [
            ("surge_max", self.surge_max.unwrap_or(0)),
            ("surge_percent_max", self.surge_percent_max.unwrap_or(0)),
            ("canaries", self.canaries),
        ];
        fields.into_iter().find(|(_, value)| *value > 0).unwrap_or(("surge_max", 0))
    }
}
