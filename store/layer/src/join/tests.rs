//! What a join token and an identity prove, and when they prove nothing.

use super::*;
use crate::check::{CheckMode, cell_rows_load, cell_violations};
use crate::testing::{TestCell, change, name};

const HOUR_MS: i64 = 3_600_000;
const LASTS_MS: i64 = 7 * 24 * HOUR_MS;

fn digest(byte: u8) -> SecretDigest {
    SecretDigest([byte; 32])
}

const TOKEN: u8 = 1;

fn spec() -> JoinTokenSpec {
    JoinTokenSpec { digest: digest(TOKEN), lasts_ms: HOUR_MS, identity_lasts_ms: LASTS_MS }
}

/// A token that was made at 0 and not used.
fn open() -> NodeJoin {
    let token = JoinToken {
        digest: digest(TOKEN),
        expires_ms: HOUR_MS,
        identity_lasts_ms: LASTS_MS,
        made_ms: 0,
        by: "ann".to_owned(),
        used: None,
    };
    NodeJoin { token: Some(token), identity: None }
}

#[test]
fn a_token_counts_once_and_for_the_same_identity_again() {
    let joined = open().redeem(digest(TOKEN), digest(2), 5).unwrap();
    assert_eq!(joined.proven(digest(2), 6).unwrap().line, digest(2));
    assert_eq!(joined.redeem(digest(TOKEN), digest(2), HOUR_MS + 1).unwrap(), joined, "the answer was lost");
    assert_eq!(joined.redeem(digest(TOKEN), digest(3), 6), Err(JoinRefused::TokenUsed), "a thief");
    let renewed = joined.renew(digest(2), digest(4), 7).unwrap();
    assert_eq!(renewed.redeem(digest(TOKEN), digest(2), 8), Err(JoinRefused::TokenUsed), "a replay");
}

#[test]
fn a_token_of_another_name_or_after_its_time_is_refused() {
    assert_eq!(NodeJoin::default().redeem(digest(TOKEN), digest(2), 5), Err(JoinRefused::TokenUnknown));
    assert_eq!(open().redeem(digest(9), digest(2), 5), Err(JoinRefused::TokenUnknown));
    assert!(open().redeem(digest(TOKEN), digest(2), HOUR_MS - 1).is_ok());
    assert_eq!(open().redeem(digest(TOKEN), digest(2), HOUR_MS), Err(JoinRefused::TokenExpired));
}

#[test]
fn a_renewal_ends_the_identity_of_before_and_may_be_repeated() {
    let joined = open().redeem(digest(TOKEN), digest(2), 0).unwrap();
    let renewed = joined.renew(digest(2), digest(3), 9).unwrap();
    assert_eq!(renewed.proven(digest(3), 10).unwrap().line, digest(2), "sessions go on");
    assert_eq!(renewed.renew(digest(2), digest(3), 10).unwrap(), renewed, "the answer was lost");
    assert_eq!(renewed.proven(digest(2), 10), Err(JoinRefused::IdentityRenewed));
    assert_eq!(renewed.renew(digest(2), digest(4), 10), Err(JoinRefused::IdentityRenewed), "a copy");
    let again = renewed.renew(digest(3), digest(5), 11).unwrap();
    assert_eq!(again.renew(digest(2), digest(3), 12), Err(JoinRefused::IdentityUnknown));
}

#[test]
fn an_identity_counts_for_its_time_after_each_renewal() {
    let joined = open().redeem(digest(TOKEN), digest(2), 0).unwrap();
    assert_eq!(joined.proven(digest(2), 0).unwrap().renew_after_ms, u64::try_from(LASTS_MS / 3).unwrap());
    assert_eq!(joined.proven(digest(2), LASTS_MS - 1).unwrap().renew_after_ms, 1, "it is overdue");
    assert_eq!(joined.proven(digest(2), LASTS_MS), Err(JoinRefused::IdentityExpired));
    assert_eq!(joined.renew(digest(2), digest(3), LASTS_MS), Err(JoinRefused::IdentityExpired));
    let renewed = joined.renew(digest(2), digest(3), LASTS_MS - 1).unwrap();
    assert!(renewed.proven(digest(3), LASTS_MS).is_ok());
}

