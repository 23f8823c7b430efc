//! How nodes join a cell: a join token, which an administrator makes for one node name, and the identity that an agent
//! gets for it.
//!
//! Both are secrets of 256 random bits, and the cell has their digests only. The agent makes the identity, writes it to
//! its disk, and then exchanges the token for it. So the exchange may be repeated: after a crash, or an answer that was
//! lost, the same agent asks for the same identity. Whoever asks for another one with a used token is refused. Renewals
//! work alike: the identity of before counts only to repeat its renewal.
//!
//! All decisions are pure functions of the row and the cell's time.

use borough_kv::{Transaction, Watch};
use borough_model::Name;

use crate::error::{StoreError, StoreResult};
use crate::journal::ChangeSet;
use crate::keys::{self, CellSpace, NodeJoinHeadKey, NodeJoinKey, Prefix, RangeOptions};

pub use crate::row::{JoinToken, JoinTokenUse, NodeIdentity, NodeJoin, SecretDigest};

/// After which part of its time an identity is renewed.
const RENEW_PART: i64 = 3;

/// Why a token or an identity of a node does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// The name has no token, or another one. Make one for this name.
    #[error("it is not the join token of this node: it is for another one, was replaced, or was taken back")]
    TokenUnknown,
    /// Nobody has used it in time. Make another one.
    #[error("the join token has expired")]
    TokenExpired,
    /// Somebody has an identity by it. If that was not this node, revoke it.
    #[error("the join token was used before, and counts once")]
    TokenUsed,
    /// The node has none, or that of another agent. Make a join token for it.
    #[error("it is not the identity of this node: it was ended, or replaced by that of another agent")]
    IdentityUnknown,
    /// Another holder of the same identity has renewed it, such as a copy of the machine.
    #[error("another holder of this identity has renewed it, such as a copy of the machine or a thief")]
    IdentityRenewed,
    /// Its agent has not renewed it in time. Make a join token for the node.
    #[error("the identity has expired")]
    IdentityExpired,
}

/// What an identity proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedNode {
    /// Stays over renewals: a session goes on while it is the same.
    pub line: SecretDigest,
    /// In how many milliseconds it is renewed.
    pub renew_after_ms: u64,
    /// When it counts no longer, unless it is renewed. The cell's time, milliseconds since 1970.
    pub expires_ms: i64,
}

impl NodeIdentity {
    /// When it counts no longer.
    pub fn expires_ms(&self) -> i64 {
        self.renewed_ms.saturating_add(self.lasts_ms)
    }

    fn joined(&self, now_ms: i64) -> JoinedNode {
        let due_ms = self.renewed_ms.saturating_add(self.lasts_ms / RENEW_PART);
        let renew_after_ms = u64::try_from(due_ms.saturating_sub(now_ms)).unwrap_or(0).max(1);
        JoinedNode { line: self.line, renew_after_ms, expires_ms: self.expires_ms() }
    }
}

impl NodeJoin {
    /// Exchanges `token` for the identity `wanted`.
    ///
    /// # Errors
    /// [`JoinRefused`].
    pub fn redeem(
        &self,
        token: SecretDigest,
        wanted: SecretDigest,
        now_ms: i64,
    ) -> Result<Self, JoinRefused> {
        let known = self.token.as_ref().filter(|known| known.digest == token);
        let known = known.ok_or(JoinRefused::TokenUnknown)?;
        if let Some(used) = &known.used {
            let is_current = self.identity.as_ref().is_some_and(|identity| identity.digest == wanted);
            let is_same = used.identity == wanted && is_current;
            return if is_same { Ok(self.clone()) } else { Err(JoinRefused::TokenUsed) };
        }
        if known.expires_ms <= now_ms {
            return Err(JoinRefused::TokenExpired);
        }
        let used = Some(JoinTokenUse { identity: wanted, at_ms: now_ms });
        let identity = NodeIdentity {
            digest: wanted,
            previous: None,
            line: wanted,
            lasts_ms: known.identity_lasts_ms,
            renewed_ms: now_ms,
        };
        Ok(Self { token: Some(JoinToken { used, ..known.clone() }), identity: Some(identity) })
    }

