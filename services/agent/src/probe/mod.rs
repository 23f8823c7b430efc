//! Probes tasks for their health, again and again. [`crate::decide::health`] interprets the answers.

mod ask;

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Clock;
use borough_model::job::file::duration_text;
use borough_proto::v1;
use tokio::sync::mpsc;

use crate::decide::health::{HEALTHY_AFTER_MS, ProbeHistory, ProbeResult, TaskUptime, next, next_unchecked};
use crate::event::{Event, ProbedHealth};
use crate::machine::{Machine, ProbeTarget};
pub(crate) use ask::ask;

/// The time limit of a probe whose spec says 0.
const TIMEOUT_MS: u64 = 1_000;

/// Probes until it is aborted. Reports every change as [`Event::Health`].
pub(crate) async fn run(
    target: ProbeTarget,
    clock: Arc<dyn Clock>,
    machine: Arc<dyn Machine>,
    events: mpsc::UnboundedSender<Event>,
) {
    // An adopted attempt has run for longer than this process.
    let ran_ms = u64::try_from(clock.wall_ms().saturating_sub(target.started_ms)).unwrap_or(0);
    let since = clock.monotonic();
    let mut history = ProbeHistory::new(target.health);
    let healthy_after = Duration::from_millis(match target.healthy_after_ms {
        0 => HEALTHY_AFTER_MS,
        ms => ms,
    });
    let mut last_reason = String::new();
    let timeout_ms = match target.check.timeout_ms {
        0 => TIMEOUT_MS,
        ms => ms,
    };
    loop {
        let answer = match tokio::time::timeout(Duration::from_millis(timeout_ms), machine.ask(&target)).await
        {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {}", duration_text(timeout_ms))),
        };
        let (result, failure) = match answer {
            Ok(()) => (ProbeResult::Passed, String::new()),
            Err(reason) => {
                if reason != last_reason {
                    tracing::info!(attempt = %target.id, reason, "probe failed");
                    last_reason.clone_from(&reason);
                }
                (ProbeResult::Failed, reason)
            }
        };
        let since_start =
            clock.monotonic().saturating_sub(since).saturating_add(Duration::from_millis(ran_ms));
        let uptime = TaskUptime { since_start, healthy_after };
        let (after, pause) = match target.check.probe {
            Some(_) => next(&target.check, history, result, uptime),
            None => next_unchecked(history, result, uptime),
        };
        if after.health != history.health {
            let probed = ProbedHealth { health: after.health, failure };
            let _ = events.send(Event::Health(target.id.clone(), probed));
        }
        history = after;
        if target.check.probe.is_none() && history.health == v1::Health::Healthy {
            // It only had to run.
            return;
        }
        tokio::time::sleep(pause).await;
    }
}
