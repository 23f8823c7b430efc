//! Leads a cell: holds the lease, follows the mirror, and carries out actions.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, ErrorCode, Idempotency, KvError};
use borough_model::NodeId;
use borough_model::node::NodeState;
use borough_store::cell::{CellMeta, cell_meta_read};
use borough_store::lease::{HeldLease, LeaseObserver, LeaseSeat, LeaseWriter};
use borough_store::mirror::{MirrorEvent, MirrorHandle, MirrorState, MirrorSubscription};
use borough_store::node::DeclaredLost;
use borough_store::{StoreError, StoreResult, error_chain};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::act::{ActionExecutor, JOBS_MAX, acts_together};
use crate::audit::audit_keep;
use crate::config::ControllerConfig;
use crate::decide::{ControllerAction, drives_away, node_actions};
use crate::dirty::{Dirty, DirtyPart, FullPass};
use crate::drain::{DrainCheck, DrainContext, DrainSource};
use crate::gang::gangs_overdue;
use crate::garbage::{GarbageCollector, journal_keep};
use crate::liveness::Liveness;
use crate::load::LoadFollowers;
use crate::observe::LiveReader;
use crate::scan::LookTimes;

/// The role of the lease.
const ROLE: &str = "controller";
/// Interval of checks for gangs that are overdue.
const GANGS_LOOK: Duration = Duration::from_secs(10);
/// Without a look for longer, the deadlines of rollouts begin again: whoever was away has let none make progress.
const LOOK_BREAK_MS: i64 = 5_000;

/// One controller of one cell.
pub struct Controller {
    config: ControllerConfig,
    db: Database,
    mirror: MirrorHandle,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

/// The state of a controller while it leads.
struct LeaderTerm {
    executor: ActionExecutor,
    meta: CellMeta,
    liveness: Liveness,
    reader: LiveReader,
    dirty: Dirty,
    /// Nodes with tasks that are lost or emptied: what to do with them depends on time too.
    timed: BTreeSet<NodeId>,
    beat: u64,
    renewed_at: Duration,
    looked_at: Duration,
    /// The times of the looks at jobs.
    looks: LookTimes,
    /// Where the pass over everything is, and when it began.
    pass: FullPass,
    pass_at: Duration,
    gangs_at: Duration,
    drain: DrainCheck,
    followers: LoadFollowers,
}

impl Controller {
    /// A controller over `db`, following `mirror`.
    pub fn new(
        config: ControllerConfig,
        db: Database,
        mirror: MirrorHandle,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        Self { config, db, mirror, clock, rng }
    }

    /// Stands by and leads, until cancelled. Boxed, so that it is compiled here and not again in each program.
    pub fn run(self, cancelled: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.work(cancelled))
    }

    async fn work(self, cancelled: CancellationToken) {
        let work = async {
            self.mirror.ready().await;
            let observe = || LeaseObserver::new(self.config.tick.saturating_mul(3));
            let mut observer = observe();
            loop {
                match self.seat().claim(&mut observer).await {
                    Ok(Some(lease)) => {
                        tracing::info!(cell = %self.config.space, epoch = lease.epoch, "leads the cell");
                        let ended = self.term(lease).await;
                        if let Err(error) = ended {
                            tracing::warn!(cell = %self.config.space, error = %error_chain(&error), "no longer leads");
                        }
                        observer = observe();
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(cell = %self.config.space, error = %error_chain(&error), "cannot lead")
                    }
                }
                tokio::time::sleep(self.config.tick).await;
            }
        };
        let collector = GarbageCollector {
            space: self.config.space.clone(),
            db: self.db.clone(),
            mirror: self.mirror.clone(),
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
            metrics: self.config.garbage.clone(),
        };
        tokio::select! {
            () = work => {}
            never = collector.collect() => match never {},
            () = cancelled.cancelled() => self.release().await,
        }
    }

    fn seat(&self) -> LeaseSeat {
        LeaseSeat {
            db: self.db.clone(),
            space: self.config.space.clone(),
            role: ROLE,
            holder: self.config.holder.clone(),
            lease_ms: self.config.lease_ms,
            generation: self.config.generation,
            clock: Arc::clone(&self.clock),
        }
    }

