//! One cell as this gateway serves it: its store, its mirror, its sessions, and a scheduler's snapshot for questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_kv::Database;
use borough_kv::env::{Clock, Rng};
use borough_model::audit::AuditedCall;
use borough_model::{Name, RequestId};
use borough_proto::convert::{name_from_text, request_id_from_text};
use borough_proto::v1;
use borough_scheduler::settings_of_meta;
use borough_scheduler_core::CellSettings;
use borough_store::cell::VIEW_DELAY_MS;
use borough_store::journal::{Change, Cursor};
use borough_store::mirror::{MirrorHandle, MirrorState};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreResult};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::admission::AdmissionUse;
use super::audit::audit_follow;
use super::dry_run::DryRunMark;
use super::ended::EndedJobsUse;
use super::grants::{AccessMirror, access_follow};
use super::hub::{WatcherHub, entries_follow};
use super::index::EventIndex;
use super::journal::{JournalUse, journal_follow};
use super::lock::MirrorLockUse;
use super::retention::RequestRetention;
use super::scheduler::SchedulerMirror;
use super::settings::settings_read;
use super::turns::QuotaTurns;
use super::usages::JobUsages;
use crate::call::AuditQueue;
use crate::session::batch::WriterContext;
use crate::session::joined::{JoinedSessions, joined_follow};
use crate::session::metrics::DeliveryMetrics;
use crate::session::notice::notices_follow;
use crate::session::registration::Registrations;
use crate::session::registry::Sessions;
use crate::session::report::ReportWriter;
use crate::session::write::SessionMetrics;
use crate::status::{status_from_field, status_from_store, status_not_found, status_unavailable};
use crate::workload::{IdentityUrl, WorkloadIssuer, WorkloadStore};

/// How long a mutation waits until the mirror shows it. After that it is answered anyway.
const ECHO_WAIT: Duration = Duration::from_secs(2);

/// A cell behind this gateway.
pub struct CellContext {
    pub name: Name,
    pub space: CellSpace,
    pub db: Database,
    /// The cell's rows, in memory.
    pub mirror: MirrorHandle,
    /// The sessions of its agents with this gateway.
    pub sessions: Sessions,
    /// Writes what agents report.
    pub reports: ReportWriter,
    pub registrations: Registrations,
    /// Counts what the gateway did not write for nodes.
    pub session_metrics: SessionMetrics,
    /// The size of its journal.
    pub journal: JournalUse,
    /// The number of its ended jobs.
    pub ended_jobs: EndedJobsUse,
    /// How long the lock of the mirror was held.
    pub mirror_lock: MirrorLockUse,
    /// What its jobs use, as last summed.
    pub job_usages: JobUsages,
    /// What was admitted together.
    pub admissions: AdmissionUse,
    /// Who admits below a limited group.
    pub(crate) quota_turns: QuotaTurns,
    /// For how long it remembers requests.
    pub(super) requests: RequestRetention,
    /// The cell's time, for what is stored and compared.
    pub clock: Arc<dyn Clock>,
    /// The clock of this process, for durations that it measures itself.
    pub machine: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    /// Which parts of the journal concern whom.
    pub(crate) events: EventIndex,
    /// Those who watch something by its name.
    pub(crate) watchers: WatcherHub,
    /// The snapshot that a scheduler would plan with.
    pub scheduler: SchedulerMirror,
    /// The drain delay of jobs with ports that have none of their own, as last read.
    drain_delay_ms: AtomicU64,
    /// Who may do what here.
    pub(crate) access: AccessMirror,
    /// The sessions that end with an identity.
    pub(crate) joined: JoinedSessions,
    /// Refusals that wait to be recorded.
    pub(crate) audit: AuditQueue,
    /// Who signs the identities of its tasks.
    pub(crate) workload: WorkloadIssuer,
}

/// What [`CellContext::open`] needs of each cell.
pub struct CellConnection {
    pub space: CellSpace,
    pub name: Name,
    pub db: Database,
    /// Shared with other roles of the process.
    pub mirror: MirrorHandle,
    /// Where others reach its gateways.
    pub identity_url: IdentityUrl,
}

