//! What the agent has on disk: its state directory, a directory per attempt, the shim's program.
//!
//! | path | what |
//! |---|---|
//! | `format`, `lock` | the version of the directory; the lock of the one agent that uses it |
//! | `identity` | the agent's key, made once; mode 0600 |
//! | `node-identity` | the secret that the node got for its join token; mode 0600 |
//! | `node-identity.next` | the next one, until a gateway has it |
//! | `bin/borough-shim-HASH` | the shim's program; one per version that has run here |
//! | `attempts/ATTEMPT/` | an attempt that is not forgotten, `ATTEMPT` being `JOB.INDEX.ATTEMPT` |
//! | `…/assignment.pb`, `spec.json` | the assignment, and the spec of its shim; the latter contains the environment |
//! | `…/stop.json` | the order to end it |
//! | `…/state.json` | written by the shim: pid, start, exit, release ([`borough_shim::record`]) |
//! | `…/health.json` | the last result of probes |
//! | `…/signals.json` | the newest requests whose signals were sent |
//! | `…/stdout.N.log`, `stdout.log` | output ([`borough_shim::log`]); the same for `stderr` |
//! | `…/shim.log` | errors of the shim itself |
//! | `…/work` | the task's own directory, with the files of its identities and secrets; removed when the attempt is forgotten. A link if tasks run as other users |
//! | `ended/ATTEMPT/` | the record and the logs of a forgotten attempt, until retention removes them |

mod attempt_dir;
mod guard;
mod identity;
mod node_identity;
mod secret;
mod shim;
mod state_dir;
mod task_file;

pub use attempt_dir::AttemptFiles;
pub(crate) use attempt_dir::{
    HEALTH_FILE, RESIZE_FILE, SIGNALS_FILE, attempt_begin, attempt_end_write, attempt_load, record_read,
};
pub use guard::ProcessGuard;
pub(crate) use identity::{HostGuard, agent_key, copy_refuse, machine_id};
pub(crate) use node_identity::NodeIdentityFiles;
pub use node_identity::has_joined;
pub(crate) use secret::{secret_read, secrets_directory_check};
pub use shim::shim_install;
pub(crate) use shim::shim_path;
pub(crate) use state_dir::{DirectoryOwner, StateDir, StateLock};
pub(crate) use task_file::task_file_write;
