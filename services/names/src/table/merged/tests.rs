//! Merged services job by job, against what a look at everything says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::JobId;
use borough_model::merged::{LabelCondition, LabelOperator};
use borough_model::task::{Endpoint, Health};
use proptest::prelude::*;

use super::*;
use crate::table::tests::{at, endpoint, facts, name, place, step};
use crate::table::{CellTable, ListedCell, NamedJobEvent, NamesChanges, NamesTable, ServiceFacts};

/// The service of a user with these conditions, such as `app=shop`, and shares.
pub(crate) fn merged_row(
    user: &str,
    service: &str,
    selector: &[&str],
    shares: &[(&str, u32)],
) -> Arc<MergedServiceRow> {
    let condition = |text: &&str| {
        let (key, value) = text.split_once('=').unwrap();
        let (key, operator) = match key.strip_suffix('!') {
            Some(key) => (key, LabelOperator::IsNot),
            None => (key, LabelOperator::Is),
        };
        LabelCondition { key: key.to_owned(), value: value.to_owned(), operator }
    };
    Arc::new(MergedServiceRow {
        id: MergedServiceId(1),
        user: name(user),
        name: name(service),
        selector: selector.iter().map(condition).collect(),
        shares: shares.iter().map(|(job, share)| (name(job), *share)).collect(),
        revision: 1,
        changed_ms: 0,
        changed_by: "user/ann".to_owned(),
    })
}

/// The key of a merged service of ann.
pub(crate) fn merged_key(service: &str) -> MergedKey {
    MergedKey::of_texts("alpha", "ann", service).unwrap()
}

/// The facts of a job with a port `http` and one label `app`.
pub(crate) fn of_app(job: u64, app: &str) -> ServiceFacts {
    let labels = Arc::new(BTreeMap::from([("app".to_owned(), app.to_owned())]));
    ServiceFacts { labels, ..facts(job, &["http"]) }
}

/// The service `shop` over two jobs: `shop` with nine endpoints, and `shop-canary` with one and a share of 5 per cent.
pub(crate) fn shop() -> NamesTable {
    let mut endpoints: Vec<(Endpoint, i64)> = (0..9)
        .map(|index| (endpoint((1, "shop"), index, &format!("10.0.0.{}", index + 1), &[("http", 80)]), 0))
        .collect();
    endpoints.push((endpoint((2, "shop-canary"), 0, "10.0.1.1", &[("http", 81)]), 0));
    let job = |job: &str, id| ((name("ann"), name(job)), of_app(id, "shop"));
    let rows = ListedCell {
        jobs: vec![job("shop", 1), job("shop-canary", 2), ((name("ann"), name("other")), of_app(3, "other"))],
        nodes: vec![(name("n1"), borough_model::NodeId(1), place("east", "r1"))],
        endpoints,
        merged: vec![merged_row("ann", "shop", &["app=shop"], &[("shop-canary", 5)])],
        ..ListedCell::default()
    };
    let mut table = NamesTable::new([name("alpha")]);
    table.change(&name("alpha"), |cell| cell.replace(rows, at(1)));
    table
}

fn jobs(table: &NamesTable, service: &str) -> Vec<String> {
    let merged = table.merged(&merged_key(service));
    let jobs = merged.into_iter().flat_map(|merged| merged.jobs);
    jobs.map(|job| job.key.job.to_string()).collect()
}

