//! What the agent has on disk: its state directory, a directory per life, the shim's program.

mod guard;
mod life_dir;
mod shim;
mod state_dir;

pub use guard::TestGuard;
pub use life_dir::{HEALTH_FILE, LifeFiles, life_begin, life_end_write, life_load, record_read};
pub use shim::shim_install;
pub use state_dir::{StateDir, StateLock};
