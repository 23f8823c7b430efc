//! Stored rows of a cell.

use std::collections::BTreeMap;

use borough_kv::Version;
use borough_model::Name;
use borough_model::queue::QueueSpec;
use borough_model::quota::OversellFactors;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Settings of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellMeta {
    /// Milliseconds of silence after which a node is declared lost, unless a job sets its own tolerance.
    #[n(0)]
    pub lost_after_ms: u64,
    /// Not in force: ports rest for `borough_model::task::PORT_COOL_DOWN_MS`. Kept for its tag.
    #[n(1)]
    pub port_cool_down_ms: u64,
    /// The shortest time for which journal entries are kept, in milliseconds.
    #[n(2)]
    pub journal_retention_ms: u64,
    /// The shortest time for which results of keyed requests are kept, in milliseconds.
    #[n(3)]
    pub request_retention_ms: u64,
    /// Milliseconds jobs are kept after their end.
    #[n(4)]
    pub job_retention_ms: u64,
    /// Node attributes and labels that name failure domains, from the widest to the narrowest.
    #[n(5)]
    pub failure_domains: Vec<String>,
    /// Name of the scheduling profile.
    #[n(6)]
    pub profile: String,
    /// The most nodes declared lost per minute, so that a fault of the network does not empty the cell.
    #[n(7)]
    pub lost_per_minute_max: u32,
    /// Wall time of creation, milliseconds since 1970.
    #[n(8)]
    pub created_ms: i64,
    /// Counts every change of this row.
    #[n(9)]
    pub revision: u64,
    /// Name of the queueing policy, with weights; empty: the default one.
    #[n(10)]
    #[cbor(default)]
    #[serde(default)]
    pub queueing: String,
    /// The queues that share the cell, if the policy orders tasks by queue.
    #[n(11)]
    #[cbor(default)]
    #[serde(default)]
    pub queues: Vec<QueueSpec>,
    /// For how many milliseconds after its start a task is protected from preemption; absent: not at all.
    #[n(22)]
    #[serde(default)]
    pub fresh_start_ms: Option<u64>,
    /// The scheduler of a new job that names none, per kind of work (`borough_model::job::WorkKind`, as it is written).
    /// Absent: `default` for every kind.
    #[n(24)]
    #[serde(default)]
    pub schedulers: Option<BTreeMap<String, Name>>,
    /// Whether queues reclaim their guarantees from queues that have more; absent: they wait.
    #[n(26)]
    #[serde(default)]
    pub reclaim: Option<bool>,
    /// The anchor of the cell's time; absent until the first process has begun it. It is not a setting, and no revision
    /// counts it.
    #[n(27)]
    #[serde(default)]
    pub clock: Option<CellTime>,
    /// Most bytes of the journal, however young its entries are; absent: [`JOURNAL_BYTES_MAX`].
    #[n(28)]
    #[serde(default)]
    pub journal_bytes_max: Option<u64>,
    /// Most ended jobs that are kept, however young they are; absent: [`ENDED_JOBS_MAX`].
    #[n(29)]
    #[serde(default)]
    pub ended_jobs_max: Option<u64>,
    /// Whether the journal has the measured loads of nodes; absent: it has each change, and nobody has decided yet. It
    /// is not a setting, and no revision counts it.
    #[n(30)]
    #[serde(default)]
    pub loads: Option<LoadJournal>,
    /// Milliseconds that sealed calls are kept; absent: [`AUDIT_RETENTION_MS`].
    #[n(31)]
    #[serde(default)]
    pub audit_retention_ms: Option<u64>,
    /// Milliseconds, in whole seconds, that resolvers may keep an answer about names of the cell; absent:
    /// [`DNS_TTL_MS`].
    #[n(32)]
    #[serde(default)]
    pub dns_ttl_ms: Option<u64>,
    /// The same of the answer that a name has no records; absent: [`DNS_TTL_MS`].
    #[n(33)]
    #[serde(default)]
    pub dns_negative_ttl_ms: Option<u64>,
    /// Milliseconds between the withdrawal of an endpoint and SIGTERM for jobs with ports that have none of their own;
    /// absent: none.
    #[n(34)]
    #[serde(default)]
    pub drain_delay_ms: Option<u64>,
    /// How much the quotas of a band may grant together; absent: the factors by default.
    #[n(35)]
    #[serde(default)]
    pub oversell: Option<OversellFactors>,
    /// Whether `quota_below` has every line; absent: it has none yet, or not all. It is not a setting, and no revision
    /// counts it.
    #[n(36)]
    #[serde(default)]
    pub quotas_indexed: Option<bool>,
}

/// Whether the journal has the measured loads of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum LoadJournal {
    /// Nobody follows loads: a change is written to the node's row alone.
    #[n(0)]
    Off,
    /// The journal has every change from now on. Somebody journals the loads from before.
    #[n(1)]
    Begun,
    /// The journal has every load.
    #[n(2)]
    On,
}

