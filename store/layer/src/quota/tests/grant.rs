//! Lines without a parent grant no more than the cell has, also if two operators grant at once, and stores from before
//! the index get it with their first change.

use borough_kv::Idempotency;
use borough_model::Resources;
use borough_model::quota::{OversellFactors, QuotaLimit};

use super::*;
use crate::cell::cell_meta_change;
use crate::check::cell_rows_read;
use crate::error::RefusalRemedy;
use crate::journal::ChangeSet;
use crate::keys::{self, CellMetaKey, Prefix, QuotaBelowKey};
use crate::row::CellMeta;

fn cpu(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, ..Resources::default() }
}

fn grant(cpu_millis: u64, parent: Option<&str>) -> QuotaLimit {
    QuotaLimit { resources: cpu(cpu_millis), parent: parent.map(name), ..QuotaLimit::default() }
}

fn user(text: &str) -> AccessSubject {
    AccessSubject::User(name(text))
}

/// Sets the line of a user in a cell of ten cores, after `meanwhile` has run between its reads and its commit.
async fn granted_after(
    cell: &TestCell,
    number: u128,
    holder: &AccessSubject,
    band: Band,
    limit: &QuotaLimit,
    meanwhile: impl AsyncFn(),
) -> StoreResult<u32> {
    let (set, space, capacity, meanwhile) =
        (&change(number, "quota_set"), &cell.space, &cpu(10_000), &meanwhile);
    let asked = &LineChange { holder, band, limit, expected: 0, capacity: Some(capacity) };
    let run = cell.db.run("quota_set", Idempotency::Natural, |tx, attempt| async move {
        let mut changes = ChangeSet::begin(&tx, space, set).await?;
        quota_change(&tx, &mut changes, asked).await?;
        if attempt.number == 1 {
            meanwhile().await;
        }
        changes.append(&tx)?;
        Ok(attempt.number)
    });
    run.await
}

async fn granted(
    cell: &TestCell,
    number: u128,
    holder: &str,
    band: Band,
    limit: &QuotaLimit,
) -> StoreResult<u32> {
    let holder = holder.parse().unwrap_or_else(|_| user(holder));
    granted_after(cell, number, &holder, band, limit, async || {}).await
}

async fn factors_set(cell: &TestCell, number: u128, factors: OversellFactors) -> StoreResult<()> {
    let set = change(number, "cell_settings");
    let changing = cell.change(set, async |tx, changes| {
        let capacity = cpu(10_000);
        oversell_check(tx, changes.space(), factors, Some(&capacity), changes.at_ms()).await?;
        cell_meta_change(tx, changes, |meta| meta.oversell = Some(factors)).await.map(drop)
    });
    changing.await
}

