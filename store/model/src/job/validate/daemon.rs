//! Checks daemon jobs: the nodes of the cell say how many tasks they have, and where each runs.

use super::gang::{count_sources, gang_sources};
use super::tally;
use crate::field_error::FieldErrors;
use crate::job::{JobKind, JobSpec};

/// Why a daemon job takes no count.
pub(in crate::job) const COUNT_ACCEPTED: &str = "none: a daemon job has one task on each node that matches, and as many tasks as \
                                         nodes; `constraints` say which nodes match";

/// Refuses the fields that a daemon job does not have.
pub(super) fn daemon_check(fields: &mut FieldErrors, spec: &JobSpec) {
    if spec.kind != JobKind::Daemon {
        return;
    }
    let kind = || vec!["kind".to_owned()];
    let sources = || -> Vec<String> { count_sources(spec).into_iter().chain(kind()).collect() };
    if spec.roles().is_empty() {
        fields.related(&sources()).require(spec.count == 0, "count", spec.count, COUNT_ACCEPTED);
    }
    let gang: Vec<String> = gang_sources(spec).into_iter().chain(kind()).collect();
    let accepted = "none in a daemon job: each of its tasks runs for its own node";
    fields.related(&gang).require(spec.gang.is_none(), "roles", "a gang", accepted);
    if spec.gang.is_none() {
        fields.related(&gang).require(spec.min_member <= 1, "min_member", spec.min_member, accepted);
    }
    let accepted = "none in a daemon job: each node has one of its tasks";
    let spread = tally(spec.spread.len(), "domain");
    fields.related(&kind()).require(spec.spread.is_empty(), "spread", spread, accepted);
    let accepted = "none in a daemon job: nodes come and go, and so do the indexes of its tasks";
    let overrides = tally(spec.overrides.len(), "task");
    fields.related(&sources()).require(spec.overrides.is_empty(), "overrides", overrides, accepted);
    let endless = spec.restart.is_endless();
    let accepted = "`always` without a limit in a daemon job: it serves its nodes until it is stopped";
    fields.related(&kind()).require(endless, "restart", "an end for good", accepted);
}
