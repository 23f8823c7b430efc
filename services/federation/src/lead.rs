//! Leads a federation: holds the lease, looks at each member, and records what was seen.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Database;
use borough_kv::env::{Clock, Rng};
use borough_model::member::{MEMBER_LOOK_MS, MemberRow, MemberSeen, ProblemKind};
use borough_model::{MemberId, Name};
use borough_store::lease::{HeldLease, LeaseObserver, LeaseSeat, LeaseWriter};
use borough_store::member::{members_seen_list, members_seen_record};
use borough_store::mirror::{MirrorHandle, MirrorState};
use borough_store::{StoreResult, error_chain};
use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{FederationConfig, MemberClients};
use crate::divide::LookedMembers;
use crate::look::{Looked, MemberGateways};

/// The role of the lease.
const ROLE: &str = "federation";
/// Pause between two tries to lead.
const CLAIM_PAUSE: Duration = Duration::from_secs(1);
/// Rows of one transaction.
const RECORD_ROWS: usize = 64;

/// One process of a federation.
pub struct Federation {
    pub(crate) config: FederationConfig,
    pub(crate) db: Database,
    pub(crate) mirror: MirrorHandle,
    clients: Arc<dyn MemberClients>,
    pub(crate) clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

/// What a leader knows of the members.
#[derive(Default)]
struct WatchedMembers {
    seen: BTreeMap<Name, MemberSeen>,
    /// Clients that have worked, and for what they were made.
    clients: BTreeMap<Name, WorkingClients>,
}

/// Clients of a member that have worked.
struct WorkingClients {
    /// The membership, the revision and the credential that they were made for.
    of: (MemberId, u64, String),
    gateways: MemberGateways,
}

impl WatchedMembers {
    /// What the division of jobs needs of it.
    fn looked(&self, begun: Duration) -> LookedMembers {
        let gateways = self.clients.iter().map(|(cell, clients)| (cell.clone(), clients.gateways.clone()));
        LookedMembers { begun: Some(begun), seen: Arc::new(self.seen.clone()), gateways: gateways.collect() }
    }
}

impl Federation {
    /// A process over `db`, following `mirror`. Both are of the cell that is the home.
    pub fn new(
        config: FederationConfig,
        db: Database,
        mirror: MirrorHandle,
        clients: Arc<dyn MemberClients>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Self {
        Self { config, db, mirror, clients, clock, rng }
    }

    /// Stands by and leads, until cancelled. Boxed, so that it is compiled here and not again in each program.
    pub fn run(self, cancelled: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.work(cancelled))
    }

    async fn work(self, cancelled: CancellationToken) {
        let seat = LeaseSeat {
            db: self.db.clone(),
            space: self.config.space.clone(),
            role: ROLE,
            holder: self.config.holder.clone(),
            lease_ms: self.config.lease_ms,
            generation: self.config.generation,
            clock: Arc::clone(&self.clock),
        };
        let home = &self.config.space;
        let work = async {
            self.mirror.ready().await;
            let observe = || LeaseObserver::new(CLAIM_PAUSE.saturating_mul(3));
            let mut observer = observe();
            loop {
                match seat.claim(&mut observer).await {
                    Ok(Some(lease)) => {
                        tracing::info!(%home, epoch = lease.epoch, "leads the federation");
                        let error = self.term(&seat, lease).await;
                        tracing::warn!(%home, %error, "no longer leads the federation");
                        observer = observe();
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%home, error = %error_chain(&error), "cannot lead the federation");
                    }
                }
                self.config.metrics.members.set(0);
                self.config.metrics.members_unknown.set(0);
                self.config.metrics.jobs.set(0);
                self.config.metrics.promises_open.set(0);
                tokio::time::sleep(CLAIM_PAUSE).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = cancelled.cancelled() => {
                if let Err(error) = seat.release().await {
                    tracing::warn!(error = %error_chain(&error), "the lease was not given back; it will expire");
                }
            }
        }
    }

    /// Leads until the lease is lost or the store fails; returns why.
    async fn term(&self, seat: &LeaseSeat, lease: HeldLease) -> String {
        let writer = LeaseWriter {
            db: self.db.clone(),
            space: self.config.space.clone(),
            lease: lease.clone(),
            actor: "federation".to_owned(),
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
        };
        let (looked, look) = watch::channel(LookedMembers::default());
        // Concurrently, so that a slow member does not cost the lease.
        let ended = tokio::select! {
            ended = lease_keep(seat, &lease) => ended,
            ended = self.watch(&writer, looked) => ended,
            ended = self.divide(&writer, look) => ended,
        };
        match ended {
            Ok(never) => match never {},
            Err(error) => error_chain(&error),
        }
    }