#[test]
fn a_job_joins_with_its_label_and_leaves_with_its_end() {
    let mut table = shop();
    assert_eq!(jobs(&table, "shop"), ["shop", "shop-canary"]);
    let (ann, other) = (name("ann"), name("other"));
    let put = |table: &mut NamesTable, facts: ServiceFacts, version| {
        step(table, |cell| cell.job_put(&ann, &other, facts, NamedJobEvent::Changed, at(version)))
    };
    let before = table.cell("alpha").unwrap().index_of_merged(&ann, &name("shop"));
    let joined = put(&mut table, of_app(3, "shop"), 2);
    assert_eq!(joined.merged, [merged_key("shop")].into());
    assert_eq!(jobs(&table, "shop"), ["other", "shop", "shop-canary"]);
    assert!(table.cell("alpha").unwrap().index_of_merged(&ann, &name("shop")) > before);
    let more = put(&mut table, ServiceFacts { count: 7, ..of_app(3, "shop") }, 3);
    assert_eq!(more.merged, [merged_key("shop")].into(), "a job of the service has changed");
    let over = put(&mut table, ServiceFacts { is_live: false, ..of_app(3, "shop") }, 4);
    assert_eq!(over.merged, [merged_key("shop")].into());
    assert_eq!(jobs(&table, "shop"), ["shop", "shop-canary"]);
    let later = put(&mut table, ServiceFacts { is_live: false, count: 9, ..of_app(3, "shop") }, 5);
    assert_eq!(later.merged, BTreeSet::new(), "it is of no service any more");
    let removed = step(&mut table, |cell| cell.job_remove(JobId(2), at(6)));
    assert_eq!(removed.merged, [merged_key("shop")].into());
    assert_eq!(jobs(&table, "shop"), ["shop"]);
}

#[test]
fn an_endpoint_wakes_the_services_of_its_job_and_no_others() {
    let mut table = shop();
    let bobs = merged_row("bob", "shop", &["app=shop"], &[]);
    let others = merged_row("ann", "others", &["app!=shop"], &[]);
    for row in [bobs, others] {
        step(&mut table, |cell| cell.merged_put(row, at(2)));
    }
    let moved = endpoint((1, "shop"), 3, "10.9.9.9", &[("http", 80)]);
    let changes = step(&mut table, |cell| cell.endpoint_put(&moved, 5, 0, at(3)));
    assert_eq!(changes.merged, [merged_key("shop")].into());
    let gone =
        step(&mut table, |cell| cell.endpoint_remove(&name("ann"), &name("shop"), moved.task, 9, at(4)));
    assert_eq!(gone.merged, [merged_key("shop")].into());
    let other = endpoint((3, "other"), 0, "10.0.2.1", &[("http", 80)]);
    let changes = step(&mut table, |cell| cell.endpoint_put(&other, 5, 0, at(5)));
    assert_eq!(changes.merged, [merged_key("others")].into());
    let node = crate::table::NodePlace { is_draining: true, ..place("east", "r1") };
    let changes = step(&mut table, |cell| cell.node_put(&name("n1"), borough_model::NodeId(1), node, at(6)));
    assert_eq!(changes.merged, [merged_key("shop"), merged_key("others")].into());
}

#[test]
fn a_service_passes_on_to_the_one_that_was_made_with_its_name() {
    let mut table = shop();
    let (ann, shop) = (name("ann"), name("shop"));
    let newer = MergedServiceRow {
        id: MergedServiceId(9),
        ..(*merged_row("ann", "shop", &["app=other"], &[])).clone()
    };
    let put = step(&mut table, |cell| cell.merged_put(Arc::new(newer), at(2)));
    assert_eq!((put.merged, put.lists), ([merged_key("shop")].into(), [name("alpha")].into()));
    assert_eq!(jobs(&table, "shop"), ["other"]);
    let old = step(&mut table, |cell| cell.merged_remove(&ann, &shop, MergedServiceId(1), at(3)));
    assert!(old.is_empty(), "of the one before");
    let before = table.cell("alpha").unwrap().index_of_merged(&ann, &shop);
    let gone = step(&mut table, |cell| cell.merged_remove(&ann, &shop, MergedServiceId(9), at(4)));
    assert_eq!(gone.merged, [merged_key("shop")].into());
    assert!(table.merged(&merged_key("shop")).is_none());
    assert!(table.cell("alpha").unwrap().index_of_merged(&ann, &shop) > before);
}

