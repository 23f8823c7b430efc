//! The table step by step, and tables for the tests of the views.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_kv::Versionstamp;
use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Incarnation, JobId, Name, NodeId, TaskId};
use borough_store::Cursor;
use proptest::prelude::*;

use super::*;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn at(version: i64) -> Cursor {
    at_epoch(version, 1)
}

fn at_epoch(version: i64, store_epoch: u64) -> Cursor {
    Cursor { store_epoch, stamp: Versionstamp::new(version, 0) }
}

pub(crate) fn key(job: &str) -> ServiceKey {
    ServiceKey::of_texts("alpha", "ann", job).unwrap()
}

pub(crate) fn facts(job: u64, ports: &[&str]) -> ServiceFacts {
    ServiceFacts {
        job: JobId(job),
        spec_version: 1,
        is_live: true,
        count: 3,
        labels: Arc::default(),
        ports: ports.iter().map(|port| name(port)).collect(),
    }
}

/// The endpoint of a task of ann's job with this id and name. Its ports are consecutive.
pub(crate) fn endpoint(job: (u64, &str), index: u32, host: &str, ports: &[(&str, u16)]) -> Endpoint {
    Endpoint {
        task: TaskId { job: JobId(job.0), index },
        user: name("ann"),
        job: name(job.1),
        incarnation: Incarnation(1),
        host: host.to_owned(),
        ports: ports
            .iter()
            .map(|(port, number)| EndpointPort { name: name(port), number: *number })
            .collect(),
        health: Health::Healthy,
        weight: 1,
        node: name("n1"),
        healthy_since_ms: 0,
        domains: Vec::new(),
    }
}

/// A table of the cell `alpha` with these jobs of ann and their endpoints.
pub(crate) fn table_of(jobs: &[(&str, ServiceFacts)], endpoints: Vec<Endpoint>) -> NamesTable {
    let mut table = NamesTable::new([name("alpha")]);
    let rows = ListedCell {
        jobs: jobs.iter().map(|(job, facts)| ((name("ann"), name(job)), facts.clone())).collect(),
        nodes: vec![(name("n1"), NodeId(1), place("east", "r1"))],
        endpoints: endpoints.into_iter().map(|endpoint| (endpoint, 0)).collect(),
        merged: Vec::new(),
        ..ListedCell::default()
    };
    table.change(&name("alpha"), |cell| cell.replace(rows, at(1)));
    table
}

pub(crate) fn place(zone: &str, rack: &str) -> NodePlace {
    NodePlace {
        host: "10.0.0.1".to_owned(),
        zone: zone.to_owned(),
        sub_zone: rack.to_owned(),
        is_draining: false,
    }
}

/// Ann's job `web` with one port and three endpoints.
pub(crate) fn web() -> NamesTable {
    let endpoints =
        (0..3).map(|index| endpoint((1, "web"), index, &format!("10.0.0.{}", index + 1), &[("http", 8_080)]));
    table_of(&[("web", facts(1, &["http"]))], endpoints.collect())
}

/// Changes the cell.
pub(crate) fn step(
    table: &mut NamesTable,
    change: impl FnOnce(&mut CellTable) -> NamesChanges,
) -> NamesChanges {
    table.change(&name("alpha"), change)
}

/// What may happen to a small table.
#[derive(Clone, Debug)]
pub(crate) enum TableStep {
    JobPut { id: u64, ports: usize, is_live: bool, event: NamedJobEvent },
    JobRemove { id: u64 },
    EndpointPut { id: u64, index: u32, ports: usize, revision: u64, node: usize },
    EndpointRemove { id: u64, index: u32, revision: u64 },
    NodePut { node: usize, rack: usize },
}

const NODES: [&str; 2] = ["n1", "n2"];
const PORTS: [&[&str]; 4] = [&[], &["http"], &["admin", "http"], &["grpc"]];

