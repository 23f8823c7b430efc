//! Envoy over xDS, as the documentation configures it.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::TestCell;
use serde_json::{Value, json};

/// Where it gets clusters from.
#[derive(Clone, Copy)]
pub(super) enum Clusters {
    /// Its file names the cluster and asks for its endpoints alone.
    Named,
    /// It asks for every cluster, by increments.
    All,
}

/// Starts it before the first port of a job. It listens on `address`.
pub(super) fn start(
    cell: &TestCell,
    program: &Path,
    job: &str,
    address: &str,
    clusters: Clusters,
) -> HeldProgram {
    let name = match clusters {
        Clusters::Named => "envoy-named",
        Clusters::All => "envoy-all",
    };
    let file =
        cell.file(&format!("{name}.json"), &bootstrap(&cell.xds(), job, address, clusters).to_string());
    let arguments = ["-c", &file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"];
    HeldProgram::start(program, &arguments, Path::new(&file).with_extension("log"))
}

fn bootstrap(xds: &str, job: &str, address: &str, clusters: Clusters) -> Value {
    let cluster = format!("{job}.tester.alpha");
    let from_stream = json!({"ads": {}, "resource_api_version": "V3"});
    let named = json!({
        "name": cluster,
        "type": "EDS",
        "connect_timeout": "2s",
        "eds_cluster_config": {"eds_config": from_stream},
    });
    let (kind, own, asked) = match clusters {
        Clusters::Named => ("GRPC", vec![named], None),
        Clusters::All => ("DELTA_GRPC", Vec::new(), Some(from_stream)),
    };
    json!({
        "node": {"id": "proxy-1", "cluster": "test"},
        "dynamic_resources": {
            "ads_config": {
                "api_type": kind,
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "borough"}}],
            },
            "cds_config": asked,
        },
        "static_resources": {
            "clusters": std::iter::once(names_cluster(xds)).chain(own).collect::<Vec<_>>(),
            "listeners": [listener(address, &cluster)],
        },
    })
}

/// The name service.
fn names_cluster(xds: &str) -> Value {
    json!({
        "name": "borough",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        },
        "load_assignment": {
            "cluster_name": "borough",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(xds)}}]}],
        },
    })
}

fn listener(address: &str, cluster: &str) -> Value {
    json!({
        "address": socket(address),
        "filter_chains": [{"filters": [{
            "name": "http",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3\
                          .HttpConnectionManager",
                "stat_prefix": "web",
                "http_filters": [{
                    "name": "router",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                }],
                // Clusters come later than listeners.
                "route_config": {"validate_clusters": false, "virtual_hosts": [{
                    "name": "web",
                    "domains": ["*"],
                    "routes": [{
                        "match": {"prefix": "/"},
                        "route": {
                            "cluster": cluster,
                            "retry_policy": {
                                "retry_on": "connect-failure,refused-stream",
                                "num_retries": 3,
                                "retry_host_predicate": [{
                                    "name": "previous",
                                    "typed_config": {
                                        "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3\
                                                  .PreviousHostsPredicate",
                                    },
                                }],
                                "host_selection_retry_max_attempts": 5,
                            },
                        },
                    }],
                }]},
            },
        }]}],
    })
}

fn socket(address: &str) -> Value {
    let (host, port) = address.split_once(':').unwrap();
    json!({"socket_address": {"address": host, "port_value": port.parse::<u16>().unwrap()}})
}
