//! Vouches for the nodes whose agents this gateway serves.
//!
//! The gateway renews one row of its own with each beat. The row of a node names that voucher from the session's first
//! work on, and is written again only when the session falls silent or works again. A round writes in this order: it
//! withdraws the voucher of silent sessions, it renews its row, and it vouches for sessions that have begun to work.
//! A round that cannot withdraw renews nothing. A node that moved to another gateway names another voucher, whatever
//! this gateway does. After a pause, or a time without the store, each session has its whole time again to show work:
//! what it sent meanwhile may still wait to be read.
//!
//! Nothing here visits all sessions: a session has a deadline, and is looked at when that has passed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Idempotency, TransactionOption};
use borough_model::NodeId;
use borough_model::node::Voucher;
use borough_store::node::{
    GatewayRenewed, LiveCursor, gateway_live_claim, gateway_live_remove, gateway_live_renew,
    live_changes_read, live_cursor_now, node_live_renew, node_live_withdraw, node_writers,
};
use borough_store::{StoreError, StoreResult, error_chain};
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::metrics::EndKind;
use super::registry::RegisteredSession;
use super::write::NotWritten;
use crate::cell::CellContext;
use crate::fault::{WriteFault, fault_of};
use crate::status::status_from_store;

/// Most nodes in one transaction.
const NODES_MAX: usize = 500;
/// Most changes of other gateways' nodes in one reading.
const CHANGES_MAX: usize = 2_000;

/// A gap of more than so many beats between two rounds counts as no silence: the gateway was paused itself.
const GAP_BEATS: u32 = 3;

/// Most nodes of which one round writes that their agents do not answer. A fault of the network that takes every agent
/// away thus writes no row of most nodes before they are back.
const SILENT_MAX: usize = 64;

/// For so long the gateway remembers what does not count: longer than any session may be silent.
const EXCLUDED_KEPT: Duration = Duration::from_secs(600);

/// How a gateway vouches.
#[derive(Clone, Debug)]
pub struct VouchSettings {
    /// The gateway's address for other gateways.
    pub address: String,
    /// The interval of rounds.
    pub beat: Duration,
}

/// What the gateway writes about the liveness of a node.
#[derive(Clone, Debug)]
enum LiveWrite {
    Vouch(Voucher),
    /// The sessions have been silent.
    Withdraw(SilenceTime),
}

impl LiveWrite {
    fn of(&self, session: &RegisteredSession) -> SessionWrite {
        match self {
            Self::Vouch(voucher) => SessionWrite::Vouch {
                beat: session.beat_next(),
                report_revision: session.report_revision(),
                voucher: *voucher,
            },
            Self::Withdraw(time) => {
                let silent_ms = u64::try_from(time.silent(session).as_millis()).unwrap_or(u64::MAX);
                SessionWrite::Withdraw { silent_ms }
            }
        }
    }
}

/// What is written about one session.
#[derive(Clone, Copy, Debug)]
enum SessionWrite {
    Vouch {
        beat: u64,
        /// The agent's last report that is durable.
        report_revision: u64,
        voucher: Voucher,
    },
    Withdraw {
        silent_ms: u64,
    },
}

/// The time by which this gateway measures silence (monotonic).
#[derive(Clone, Debug, Default)]
struct SilenceTime {
    /// When the last round began.
    now: Duration,
    /// What does not count, from and to: the gateway was paused, or renewed nothing.
    excluded: Vec<(Duration, Duration)>,
}

impl SilenceTime {
    fn begin(&mut self, now: Duration) {
        self.excluded.retain(|(_, to)| now.saturating_sub(*to) < EXCLUDED_KEPT);
        self.now = now;
    }

    /// The time from the last round to `now` does not count.
    fn exclude(&mut self, now: Duration) {
        match self.excluded.last_mut() {
            // A long time without the store is one entry.
            Some((_, to)) if *to == self.now => *to = now,
            _ => self.excluded.push((self.now, now)),
        }
    }

    /// For how long a session has been silent.
    fn silent(&self, session: &RegisteredSession) -> Duration {
        self.since(session.silence_limit().since)
    }

    /// For how much longer a session may be silent.
    fn left(&self, session: &RegisteredSession) -> Duration {
        let limit = session.silence_limit();
        limit.most.saturating_sub(self.since(limit.since))
    }

    /// The time from `since` on that counts.
    fn since(&self, since: Duration) -> Duration {
        let excluded = self.excluded.iter().map(|(from, to)| to.saturating_sub(since.max(*from)));
        self.now.saturating_sub(since).saturating_sub(excluded.sum())
    }
}

type SessionMap = BTreeMap<NodeId, Arc<RegisteredSession>>;

