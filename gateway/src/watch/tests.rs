//! Watchers that name a job get what concerns it, all of it, and little else.

use std::sync::{Arc, Weak};
use std::time::Duration;

use borough_kv::FaultPlan;
use borough_model::job::JobKind;
use borough_model::member::MemberSpec;
use borough_model::{Delta, JobId, JournalEntry, MemberId, TaskId};
use borough_proto::v1;
use borough_proto::v1::job_service_server::JobService as _;
use borough_proto::v1::watch_service_server::WatchService as _;
use borough_store::journal::Cursor;
use borough_store::member::{member_join, member_leave};
use borough_testkit::{job_spec, name};
use futures::StreamExt as _;
use tokio::sync::mpsc;

use super::feed::entries_shown;
use super::*;
use crate::cell::tests::{TestGateway, context, operator_asks, submission};
use crate::cell::{CellContext, EventSubject};
use crate::job::JobServer;

fn withdrawn(job: &str, index: u32) -> Delta {
    let task = TaskId { job: JobId(99), index };
    Delta::EndpointWithdrawn { user: name("ada"), job: name(job), task, revision: 1 }
}

fn job_of(entry: &JournalEntry) -> Option<(String, u32)> {
    entry.deltas.iter().find_map(|delta| match delta {
        Delta::EndpointWithdrawn { job, task, .. } => Some((job.to_string(), task.index)),
        _ => None,
    })
}

async fn happens(gateway: &TestGateway, job: &str, index: u32) {
    let delta = withdrawn(job, index);
    gateway
        .change(async |_, changes| {
            changes.push(delta.clone());
            Ok(())
        })
        .await;
}

/// Reads a feed of `subject` from now on, item by item as they come.
fn reader(cell: &Arc<CellContext>, subject: Option<EventSubject>) -> mpsc::UnboundedReceiver<FeedItem> {
    let (sender, items) = mpsc::unbounded_channel();
    let mut stream = Box::pin(feed(Arc::clone(cell), cell.mirror.cursor(), subject));
    tokio::spawn(async move {
        while let Some(Ok(item)) = stream.next().await {
            if sender.send(item).is_err() {
                return;
            }
        }
    });
    items
}

/// Lets every task run that can.
async fn settled() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_one_job_is_passed_its_entries_alone() {
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    settled().await;
    let mut web = reader(&cell, Some(EventSubject::job("web")));
    let mut all = reader(&cell, None);
    settled().await;
    for index in 0..50 {
        happens(&gateway, "db", index).await;
        if index == 30 {
            happens(&gateway, "web", 7).await;
        }
    }
    let Some(FeedItem::Entry(_, entry)) = web.recv().await else { panic!("no entry") };
    assert_eq!(job_of(&entry), Some(("web".to_owned(), 7)));
    // Nothing else, until silence; what was left out need not be read again.
    let Some(FeedItem::Bookmark(at)) = web.recv().await else { panic!("another entry") };
    assert_eq!(at, cell.mirror.cursor());
    let mut seen = 0;
    while let Some(FeedItem::Entry(..)) = all.recv().await {
        seen += 1;
    }
    assert_eq!(seen, 51);
    assert_eq!(cell.watchers.count(), 1, "only who names something is known by it");
    drop(web);
    happens(&gateway, "web", 8).await;
    settled().await;
    happens(&gateway, "web", 9).await;
    settled().await;
    assert_eq!(cell.watchers.count(), 0, "a watcher that is gone is forgotten");
}

/// A reader that does not read for a while misses nothing: more waits for it than is kept for one watcher.
#[tokio::test(start_paused = true)]
async fn a_slow_watcher_of_one_job_misses_nothing() {
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    settled().await;
    let after: Cursor = cell.mirror.cursor();
    let mut stream = Box::pin(feed(Arc::clone(&cell), after, Some(EventSubject::job("web"))));
    happens(&gateway, "web", 0).await;
    // It has begun, and does not go on.
    let first = stream.next().await.unwrap().unwrap();
    assert!(matches!(first, FeedItem::Entry(..)));
    for index in 1..600 {
        happens(&gateway, "web", index).await;
    }
    let mut next = 1;
    while next < 600 {
        let Some(Ok(FeedItem::Entry(_, entry))) = stream.next().await else { panic!("it ends at {next}") };
        assert_eq!(job_of(&entry), Some(("web".to_owned(), next)));
        next += 1;
    }
}

