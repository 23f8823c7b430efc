//! Sessions that do not answer: they have ended without a successor, or hang. Their nodes get no new tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_model::NodeId;
use borough_store::node::SessionFence;
use parking_lot::Mutex;

use super::registry::{RegisteredSession, Sessions};

/// A session that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilentSession {
    pub fence: SessionFence,
    /// From when on the silence counts (monotonic).
    pub since: Duration,
    /// When the gateway noticed it (monotonic).
    pub noticed: Duration,
}

impl SilentSession {
    /// Returns true if the agent has another session with this gateway, or has worked in this one since.
    pub fn is_over(&self, sessions: &Sessions) -> bool {
        let current = sessions.get(self.fence.node);
        current.is_some_and(|current| {
            current.id != self.fence.session || current.silence_limit().since > self.since
        })
    }
}

/// The last sessions of nodes whose agents do not answer, to be written.
#[derive(Debug, Default)]
pub struct SilentSessions(Mutex<BTreeMap<NodeId, SilentSession>>);

impl SilentSessions {
    /// Records that a session does not answer, as noticed at `noticed` (monotonic).
    pub fn note(&self, session: &RegisteredSession, noticed: Duration) {
        let since = session.silence_limit().since;
        self.0.lock().insert(session.node, SilentSession { fence: session.fence(), since, noticed });
    }

    /// Drops what is known of a node whose agent opens a session.
    pub fn forget(&self, node: NodeId) {
        self.0.lock().remove(&node);
    }

    /// Takes at most `most` sessions whose silence was noticed at `until` or before.
    pub fn take(&self, until: Duration, most: usize) -> Vec<SilentSession> {
        let mut silent = self.0.lock();
        let due = silent.iter().filter(|(_, session)| session.noticed <= until).take(most);
        let due: Vec<NodeId> = due.map(|(node, _)| *node).collect();
        due.iter().filter_map(|node| silent.remove(node)).collect()
    }

    /// Returns a session that could not be written, unless a later one is there.
    pub fn put_back(&self, session: SilentSession) {
        self.0.lock().entry(session.fence.node).or_insert(session);
    }
}
