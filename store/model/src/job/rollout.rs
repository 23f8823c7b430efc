//! A rollout: how a changed spec reaches the tasks of a running job. The owner's rules for it, and its state in the row
//! of the job.

mod refused;

pub use refused::{RolloutFailure, RolloutRefused};

use borough_model_derive::FileMessage;
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::JobRow;
use super::file::kind::{Delay, Truth, Whole, Words};
use super::resize::{ResizeMode, ResizeSignal};
use super::validate::COUNT_MAX;
use crate::field_error::DELAY_MS_MAX;

/// The most canaries: each is beside a task of the job, and a job has [`COUNT_MAX`] at most.
const CANARIES_MAX: u32 = COUNT_MAX / 2;

/// Versions that a rollout can go back to.
const STABLE_MAX: usize = 10;

/// How a changed spec reaches the tasks of a running job.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Encode,
    Decode,
    Serialize,
    Deserialize,
    FileMessage,
)]
pub struct UpdateSpec {
    /// The most tasks that may be without a healthy attempt while a rollout, a drain or a taint ends further ones. 0
    /// needs a surge.
    #[n(0)]
    #[serde(default)]
    #[field(kind = Whole::of(0, COUNT_MAX, "0 to 100000 tasks"), default = "1 task, or what `unavailable_percent_max` gives; 0 with a surge. A drain or a taint: a quarter of the tasks, unless one of both or a surge is given")]
    pub unavailable_max: Option<u32>,
    /// The same as a share of the job's tasks, rounded down, and at least one task. The larger of both counts.
    #[n(1)]
    #[serde(default)]
    #[field(kind = Whole::of(1, 100, "1 to 100 per cent"), default = "no share")]
    pub unavailable_percent_max: Option<u32>,
    /// How long a new attempt must be healthy before it counts.
    #[n(2)]
    #[field(file = "healthy_after", kind = Delay::of(0, DELAY_MS_MAX), default = "10s")]
    pub healthy_after_ms: u64,
    /// How many attempts in a row of one task may fail. With the next failure the rollout has failed.
    #[n(3)]
    #[field(kind = Whole::of(0, 100, "0 to 100 failures"), default = "2")]
    pub failures_max: u32,
    /// What follows when a rollout fails.
    #[n(4)]
    #[field(kind = Words(&OnFailure::NAMES), default = "`revert`")]
    pub on_failure: OnFailure,
    /// The most tasks that a rollout runs beside the job's own until it is done.
    #[n(5)]
    #[serde(default)]
    #[field(kind = Whole::of(0, COUNT_MAX, "0 to 100000 tasks"), default = "none, or what `surge_percent_max` gives")]
    pub surge_max: Option<u32>,
    /// The same as a share of the job's tasks, rounded up. The larger of both counts.
    #[n(6)]
    #[serde(default)]
    #[field(kind = Whole::of(0, 100, "0 to 100 per cent"), default = "no share")]
    pub surge_percent_max: Option<u32>,
    /// How many tasks run the new version first, beside the job's own. The others keep theirs until it is promoted.
    #[n(7)]
    #[cbor(default)]
    #[serde(default)]
    #[field(kind = Whole::of(0, CANARIES_MAX, "0 to 50000 tasks"), default = "0")]
    pub canaries: u32,
    /// Whether healthy canaries promote their version; otherwise a person does.
    #[n(8)]
    #[cbor(default)]
    #[serde(default)]
    #[field(kind = Truth, default = "`false`")]
    pub auto_promote: bool,
    /// The most healthy tasks that one rollout ends in all. The others keep their version until they begin again.
    #[n(9)]
    #[cbor(default)]
    #[serde(default)]
    #[field(kind = Whole::of(0, COUNT_MAX, "0 to 100000 tasks"), default = "no limit")]
    pub disruptions_max: Option<u32>,
    /// How other amounts of processor time, memory and rates reach a running task.
    #[n(10)]
    #[cbor(default)]
    #[serde(default)]
    #[field(kind = Words(&ResizeMode::NAMES), default = "`in_place`")]
    pub resize: ResizeMode,
    /// The signal that a task gets after each resize in place.
    #[n(11)]
    #[serde(default)]
    #[field(kind = Words(&ResizeSignal::NAMES), default = "none")]
    pub resize_signal: Option<ResizeSignal>,
}