/// The gateway's voucher for one cell, and the sessions that it vouches for.
pub(super) struct VouchKeeper {
    cell: Arc<CellContext>,
    settings: VouchSettings,
    /// The number of this process.
    gateway: u64,
    /// The voucher in force, with the beat of its last renewal.
    voucher: Option<(Voucher, u64)>,
    /// A beat that may have been written.
    beat_tried: Option<u64>,
    /// Sessions that have begun to work, to vouch for.
    begun: SessionMap,
    vouched: SessionMap,
    /// Sessions that have fallen silent, to withdraw the voucher from.
    silent: SessionMap,
    time: SilenceTime,
    /// Whether the last round renewed the gateway's row.
    renewed: bool,
    /// When to look whether a vouched session is silent, with the session's number.
    due: BinaryHeap<Reverse<(Duration, NodeId, u64)>>,
    /// Up to where this gateway knows which sessions are in force.
    cursor: Option<LiveCursor>,
}

/// Vouches until cancelled. A session counts that has done work within its limit
/// ([`RegisteredSession::silence_limit`]): it applied a report, or acknowledged a chunk of the desired state. An open
/// connection or a registration alone is no work.
pub async fn vouch_keep(cell: Arc<CellContext>, settings: VouchSettings, cancelled: CancellationToken) {
    let beat = settings.beat;
    let mut keeper = VouchKeeper::new(cell, settings);
    loop {
        tokio::select! {
            () = tokio::time::sleep(beat) => {}
            () = cancelled.cancelled() => return keeper.end().await,
        }
        if let Err(error) = keeper.round().await {
            let (cell, error) = (&keeper.cell.name, error_chain(&error));
            tracing::warn!(%cell, %error, "the gateway cannot vouch for its nodes now");
        }
    }
}

impl VouchKeeper {
    pub(super) fn new(cell: Arc<CellContext>, settings: VouchSettings) -> Self {
        let gateway = cell.id();
        cell.sessions.address.set(&settings.address);
        Self {
            cell,
            settings,
            gateway,
            voucher: None,
            beat_tried: None,
            begun: SessionMap::new(),
            vouched: SessionMap::new(),
            silent: SessionMap::new(),
            time: SilenceTime::default(),
            renewed: false,
            due: BinaryHeap::new(),
            cursor: None,
        }
    }

    /// One round. The error is that of the store: nothing more was written.
    pub(super) async fn round(&mut self) -> StoreResult<()> {
        let now = self.cell.machine.monotonic();
        let gap = now.saturating_sub(self.time.now);
        if !self.renewed || gap > self.settings.beat.saturating_mul(GAP_BEATS) {
            self.time.exclude(now);
        }
        self.time.begin(now);
        self.renewed = false;
        self.silent_find();
        let silent = std::mem::take(&mut self.silent);
        let left = self.all_write(silent, LiveWrite::Withdraw(self.time.clone())).await;
        self.silent = left.sessions;
        left.result?;
        let voucher = self.renew().await?;
        self.renewed = true;
        self.begun_find();
        let begun = std::mem::take(&mut self.begun);
        let left = self.all_write(begun, LiveWrite::Vouch(voucher)).await;
        self.begun.extend(left.sessions);
        left.result?;
        self.silent_tell();
        self.superseded_find().await
    }

    /// Writes that agents do not answer, if their sessions have no successor for a beat. A restarted agent is back
    /// before. The scheduler then gives these nodes no new tasks. Does not wait: the next beat must be in time.
    fn silent_tell(&self) {
        let Some(until) = self.time.now.checked_sub(self.settings.beat) else { return };
        for session in self.cell.sessions.silent.take(until, SILENT_MAX) {
            if session.is_over(&self.cell.sessions) {
                continue;
            }
            let silent = self.time.since(session.since);
            let cell = Arc::clone(&self.cell);
            tokio::spawn(async move {
                let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
                match cell.registrations.silent(session.fence, silent_ms).await {
                    // Another session is in force, or this process ends.
                    None | Some(Err(NotWritten::Superseded)) => {}
                    Some(Err(error @ NotWritten::Later(_))) => {
                        tracing::warn!(cell = %cell.name, node = %session.fence.node, %error, "the silence of an agent waits");
                        cell.sessions.silent.put_back(session);
                    }
                    Some(Ok(())) => {
                        tracing::info!(cell = %cell.name, node = %session.fence.node, silent_ms, "the node gets no new tasks until its agent answers");
                    }
                    Some(Err(error)) => {
                        tracing::warn!(cell = %cell.name, node = %session.fence.node, %error, "the silence of an agent cannot be written");
                    }
                }
            });
        }
    }