/// A reader far behind reads the store, which may be ahead of the mirror. What an entry is about is looked up in the
/// mirror, so an entry that it lacks would be taken for one of something forgotten.
#[tokio::test(start_paused = true)]
async fn what_is_read_of_the_store_is_in_the_mirror_as_well() {
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    settled().await;
    let mut after = cell.mirror.cursor();
    for index in 0..20 {
        let delta = withdrawn("web", index);
        // Nobody waits until the mirror shows it.
        gateway
            .write(async |_, changes| {
                changes.push(delta.clone());
                Ok(())
            })
            .await;
        let entries = entries_shown(&cell, after).await.unwrap();
        let shown = cell.mirror.cursor();
        assert!(entries.iter().all(|(cursor, _)| *cursor <= shown), "the mirror is at {shown}");
        let (last, entry) = entries.last().unwrap();
        assert_eq!(job_of(entry), Some(("web".to_owned(), index)));
        after = *last;
    }
}

/// While the mirror is read again, nobody passes entries on. A watcher that begins then gets all, until somebody does.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_begins_too_early_is_passed_its_entries_later() {
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    settled().await;
    cell.watchers.interrupt();
    let mut web = reader(&cell, Some(EventSubject::job("web")));
    settled().await;
    assert_eq!(cell.watchers.count(), 0);
    happens(&gateway, "db", 0).await;
    settled().await;
    assert_eq!(cell.watchers.count(), 1);
    happens(&gateway, "web", 1).await;
    let mut jobs = Vec::new();
    while let Some(FeedItem::Entry(_, entry)) = web.recv().await {
        jobs.extend(job_of(&entry));
    }
    assert_eq!(jobs, [("db".to_owned(), 0), ("web".to_owned(), 1)]);
}

/// A watcher reads one entry and no more. Others read everything. The gateway keeps few of the entries that wait for
/// the watcher; when it reads on, it gets them, and is then told that it missed the rest.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_never_reads_keeps_few_entries_in_memory_and_is_told_to_list_again() {
    const DELTAS: u32 = 250;
    const ENTRIES: usize = 250;
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    settled().await;
    let after = cell.mirror.cursor();
    let mut others = reader(&cell, None);
    let mut entries: Vec<Weak<JournalEntry>> = Vec::new();
    let happen = async |others: &mut mpsc::UnboundedReceiver<FeedItem>, job: &str| {
        gateway
            .change(async |_, changes| {
                (0..DELTAS).for_each(|index| changes.push(withdrawn(job, index)));
                Ok(())
            })
            .await;
        let Some(FeedItem::Entry(_, entry)) = others.recv().await else { panic!("the others stop") };
        Arc::downgrade(&entry)
    };
    for _ in 0..ENTRIES {
        entries.push(happen(&mut others, "web").await);
    }
    let mut stalled = Box::pin(feed(Arc::clone(&cell), after, None));
    let mut named = Box::pin(feed(Arc::clone(&cell), after, Some(EventSubject::job("web"))));
    assert!(stalled.next().await.unwrap().is_ok() && named.next().await.unwrap().is_ok());
    for _ in 0..ENTRIES + 20 {
        happen(&mut others, "db").await;
    }
    let kept = entries.iter().filter(|entry| entry.strong_count() > 0).count();
    assert!(kept <= 20, "{kept} of {ENTRIES} entries are kept for a watcher that does not read");
    gateway.journal_trim().await;
    for watcher in [&mut stalled, &mut named] {
        let mut read = 1;
        let status = loop {
            match watcher.next().await.unwrap() {
                Ok(FeedItem::Entry(..)) => read += 1,
                Ok(FeedItem::Bookmark(_)) => panic!("it has not seen everything"),
                Err(status) => break status,
            }
        };
        assert!(read <= 20, "{read}");
        assert_eq!(status.code(), tonic::Code::OutOfRange, "{status}");
        assert!(watcher.next().await.is_none(), "the watch is over");
    }
    drop(happen(&mut others, "db").await);
}

