//! The sessions that this gateway holds, and the answers that arrive through them: logs, exec output, results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use borough_model::NodeId;
use borough_model::node::LoadMeasured;
use borough_proto::bounds::{STREAM_WINDOW_BYTES, stream_cost};
use borough_proto::v1;
use borough_proto::v1::exec_output::Output;
use borough_proto::v1::gateway_message::Message;
use borough_store::node::SessionFence;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tonic::Status;

use super::address::OwnAddress;
use super::desired::DesiredAttempt;
use super::failure::{DesiredProgress, NodeFailures, lease_counts};
use super::metrics::{DeliveryMetrics, EndKind};
use super::notice::{Holders, Notices};
use super::silence::{SessionWork, SilenceLimit, report_interval};
use super::silent::SilentSessions;

/// Messages that wait for one agent: chunks within the agent's credit, and input of commands within their credit.
const OUTBOUND_MAX: usize = 256;
/// Progress is lasting once a session has lasted so many intervals of its reports. The agent counts the same way.
const LASTING_INTERVALS: u32 = 3;

/// An answer from an agent to one request.
#[derive(Debug)]
pub enum AgentAnswer {
    /// Output of a task.
    Log(v1::LogChunk),
    /// Output or end of an exec.
    Exec(v1::ExecOutput),
    /// The result of a command; empty means success.
    Result(String),
    /// The session has ended.
    Gone,
    /// The agent has exceeded its credit.
    Broken(&'static str),
}

struct Waiter {
    sender: mpsc::UnboundedSender<AgentAnswer>,
    /// Credit used by answers that wait to be read, at most `window`.
    queued: Arc<AtomicUsize>,
    /// Credit of the answers.
    window: usize,
    /// Credit for the input of a command.
    input: Arc<Semaphore>,
}

/// The answers to one request, in order. The agent sends at most one window more than its reader has read.
pub struct AgentAnswers {
    /// The request's id in the messages to the agent.
    pub id: u64,
    receiver: mpsc::UnboundedReceiver<AgentAnswer>,
    queued: Arc<AtomicUsize>,
    window: usize,
    /// Read, and not yet returned to the agent as credit.
    owed: usize,
    input: Arc<Semaphore>,
    session: Arc<RegisteredSession>,
}

impl AgentAnswers {
    /// The next answer; `None` after the last. Reading it lets the agent send more.
    pub async fn next(&mut self) -> Option<AgentAnswer> {
        let answer = self.receiver.recv().await?;
        let cost = answer_cost(&answer);
        self.queued.fetch_sub(cost, Ordering::Relaxed);
        self.owed = self.owed.saturating_add(cost);
        if self.owed >= self.window / 4 {
            let bytes = u64::try_from(std::mem::take(&mut self.owed)).unwrap_or(u64::MAX);
            // If the session is over, the next answer reports it.
            self.session.send(Message::Credit(v1::StreamCredit { id: self.id, bytes })).await;
        }
        Some(answer)
    }

    /// Credit for the input of the command. Grows as the command reads its input.
    pub fn input(&self) -> Arc<Semaphore> {
        Arc::clone(&self.input)
    }
}

impl Drop for AgentAnswers {
    fn drop(&mut self) {
        self.session.waiters.lock().remove(&self.id);
    }
}

/// What a session is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    pub node: NodeId,
    /// A number that is new with each connection.
    pub id: u64,
    /// The present time (monotonic).
    pub now: Duration,
    /// How often the agent reports at first when nothing changes.
    pub report_interval: Duration,
    /// How many sessions of the node in a row made no lasting progress.
    pub failed: u32,
}

/// Why a session has ended.
#[derive(Clone, Debug)]
pub struct End {
    pub kind: EndKind,
    /// The reason, for people.
    pub why: String,
}

/// One agent's session.
pub struct RegisteredSession {
    pub node: NodeId,
    /// A number that is new with each connection.
    pub id: u64,
    outbound: mpsc::Sender<Outbound>,
    waiters: Mutex<BTreeMap<u64, Waiter>>,
    next_request: AtomicU64,
    usage: Mutex<BTreeMap<DesiredAttempt, v1::Usage>>,
    opening: Opening,
    work: Mutex<SessionWork>,
    /// Whether the session has made lasting progress.
    lasting: AtomicBool,
    /// The last chunk that the agent has applied.
    acknowledged: watch::Sender<u64>,
    /// Why this gateway ends the session, if it does.
    end: Mutex<Option<End>>,
    report_revision: AtomicU64,
    beats: AtomicU64,
    /// Whether the gateway vouches for the node because of this session, or will.
    vouching: AtomicBool,
    queues: Arc<SessionQueues>,
    over: AtomicBool,
    ended: Notify,
    /// The agent's last measurement of its node, if it is not written yet.
    load: Mutex<Option<ReportedLoad>>,
    /// Tasks whose rows have changed since the session last looked.
    pub notices: Notices,
}

