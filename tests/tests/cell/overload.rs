//! More calls at once than a gateway works on.

use borough_client::JobFilter;
use borough_tests::{TestCell, http_get, options, sse_events, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_storm_of_calls_is_answered_call_by_call() {
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--calls-max", "16"])).await;
    let calls = (0..400).map(|_| {
        let client = cell.client().clone();
        async move { client.job_list(&JobFilter::default()).await }
    });
    let answers = futures::future::join_all(calls).await;
    // Those that found no room were told when to come back, and the client did.
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // A seat is given back after its answer.
    until("every seat is free", || async {
        let (_, metrics) = http_get(&cell.http(), "/metrics", Some(cell.token().trim())).await.ok()?;
        metrics.contains("borough_gateway_calls_seats{class=\"operator\"} 0").then_some(())
    })
    .await;
    cell.finish().await;
}

/// The streams that are open at the gateway.
pub(crate) async fn streams(cell: &TestCell) -> Option<u32> {
    let (_, metrics) = http_get(&cell.http(), "/metrics", Some(cell.token().trim())).await.ok()?;
    let line = metrics.lines().find(|line| line.starts_with("borough_gateway_calls_streams "))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stream_of_events_counts_as_a_stream() {
    let cell = TestCell::start(options!().nodes(1)).await;
    let before = until("the streams", || streams(&cell)).await;
    let events = sse_events(&cell.http(), "/v1/cells/alpha/names/watch", cell.token().trim()).await.unwrap();
    until("one more", || async { streams(&cell).await.filter(|now| *now > before) }).await;
    drop(events);
    cell.finish().await;
}
