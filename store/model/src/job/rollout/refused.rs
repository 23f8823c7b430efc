//! Why a rollout has failed, and why an order about one is refused.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use super::RolloutState;
use crate::field_error::delay_text;

/// Why a rollout has failed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RolloutFailure {
    /// Attempts of a task failed in a row.
    #[n(0)]
    TaskFails {
        #[n(0)]
        index: u32,
        #[n(1)]
        failures: u32,
    },
    /// No further task became healthy in this time.
    #[n(1)]
    NoProgress {
        #[n(0)]
        deadline_ms: u64,
        /// Tasks that were to surge and had no node then.
        #[n(1)]
        #[cbor(default)]
        #[serde(default)]
        surge_unplaced: u32,
        /// Tasks that used more memory than they were to have.
        #[n(2)]
        #[cbor(default)]
        #[serde(default)]
        memory_in_use: u32,
    },
}

impl std::fmt::Display for RolloutFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TaskFails { index, failures: 1 } => write!(f, "task {index} failed"),
            Self::TaskFails { index, failures } => write!(f, "task {index} failed {failures} times in a row"),
            Self::NoProgress { deadline_ms, surge_unplaced, memory_in_use } => {
                write!(f, "no further task became healthy within {}", delay_text(*deadline_ms))?;
                match memory_in_use {
                    0 => {}
                    1 => f.write_str(", and 1 task used more memory than it was to have")?,
                    tasks => write!(f, ", and {tasks} tasks used more memory than they were to have")?,
                }
                match surge_unplaced {
                    0 => Ok(()),
                    1 => f.write_str(", and 1 surging task had no node"),
                    tasks => write!(f, ", and {tasks} surging tasks had no node"),
                }
            }
        }
    }
}

/// Why a rollout is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutRefused {
    /// The job's spec was never changed in a way that begins one. Nothing to do.
    #[error("it has had no rollout: no changed file has begun one")]
    Absent,
    /// It is over. Submit a changed spec to begin another one.
    #[error("its rollout is over: {}", .0.word())]
    Over(RolloutState),
    /// Choose one of the versions that were rolled out: the known ones are kept, and differ from the one in force.
    #[error("version {version} was not rolled out, or is no longer kept{}", accepted_text(known))]
    NotStable { version: u32, known: Vec<u32> },
    /// No version that was rolled out differs from the one in force. Submit the spec that you want.
    #[error("no version that was rolled out differs from the one in force")]
    NoneEarlier,
    /// The version in force says the same. Nothing to do.
    #[error("version {0} is the same as the version in force")]
    Same(u32),
    /// Resume it first: nothing goes on while it is paused.
    #[error("its rollout is paused; accepted: its promotion after `borough rollout resume`")]
    Paused,
    /// It has no canaries, or is promoted already. Nothing to do.
    #[error("no canary of it waits for its promotion")]
    NoCanary,
    /// Promote it when they are, or take the version back.
    #[error("{healthy} of {} healthy for long enough; accepted: its promotion when all are", canaries_text(*canaries))]
    CanariesNotHealthy { healthy: u32, canaries: u32 },
}

fn canaries_text(canaries: u32) -> String {
    if canaries == 1 { "1 canary is".to_owned() } else { format!("{canaries} canaries are") }
}

/// The versions that a job can go back to, for people: `; accepted: 1, 3`.
fn accepted_text(versions: &[u32]) -> String {
    if versions.is_empty() {
        return format!(", and {}", RolloutRefused::NoneEarlier);
    }
    format!("; accepted: {}", versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}
