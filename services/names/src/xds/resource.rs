//! The content of a resource, as a function of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use borough_model::Name;
use borough_model::task::Health;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, EdsClusterConfig,
};
use envoy_types::pb::envoy::config::core::v3::address::Address as AddressKind;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, HealthStatus, Locality, Metadata, SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, WeightedCluster,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter,
};
use envoy_types::pb::google::protobuf::{Any, Duration, Struct, UInt32Value, Value, value};
use prost::{Message, Name as ProtoName};
use xxhash_rust::xxh3::Xxh3;

use super::name::{XdsKind, XdsName, XdsOwner};
use crate::table::{MergedJob, MergedPort, MergedView, NamesTable, Service, ServiceEndpoint, ServiceKey};

/// A resource with its version: equal resources have equal versions.
#[derive(Clone, Debug, PartialEq)]
pub struct XdsResource {
    pub version: u64,
    pub body: Any,
}

/// The resource called `text`; `None` if there is none. A name that nobody can have is one that nobody has.
pub fn xds_resource(table: &NamesTable, kind: XdsKind, text: &str) -> Option<XdsResource> {
    let name = XdsName::parse(text)?;
    let (target, endpoints) = match &name.owner {
        XdsOwner::Job(key) => {
            let service = name.service(table)?;
            let endpoints = || job_endpoints(text, key, service, name.port.as_ref());
            (RouteTarget::cluster(text), (kind == XdsKind::Endpoints).then(endpoints))
        }
        XdsOwner::Merged(key) => {
            let merged = table.merged(key)?;
            let port = name.port.as_ref().map_or(MergedPort::Placed(0), MergedPort::Named);
            if name.port.is_some() && !merged.has_port(port) {
                return None;
            }
            (merged_target(text, &name, &merged, port), None)
        }
    };
    Some(match kind {
        XdsKind::Listener => versioned(&listener(text, route(text, target)), &[]),
        XdsKind::Route => versioned(&route(text, target), &[]),
        XdsKind::Cluster => versioned(&cluster(text), &[]),
        XdsKind::Endpoints => endpoints.unwrap_or_else(|| endpoints_none(text)),
    })
}

/// The clusters of the jobs of a merged service, with their parts of the traffic. A client of gRPC ignores the weights
/// of endpoints. While no job can serve, the target is the service's own cluster, which has no endpoints: calls fail at
/// once, or wait if they want to.
fn merged_target(text: &str, name: &XdsName, merged: &MergedView<'_>, port: MergedPort<'_>) -> RouteTarget {
    let parts = merged.parts(port);
    let cluster = |(at, job): (usize, &MergedJob<'_>)| {
        let part = parts.part(at);
        let cluster = XdsName { owner: XdsOwner::Job(job.key.clone()), port: name.port.clone() };
        (part > 0).then(|| (cluster.to_string(), part))
    };
    let clusters: Vec<(String, u32)> = merged.jobs.iter().enumerate().filter_map(cluster).collect();
    if clusters.is_empty() { RouteTarget::cluster(text) } else { RouteTarget(clusters) }
}

/// Where a route leads: clusters with their weights.
struct RouteTarget(Vec<(String, u32)>);

impl RouteTarget {
    fn cluster(name: &str) -> Self {
        Self(vec![(name.to_owned(), 1)])
    }

    fn specifier(self) -> ClusterSpecifier {
        let Self(mut clusters) = self;
        if clusters.len() == 1
            && let Some((name, _)) = clusters.pop()
        {
            return ClusterSpecifier::Cluster(name);
        }
        let weighted = clusters.into_iter().map(|(name, weight)| ClusterWeight {
            name,
            weight: Some(UInt32Value { value: weight }),
            ..ClusterWeight::default()
        });
        let clusters = WeightedCluster { clusters: weighted.collect(), ..WeightedCluster::default() };
        ClusterSpecifier::WeightedClusters(clusters)
    }
}

/// Endpoints of a service that is gone: whoever has them must stop to use them.
pub(super) fn endpoints_none(text: &str) -> XdsResource {
    versioned(&ClusterLoadAssignment { cluster_name: text.to_owned(), ..Default::default() }, &[])
}

fn any<M: Message + ProtoName>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// The message with a version from its bytes and from `details`. Maps have no order on the wire, so that what is in a
/// map goes into the details and not into the message's own bytes.
fn versioned<M: Message + ProtoName>(message: &M, details: &[String]) -> XdsResource {
    let body = any(message);
    XdsResource { version: version_of(&body.value, details), body }
}

fn version_of(bytes: &[u8], details: &[String]) -> u64 {
    let mut digest = Xxh3::new();
    digest.update(bytes);
    for detail in details {
        digest.update(&u64::try_from(detail.len()).unwrap_or_default().to_be_bytes());
        digest.update(detail.as_bytes());
    }
    digest.digest()
}

/// From the same stream as everything else.
fn from_this_stream() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

/// The listener of a gRPC client. It has its route inline, which saves a round trip.
fn listener(name: &str, route: RouteConfiguration) -> Listener {
    let router = HttpFilter {
        name: "router".to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(&Router::default()))),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: name.to_owned(),
        route_specifier: Some(RouteSpecifier::RouteConfig(route)),
        http_filters: vec![router],
        ..HttpConnectionManager::default()
    };
    Listener {
        name: name.to_owned(),
        api_listener: Some(ApiListener { api_listener: Some(any(&manager)) }),
        ..Listener::default()
    }
}