/// The user of a request, and its id.
#[derive(Clone, Debug)]
pub struct Caller {
    pub user: Name,
    /// A read may have none; it then gets a fresh one.
    pub request: RequestId,
    /// The call as the audit has it; absent: the gateway itself makes the change.
    pub call: Option<Arc<AuditedCall>>,
    /// It asks what would happen: nothing is committed.
    pub(crate) dry_run: Option<DryRunMark>,
}

impl Caller {
    /// Whether it asks what would happen.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.is_some()
    }
}

impl CellContext {
    /// Opens the context of a cell and counts its sessions in `metrics`. Its background tasks end with `cancelled`.
    /// `machine` is the clock of this process; stored times come from the mirror's clock, which shows the cell's time.
    pub fn open(
        connection: CellConnection,
        machine: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        metrics: DeliveryMetrics,
        cancelled: &CancellationToken,
    ) -> Arc<Self> {
        let CellConnection { space, name, db, mirror, identity_url } = connection;
        let clock = mirror.clock();
        let store = WorkloadStore {
            db: db.clone(),
            space: space.clone(),
            clock: Arc::clone(&clock),
            machine: Arc::clone(&machine),
        };
        let workload = WorkloadIssuer::new(&identity_url, &name, store);
        let session_metrics = SessionMetrics::default();
        let context = WriterContext {
            db: db.clone(),
            space: space.clone(),
            clock: Arc::clone(&clock),
            rng: Arc::clone(&rng),
            metrics: session_metrics.clone(),
        };
        let reports = ReportWriter::spawn(context.clone());
        let registrations = Registrations::spawn(context);
        let (sessions, journal) = (Sessions::counted(metrics), JournalUse::default());
        let cell = Arc::new(Self {
            name,
            space,
            db,
            mirror,
            sessions,
            reports,
            registrations,
            session_metrics,
            journal,
            ended_jobs: EndedJobsUse::default(),
            mirror_lock: MirrorLockUse::default(),
            job_usages: JobUsages::default(),
            admissions: AdmissionUse::default(),
            quota_turns: QuotaTurns::default(),
            requests: RequestRetention::default(),
            clock,
            machine,
            rng,
            events: EventIndex::default(),
            watchers: WatcherHub::default(),
            scheduler: SchedulerMirror::default(),
            // Until the settings are read: rather too long than failed requests.
            drain_delay_ms: AtomicU64::new(VIEW_DELAY_MS),
            access: AccessMirror::default(),
            joined: JoinedSessions::default(),
            audit: AuditQueue::default(),
            workload,
        });
        cell.follow(cancelled.clone());
        cell
    }

