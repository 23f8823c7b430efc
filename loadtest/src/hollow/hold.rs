//! The time in which the sessions are held: what the control process takes, sample by sample, while jobs come and go.
//! Then the control process is killed and started again, and the rules of the store are checked.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use borough_client::Client;
use serde_json::json;

use super::fleet::Fleet;
use super::metrics::Samples;
use super::turnover::{Turnover, job};
use super::usage::{ProcessUsage, process_usage};
use super::{ControlProcess, HollowArguments, fleet_stats, is_own, metrics_read};
use crate::recovery::placed;
use crate::result::{Results, Stats, StatsSet as _};
use crate::scheduler::store_check;
use crate::soak::bound::Peaks;
use crate::soak::files_bytes;
use crate::system::System;

/// The control process at the end of a sample.
struct Look {
    at: Instant,
    usage: Option<ProcessUsage>,
    shown: Option<Samples>,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn look(control: &ControlProcess) -> anyhow::Result<Look> {
    let usage = control.pid.map(process_usage).transpose()?;
    Ok(Look { at: Instant::now(), usage, shown: metrics_read(control).await? })
}

/// What is held, and what was seen of it.
struct Held<'a> {
    fleet: &'a Fleet,
    control: &'a ControlProcess,
    turnover: Option<Turnover>,
    began: Instant,
    last: Look,
    resident: Vec<u64>,
}

impl Held<'_> {
    async fn sample(&mut self, results: &mut Results) -> anyhow::Result<()> {
        let now = look(self.control).await?;
        let since = now.at.saturating_duration_since(self.last.at);
        let mut stats = Stats::new();
        stats.set("at_s", json!(self.began.elapsed().as_secs()));
        if let Some(turnover) = &mut self.turnover {
            turnover.look(since, &mut stats)?;
        }
        if let (Some(before), Some(usage)) = (self.last.usage, now.usage) {
            let thousandths =
                usage.cpu.saturating_sub(before.cpu).as_micros() * 1_000 / since.as_micros().max(1);
            stats.set("control_cpu_millis", json!(u64::try_from(thousandths)?));
            stats.set("control_rss_mib", json!(usage.rss_bytes >> 20));
            self.resident.push(usage.rss_bytes);
        }
        if let Some(store) = &self.control.store {
            stats.set("file_mib", json!(files_bytes(store)? >> 20));
        }
        if let (Some(before), Some(shown)) = (&self.last.shown, &now.shown) {
            shown.rates(before, since, &mut stats);
        }
        fleet_stats(&mut stats, self.fleet)?;
        results.line("hollow", "sample", stats);
        self.last = now;
        Ok(())
    }
}

/// Keeps the sessions open for the requested time, with jobs that come and go. Returns how long that took.
///
/// # Errors
/// A job was refused, the control process is gone, or its memory grew until the end.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn hold(
    arguments: &HollowArguments,
    fleet: &Fleet,
    client: Option<&Client>,
    control: &ControlProcess,
    results: &mut Results,
) -> anyhow::Result<Duration> {
    let load = client.filter(|_| arguments.turnover.submits());
    let turnover = load.map(|client| Turnover::start(client, fleet, arguments.turnover)).transpose()?;
    let (began, last) = (Instant::now(), look(control).await?);
    let mut held = Held { fleet, control, turnover, began, last, resident: Vec::new() };
    let over = over(arguments)?;
    tokio::pin!(over);
    let mut samples = arguments.turnover.sample().map(tokio::time::interval);
    if let Some(samples) = &mut samples {
        samples.tick().await;
    }
    loop {
        let next = async {
            match &mut samples {
                Some(samples) => drop(samples.tick().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut over => break,
            () = next => held.sample(results).await?,
        }
    }
    if let Some(turnover) = held.turnover.take() {
        turnover.end().await;
    }
    let peaks = Peaks::of(&held.resident);
    ensure!(!peaks.is_some_and(Peaks::grows), "the memory grows: {peaks:?}");
    Ok(began.elapsed())
}

/// Waits for the end of the requested time, or for a signal.
fn over(arguments: &HollowArguments) -> anyhow::Result<impl Future<Output = ()>> {
    let longest = match arguments.duration {
        None if !is_own(arguments) => Duration::MAX,
        duration => Duration::from_secs(duration.unwrap_or(20)),
    };
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot wait for signals")?;
    Ok(async move {
        tokio::select! {
            () = tokio::time::sleep(longest) => {}
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Kills the control process, starts it again, and waits until a task that is submitted then has a node. Then ends it
/// and checks the rules of the store.
///
/// # Errors
/// Nothing was placed in time, or a rule is broken.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn restart(system: &mut System, results: &mut Results) -> anyhow::Result<()> {
    system.control_kill()?;
    let began = Instant::now();
    system.control_restart()?;
    placed(system, job("restart", "after".to_owned()), began).await?;
    let mut stats = Stats::new();
    stats.set("start_to_placement_ms", json!(u64::try_from(began.elapsed().as_millis())?));
    system.control_end()?;
    store_check(system, &mut stats).await?;
    let broken = ["violations", "rule_violations"]
        .map(|name| stats.get(name).and_then(serde_json::Value::as_u64).unwrap_or_default());
    results.line("hollow", "restart", stats);
    ensure!(broken == [0, 0], "the store breaks {broken:?} rules");
    Ok(())
}