/// The name of a job. Two ids each share one.
fn name_of(id: u64) -> &'static str {
    if id.is_multiple_of(2) { "api" } else { "web" }
}

impl TableStep {
    /// Carries it out in the cell `alpha`.
    pub(crate) fn apply(&self, table: &mut NamesTable, version: i64) -> NamesChanges {
        let (ann, at) = (name("ann"), at(version));
        step(table, |cell| match *self {
            Self::JobPut { id, ports, is_live, event } => {
                let facts = ServiceFacts { is_live, ..facts(id, PORTS[ports]) };
                cell.job_put(&ann, &name(name_of(id)), facts, event, at)
            }
            Self::JobRemove { id } => cell.job_remove(JobId(id), at),
            Self::EndpointPut { id, index, ports, revision, node } => {
                let ports: Vec<(&str, u16)> = PORTS[ports].iter().map(|port| (*port, 80)).collect();
                let host = format!("10.0.0.{revision}");
                let put = endpoint((id, name_of(id)), index, &host, &ports);
                cell.endpoint_put(&Endpoint { node: name(NODES[node]), ..put }, revision, 0, at)
            }
            Self::EndpointRemove { id, index, revision } => {
                let task = TaskId { job: JobId(id), index };
                cell.endpoint_remove(&ann, &name(name_of(id)), task, revision, at)
            }
            Self::NodePut { node, rack } => {
                cell.node_put(&name(NODES[node]), NodeId(1), place("east", ["r1", "r2"][rack]), at)
            }
        })
    }
}

/// Steps of a small table. Many come to nothing, since ids and revisions rarely agree.
pub(crate) fn table_steps() -> impl Strategy<Value = Vec<TableStep>> {
    let (id, index, ports) = (1..5_u64, 0..2_u32, 0..PORTS.len());
    let event = prop_oneof![Just(NamedJobEvent::Created), Just(NamedJobEvent::Changed)];
    let job_put = (id.clone(), ports.clone(), prop::bool::weighted(0.7), event)
        .prop_map(|(id, ports, is_live, event)| TableStep::JobPut { id, ports, is_live, event });
    let endpoint_put = (id.clone(), index.clone(), ports, 1..5_u64, 0..NODES.len()).prop_map(
        |(id, index, ports, revision, node)| TableStep::EndpointPut { id, index, ports, revision, node },
    );
    let endpoint_remove = (id.clone(), index, 1..7_u64)
        .prop_map(|(id, index, revision)| TableStep::EndpointRemove { id, index, revision });
    let node_put = (0..NODES.len(), 0..2_usize).prop_map(|(node, rack)| TableStep::NodePut { node, rack });
    let job_remove = id.prop_map(|id| TableStep::JobRemove { id });
    let one =
        prop_oneof![3 => job_put, 1 => job_remove, 5 => endpoint_put, 3 => endpoint_remove, 1 => node_put];
    prop::collection::vec(one, 1..60)
}

proptest! {
    /// What the table keeps to be quick is what a look at everything shows.
    #[test]
    fn what_is_kept_apart_agrees_with_the_services(steps in table_steps()) {
        let mut table = table_of(&[], Vec::new());
        for (version, one) in (2..).zip(&steps) {
            let before = table.clone();
            let changes = one.apply(&mut table, version);
            let cell = table.cell("alpha").unwrap();
            let (mut names, mut on_node) = (BTreeMap::new(), BTreeMap::<_, BTreeMap<_, usize>>::new());
            let mut addresses = BTreeMap::<IpAddr, BTreeSet<AddressOwner>>::new();
            for (key, service) in cell.services() {
                let name = (key.user.clone(), key.job.clone());
                if service.facts().job != JobId::default() {
                    names.insert(service.facts().job, name.clone());
                }
                for endpoint in service.endpoints() {
                    *on_node.entry(endpoint.node.clone()).or_default().entry(name.clone()).or_default() += 1;
                    let address = endpoint.host.address().unwrap();
                    addresses.entry(address).or_default().insert((key.clone(), endpoint.task.index));
                    prop_assert_eq!(&endpoint.place, &cell.place_of_node(&endpoint.node), "after {:?}", one);
                }
                let had = before.service(&key);
                let shows_other = had.is_none_or(|had| !had.shows_as(service));
                prop_assert_eq!(changes.services.contains(&key), shows_other, "{} after {:?}", key, one);
            }
            prop_assert_eq!(cell.kept(), (&names, &on_node), "after {:?}", one);
            prop_assert_eq!(&table.addresses, &addresses, "after {:?}", one);
        }
    }
}