    /// Starts what follows the cell in the background until `cancelled`.
    fn follow(self: &Arc<Self>, cancelled: CancellationToken) {
        let follower = Arc::clone(self);
        let (herald, measurer, indexer) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        let (grants, audited) = (Arc::clone(self), Arc::clone(self));
        let joined = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = follower.scheduler.follow(&follower.mirror, || follower.settings_await()) => {}
                () = notices_follow(herald) => {}
                () = journal_follow(measurer) => {}
                () = entries_follow(indexer) => {}
                () = access_follow(grants) => {}
                () = joined_follow(joined) => {}
                () = audit_follow(audited) => {}
                () = cancelled.cancelled() => {}
            }
        });
    }

    /// The change that a caller's mutation is recorded under.
    pub fn change(&self, caller: &Caller, action: &'static str) -> Change {
        let at_ms = self.clock.wall_ms();
        Change { request: caller.request, actor: format!("user/{}", caller.user), action, at_ms }
    }

    /// Counts so many requests, and returns the wall time until which an answer is kept that is recorded at `at_ms`.
    pub(super) fn requests_expire_ms(&self, at_ms: i64, requests: u32) -> i64 {
        let kept = self.requests.kept_for(self.machine.monotonic(), requests);
        at_ms.saturating_add(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX))
    }

    /// A random id.
    pub fn id(&self) -> u64 {
        self.rng.next_u64().max(1)
    }

    /// A random request id, for the gateway's own transactions.
    pub fn request_id(&self) -> RequestId {
        request_id_random(&*self.rng)
    }

    /// Waits until the mirror shows `cursor`, so that a read after a write sees it. Gives up after `ECHO_WAIT`: the
    /// write is durable anyway.
    pub async fn echo(&self, cursor: Cursor) {
        if tokio::time::timeout(ECHO_WAIT, self.mirror.wait_for(cursor)).await.is_err() {
            tracing::warn!(cell = %self.name, %cursor, "the mirror is behind its own store");
        }
    }

    /// Waits for the echo of a mutation that has committed.
    pub async fn settled<T>(&self, result: StoreResult<(T, Option<Cursor>)>) -> Result<(T, Cursor), Status> {
        let (value, cursor) = result.map_err(|error| status_from_store(&error))?;
        let cursor = match cursor {
            Some(cursor) => {
                self.echo(cursor).await;
                cursor
            }
            None => self.mirror.cursor(),
        };
        Ok((value, cursor))
    }

    /// Reads the mirror. Fails until the mirror has listed the cell.
    pub fn state<T>(&self, look: impl FnOnce(&MirrorState) -> T) -> Result<T, Status> {
        if !self.mirror.is_ready() {
            return Err(status_unavailable("CELL_LOADING", format!("cell {} is being loaded", self.name)));
        }
        Ok(self.mirror.read(look))
    }

    /// The drain delay of jobs with ports that have none of their own, in milliseconds. It may lag behind the settings
    /// by a moment.
    pub(crate) fn drain_delay_ms(&self) -> u64 {
        self.drain_delay_ms.load(Ordering::Relaxed)
    }

    async fn settings_await(&self) -> CellSettings {
        loop {
            match settings_read(self).await {
                Ok(meta) => {
                    self.drain_delay_ms.store(meta.drain_delay_ms(), Ordering::Relaxed);
                    return settings_of_meta(&meta);
                }
                Err(error) => tracing::warn!(cell = %self.name, %error, "the cell's settings cannot be read"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The cells of a gateway.
#[derive(Default)]
pub struct Cells(pub BTreeMap<Name, Arc<CellContext>>);

impl Cells {
    /// The cell with that name, or `NOT_FOUND`.
    pub fn get(&self, name: &str) -> Result<&Arc<CellContext>, Status> {
        let name = name_from_text("cell", name).map_err(|refused| status_from_field(&refused))?;
        self.0.get(&name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(Name::as_str).collect();
            status_not_found(&format!("cell {name:?} here; known: {}", known.join(", ")))
        })
    }
}

/// The caller of a mutation. It needs a request id, so that the mutation can be repeated without harm.
pub fn caller_of_mutation(context: Option<&v1::RequestContext>) -> Result<Caller, Status> {
    let missing = v1::RequestContext::default();
    let context = context.unwrap_or(&missing);
    let request = request_id_from_text("context.request_id", &context.request_id);
    let user = name_from_text("context.user", &context.user);
    match (user, request) {
        (Ok(user), Ok(request)) => Ok(Caller { user, request, call: None, dry_run: None }),
        (Err(refused), _) | (_, Err(refused)) => Err(status_from_field(&refused)),
    }
}

/// The user of a read. A read needs no request id.
pub fn caller_of_read(context: Option<&v1::RequestContext>) -> Result<Name, Status> {
    let user = context.map_or("", |context| context.user.as_str());
    name_from_text("context.user", user).map_err(|refused| status_from_field(&refused))
}

/// A cursor as a message.
pub fn cursor_to_message(cursor: Cursor) -> v1::Cursor {
    v1::Cursor { store_epoch: cursor.store_epoch, stamp: cursor.stamp.0.to_vec().into() }
}

/// A cursor from a message.
pub fn cursor_from_message(message: &v1::Cursor) -> Result<Cursor, Status> {
    let stamp = borough_kv::Versionstamp::from_slice(&message.stamp).ok_or_else(|| {
        let value: String = message.stamp.iter().map(|byte| format!("{byte:02x}")).collect();
        status_from_field(&borough_proto::convert::FieldRefused::new("cursor.stamp", value, "ten bytes"))
    })?;
    Ok(Cursor { store_epoch: message.store_epoch, stamp })
}