fn capacity_refused<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer.unwrap_err() {
        StoreError::Refused { reason, remedy: RefusalRemedy::Capacity } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn lines_of_production_and_monitoring_grant_no_more_than_the_cell_has() {
    let cell = TestCell::new().await;
    granted(&cell, 1, "group/shop", Band::Production, &grant(6_000, None)).await.unwrap();
    let refused = capacity_refused(granted(&cell, 2, "ann", Band::Monitoring, &grant(5_000, None)).await);
    assert!(
        refused.starts_with(
            "the quota of ann in monitoring does not fit the cell beside the others of production and monitoring: \
             cpu: 11 granted at once of 10 (100% of 10), 1 too many (4 would fit)"
        ),
        "{refused}"
    );
    granted(&cell, 3, "ann", Band::Monitoring, &grant(4_000, None)).await.unwrap();
    // Below a group, it is the group's share. Batch is not checked by default.
    granted(&cell, 4, "bob", Band::Production, &grant(50_000, Some("shop"))).await.unwrap();
    granted(&cell, 5, "bob", Band::Batch, &grant(50_000, None)).await.unwrap();
    capacity_refused(granted(&cell, 6, "bob", Band::Production, &grant(50_000, None)).await);
    // What is taken away has room again.
    granted(&cell, 7, "ann", Band::Monitoring, &QuotaLimit::default()).await.unwrap();
    granted(&cell, 8, "group/shop", Band::Production, &grant(10_000, None)).await.unwrap();
    assert_eq!(
        cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap(),
        []
    );
}

#[tokio::test]
async fn a_factor_that_present_lines_exceed_is_refused() {
    let cell = TestCell::new().await;
    granted(&cell, 1, "ann", Band::Batch, &grant(25_000, None)).await.unwrap();
    let batch = |percent| OversellFactors { batch_percent: Some(percent), ..OversellFactors::default() };
    let refused = capacity_refused(factors_set(&cell, 2, batch(200)).await);
    assert!(
        refused.contains("batch do not fit a factor of 200%: cpu: 25 granted at once of 20"),
        "{refused}"
    );
    factors_set(&cell, 3, batch(300)).await.unwrap();
    granted(&cell, 4, "bob", Band::Batch, &grant(5_000, None)).await.unwrap();
    capacity_refused(granted(&cell, 5, "cyd", Band::Batch, &grant(1, None)).await);
    // A larger factor fits, also if the lines exceed it: nothing is made worse.
    factors_set(&cell, 6, OversellFactors::default()).await.unwrap();
    granted(&cell, 7, "cyd", Band::Batch, &grant(1_000_000, None)).await.unwrap();
    let pools =
        cell.run(async |tx| pool_grants(&tx, &cell.space, Some(&cpu(10_000)), 0).await).await.unwrap();
    let shown: Vec<_> =
        pools.iter().map(|pool| (pool.granted.cpu_millis, pool.percent, pool.excess.len())).collect();
    assert_eq!(shown, [(0, Some(100), 0), (1_030_000, None, 0)]);
}

#[tokio::test]
async fn two_grants_at_once_do_not_exceed_the_cell_together() {
    let cell = TestCell::new().await;
    let other = async || {
        granted(&cell, 2, "bob", Band::Monitoring, &grant(6_000, None)).await.unwrap();
    };
    let answer = granted_after(&cell, 1, &user("ann"), Band::Production, &grant(6_000, None), other).await;
    capacity_refused(answer);
    // Neither a line below a group nor one of another pool makes it run again.
    granted(&cell, 3, "group/shop", Band::Production, &grant(1_000, None)).await.unwrap();
    let other = async || {
        granted(&cell, 5, "cyd", Band::Production, &grant(9_000, Some("shop"))).await.unwrap();
        granted(&cell, 6, "cyd", Band::Batch, &grant(9_000, None)).await.unwrap();
    };
    let tries = granted_after(&cell, 4, &user("ann"), Band::Production, &grant(1_000, None), other).await;
    assert_eq!(tries.unwrap(), 1);
    // A smaller factor at the same time fails a grant that was checked against the larger one.
    let smaller = OversellFactors { production_percent: Some(80), ..OversellFactors::default() };
    let other = async || factors_set(&cell, 8, smaller).await.unwrap();
    let answer = granted_after(&cell, 7, &user("eve"), Band::Production, &grant(2_000, None), other).await;
    assert!(capacity_refused(answer).contains("(80% of 10)"));
}

/// Makes the store as one from before the index.
async fn index_forget(cell: &TestCell) {
    let space = &cell.space;
    let forget = cell.run(async |tx| {
        keys::clear_prefix(&tx, space, &Prefix::<QuotaBelowKey>::all())?;
        let meta = keys::read(&tx, space, &CellMetaKey {}).await?.unwrap();
        keys::write(&tx, space, &CellMetaKey {}, &CellMeta { quotas_indexed: None, ..meta })
    });
    forget.await.unwrap();
}

async fn children(
    cell: &TestCell,
    parent: &str,
    after: Option<&str>,
    limit: usize,
) -> (Vec<String>, Option<String>) {
    let filter = QuotaFilter { parent: Some(name(parent)) };
    let after = after.map(user);
    let page = cell.run(async |tx| quota_page(&tx, &cell.space, &filter, after.as_ref(), limit).await);
    let page = page.await.unwrap();
    let text = |line: &QuotaLine| format!("{} {}", line.holder, line.band.name());
    (page.lines.iter().map(text).collect(), page.next.map(|holder| holder.to_string()))
}

#[tokio::test]
async fn a_store_from_before_the_index_is_read_and_gets_it_with_the_first_change() {
    let cell = TestCell::new().await;
    granted(&cell, 1, "group/shop", Band::Production, &grant(4_000, None)).await.unwrap();
    granted(&cell, 2, "group/shop", Band::Batch, &grant(4_000, None)).await.unwrap();
    for (number, holder) in (3..).zip(["ann", "bob", "group/web"]) {
        granted(&cell, number, holder, Band::Production, &grant(1_000, Some("shop"))).await.unwrap();
    }
    granted(&cell, 6, "ann", Band::Batch, &grant(1_000, Some("shop"))).await.unwrap();
    granted(&cell, 7, "bob", Band::Production, &QuotaLimit::default()).await.unwrap();
    let all = ["user/ann batch", "user/ann production", "group/web production"].map(str::to_owned).to_vec();
    let index =
        async || cell.run(async |tx| cell_rows_read(&tx, &cell.space).await).await.unwrap().quota_below;
    let sound =
        async || cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Settled).await).await.unwrap();
    let grants = async || cell.run(async |tx| pool_grants(&tx, &cell.space, None, 0).await).await.unwrap();
    assert_eq!(children(&cell, "shop", None, 9).await, (all.clone(), None));
    assert_eq!(children(&cell, "shop", None, 1).await, (all[..2].to_vec(), Some("user/ann".to_owned())));
    assert_eq!(children(&cell, "shop", Some("ann"), 1).await, (all[2..].to_vec(), None));
    let (before, known) = (index().await, grants().await);
    index_forget(&cell).await;
    assert_eq!((index().await.len(), sound().await, grants().await), (0, vec![], known));
    assert_eq!(children(&cell, "shop", None, 9).await, (all, None), "without the index");
    // The first change makes it, and is checked against all that was there.
    capacity_refused(granted(&cell, 8, "eve", Band::Production, &grant(7_000, None)).await);
    assert_eq!(index().await.len(), 0, "what is refused writes nothing");
    let refused = granted(&cell, 9, "group/shop", Band::Batch, &QuotaLimit::default()).await.unwrap_err();
    assert!(refused.to_string().contains("group/shop is the parent of ann in batch"), "{refused}");
    granted(&cell, 10, "eve", Band::Production, &grant(6_000, None)).await.unwrap();
    let mut after = index().await;
    assert!(after.remove(&(Band::Production, String::new(), user("eve"))).is_some());
    assert_eq!((after, sound().await), (before, vec![]));
}