impl Default for UpdateSpec {
    fn default() -> Self {
        Self {
            unavailable_max: None,
            unavailable_percent_max: None,
            healthy_after_ms: 10_000,
            failures_max: 2,
            on_failure: OnFailure::Revert,
            surge_max: None,
            surge_percent_max: None,
            canaries: 0,
            auto_promote: false,
            disruptions_max: None,
            resize: ResizeMode::InPlace,
            resize_signal: None,
        }
    }
}

impl UpdateSpec {
    /// How many canaries a rollout of a job with `count` tasks begins with.
    pub fn canaries(&self, count: u32) -> u32 {
        self.canaries.min(count)
    }

    /// How many tasks a rollout of a job with `count` tasks runs beside them: no more than could be replaced at once.
    pub fn surge(&self, count: u32) -> u32 {
        let share = u64::from(count).saturating_mul(u64::from(self.surge_percent_max.unwrap_or(0)));
        let of_share = u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX);
        self.surge_max.unwrap_or(0).max(of_share).min(count)
    }

    /// How many tasks of such a job may be without a healthy attempt: at least one, unless others surge.
    pub fn unavailable(&self, count: u32, surge: u32) -> u32 {
        let share = u64::from(count).saturating_mul(u64::from(self.unavailable_percent_max.unwrap_or(0)));
        let of_share = u32::try_from(share / 100).unwrap_or(u32::MAX);
        let allowed = self.unavailable_max.unwrap_or(0).max(of_share);
        if surge > 0 { allowed } else { allowed.max(1) }
    }
}

/// What follows when a rollout fails.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The job goes back to the last version that was rolled out.
    #[n(0)]
    Revert,
    /// No further task is replaced.
    #[n(1)]
    Stop,
}

impl OnFailure {
    /// Both with their names.
    pub const NAMES: [(&'static str, Self); 2] = [("revert", Self::Revert), ("stop", Self::Stop)];
}

/// The last rollout of a job: it brings the version in force to the tasks. Times are of the cell, milliseconds since
/// 1970.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Rollout {
    #[n(0)]
    pub state: RolloutState,
    /// When it began.
    #[n(1)]
    pub begun_ms: i64,
    /// From when the time without progress counts: its begin, or its last resumption.
    #[n(2)]
    pub clock_ms: i64,
    /// Who began it.
    #[n(3)]
    pub by: String,
    /// The versions that were rolled out, oldest first. It goes back to the last one if it fails.
    #[n(4)]
    pub stable: Vec<u32>,
    /// The version that it takes back, if it does.
    #[n(5)]
    pub reverts: Option<u32>,
    /// Why it has failed, or why the version that it takes back has.
    #[n(6)]
    pub failure: Option<RolloutFailure>,
    /// The version that it brings. Later changes of metadata count on.
    #[n(7)]
    pub version: u32,
    /// Earlier versions that ask for other resources. Until the rollout is done, each task is charged the most that it
    /// takes in any of these and in the version in force.
    #[n(8)]
    pub held: Vec<u32>,
    /// How often it has ended attempts. Each time is decided by the rows after the time before.
    #[n(9)]
    pub steps: u32,
    /// Tasks of the job's count that its owner has not asked for: they serve while others are replaced.
    #[n(10)]
    #[cbor(default)]
    #[serde(default)]
    pub surge: u32,
    /// Canaries, which surge: while it has some, only what surges runs the version. 0: it is promoted, or had none.
    #[n(11)]
    #[cbor(default)]
    #[serde(default)]
    pub canaries: u32,
    /// The version of the owner's tasks while it has canaries; 0 without.
    #[n(12)]
    #[cbor(default)]
    #[serde(default)]
    pub base: u32,
    /// Since when its canaries have waited for their promotion, healthy; 0: they do not.
    #[n(13)]
    #[cbor(default)]
    #[serde(default)]
    pub canaries_healthy_ms: i64,
    /// How many healthy tasks of the owner it has ended.
    #[n(14)]
    #[cbor(default)]
    #[serde(default)]
    pub disruptions: u32,
    /// Tasks that keep an earlier version although it is done: it may end no more healthy ones.
    #[n(15)]
    #[cbor(default)]
    #[serde(default)]
    pub skipped: u32,
    /// All of it is resized in place, so nothing surges yet. What cannot be resized begins the surge.
    #[n(16)]
    #[cbor(default)]
    #[serde(default)]
    pub resizes: bool,
    /// It ended without a task that has its version: its job was scaled to no tasks, or it skipped them all. The
    /// version has not shown that it is good. Of a job without tasks it goes on with the first ones.
    #[n(17)]
    #[cbor(default)]
    #[serde(default)]
    pub untried: bool,
    /// When it last made progress, as far as that is recorded; 0: never. It stays when what made the progress is gone.
    #[n(18)]
    #[cbor(default)]
    #[serde(default)]
    pub progress_ms: i64,
    /// When a person began it again after it had failed; 0: never. Failures before that do not count.
    #[n(19)]
    #[cbor(default)]
    #[serde(default)]
    pub again_ms: i64,
    /// Its job had no tasks when it began, so nothing could try it.
    #[n(20)]
    #[cbor(default)]
    #[serde(default)]
    pub empty: bool,
}

/// Whether a rollout goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    /// It replaces attempts of earlier versions.
    #[n(0)]
    Rolling,
    /// Its owner has paused it. Its time without progress stands still.
    #[n(1)]
    Paused,
    /// Every task has a healthy attempt of the version.
    #[n(2)]
    Done,
    /// It has stopped. Some tasks may have the earlier version.
    #[n(3)]
    Failed,
}