/// The index of the journal skips what concerns no selected job. The list has each event that a list of all has of it,
/// however much lies between them.
#[tokio::test(start_paused = true)]
async fn a_list_of_events_with_a_selector_misses_none_of_its_jobs() {
    let gateway = TestGateway::with_faults(FaultPlan::none()).await;
    let jobs = JobServer::new(Arc::clone(&gateway.cells));
    let scaled = async |request: u128, name: &str, count: u32| {
        let (cell, user) = ("alpha".to_owned(), "ada".to_owned());
        let request = v1::ScaleJobRequest { context: context(request), cell, user, ..Default::default() };
        let request = v1::ScaleJobRequest { name: name.to_owned(), count, ..request };
        jobs.scale_job(operator_asks(request)).await.unwrap();
    };
    for (request, name) in [(1, "api"), (2, "db")] {
        let mut spec = job_spec("ada", name, JobKind::Service);
        spec.labels.insert("app".to_owned(), name.to_owned());
        jobs.submit_job(operator_asks(submission(request, &spec))).await.unwrap();
    }
    // Several blocks of the index.
    for index in 0..4_500 {
        happens(&gateway, "noise", index).await;
        if index % 1_500 == 700 {
            scaled(u128::from(index) + 10, "api", index).await;
            scaled(u128::from(index) + 11, "db", index).await;
        }
    }
    let server = WatchServer::new(Arc::clone(&gateway.cells));
    let listed = async |selector: &[(&str, bool)]| {
        let condition = |(value, not): &(&str, bool)| v1::LabelMatch {
            key: "app".to_owned(),
            value: (*value).to_owned(),
            not: *not,
        };
        let selector = selector.iter().map(condition).collect();
        let filter = Some(v1::WatchFilter { selector, ..v1::WatchFilter::default() });
        let cell = "alpha".to_owned();
        let request = v1::ListEventsRequest { context: context(0), cell, filter, limit: 10_000 };
        let events = server.list_events(operator_asks(request)).await.unwrap().into_inner().events;
        events.into_iter().map(|event| (event.subject, event.text)).collect::<Vec<_>>()
    };
    let all = listed(&[]).await;
    let of = |name: &str| {
        let of_job = all.iter().filter(|(subject, _)| subject.contains(&format!("ada/{name}")));
        of_job.cloned().collect::<Vec<_>>()
    };
    assert_eq!(listed(&[("api", false)]).await, of("api"));
    assert!(of("api").len() >= 4, "{:?}", of("api"));
    assert!(listed(&[("api", false), ("db", false)]).await.is_empty());
    // Several jobs and a node. Nobody knows the job of the noise, so it has no labels.
    let known: Vec<_> = all.iter().filter(|(subject, _)| !subject.contains("noise")).cloned().collect();
    assert_eq!(listed(&[("none", true)]).await, known);
}

/// The names of member cells in a watch from `after`, up to the first bookmark. Other changes have none.
async fn members_seen(
    gateway: &TestGateway,
    after: Cursor,
    filter: v1::WatchFilter,
) -> Vec<Option<(&'static str, String)>> {
    use v1::watch_response::Change;
    let request = v1::WatchRequest {
        context: context(0),
        cell: "alpha".to_owned(),
        resume: Some(crate::cell::cursor_to_message(after)),
        filter: Some(filter),
    };
    let server = WatchServer::new(Arc::clone(&gateway.cells));
    let mut items = server.watch(operator_asks(request)).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(item) = items.next().await {
        match item.unwrap().change.unwrap() {
            Change::MemberChanged(name) => seen.push(Some(("changed", name))),
            Change::MemberRemoved(name) => seen.push(Some(("removed", name))),
            Change::Bookmark(_) => return seen,
            _ => seen.push(None),
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_asks_for_member_cells_sees_them_join_and_leave() {
    let gateway = TestGateway::new().await;
    let cell = Arc::clone(gateway.cells.get("alpha").unwrap());
    let start = cell.mirror.cursor();
    let labels = [("region".to_owned(), "eu".to_owned())];
    let spec = MemberSpec { gateways: vec!["a:1".to_owned()], labels: labels.into() };
    let (id, beta) = (MemberId(7), &name("beta"));
    gateway
        .change(async |tx, changes| member_join(tx, changes, id, beta, spec.clone()).await.map(drop))
        .await;
    gateway.change(async |tx, changes| member_leave(tx, changes, beta).await.map(drop)).await;
    happens(&gateway, "web", 0).await;
    let members = v1::WatchFilter { members: true, ..v1::WatchFilter::default() };
    let (joined, left) = (Some(("changed", "beta".to_owned())), Some(("removed", "beta".to_owned())));
    let seen = members_seen(&gateway, start, members.clone()).await;
    assert_eq!(seen, [joined.clone(), left.clone()], "and no endpoint");
    let with_endpoints = v1::WatchFilter { endpoints: true, ..members.clone() };
    assert_eq!(members_seen(&gateway, start, with_endpoints).await, [joined.clone(), left, None]);
    let condition = v1::LabelMatch { key: "region".to_owned(), value: "eu".to_owned(), not: false };
    let labelled = v1::WatchFilter { selector: vec![condition.clone()], ..members.clone() };
    assert_eq!(members_seen(&gateway, start, labelled).await, [joined], "one that left has no labels");
    let other = v1::LabelMatch { value: "us".to_owned(), ..condition };
    let other = v1::WatchFilter { selector: vec![other], ..members };
    assert!(members_seen(&gateway, start, other).await.is_empty());
    // A client of before knows neither change.
    assert_eq!(members_seen(&gateway, start, v1::WatchFilter::default()).await, [None]);
}
