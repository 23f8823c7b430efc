//! What a job that starts after others waits for, in words.

use std::fmt;

use borough_model::Name;
use borough_model::job::AfterCondition;

use super::WaitReason;

/// Jobs that wait for each other: `a -> b -> a`.
pub(super) fn cycle_written(f: &mut fmt::Formatter<'_>, cycle: &[Name]) -> fmt::Result {
    let cycle: Vec<&str> = cycle.iter().map(Name::as_str).collect();
    write!(f, "never starts: it waits for itself, by {}; stop one of these jobs", cycle.join(" -> "))
}

/// The other job, and how it must end; empty for another reason to wait.
pub(super) fn after_text(wait: &WaitReason) -> String {
    let WaitReason::After { job, condition, known, never, endless } = wait else { return String::new() };
    match (condition, endless) {
        _ if !known => format!("waits for job {job}, which does not exist"),
        _ if *never => format!("never starts: job {job} had to succeed, and has ended otherwise"),
        (AfterCondition::Succeeded, true) => format!(
            "waits for job {job} to succeed, and {job} never does: it runs until somebody stops it; accepted in \
             `after`: a batch job, or {{job: {job}, condition: finished}}"
        ),
        (AfterCondition::Finished, true) => {
            format!("waits for job {job} to end, and {job} runs until somebody stops it")
        }
        (AfterCondition::Finished, false) => format!("waits for job {job} to end"),
        (AfterCondition::Succeeded, false) => format!("waits for job {job} to succeed"),
    }
}
