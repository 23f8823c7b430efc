//! Asking a task for its health, again and again. What the answers mean is decided in [`crate::decide::health`].

mod ask;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Clock;
use borough_proto::v1;
use tokio::sync::mpsc;

use crate::decide::health::{Course, next};
use crate::life::LifeId;
use crate::runtime::{Event, Machine};
pub(crate) use ask::ask;

/// A probe may take this long where its spec says 0.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What is probed.
#[derive(Clone, Debug)]
pub struct Target {
    /// The life.
    pub id: LifeId,
    /// How.
    pub check: v1::HealthCheck,
    /// Its ports, by which probes find it.
    pub ports: Vec<v1::Port>,
    /// Where it is reached.
    pub host: String,
    /// Its directory, for commands.
    pub directory: PathBuf,
    /// The shim's program, for commands.
    pub program: PathBuf,
    /// What was last known of it.
    pub health: v1::Health,
    /// When it started: wall time, milliseconds since 1970.
    pub started_ms: i64,
}

/// Probes until it is aborted; every change becomes [`Event::Health`].
pub(crate) async fn run(
    target: Target,
    clock: Arc<dyn Clock>,
    machine: Arc<dyn Machine>,
    events: mpsc::UnboundedSender<Event>,
) {
    // A life that is taken up again has run for longer than we have.
    let ran_ms = u64::try_from(clock.wall_ms().saturating_sub(target.started_ms)).unwrap_or(0);
    let since = clock.monotonic();
    let mut course = Course::new(target.health);
    let timeout = match target.check.timeout_ms {
        0 => TIMEOUT,
        ms => Duration::from_millis(ms),
    };
    loop {
        let passed = match tokio::time::timeout(timeout, machine.ask(&target)).await {
            Ok(Ok(())) => true,
            Ok(Err(reason)) => {
                tracing::debug!(life = %target.id, reason, "probe failed");
                false
            }
            Err(_) => false,
        };
        let ran = clock.monotonic().saturating_sub(since).saturating_add(Duration::from_millis(ran_ms));
        let (after, pause) = next(&target.check, course, passed, ran);
        if after.health != course.health {
            let _ = events.send(Event::Health(target.id.clone(), after.health));
        }
        course = after;
        tokio::time::sleep(pause).await;
    }
}
