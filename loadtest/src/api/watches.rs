//! Watches: how fast they begin, and how fast a change reaches all of them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use borough_client::{CellItem, Client};
use borough_proto::v1::{Cursor, WatchFilter};
use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::place::ApiPlace;
use super::{ApiBenchArguments, USER, job};
use crate::hollow::usage::process_usage;
use crate::names::us;
use crate::result::{Stats, StatsSet as _, percentiles};

/// How long a change may take to reach everybody.
const CHANGE_WAIT: Duration = Duration::from_secs(60);
/// Watchers that begin at once.
const BEGIN_AT_ONCE: u32 = 100;

fn filter() -> WatchFilter {
    WatchFilter { user: USER.to_owned(), ..WatchFilter::default() }
}

/// Begins a watch at a position with a change behind it, and ends it with that change.
pub(super) async fn begin(client: &Client, from: Cursor) -> anyhow::Result<()> {
    match client.watch_cell(filter(), Some(from)).next().await {
        Some(Ok(CellItem::Change(_))) => Ok(()),
        Some(Err(error)) => Err(error.into()),
        other => bail!("the watch began with {other:?}"),
    }
}

/// What a watcher reports.
enum Seen {
    /// It follows.
    Begun,
    /// It was shown a change, at this time.
    Change(Instant),
}

/// Shows changes to many watchers, one after the other. Behind `from` is one change, by which each shows that it
/// follows.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn fan_out(
    place: &ApiPlace,
    arguments: &ApiBenchArguments,
    from: Cursor,
) -> anyhow::Result<Stats> {
    let pid = place.pid()?;
    let before = process_usage(pid)?;
    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut watchers = JoinSet::new();
    for number in 0..arguments.watchers {
        if number % BEGIN_AT_ONCE == 0 && number > 0 {
            all(&mut seen, &mut watchers, BEGIN_AT_ONCE).await?;
        }
        watchers.spawn(follow(place.client()?, from.clone(), sender.clone()));
    }
    let rest = arguments.watchers - arguments.watchers.saturating_sub(1) / BEGIN_AT_ONCE * BEGIN_AT_ONCE;
    all(&mut seen, &mut watchers, rest).await?;
    let memory = process_usage(pid)?.rss_bytes.saturating_sub(before.rss_bytes);
    let (submitter, mut firsts, mut lasts) = (place.client()?, Vec::new(), Vec::new());
    for change in 0..arguments.changes {
        let begun = Instant::now();
        submitter.job_submit(job(format!("fan{change}"), 1), 0).await?;
        let times = all(&mut seen, &mut watchers, arguments.watchers).await?;
        let since = |at: Option<&Instant>| us(at.map(|at| *at - begun).unwrap_or_default());
        firsts.push(since(times.iter().min()));
        lasts.push(since(times.iter().max()));
    }
    let mut stats = Stats::new();
    stats.set("watchers", arguments.watchers);
    percentiles(&mut stats, "first", &firsts)?;
    percentiles(&mut stats, "last", &lasts)?;
    stats.set("memory_per_watcher_bytes", memory / u64::from(arguments.watchers.max(1)));
    Ok(stats)
}

/// Reports the begin of a watch, which is the change behind `from`, and each later one.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
async fn follow(client: Client, from: Cursor, seen: mpsc::UnboundedSender<Seen>) -> anyhow::Result<()> {
    let (mut items, mut begun) = (client.watch_cell(filter(), Some(from)), false);
    while let Some(item) = items.next().await {
        if !matches!(item?, CellItem::Change(_)) {
            continue;
        }
        let report = if begun { Seen::Change(Instant::now()) } else { Seen::Begun };
        begun = true;
        // Nobody listens once the benchmark is over.
        seen.send(report).ok();
    }
    bail!("a watch has ended")
}

/// Waits for so many reports. Returns the times of the changes among them.
async fn all(
    seen: &mut mpsc::UnboundedReceiver<Seen>,
    watchers: &mut JoinSet<anyhow::Result<()>>,
    wanted: u32,
) -> anyhow::Result<Vec<Instant>> {
    let mut times = Vec::new();
    let reached = async {
        for _ in 0..wanted {
            let report = tokio::select! {
                Some(report) = seen.recv() => report,
                Some(ended) = watchers.join_next() => {
                    ended??;
                    bail!("a watcher has ended");
                }
            };
            if let Seen::Change(at) = report {
                times.push(at);
            }
        }
        Ok(())
    };
    let reached: anyhow::Result<()> = tokio::time::timeout(CHANGE_WAIT, reached)
        .await
        .with_context(|| format!("not every one of {wanted} watchers has reported in time"))?;
    reached?;
    Ok(times)
}
