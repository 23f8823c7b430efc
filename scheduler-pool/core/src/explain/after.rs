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
    if !known {
        return format!("waits for job {job}, which does not exist");
    }
    if *never {
        return format!(
            "never starts: job {job} had to succeed, and has ended otherwise; run this job again once {job} has succeeded"
        );
    }
    let waits = match condition {
        AfterCondition::Succeeded => format!("waits for job {job} to succeed"),
        AfterCondition::Finished => format!("waits for job {job} to end"),
    };
    if !endless {
        return waits;
    }
    match condition {
        AfterCondition::Succeeded => format!(
            "{waits}, and {job} never does: it runs until somebody stops it; accepted in `after`: a batch job, or \
             {{job: {job}, condition: finished}}"
        ),
        AfterCondition::Finished => format!("{waits}, and {job} runs until somebody stops it"),
    }
}