/// Nodes whose sessions wait for a writer that all sessions share, so that no writer visits all of them.
#[derive(Debug, Default)]
struct SessionQueues {
    /// Their sessions have begun to work.
    begun: Mutex<BTreeSet<NodeId>>,
    /// Sessions that have ended while the gateway vouched for their nodes, with their numbers.
    ended: Mutex<BTreeSet<(NodeId, u64)>>,
    /// Their agents have reported a load.
    loads: Mutex<BTreeSet<NodeId>>,
}

/// What a report says about an attempt's usage.
#[derive(Clone, Copy, Debug)]
pub enum UsageReport {
    Sample(v1::Usage),
    /// The attempt is over.
    Over,
}

/// A message to an agent, or the reason why the session ends.
pub type Outbound = Result<v1::GatewayMessage, Status>;

/// A measurement that an agent has reported; `None`: the agent cannot measure.
pub type ReportedLoad = Option<LoadMeasured>;

impl RegisteredSession {
    /// Records the agent's measurement of its node, to be written.
    pub fn load_note(&self, load: ReportedLoad) {
        *self.load.lock() = Some(load);
        self.queues.loads.lock().insert(self.node);
    }

    /// Takes the measurement to be written.
    fn load_take(&self) -> Option<ReportedLoad> {
        self.load.lock().take()
    }

    /// Returns a measurement that could not be written, unless a newer one has arrived.
    pub fn load_return(&self, load: ReportedLoad) {
        self.load.lock().get_or_insert(load);
        self.queues.loads.lock().insert(self.node);
    }

    /// Records that a report was applied or a chunk acknowledged at `now` (monotonic). Returns true if lasting progress
    /// begins with it.
    pub fn worked(&self, now: Duration, progress: DesiredProgress) -> bool {
        if lease_counts(progress, self.opening.failed) {
            self.work.lock().worked(now);
            if !self.vouching.swap(true, Ordering::AcqRel) {
                self.queues.begun.lock().insert(self.node);
            }
        }
        let least = self.opening.report_interval.saturating_mul(LASTING_INTERVALS);
        let complete = progress == DesiredProgress::Complete;
        let lasting = complete && now.saturating_sub(self.opening.now) >= least;
        lasting && !self.lasting.swap(true, Ordering::AcqRel)
    }

    /// Records that the gateway vouches for the node no longer. The session's next work begins again.
    pub fn vouching_end(&self) {
        self.vouching.store(false, Ordering::Release);
    }

    /// When it last did work (monotonic), which keeps its node alive. `None`: not yet.
    pub fn worked_at(&self) -> Option<Duration> {
        self.work.lock().worked_at()
    }

    /// Records the interval of reports that the next answer tells the agent.
    pub fn interval_tell(&self, interval: Duration) {
        self.work.lock().tell(interval);
    }

    /// When it is silent, if it does no more work.
    pub fn silence_limit(&self) -> SilenceLimit {
        self.work.lock().limit()
    }