    /// Replaces the identity `shown` by `wanted`.
    ///
    /// # Errors
    /// [`JoinRefused`].
    pub fn renew(&self, shown: SecretDigest, wanted: SecretDigest, now_ms: i64) -> Result<Self, JoinRefused> {
        let known = self.identity.as_ref().ok_or(JoinRefused::IdentityUnknown)?;
        if known.previous == Some(shown) && known.digest == wanted {
            return Ok(self.clone());
        }
        self.proven(shown, now_ms)?;
        let identity =
            NodeIdentity { digest: wanted, previous: Some(shown), renewed_ms: now_ms, ..known.clone() };
        Ok(Self { identity: Some(identity), ..self.clone() })
    }

    /// What the identity `shown` proves at `now_ms`.
    ///
    /// # Errors
    /// [`JoinRefused`].
    pub fn proven(&self, shown: SecretDigest, now_ms: i64) -> Result<JoinedNode, JoinRefused> {
        let known = self.identity.as_ref().ok_or(JoinRefused::IdentityUnknown)?;
        if known.previous == Some(shown) {
            return Err(JoinRefused::IdentityRenewed);
        }
        if known.digest != shown {
            return Err(JoinRefused::IdentityUnknown);
        }
        self.holds(known.line, now_ms)
    }

    /// Whether a session that was opened by an identity of `line` may go on.
    ///
    /// # Errors
    /// [`JoinRefused`].
    pub fn holds(&self, line: SecretDigest, now_ms: i64) -> Result<JoinedNode, JoinRefused> {
        let known = self.identity.as_ref().filter(|known| known.line == line);
        let known = known.ok_or(JoinRefused::IdentityUnknown)?;
        if known.expires_ms() <= now_ms {
            return Err(JoinRefused::IdentityExpired);
        }
        Ok(known.joined(now_ms))
    }

    /// What an export has of it: a token that was used here must not count again in a copy of the cell.
    pub(crate) fn exported(&self) -> Option<Self> {
        self.identity.clone().map(|identity| Self { token: None, identity: Some(identity) })
    }

    /// Returns false for a row that no change writes.
    pub(crate) fn is_sound(&self) -> bool {
        let begins =
            |identity: &NodeIdentity| identity.previous.is_some() || identity.digest == identity.line;
        (self.token.is_some() || self.identity.is_some()) && self.identity.as_ref().is_none_or(begins)
    }
}

/// What an agent shows to get an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinProof {
    Token(SecretDigest),
    Identity(SecretDigest),
}

/// A new join token of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinTokenSpec {
    pub digest: SecretDigest,
    /// For how long it counts, in milliseconds.
    pub lasts_ms: i64,
    pub identity_lasts_ms: i64,
}

/// What is taken back of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinRevoked {
    /// A token that nobody has used.
    Token,
    /// The token, and the identity that the node has.
    Identity,
}

/// A node name with its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeJoinLine {
    pub node: Name,
    pub join: NodeJoin,
}

/// The row of a node name at the read version; empty: it was never given a token.
pub async fn node_join_read(tx: &Transaction, space: &CellSpace, node: &Name) -> StoreResult<NodeJoin> {
    let key = NodeJoinKey { name: node.clone() };
    Ok(keys::read_snapshot(tx, space, &key).await?.unwrap_or_default())
}

/// How often an identity of the cell was ended or replaced. While it stays, an identity ends only by its time.
pub async fn join_head(tx: &Transaction, space: &CellSpace) -> StoreResult<i64> {
    Ok(keys::read_snapshot(tx, space, &NodeJoinHeadKey {}).await?.unwrap_or_default().0)
}

/// A watch that ends when an identity may have ended. It is inert until the transaction is committed.
pub async fn join_head_watch(tx: &Transaction, space: &CellSpace) -> StoreResult<Watch> {
    keys::watch(tx, space, &NodeJoinHeadKey {}).await
}

/// Counts the end of an identity, if the change from `before` to `after` ends one. A renewal ends none. An addition
/// conflicts with no other, so nodes that join at the same time do not fail each other.
fn join_head_move(
    tx: &Transaction,
    space: &CellSpace,
    before: &NodeJoin,
    after: &NodeJoin,
) -> StoreResult<()> {
    let line = |join: &NodeJoin| join.identity.as_ref().map(|identity| identity.line);
    if line(before).is_some() && line(before) != line(after) {
        keys::count_add(tx, space, &NodeJoinHeadKey {}, 1)?;
    }
    Ok(())
}