/// Whether the canaries of a rollout have shown that its version is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CanaryHealth {
    /// Each has been healthy for long enough.
    Healthy,
    /// Some have not, or no longer are.
    Awaited,
}

impl RolloutState {
    /// Its word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rolling => "rolling",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Returns true if it may still replace attempts.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Rolling | Self::Paused)
    }
}

impl Rollout {
    /// The rollout of the version after the one in force of `row`, with so many canaries. It supersedes one that is
    /// under way, whose version never counts as rolled out.
    pub fn begin(row: &JobRow, canaries: u32, by: &str, now_ms: i64) -> Self {
        Self {
            state: RolloutState::Rolling,
            begun_ms: now_ms,
            clock_ms: now_ms,
            by: by.to_owned(),
            stable: stable_versions(row),
            reverts: None,
            failure: None,
            version: row.spec_version.saturating_add(1),
            held: row.rollout.as_ref().map_or_else(Vec::new, |last| last.held.clone()),
            steps: 0,
            surge: row.surge(),
            canaries,
            base: if canaries > 0 { row.earlier_version().unwrap_or(row.spec_version) } else { 0 },
            canaries_healthy_ms: 0,
            disruptions: 0,
            skipped: 0,
            resizes: false,
            untried: false,
            progress_ms: 0,
            again_ms: 0,
            empty: row.owner_count() == 0,
        }
    }

    /// The same rollout without a surge at first: each attempt that it concerns is resized in place.
    pub fn resizing(self) -> Self {
        Self { resizes: true, ..self }
    }

    /// It replaces attempts too, and what surges for that begins.
    pub fn surging(&self) -> Self {
        Self { resizes: false, ..self.clone() }
    }

    /// The rollout that takes back the version in force of `row`: because it failed, or because its owner wants it. A
    /// version that did not come to its end is named by its rollout: later changes of metadata are part of it.
    pub fn revert(row: &JobRow, failure: Option<RolloutFailure>, by: &str, now_ms: i64) -> Self {
        let under_way = row.rollout.as_deref().filter(|last| last.state != RolloutState::Done);
        let taken = under_way.map_or(row.spec_version, |last| last.version);
        Self { reverts: Some(taken), failure, ..Self::begin(row, 0, by, now_ms) }
    }

    /// A person begins it again after it has failed: the same version, with all its time.
    pub fn again(&self, by: &str, now_ms: i64) -> Self {
        let again = Self { by: by.to_owned(), failure: None, again_ms: now_ms, ..self.clone() };
        Self { canaries_healthy_ms: 0, ..again.restarted(now_ms) }
    }