    /// Returns true if the session has made lasting progress.
    pub fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Acquire)
    }

    /// Records that the agent has applied every chunk up to `sequence`.
    pub fn desired_applied(&self, sequence: u64) {
        self.acknowledged.send_if_modified(|last| {
            let newer = sequence > *last;
            *last = sequence.max(*last);
            newer
        });
    }

    /// Follows the agent's acknowledgements.
    pub fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// Why this gateway ends the session, if it does.
    pub fn end_reason(&self) -> Option<End> {
        self.end.lock().clone()
    }

    /// Records the last report that is durable.
    pub fn report_applied(&self, revision: u64) {
        self.report_revision.store(revision, Ordering::Relaxed);
    }

    /// The last report that is durable.
    pub fn report_revision(&self) -> u64 {
        self.report_revision.load(Ordering::Relaxed)
    }

    /// A number that no sign of life of this session has had.
    pub fn beat_next(&self) -> u64 {
        self.beats.fetch_add(1, Ordering::Relaxed).saturating_add(2)
    }

    /// Sends to the agent. Waits if it is slow. `false` if the session is over.
    pub async fn send(&self, message: Message) -> bool {
        self.outbound.send(Ok(v1::GatewayMessage { message: Some(message) })).await.is_ok()
    }

    /// Registers a request. Its answers arrive until the reader drops them.
    pub fn request(self: &Arc<Self>) -> AgentAnswers {
        self.request_within(STREAM_WINDOW_BYTES)
    }

    /// Registers a request with this much credit for its answers.
    pub fn request_within(self: &Arc<Self>, window: usize) -> AgentAnswers {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let input = Arc::new(Semaphore::new(STREAM_WINDOW_BYTES));
        let waiter = Waiter { sender, queued: Arc::clone(&queued), window, input: Arc::clone(&input) };
        self.waiters.lock().insert(id, waiter);
        AgentAnswers { id, receiver, queued, window, owed: 0, input, session: Arc::clone(self) }
    }

    /// Passes an answer to its reader, or drops it if the reader is gone. An agent that sends more than its credit
    /// loses the stream.
    pub fn answer(&self, id: u64, answer: AgentAnswer) {
        let mut waiters = self.waiters.lock();
        let Some(waiter) = waiters.get(&id) else { return };
        let cost = answer_cost(&answer);
        let queued = waiter.queued.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        let excess = queued > waiter.window;
        let answer =
            if excess { AgentAnswer::Broken("the agent sends more than it was asked for") } else { answer };
        let last = excess || is_last(&answer);
        if waiter.sender.send(answer).is_err() || last {
            waiters.remove(&id);
        }
    }

    /// Records that the command of request `id` has read so much of its input.
    pub fn input_taken(&self, credit: v1::StreamCredit) {
        let waiters = self.waiters.lock();
        let Some(waiter) = waiters.get(&credit.id) else { return };
        let space = STREAM_WINDOW_BYTES.saturating_sub(waiter.input.available_permits());
        waiter.input.add_permits(usize::try_from(credit.bytes).unwrap_or(usize::MAX).min(space));
    }

    /// The agent's last measurement of an attempt.
    pub fn usage(&self, attempt: DesiredAttempt) -> Option<v1::Usage> {
        self.usage.lock().get(&attempt).copied()
    }

    /// Records samples of usage, and drops those of attempts that are over.
    pub fn usage_note(&self, reports: impl IntoIterator<Item = (DesiredAttempt, UsageReport)>) {
        let mut usage = self.usage.lock();
        for (attempt, report) in reports {
            match report {
                UsageReport::Sample(sample) => drop(usage.insert(attempt, sample)),
                UsageReport::Over => drop(usage.remove(&attempt)),
            }
        }
    }

    /// The fence that lets the gateway write for the node.
    pub fn fence(&self) -> SessionFence {
        SessionFence { node: self.node, session: self.id }
    }

    /// Ends the session and sends the agent the reason, unless it has ended before. An agent that reads no messages
    /// only sees the connection closed.
    pub fn end(&self, kind: EndKind, reason: Status) {
        let why = reason.message().to_owned();
        {
            let mut end = self.end.lock();
            if end.is_some() {
                return;
            }
            *end = Some(End { kind, why });
        }
        self.over.store(true, Ordering::Release);
        self.outbound.try_send(Err(reason)).ok();
        self.ended.notify_one();
    }

    /// Waits until the session is ended.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Returns true if it is still the session of its node.
    pub fn is_current(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    /// Closes it at `now` (monotonic). Its node keeps its lease for a while: an agent that restarts comes back.
    fn close(&self, now: Duration) {
        self.over.store(true, Ordering::Release);
        self.work.lock().end(now);
        if self.vouching.load(Ordering::Acquire) {
            self.queues.ended.lock().insert((self.node, self.id));
        }
        for waiter in std::mem::take(&mut *self.waiters.lock()).into_values() {
            // The reader may be gone already.
            waiter.sender.send(AgentAnswer::Gone).ok();
        }
    }
}

/// The sessions of one cell with this gateway, one per node: a new one replaces the old one.
#[derive(Default)]
pub struct Sessions {
    by_node: Mutex<BTreeMap<NodeId, Arc<RegisteredSession>>>,
    queues: Arc<SessionQueues>,
    pub holders: Holders,
    /// Those that do not answer.
    pub silent: SilentSessions,
    /// Nodes whose last sessions failed.
    pub failures: NodeFailures,
    /// Counters of failures in sessions.
    pub metrics: DeliveryMetrics,
    pub address: OwnAddress,
}

