//! A cell as its users see it: real processes, real clients, faults in the store. One file per noun.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod absent;
mod access;
mod agent;
mod allocs;
mod audit;
mod bad;
mod balancers;
mod browser;
mod complete;
mod connection;
mod context;
mod control;
mod crash;
mod daemon;
mod descriptors;
mod directory;
mod disk;
mod disruption;
mod drain;
mod dry_run;
mod edit;
mod empty;
mod encrypted;
mod ending;
mod failure;
mod federated;
mod federation;
mod file;
mod gang;
mod guard;
mod helpers;
mod identity;
mod job;
mod join;
mod labelled;
mod large;
mod list;
mod load;
mod log;
mod machine;
mod named;
mod names;
mod node;
mod output;
mod overload;
mod pasted;
mod plan;
mod port;
mod preempt;
mod published;
mod quota;
mod reference;
mod resize;
mod restart;
mod role;
mod rollout;
mod rollouts;
mod secret;
mod setting;
mod settled;
mod several;
mod silent;
mod singular;
mod stop;
mod task;
mod terminal;
mod told;
mod top;
mod tour;
mod verb;
mod watch;
mod watched;
mod web;
mod weight;
mod why;
mod workload;

/// A service of two with ports, a health check and quick restarts.
const SERVICE: &str = r#"
name: served
count: 2
task:
  command: [python3, -u, -m, http.server, --bind, 127.0.0.1, "${PORT_HTTP}"]
  resources: {cpu: 50m, memory: 32MiB}
  ports: [http]
  health: {tcp: http, interval: 500ms, timeout: 400ms, failures: 5, initial_grace: 10s}
  grace: 1s
restart: {mode: always, backoff: 100ms}
spread: [node.name]
"#;

/// A job file of the examples.
macro_rules! example {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../services/cli/jobs/", $name)
    };
}
use example;