    async fn release(&self) {
        if let Err(error) = self.seat().release().await {
            tracing::warn!(error = %error_chain(&error), "the controller's lease was not given back; it will expire");
        }
    }

    /// Leads until the lease is lost or the store fails.
    async fn term(&self, lease: HeldLease) -> StoreResult<()> {
        let now = self.clock.monotonic();
        let (db, space) = (self.db.clone(), self.config.space.clone());
        let (clock, rng) = (Arc::clone(&self.clock), Arc::clone(&self.rng));
        let writer = LeaseWriter { db, space, lease, actor: "controller".to_owned(), clock, rng };
        let trimmer = writer.clone();
        let mut term = LeaderTerm {
            executor: ActionExecutor { writer },
            meta: CellMeta::default(),
            liveness: Liveness::default(),
            reader: LiveReader::default(),
            dirty: Dirty::default(),
            timed: BTreeSet::new(),
            beat: 0,
            renewed_at: now,
            looked_at: now,
            looks: LookTimes::default(),
            pass: FullPass::BEGIN,
            pass_at: now,
            gangs_at: now,
            drain: DrainCheck::default(),
            followers: LoadFollowers::new(now),
        };
        term.meta = self.meta().await?;
        let lead = async {
            loop {
                let (at, mut subscription) = self.mirror.subscribe_with(|state| {
                    term.liveness.nodes_note(state);
                    state.cursor()
                });
                term.drain = DrainCheck::begin(at);
                (term.dirty, term.timed) = (Dirty::default(), BTreeSet::new());
                term.followers.begin_again();
                // All of it at once: changes in the meantime wait in the subscription.
                self.pass_begin(&mut term);
                while term.pass != FullPass::Over {
                    self.pass_advance(&mut term);
                    tokio::task::yield_now().await;
                }
                while self.step(&mut term, &mut subscription).await? {}
            }
        };
        // Concurrently with everything else, so that neither waits for the other.
        tokio::select! {
            ended = lead => ended,
            ended = journal_keep(&trimmer) => ended.map(|never| match never {}),
            ended = audit_keep(&trimmer) => ended.map(|never| match never {}),
        }
    }

    async fn meta(&self) -> StoreResult<CellMeta> {
        let space = &self.config.space;
        let meta = self.db.run("cell_meta_read", Idempotency::ReadOnly, |tx, _| async move {
            cell_meta_read(&tx, space).await
        });
        meta.await
    }

    /// Carries out a part of the due actions, then waits for changes if nothing is left. Returns `false` if the mirror
    /// began again.
    async fn step(&self, term: &mut LeaderTerm, subscription: &mut MirrorSubscription) -> StoreResult<bool> {
        self.dirty_work(term).await?;
        // Counted from the last tick, so that neither a busy journal nor much work delays it.
        let looked = self.clock.monotonic().saturating_sub(term.looked_at);
        let left = self.config.tick.saturating_sub(looked);
        let mut is_due = left.is_zero();
        let mut next = if term.dirty.is_empty() && !term.drain.is_under_way() {
            tokio::select! {
                biased;
                () = tokio::time::sleep(left) => {
                    is_due = true;
                    None
                }
                event = subscription.next() => Some(event),
            }
        } else {
            // A part without actions waits for nothing. Others of this thread have their turn too.
            tokio::task::yield_now().await;
            subscription.next().now_or_never()
        };
        while let Some(event) = next {
            match event {
                Some(MirrorEvent::Entry { cursor, entry }) => {
                    term.drain.note(cursor, &entry);
                    entry.deltas.iter().for_each(|delta| {
                        term.dirty.note(delta);
                        term.liveness.note(delta);
                    });
                }
                Some(MirrorEvent::Resync) | None => return Ok(false),
            }
            next = subscription.next().now_or_never();
        }
        if !is_due {
            return Ok(true);
        }
        term.looked_at = self.clock.monotonic();
        self.timers(term).await?;
        Ok(true)
    }

