//! Rows of member cells, and what the journal, the mirror and the check say of them.

use borough_kv::Idempotency;
use borough_model::member::MemberReport;

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::journal::{Listed, cell_list_chunked};
use crate::mirror::MirrorState;
use crate::testing::{TestCell, change, name};

fn spec(gateway: &str) -> MemberSpec {
    MemberSpec { gateways: vec![gateway.to_owned()], labels: [("region".to_owned(), "eu".to_owned())].into() }
}

impl TestCell {
    async fn member_join(&self, number: u64, cell: &str, spec: &MemberSpec) -> StoreResult<MemberRow> {
        let (change, space, cell) = (&change(number.into(), "member_join"), &self.space, &name(cell));
        let joined = self.db.run("member_join", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = member_join(&tx, &mut changes, MemberId(number), cell, spec.clone()).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        joined.await
    }

    async fn member_change(
        &self,
        number: u128,
        cell: &str,
        of: &MemberEdit,
        at: u64,
    ) -> StoreResult<MemberRow> {
        let (change, space, cell) = (&change(number, "member_change"), &self.space, &name(cell));
        let changed = self.db.run("member_change", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = member_change(&tx, &mut changes, cell, of, at).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        changed.await
    }

    async fn member_leave(&self, number: u128, cell: &str) -> StoreResult<MemberRow> {
        let (change, space, cell) = (&change(number, "member_leave"), &self.space, &name(cell));
        let left = self.db.run("member_leave", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = member_leave(&tx, &mut changes, cell).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        left.await
    }

    async fn seen_record(&self, seen: &[(Name, MemberSeen)]) {
        let space = &self.space;
        let recorded = self.db.run("members_seen_record", Idempotency::Natural, |tx, _| async move {
            members_seen_record(&tx, space, seen).await
        });
        recorded.await.unwrap();
    }

    async fn seen(&self) -> BTreeMap<Name, MemberSeen> {
        let space = &self.space;
        let listed = self.db.run("members_seen_list", Idempotency::ReadOnly, |tx, _| async move {
            members_seen_list(&tx, space).await
        });
        listed.await.unwrap()
    }
}

fn seen(row: &MemberRow) -> MemberSeen {
    MemberSeen::looked(None, row, Ok(MemberReport::default()), 5)
}

#[tokio::test]
async fn a_cell_joins_once_changes_and_leaves() {
    let cell = TestCell::new().await;
    let joined = cell.member_join(1, "beta", &spec("a:1")).await.unwrap();
    assert_eq!((joined.id, joined.revision, joined.cordoned), (MemberId(1), 1, false));
    let twice = cell.member_join(2, "beta", &spec("a:2")).await.unwrap_err().to_string();
    assert!(twice.contains("is a member, at a:1"), "{twice}");
    let wrong = cell.member_join(3, "gamma", &spec("nowhere")).await.unwrap_err();
    assert!(
        matches!(&wrong, StoreError::InvalidSpec { errors } if errors[0].path == "gateways[0]"),
        "{wrong}"
    );
    let home = cell.space.to_string();
    let itself = cell.member_join(4, &home, &spec("a:3")).await.unwrap_err().to_string();
    assert!(itself.contains("is the home of the federation"), "{itself}");

    let cordon = MemberEdit { cordoned: Some(true), ..MemberEdit::default() };
    let cordoned = cell.member_change(5, "beta", &cordon, 1).await.unwrap();
    assert_eq!((cordoned.revision, cordoned.cordoned), (2, true));
    assert_eq!(cell.member_change(6, "beta", &cordon, 0).await.unwrap().revision, 2, "the same again");
    let late = cell.member_change(7, "beta", &cordon, 1).await.unwrap_err().to_string();
    assert!(late.contains("borough cell members beta"), "{late}");
    let moved = MemberEdit {
        gateways: Some(vec!["b:1".to_owned(), "b:2".to_owned()]),
        labels: [("tier".to_owned(), "gold".to_owned())].into(),
        labels_removed: vec!["region".to_owned(), "missing".to_owned()],
        cordoned: None,
        draining: None,
    };
    let moved = cell.member_change(8, "beta", &moved, 2).await.unwrap();
    assert_eq!((moved.gateways.len(), moved.labels.len(), moved.cordoned), (2, 1, true));
    assert_eq!(moved.labels.get("tier").map(String::as_str), Some("gold"));

    let mut mirror = MirrorState::default();
    let mut listed = 0;
    let sink = |row: Listed| {
        listed += 1;
        mirror.list(row);
    };
    cell_list_chunked(&cell.db, &cell.space, 1, sink).await.unwrap();
    assert_eq!((listed, mirror.members()[&name("beta")].as_ref()), (1, &moved));

    assert_eq!(cell.member_leave(9, "beta").await.unwrap(), moved);
    assert!(matches!(cell.member_leave(10, "beta").await, Err(StoreError::NotFound { .. })));
    let again = cell.member_join(11, "beta", &spec("a:1")).await.unwrap();
    assert_eq!((again.id, again.revision), (MemberId(11), 1));
    let space = &cell.space;
    let check = cell.db.run("cell_check", Idempotency::ReadOnly, |tx, _| async move {
        cell_check(&tx, space, CheckMode::Always).await
    });
    assert_eq!(check.await.unwrap(), []);
}

#[tokio::test]
async fn what_was_seen_is_of_the_present_membership_and_goes_with_it() {
    let cell = TestCell::new().await;
    let row = cell.member_join(1, "beta", &spec("a:1")).await.unwrap();
    let (beta, unknown) = (name("beta"), MemberRow { id: MemberId(2), ..row.clone() });
    cell.seen_record(&[(beta.clone(), seen(&row)), (name("unknown"), seen(&unknown))]).await;
    assert_eq!(cell.seen().await, [(beta.clone(), seen(&row))].into());
    cell.member_leave(2, "beta").await.unwrap();
    assert!(cell.seen().await.is_empty());
    cell.member_join(3, "beta", &spec("a:1")).await.unwrap();
    cell.seen_record(&[(beta, seen(&row))]).await;
    assert!(cell.seen().await.is_empty(), "a look that began before the cell left says nothing");
}