fn listed(job: &str, ports: &[&str]) -> BTreeSet<ListedName> {
    let of_port = |port: &&str| ListedName { service: key(job), port: Some(name(port)) };
    ports.iter().map(of_port).chain([ListedName { service: key(job), port: None }]).collect()
}

fn index(table: &NamesTable, job: &str) -> TableIndex {
    table.cell("alpha").unwrap().index_of(&name("ann"), &name(job))
}

#[test]
fn a_change_moves_the_index_of_its_own_service_only() {
    let api = [endpoint((2, "api"), 0, "10.0.0.9", &[])];
    let web = endpoint((1, "web"), 0, "10.0.0.1", &[]);
    let mut table = table_of(&[("web", facts(1, &[])), ("api", facts(2, &[]))], api.to_vec());
    let before = (index(&table, "web"), index(&table, "api"));
    let changes = step(&mut table, |cell| cell.endpoint_put(&web, 5, 7, at(2)));
    assert_eq!(changes, NamesChanges { services: [key("web")].into(), ..NamesChanges::default() });
    assert_eq!(index(&table, "web"), TableIndex::of(at(2)));
    assert_eq!(index(&table, "api"), before.1);
    let again = step(&mut table, |cell| cell.endpoint_put(&web, 6, 7, at(3)));
    assert!(again.is_empty(), "the same endpoint again is no change");
    assert_eq!(index(&table, "web"), TableIndex::of(at(2)));
}

#[test]
fn two_changes_in_one_commit_have_two_indexes() {
    let mut table = web();
    let gone = |index| TaskId { job: JobId(1), index };
    step(&mut table, |cell| cell.endpoint_remove(&name("ann"), &name("web"), gone(0), 9, at(5)));
    let first = index(&table, "web");
    step(&mut table, |cell| cell.endpoint_remove(&name("ann"), &name("web"), gone(1), 9, at(5)));
    assert!(index(&table, "web") > first);
}

#[test]
fn an_older_row_and_another_job_withdraw_nothing() {
    let mut table = web();
    let put = endpoint((1, "web"), 0, "10.0.0.7", &[]);
    step(&mut table, |cell| cell.endpoint_put(&put, 9, 0, at(2)));
    let (ann, web) = (name("ann"), name("web"));
    let older = step(&mut table, |cell| {
        cell.endpoint_remove(&ann, &web, TaskId { job: JobId(1), index: 0 }, 8, at(3))
    });
    assert!(older.is_empty(), "published again since");
    let other = step(&mut table, |cell| {
        cell.endpoint_remove(&ann, &web, TaskId { job: JobId(9), index: 0 }, 99, at(3))
    });
    assert!(other.is_empty(), "of another job");
    assert_eq!(table.service(&key("web")).unwrap().endpoints().len(), 3);
}

