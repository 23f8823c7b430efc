//! Watches over streams that break, end, and are trimmed.

use std::time::Duration;

use borough_proto::v1::{
    Endpoint, EndpointWithdrawn, Task, WatchEndpointsResponse, WatchFilter, WatchResponse,
    watch_endpoints_response, watch_response,
};
use futures::StreamExt as _;
use tonic::Status;

use super::{client, fake};
use crate::{CellItem, ClientError, EndpointItem};

fn change(stamp: u8, index: u32) -> Result<WatchResponse, Status> {
    let task = Task { index, ..Task::default() };
    let change = Some(watch_response::Change::Task(task));
    Ok(WatchResponse { cursor: Some(fake::cursor(stamp)), change, ..WatchResponse::default() })
}

/// A change that is not the last of its commit.
fn followed(stamp: u8, index: u32) -> Result<WatchResponse, Status> {
    change(stamp, index).map(|message| WatchResponse { more: true, ..message })
}

fn bookmark(stamp: u8) -> Result<WatchResponse, Status> {
    let change = Some(watch_response::Change::Bookmark(true));
    Ok(WatchResponse { cursor: Some(fake::cursor(stamp)), change, ..WatchResponse::default() })
}

fn index(item: CellItem) -> u32 {
    match item {
        CellItem::Change(message) => match message.change {
            Some(watch_response::Change::Task(task)) => task.index,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_broken_inside_a_transaction_goes_on_without_gap_or_repetition() {
    let fake = fake::start().await;
    fake.script.watches.lock().extend([
        // Breaks after two of the three changes of stamp 3.
        vec![change(2, 20), followed(3, 30), followed(3, 31), Err(Status::unavailable("going down"))],
        // Ends, after the first change of the same commit.
        vec![followed(3, 30)],
        vec![followed(3, 30), followed(3, 31), change(3, 32)],
        vec![change(4, 40)],
    ]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), None);
    let seen: Vec<u32> = watch.take(5).map(|item| index(item.unwrap())).collect().await;
    assert_eq!(seen, [20, 30, 31, 32, 40]);
    let resumes = fake.script.watch_resumes.lock().clone();
    let expected = [1, 2, 2, 3].map(|stamp| Some(fake::cursor(stamp)));
    assert_eq!(resumes, expected, "the first starts where the cell was");
}

/// A gateway of a later version sends a kind of change that this client does not know, and the stream breaks behind it.
#[tokio::test]
async fn an_unknown_change_inside_a_transaction_loses_nothing_of_it() {
    let fake = fake::start().await;
    let unknown = || Ok(WatchResponse { change: None, ..followed(3, 0).unwrap() });
    fake.script.watches.lock().extend([
        vec![change(2, 20), unknown(), Err(Status::unavailable("going down"))],
        vec![unknown(), change(3, 31)],
    ]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), None);
    let seen: Vec<CellItem> = watch.take(3).map(Result::unwrap).collect().await;
    assert_eq!((index(seen[0].clone()), index(seen[2].clone())), (20, 31), "{seen:?}");
    assert_eq!(fake.script.watch_resumes.lock().as_slice(), [1, 2].map(|stamp| Some(fake::cursor(stamp))));
}

#[tokio::test]
async fn a_watch_goes_on_from_a_bookmark() {
    let fake = fake::start().await;
    fake.script.watches.lock().extend([vec![change(5, 50), bookmark(9)], vec![change(10, 100)]]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), Some(fake::cursor(4)));
    let seen: Vec<CellItem> = watch.take(3).map(Result::unwrap).collect().await;
    assert!(matches!(&seen[1], CellItem::Bookmark(at) if *at == fake::cursor(9)), "{seen:?}");
    assert_eq!(index(seen[2].clone()), 100);
    let expected = [4, 9].map(|stamp| Some(fake::cursor(stamp)));
    assert_eq!(fake.script.watch_resumes.lock().as_slice(), expected);
}

/// The next gateway is behind the one before: its bookmark says less than what was delivered.
#[tokio::test]
async fn a_bookmark_that_goes_back_is_not_yielded() {
    let fake = fake::start().await;
    fake.script.watches.lock().extend([
        vec![change(5, 50), bookmark(9), Err(Status::unavailable("going down"))],
        vec![bookmark(7), bookmark(9), change(10, 100)],
    ]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), Some(fake::cursor(4)));
    let seen: Vec<CellItem> = watch.take(4).map(Result::unwrap).collect().await;
    let stamps = seen.iter().filter_map(|item| match item {
        CellItem::Bookmark(at) => Some(at.clone()),
        _ => None,
    });
    assert_eq!(stamps.collect::<Vec<_>>(), [9, 9].map(fake::cursor), "{seen:?}");
    assert_eq!(index(seen[3].clone()), 100);
}

#[tokio::test]
async fn a_trimmed_watch_yields_one_resync_and_ends() {
    let fake = fake::start().await;
    fake.script.watches.lock().push_back(vec![change(2, 20), Err(Status::out_of_range("list again"))]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), None);
    let seen: Vec<CellItem> = watch.map(Result::unwrap).collect().await;
    assert_eq!(seen.len(), 2);
    assert!(matches!(&seen[1], CellItem::Resync(why) if why == "list again"), "{seen:?}");
}

#[tokio::test]
async fn a_refused_watch_ends_with_the_refusal() {
    let fake = fake::start().await;
    fake.script.watches.lock().push_back(vec![Err(Status::permission_denied("not yours"))]);
    let watch = client(&[&fake.address], |_| {}).watch_cell(WatchFilter::default(), None);
    let seen: Vec<_> = watch.collect().await;
    assert_eq!(seen.len(), 1);
    assert!(matches!(&seen[0], Err(ClientError::Refused(refusal)) if refusal.message == "not yours"));
}

