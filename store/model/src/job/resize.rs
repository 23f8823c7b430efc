//! How other amounts reach the running tasks of a job.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// How other amounts of processor time, memory and rates reach a running task.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ResizeMode {
    /// Its node changes its limits while it runs.
    #[default]
    #[n(0)]
    InPlace,
    /// The rollout replaces it: a program that reads its limits at its start needs that.
    #[n(1)]
    Restart,
}

impl ResizeMode {
    /// Both with their names.
    pub const NAMES: [(&'static str, Self); 2] = [("in_place", Self::InPlace), ("restart", Self::Restart)];
}

/// A signal that tells a program of other limits.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
pub enum ResizeSignal {
    #[n(0)]
    #[serde(rename = "SIGHUP")]
    Hup,
    #[n(1)]
    #[serde(rename = "SIGUSR1")]
    Usr1,
    #[n(2)]
    #[serde(rename = "SIGUSR2")]
    Usr2,
    #[n(3)]
    #[serde(rename = "SIGWINCH")]
    Winch,
}

impl ResizeSignal {
    /// All with their names.
    pub const NAMES: [(&'static str, Self); 4] =
        [("SIGHUP", Self::Hup), ("SIGUSR1", Self::Usr1), ("SIGUSR2", Self::Usr2), ("SIGWINCH", Self::Winch)];

    /// Its name in job files.
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, signal)| *signal == self).map_or("", |(name, _)| name)
    }

    /// Its number on Linux.
    pub fn number(self) -> i32 {
        match self {
            Self::Hup => 1,
            Self::Usr1 => 10,
            Self::Usr2 => 12,
            Self::Winch => 28,
        }
    }
}
