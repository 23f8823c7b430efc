//! Calls through the layer: who waits, who is refused, and how a gateway ends.

use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;

use borough_kv::env::SystemClock;
use borough_model::Name;
use borough_model::access::Identity;
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic_types::StatusExt as _;
use tower::{ServiceExt as _, service_fn};

use super::*;

/// A gateway with few seats, and a service that answers when it may.
#[derive(Clone)]
struct Busy {
    calls: Calls,
    open: Arc<Semaphore>,
    begun: Arc<AtomicUsize>,
}

impl Busy {
    fn new() -> Self {
        Self::measured(&mut Registry::default())
    }

    /// With its metrics in `registry`.
    fn measured(registry: &mut Registry) -> Self {
        let limits = CallLimits { waiting_per_caller: 2, streams: 4, ..CallLimits::of_seats(16) };
        let calls = Calls::new(limits, registry, SystemClock::shared());
        Self { calls, open: Arc::new(Semaphore::new(0)), begun: Arc::default() }
    }

    /// Begins a call of a user.
    fn call(&self, user: &str, method: &str) -> JoinHandle<Result<Response<Body>, Status>> {
        let mut request = Request::new(());
        *request.uri_mut() = format!("/borough.v1.JobService/{method}").parse().unwrap();
        let identity = Identity { user: Name::new(user).unwrap(), groups: Default::default() };
        request.extensions_mut().insert(Principal::User(Arc::new(identity)));
        let Self { open, begun, .. } = self.clone();
        let inner = service_fn(move |_: Request<()>| {
            let (open, begun) = (Arc::clone(&open), Arc::clone(&begun));
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                open.acquire().await.unwrap().forget();
                // A stream that has nothing to say yet.
                let waits = futures::stream::pending::<Result<Frame<Bytes>, Status>>();
                Ok::<_, Infallible>(Response::new(Body::new(StreamBody::new(waits))))
            }
        });
        let service = OverloadLayer::new(self.calls.clone()).layer(inner);
        tokio::spawn(async move {
            let answer = service.oneshot(request).await.unwrap();
            match Status::from_header_map(answer.headers()) {
                Some(status) if status.code() != Code::Ok => Err(status),
                _ => Ok(answer),
            }
        })
    }

    async fn begun(&self, count: usize) {
        while self.begun.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    }

    fn used(&self) -> u32 {
        self.calls.0.seats.lock().seats.used()
    }
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_one_user_is_refused_and_leaves_room_for_another() {
    let busy = Busy::new();
    let storm: Vec<_> = (0..50).map(|_| busy.call("hog", "StopJob")).collect();
    busy.begun(1).await;
    tokio::task::yield_now().await;
    let before = busy.begun.load(Ordering::Relaxed);
    let ann = busy.call("ann", "StopJob");
    busy.begun(before + 1).await;
    // Nothing is answered, so those of the storm that wait are refused in the end.
    tokio::time::sleep(WAIT_MAX * 2).await;
    assert_eq!(busy.begun.load(Ordering::Relaxed), before + 1);
    busy.open.add_permits(100);
    assert!(ann.await.unwrap().is_ok());
    let (mut answered, mut refused) = (0, 0);
    for call in storm {
        match call.await.unwrap() {
            Ok(_) => answered += 1,
            Err(status) => {
                refused += 1;
                assert_eq!(status.code(), Code::ResourceExhausted);
                assert!(status.message().contains("hog asks for more at once"), "{}", status.message());
            }
        }
    }
    assert_eq!((answered, refused), (before, 50 - before));
    assert_eq!(busy.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_that_go_give_their_places_back() {
    let busy = Busy::new();
    let storm: Vec<_> = (0..20).map(|_| busy.call("hog", "GetJob")).collect();
    busy.begun(1).await;
    tokio::task::yield_now().await;
    assert!(busy.used() > 0);
    storm.iter().for_each(JoinHandle::abort);
    for call in storm {
        drop(call.await);
    }
    assert_eq!(busy.used(), 0);
    let held = busy.calls.0.seats.lock();
    assert!(held.waits.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_ends_finishes_what_it_has_begun_and_refuses_the_rest() {
    let busy = Busy::new();
    let begun = busy.call("ann", "SubmitJob");
    busy.begun(1).await;
    let calls = busy.calls.clone();
    let ending = tokio::spawn(async move { calls.end().await });
    tokio::task::yield_now().await;
    let late = busy.call("ann", "SubmitJob").await.unwrap().unwrap_err();
    assert_eq!(late.code(), Code::Unavailable);
    assert!(!ending.is_finished());
    busy.open.add_permits(1);
    assert!(begun.await.unwrap().is_ok());
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_gateway_that_ends_gets_a_status_to_resume_by() {
    let busy = Busy::new();
    busy.open.add_permits(100);
    let stream = busy.call("ann", "Watch").await.unwrap().unwrap();
    let calls = busy.calls.clone();
    let ending = tokio::spawn(async move { calls.streams_end().await });
    let collected = stream.into_body().collect().await.unwrap();
    let status = Status::from_header_map(collected.trailers().unwrap()).unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "GATEWAY_ENDING");
    assert!(details.retry_info().is_some());
    ending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_its_place_until_its_reader_goes() {
    let busy = Busy::new();
    busy.open.add_permits(100);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(busy.call("hog", "Watch").await.unwrap().unwrap());
    }
    let refused = busy.call("hog", "Watch").await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(busy.used(), 0, "an open stream takes no seats");
    let _other = busy.call("ann", "Watch").await.unwrap().unwrap();
    streams.pop();
    assert!(busy.call("hog", "Watch").await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_over_http_have_their_share_like_calls() {
    let busy = Busy::new();
    let identity = Identity { user: Name::new("ann").unwrap(), groups: Default::default() };
    let ann = Principal::User(Arc::new(identity));
    let ask = |method: &str| {
        let path = format!("/borough.v1.NameService/{method}");
        let (calls, ann) = (busy.calls.clone(), ann.clone());
        async move { calls.answered(&path, &ann, Ok).await }
    };
    // Of four streams one caller gets three.
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(ask("WatchEndpoints").await.unwrap().expect("a place"));
    }
    assert_eq!(ask("WatchEndpoints").await.err().unwrap().code(), Code::ResourceExhausted);
    assert!(ask("ListEndpoints").await.unwrap().is_none(), "a list is no stream");
    streams.pop();
    assert!(ask("WatchEndpoints").await.is_ok());
    // Lists of gRPC take the seats that lists over HTTP would have.
    let lists: Vec<_> = (0..16).map(|_| busy.call("ann", "ListJobs")).collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(ask("ListEndpoints").await.err().unwrap().code(), Code::ResourceExhausted);
    lists.iter().for_each(JoinHandle::abort);
    // One that ends lets nobody in.
    busy.calls.0.ending.store(true, Ordering::Release);
    assert_eq!(ask("ListEndpoints").await.err().unwrap().code(), Code::Unavailable);
}

/// Whatever a caller writes into a path, the metrics stay as many.
#[tokio::test]
async fn answers_are_counted_by_method_and_code_and_timed_by_class() {
    let mut registry = Registry::default();
    let busy = Busy::measured(&mut registry);
    busy.open.add_permits(2);
    busy.call("ann", "StopJob").await.unwrap().unwrap();
    busy.call("ann", "Nonsense").await.unwrap().unwrap();
    busy.calls.end().await;
    busy.call("ann", "GetJob").await.unwrap().unwrap_err();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "borough_gateway_calls_answers_total{method=\"JobService/StopJob\",code=\"OK\"} 1",
        "borough_gateway_calls_answers_total{method=\"other\",code=\"OK\"} 1",
        "borough_gateway_calls_answers_total{method=\"JobService/GetJob\",code=\"UNAVAILABLE\"} 1",
        "borough_gateway_calls_seconds_count{class=\"change\"} 2",
        "borough_gateway_calls_seconds_count{class=\"read\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
