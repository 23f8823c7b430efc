//! Rows of merged services, and what the journal and the mirror say of them.

use std::collections::BTreeMap;

use borough_kv::Idempotency;
use borough_model::merged::{LabelCondition, LabelOperator, MERGED_SERVICES_MAX};

use super::*;
use crate::check::{CheckMode, cell_check};
use crate::journal::{Listed, cell_list_chunked};
use crate::mirror::MirrorState;
use crate::testing::{TestCell, change, name};

fn spec(app: &str, shares: &[(&str, u32)]) -> MergedServiceSpec {
    let (key, value, operator) = ("app".to_owned(), app.to_owned(), LabelOperator::Is);
    let shares: BTreeMap<Name, u32> = shares.iter().map(|(job, share)| (name(job), *share)).collect();
    MergedServiceSpec { selector: vec![LabelCondition { key, value, operator }], shares }
}

impl TestCell {
    async fn merged_set(
        &self,
        number: u128,
        service: &str,
        spec: &MergedServiceSpec,
        expected: u64,
    ) -> StoreResult<MergedServiceRow> {
        let (change, space) = (&change(number, "merged_service_set"), &self.space);
        let (user, service) = (&name("ada"), &name(service));
        let new = MergedServiceId(u64::try_from(number).unwrap());
        let set = self.db.run("merged_service_set", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = merged_service_set(&tx, &mut changes, user, service, new, spec, expected).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        set.await
    }

    async fn merged_remove(&self, number: u128, service: &str) -> StoreResult<MergedServiceRow> {
        let (change, space) = (&change(number, "merged_service_remove"), &self.space);
        let (user, service) = (&name("ada"), &name(service));
        let removed = self.db.run("merged_service_remove", Idempotency::Natural, |tx, _| async move {
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let row = merged_service_remove(&tx, &mut changes, user, service).await?;
            changes.append(&tx)?;
            Ok(row)
        });
        removed.await
    }

    /// The rows of a listing.
    async fn merged_listed(&self) -> Vec<MergedServiceRow> {
        let mut state = MirrorState::default();
        let listed = cell_list_chunked(&self.db, &self.space, 2, |listed: Listed| state.list(listed));
        listed.await.unwrap();
        state.merged_services().values().map(|row| (**row).clone()).collect()
    }

    async fn violations(&self) -> Vec<crate::check::Violation> {
        let space = &self.space;
        let check = self.db.run("cell_check", Idempotency::ReadOnly, |tx, _| async move {
            cell_check(&tx, space, CheckMode::Always).await
        });
        check.await.unwrap()
    }
}

#[tokio::test]
async fn a_row_counts_its_changes_and_goes_with_the_verb_of_its_owner() {
    let cell = TestCell::new().await;
    let first = cell.merged_set(1, "shop", &spec("shop", &[]), 0).await.unwrap();
    assert_eq!((first.revision, first.id), (1, MergedServiceId(1)));
    assert_eq!(cell.merged_set(2, "shop", &spec("shop", &[]), 0).await.unwrap(), first, "the same again");
    let refused = cell.merged_set(3, "shop", &spec("web", &[]), 7).await.unwrap_err().to_string();
    assert!(refused.contains("is at revision 1, by ") && refused.contains("made for 7"), "{refused}");
    let second = cell.merged_set(4, "shop", &spec("shop", &[("canary", 5)]), 1).await.unwrap();
    assert_eq!((second.revision, second.id, second.share(&name("canary"))), (2, first.id, Some(5)));
    cell.merged_set(5, "other", &spec("other", &[]), 0).await.unwrap();
    assert_eq!(cell.merged_listed().await.len(), 2);
    assert_eq!(cell.violations().await, []);
    assert_eq!(cell.merged_remove(6, "shop").await.unwrap(), second);
    let absent = cell.merged_remove(7, "shop").await.unwrap_err();
    assert!(matches!(absent, StoreError::NotFound { .. }), "{absent}");
    let again = cell.merged_set(8, "shop", &spec("shop", &[]), 0).await.unwrap();
    assert_eq!((again.revision, again.id), (1, MergedServiceId(8)), "another one");
    assert_eq!(cell.violations().await, []);
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_them() {
    let cell = TestCell::new().await;
    let most = u128::try_from(MERGED_SERVICES_MAX).unwrap();
    for number in 0..most {
        cell.merged_set(number + 1, &format!("s{number}"), &spec("shop", &[]), 0).await.unwrap();
    }
    let refused = cell.merged_set(most + 1, "one-more", &spec("shop", &[]), 0).await.unwrap_err().to_string();
    assert!(refused.contains("accepted: at most 256"), "{refused}");
    // One that exists can still be changed.
    cell.merged_set(most + 2, "s7", &spec("web", &[]), 0).await.unwrap();
    cell.merged_remove(most + 3, "s7").await.unwrap();
    cell.merged_set(most + 4, "one-more", &spec("shop", &[]), 0).await.unwrap();
}
