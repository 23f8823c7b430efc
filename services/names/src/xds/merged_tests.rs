//! Merged services over xDS.

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use prost::Message as _;

use borough_model::{JobId, TaskId};

use super::tests::{Client, asks, one};
use super::*;
use crate::hub::HubKey;
use crate::table::NamesTable;
use crate::table::merged_tests::{merged_key, merged_row, shop};
use crate::table::tests::{at, endpoint, name, step};

/// The clusters of a route with their weights.
fn clusters(table: &NamesTable, text: &str) -> Vec<(String, u32)> {
    use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
    use envoy_types::pb::envoy::config::route::v3::route::Action;
    use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
    let resource = xds_resource(table, XdsKind::Route, text).unwrap();
    let mut route = RouteConfiguration::decode(resource.body.value.as_slice()).unwrap();
    let Some(Action::Route(action)) = route.virtual_hosts.remove(0).routes.remove(0).action else {
        panic!("{text}")
    };
    match action.cluster_specifier.unwrap() {
        ClusterSpecifier::Cluster(name) => vec![(name, 0)],
        ClusterSpecifier::WeightedClusters(clusters) => {
            let weighted = clusters.clusters.into_iter();
            weighted.map(|cluster| (cluster.name, cluster.weight.unwrap().value)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_route_of_a_merged_service_divides_the_traffic_over_the_clusters_of_its_jobs() {
    let mut table = shop();
    let of = |clusters: &[(&str, u32)]| -> Vec<(String, u32)> {
        clusters.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
    };
    assert_eq!(
        clusters(&table, "svc/shop.ann.alpha"),
        of(&[("shop.ann.alpha", 950_000), ("shop-canary.ann.alpha", 50_000)])
    );
    assert_eq!(
        clusters(&table, "svc/http.shop.ann.alpha"),
        of(&[("http.shop.ann.alpha", 950_000), ("http.shop-canary.ann.alpha", 50_000)])
    );
    assert_eq!(clusters(&table, "shop.ann.alpha"), of(&[("shop.ann.alpha", 0)]), "the job of the same name");
    assert_eq!(xds_resource(&table, XdsKind::Route, "svc/admin.shop.ann.alpha"), None, "no such port");
    // A job without a usable endpoint leaves the route.
    let canary = TaskId { job: JobId(2), index: 0 };
    step(&mut table, |cell| cell.endpoint_remove(&name("ann"), &name("shop-canary"), canary, 9, at(2)));
    assert_eq!(clusters(&table, "svc/shop.ann.alpha"), of(&[("shop.ann.alpha", 0)]));
    // Without any, the route leads to a cluster that has no endpoints.
    step(&mut table, |cell| cell.job_remove(JobId(1), at(3)));
    assert_eq!(clusters(&table, "svc/shop.ann.alpha"), of(&[("svc/shop.ann.alpha", 0)]));
    let none = xds_resource(&table, XdsKind::Endpoints, "svc/shop.ann.alpha").unwrap();
    assert_eq!(ClusterLoadAssignment::decode(none.body.value.as_slice()).unwrap().endpoints, []);
    for impossible in
        ["svc/", "svc/shop", "svc/a.b.shop.ann.alpha", "svc/svc/shop.ann.alpha", "svc/no.ann.alpha"]
    {
        assert_eq!(xds_resource(&table, XdsKind::Listener, impossible), None, "{impossible}");
    }
}

#[test]
fn a_client_of_a_merged_service_learns_of_its_jobs_only() {
    let mut table = shop();
    let mut client = Client::new(AdsMode::StateOfTheWorld);
    let wanted = &["svc/shop.ann.alpha"];
    let first = one(client.request(&table, asks(XdsKind::Listener, wanted)));
    assert_eq!(first.resources.len(), 1);
    assert!(client.acknowledge(&table, &first, wanted).is_empty());
    assert_eq!(client.stream.follow_changes(), [FollowChange::Begin(HubKey::Merged(merged_key("shop")))]);
    let more = endpoint((1, "shop"), 9, "10.0.0.99", &[("http", 80)]);
    let changes = step(&mut table, |cell| cell.endpoint_put(&more, 5, 0, at(2)));
    assert_eq!(changes.merged, [merged_key("shop")].into());
    assert_eq!(client.stepped(&table, changes), [], "the parts are the same, and so is the route");
    let row = merged_row("ann", "shop", &["app=shop"], &[("shop-canary", 25)]);
    let row = borough_model::merged::MergedServiceRow { revision: 2, ..(*row).clone() };
    let shared = step(&mut table, |cell| cell.merged_put(std::sync::Arc::new(row), at(3)));
    assert_eq!(one(client.stepped(&table, shared)).resources.len(), 1, "another share");
}
