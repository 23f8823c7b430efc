//! The per-task shim: starts one process, owns its logs, remembers its exit, ends all that is left of it.
//!
//! The library half is what shim and agent share: the files of an attempt's directory ([`spec`], [`record`]), cgroups
//! ([`cgroup`]), processes as the kernel names them ([`process`]) and the names of log files ([`log`]). The program
//! half is one small binary with a mode per job it does:
//!
//! | mode | does |
//! |---|---|
//! | `run <attempt>` | the shim itself: one per attempt |
//! | `child` | becomes the task: joins its cgroup, then executes the program |
//! | `exec <attempt> plain\|terminal <command>` | becomes a command beside a task, in its cgroup |
//! | `clean <attempt>` | ends what a dead shim left behind |
//! | `guard <dir>` | ends everything recorded in a directory once its standard input closes; for tests |
//!
//! A shim talks to nobody. It reads `spec.json` once and `stop.json` when it is signalled (SIGUSR1), and it writes
//! `state.json`, each as one atomic, durable replacement. So an agent may die, be replaced or come back at any time.
//! Where `stop.json` cannot be written because the disk is full, SIGUSR2 ends the attempt as its spec says.

pub mod cgroup;
pub mod clock;
pub mod exec;
pub mod file;
pub mod guard;
pub mod log;
pub mod process;
pub mod record;
pub mod run;
pub mod spec;
pub mod tree;
pub mod user;
