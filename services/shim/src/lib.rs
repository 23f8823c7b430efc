//! The per-task shim: starts one process, owns its logs, remembers its exit.
