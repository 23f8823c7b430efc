//! A stream step by step, as gRPC clients and proxies use it.

use std::collections::BTreeSet;

use borough_model::task::{Endpoint, Health};
use borough_model::{JobId, TaskId};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::hub::{HubChange, HubKey};
use crate::table::tests::{at, endpoint, facts, key, name, step, table_of, table_steps, web};
use crate::table::{NamesChanges, NamesTable};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn asks(kind: XdsKind, wanted: &[&str]) -> AdsRequest {
    AdsRequest { type_url: kind.type_url().to_owned(), names: names(wanted), ..AdsRequest::default() }
}

/// A stream with what its client does: it acknowledges each response.
pub(super) struct Client {
    pub(super) stream: AdsStream,
}

impl Client {
    pub(super) fn new(mode: AdsMode) -> Self {
        Self { stream: stream_of(mode) }
    }

    pub(super) fn request(&mut self, table: &NamesTable, request: AdsRequest) -> Vec<AdsResponse> {
        assert_eq!(self.stream.request(request), Ok(None));
        self.stream.responses(table)
    }

    /// Acknowledges a response of the state of the world. Returns what follows it.
    pub(super) fn acknowledge(
        &mut self,
        table: &NamesTable,
        response: &AdsResponse,
        wanted: &[&str],
    ) -> Vec<AdsResponse> {
        let request = AdsRequest { nonce: response.nonce.clone(), ..asks(response.kind, wanted) };
        self.request(table, request)
    }

    fn changed(&mut self, table: &NamesTable, job: &str) -> Vec<AdsResponse> {
        self.stream.changed(&[HubChange::Service(key(job))].into());
        self.stream.responses(table)
    }

    /// What follows a step of the table.
    pub(super) fn stepped(&mut self, table: &NamesTable, changes: NamesChanges) -> Vec<AdsResponse> {
        let services = changes.services.into_iter().map(HubChange::Service);
        let merged = changes.merged.into_iter().map(HubChange::Merged);
        let listed = changes.listed.into_iter().map(HubChange::Listed);
        self.stream.changed(&services.chain(merged).chain(listed).collect());
        self.stream.responses(table)
    }
}

fn stream_of(mode: AdsMode) -> AdsStream {
    AdsStream::new(mode)
}

pub(super) fn one(responses: Vec<AdsResponse>) -> AdsResponse {
    let [response] = <[AdsResponse; 1]>::try_from(responses).unwrap();
    response
}

fn assignment(response: &AdsResponse) -> ClusterLoadAssignment {
    let [resource] = response.resources.as_slice() else { panic!("{response:?}") };
    ClusterLoadAssignment::decode(resource.body.value.as_slice()).unwrap()
}

