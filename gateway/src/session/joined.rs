//! The sessions that identities of nodes have opened, and their end with those identities.
//!
//! One reader per cell follows the count of identities that were ended or replaced. While the count stays, a session
//! costs a comparison in memory. When it moves, the reader takes all identities of the cell in a few transactions. An
//! identity whose time is over in memory may have been renewed at another gateway, so the reader looks at its row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use borough_kv::{Idempotency, Watch};
use borough_model::Name;
use borough_store::StoreResult;
use borough_store::join::{
    JoinRefused, JoinedNode, NodeJoin, SecretDigest, join_head, join_head_watch, node_joins_page,
};
use parking_lot::Mutex;

use super::join::{join_read, refused_status};
use super::metrics::EndKind;
use super::registry::RegisteredSession;
use crate::cell::CellContext;

/// The reader looks so often by itself, since a watch may be lost. An identity that is ended ends its session within
/// that and one look.
const LOOK: Duration = Duration::from_secs(2);
/// The least pause between two looks: many nodes that join again at once cost few of them.
const PAUSE: Duration = Duration::from_millis(500);
/// Identities of one read.
const PAGE: usize = 1_000;

/// What an identity proved when it opened a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProvenIdentity {
    pub(crate) joined: JoinedNode,
    /// The count of ended identities at that time.
    pub(crate) head: i64,
}

/// The sessions of one cell that identities have opened.
#[derive(Default)]
pub(crate) struct JoinedSessions {
    held: Mutex<BTreeMap<u64, HeldSession>>,
}

#[derive(Clone)]
struct HeldSession {
    session: Arc<RegisteredSession>,
    node: Name,
    line: SecretDigest,
    /// The count of ended identities at which its own was last seen.
    head: i64,
    expires_ms: i64,
}

/// Sessions to look at, by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DueSessions {
    /// An identity of the cell was ended since these were last looked at.
    moved: BTreeSet<u64>,
    /// The time of their identity is over, unless another gateway has renewed it.
    expired: BTreeMap<u64, Name>,
}

impl JoinedSessions {
    /// Ends `session` with the identity that has opened it.
    pub(crate) fn hold(&self, session: Arc<RegisteredSession>, node: Name, proven: ProvenIdentity) {
        let ProvenIdentity { joined, head } = proven;
        let id = session.id;
        let held = HeldSession { session, node, line: joined.line, head, expires_ms: joined.expires_ms };
        self.held.lock().insert(id, held);
    }

    /// Notes that an identity was renewed at this gateway.
    pub(crate) fn renewed(&self, node: &Name, joined: JoinedNode) {
        let mut held = self.held.lock();
        for session in held.values_mut().filter(|held| held.node == *node && held.line == joined.line) {
            session.expires_ms = joined.expires_ms;
        }
    }

    /// Forgets the sessions that are over. Returns true if none is left.
    fn is_idle(&self) -> bool {
        let mut held = self.held.lock();
        held.retain(|_, held| held.session.is_current());
        held.is_empty()
    }

    /// Which sessions to look at, if so many identities of the cell have ended.
    fn due(&self, head: i64, now_ms: i64) -> DueSessions {
        let mut due = DueSessions::default();
        for (id, held) in &*self.held.lock() {
            if held.head != head {
                due.moved.insert(*id);
            } else if held.expires_ms <= now_ms {
                due.expired.insert(*id, held.node.clone());
            }
        }
        due
    }

    /// Judges a session by the row of its node. Returns it if it must end.
    fn judge(&self, id: u64, join: &NodeJoin, head: i64, now_ms: i64) -> Option<(HeldSession, JoinRefused)> {
        let mut held = self.held.lock();
        let session = held.get_mut(&id)?;
        match join.holds(session.line, now_ms) {
            Ok(joined) => {
                session.head = head;
                session.expires_ms = joined.expires_ms;
                None
            }
            Err(refused) => held.remove(&id).map(|session| (session, refused)),
        }
    }

    fn node(&self, id: u64) -> Option<Name> {
        self.held.lock().get(&id).map(|held| held.node.clone())
    }
}

