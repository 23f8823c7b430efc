//! Interprets exits.

use borough_model::task::StopReason;
use borough_proto::bounds::text_cut;
use borough_proto::v1;
use borough_proto::v1::EndReason;
use borough_shim::record::{ExitRecord, StartCause};

use super::state::AttemptState;
use crate::attempt::AttemptId;

/// The signal of the kernel's out-of-memory killer.
const SIGKILL: i32 = 9;
/// How much of the answer of a probe an exit has.
const PROBE_FAILURE_BYTES_MAX: usize = 256;
/// The reason in a record that the agent itself wrote after a reboot.
pub(crate) const REBOOTED: &str = "its node was rebooted";

/// How an attempt ended, if it has.
pub(super) fn exit_of(id: &AttemptId, attempt: &AttemptState, node: &str) -> Option<v1::Exit> {
    let record = attempt.record.exit.as_ref()?;
    let (reason, message) = if let Some(error) = &record.start_error {
        (EndReason::StartFailed, error.clone())
    } else if record.message == REBOOTED {
        (EndReason::NodeRebooted, record.message.clone())
    } else if record.oom_kills > 0 && record.signal == Some(SIGKILL) && !record.stopped {
        (EndReason::OutOfMemory, record.message.clone())
    } else if record.stopped {
        (EndReason::Stopped, stopped_text(attempt, &record.message))
    } else if record.signal.is_some() {
        (EndReason::Signaled, record.message.clone())
    } else {
        (EndReason::Exited, record.message.clone())
    };
    Some(v1::Exit {
        reason: reason.into(),
        // If the program was never executed, the code is that of the shim's child, and would mislead.
        code: record.code.filter(|_| record.start_error.is_none()),
        signal: record.signal.filter(|_| record.start_error.is_none()),
        message,
        at_ms: record.at_ms,
        incarnation: id.incarnation,
        node: node.to_owned(),
        // The gateway reads it out of the message.
        helper: String::new(),
        start_failure: start_failure_of(record).into(),
    })
}

fn start_failure_of(record: &ExitRecord) -> v1::StartFailure {
    match record.start_cause.filter(|_| record.start_error.is_some()) {
        Some(StartCause::NodeFull) => v1::StartFailure::NodeFull,
        Some(StartCause::PortInUse) => v1::StartFailure::PortInUse,
        Some(StartCause::SecretUnusable) => v1::StartFailure::SecretUnusable,
        Some(StartCause::Unknown) | None => v1::StartFailure::Unspecified,
    }
}

/// Why an attempt was stopped, as far as the agent knows: why the probe of an unhealthy one failed. The cell knows
/// whether it was stopped for that, and takes another reason instead if it was not.
fn stopped_text(attempt: &AttemptState, message: &str) -> String {
    let is_unhealthy = attempt.health == v1::Health::Unhealthy && !attempt.probe_failure.is_empty();
    if !message.is_empty() || !is_unhealthy {
        return message.to_owned();
    }
    let mut failure = attempt.probe_failure.clone();
    text_cut(&mut failure, PROBE_FAILURE_BYTES_MAX);
    StopReason::Unhealthy.text_with(&failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unhealthy_attempt_says_why_its_probe_failed() {
        let id = AttemptId::new("j0000000000000001", 0, 1).unwrap();
        let message = |attempt: &AttemptState| exit_of(&id, attempt, "n").unwrap().message;
        let mut attempt = AttemptState { probe_failure: "/ready: 404".to_owned(), ..AttemptState::default() };
        attempt.record.exit = Some(ExitRecord { stopped: true, ..ExitRecord::default() });
        assert_eq!(message(&attempt), "", "it became healthy again");
        attempt.health = v1::Health::Unhealthy;
        assert_eq!(message(&attempt), "its health check failed: /ready: 404");
        attempt.probe_failure = "x".repeat(5_000);
        assert!(message(&attempt).len() < 300, "a probe may answer anything");
    }

    fn reason(exit: ExitRecord) -> (EndReason, v1::Exit) {
        let mut attempt = AttemptState::default();
        attempt.record.exit = Some(exit);
        let exit = exit_of(&AttemptId::new("j0000000000000001", 0, 1).unwrap(), &attempt, "n").unwrap();
        (exit.reason(), exit)
    }

    #[test]
    fn every_way_to_end_has_its_reason() {
        let none = ExitRecord::default();
        let killed = ExitRecord { signal: Some(9), ..none.clone() };
        assert_eq!(reason(ExitRecord { code: Some(3), ..none.clone() }).0, EndReason::Exited);
        assert_eq!(reason(killed.clone()).0, EndReason::Signaled);
        assert_eq!(reason(ExitRecord { oom_kills: 1, ..killed.clone() }).0, EndReason::OutOfMemory);
        assert_eq!(reason(ExitRecord { stopped: true, ..killed.clone() }).0, EndReason::Stopped);
        assert_eq!(reason(ExitRecord { code: Some(0), stopped: true, ..none.clone() }).0, EndReason::Stopped);
        assert_eq!(reason(ExitRecord { message: REBOOTED.to_owned(), ..killed }).0, EndReason::NodeRebooted);
        // The kernel killed a child for lack of memory, and the task then exited by itself: its own exit counts.
        assert_eq!(reason(ExitRecord { code: Some(1), oom_kills: 1, ..none }).0, EndReason::Exited);
    }

    #[test]
    fn a_failed_start_shows_its_reason_and_not_the_helpers_exit() {
        let record =
            ExitRecord { code: Some(0), start_error: Some("no".to_owned()), ..ExitRecord::default() };
        let full = ExitRecord { start_cause: Some(StartCause::NodeFull), ..record.clone() };
        assert_eq!(reason(full).1.start_failure(), v1::StartFailure::NodeFull);
        let newer = ExitRecord { start_cause: Some(StartCause::Unknown), ..record.clone() };
        assert_eq!(reason(newer).1.start_failure(), v1::StartFailure::Unspecified);
        let (reason, exit) = reason(record);
        assert_eq!((reason, exit.code, exit.message.as_str()), (EndReason::StartFailed, None, "no"));
        assert_eq!(exit.start_failure(), v1::StartFailure::Unspecified);
    }
}
