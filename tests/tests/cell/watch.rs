//! Watches from positions that cannot be resumed: the watcher gets an error and must list again.

use borough_client::{CellItem, EndpointItem};
use borough_proto::v1::{Cursor, WatchFilter};
use borough_tests::{TestCell, http_get, journal_trim_all, options};
use futures::StreamExt as _;

/// The error of a watch of the cell from `cursor` that cannot be resumed.
async fn list_again_error(cell: &TestCell, cursor: Cursor) -> Option<String> {
    let mut changes = cell.client().watch_cell(WatchFilter::default(), Some(cursor));
    match tokio::time::timeout(borough_tests::DEADLINE, changes.next()).await.unwrap() {
        Some(Ok(CellItem::Resync(why))) => Some(why),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn watchers_with_trimmed_or_foreign_cursors_must_list_again() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    let begin = cell.client().cell_get().await.unwrap().1.unwrap();
    cell.run("one.yaml", "name: one\ntask: {command: [sleep, 600], ports: [http], grace: 200ms}\n").await;
    assert!(list_again_error(&cell, begin.clone()).await.is_none(), "nothing was trimmed yet");
    let foreign = Cursor { store_epoch: begin.store_epoch + 1, ..begin.clone() };
    assert!(list_again_error(&cell, foreign.clone()).await.is_some());

    // A watch of endpoints gets a resync, and then everything again.
    let mut endpoints = cell.client().watch_endpoints("tester", "one", Some(foreign));
    let first = endpoints.next().await.unwrap().unwrap();
    assert!(matches!(first, EndpointItem::Resync(_)), "{first:?}");
    let second = endpoints.next().await.unwrap().unwrap();
    assert!(
        matches!(&second, EndpointItem::Snapshot { endpoints, .. } if endpoints.len() == 1),
        "{second:?}"
    );
    let nonsense = http_get(&cell.http(), "/v1/cells/other/names", Some(&cell.token())).await.unwrap();
    assert_eq!(nonsense.0, 404);

    cell.control_stop().await;
    journal_trim_all(cell.store(), "alpha").await;
    cell.control_start().await;
    assert!(list_again_error(&cell, begin).await.is_some(), "trimmed");
    // Newer changes arrive as before.
    let now = cell.client().cell_get().await.unwrap().1.unwrap();
    cell.run("two.yaml", "name: two\ncount: 0\ntask: {command: [sleep, 1]}\n").await;
    assert!(list_again_error(&cell, now).await.is_none());
    cell.finish().await;
}