/// Every request goes to one target.
fn route(name: &str, target: RouteTarget) -> RouteConfiguration {
    let action = RouteAction { cluster_specifier: Some(target.specifier()), ..RouteAction::default() };
    let everything =
        RouteMatch { path_specifier: Some(PathSpecifier::Prefix(String::new())), ..RouteMatch::default() };
    let route = Route { r#match: Some(everything), action: Some(Action::Route(action)), ..Route::default() };
    let host = VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    RouteConfiguration { name: name.to_owned(), virtual_hosts: vec![host], ..RouteConfiguration::default() }
}

fn cluster(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(from_this_stream()),
            service_name: name.to_owned(),
        }),
        connect_timeout: Some(Duration { seconds: 5, nanos: 0 }),
        ..Cluster::default()
    }
}

/// The endpoints of one locality while they are collected.
#[derive(Default)]
struct LocalityDraft {
    endpoints: Vec<LbEndpoint>,
    /// The sum of the weights of the endpoints that take traffic.
    weight: u32,
}

/// The endpoints of a service by locality. Hosts that are names are left out, since clients accept addresses only, and
/// an address is given once, since one that is there twice makes the whole resource invalid.
fn job_endpoints(text: &str, key: &ServiceKey, service: &Service, port: Option<&Name>) -> XdsResource {
    let port = port.or_else(|| service.facts().ports.first());
    let mut seen: BTreeSet<(IpAddr, u16)> = BTreeSet::new();
    let mut localities: BTreeMap<(&str, &str), LocalityDraft> = BTreeMap::new();
    let mut details = Vec::new();
    for endpoint in service.endpoints() {
        let number = port_of(endpoint, port);
        let Some(number) = number else { continue };
        let Some(address) = endpoint.host.address() else {
            tracing::debug!(service = %key, host = endpoint.host.text(), "xDS leaves out a host that is a name");
            continue;
        };
        if !seen.insert((address, number)) {
            continue;
        }
        let draft = localities.entry((&endpoint.place.zone, &endpoint.place.sub_zone)).or_default();
        if service.is_usable(endpoint) {
            draft.weight = draft.weight.saturating_add(endpoint.weight);
        }
        details.push(detail_of(endpoint));
        draft.endpoints.push(lb_endpoint(endpoint, address, number, health_of(endpoint, service)));
    }
    // The version must not depend on the order of a map, and only the details are in one.
    let mut assignment = ClusterLoadAssignment { cluster_name: text.to_owned(), ..Default::default() };
    for ((zone, sub_zone), draft) in localities {
        assignment.endpoints.push(LocalityLbEndpoints {
            locality: Some(Locality {
                region: key.cell.to_string(),
                zone: zone.to_owned(),
                sub_zone: sub_zone.to_owned(),
            }),
            lb_endpoints: draft.endpoints,
            // gRPC skips a locality without a weight, which is right for one that takes no traffic.
            load_balancing_weight: (draft.weight > 0).then_some(UInt32Value { value: draft.weight }),
            ..LocalityLbEndpoints::default()
        });
    }
    let version = version_of(&assignment.encode_to_vec(), &details);
    let mut at = details.into_iter();
    for endpoint in assignment.endpoints.iter_mut().flat_map(|locality| &mut locality.lb_endpoints) {
        endpoint.metadata = at.next().map(metadata);
    }
    XdsResource { version, body: any(&assignment) }
}

fn port_of(endpoint: &ServiceEndpoint, port: Option<&Name>) -> Option<u16> {
    match port {
        Some(port) => endpoint.port(port),
        None => endpoint.ports.first().map(|port| port.number),
    }
}

fn health_of(endpoint: &ServiceEndpoint, service: &Service) -> HealthStatus {
    match endpoint.health {
        Health::Healthy => HealthStatus::Healthy,
        // Its node is lost, and so are those of all others.
        Health::Unknown if service.is_usable(endpoint) => HealthStatus::Unknown,
        Health::Unknown | Health::Unhealthy => HealthStatus::Unhealthy,
    }
}

fn lb_endpoint(endpoint: &ServiceEndpoint, address: IpAddr, port: u16, health: HealthStatus) -> LbEndpoint {
    let socket = SocketAddress {
        address: address.to_string(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    let address = Address { address: Some(AddressKind::SocketAddress(socket)) };
    LbEndpoint {
        health_status: health.into(),
        load_balancing_weight: Some(UInt32Value { value: endpoint.weight }),
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    }
}

/// What the metadata of an endpoint says: its task, its attempt, its node, and whether that is being emptied.
fn detail_of(endpoint: &ServiceEndpoint) -> String {
    let draining = if endpoint.place.is_draining { " draining" } else { "" };
    format!("task {} attempt {} node {}{draining}", endpoint.task.index, endpoint.incarnation, endpoint.node)
}

fn metadata(detail: String) -> Metadata {
    let text = Value { kind: Some(value::Kind::StringValue(detail)) };
    let fields = Struct { fields: [("endpoint".to_owned(), text)].into() };
    Metadata { filter_metadata: [("borough".to_owned(), fields)].into(), ..Metadata::default() }
}
