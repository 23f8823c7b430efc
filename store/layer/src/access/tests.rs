//! Grants as rows, and the table that gateways keep.

use borough_kv::Idempotency;
use borough_model::access::{AccessRole, Right};
use borough_model::job::Band;
use borough_model::quota::QuotaLimit;

use super::*;
use crate::error::RefusalRemedy;
use crate::journal::Change;
use crate::quota::{LineChange, quota_change};
use crate::testing::{TestCell, change, name};

fn grant(roles: &[AccessRole], deny: &[Right]) -> AccessGrant {
    AccessGrant {
        roles: roles.iter().copied().collect(),
        deny: deny.iter().copied().collect(),
        ..AccessGrant::default()
    }
}

impl TestCell {
    async fn granted(
        &self,
        number: u128,
        subject: &str,
        grant: &AccessGrant,
        expected: u64,
    ) -> StoreResult<AccessGrantRow> {
        let (change, space): (&Change, _) = (&change(number, "grant_set"), &self.space);
        let subject = &subject.parse().unwrap();
        let set = self.db.run("grant_set", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = grant_change(&tx, &mut changes, subject, grant, expected).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        set.await
    }

    async fn head(&self) -> i64 {
        let space = &self.space;
        let read = self
            .db
            .run("access_head", Idempotency::ReadOnly, |tx, _| async move { access_head(&tx, space).await });
        read.await.unwrap()
    }

    async fn table(&self) -> AccessTable {
        let (mut whole, mut part, space) = (AccessTable::default(), AccessPart::default(), &self.space);
        while !part.is_last() {
            let begin = &part;
            let read = self.db.run("access_read", Idempotency::ReadOnly, |tx, _| async move {
                access_part_read(&tx, space, begin.clone()).await
            });
            let (table, next) = read.await.unwrap();
            whole.grants.extend(table.grants);
            whole.quotas.extend(table.quotas);
            part = next;
        }
        whole
    }
}

#[tokio::test]
async fn a_grant_counts_its_changes_and_says_who_made_them() {
    let cell = TestCell::new().await;
    let (runner, viewer) = (grant(&[AccessRole::Runner], &[]), grant(&[AccessRole::Viewer], &[]));
    let first = cell.granted(1, "user/ann", &runner, 0).await.unwrap();
    assert_eq!((first.revision, first.grant()), (1, runner.clone()));
    let head = cell.head().await;
    assert_eq!(cell.granted(2, "user/ann", &runner, 0).await.unwrap(), first, "the same again");
    assert_eq!(cell.head().await, head, "nothing has changed");
    let refused = cell.granted(3, "user/ann", &viewer, 9).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { remedy: RefusalRemedy::ReadAgain, .. }), "{refused:?}");
    let refused = refused.to_string();
    assert!(refused.contains("is at revision 1, by ") && refused.contains("made for 9"), "{refused}");
    let gone = cell.granted(4, "user/ann", &AccessGrant::default(), 1).await.unwrap();
    assert_eq!((gone.revision, gone.changes.len()), (2, 2));
    assert_eq!(gone.changes[0].grant(), runner);
    assert!(cell.head().await > head);
    for number in 5..20 {
        let next = if number % 2 == 0 { &runner } else { &viewer };
        cell.granted(number, "user/ann", next, 0).await.unwrap();
    }
    let last = cell.granted(20, "user/ann", &AccessGrant::default(), 0).await.unwrap();
    assert_eq!(last.changes.len(), GRANT_CHANGES_MAX);
}

#[tokio::test]
async fn the_table_has_every_grant_in_force_and_the_quotas_of_all_bands() {
    let cell = TestCell::new().await;
    for number in 0..CHUNK_ROWS + 5 {
        let subject = format!("user/u{number:05}");
        let roles =
            if number % 2 == 0 { grant(&[AccessRole::Runner], &[]) } else { grant(&[], &[Right::Read]) };
        cell.granted(number as u128 + 1, &subject, &roles, 0).await.unwrap();
    }
    cell.granted(90_000, "group/web", &grant(&[AccessRole::Admin], &[]), 0).await.unwrap();
    cell.granted(90_001, "user/u00000", &AccessGrant::default(), 0).await.unwrap();
    let before = cell.head().await;
    let (change, space) = (&change(90_002, "quota_set"), &cell.space);
    for band in [Band::Batch, Band::Production] {
        let (user, limit) = (
            &AccessSubject::User(name("ann")),
            &QuotaLimit { tasks_max: Some(3), until_ms: Some(9), ..QuotaLimit::default() },
        );
        let set = cell.db.run("quota_set", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let asked = LineChange { holder: user, band, limit, expected: 0, capacity: None };
            quota_change(&tx, &mut changes, &asked).await?;
            changes.append(&tx)
        });
        set.await.unwrap();
    }
    assert_eq!(cell.head().await, before + 2, "a quota is news for gateways");
    let table = cell.table().await;
    assert_eq!(table.grants.len(), CHUNK_ROWS + 5);
    assert!(!table.grants.contains_key(&"user/u00000".parse().unwrap()), "it gives nothing any more");
    let window = QuotaWindow { from_ms: None, until_ms: Some(9) };
    let tie = QuotaTie { window: Some(window), parent: None };
    let quotas =
        [Band::Batch, Band::Production].map(|band| ((AccessSubject::User(name("ann")), band), tie.clone()));
    assert_eq!(table.quotas, quotas.into());
}
