//! The sessions this gateway holds, and the answers that come back through them: logs, exec output, results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use borough_model::NodeId;
use borough_model::node::LoadMeasured;
use borough_proto::v1;
use borough_proto::v1::gateway_message::Message;
use borough_store::node::SessionFence;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tonic::Status;

use super::desired::Life;
use super::notice::{Holders, Notices};

/// Bytes that wait for one reader of logs or exec output before it is given up: twice what a task keeps by default.
pub const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Messages that wait for one agent.
const OUTBOUND_MAX: usize = 4_096;

/// An answer from an agent to one request.
#[derive(Debug)]
pub enum Answer {
    /// Output of a task.
    Log(v1::LogChunk),
    /// Output or end of an exec.
    Exec(v1::ExecOutput),
    /// How a command went; empty is well.
    Result(String),
    /// The session ended, or the reader was too slow.
    Broken(&'static str),
}

struct Waiter {
    sender: mpsc::UnboundedSender<Answer>,
    queued_bytes: Arc<AtomicUsize>,
}

/// Answers to one request, in order.
pub struct Answers {
    /// The request's id, as the agent knows it.
    pub id: u64,
    receiver: mpsc::UnboundedReceiver<Answer>,
    queued_bytes: Arc<AtomicUsize>,
    session: Arc<Session>,
}

impl Answers {
    /// The next answer; `None` after the last.
    pub async fn next(&mut self) -> Option<Answer> {
        let answer = self.receiver.recv().await?;
        self.queued_bytes.fetch_sub(answer_bytes(&answer), Ordering::Relaxed);
        Some(answer)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.session.waiters.lock().remove(&self.id);
    }
}

/// One agent's session.
pub struct Session {
    /// The node.
    pub node: NodeId,
    /// New with each connection.
    pub id: u64,
    outbound: mpsc::Sender<Outbound>,
    waiters: Mutex<BTreeMap<u64, Waiter>>,
    next_request: AtomicU64,
    usage: Mutex<BTreeMap<Life, v1::Usage>>,
    heard_at_us: AtomicU64,
    report_revision: AtomicU64,
    beats: AtomicU64,
    over: AtomicBool,
    ended: Notify,
    /// What the agent last measured of its node, where it is not written yet.
    load: Mutex<Option<LoadTold>>,
    /// Tasks whose rows have changed since the session last looked.
    pub notices: Notices,
}

/// What is sent to an agent: a message, or why the session ends.
pub type Outbound = Result<v1::GatewayMessage, Status>;

/// A measurement that an agent has told; `None`: it cannot tell.
pub type LoadTold = Option<LoadMeasured>;

impl Session {
    /// Notes what the agent has measured of its node, to be written.
    pub fn load_note(&self, told: LoadTold) {
        *self.load.lock() = Some(told);
    }

    /// Takes what is to be written of the node's load.
    pub fn load_take(&self) -> Option<LoadTold> {
        self.load.lock().take()
    }

    /// Gives back what could not be written, unless something newer has come.
    pub fn load_return(&self, told: LoadTold) {
        self.load.lock().get_or_insert(told);
    }