    /// It goes on with the first tasks of a job that had none.
    pub fn with_first_tasks(&self, now_ms: i64) -> Self {
        Self { untried: false, ..self.restarted(now_ms) }
    }

    fn restarted(&self, now_ms: i64) -> Self {
        let (begun_ms, clock_ms, progress_ms) = (now_ms, now_ms, 0);
        Self { state: RolloutState::Rolling, begun_ms, clock_ms, progress_ms, ..self.clone() }
    }

    /// Its rules have changed: its time without progress begins again.
    pub fn with_rules_changed(&self, now_ms: i64) -> Self {
        Self { clock_ms: now_ms, ..self.clone() }
    }

    /// It has made progress then. It never goes back.
    pub fn progressed(&self, progress_ms: i64) -> Self {
        Self { progress_ms: self.progress_ms.max(progress_ms), ..self.clone() }
    }

    /// It has ended attempts once more, so many healthy ones of the owner among them.
    pub fn stepped(&self, disruptions: u32) -> Self {
        let disruptions = self.disruptions.saturating_add(disruptions);
        Self { steps: self.steps.saturating_add(1), disruptions, ..self.clone() }
    }

    /// Its canaries are healthy and wait for their promotion since now, or their time begins again.
    pub fn with_canaries(&self, health: CanaryHealth, now_ms: i64) -> Self {
        let canaries_healthy_ms = if health == CanaryHealth::Healthy { now_ms } else { 0 };
        Self { canaries_healthy_ms, clock_ms: now_ms, ..self.clone() }
    }

    /// Its canaries have shown that the version is good: it replaces the attempts of the owner's tasks from now on.
    pub fn promoted(&self, now_ms: i64) -> Self {
        Self { canaries: 0, base: 0, canaries_healthy_ms: 0, clock_ms: now_ms, ..self.clone() }
    }

    /// It is over: every task has the version, except those that are skipped. Nothing surges any more. Without skipped
    /// ones nothing is held for earlier versions. What has failed before has come to nothing.
    pub fn done(&self, skipped: u32) -> Self {
        let held = if skipped == 0 { Vec::new() } else { self.held.clone() };
        let failure = self.failure.filter(|_| self.state != RolloutState::Failed);
        Self { state: RolloutState::Done, held, failure, surge: 0, skipped, ..self.promoted(self.clock_ms) }
    }

    /// It is over for now: its job was scaled to no tasks before every task had the version. The way back stays
    /// charged.
    pub fn without_tasks(&self) -> Self {
        Self { untried: true, held: self.held.clone(), ..self.done(0) }
    }

    /// The same rollout with so many tasks beside those of the owner.
    pub fn with_surge(&self, surge: u32) -> Self {
        Self { surge, ..self.clone() }
    }

    /// It is over, and some tasks may have an earlier version.
    pub fn failed(&self, failure: RolloutFailure) -> Self {
        Self { state: RolloutState::Failed, failure: Some(failure), ..self.clone() }
    }

    /// The same rollout in another state.
    ///
    /// # Errors
    /// It is over.
    pub fn with_state(&self, state: RolloutState, now_ms: i64) -> Result<Self, RolloutRefused> {
        if !self.state.is_open() {
            return Err(RolloutRefused::Over(self.state));
        }
        let resumes = self.state == RolloutState::Paused && state == RolloutState::Rolling;
        let clock_ms = if resumes { now_ms } else { self.clock_ms };
        Ok(Self { state, clock_ms, ..self.clone() })
    }
}

/// The versions of a job that count as rolled out, oldest first. The first version does.
pub fn stable_versions(row: &JobRow) -> Vec<u32> {
    let in_force = [row.spec_version];
    let (known, now): (&[u32], &[u32]) = match row.rollout.as_deref() {
        None => (&[], &in_force),
        Some(last) if last.state == RolloutState::Done && !last.untried => (&last.stable, &in_force),
        Some(last) => (&last.stable, &[]),
    };
    let all: Vec<u32> = known.iter().chain(now).copied().collect();
    all[all.len().saturating_sub(STABLE_MAX)..].to_vec()
}
