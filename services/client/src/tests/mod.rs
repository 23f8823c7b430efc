//! The client and a server in this process that fails on purpose.

mod calls;
mod fake;
mod watches;

use std::time::Duration;

use borough_kv::env::SeededRng;

use crate::{Client, ClientConfig, RetryPolicy};

/// A client with short pauses, so that tests of retries are quick.
fn client(gateways: &[&str], adjust: impl FnOnce(&mut ClientConfig)) -> Client {
    let gateways = gateways.iter().map(|&address| address.to_owned()).collect();
    let mut config = ClientConfig::new(gateways, "alice", "alpha");
    config.retry = RetryPolicy {
        attempts_max: 4,
        backoff_initial: Duration::from_millis(1),
        backoff_max: Duration::from_millis(4),
    };
    adjust(&mut config);
    Client::new(config, SeededRng::shared(7)).expect("a good configuration")
}
