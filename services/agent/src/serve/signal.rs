//! Sends signals to a task's own process: at most one per request, however often the request comes.
//!
//! A caller repeats a call that was not answered in time. The agent keeps the newest requests of an attempt and their
//! results, also over its own restart. It answers a repetition without another signal.

use std::collections::BTreeMap;
use std::io;

use borough_proto::v1;
use rustix::process::Signal;

use crate::attempt::AttemptId;
use crate::decide::AgentState;
use crate::machine::{Machine, SignalSent};

/// Kept requests of an attempt: a caller repeats for seconds, and people signal by hand.
const KEPT_MAX: usize = 64;

/// The signals of this agent's attempts.
#[derive(Default)]
pub(super) struct AttemptSignals {
    sent: BTreeMap<AttemptId, Vec<SignalSent>>,
}

impl AttemptSignals {
    /// Sends a signal, unless its request is known already. The error is for the caller.
    pub(super) fn send(
        &mut self,
        command: &v1::SignalCommand,
        state: &AgentState,
        machine: &dyn Machine,
    ) -> Result<(), String> {
        let id = AttemptId::of(command.attempt.as_ref()).map_err(|error| error.to_string())?;
        self.sent.retain(|id, _| state.attempts.contains_key(id));
        let attempt = state.attempts.get(&id).ok_or("this attempt is not on this node")?;
        let sent = self.sent.entry(id.clone()).or_insert_with(|| machine.signals_read(&id));
        let write = |sent: &[SignalSent]| machine.signals_write(&id, sent);
        send_once(sent, command, write, || {
            let running = attempt.record.task.filter(|_| attempt.record.exit.is_none());
            let task = running.ok_or("the task is not running")?;
            let refuse = || format!("signal {} cannot be sent: only 1 to 31 can", command.signal);
            let signal = Signal::from_named_raw(command.signal).ok_or_else(refuse)?;
            let failed = |error| format!("cannot send signal {}: {error}", command.signal);
            machine.signal(task, signal).map_err(failed)
        })
    }
}

/// Sends by `send` if `sent` does not have the request, and records it there. It is recorded before it is sent: an
/// agent that dies in between has sent none, and a repetition sends none either.
fn send_once(
    sent: &mut Vec<SignalSent>,
    command: &v1::SignalCommand,
    write: impl Fn(&[SignalSent]) -> io::Result<()>,
    send: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let (request_id, signal) = (command.request_id.clone(), command.signal);
    if request_id.is_empty() {
        // A gateway of a release that sends no ids.
        return send();
    }
    if let Some(known) = sent.iter().find(|known| known.request_id == request_id) {
        if known.signal != signal {
            return Err(format!("request {request_id} was for signal {}, not {signal}", known.signal));
        }
        return if known.error.is_empty() { Ok(()) } else { Err(known.error.clone()) };
    }
    sent.push(SignalSent { request_id, signal, error: String::new() });
    if sent.len() > KEPT_MAX {
        sent.remove(0);
    }
    let remember = |sent: &[SignalSent]| {
        if let Err(error) = write(sent) {
            // Memory has it. Only a restarted agent would send it again.
            tracing::warn!(%error, "the order to signal an attempt cannot be written");
        }
    };
    remember(sent);
    let outcome = send();
    if let (Err(error), Some(last)) = (&outcome, sent.last_mut()) {
        last.error.clone_from(error);
        remember(sent);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn command(request: usize, signal: i32) -> v1::SignalCommand {
        v1::SignalCommand { signal, request_id: format!("{request:032x}"), ..Default::default() }
    }

    #[test]
    fn a_repeated_request_sends_one_signal_also_to_an_agent_that_has_started_again() {
        let (disk, delivered) = (RefCell::new(Vec::new()), Cell::new(0));
        let send = |sent: &mut Vec<SignalSent>, command: &v1::SignalCommand, outcome: Result<(), String>| {
            let write = |sent: &[SignalSent]| {
                *disk.borrow_mut() = sent.to_vec();
                Ok(())
            };
            send_once(sent, command, write, || {
                assert!(
                    command.request_id.is_empty()
                        || disk.borrow().iter().any(|known| known.request_id == command.request_id)
                );
                delivered.set(delivered.get() + 1);
                outcome
            })
        };
        let mut sent = Vec::new();
        assert_eq!(send(&mut sent, &command(1, 10), Ok(())), Ok(()));
        assert_eq!(send(&mut sent, &command(1, 10), Ok(())), Ok(()), "a time-out repeats it");
        assert_eq!(delivered.get(), 1);
        let mut sent = disk.borrow().clone();
        assert_eq!(send(&mut sent, &command(1, 10), Ok(())), Ok(()), "the agent has started again");
        assert_eq!(delivered.get(), 1);
        assert!(send(&mut sent, &command(1, 12), Ok(())).unwrap_err().contains("was for signal 10"));
        // A failure is repeated as the answer, and another request is another signal.
        let gone = Err("the task is not running".to_owned());
        assert_eq!(send(&mut sent, &command(2, 10), gone.clone()), gone);
        assert_eq!(send(&mut sent, &command(2, 10), Ok(())), gone);
        assert_eq!(delivered.get(), 2);
        for request in 3..3 + 2 * KEPT_MAX {
            send(&mut sent, &command(request, 10), Ok(())).unwrap();
        }
        assert_eq!((sent.len(), disk.borrow().len()), (KEPT_MAX, KEPT_MAX), "bounded");
    }

    #[test]
    fn a_full_disk_does_not_keep_a_signal_from_its_task() {
        let (mut sent, delivered) = (Vec::new(), Cell::new(0));
        for _ in 0..2 {
            let write = |_: &[SignalSent]| Err(io::Error::from(io::ErrorKind::StorageFull));
            send_once(&mut sent, &command(1, 10), write, || {
                delivered.set(delivered.get() + 1);
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(delivered.get(), 1);
    }
}
