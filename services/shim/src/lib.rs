//! The per-task shim: starts one process, owns its logs, records its exit, and ends its remaining processes.
//!
//! The library half is shared with the agent. It contains the files of an attempt's directory ([`spec`], [`record`]),
//! cgroups ([`cgroup`]), processes as the kernel names them ([`process`]) and the names of log files ([`log`]).
//!
//! The program half is one small binary with several modes:
//!
//! | mode | does |
//! |---|---|
//! | `run <attempt>` | the shim itself: one per attempt |
//! | `child` | becomes the task: joins its cgroup, then executes the program |
//! | `helper <number>` | becomes a helper of the task, in the same way |
//! | `exec <attempt> plain\|terminal <command>` | becomes a command in a task's environment and cgroup |
//! | `clean <attempt>` | ends the remaining processes of a dead shim |
//! | `guard <dir>` | ends everything recorded in a directory once its standard input closes; for tests |
//!
//! A shim has no connections. It reads `spec.json` once and `stop.json` when it is signalled (SIGUSR1), and it writes
//! `state.json`, each as one atomic, durable replacement. An agent may therefore die, be replaced or come back at any
//! time. If `stop.json` cannot be written because the disk is full, SIGUSR2 ends the attempt as its spec says.

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
