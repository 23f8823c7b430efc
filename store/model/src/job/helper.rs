//! Helpers of a task: programs that run before, beside or after its main command, in the same attempt.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::Name;
use crate::resource::Resources;

/// Most helpers of a task.
pub const HELPERS_MAX: usize = 8;
/// The deadline of a helper that runs before the main command and names none: 10 minutes.
pub const BEFORE_DEADLINE_MS: u64 = 600_000;
/// The deadline of a helper that runs after the main command and names none: 30 s. A drain waits for it.
pub const AFTER_DEADLINE_MS: u64 = 30_000;
/// Milliseconds that a deadline may be.
pub const DEADLINES_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

/// A program that runs in the attempt of a task, beside what the task is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct HelperSpec {
    /// Its name, unique within the task.
    #[n(0)]
    pub name: Name,
    /// When it runs.
    #[n(1)]
    pub when: HelperPhase,
    /// Program and arguments.
    #[n(2)]
    pub command: Vec<String>,
    /// Variables that are added to those of the task, or replace them.
    #[n(3)]
    pub environment: BTreeMap<String, String>,
    /// Processor time that its node holds for it, in thousandths of a core.
    #[n(4)]
    pub cpu_millis: u64,
    /// Memory that its node holds for it.
    #[n(5)]
    pub memory_bytes: u64,
    /// How long it may run; absent: the default of its phase. One beside the main command has none.
    #[n(6)]
    pub deadline_ms: Option<u64>,
}

/// The helper that kept an attempt from its command, of the message of its end. A shim writes the message, which begins
/// with the helper and its name.
pub fn helper_of_failure(message: &str) -> Option<&str> {
    message.strip_prefix("its helper \"")?.split_once('"').map(|(name, _)| name)
}

/// When a helper runs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum HelperPhase {
    /// Before the main command, which starts only when it has ended with 0.
    #[n(0)]
    Before,
    /// From before the start of the main command until after its end. It is started again when it ends.
    #[n(1)]
    Beside,
    /// Once the main command has ended.
    #[n(2)]
    After,
}

impl HelperPhase {
    /// The phases with their names in a job file, in the order in which they begin.
    pub const NAMES: [(&'static str, Self); 3] =
        [("before", Self::Before), ("beside", Self::Beside), ("after", Self::After)];

    /// Its name in job files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Beside => "beside",
            Self::After => "after",
        }
    }
}

impl HelperSpec {
    /// How long it may run; `None` without a bound.
    pub fn deadline_in_force(&self) -> Option<u64> {
        match self.when {
            HelperPhase::Before => Some(self.deadline_ms.unwrap_or(BEFORE_DEADLINE_MS)),
            HelperPhase::Beside => None,
            HelperPhase::After => Some(self.deadline_ms.unwrap_or(AFTER_DEADLINE_MS)),
        }
    }
}

/// What a node must hold for an attempt: the most that its programs need at one time. The helpers before and after the
/// main command run one at a time. Those beside it run with it.
///
/// The scheduler, the quota and the node use this one function. Helpers request processor time and memory only, so all
/// other amounts are those of the main command. A sum beyond what can be counted, which no admitted spec has, is the
/// largest amount.
pub fn resources_with_helpers(main: &Resources, helpers: &[HelperSpec]) -> Resources {
    let of = |amount: fn(&HelperSpec) -> u64, own: u64| {
        let in_phase = |phase| helpers.iter().filter(move |helper| helper.when == phase).map(amount);
        let beside = in_phase(HelperPhase::Beside).fold(own, u64::saturating_add);
        let alone = in_phase(HelperPhase::Before).chain(in_phase(HelperPhase::After)).max();
        beside.max(alone.unwrap_or(0))
    };
    Resources {
        cpu_millis: of(|helper| helper.cpu_millis, main.cpu_millis),
        memory_bytes: of(|helper| helper.memory_bytes, main.memory_bytes),
        ..main.clone()
    }
}