    async fn dirty_work(&self, term: &mut LeaderTerm) -> StoreResult<()> {
        self.lease_keep(term).await?;
        if std::mem::take(&mut term.dirty.settings) {
            term.meta = self.meta().await?;
        }
        let now_ms = self.clock.wall_ms();
        let tolerance = Duration::from_millis(term.meta.lost_after_ms);
        term.looks = if term.liveness.is_unheard(tolerance) {
            LookTimes::unheard(now_ms)
        } else {
            term.looks.next(now_ms, LOOK_BREAK_MS)
        };
        let mut actions = Vec::new();
        if term.dirty.is_empty() {
            if term.pass == FullPass::Over {
                term.followers.all_noted();
            }
        } else {
            actions = self.mirror.read(|state| {
                let DirtyPart { jobs, mut actions, nodes, .. } = term.dirty.part(state, term.looks);
                jobs.iter().for_each(|job| term.followers.job_note(state, *job));
                let silent = |node: NodeId| term.liveness.silent(node);
                let of_nodes = nodes
                    .iter()
                    .flat_map(|node| node_actions(state, *node, silent(*node), tolerance, now_ms));
                actions.extend(of_nodes);
                timed_update(&mut term.timed, state, &nodes);
                actions
            });
        }
        let mut actions = term.drain.nodes_take(actions);
        let context = DrainContext { meta: &term.meta, clock: &*self.clock, emptied: term.dirty.emptied() };
        actions.extend(term.drain.advance(&self.mirror, &context));
        self.act(term, actions).await
    }

    /// Carries out the actions: those of jobs together, the others one after the other.
    async fn act(&self, term: &mut LeaderTerm, actions: Vec<ControllerAction>) -> StoreResult<()> {
        let (mut together, mut alone): (Vec<_>, Vec<_>) = actions.into_iter().partition(acts_together);
        // An entry of the journal has one action.
        together.sort_unstable();
        let kinds = together.chunk_by(|one, other| discriminant(one) == discriminant(other));
        for actions in kinds.flat_map(|of_kind| of_kind.chunks(JOBS_MAX)) {
            self.lease_keep(term).await?;
            match term.executor.act_together(actions).await {
                Ok(left) => alone.extend(left),
                Err(StoreError::Kv(error)) if !is_of_action(&error) => return Err(StoreError::Kv(error)),
                Err(error @ StoreError::LeaseLost { .. }) => return Err(error),
                // One of them does not apply any more, and says so by itself.
                Err(_) => alone.extend(actions.iter().cloned()),
            }
        }
        for action in alone {
            self.lease_keep(term).await?;
            match term.executor.act(action.clone()).await {
                Ok(()) => {}
                Err(StoreError::Kv(error)) if !is_of_action(&error) => return Err(StoreError::Kv(error)),
                Err(error @ StoreError::LeaseLost { .. }) => return Err(error),
                // The state has changed: the next pass finds what is left.
                Err(error) => tracing::warn!(?action, error = %error_chain(&error), "not done"),
            }
        }
        Ok(())
    }

    async fn lease_keep(&self, term: &mut LeaderTerm) -> StoreResult<()> {
        let now = self.clock.monotonic();
        let seat = self.seat();
        if now.saturating_sub(term.renewed_at) < seat.renewal() {
            return Ok(());
        }
        term.beat = term.beat.saturating_add(1);
        seat.renew(&term.executor.writer.lease, term.beat).await?;
        term.renewed_at = now;
        Ok(())
    }

