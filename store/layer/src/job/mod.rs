//! Jobs: name, spec versions, the row, and the gate that placements guard on.
//!
//! A job is admitted by one small transaction, however many tasks it has: a task without a row is pending and was never
//! placed. Its name leads to its id for as long as no other job takes it; an id is never used again.
//!
//! Every change goes through the state machine of `borough-model` and writes the row; the change says whether
//! placements in flight may be wrong by it, and then the gate is written too (see [`JobGate`]).
//!
//! Ending the tasks of a job that stops or has shrunk is not done here: a controller goes through them in small
//! transactions ([`crate::task::task_stop_begin`]), and ends the job once they are gone ([`job_tasks_gone`]).

mod change;
mod count;
mod end;
mod priority;
mod read;
mod row;
mod submit;
#[cfg(test)]
mod tests;

pub(crate) use change::job_tasks_ended;
pub use change::{job_dependencies_check, job_scale, job_stop};
pub use end::{JobEnding, job_remove, job_tasks_gone};
pub use priority::job_priority_set;
pub use read::{
    JobPage, JobVersion, job_by_name, job_get, job_history, job_list, job_spec_get, job_spec_in_force,
};
pub use row::JobGate;
pub use submit::{JobSubmitted, SubmitOutcome, job_submit};
