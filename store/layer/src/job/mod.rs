//! Jobs: name, spec versions, the row, and the gate that placements guard on.
//!
//! One small transaction admits a job, however many tasks it has: a task without a row is pending and was never placed.
//! A job keeps its name until another job takes it; an id is never used again.
//!
//! Every change goes through the state machine of `borough-model` and writes the row. If placements in flight may be
//! wrong after the change, it touches the gate too. The gate is the key `job_gate`, which has no value. Every placement
//! of the job's tasks guards on it. Stop, end, shrink, and changes of priority or of spec touch it. Growth and counting
//! ended tasks do not: they never fail a placement.
//!
//! A controller ends the tasks of a job that stops or has shrunk. It visits them in small transactions
//! ([`crate::task::task_stop_begin`]), and ends the job after the last one ([`job_tasks_gone`]).

mod admit;
mod again;
mod alloc;
mod change;
mod count;
mod end;
mod label;
mod priority;
mod purge;
mod queue;
mod read;
mod submit;
#[cfg(test)]
mod tests;
mod update;
mod versions;

pub use admit::{JobAdmission, jobs_admit};
pub(crate) use again::{rollout_again, tasks_revive};
pub(crate) use alloc::{alloc_change_check, members_alive};
pub use change::{job_dependencies_check, job_scale, job_stop};
pub(crate) use change::{job_event, job_tasks_ended};
pub(crate) use count::{moves_set, surge_set, surge_with_dead};
pub use end::{JobEnding, JobsRemoved, job_tasks_gone, jobs_remove};
pub use label::job_labels_set;
pub use priority::job_priority_set;
pub use purge::{JobPurged, job_purge};
pub use queue::{AdmissionAuthor, AdmissionQueue, AdmissionQueueFull, WaitingSubmission};
pub(crate) use read::job_specs_held;
pub use read::{JobVersion, job_by_name, job_get, job_history, job_spec_get, job_spec_in_force};
pub use submit::{JobSubmitted, SubmitOutcome, job_submit};
pub(crate) use update::{rows_charged, spec_update, surge_begin_if_room};
pub use versions::job_versions_forget;