    /// Looks at all members again and again.
    async fn watch(
        &self,
        writer: &LeaseWriter,
        looked: watch::Sender<LookedMembers>,
    ) -> StoreResult<Infallible> {
        let space = &self.config.space;
        let seen = writer.run("members_seen_list", |tx| async move { members_seen_list(&tx, space).await });
        let mut watched = WatchedMembers { seen: seen.await?, ..WatchedMembers::default() };
        let interval = Duration::from_millis(MEMBER_LOOK_MS.unsigned_abs());
        loop {
            let begun = self.clock.monotonic();
            self.round(writer, &mut watched).await?;
            looked.send_replace(watched.looked(begun));
            let spent = self.clock.monotonic().saturating_sub(begun);
            // One that has joined or got other addresses in the meantime is looked at soon.
            let is_unseen =
                |row: &Arc<MemberRow>| watched.seen.get(&row.cell).is_none_or(|seen| !seen.is_of(row));
            let any_unseen = |state: &MirrorState| state.members().values().any(is_unseen);
            let (mut due, mut changes) = self.mirror.subscribe_with(any_unseen);
            let is_new = async {
                while !due {
                    if changes.next().await.is_none() {
                        // The mirror has ended, and this process with it.
                        std::future::pending::<()>().await;
                    }
                    due = self.mirror.read(any_unseen);
                }
            };
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(spent)) => {}
                () = is_new => {}
            }
        }
    }

    /// Looks at each member once, and records what was seen.
    async fn round(&self, writer: &LeaseWriter, watched: &mut WatchedMembers) -> StoreResult<()> {
        let members = self.mirror.read(|state| state.members().clone());
        watched.seen.retain(|cell, _| members.contains_key(cell));
        watched.clients.retain(|cell, _| members.contains_key(cell));
        // All together. So however many are dark, a round is over after one look, and the others stay current.
        let looks = members.into_values().map(|row| {
            let clients = self.clients(watched, &row);
            async move {
                match clients {
                    Ok(WorkingClients { of, gateways }) => {
                        let (looked, gateways) = gateways.look().await;
                        (row, Some(WorkingClients { of, gateways }), looked)
                    }
                    Err(problem) => (row, None, Err((ProblemKind::Refused, problem))),
                }
            }
        });
        let looked = join_all(looks).await;
        let at_ms = self.clock.wall_ms();
        let mut unknown = 0;
        let mut seen = Vec::new();
        for (row, clients, looked) in looked {
            unknown += i64::from(looked.is_err());
            self.count(&row, watched.seen.get(&row.cell), &looked);
            match clients.filter(|_| looked.is_ok()) {
                Some(clients) => drop(watched.clients.insert(row.cell.clone(), clients)),
                None => drop(watched.clients.remove(&row.cell)),
            }
            let now = MemberSeen::looked(watched.seen.get(&row.cell), &row, looked, at_ms);
            watched.seen.insert(row.cell.clone(), now.clone());
            seen.push((row.cell.clone(), now));
        }
        self.config.metrics.members.set(i64::try_from(seen.len()).unwrap_or(i64::MAX));
        self.config.metrics.members_unknown.set(unknown);
        let space = &self.config.space;
        for part in seen.chunks(RECORD_ROWS) {
            let record = |tx| async move { members_seen_record(&tx, space, part).await };
            writer.run("members_seen_record", record).await?;
        }
        Ok(())
    }

    /// The clients that have worked, or new ones.
    fn clients(&self, watched: &WatchedMembers, row: &MemberRow) -> Result<WorkingClients, String> {
        let credential = self.clients.credential(row)?;
        let of = (row.id, row.revision, credential.expose().to_owned());
        if let Some(known) = watched.clients.get(&row.cell).filter(|known| known.of == of) {
            return Ok(WorkingClients { of, gateways: known.gateways.clone() });
        }
        let client =
            |gateway: &String| Ok((gateway.clone(), self.clients.client(row, gateway, &credential)?));
        let gateways = row.gateways.iter().map(client).collect::<Result<_, String>>()?;
        Ok(WorkingClients { of, gateways: MemberGateways(gateways) })
    }

    /// Counts a look, and logs it if it is the first of its kind.
    fn count(&self, row: &MemberRow, before: Option<&MemberSeen>, looked: &Looked) {
        let problem = before.and_then(|before| before.problem.as_ref());
        match looked {
            Ok(_) => {
                self.config.metrics.looks.inc();
                if let Some(problem) = problem {
                    tracing::info!(member = %row.cell, since_ms = problem.since_ms, "the member answers again");
                }
            }
            Err((kind, message)) => {
                self.config.metrics.looks_failed.inc();
                if problem.is_none_or(|problem| problem.kind != *kind) {
                    tracing::warn!(member = %row.cell, problem = %message, "nothing is known of the member");
                }
            }
        }
    }
}

/// Renews the lease again and again.
async fn lease_keep(seat: &LeaseSeat, lease: &HeldLease) -> StoreResult<Infallible> {
    let mut beat = 0_u64;
    loop {
        tokio::time::sleep(seat.renewal()).await;
        beat = beat.saturating_add(1);
        seat.renew(lease, beat).await?;
    }
}
