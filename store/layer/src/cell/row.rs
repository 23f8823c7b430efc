//! What is stored of a cell.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::queue::QueueSpec;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::time::CellTime;

/// Settings of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellMeta {
    /// Milliseconds a silent node is waited for before it is declared lost, where a job does not say otherwise.
    #[n(0)]
    pub lost_after_ms: u64,
    /// Not in force: ports rest for `borough_model::task::PORT_COOL_DOWN_MS`. Kept for its tag.
    #[n(1)]
    pub port_cool_down_ms: u64,
    /// Milliseconds journal entries are kept at least.
    #[n(2)]
    pub journal_retention_ms: u64,
    /// Milliseconds results of keyed requests are kept at least.
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
    /// Nodes declared lost per minute at most, so that a fault of the network does not empty the cell.
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
    /// The queues among which the cell is shared out, where the policy goes by them.
    #[n(11)]
    #[cbor(default)]
    #[serde(default)]
    pub queues: Vec<QueueSpec>,
    /// For how many milliseconds after its start a task is left alone by preemption; absent: not at all.
    #[n(22)]
    #[serde(default)]
    pub fresh_start_ms: Option<u64>,
    /// Which scheduler decides over a new job that names none: kinds of work (`borough_model::job::WorkKind`, as they
    /// are written) with the scheduler of each; absent: `default` over all.
    #[n(24)]
    #[serde(default)]
    pub schedulers: Option<BTreeMap<String, Name>>,
    /// Whether queues take back what they are guaranteed from those that have more; absent: they wait for it.
    #[n(26)]
    #[serde(default)]
    pub reclaim: Option<bool>,
    /// The anchor of the cell's time; absent before the first process has begun it. No setting, and no revision counts
    /// it.
    #[n(27)]
    #[serde(default)]
    pub clock: Option<CellTime>,
    /// Bytes of the journal that are kept at most, however young they are; absent: [`JOURNAL_BYTES_MAX`].
    #[n(28)]
    #[serde(default)]
    pub journal_bytes_max: Option<u64>,
}

/// Bytes of a cell's journal that are kept at most unless its settings say otherwise: an embedded store has all of them
/// in memory.
pub const JOURNAL_BYTES_MAX: u64 = 512 << 20;

impl CellMeta {
    /// Bytes of the journal that are kept at most.
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
            profile: "best-fit".to_owned(),
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
        }
    }
}

/// The gate of a cell. Its change voids every mutating transaction in flight.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct CellGate {
    /// Which epoch of the store this is: bumped by restore, import and move. Part of every stamp seen outside.
    #[n(0)]
    pub store_epoch: u64,
    /// What the cell takes.
    #[n(1)]
    pub state: CellState,
    /// Counts every change of this row.
    #[n(2)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(3)]
    pub changed_ms: i64,
}

/// What a cell takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Everything.
    #[n(0)]
    Open,
    /// No new jobs and no placements; what runs is looked after.
    #[n(1)]
    Draining,
    /// Nothing: its keys are elsewhere.
    #[n(2)]
    Moved,
    /// Nothing yet: it is being made of an export, and not all of it is there.
    #[n(3)]
    Importing,
}

impl CellState {
    /// The state as people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::Moved => "moved",
            Self::Importing => "importing",
        }
    }
}