#[test]
fn a_listing_keeps_the_index_of_a_service_that_is_the_same() {
    let mut table = shop();
    let index =
        |table: &NamesTable| table.cell("alpha").unwrap().index_of_merged(&name("ann"), &name("shop"));
    let before = index(&table);
    let rows = |row: Arc<MergedServiceRow>, app: &str| ListedCell {
        jobs: vec![((name("ann"), name("shop")), of_app(1, app))],
        merged: vec![row],
        ..ListedCell::default()
    };
    let row = || merged_row("ann", "shop", &["app=shop"], &[("shop-canary", 5)]);
    assert_eq!(
        step(&mut table, |cell| cell.replace(rows(row(), "shop"), at(5))).merged,
        [merged_key("shop")].into()
    );
    let listed = index(&table);
    assert!(listed > before);
    assert!(step(&mut table, |cell| cell.replace(rows(row(), "shop"), at(6))).is_empty());
    assert_eq!(index(&table), listed);
    let shares = merged_row("ann", "shop", &["app=shop"], &[("shop-canary", 6)]);
    let changed = step(&mut table, |cell| cell.replace(rows(shares, "shop"), at(7)));
    assert_eq!((changed.merged, changed.services), ([merged_key("shop")].into(), BTreeSet::new()));
    let gone = step(&mut table, |cell| cell.replace(ListedCell::default(), at(8)));
    assert_eq!(gone.merged, [merged_key("shop")].into());
}

#[test]
fn every_endpoint_comes_once_from_wherever_they_begin() {
    let table = shop();
    let merged = table.merged(&merged_key("shop")).unwrap();
    let from = |start| -> Vec<(usize, u32)> {
        merged.endpoints_from(start).map(|(job, endpoint)| (job, endpoint.task.index)).collect()
    };
    let all = from(0);
    assert_eq!((all.len(), all[0], all[9]), (10, (0, 0), (1, 0)));
    for start in [0, 1, 8, 9, 10, 23, u64::MAX] {
        let turned = from(start);
        assert_eq!(turned[0], all[usize::try_from(start % 10).unwrap()], "{start}");
        assert_eq!(turned.iter().collect::<BTreeSet<_>>().len(), 10);
    }
    let mut lost = shop();
    step(&mut lost, |cell| cell.job_remove(JobId(1), at(2)));
    step(&mut lost, |cell| cell.job_remove(JobId(2), at(3)));
    assert_eq!(lost.merged(&merged_key("shop")).unwrap().endpoints_from(7).count(), 0);
}

#[test]
fn the_parts_count_endpoints_with_the_port() {
    let mut table = shop();
    let canary = endpoint((2, "shop-canary"), 0, "10.0.1.1", &[("admin", 81)]);
    step(&mut table, |cell| cell.endpoint_put(&canary, 5, 0, at(2)));
    let merged = table.merged(&merged_key("shop")).unwrap();
    let (http, admin) = (name("http"), name("admin"));
    let part = |port| {
        let parts = merged.parts(port);
        (parts.part(0), parts.part(1))
    };
    assert_eq!(part(MergedPort::Any), (950_000, 50_000));
    assert_eq!(part(MergedPort::Named(&http)), (1_000_000, 0));
    assert_eq!(part(MergedPort::Named(&admin)), (0, 1_000_000));
    assert_eq!(part(MergedPort::Placed(0)), (1_000_000, 0), "the first port of its file is http");
    assert_eq!(part(MergedPort::Placed(1)), (0, 0));
}

/// One thing that happens to a cell.
#[derive(Clone, Debug)]
enum Happening {
    Job { user: usize, job: u64, app: usize, is_live: bool },
    JobGone { job: u64 },
    Endpoint { job: u64, index: u32, is_healthy: bool },
    Merged { user: usize, service: usize, selector: usize, id: u64 },
    MergedGone { user: usize, service: usize, id: u64 },
}

const USERS: [&str; 2] = ["ann", "bob"];
const APPS: [&str; 3] = ["shop", "web", "db"];
const SELECTORS: [&[&str]; 4] = [&["app=shop"], &["app!=web"], &["app=web"], &["app!=shop", "app!=db"]];

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0..2_usize, 0..4_u64, 0..3_usize, any::<bool>())
            .prop_map(|(user, job, app, is_live)| Happening::Job { user, job, app, is_live }),
        (0..8_u64).prop_map(|job| Happening::JobGone { job }),
        (0..8_u64, 0..2_u32, any::<bool>()).prop_map(|(job, index, is_healthy)| Happening::Endpoint {
            job,
            index,
            is_healthy
        }),
        (0..2_usize, 0..2_usize, 0..4_usize, 1..3_u64)
            .prop_map(|(user, service, selector, id)| Happening::Merged { user, service, selector, id }),
        (0..2_usize, 0..2_usize, 1..3_u64).prop_map(|(user, service, id)| Happening::MergedGone {
            user,
            service,
            id
        }),
    ]
}