/// Most bytes of a cell's journal by default: an embedded store keeps all of them in memory.
pub const JOURNAL_BYTES_MAX: u64 = 512 << 20;

/// Most ended jobs of a cell by default: every process that follows the cell holds them in memory.
pub const ENDED_JOBS_MAX: u64 = 50_000;

/// How long the calls of a cell are kept by default: 90 days.
pub const AUDIT_RETENTION_MS: u64 = 90 * 24 * 3_600_000;

/// How long resolvers may keep an answer by default.
pub const DNS_TTL_MS: u64 = 1_000;

/// What the slowest view of names needs to show a withdrawal, in milliseconds, with a margin. That view is a proxy
/// which asks every second, and takes what it hears at most every two. New cells begin with it.
pub const VIEW_DELAY_MS: u64 = 4_000;

impl CellMeta {
    /// Milliseconds that resolvers may keep an answer.
    pub fn dns_ttl_ms(&self) -> u64 {
        self.dns_ttl_ms.unwrap_or(DNS_TTL_MS)
    }

    /// Milliseconds that resolvers may keep that a name has no records.
    pub fn dns_negative_ttl_ms(&self) -> u64 {
        self.dns_negative_ttl_ms.unwrap_or(DNS_TTL_MS)
    }

    /// Milliseconds between the withdrawal of an endpoint and SIGTERM for jobs with ports that have none of their own.
    pub fn drain_delay_ms(&self) -> u64 {
        self.drain_delay_ms.unwrap_or_default()
    }

    /// How much the quotas of a band may grant together.
    pub fn oversell(&self) -> OversellFactors {
        self.oversell.unwrap_or_default()
    }

    /// Milliseconds that sealed calls are kept.
    pub fn audit_retention_ms(&self) -> u64 {
        self.audit_retention_ms.unwrap_or(AUDIT_RETENTION_MS)
    }

    /// Most ended jobs that are kept.
    pub fn ended_jobs_max(&self) -> u64 {
        self.ended_jobs_max.unwrap_or(ENDED_JOBS_MAX)
    }

    /// Most bytes of the journal.
    pub fn journal_bytes_max(&self) -> u64 {
        self.journal_bytes_max.unwrap_or(JOURNAL_BYTES_MAX)
    }
}

impl Default for CellMeta {
    fn default() -> Self {
        Self {
            lost_after_ms: 30_000,
            port_cool_down_ms: 10_000,
            journal_retention_ms: 3_600_000,
            request_retention_ms: 3_600_000,
            job_retention_ms: 24 * 3_600_000,
            failure_domains: vec!["zone".to_owned(), "rack".to_owned()],
            profile: "borg-hybrid".to_owned(),
            lost_per_minute_max: 60,
            created_ms: 0,
            revision: 0,
            queueing: String::new(),
            queues: Vec::new(),
            schedulers: None,
            fresh_start_ms: None,
            reclaim: None,
            clock: None,
            journal_bytes_max: None,
            ended_jobs_max: None,
            loads: None,
            audit_retention_ms: None,
            dns_ttl_ms: None,
            dns_negative_ttl_ms: None,
            drain_delay_ms: None,
            oversell: None,
            quotas_indexed: None,
        }
    }
}

/// The gate of a cell. A change of it voids every mutating transaction in flight.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellGate {
    /// The epoch of the store: raised by an import. Part of every stamp that clients see.
    #[n(0)]
    pub store_epoch: u64,
    #[n(1)]
    pub state: CellState,
    /// Counts every change of this row.
    #[n(2)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(3)]
    pub changed_ms: i64,
}

/// Which changes a cell accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// The cell accepts all changes.
    #[n(0)]
    Open,
    /// No new jobs and no placements. Running tasks are still controlled.
    #[n(1)]
    Draining,
    /// None: its keys are in another store.
    #[n(2)]
    Moved,
    /// None yet: an import fills it, and not all of it is there.
    #[n(3)]
    Importing,
}

impl CellState {
    /// The state in its text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::Moved => "moved",
            Self::Importing => "importing",
        }
    }
}

/// The anchor of a cell's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellTime {
    /// The epoch of the store whose versions it counts.
    #[n(0)]
    pub store_epoch: u64,
    /// A version of the store in that epoch.
    #[n(1)]
    pub version: i64,
    /// The cell's time at that version, in milliseconds since 1970.
    #[n(2)]
    pub at_ms: i64,
}

impl CellTime {
    /// The cell's time at a version.
    pub fn at(&self, version: Version) -> i64 {
        self.at_ms.saturating_add(version.saturating_sub(self.version).max(0) / 1_000)
    }
}