    /// Removes the gateway's row: its nodes have no voucher from now on.
    async fn end(self) {
        let Some((voucher, last)) = self.voucher else { return };
        let space = &self.cell.space;
        let removed = self.cell.db.run("gateway_live_remove", Idempotency::Natural, |tx, _| async move {
            gateway_live_remove(&tx, space, voucher, last).await
        });
        if let Err(error) = removed.await {
            tracing::warn!(cell = %self.cell.name, error = %error_chain(&error), "the gateway's row stays; the controller removes it");
        }
    }

    /// Finds the sessions that have done no work for too long, among those whose deadline has passed. The end of a
    /// session brings its deadline forward.
    fn silent_find(&mut self) {
        for (node, id) in self.cell.sessions.ended_take() {
            if let Some(session) = self.vouched.get(&node).filter(|session| session.id == id) {
                self.due.push(Reverse((session.silence_limit().due(), node, id)));
            }
        }
        let time = &self.time;
        while let Some(&Reverse((due, node, id))) = self.due.peek() {
            if due > time.now {
                return;
            }
            self.due.pop();
            let Some(session) = self.vouched.get(&node).filter(|session| session.id == id) else { continue };
            let left = time.left(session);
            if left > Duration::ZERO {
                self.due.push(Reverse((time.now.saturating_add(left), node, id)));
            } else if let Some(session) = self.vouched.remove(&node) {
                self.silent.insert(node, session);
            }
        }
    }

    /// Takes the sessions that have begun to work since the last round.
    fn begun_find(&mut self) {
        let begun = self.cell.sessions.begun_take();
        self.begun.extend(begun.into_iter().map(|session| (session.node, session)));
        self.begun.retain(|_, session| session.is_current());
    }

    /// Renews the gateway's row. If the voucher is over, claims another one, and vouches again for every session that
    /// still works.
    async fn renew(&mut self) -> StoreResult<Voucher> {
        let beat = *self.beat_tried.get_or_insert_with(|| self.cell.id());
        let space = &self.cell.space;
        if let Some((voucher, last)) = self.voucher {
            let renewed = self.cell.db.run("gateway_live_renew", Idempotency::Natural, |tx, _| async move {
                // Whoever loses it has lost the gateway too, which then vouches under another number.
                tx.set_option(TransactionOption::FlushLater)?;
                gateway_live_renew(&tx, space, voucher, last, beat).await
            });
            let renewed = renewed.await?;
            if renewed == GatewayRenewed::Renewed {
                (self.voucher, self.beat_tried) = (Some((voucher, beat)), None);
                return Ok(voucher);
            }
            tracing::warn!(cell = %self.cell.name, ?renewed, "the gateway's voucher is over; it vouches again");
            if renewed == GatewayRenewed::Deposed {
                self.gateway = self.cell.id();
            }
            self.voucher = None;
            self.due.clear();
            // A session that has a successor must not take its place.
            self.vouched.retain(|_, session| session.is_current());
            self.begun.append(&mut self.vouched);
        }
        let (gateway, address) = (self.gateway, &self.settings.address);
        let claimed = self.cell.db.run("gateway_live_claim", Idempotency::Natural, |tx, _| async move {
            gateway_live_claim(&tx, space, gateway, address, beat).await
        });
        let voucher = claimed.await?;
        (self.voucher, self.beat_tried) = (Some((voucher, beat)), None);
        Ok(voucher)
    }

    /// Writes about all of `sessions`, in bounded transactions. Returns those that the store does not take now.
    async fn all_write(&mut self, sessions: SessionMap, write: LiveWrite) -> LeftOver {
        let sessions: Vec<Arc<RegisteredSession>> = sessions.into_values().collect();
        let mut parts: Vec<Vec<_>> = sessions.chunks(NODES_MAX).map(<[_]>::to_vec).collect();
        let mut left = LeftOver { sessions: SessionMap::new(), result: Ok(()) };
        while let Some(mut part) = parts.pop() {
            let error = match part_write(&self.cell, &part, &write).await {
                Ok(in_force) => {
                    self.part_settle(part, &in_force, &write);
                    continue;
                }
                Err(error) => error,
            };
            let fault = fault_of(&error);
            if part.len() > 1 && fault != WriteFault::Store {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            } else if fault == WriteFault::Item {
                part.iter().for_each(|session| self.set_aside(session, &error));
            } else {
                left.sessions.extend(part.into_iter().map(|session| (session.node, session)));
                left.result = Err(error);
                if fault == WriteFault::Store {
                    let rest = parts.drain(..).flatten();
                    left.sessions.extend(rest.map(|session| (session.node, session)));
                }
            }
        }
        left
    }

