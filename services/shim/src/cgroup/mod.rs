//! Control groups by plain files, alike on hosts of version 2, version 1 and both at once.
//!
//! [`Host`] is what is mounted, [`CgroupRoot`] what a node may use of it, [`Leaf`] the cgroup of one attempt in every
//! hierarchy the base has. What a host lacks is left out of the base and named in [`CgroupRoot::missing`]; nothing is
//! pretended.
//!
//! Limits: memory is hard (the request is the limit, swap included), processes are bounded generously, and cpu is a
//! share by the request and not a quota: a task may use idle cores, and gets its own when they are wanted.

mod host;
mod leaf;

pub use host::{CgroupRoot, CgroupVersion, Host};
pub use leaf::{CgroupLimits, CgroupUsage, Leaf};