/// The user and the name of the job with this number.
fn job_of(number: u64) -> (borough_model::Name, borough_model::Name) {
    (name(USERS[usize::try_from(number / 4).unwrap()]), name(&format!("j{number}")))
}

fn happens(cell: &mut CellTable, happening: &Happening, version: i64) -> NamesChanges {
    let revision = u64::try_from(version).unwrap();
    match *happening {
        Happening::Job { user, job, app, is_live } => {
            let number = u64::try_from(user).unwrap() * 4 + job;
            let (user, job) = job_of(number);
            let facts = ServiceFacts { is_live, ..of_app(number + 1, APPS[app]) };
            cell.job_put(&user, &job, facts, NamedJobEvent::Created, at(version))
        }
        Happening::JobGone { job } => cell.job_remove(JobId(job + 1), at(version)),
        Happening::Endpoint { job, index, is_healthy } => {
            let (user, job_name) = job_of(job);
            let health = if is_healthy { Health::Healthy } else { Health::Unknown };
            let host = format!("10.0.0.{version}");
            let known = endpoint((job + 1, job_name.as_str()), index, &host, &[("http", 80)]);
            cell.endpoint_put(&Endpoint { user, health, ..known }, revision, 0, at(version))
        }
        Happening::Merged { user, service, selector, id } => {
            let row = merged_row(USERS[user], &format!("s{service}"), SELECTORS[selector], &[]);
            let row = MergedServiceRow { id: MergedServiceId(id), revision, ..(*row).clone() };
            cell.merged_put(Arc::new(row), at(version))
        }
        Happening::MergedGone { user, service, id } => cell.merged_remove(
            &name(USERS[user]),
            &name(&format!("s{service}")),
            MergedServiceId(id),
            at(version),
        ),
    }
}

/// What the views show of each merged service, found out by a look at everything.
fn looked(cell: &CellTable) -> BTreeMap<MergedKey, (MergedServiceRow, Vec<(String, String)>)> {
    let all: Vec<MergedKey> = cell.merged_keys().collect();
    let look = |key: MergedKey| {
        let row = cell.merged(&key.user, &key.name).unwrap().row.clone();
        let of = |(job, service): &(crate::table::ServiceKey, &crate::table::Service)| {
            job.user == key.user && service.facts().is_live && row.selects(&service.facts().labels)
        };
        let jobs = cell.services().filter(of);
        let jobs = jobs.map(|(job, service)| (job.job.to_string(), format!("{:?}", service))).collect();
        (key, (row, jobs))
    };
    all.into_iter().map(look).collect()
}

proptest! {
    #[test]
    fn each_step_keeps_what_a_look_at_everything_finds(steps in prop::collection::vec(happening(), 0..40)) {
        let mut table = NamesTable::new([name("alpha")]);
        table.change(&name("alpha"), |cell| cell.replace(ListedCell::default(), at(1)));
        for (version, happening) in (2..).zip(&steps) {
            let before = looked(table.cell("alpha").unwrap());
            let changes = step(&mut table, |cell| happens(cell, happening, version));
            let cell = table.cell("alpha").unwrap();
            let after = looked(cell);
            let keys: BTreeSet<&MergedKey> = before.keys().chain(after.keys()).collect();
            let changed: BTreeSet<MergedKey> =
                keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).cloned().collect();
            prop_assert_eq!(&changes.merged, &changed, "{:?}", happening);
            for (key, (_, jobs)) in &after {
                let merged = cell.merged(&key.user, &key.name).unwrap();
                let shown: Vec<(String, String)> = merged.jobs.iter()
                    .map(|job| (job.key.job.to_string(), format!("{:?}", job.service))).collect();
                prop_assert_eq!(&shown, jobs);
            }
        }
    }
}