impl Sessions {
    /// Starts without sessions. Counts their failures in `metrics`.
    pub fn counted(metrics: DeliveryMetrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Opens the session of `node`. Also returns the receiver of the messages to its agent.
    pub fn open(&self, opening: Opening) -> (Arc<RegisteredSession>, mpsc::Receiver<Outbound>) {
        let Opening { node, id, now, report_interval, .. } = opening;
        self.silent.forget(node);
        let (outbound, receiver) = mpsc::channel(OUTBOUND_MAX);
        let session = Arc::new(RegisteredSession {
            node,
            id,
            outbound,
            waiters: Mutex::default(),
            next_request: AtomicU64::new(1),
            usage: Mutex::default(),
            opening,
            work: Mutex::new(SessionWork::new(report_interval)),
            lasting: AtomicBool::new(false),
            acknowledged: watch::Sender::new(0),
            end: Mutex::default(),
            report_revision: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            vouching: AtomicBool::new(false),
            queues: Arc::clone(&self.queues),
            over: AtomicBool::new(false),
            ended: Notify::new(),
            load: Mutex::default(),
            notices: Notices::default(),
        });
        if let Some(old) = self.by_node.lock().insert(node, Arc::clone(&session)) {
            old.end(EndKind::Superseded, Status::aborted("a newer session has taken over"));
            old.close(now);
        }
        (session, receiver)
    }

    /// Closes a session at `now` (monotonic), unless a newer one has replaced it.
    pub fn close(&self, session: &RegisteredSession, now: Duration) {
        session.close(now);
        let mut by_node = self.by_node.lock();
        if by_node.get(&session.node).is_some_and(|current| current.id == session.id) {
            by_node.remove(&session.node);
            self.silent.note(session, now);
        }
    }

    /// The session of `node`, if this gateway holds it.
    pub fn get(&self, node: NodeId) -> Option<Arc<RegisteredSession>> {
        self.by_node.lock().get(&node).cloned()
    }

    /// Takes the sessions that have begun to work. A session whose work was noted may have a successor, which may not
    /// have worked.
    pub fn begun_take(&self) -> Vec<Arc<RegisteredSession>> {
        let noted = std::mem::take(&mut *self.queues.begun.lock());
        let sessions = noted.into_iter().filter_map(|node| self.get(node));
        sessions.filter(|session| session.worked_at().is_some()).collect()
    }

    /// Takes the sessions that have ended while the gateway vouched for their nodes.
    pub fn ended_take(&self) -> BTreeSet<(NodeId, u64)> {
        std::mem::take(&mut *self.queues.ended.lock())
    }

    /// Decides the interval of reports that the next answer tells the agent, and holds its silence against it.
    pub fn interval_tell(&self, session: &RegisteredSession) -> Duration {
        let sessions = self.by_node.lock().len();
        let interval = report_interval(session.opening.report_interval, sessions);
        session.interval_tell(interval);
        interval
    }

    /// Takes the sessions whose agents have reported a load, with it.
    pub fn loads_take(&self) -> Vec<(Arc<RegisteredSession>, ReportedLoad)> {
        let noted = std::mem::take(&mut *self.queues.loads.lock());
        let taken = |node| {
            let session = self.get(node)?;
            let load = session.load_take()?;
            Some((session, load))
        };
        noted.into_iter().filter_map(taken).collect()
    }

    /// Every open session.
    pub fn all(&self) -> Vec<Arc<RegisteredSession>> {
        self.by_node.lock().values().cloned().collect()
    }
}

/// The credit that an answer costs its agent.
fn answer_cost(answer: &AgentAnswer) -> usize {
    match answer {
        AgentAnswer::Log(chunk) if chunk.end && chunk.data.is_empty() => 0,
        AgentAnswer::Log(chunk) => stream_cost(chunk.data.len()),
        AgentAnswer::Exec(output) => match &output.output {
            Some(Output::Stdout(data) | Output::Stderr(data)) => stream_cost(data.len()),
            _ => 0,
        },
        AgentAnswer::Result(_) | AgentAnswer::Gone | AgentAnswer::Broken(_) => 0,
    }
}

/// Returns true if the answer is the last one.
fn is_last(answer: &AgentAnswer) -> bool {
    match answer {
        AgentAnswer::Log(chunk) => chunk.end,
        AgentAnswer::Exec(output) => !matches!(output.output, Some(Output::Stdout(_) | Output::Stderr(_))),
        AgentAnswer::Result(_) | AgentAnswer::Gone | AgentAnswer::Broken(_) => true,
    }
}

#[cfg(test)]
pub(super) fn opening(node: u64, id: u64) -> Opening {
    let report_interval = Duration::from_secs(1);
    Opening { node: NodeId(node), id, now: Duration::ZERO, report_interval, failed: 0 }
}

#[cfg(test)]
mod tests {
    use borough_proto::bounds::STREAM_DATA_BYTES_MAX;

    use super::*;

