//! What becomes of a response that a client refuses: its line in the log, and how many lines there may be.

use std::time::Duration;

use parking_lot::Mutex;

use super::stream::RefusedResponse;
use crate::service::NamesShared;

/// Lines about refusals in [`LINES_TIME`]. A client that refuses everything, or many of them, must not fill the disk.
const LINES_MAX: u32 = 20;
const LINES_TIME: Duration = Duration::from_secs(10);
/// Characters of a client's text that go to the log.
const LOGGED_MAX: usize = 400;

/// The lines of the current interval.
#[derive(Debug, Default)]
struct RefusalLines {
    began: Option<Duration>,
    logged: u32,
    left_out: u64,
}

/// Whether a refusal gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusalVerdict {
    /// A line, which says how many had none since the last one.
    Log {
        left_out: u64,
    },
    LeaveOut,
}

impl RefusalLines {
    fn take(&mut self, now: Duration) -> RefusalVerdict {
        let is_over = self.began.is_none_or(|began| now.saturating_sub(began) >= LINES_TIME);
        if is_over {
            (self.began, self.logged) = (Some(now), 0);
        }
        if self.logged >= LINES_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return RefusalVerdict::LeaveOut;
        }
        self.logged += 1;
        RefusalVerdict::Log { left_out: std::mem::take(&mut self.left_out) }
    }
}

/// The refusals of all streams of a process.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<RefusalLines>);

impl RefusalLog {
    /// Counts a refusal, and logs it if there is room.
    pub(super) fn note(&self, shared: &NamesShared, refused: &RefusedResponse, node: &str) {
        shared.metrics.xds_refused_count(refused.kind.label());
        let verdict = self.0.lock().take(shared.clock().monotonic());
        let RefusalVerdict::Log { left_out } = verdict else { return };
        let cut = |text: &str| text.chars().take(LOGGED_MAX).collect::<String>();
        tracing::warn!(
            resource = refused.kind.label(),
            node = cut(node),
            nonce = refused.nonce,
            code = refused.code,
            detail = cut(&refused.detail),
            left_out,
            "a client of xDS has refused a response"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_up_to_a_bound_and_the_next_line_counts_the_rest() {
        let mut lines = RefusalLines::default();
        let at = Duration::from_millis;
        for _ in 0..LINES_MAX {
            assert_eq!(lines.take(at(5)), RefusalVerdict::Log { left_out: 0 });
        }
        for _ in 0..3 {
            assert_eq!(lines.take(at(9_999)), RefusalVerdict::LeaveOut);
        }
        assert_eq!(lines.take(at(10_005)), RefusalVerdict::Log { left_out: 3 });
        assert_eq!(lines.take(at(10_006)), RefusalVerdict::Log { left_out: 0 }, "said once");
    }
}