#[test]
fn another_token_that_is_used_ends_the_sessions_of_the_identity_before() {
    let joined = open().redeem(digest(TOKEN), digest(2), 0).unwrap();
    let line = joined.proven(digest(2), 1).unwrap().line;
    let token = open().token.map(|token| JoinToken { digest: digest(7), ..token });
    let other = NodeJoin { token, ..joined };
    assert!(other.holds(line, 1).is_ok(), "nobody has used it");
    let other = other.redeem(digest(7), digest(8), 2).unwrap();
    assert_eq!(other.holds(line, 3), Err(JoinRefused::IdentityUnknown));
    assert_eq!(other.proven(digest(2), 3), Err(JoinRefused::IdentityUnknown));
}

#[test]
fn digests_are_not_shown_and_an_export_has_no_token() {
    let joined = open().redeem(digest(TOKEN), digest(2), 0).unwrap();
    assert!(!format!("{joined:?}").contains("[2, 2"), "{joined:?}");
    assert_eq!(open().exported(), None);
    let exported = joined.exported().unwrap();
    assert_eq!((exported.token.clone(), exported.is_sound()), (None, true));
    assert!(exported.proven(digest(2), 1).is_ok());
}

impl TestCell {
    async fn token_made(&self, node: &str) {
        let node = name(node);
        let made = self.change(change(1, "join_token_create"), async |tx, changes| {
            join_token_create(tx, changes, &node, spec()).await
        });
        made.await.unwrap();
    }

    async fn joined(&self, node: &str, proof: JoinProof, wanted: u8) -> Result<JoinedNode, JoinRefused> {
        let node = name(node);
        let joined = self.change(change(u128::from(wanted), "node_join"), async |tx, changes| {
            node_join(tx, changes, &node, proof, digest(wanted)).await
        });
        joined.await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_agents_with_one_token_exactly_one_gets_in() {
    let cell = TestCell::new().await;
    cell.token_made("n1").await;
    let proof = JoinProof::Token(digest(TOKEN));
    let (one, other) = tokio::join!(cell.joined("n1", proof, 2), cell.joined("n1", proof, 3));
    let winners = [&one, &other].iter().filter(|joined| joined.is_ok()).count();
    assert_eq!(winners, 1, "{one:?} {other:?}");
    let winner = if one.is_ok() { 2 } else { 3 };
    assert!(cell.joined("n1", proof, winner).await.is_ok(), "it asks again after a crash");
    let refused = cell.joined("n2", proof, 4).await;
    assert_eq!(refused, Err(JoinRefused::TokenUnknown), "another node");
    let rows = cell_rows_load(&cell.db, &cell.space, 5, |_| {}).await.unwrap().0;
    assert_eq!(cell_violations(&rows, CheckMode::Always), Vec::new());
    assert_eq!(rows.joins.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_back_counts_no_more() {
    let cell = TestCell::new().await;
    let revoke = async |what| {
        cell.change(change(8, "join_revoke"), async |tx, changes| {
            join_revoke(tx, changes, &name("n1"), what).await
        })
        .await
    };
    let proof = JoinProof::Token(digest(TOKEN));
    assert!(matches!(revoke(JoinRevoked::Token).await, Err(StoreError::NotFound { .. })));
    cell.token_made("n1").await;
    revoke(JoinRevoked::Token).await.unwrap();
    assert_eq!(cell.joined("n1", proof, 2).await, Err(JoinRefused::TokenUnknown));
    cell.token_made("n1").await;
    cell.joined("n1", proof, 2).await.unwrap();
    let refused = revoke(JoinRevoked::Token).await.unwrap_err();
    assert!(refused.to_string().contains("--identity"), "{refused}");
    revoke(JoinRevoked::Identity).await.unwrap();
    let renewal = cell.joined("n1", JoinProof::Identity(digest(2)), 3).await;
    assert_eq!(renewal, Err(JoinRefused::IdentityUnknown));
}