    fn log(id: u64, bytes: usize) -> AgentAnswer {
        AgentAnswer::Log(v1::LogChunk { id, data: vec![0; bytes].into(), ..Default::default() })
    }

    #[tokio::test]
    async fn answers_reach_only_who_asked() {
        let sessions = Sessions::default();
        let (session, _outbound) = sessions.open(opening(1, 7));
        let mut first = session.request();
        let mut second = session.request();
        session.answer(second.id, log(second.id, 2));
        session.answer(first.id, log(first.id, 1));
        session.answer(99, log(99, 1));
        assert!(matches!(first.next().await, Some(AgentAnswer::Log(chunk)) if chunk.data.len() == 1));
        assert!(matches!(second.next().await, Some(AgentAnswer::Log(chunk)) if chunk.data.len() == 2));
    }

    /// A slow reader holds one window. The agent may send more only as the reader reads.
    #[tokio::test]
    async fn what_is_read_is_given_back_as_credit_and_more_is_never_held() {
        let sessions = Sessions::default();
        let (session, mut outbound) = sessions.open(opening(1, 7));
        let mut answers = session.request();
        let size = STREAM_DATA_BYTES_MAX;
        let fit = STREAM_WINDOW_BYTES / stream_cost(size);
        for _ in 0..fit {
            session.answer(answers.id, log(answers.id, size));
        }
        let mut credit = 0;
        for _ in 0..fit {
            assert!(matches!(answers.next().await, Some(AgentAnswer::Log(_))));
            while let Ok(Ok(v1::GatewayMessage { message: Some(Message::Credit(more)) })) =
                outbound.try_recv()
            {
                assert_eq!(more.id, answers.id);
                credit += more.bytes;
            }
        }
        let read = u64::try_from(fit * stream_cost(size)).unwrap();
        assert!(credit <= read && read - credit < u64::try_from(STREAM_WINDOW_BYTES / 4).unwrap());
        // After reading, a full window fits again. One answer more exceeds the credit.
        for _ in 0..=fit {
            session.answer(answers.id, log(answers.id, size));
        }
        for _ in 0..fit {
            assert!(matches!(answers.next().await, Some(AgentAnswer::Log(_))));
        }
        assert!(matches!(answers.next().await, Some(AgentAnswer::Broken(_))));
        assert!(answers.next().await.is_none());
    }

    #[tokio::test]
    async fn input_waits_for_the_command_to_read() {
        let sessions = Sessions::default();
        let (session, _outbound) = sessions.open(opening(1, 7));
        let answers = session.request();
        let input = answers.input();
        input.try_acquire_many(u32::try_from(STREAM_WINDOW_BYTES).unwrap()).unwrap().forget();
        assert!(input.try_acquire().is_err());
        session.input_taken(v1::StreamCredit { id: answers.id, bytes: 5 });
        assert_eq!(input.available_permits(), 5);
        session.input_taken(v1::StreamCredit { id: answers.id, bytes: u64::MAX });
        assert_eq!(input.available_permits(), STREAM_WINDOW_BYTES, "never more than the window");
    }

    #[tokio::test]
    async fn a_new_session_ends_the_old_one_but_not_the_other_way_round() {
        let sessions = Sessions::default();
        let (old, mut outbound) = sessions.open(opening(1, 1));
        let mut waiting = old.request();
        let (new, _b) = sessions.open(opening(1, 2));
        assert!(matches!(waiting.next().await, Some(AgentAnswer::Gone)));
        assert!(outbound.try_recv().unwrap().unwrap_err().message().contains("newer session"));
        sessions.close(&old, Duration::ZERO);
        assert!(new.is_current() && sessions.get(NodeId(1)).is_some());
        assert!(!old.is_current());
    }

    #[test]
    fn work_counts_for_the_lease_and_time_makes_it_lasting() {
        use DesiredProgress::{Complete, Partial};
        let sessions = Sessions::default();
        let at = Duration::from_secs;
        let (session, _outbound) = sessions.open(Opening { failed: 3, ..opening(1, 7) });
        assert!(session.worked_at().is_none(), "a registration is no work");
        assert!(
            !session.worked(at(9), Partial) && session.worked_at().is_none(),
            "after failures: not before it is complete"
        );
        assert!(session.worked(at(9), Complete) && session.worked_at() == Some(at(9)));
        assert!(!session.worked(at(10), Complete) && session.is_lasting(), "once");
        let (fresh, _outbound) = sessions.open(opening(2, 8));
        assert!(!fresh.worked(at(1), Partial) && fresh.worked_at() == Some(at(1)));
        assert!(!fresh.worked(at(2), Complete) && !fresh.is_lasting(), "too short");
    }
}
