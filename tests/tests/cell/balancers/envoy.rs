//! Envoy over xDS.

use std::path::Path;

use borough_testkit::HeldProgram;
use borough_tests::TestCell;

use super::page::{example, replaced};

/// Where it gets clusters from.
#[derive(Clone, Copy)]
pub(super) enum Clusters {
    /// Its file names the cluster and asks for its endpoints alone.
    Named,
    /// It asks for every cluster, by increments.
    All,
}

/// Starts it before the job `web`. It listens on `address`.
pub(super) fn start(cell: &TestCell, program: &Path, address: &str, clusters: Clusters) -> HeldProgram {
    let named = example(cell, "### Envoy", address);
    let (name, text) = match clusters {
        Clusters::Named => ("envoy-named.yaml", named),
        Clusters::All => ("envoy-all.yaml", all_clusters(&named)),
    };
    let file = cell.file(name, &text);
    let arguments = ["-c", &file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"];
    HeldProgram::start(program, &arguments, Path::new(&file).with_extension("log"))
}

/// The variant that the documentation describes.
fn all_clusters(named: &str) -> String {
    let (before, cluster) = named.split_once("    - name: web.tester.alpha\n").unwrap();
    let (_, after) = cluster.split_once("  listeners:\n").unwrap();
    let text = format!("{before}  listeners:\n{after}");
    let text = replaced(&text, "api_type: GRPC", "api_type: DELTA_GRPC");
    let asked = "  cds_config: {ads: {}, resource_api_version: V3}\nstatic_resources:";
    let text = replaced(&text, "static_resources:", asked);
    replaced(&text, "virtual_hosts:", "validate_clusters: false\n                  virtual_hosts:")
}