/// Clears the row of a node name that is removed: whoever has been this node is nobody from now on.
pub(crate) async fn node_join_clear(tx: &Transaction, space: &CellSpace, node: &Name) -> StoreResult<()> {
    let key = NodeJoinKey { name: node.clone() };
    let Some(before) = keys::read(tx, space, &key).await? else { return Ok(()) };
    join_head_move(tx, space, &before, &NodeJoin::default())?;
    keys::clear(tx, space, &key)
}

/// Some rows in the order of names.
pub async fn node_joins_page(
    tx: &Transaction,
    space: &CellSpace,
    after: Option<&Name>,
    limit: usize,
) -> StoreResult<Vec<NodeJoinLine>> {
    let after = after.map(|name| NodeJoinKey { name: name.clone() });
    let options = RangeOptions { after, limit, ..RangeOptions::snapshot() };
    let rows = keys::range(tx, space, &Prefix::<NodeJoinKey>::all(), options).await?;
    Ok(rows.into_iter().map(|(key, join)| NodeJoinLine { node: key.name, join }).collect())
}

/// Gives a node name a join token instead of the one that it has.
pub async fn join_token_create(
    tx: &Transaction,
    changes: &ChangeSet,
    node: &Name,
    spec: JoinTokenSpec,
) -> StoreResult<NodeJoin> {
    let (space, key) = (changes.space(), NodeJoinKey { name: node.clone() });
    let before = keys::read(tx, space, &key).await?.unwrap_or_default();
    let made_ms = changes.at_ms();
    let token = JoinToken {
        digest: spec.digest,
        expires_ms: made_ms.saturating_add(spec.lasts_ms),
        identity_lasts_ms: spec.identity_lasts_ms,
        made_ms,
        by: changes.actor().to_owned(),
        used: None,
    };
    let join = NodeJoin { token: Some(token), ..before };
    keys::write(tx, space, &key, &join)?;
    Ok(join)
}

/// Takes back what a node name has. Returns what it had.
pub async fn join_revoke(
    tx: &Transaction,
    changes: &ChangeSet,
    node: &Name,
    what: JoinRevoked,
) -> StoreResult<NodeJoin> {
    let (space, key) = (changes.space(), NodeJoinKey { name: node.clone() });
    let before = keys::read(tx, space, &key).await?;
    let missing = match what {
        JoinRevoked::Identity => "identity",
        JoinRevoked::Token => "join token",
    };
    let before = before.ok_or_else(|| StoreError::not_found(format!("{missing} of node {node}")))?;
    let after = match what {
        JoinRevoked::Identity => NodeJoin::default(),
        JoinRevoked::Token if before.token.as_ref().is_none_or(|token| token.used.is_some()) => {
            return Err(StoreError::refused(format!(
                "node {node} has used its join token; to end its identity: borough node join-token revoke {node} \
                 --identity"
            )));
        }
        JoinRevoked::Token => NodeJoin { token: None, ..before.clone() },
    };
    join_head_move(tx, space, &before, &after)?;
    if after.identity.is_none() {
        keys::clear(tx, space, &key)?;
    } else {
        keys::write(tx, space, &key, &after)?;
    }
    Ok(before)
}

/// Gives a node the identity `wanted` for what its agent shows. The same again changes nothing.
pub async fn node_join(
    tx: &Transaction,
    changes: &ChangeSet,
    node: &Name,
    proof: JoinProof,
    wanted: SecretDigest,
) -> StoreResult<Result<JoinedNode, JoinRefused>> {
    let (space, key, now_ms) = (changes.space(), NodeJoinKey { name: node.clone() }, changes.at_ms());
    let before = keys::read(tx, space, &key).await?.unwrap_or_default();
    let after = match proof {
        JoinProof::Token(token) => before.redeem(token, wanted, now_ms),
        JoinProof::Identity(shown) => before.renew(shown, wanted, now_ms),
    };
    let joined = after.and_then(|after| Ok((after.proven(wanted, now_ms)?, after)));
    Ok(match joined {
        Ok((joined, after)) => {
            if after != before {
                join_head_move(tx, space, &before, &after)?;
                keys::write(tx, space, &key, &after)?;
            }
            Ok(joined)
        }
        Err(refused) => Err(refused),
    })
}

#[cfg(test)]
mod tests;