#[test]
fn healthy_endpoints_are_used_and_without_any_all_are() {
    let mut table = web();
    let usable = |table: &NamesTable| -> Vec<u32> {
        table.service(&key("web")).unwrap().usable_from(0).map(|endpoint| endpoint.task.index).collect()
    };
    let demote = |table: &mut NamesTable, index: u32, version| {
        let known = endpoint((1, "web"), index, &format!("10.0.0.{}", index + 1), &[("http", 8_080)]);
        let unknown = Endpoint { health: Health::Unknown, ..known };
        step(table, |cell| cell.endpoint_put(&unknown, 9, 0, at(version)));
    };
    demote(&mut table, 1, 2);
    assert_eq!(usable(&table), [0, 2]);
    demote(&mut table, 0, 3);
    demote(&mut table, 2, 4);
    assert_eq!(usable(&table), [0, 1, 2], "every node is lost");
    let service = table.service(&key("web")).unwrap();
    let from = |start| service.usable_from(start).map(|endpoint| endpoint.task.index).collect::<Vec<_>>();
    assert_eq!((from(1), from(5), from(u64::MAX).len()), (vec![1, 2, 0], vec![2, 0, 1], 3));
}

#[test]
fn a_listing_keeps_the_index_of_what_is_the_same() {
    let mut table = web();
    let before = index(&table, "web");
    let rows = |host: &str| ListedCell {
        jobs: vec![((name("ann"), name("web")), facts(1, &["http"]))],
        nodes: vec![(name("n1"), NodeId(1), place("east", "r1"))],
        endpoints: (0..3)
            .map(|index| {
                let host = if index == 2 { host.to_owned() } else { format!("10.0.0.{}", index + 1) };
                (endpoint((1, "web"), index, &host, &[("http", 8_080)]), 0)
            })
            .collect(),
        merged: Vec::new(),
        ..ListedCell::default()
    };
    assert!(step(&mut table, |cell| cell.replace(rows("10.0.0.3"), at(50))).is_empty());
    assert_eq!(index(&table, "web"), before);
    let changes = step(&mut table, |cell| cell.replace(rows("10.0.0.4"), at(60)));
    assert_eq!(changes.services, [key("web")].into());
    assert_eq!(index(&table, "web"), TableIndex::of(at(60)));
    // A moved cell begins a new history: no index of the old one says anything.
    let moved = step(&mut table, |cell| cell.replace(rows("10.0.0.4"), at_epoch(3, 2)));
    assert_eq!(moved.services, [key("web")].into());
    assert_eq!(index(&table, "web"), TableIndex::of(at_epoch(3, 2)));
    let gone = step(&mut table, |cell| cell.replace(ListedCell::default(), at_epoch(9, 2)));
    let changes = NamesChanges {
        services: [key("web")].into(),
        listed: listed("web", &["http"]),
        ..NamesChanges::default()
    };
    assert_eq!(gone, changes);
    assert_eq!(index(&table, "web"), TableIndex::of(at_epoch(9, 2)), "later than what it was");
}

#[test]
fn a_name_passes_on_to_the_job_that_was_created_with_it() {
    let mut table = web();
    let (ann, web) = (name("ann"), name("web"));
    let (next, late) = (facts(7, &["http"]), ServiceFacts { is_live: false, ..facts(1, &["http"]) });
    let taken = step(&mut table, |cell| cell.job_put(&ann, &web, next, NamedJobEvent::Created, at(2)));
    assert_eq!(taken.services, [key("web")].into());
    let old = step(&mut table, |cell| cell.job_put(&ann, &web, late, NamedJobEvent::Changed, at(3)));
    assert!(old.is_empty(), "the ended job of the name may still change");
    assert_eq!(table.service(&key("web")).unwrap().facts().job, JobId(7));
    assert!(step(&mut table, |cell| cell.job_remove(JobId(1), at(4))).is_empty());
    let removed = step(&mut table, |cell| cell.job_remove(JobId(7), at(5)));
    assert_eq!(removed.listed, listed("web", &["http"]));
    assert!(table.service(&key("web")).is_none());
    assert!(!table.cell("alpha").unwrap().has_user(&ann));
}

