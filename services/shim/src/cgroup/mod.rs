//! Control groups by plain files, alike on hosts with version 2, version 1 and both.
//!
//! [`Host`] lists what is mounted, [`CgroupRoot`] what a node may use of it, [`Leaf`] the cgroup of one attempt in
//! every hierarchy of the root. Features that a host lacks are absent from the root and named in
//! [`CgroupRoot::missing`].
//!
//! Limits: memory is hard (the request is the limit, swap included), and processes are bounded generously. Cpu is a
//! share by the request and not a quota: a task may use idle cores, and gets its own when others want them.

mod host;
mod leaf;
mod resize;

pub use host::{CgroupRoot, CgroupVersion, Host};
pub(crate) use leaf::oom_text;
pub use leaf::{CgroupLimits, CgroupUsage, Leaf};
pub use resize::{ResizeError, ResizeLimits};