    /// Records what was written; `in_force` says of each session whether it is still that of its node.
    fn part_settle(&mut self, part: Vec<Arc<RegisteredSession>>, in_force: &[bool], write: &LiveWrite) {
        for (session, in_force) in part.into_iter().zip(in_force) {
            if !in_force {
                superseded_end(&self.cell, &session);
            } else if self.time.left(&session) > Duration::ZERO && matches!(write, LiveWrite::Withdraw(_)) {
                // It has worked in the meantime.
                self.begun.insert(session.node, session);
            } else if matches!(write, LiveWrite::Withdraw(_)) {
                tracing::info!(cell = %self.cell.name, node = %session.node, session = session.id, "the agent is silent");
                session.vouching_end();
                self.cell.sessions.silent.note(&session, Duration::ZERO);
            } else {
                self.due.push(Reverse((session.silence_limit().due(), session.node, session.id)));
                self.vouched.insert(session.node, session);
            }
        }
    }

    /// Ends a session whose node the store refuses to write for.
    fn set_aside(&self, session: &RegisteredSession, error: &StoreError) {
        self.cell.session_metrics.refused("liveness");
        tracing::warn!(cell = %self.cell.name, node = %session.node, error = %error_chain(error), "the liveness of a node cannot be written; its session ends");
        session.end(EndKind::Refused, status_from_store(error));
    }

    /// Ends the sessions that have a successor with another gateway.
    async fn superseded_find(&mut self) -> StoreResult<()> {
        let (cell, space) = (Arc::clone(&self.cell), &self.cell.space);
        loop {
            let after = self.cursor;
            let changes = cell.db.run("live_changes_read", Idempotency::ReadOnly, |tx, _| async move {
                match after {
                    Some(after) => live_changes_read(&tx, space, after, CHANGES_MAX).await.map(Ok),
                    None => live_cursor_now(&tx).await.map(Err),
                }
            });
            let changes = match changes.await? {
                Ok(changes) => changes,
                Err(cursor) => {
                    self.cursor = Some(cursor);
                    return Ok(());
                }
            };
            let other = |(node, live): (NodeId, Option<borough_model::node::NodeLive>)| {
                let session = cell.sessions.get(node)?;
                (session.is_current() && live?.session != session.id).then_some(session)
            };
            let others: Vec<_> = changes.changed.into_iter().filter_map(other).collect();
            for part in others.chunks(NODES_MAX) {
                // What was read may be older than the session.
                let in_force = in_force_read(&cell, part).await?;
                let over = part.iter().zip(in_force).filter(|(_, in_force)| !in_force);
                over.for_each(|(session, _)| superseded_end(&cell, session));
            }
            self.cursor = Some(changes.cursor);
            if !changes.is_more {
                return Ok(());
            }
        }
    }
}

/// Sessions about which nothing could be written, and why.
struct LeftOver {
    sessions: SessionMap,
    result: StoreResult<()>,
}

fn superseded_end(cell: &CellContext, session: &RegisteredSession) {
    if !session.is_current() {
        return;
    }
    cell.session_metrics.superseded("lease");
    tracing::info!(cell = %cell.name, node = %session.node, session = session.id, "another session is in force");
    session.end(EndKind::Superseded, NotWritten::Superseded.status());
}

/// Writes about sessions in one transaction. Returns for each whether it is still in force.
async fn part_write(
    cell: &CellContext,
    sessions: &[Arc<RegisteredSession>],
    write: &LiveWrite,
) -> StoreResult<Vec<bool>> {
    let writes: Vec<_> = sessions.iter().map(|session| (session.fence(), write.of(session))).collect();
    let (space, writes) = (&cell.space, &writes);
    let write = cell.db.run("node_live_write", Idempotency::Natural, |tx, _| async move {
        let writers = node_writers(&tx, space, writes.iter().map(|&(fence, _)| fence)).await?;
        let each = writes.iter().map(async |&(fence, write)| {
            let Some(writer) = writers.get(&fence) else { return Ok(false) };
            match write {
                SessionWrite::Vouch { beat, report_revision, voucher } => {
                    node_live_renew(writer, space, beat, report_revision, Some(voucher)).await?;
                }
                SessionWrite::Withdraw { silent_ms } => {
                    node_live_withdraw(writer, space, silent_ms).await?;
                }
            }
            Ok::<_, StoreError>(true)
        });
        try_join_all(each).await
    });
    write.await
}

/// Whether each session is in force.
async fn in_force_read(cell: &CellContext, sessions: &[Arc<RegisteredSession>]) -> StoreResult<Vec<bool>> {
    let space = &cell.space;
    let read = cell.db.run("node_session_read", Idempotency::ReadOnly, |tx, _| async move {
        let fences = sessions.iter().map(|session| session.fence());
        let writers = node_writers(&tx, space, fences).await?;
        Ok::<_, StoreError>(
            sessions.iter().map(|session| writers.contains_key(&session.fence())).collect::<Vec<bool>>(),
        )
    });
    read.await
}

#[cfg(test)]
#[path = "live_test.rs"]
mod tests;