/// Ends the sessions of a cell with the identities that have opened them, for ever.
pub(crate) async fn joined_follow(cell: Arc<CellContext>) {
    loop {
        if cell.joined.is_idle() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        match look(&cell).await {
            Ok(watch) => drop(tokio::time::timeout(LOOK, watch).await),
            // Without the store, nothing of a session is written either.
            Err(error) => {
                tracing::warn!(cell = %cell.name, %error, "the identities of nodes cannot be read; sessions go on");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Ends the sessions whose identity has ended, and returns a watch for the next end.
async fn look(cell: &CellContext) -> StoreResult<Watch> {
    let space = &cell.space;
    let looked = cell.db.run("join_head", Idempotency::ReadOnly, |tx, _| async move {
        Ok::<_, borough_store::StoreError>((join_head(&tx, space).await?, join_head_watch(&tx, space).await?))
    });
    let (head, watch) = looked.await?;
    // Chosen before the rows are read: the row of a session that opens meanwhile may be read in its older state.
    let due = cell.joined.due(head, cell.clock.wall_ms());
    if !due.moved.is_empty() {
        let (joins, none) = (joins_read(cell).await?, NodeJoin::default());
        for id in due.moved {
            let node = cell.joined.node(id);
            let join = node.and_then(|node| joins.get(&node)).unwrap_or(&none);
            judge(cell, id, join, head);
        }
    }
    for (id, node) in due.expired {
        judge(cell, id, &join_read(cell, &node).await?.0, head);
    }
    Ok(watch)
}

fn judge(cell: &CellContext, id: u64, join: &NodeJoin, head: i64) {
    let ended = cell.joined.judge(id, join, head, cell.clock.wall_ms());
    let Some((HeldSession { session, node, .. }, refused)) = ended else { return };
    if session.is_current() {
        tracing::warn!(cell = %cell.name, %node, %refused, "the session ends with its identity");
        session.end(EndKind::Refused, refused_status(cell, &node, refused));
    }
}

/// The rows of all node names of the cell.
async fn joins_read(cell: &CellContext) -> StoreResult<BTreeMap<Name, NodeJoin>> {
    let (mut joins, space) = (BTreeMap::new(), &cell.space);
    loop {
        let after: Option<Name> = joins.last_key_value().map(|(name, _): (&Name, &NodeJoin)| name.clone());
        let after = after.as_ref();
        let read = cell.db.run("node_joins_page", Idempotency::ReadOnly, |tx, _| async move {
            node_joins_page(&tx, space, after, PAGE).await
        });
        let page = read.await?;
        let is_last = page.len() < PAGE;
        joins.extend(page.into_iter().map(|line| (line.node, line.join)));
        if is_last {
            return Ok(joins);
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_store::join::{
        JoinProof, JoinRevoked, JoinTokenSpec, join_revoke, join_token_create, node_join,
    };
    use borough_testkit::name;

    use super::*;
    use crate::cell::tests::TestGateway;
    use crate::session::registry::{Sessions, opening};

    const LASTS_MS: i64 = 60_000;

    fn digest(byte: u8) -> SecretDigest {
        SecretDigest([byte; 32])
    }

    /// Joins `node` by a new token. Its identity is `byte`.
    async fn joins(gateway: &TestGateway, node: &str, byte: u8) {
        let (node, token) = (name(node), digest(byte + 100));
        let spec = JoinTokenSpec { digest: token, lasts_ms: LASTS_MS, identity_lasts_ms: LASTS_MS };
        gateway
            .write(async |tx, changes| {
                join_token_create(tx, changes, &node, spec).await?;
                node_join(tx, changes, &node, JoinProof::Token(token), digest(byte)).await
            })
            .await
            .unwrap();
    }

    async fn opens(cell: &CellContext, sessions: &Sessions, node: &str, id: u64) -> Arc<RegisteredSession> {
        let (join, head) = join_read(cell, &name(node)).await.unwrap();
        let line = join.identity.as_ref().unwrap().line;
        let joined = join.holds(line, cell.clock.wall_ms()).unwrap();
        let (session, _outbound) = sessions.open(opening(id, id));
        cell.joined.hold(Arc::clone(&session), name(node), ProvenIdentity { joined, head });
        session
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_an_identity_ends_its_session_and_no_other_is_looked_at() {
        let gateway = TestGateway::new().await;
        let (cell, sessions) = (Arc::clone(gateway.cells.get("alpha").unwrap()), Sessions::default());
        for (node, byte) in [("j1", 1), ("j2", 2), ("j3", 3)] {
            joins(&gateway, node, byte).await;
        }
        let one = opens(&cell, &sessions, "j1", 1).await;
        let two = opens(&cell, &sessions, "j2", 2).await;
        let head = join_read(&cell, &name("j1")).await.unwrap().1;
        let now_ms = cell.clock.wall_ms();
        assert_eq!(cell.joined.due(head, now_ms), DueSessions::default(), "nothing to read");

        // A renewal ends nothing. The revocation of another node is a reason to look.
        let renewal = async |node: &str, shown: u8, next: u8| {
            let (node, proof) = (name(node), JoinProof::Identity(digest(shown)));
            gateway
                .write(async |tx, changes| node_join(tx, changes, &node, proof, digest(next)).await)
                .await
                .unwrap()
        };
        renewal("j1", 1, 11).await;
        assert_eq!(join_read(&cell, &name("j1")).await.unwrap().1, head);
        let revoke = async |node: &str| {
            let node = name(node);
            gateway
                .write(async |tx, changes| join_revoke(tx, changes, &node, JoinRevoked::Identity).await)
                .await
        };
        revoke("j3").await;
        drop(look(&cell).await.unwrap());
        assert!(one.is_current() && two.is_current());
        let head = join_read(&cell, &name("j1")).await.unwrap().1;
        assert_eq!(cell.joined.due(head, now_ms), DueSessions::default(), "looked at once");

        // Its own, or its replacement by another agent.
        revoke("j2").await;
        drop(look(&cell).await.unwrap());
        assert!(one.is_current() && !two.is_current());
        let end = two.end_reason().unwrap();
        assert!(end.why.contains("it is not the identity of this node"), "{end:?}");
        joins(&gateway, "j1", 4).await;
        drop(look(&cell).await.unwrap());
        assert!(!one.is_current());
        assert!(cell.joined.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_with_the_time_of_its_identity_unless_that_was_renewed_anywhere() {
        let gateway = TestGateway::new().await;
        let (cell, sessions) = (Arc::clone(gateway.cells.get("alpha").unwrap()), Sessions::default());
        joins(&gateway, "j1", 1).await;
        joins(&gateway, "j2", 2).await;
        let one = opens(&cell, &sessions, "j1", 1).await;
        let two = opens(&cell, &sessions, "j2", 2).await;
        gateway.clock.advance(Duration::from_millis(LASTS_MS.unsigned_abs() / 2));
        // At another gateway: this one learns of it when the time is over.
        let proof = JoinProof::Identity(digest(1));
        let renewed = gateway
            .write(async |tx, changes| node_join(tx, changes, &name("j1"), proof, digest(11)).await)
            .await;
        let renewed = renewed.unwrap();
        gateway.clock.advance(Duration::from_millis(LASTS_MS.unsigned_abs() / 2));
        let (_, head) = join_read(&cell, &name("j1")).await.unwrap();
        assert_eq!(cell.joined.due(head, cell.clock.wall_ms()).expired.len(), 2);
        drop(look(&cell).await.unwrap());
        assert!(one.is_current() && !two.is_current());
        assert!(two.end_reason().unwrap().why.contains("has expired"));
        assert_eq!(cell.joined.due(head, cell.clock.wall_ms()), DueSessions::default());
        // At this one, it needs no look.
        let later = JoinedNode { expires_ms: renewed.expires_ms + LASTS_MS, ..renewed };
        cell.joined.renewed(&name("j1"), later);
        assert_eq!(cell.joined.due(head, renewed.expires_ms), DueSessions::default());
    }
}