/// An address at which nobody listens.
fn closed_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_watch_gives_up_after_its_configured_patience() {
    let fake = fake::start().await;
    let patient = |address: &str| {
        let client = client(&[address], |config| config.watch_patience = Some(Duration::from_millis(50)));
        client.watch_cell(WatchFilter::default(), Some(fake::cursor(1)))
    };
    // A gateway that ends each watch at once, and a port on which nobody listens.
    fake.script.watches.lock().extend((0..10_000).map(|_| Vec::new()));
    for address in [fake.address.clone(), closed_port()] {
        let seen: Vec<_> = patient(&address).collect().await;
        assert_eq!(seen.len(), 1);
        assert!(matches!(seen[0], Err(ClientError::Unreachable { attempts: 1.., .. })), "{seen:?}");
    }
}

#[tokio::test]
async fn a_watch_without_a_gateway_says_so_once_and_goes_on() {
    let address = closed_port();
    let client = client(&[&address], |config| config.watch_patience = Some(Duration::from_secs(600)));
    let mut watch = client.watch_cell(WatchFilter::default(), Some(fake::cursor(1)));
    let told = watch.next().await.unwrap().unwrap();
    let CellItem::Absent(absence) = &told else { panic!("{told:?}") };
    assert!(matches!(&*absence.error, ClientError::Unreachable { .. }), "{told:?}");
    assert_eq!(absence.gives_up_in, Some(Duration::from_secs(597)));
    let fake = fake::start_at(&address).await;
    fake.script.watches.lock().push_back(vec![change(2, 20)]);
    assert_eq!(index(watch.next().await.unwrap().unwrap()), 20);
}

#[tokio::test]
async fn a_watch_says_that_a_gateway_answers_again_before_anything_changes() {
    let address = closed_port();
    let client = client(&[&address], |config| config.watch_patience = Some(Duration::from_secs(600)));
    let mut watch = client.watch_cell(WatchFilter::default(), Some(fake::cursor(7)));
    assert!(matches!(watch.next().await, Some(Ok(CellItem::Absent(_)))));
    let fake = fake::start_at(&address).await;
    assert!(fake.script.watches.lock().is_empty(), "the stream stays open and has nothing to say");
    let next = watch.next().await.unwrap().unwrap();
    assert!(matches!(&next, CellItem::Bookmark(at) if *at == fake::cursor(7)), "{next:?}");
}

type Event = watch_endpoints_response::Event;

fn event(stamp: u8, event: Event) -> Result<WatchEndpointsResponse, Status> {
    Ok(WatchEndpointsResponse { event: Some(event), cursor: Some(fake::cursor(stamp)), more: false })
}

fn published(stamp: u8, index: u32) -> Result<WatchEndpointsResponse, Status> {
    event(stamp, Event::Published(Endpoint { index, ..Endpoint::default() }))
}

fn marked(stamp: u8) -> Result<WatchEndpointsResponse, Status> {
    event(stamp, Event::Bookmark(true))
}

/// The indexes of an item, with its kind.
fn summary(item: EndpointItem) -> (&'static str, Vec<u32>) {
    match item {
        EndpointItem::Snapshot { endpoints, .. } => {
            ("snapshot", endpoints.iter().map(|endpoint| endpoint.index).collect())
        }
        EndpointItem::Published(endpoint) => ("published", vec![endpoint.index]),
        EndpointItem::Withdrawn(gone) => ("withdrawn", vec![gone.index]),
        EndpointItem::Bookmark(_) => ("bookmark", Vec::new()),
        EndpointItem::Absent(_) => ("absent", Vec::new()),
        EndpointItem::Resync(_) => ("resync", Vec::new()),
    }
}

#[tokio::test]
async fn a_snapshot_that_broke_starts_again_and_is_seen_whole() {
    let fake = fake::start().await;
    let withdrawn = EndpointWithdrawn { index: 1, ..EndpointWithdrawn::default() };
    fake.script.endpoints.lock().extend([
        vec![published(3, 0)],
        vec![published(4, 0), published(4, 1), marked(4), event(5, Event::Withdrawn(withdrawn))],
        vec![published(6, 2)],
    ]);
    let watch = client(&[&fake.address], |_| {}).watch_endpoints("alice", "web", None);
    let seen: Vec<_> = watch.take(3).map(|item| summary(item.unwrap())).collect().await;
    assert_eq!(seen, [("snapshot", vec![0, 1]), ("withdrawn", vec![1]), ("published", vec![2])]);
    let resumes = fake.script.endpoint_resumes.lock().clone();
    assert_eq!(resumes, [None, None, Some(fake::cursor(5))]);
}

#[tokio::test]
async fn trimmed_endpoints_come_again_as_a_snapshot() {
    let fake = fake::start().await;
    fake.script.endpoints.lock().extend([
        vec![Err(Status::out_of_range("trimmed"))],
        vec![published(8, 3), marked(8)],
        vec![Err(Status::out_of_range("too slow"))],
        vec![marked(9)],
    ]);
    let watch = client(&[&fake.address], |_| {}).watch_endpoints("alice", "", Some(fake::cursor(2)));
    let seen: Vec<_> = watch.take(4).map(|item| summary(item.unwrap())).collect().await;
    let expected = [("resync", vec![]), ("snapshot", vec![3]), ("resync", vec![]), ("snapshot", vec![])];
    assert_eq!(seen, expected);
    let resumes = fake.script.endpoint_resumes.lock().clone();
    assert_eq!(resumes, [Some(fake::cursor(2)), None, Some(fake::cursor(8)), None]);
}
