//! Old versions of a spec, which are forgotten.

use std::collections::BTreeSet;

use borough_model::job::GoneVersions;

use super::*;

/// Gives the job another label: a further version.
async fn labelled(cell: &TestCell, number: u32) {
    let label = BTreeMap::from([("release".to_owned(), number.to_string())]);
    cell.change(change(u128::from(number) + 1_000, "job_label"), async |tx, changes| {
        job_labels_set(tx, changes, JobId(1), &label, &BTreeSet::new()).await
    })
    .await
    .unwrap();
}

async fn forget(cell: &TestCell, request: u128, revision: u64, known: &BTreeSet<u32>) -> usize {
    let before = row(cell, 1).await;
    let gone = GoneVersions::decide(&before, known, &[3].into()).unwrap();
    cell.change(change(request, "job_versions_forget"), async |tx, changes| {
        job_versions_forget(tx, changes, JobId(1), revision, &gone, known).await
    })
    .await
    .unwrap()
}

async fn versions(cell: &TestCell) -> Vec<u32> {
    let history =
        cell.run(async |tx| job_history(&tx, &cell.space, &name("ada"), &name("web"), 10).await).await;
    history.unwrap().into_iter().map(|known| known.version).collect()
}

#[tokio::test]
async fn old_versions_are_forgotten_and_placements_of_them_fail() {
    let cell = TestCell::new().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    for number in 1..50 {
        labelled(&cell, number).await;
    }
    let known: BTreeSet<u32> = (1..=50).collect();
    let seen = row(&cell, 1).await.revision;
    labelled(&cell, 50).await;
    assert_eq!(forget(&cell, 1, seen, &known).await, 0, "the job has changed: tasks may use others");
    assert_eq!(versions(&cell).await.len(), 51);

    let (planned, before) = (version(&cell).await, row(&cell, 1).await);
    assert_eq!(forget(&cell, 2, before.revision, &known).await, 29);
    let after = row(&cell, 1).await;
    assert!(after.is_unchanged_since(before.revision), "nobody has changed the job");
    let kept: Vec<u32> = (31..=51).rev().chain([3]).collect();
    assert_eq!(versions(&cell).await, kept);
    assert!(!may_place(&cell, 1, planned).await, "the placement may have one that is gone");
    assert!(may_place(&cell, 1, version(&cell).await).await);
    check(&cell).await;

    labelled(&cell, 52).await;
    assert_eq!(row(&cell, 1).await.gone_versions().unwrap().below, 31, "it is carried on");
    check(&cell).await;
}