    /// Notes that the agent was heard of at `now` (monotonic).
    pub fn heard(&self, now: Duration) {
        self.heard_at_us.store(u64::try_from(now.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When the agent was last heard of (monotonic).
    pub fn heard_at(&self) -> Duration {
        Duration::from_micros(self.heard_at_us.load(Ordering::Relaxed))
    }

    /// Notes the last report that is durable.
    pub fn report_applied(&self, revision: u64) {
        self.report_revision.store(revision, Ordering::Relaxed);
    }

    /// The last report that is durable.
    pub fn report_revision(&self) -> u64 {
        self.report_revision.load(Ordering::Relaxed)
    }

    /// A number no beat of this session has had.
    pub fn beat_next(&self) -> u64 {
        self.beats.fetch_add(1, Ordering::Relaxed).saturating_add(2)
    }

    /// Sends to the agent; waits where it is slow. `false` where the session is over.
    pub async fn send(&self, message: Message) -> bool {
        self.outbound.send(Ok(v1::GatewayMessage { message: Some(message) })).await.is_ok()
    }

    /// Registers a request; its answers come until the reader drops them.
    pub fn request(self: &Arc<Self>) -> Answers {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        self.waiters.lock().insert(id, Waiter { sender, queued_bytes: Arc::clone(&queued_bytes) });
        Answers { id, receiver, queued_bytes, session: Arc::clone(self) }
    }

    /// Hands an answer to whoever waits for it; one that nobody waits for is dropped.
    pub fn answer(&self, id: u64, answer: Answer) {
        let mut waiters = self.waiters.lock();
        let Some(waiter) = waiters.get(&id) else { return };
        let bytes = answer_bytes(&answer);
        let queued = waiter.queued_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let slow = queued > ANSWER_BYTES_MAX;
        let last = if slow { Answer::Broken("the reader is slower than the task writes") } else { answer };
        if waiter.sender.send(last).is_err() || slow {
            waiters.remove(&id);
        }
    }

    /// What the agent last measured of a life.
    pub fn usage(&self, life: Life) -> Option<v1::Usage> {
        self.usage.lock().get(&life).copied()
    }

    /// Notes samples; those of lives that are over are dropped.
    pub fn usage_note(&self, statuses: impl IntoIterator<Item = (Life, bool, Option<v1::Usage>)>) {
        let mut usage = self.usage.lock();
        for (life, over, sample) in statuses {
            match sample {
                _ if over => drop(usage.remove(&life)),
                Some(sample) => drop(usage.insert(life, sample)),
                None => {}
            }
        }
    }

    /// What lets its gateway write for its node.
    pub fn fence(&self) -> SessionFence {
        SessionFence { node: self.node, session: self.id }
    }

    /// Ends the session and gives the agent the reason. An agent that takes no messages only sees it closed.
    pub fn end(&self, reason: Status) {
        self.over.store(true, Ordering::Release);
        self.outbound.try_send(Err(reason)).ok();
        self.ended.notify_one();
    }

    /// Waits until somebody ends the session.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Whether it is still the session of its node.
    pub fn is_current(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.over.store(true, Ordering::Release);
        for waiter in std::mem::take(&mut *self.waiters.lock()).into_values() {
            // The reader may be gone already.
            waiter.sender.send(Answer::Broken("the node's agent has disconnected")).ok();
        }
    }
}

/// The sessions of one cell on this gateway, one per node: a new one replaces the old.
#[derive(Default)]
pub struct Sessions {
    by_node: Mutex<BTreeMap<NodeId, Arc<Session>>>,
    /// Which agents have lives of which tasks.
    pub holders: Holders,
}

impl Sessions {
    /// Opens the session of `node`, with the receiver of what is to be sent to the agent.
    pub fn open(&self, node: NodeId, id: u64) -> (Arc<Session>, mpsc::Receiver<Outbound>) {
        let (outbound, receiver) = mpsc::channel(OUTBOUND_MAX);
        let session = Arc::new(Session {
            node,
            id,
            outbound,
            waiters: Mutex::default(),
            next_request: AtomicU64::new(1),
            usage: Mutex::default(),
            heard_at_us: AtomicU64::new(0),
            report_revision: AtomicU64::new(0),
            beats: AtomicU64::new(0),
            over: AtomicBool::new(false),
            ended: Notify::new(),
            load: Mutex::default(),
            notices: Notices::default(),
        });
        if let Some(old) = self.by_node.lock().insert(node, Arc::clone(&session)) {
            old.close();
        }
        (session, receiver)
    }

    /// Closes a session, unless a newer one has taken its place.
    pub fn close(&self, session: &Session) {
        session.close();
        let mut by_node = self.by_node.lock();
        if by_node.get(&session.node).is_some_and(|current| current.id == session.id) {
            by_node.remove(&session.node);
        }
    }

    /// The session of `node`, where this gateway holds it.
    pub fn get(&self, node: NodeId) -> Option<Arc<Session>> {
        self.by_node.lock().get(&node).cloned()
    }

    /// Every open session.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.by_node.lock().values().cloned().collect()
    }
}

fn answer_bytes(answer: &Answer) -> usize {
    match answer {
        Answer::Log(chunk) => chunk.data.len(),
        Answer::Exec(output) => match &output.output {
            Some(v1::exec_output::Output::Stdout(data) | v1::exec_output::Output::Stderr(data)) => data.len(),
            _ => 0,
        },
        Answer::Result(_) | Answer::Broken(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(id: u64, bytes: usize) -> Answer {
        Answer::Log(v1::LogChunk { id, data: vec![0; bytes].into(), ..Default::default() })
    }

    #[tokio::test]
    async fn answers_reach_only_who_asked() {
        let sessions = Sessions::default();
        let (session, _outbound) = sessions.open(NodeId(1), 7);
        let mut first = session.request();
        let mut second = session.request();
        session.answer(second.id, log(second.id, 2));
        session.answer(first.id, log(first.id, 1));
        session.answer(99, log(99, 1));
        assert!(matches!(first.next().await, Some(Answer::Log(chunk)) if chunk.data.len() == 1));
        assert!(matches!(second.next().await, Some(Answer::Log(chunk)) if chunk.data.len() == 2));
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_and_given_up() {
        let sessions = Sessions::default();
        let (session, _outbound) = sessions.open(NodeId(1), 7);
        let mut answers = session.request();
        session.answer(answers.id, log(answers.id, ANSWER_BYTES_MAX));
        session.answer(answers.id, log(answers.id, 1));
        assert!(matches!(answers.next().await, Some(Answer::Log(_))));
        assert!(matches!(answers.next().await, Some(Answer::Broken(_))));
        assert!(answers.next().await.is_none());
    }

    #[tokio::test]
    async fn a_new_session_ends_the_old_one_but_not_the_other_way_round() {
        let sessions = Sessions::default();
        let (old, _a) = sessions.open(NodeId(1), 1);
        let mut waiting = old.request();
        let (new, _b) = sessions.open(NodeId(1), 2);
        assert!(matches!(waiting.next().await, Some(Answer::Broken(_))));
        sessions.close(&old);
        assert!(new.is_current() && sessions.get(NodeId(1)).is_some());
        assert!(!old.is_current());
    }
}
