//! The node agent: runs what the control plane wants on this node, and tells it what runs.
//!
//! | folder | what lives there |
//! |---|---|
//! | `decide/` | every choice, as pure functions: what to start, stop, drop, report; health; environment; which logs go |
//! | `hollow/` | the same choices over simulated tasks, for load tests |
//! | `disk/` | the state directory, the directories of attempts, the embedded shim |
//! | `runtime/` | one task that owns the state, and the IO it orders |
//! | `session/` | the stream to a gateway |
//! | `probe/` | asking tasks for their health |
//! | `serve/` | logs, commands and signals that a gateway asks for |
//!
//! The agent holds nothing that is not on disk or in the next report: it may be killed at any time. Its tasks belong to
//! their shims ([`borough_shim`]), which it finds again by their records. Attempts the control plane does not know are
//! parked: kept running, and ended only when a stop names them.
//!
//! Of what a task asks for, the agent enforces memory (hard), processes (generously) and cpu (as a share where cores
//! are scarce); the other dimensions are for the scheduler alone. An agent that is root runs tasks as users without
//! privileges ([`TaskUsers`]); any other runs them as its own user.
//!
//! In commands and in values of the environment, `${NAME}` stands for a variable of the task's environment; in values
//! only for those the agent gives. `$${` is a plain `${`. A name that is not there fails the start by name.

mod attempt;
mod config;
mod decide;
mod disk;
mod error;
mod facts;
pub mod hollow;
mod probe;
mod ready;
mod runtime;
mod serve;
mod session;
mod topology;

/// What an agent needs of its machine, for a simulation that takes its place.
pub mod machine {
    pub use crate::decide::{AttemptState, ShimState};
    pub use crate::disk::AttemptFiles;
    pub use crate::probe::ProbeTarget;
    pub use crate::runtime::{Machine, MachineEvents, MachineFacts, MeasurePlace};
    pub use crate::serve::SignalSent;
}

pub use attempt::{AttemptId, AttemptIdError};
pub use borough_shim::tree::tree_remove;
pub use borough_shim::user::TaskUser;
pub use config::{AgentConfig, Credential, Intervals, Retention, TASK_DIR};
pub use decide::pressure::PressureLimits;
pub use disk::{ProcessGuard, TaskUsers, shim_install};
pub use error::AgentError;
pub use runtime::{run, run_on, tasks_home};