fn addresses(assignment: &ClusterLoadAssignment) -> Vec<String> {
    let address = |endpoint: &LbEndpoint| match endpoint.host_identifier.as_ref().unwrap() {
        HostIdentifier::Endpoint(endpoint) => {
            match endpoint.address.as_ref().unwrap().address.as_ref().unwrap() {
                Address::SocketAddress(socket) => socket.address.clone(),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    };
    assignment.endpoints.iter().flat_map(|locality| locality.lb_endpoints.iter().map(address)).collect()
}

fn withdraw(table: &mut NamesTable, index: u32, version: i64) {
    let task = TaskId { job: JobId(1), index };
    step(table, |cell| cell.endpoint_remove(&name("ann"), &name("web"), task, 99, at(version)));
}

/// The requests of a gRPC client of `xds:///web.ann.alpha`, in its order.
#[test]
fn a_grpc_client_finds_its_endpoints_by_the_name_of_its_target() {
    let table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let target = ["web.ann.alpha"];
    let listeners = one(client.request(&table, asks(XdsKind::Listener, &target)));
    let listener = Listener::decode(listeners.resources[0].body.value.as_slice()).unwrap();
    let manager = listener.api_listener.unwrap().api_listener.unwrap();
    let manager = HttpConnectionManager::decode(manager.value.as_slice()).unwrap();
    assert_eq!((listener.name.as_str(), manager.http_filters.len()), (target[0], 1));
    assert!(manager.route_specifier.is_some(), "the route is inline");
    assert_eq!(client.acknowledge(&table, &listeners, &target), []);
    let clusters = one(client.request(&table, asks(XdsKind::Cluster, &target)));
    let cluster = Cluster::decode(clusters.resources[0].body.value.as_slice()).unwrap();
    assert_eq!(cluster.eds_cluster_config.unwrap().service_name, target[0]);
    assert_eq!(client.acknowledge(&table, &clusters, &target), []);
    let endpoints = one(client.request(&table, asks(XdsKind::Endpoints, &target)));
    let found = assignment(&endpoints);
    assert_eq!(addresses(&found), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let [locality] = found.endpoints.as_slice() else { panic!("{found:?}") };
    let at = locality.locality.as_ref().unwrap();
    assert_eq!((at.region.as_str(), at.zone.as_str(), at.sub_zone.as_str()), ("alpha", "east", "r1"));
    assert_eq!(locality.load_balancing_weight.unwrap().value, 3, "clients skip a locality without a weight");
    assert_eq!(client.acknowledge(&table, &endpoints, &target), []);
}

#[test]
fn what_has_not_changed_is_not_sent_again() {
    let mut table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let wanted = ["web.ann.alpha", "http.web.ann.alpha"];
    let first = one(client.request(&table, asks(XdsKind::Endpoints, &wanted)));
    assert_eq!(first.resources.len(), 2);
    assert_eq!(client.acknowledge(&table, &first, &wanted), []);
    assert_eq!(client.changed(&table, "web"), [], "woken without a change");
    // A health that turns unknown changes nothing for a client if all are: the bytes decide, not the index.
    withdraw(&mut table, 0, 2);
    let second = one(client.changed(&table, "web"));
    assert_eq!(second.resources.len(), 2);
    assert_ne!(second.version(), first.version());
    assert_eq!(client.acknowledge(&table, &second, &wanted), []);
    for _ in 0..20 {
        // Maps in messages have no order, and a version must not depend on one.
        let again = xds_resource(&table, XdsKind::Endpoints, wanted[0]).unwrap();
        assert_eq!(
            again.version,
            second.resources.iter().find(|given| given.name == wanted[0]).unwrap().version
        );
    }
}

#[test]
fn a_client_that_never_acknowledges_gets_one_response_per_type() {
    let mut table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let wanted = ["web.ann.alpha"];
    let first = one(client.request(&table, asks(XdsKind::Endpoints, &wanted)));
    withdraw(&mut table, 0, 2);
    assert_eq!(client.changed(&table, "web"), []);
    withdraw(&mut table, 1, 3);
    assert_eq!(client.changed(&table, "web"), []);
    let stale = AdsRequest { nonce: "0".to_owned(), ..asks(XdsKind::Endpoints, &wanted) };
    assert_eq!(client.request(&table, stale), [], "about no response that waits");
    let both = one(client.acknowledge(&table, &first, &wanted));
    assert_eq!(addresses(&assignment(&both)), ["10.0.0.3"], "both changes together");
}

#[test]
fn a_refusal_is_reported_once_and_its_resource_is_not_sent_again() {
    let mut table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let node = Some("edge-1".to_owned());
    let begin = AdsRequest { node, ..asks(XdsKind::Endpoints, &["web.ann.alpha"]) };
    let first = one(client.request(&table, begin));
    let refusal = AdsRequest {
        nonce: first.nonce,
        refusal: Some(AdsRefusal { code: 3, message: "duplicate address".to_owned() }),
        ..asks(XdsKind::Endpoints, &["web.ann.alpha"])
    };
    let refused = client.stream.request(refusal.clone()).unwrap();
    let (nonce, detail) = (refusal.nonce.clone(), "duplicate address".to_owned());
    assert_eq!(refused, Some(RefusedResponse { kind: XdsKind::Endpoints, nonce, code: 3, detail }));
    assert_eq!(client.stream.node(), "edge-1", "as its first request says");
    assert_eq!(client.stream.responses(&table), []);
    assert_eq!(client.stream.request(refusal), Ok(None), "the same nonce again");
    withdraw(&mut table, 0, 2);
    assert_eq!(one(client.changed(&table, "web")).resources.len(), 1);
}

#[test]
fn a_missing_service_is_said_at_once_and_comes_when_it_exists() {
    let mut table = table_of(&[], Vec::new());
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let wanted = ["web.ann.alpha"];
    let nothing = one(client.request(&table, asks(XdsKind::Listener, &wanted)));
    assert_eq!(nothing.resources, [], "a response without the resource says that there is none");
    assert_eq!(client.acknowledge(&table, &nothing, &wanted), []);
    assert_eq!(client.request(&table, asks(XdsKind::Endpoints, &wanted)), []);
    assert_eq!(client.changed(&table, "web"), []);
    let web = endpoint((1, "web"), 0, "10.0.0.1", &[("http", 80)]);
    step(&mut table, |cell| cell.endpoint_put(&web, 1, 0, at(2)));
    let kinds: Vec<XdsKind> = client.changed(&table, "web").iter().map(|response| response.kind).collect();
    assert_eq!(kinds, [XdsKind::Listener, XdsKind::Endpoints]);
}

#[test]
fn endpoints_of_a_service_that_is_gone_are_emptied() {
    let mut table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let first = one(client.request(&table, asks(XdsKind::Endpoints, &["web.ann.alpha"])));
    client.acknowledge(&table, &first, &["web.ann.alpha"]);
    step(&mut table, |cell| cell.job_remove(JobId(1), at(2)));
    let emptied = assignment(&one(client.changed(&table, "web")));
    assert_eq!((emptied.cluster_name.as_str(), emptied.endpoints.len()), ("web.ann.alpha", 0));
}

#[test]
fn every_address_is_given_once_and_names_of_hosts_never() {
    let ports = [("http", 80)];
    let hosts = ["10.0.0.1", "10.0.0.1", "host.example.org", "2001:db8::1"];
    let endpoints = hosts.iter().zip(0..).map(|(host, index)| endpoint((1, "web"), index, host, &ports));
    let table = table_of(&[("web", facts(1, &["http"]))], endpoints.collect());
    let resource = xds_resource(&table, XdsKind::Endpoints, "web.ann.alpha").unwrap();
    let found = ClusterLoadAssignment::decode(resource.body.value.as_slice()).unwrap();
    assert_eq!(addresses(&found), ["10.0.0.1", "2001:db8::1"]);
}

#[test]
fn endpoints_of_lost_nodes_take_no_traffic_unless_all_are_lost() {
    let health = |lost: &[u32]| -> (Vec<i32>, Option<u32>) {
        let endpoints = (0..2).map(|index| {
            let known = endpoint((1, "web"), index, &format!("10.0.0.{}", index + 1), &[("http", 80)]);
            let health = if lost.contains(&index) { Health::Unknown } else { Health::Healthy };
            Endpoint { health, weight: 5, ..known }
        });
        let table = table_of(&[("web", facts(1, &["http"]))], endpoints.collect());
        let resource = xds_resource(&table, XdsKind::Endpoints, "web.ann.alpha").unwrap();
        let found = ClusterLoadAssignment::decode(resource.body.value.as_slice()).unwrap();
        let locality = &found.endpoints[0];
        let weight = locality.load_balancing_weight.map(|weight| weight.value);
        (locality.lb_endpoints.iter().map(|endpoint| endpoint.health_status).collect(), weight)
    };
    let [unknown, healthy, unhealthy] =
        [HealthStatus::Unknown, HealthStatus::Healthy, HealthStatus::Unhealthy].map(i32::from);
    assert_eq!(health(&[]), (vec![healthy, healthy], Some(10)));
    assert_eq!(health(&[1]), (vec![healthy, unhealthy], Some(5)));
    assert_eq!(health(&[0, 1]), (vec![unknown, unknown], Some(10)));
}

#[test]
fn a_proxy_that_wants_everything_gets_each_cluster() {
    let mut table = table_of(
        &[("web", facts(1, &["http", "admin"])), ("batch", facts(2, &[]))],
        vec![endpoint((1, "web"), 0, "10.0.0.1", &[("http", 80), ("admin", 81)])],
    );
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let given = |response: &AdsResponse| -> Vec<String> {
        response.resources.iter().map(|given| given.name.clone()).collect()
    };
    let listeners = one(client.request(&table, asks(XdsKind::Listener, &[])));
    assert_eq!(listeners.resources, [], "a proxy has its own listeners");
    let all = one(client.request(&table, asks(XdsKind::Cluster, &[])));
    assert_eq!(given(&all), ["admin.web.ann.alpha", "http.web.ann.alpha", "web.ann.alpha"]);
    assert_eq!(client.acknowledge(&table, &all, &[]), []);
    let api = facts(3, &["grpc"]);
    let came = step(&mut table, |cell| {
        cell.job_put(&name("ann"), &name("api"), api, crate::table::NamedJobEvent::Created, at(2))
    });
    let more = one(client.stepped(&table, came));
    assert_eq!(given(&more), ["admin.web.ann.alpha", "api.ann.alpha", "http.web.ann.alpha", "web.ann.alpha"]);
    client.acknowledge(&table, &more, &[]);
    let went = step(&mut table, |cell| cell.job_remove(JobId(3), at(3)));
    assert_eq!(given(&one(client.stepped(&table, went))), given(&all));
}

proptest! {
    /// Whatever happens, the changes of the table bring a client to what a look at the whole table shows.
    #[test]
    fn a_proxy_that_follows_the_list_has_it(
        steps in table_steps(),
        mode in prop_oneof![Just(AdsMode::StateOfTheWorld), Just(AdsMode::Incremental)],
    ) {
        let mut table = table_of(&[("web", facts(1, &["http"]))], Vec::new());
        let mut client = Client::new(mode);
        let mut last = one(client.request(&table, asks(XdsKind::Cluster, &["*"])));
        let mut has = BTreeSet::new();
        for (at, one) in (1..).zip([None].into_iter().chain(steps.iter().map(Some))) {
            if let Some(one) = one {
                let wanted: &[&str] = if mode == AdsMode::Incremental { &[] } else { &["*"] };
                client.acknowledge(&table, &last, wanted);
                let changes = one.apply(&mut table, at);
                match client.stepped(&table, changes).pop() {
                    Some(response) => last = response,
                    None => {
                        prop_assert_eq!(&has, &name::cluster_names(&table), "no response after {:?}", one);
                        continue;
                    }
                }
            }
            if mode == AdsMode::StateOfTheWorld {
                has.clear();
            }
            has.extend(last.resources.iter().map(|given| given.name.clone()));
            for name in &last.removed {
                prop_assert!(has.remove(name), "{} was never there, after {:?}", name, one);
            }
            prop_assert_eq!(&has, &name::cluster_names(&table), "after {:?}", one);
        }
    }
}

/// A list may change between a request and its response.
#[test]
fn a_change_before_the_first_response_is_in_it() {
    let mut table = web();
    let mut stream = stream_of(AdsMode::StateOfTheWorld);
    stream.request(asks(XdsKind::Cluster, &[])).unwrap();
    let api = facts(3, &["grpc"]);
    step(&mut table, |cell| {
        cell.job_put(&name("ann"), &name("api"), api, crate::table::NamedJobEvent::Created, at(2))
    });
    assert_eq!(one(stream.responses(&table)).resources.len(), 2);
}

#[test]
fn a_stream_says_what_it_begins_and_ends_to_follow() {
    let mut stream = stream_of(AdsMode::Incremental);
    let (service, list) = (HubKey::Service(key("web")), HubKey::Lists);
    stream.request(asks(XdsKind::Endpoints, &["web.ann.alpha"])).unwrap();
    stream.request(asks(XdsKind::Cluster, &["web.ann.alpha", "*"])).unwrap();
    let begun = [FollowChange::Begin(service.clone()), FollowChange::Begin(list.clone())];
    assert_eq!(stream.follow_changes(), begun, "each once");
    let leaves = |kind, left: &[&str]| AdsRequest { left: names(left), ..asks(kind, &[]) };
    stream.request(leaves(XdsKind::Cluster, &["web.ann.alpha", "*"])).unwrap();
    assert_eq!(stream.follow_changes(), [FollowChange::End(list)], "its endpoints are still followed");
    stream.request(leaves(XdsKind::Endpoints, &["web.ann.alpha"])).unwrap();
    assert_eq!(stream.follow_changes(), [FollowChange::End(service)]);
}

#[test]
fn increments_have_what_changed_and_what_is_gone() {
    let mut table = web();
    let mut client = Client::new(AdsMode::Incremental);
    let first = one(client.request(&table, asks(XdsKind::Cluster, &["web.ann.alpha", "no.ann.alpha"])));
    assert_eq!((first.resources.len(), first.removed.clone()), (1, names(&["no.ann.alpha"])));
    let acknowledges =
        |response: &AdsResponse| AdsRequest { nonce: response.nonce.clone(), ..asks(response.kind, &[]) };
    assert_eq!(client.request(&table, acknowledges(&first)), []);
    let endpoints = one(client.request(&table, asks(XdsKind::Endpoints, &["web.ann.alpha"])));
    assert_eq!(client.request(&table, acknowledges(&endpoints)), []);
    withdraw(&mut table, 0, 2);
    let changed = one(client.changed(&table, "web"));
    assert_eq!((changed.kind, changed.resources.len()), (XdsKind::Endpoints, 1), "the cluster is the same");
    client.request(&table, acknowledges(&changed));
    let leaves = AdsRequest { left: names(&["web.ann.alpha"]), ..asks(XdsKind::Endpoints, &[]) };
    assert_eq!(client.request(&table, leaves), []);
    withdraw(&mut table, 1, 3);
    assert_eq!(client.changed(&table, "web"), [], "left");
    step(&mut table, |cell| cell.job_remove(JobId(1), at(4)));
    let gone = one(client.changed(&table, "web"));
    assert_eq!((gone.kind, gone.removed), (XdsKind::Cluster, names(&["web.ann.alpha"])));
}

#[test]
fn a_client_that_comes_back_gets_only_what_is_new_to_it() {
    let mut table = web();
    let mut client = Client::new(AdsMode::Incremental);
    let wanted = ["web.ann.alpha"];
    let first = one(client.request(&table, asks(XdsKind::Endpoints, &wanted)));
    let version = format!("{:016x}", first.resources[0].version);
    let back = || AdsRequest {
        versions: [(wanted[0].to_owned(), version.clone())].into(),
        ..asks(XdsKind::Endpoints, &wanted)
    };
    let mut again = Client::new(AdsMode::Incremental);
    assert_eq!(again.request(&table, back()), []);
    withdraw(&mut table, 0, 2);
    assert_eq!(one(again.changed(&table, "web")).resources.len(), 1);
    let mut late = Client::new(AdsMode::Incremental);
    assert_eq!(one(late.request(&table, back())).resources.len(), 1, "it has changed meanwhile");
}

#[test]
fn ten_thousand_names_are_followed_and_more_are_refused() {
    let table = web();
    let many: Vec<String> = (0..NAMES_MAX).map(|number| format!("j{number}.ann.alpha")).collect();
    for mode in [AdsMode::StateOfTheWorld, AdsMode::Incremental] {
        let mut stream = stream_of(mode);
        let request = AdsRequest { names: many.clone(), ..asks(XdsKind::Cluster, &[]) };
        assert_eq!(stream.request(request), Ok(None));
        assert_eq!((stream.follow_changes().len(), stream.names()), (NAMES_MAX, NAMES_MAX));
        let answered = one(stream.responses(&table));
        assert!(answered.resources.is_empty());
        let more = AdsRequest {
            nonce: answered.nonce,
            names: many.iter().cloned().chain(names(&["web.ann.alpha"])).collect(),
            ..asks(XdsKind::Cluster, &[])
        };
        assert!(stream.request(more).is_err(), "{mode:?}");
    }
    let known = |name: &String| (name.clone(), "1".to_owned());
    let versions = many.iter().map(known).chain([known(&"web.ann.alpha".to_owned())]).collect();
    let knows = AdsRequest { versions, ..asks(XdsKind::Cluster, &["web.ann.alpha"]) };
    assert!(stream_of(AdsMode::Incremental).request(knows).is_err(), "what it says that it has counts too");
}

#[test]
fn a_large_answer_comes_in_parts() {
    let jobs: Vec<(String, u64)> = (1..=400).map(|number| (format!("j{number}"), number)).collect();
    let listed: Vec<(&str, _)> = jobs.iter().map(|(job, id)| (job.as_str(), facts(*id, &["http"]))).collect();
    let endpoints = jobs.iter().flat_map(|(job, id)| {
        (0..60).map(move |index| {
            endpoint((*id, job.as_str()), index, &format!("10.1.{index}.1"), &[("http", 80)])
        })
    });
    let table = table_of(&listed, endpoints.collect());
    let wanted: Vec<String> = jobs.iter().map(|(job, _)| format!("{job}.ann.alpha")).collect();
    let mut stream = stream_of(AdsMode::StateOfTheWorld);
    let asks_all = || AdsRequest { names: wanted.clone(), ..asks(XdsKind::Endpoints, &[]) };
    stream.request(asks_all()).unwrap();
    let (mut parts, mut seen) = (0, BTreeSet::new());
    while let [response] = stream.responses(&table).as_slice() {
        let bytes: usize = response.resources.iter().map(|given| given.body.encoded_len()).sum();
        assert!(bytes < 2 << 20, "{bytes} bytes");
        seen.extend(response.resources.iter().map(|given| given.name.clone()));
        parts += 1;
        stream.request(AdsRequest { nonce: response.nonce.clone(), ..asks_all() }).unwrap();
    }
    assert_eq!(seen.len(), 400);
    assert!(parts > 1, "all of it was one response");
}

#[test]
fn unknown_types_and_impossible_names_change_nothing() {
    let table = web();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let unknown = AdsRequest { type_url: "type.googleapis.com/a.B".to_owned(), ..AdsRequest::default() };
    assert_eq!(client.request(&table, unknown), []);
    for impossible in
        ["", "web", "web.ann", "a.b.web.ann.alpha", "WEB.ann.alpha", "web..alpha", "_.web.ann.alpha"]
    {
        assert_eq!(xds_resource(&table, XdsKind::Cluster, impossible), None, "{impossible}");
    }
    assert_eq!(xds_resource(&table, XdsKind::Cluster, "grpc.web.ann.alpha"), None, "no such port");
    assert!(xds_resource(&table, XdsKind::Cluster, "http.web.ann.alpha").is_some());
}
