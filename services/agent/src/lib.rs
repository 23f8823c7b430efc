//! The node agent: runs the node's desired attempts, and reports on them.
//!
//! | folder | content |
//! |---|---|
//! | `decide/` | every decision, as pure functions: what to start, stop, drop, report; health; environment; retention of logs |
//! | `hollow/` | the same decisions over simulated tasks, for load tests |
//! | `disk/` | the state directory, the directories of attempts, the embedded shim |
//! | `machine.rs` | the interface to the machine, which a simulation replaces |
//! | `shim/` | starting and adopting shims, and running commands beside their tasks |
//! | `session/` | the stream to a gateway |
//! | `probe/` | probes of tasks' health |
//! | `serve/` | logs, commands and signals for a gateway |
//! | `runtime/` | one task that owns the state, and its IO |
//!
//! Modules import in one direction only: `runtime` uses all others, and `decide` does no IO.
//!
//! All of the agent's state is on disk or in the next report, so it may be killed at any time. Its tasks belong to
//! their shims ([`borough_shim`]). A new agent finds the shims by their records. Attempts that the control plane does
//! not know are parked: they keep running, and end only when a stop names them.
//!
//! The agent enforces three of a task's requests: a hard limit of memory, a generous limit of processes, and a share of
//! the cores while they are scarce. The other dimensions are for the scheduler alone. An agent that is root runs tasks
//! as users without privileges ([`TaskUsers`]); any other runs them as its own user.
//!
//! A command of a task may use each variable of its environment as `${NAME}`. The value of a variable may use those
//! that the agent sets. `$${` is a plain `${`. An undefined name fails the start with an error that names it.

mod attempt;
mod config;
mod decide;
mod disk;
mod error;
mod event;
mod facts;
pub mod hollow;
mod listener;
pub mod machine;
mod outbox;
mod probe;
mod ready;
mod runtime;
mod serve;
mod session;
mod shim;
mod task_users;
mod topology;

pub use attempt::{AttemptId, AttemptIdError};
pub use borough_shim::tree::tree_remove;
pub use borough_shim::user::TaskUser;
pub use config::{AgentConfig, Credential, Intervals, TASK_DIR};
pub use decide::pressure::PressureLimits;
pub use decide::retention::Retention;
pub use disk::{ProcessGuard, has_joined, shim_install};
pub use error::AgentError;
pub use runtime::{run, run_on, tasks_home};
pub use task_users::TaskUsers;
