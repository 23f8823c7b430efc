//! The tasks that are charged to a node: until when one may stay, which holds turn real, and the commitment that they
//! add up to.

use std::collections::BTreeSet;

use super::{EndReason, Exit, Health, StopReason, TaskRow, TaskState, Verdict};
use crate::id::{Incarnation, TaskId};
use crate::job::JobSpec;
use crate::node::{NodeAlloc, node_alloc_fulfil};
use crate::resource::{ResourceError, Resources, resources_add};

/// Failures in a row after which a task keeps failing. After the first one the next attempt may well serve.
const FAILURES_KEPT: u32 = 2;

impl TaskRow {
    /// Returns true if its last attempts have failed, and the present one is not healthy: nobody knows when it will be.
    /// A task that was moved, or was lost with its node, may serve as before.
    pub fn keeps_failing(&self) -> bool {
        let lost = |exit: &Exit| {
            matches!(exit.reason, EndReason::NodeLost | EndReason::NodeRebooted) || exit.is_of_full_node()
        };
        // Only a failure makes the next attempt wait.
        let has_failed = self.not_before_ms > 0 && !self.exit.as_deref().is_some_and(lost);
        self.failures >= FAILURES_KEPT
            && match self.state {
                TaskState::Pending | TaskState::Held | TaskState::Assigned | TaskState::Starting => {
                    has_failed
                }
                TaskState::Running => has_failed && self.health != Health::Healthy,
                TaskState::Stopping => {
                    self.stop == Some(StopReason::Unhealthy) || (has_failed && self.healthy_ms == 0)
                }
                TaskState::Releasing => {
                    matches!(self.stop, None | Some(StopReason::Unhealthy))
                        && self.verdict == Some(Verdict::Again)
                }
                TaskState::Lost | TaskState::Dead => false,
            }
    }
}

/// How long a stopping task is still expected to exit after its drain delay and its grace. Also how long a promise is
/// kept after nothing stands in its way any more. Far longer than a report takes, in milliseconds.
pub const LEAVE_MARGIN_MS: i64 = 30_000;

/// Until when a task that began to stop at `since_ms` is expected to leave its node. A task that is still there later
/// cannot be ended, and nobody gets its share.
pub fn leave_due_ms(since_ms: i64, spec: &JobSpec) -> i64 {
    leave_due_after_ms(since_ms, leave_asked_ms(spec))
}

/// How many milliseconds a task of a spec asks for between the withdrawal of its endpoint and SIGKILL.
pub fn leave_asked_ms(spec: &JobSpec) -> u64 {
    spec.drain_delay_ms.saturating_add(spec.task.grace_ms)
}

/// [`leave_due_ms`] for a task that asks for so many milliseconds.
pub fn leave_due_after_ms(since_ms: i64, asked_ms: u64) -> i64 {
    since_ms.saturating_add(i64::try_from(asked_ms).unwrap_or(i64::MAX)).saturating_add(LEAVE_MARGIN_MS)
}

/// The held tasks on a node that can take their promised share now, in the order of `there`, which are all tasks
/// charged to it: apply [`TaskEvent::HoldConfirmed`](super::TaskEvent::HoldConfirmed) to them. A task that does not fit
/// yet delays those after it, so that a small task does not starve a large one.
///
/// A task waits until every one of its victims has been released, even if the node has room earlier. A victim may have
/// to leave because of a rule between tasks. The promised share is kept meanwhile.
pub fn holds_ready<'a>(
    capacity: &Resources,
    alloc: &NodeAlloc,
    there: impl IntoIterator<Item = &'a TaskRow>,
) -> Vec<TaskId> {
    let there: Vec<&TaskRow> = there.into_iter().collect();
    let ends = |row: &&&TaskRow| matches!(row.state, TaskState::Stopping | TaskState::Releasing);
    let victims = there.iter().filter(ends).filter_map(|row| row.evicted.as_deref());
    let awaited: BTreeSet<(TaskId, Incarnation)> =
        victims.map(|evicted| (evicted.by, evicted.attempt)).collect();
    let mut ready = Vec::new();
    let mut alloc = alloc.clone();
    for row in there.into_iter().filter(|row| row.state == TaskState::Held && row.promised) {
        let Ok(next) = node_alloc_fulfil(&alloc, capacity, &row.charge.resources) else { break };
        alloc = next;
        if !awaited.contains(&(row.id, row.incarnation)) {
            ready.push(row.id);
        }
    }
    ready
}

/// The sum of `rows`, those whose [`TaskRow::charged_node`] is one node: the commitment that the node must have,
/// without its epoch and cooling ports.
pub fn node_alloc_sum<'a>(rows: impl IntoIterator<Item = &'a TaskRow>) -> Result<NodeAlloc, ResourceError> {
    let mut sum = NodeAlloc::default();
    for row in rows {
        let resources = &row.charge.resources;
        if row.promised {
            sum.promised = resources_add(&sum.promised, resources)?;
        } else {
            sum.used = resources_add(&sum.used, resources)?;
        }
        sum.ports.extend(row.port_numbers());
        sum.tasks = sum.tasks.saturating_add(1);
    }
    Ok(sum)
}
