//! Watches from positions that cannot be resumed: the watcher gets an error and must list again.

use borough_client::{CellItem, EndpointItem};
use borough_proto::v1::{Cursor, WatchFilter};
use borough_tests::{TestCell, http_get, journal_trim_all, options};
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The error of a watch of the cell from `cursor` that cannot be resumed.
async fn list_again_error(cell: &TestCell, cursor: Cursor) -> Option<String> {
    let mut changes = cell.client().watch_cell(WatchFilter::default(), Some(cursor));
    match tokio::time::timeout(borough_tests::DEADLINE, changes.next()).await.unwrap() {
        Some(Ok(CellItem::Resync(why))) => Some(why),
        _ => None,
    }
}

/// A position of the same epoch that no store reaches for years.
fn future_of(cursor: &Cursor) -> Cursor {
    let mut stamp = cursor.stamp.to_vec();
    stamp[0] = 0x70;
    Cursor { stamp: stamp.into(), ..cursor.clone() }
}

/// What a stream of events from `position` says before it ends.
async fn event_refusal(cell: &TestCell, position: &Cursor) -> String {
    let stamp: String = position.stamp.iter().map(|byte| format!("{byte:02x}")).collect();
    let request = format!(
        "GET /v1/cells/alpha/names/tester/one/watch HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {}\r\n\
         last-event-id: {}-{stamp}\r\nconnection: close\r\n\r\n",
        cell.token(),
        position.store_epoch,
    );
    let mut stream = TcpStream::connect(cell.http()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(borough_tests::DEADLINE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn watchers_with_trimmed_or_foreign_cursors_must_list_again() {
    let mut cell = TestCell::start(options!().nodes(1)).await;
    let begin = cell.client().cell_get().await.unwrap().1.unwrap();
    cell.run("one.yaml", "name: one\ntask: {command: [sleep, 600], ports: [http], grace: 200ms}\n").await;
    assert!(list_again_error(&cell, begin.clone()).await.is_none(), "nothing was trimmed yet");
    let foreign = Cursor { store_epoch: begin.store_epoch + 1, ..begin.clone() };
    assert!(list_again_error(&cell, foreign.clone()).await.is_some());
    let why =
        list_again_error(&cell, future_of(&begin)).await.expect("a position that the store has not reached");
    assert!(why.contains("list again"), "{why}");

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
    // A reader of events hears the same, whatever position it invents.
    for (position, what) in [
        (Cursor { store_epoch: begin.store_epoch + 1, ..begin.clone() }, "another epoch"),
        (future_of(&begin), "the future"),
    ] {
        let text = event_refusal(&cell, &position).await;
        assert!(text.contains("event: error") && text.contains("list again"), "{what}: {text}");
    }

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
