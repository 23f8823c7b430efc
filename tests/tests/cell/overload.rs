//! More calls at once than a gateway works on.

use borough_client::JobFilter;
use borough_tests::{TestCell, http_get, options};

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
    let token = cell.token();
    let (code, metrics) = http_get(&cell.http(), "/metrics", Some(token.trim())).await.unwrap();
    assert_eq!(code, 200);
    assert!(metrics.contains("borough_gateway_calls_seats{class=\"operator\"} 0"), "{metrics}");
    cell.finish().await;
}