#[test]
fn addresses_follow_their_endpoints() {
    let mut table = web();
    let owners = |table: &NamesTable, address: &str| {
        let owners = table.at_address(address.parse().unwrap());
        owners.map(|owners| owners.iter().map(|(_, index)| *index).collect::<Vec<_>>()).unwrap_or_default()
    };
    let moved = endpoint((1, "web"), 0, "10.0.0.3", &[("http", 8_081)]);
    step(&mut table, |cell| cell.endpoint_put(&moved, 9, 0, at(2)));
    assert_eq!((owners(&table, "10.0.0.1"), owners(&table, "10.0.0.3")), (vec![], vec![0, 2]));
    step(&mut table, |cell| cell.job_remove(JobId(1), at(3)));
    assert!(table.addresses.is_empty(), "{:?}", table.addresses);
    let mut table = web();
    step(&mut table, |cell| cell.replace(ListedCell::default(), at(9)));
    assert!(table.addresses.is_empty(), "{:?}", table.addresses);
    let rows = ListedCell { endpoints: vec![(moved, 0)], ..ListedCell::default() };
    step(&mut table, |cell| cell.replace(rows, at(10)));
    assert_eq!(table.addresses.len(), 1);
}

#[test]
fn what_a_node_is_shows_in_its_endpoints() {
    let mut table = web();
    let draining = NodePlace { is_draining: true, ..place("east", "r1") };
    let changes = step(&mut table, |cell| cell.node_put(&name("n1"), NodeId(1), draining, at(2)));
    assert_eq!(changes.services, [key("web")].into());
    let service = table.service(&key("web")).unwrap();
    assert!(service.endpoints().iter().all(|endpoint| endpoint.place.is_draining));
    let other = step(&mut table, |cell| cell.node_put(&name("n2"), NodeId(2), place("west", ""), at(3)));
    assert!(other.is_empty(), "no endpoint is there");
    step(&mut table, |cell| {
        cell.node_remove(NodeId(2));
        NamesChanges::default()
    });
    assert_eq!(table.cell("alpha").unwrap().nodes().count(), 1);
}

#[test]
fn ports_are_those_of_the_job_file_and_of_older_attempts() {
    let old = endpoint((1, "web"), 0, "10.0.0.1", &[("admin", 1), ("http", 2)]);
    let mut table = table_of(&[("web", facts(1, &["http", "metrics"]))], vec![old]);
    let ports = |table: &NamesTable| -> Vec<String> {
        table.service(&key("web")).unwrap().ports().map(ToString::to_string).collect()
    };
    assert_eq!(ports(&table), ["http", "metrics", "admin"]);
    let (ann, web) = (name("ann"), name("web"));
    step(&mut table, |cell| cell.endpoint_remove(&ann, &web, TaskId { job: JobId(1), index: 0 }, 1, at(2)));
    assert_eq!(ports(&table), ["http", "metrics"]);
    let _: &BTreeMap<String, String> = &table.service(&key("web")).unwrap().facts().labels;
}

#[test]
fn a_cell_that_comes_later_is_part_of_the_table_from_its_listing_on() {
    let mut table = NamesTable::default();
    assert!(!table.is_complete(), "a table without cells knows nothing");
    table.enter([name("alpha"), name("beta")]);
    let listed = |table: &mut NamesTable, cell: &str| {
        table.change(&name(cell), |cell| cell.replace(ListedCell::default(), at(1)));
    };
    listed(&mut table, "alpha");
    assert!(!table.is_complete(), "the other one of those that came at first is missing");
    listed(&mut table, "beta");
    table.enter([name("alpha"), name("gamma")]);
    let cells = |table: &NamesTable| table.cells().map(|cell| cell.name().to_string()).collect::<Vec<_>>();
    assert!(table.is_complete());
    assert_eq!(cells(&table), ["alpha", "beta"]);
    listed(&mut table, "gamma");
    assert!(table.is_complete());
    assert_eq!(cells(&table), ["alpha", "beta", "gamma"]);
}