    async fn timers(&self, term: &mut LeaderTerm) -> StoreResult<()> {
        let tolerance = Duration::from_millis(term.meta.lost_after_ms);
        let gap_max =
            self.config.tick.saturating_mul(10).min(tolerance / 2).max(self.config.tick.saturating_mul(2));
        let stale = term.liveness.stale();
        let observation = term.reader.read(&self.db, &self.config.space, &stale).await?;
        let now = self.clock.monotonic();
        term.liveness.observe(now, observation, gap_max);
        for silent in term.liveness.lost(tolerance, now, term.meta.lost_per_minute_max) {
            match term.executor.node_lost(&silent).await? {
                DeclaredLost::Beaten => term.liveness.beaten(silent.node),
                DeclaredLost::Lost(_) | DeclaredLost::Before(_) => term.liveness.declared(now),
            }
        }
        for (voucher, beat) in term.liveness.gateways_ended(tolerance) {
            term.executor.gateway_remove(voucher, beat).await?;
        }
        term.dirty.nodes_add(term.timed.iter().copied());
        term.dirty.rollouts_add();
        self.mirror.read(|state| term.dirty.daemons_add(state));
        if term.pass.is_due(term.pass_at, now) {
            // What changes all the time delays no other, so the pass before has come to each job.
            term.followers.all_noted();
            self.pass_begin(term);
            term.meta = self.meta().await?;
        }
        self.pass_advance(term);
        self.loads_decide(term, now).await?;
        if now.saturating_sub(term.gangs_at) >= GANGS_LOOK {
            term.gangs_at = now;
            let now_ms = self.clock.wall_ms();
            let mut after = None;
            loop {
                let part = self.mirror.read(|state| gangs_overdue(state, now_ms, after));
                self.act(term, part.gangs.into_iter().map(ControllerAction::GangEnd).collect()).await?;
                let Some(next) = part.next else { break };
                after = Some(next);
            }
        }
        Ok(())
    }
}

impl DrainSource for MirrorHandle {
    fn read<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> T {
        self.read(look)
    }
}

impl Controller {
    /// Begins or ends that the journal has the loads of nodes, if that is due.
    async fn loads_decide(&self, term: &mut LeaderTerm, now: Duration) -> StoreResult<()> {
        let Some(action) = term.followers.action(&term.meta, now) else { return Ok(()) };
        let mut step = action.step();
        // If somebody has ended it meanwhile, the next look finds that.
        while step.is_left() {
            self.lease_keep(term).await?;
            let write = |tx, mut changes| async move { Ok((step.write(&tx, &mut changes).await?, changes)) };
            step = match term.executor.writer.change(step.action(), write).await {
                Ok(next) => next,
                // Nothing of it may change here; a later look finds what is left.
                Err(StoreError::CellClosed { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
        }
        tracing::info!(cell = %self.config.space, ?action, "decided whether the journal has the load of nodes");
        term.meta = self.meta().await?;
        Ok(())
    }

    /// Begins the pass over everything again.
    fn pass_begin(&self, term: &mut LeaderTerm) {
        (term.pass, term.pass_at) = (FullPass::BEGIN, self.clock.monotonic());
    }

    /// Goes on with the pass over everything.
    fn pass_advance(&self, term: &mut LeaderTerm) {
        let mut left = self.mirror.read(|state| FullPass::step(state, self.config.tick));
        while left > 0 && term.pass != FullPass::Over {
            let (pass, dirty) = (term.pass, &mut term.dirty);
            term.pass = self.mirror.read(|state| pass.advance(dirty, state, FullPass::AT_ONCE));
            left = left.saturating_sub(FullPass::AT_ONCE);
        }
    }
}

/// Keeps in `timed` those of the examined nodes that must be examined again although nothing changes: lost or emptied
/// ones that have tasks.
fn timed_update(timed: &mut BTreeSet<NodeId>, state: &MirrorState, examined: &[NodeId]) {
    for node in examined {
        let row = state.nodes().get(node);
        let due = row.is_some_and(|row| row.state == NodeState::Lost || row.draining || drives_away(row));
        if due && state.node_tasks(*node).next().is_some() {
            timed.insert(*node);
        } else {
            timed.remove(node);
        }
    }
}

/// Returns true for an error of the store that says nothing about the lease: the action is not done, and the others go
/// on. A term that ended for it would watch all nodes anew, and so declare none lost for a while. A store that answers
/// nobody ends the term by the next renewal.
fn is_of_action(error: &KvError) -> bool {
    use ErrorCode::{TransactionTimedOut, TransactionTooLarge, TransactionTooOld};
    matches!(error.code, TransactionTimedOut | TransactionTooLarge | TransactionTooOld)
}
