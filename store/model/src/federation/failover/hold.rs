//! Why the tasks of a cell that does not answer stay promised to it, in data and in words.

use std::fmt;

use super::decide::{FAILOVER_WINDOW_MS, LOOKS_FAILED_MIN, WATCHED_MS_MIN};
use crate::job::file::duration_text;

/// What keeps a part of a job from failing over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailoverHold {
    /// Its tasks are promised to other cells already.
    Begun,
    /// It has no tasks.
    NoTasks,
    /// The cell answers, and refuses the federation: it is alive.
    Refuses,
    /// The job waits for the cell, however long that takes.
    Never,
    /// The leader has not looked at the cell yet, or it is no member.
    NotLooked,
    /// At most half of the cells answer: the federation may be cut off, and the cells may run.
    CutOff { answering: usize, all: usize },
    /// The last round of looks is too old to decide by.
    NoLook { idle_ms: u64 },
    /// The leader has just begun, was paused or was cut off.
    WatchNew { watched_ms: u64 },
    /// So few looks in a row brought no answer.
    FewLooks { looks: u32 },
    /// The job bears a longer silence.
    Tolerated { observed_ms: u64, tolerance_ms: u64 },
    /// Other cells have just begun to fail over.
    RateLimited { cells: usize },
}

/// The time in whole seconds.
fn seconds(ms: u64) -> String {
    duration_text(ms / 1_000 * 1_000)
}

/// A finding, and then what would change it.
impl fmt::Display for FailoverHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun => f.write_str("its tasks are promised to other cells until it answers again"),
            Self::NoTasks => f.write_str("no task of the job is promised to it"),
            Self::Refuses => f.write_str(
                "it answers and refuses the federation, so it is alive; its tasks move only if nobody answers any more",
            ),
            Self::Never => f.write_str(
                "the job says `failover_after: never`, so its tasks wait for the cell; a duration would let them move",
            ),
            Self::NotLooked => {
                f.write_str("the leader of the federation has not looked at it yet; it decides when it has")
            }
            Self::CutOff { answering, all } => write!(
                f,
                "{answering} of {all} cells answer, and a failover needs more than half, because the federation may be cut \
                 off; it is decided when more answer, or when cells that are gone for good have left"
            ),
            Self::NoLook { idle_ms } => write!(
                f,
                "the leader of the federation has looked at no cell for {}; it decides after new looks",
                seconds(*idle_ms)
            ),
            Self::WatchNew { watched_ms } => write!(
                f,
                "the leader of the federation has watched for {} without a gap; it decides after {}",
                seconds(*watched_ms),
                seconds(WATCHED_MS_MIN)
            ),
            Self::FewLooks { looks } => write!(
                f,
                "{looks} looks in a row have brought no answer; it is decided after {LOOKS_FAILED_MIN}"
            ),
            Self::Tolerated { observed_ms, tolerance_ms } => write!(
                f,
                "looks have seen {} of silence, and the job bears {}; a shorter `failover_after` would move its tasks \
                 earlier",
                seconds(*observed_ms),
                seconds(*tolerance_ms)
            ),
            Self::RateLimited { cells } => write!(
                f,
                "{cells} other cells have begun to fail over within {}, which is the most; it is the turn of this cell \
                 when that time is over",
                seconds(FAILOVER_WINDOW_MS)
            ),
        }
    }
}
