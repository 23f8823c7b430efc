//! From the embedded engine to a FoundationDB cluster and back, if a test server is named.

use borough_kv::exercise::not_exercised;

use super::cell::{Place, json, store_with_cell};
use super::copy::rows_of;

#[test]
fn a_cell_goes_to_a_cluster_and_back() {
    let Ok(cluster) = std::env::var("BOROUGH_FDB_CLUSTER_FILE") else {
        not_exercised("a cell copied to FoundationDB and back", "BOROUGH_FDB_CLUSTER_FILE names no server");
        return;
    };
    let place = Place::new();
    store_with_cell(&place.path("laptop"));
    let (laptop, cluster) = (place.store("laptop"), format!("fdb:{cluster}"));
    // Others may use the server: the process id makes the name unique.
    let cell = format!("copy-{}", std::process::id());
    let (out, back) = (place.text("out.export"), place.text("back.export"));
    json(0, &["store", "export", "--store", &laptop, "--cell", "alpha", "--to", &out]);
    let there = json(0, &["store", "import", "--store", &cluster, "--from", &out, "--cell", &cell]);
    assert_eq!(there["state"], "open");
    json(0, &["store", "check", "--store", &cluster, "--cell", &cell]);
    json(0, &["store", "export", "--store", &cluster, "--cell", &cell, "--to", &back, "--close"]);
    assert_eq!(rows_of(back.as_ref()), rows_of(out.as_ref()));
    let home =
        json(0, &["store", "import", "--store", &place.store("home"), "--from", &back, "--cell", "alpha"]);
    assert!(home["store_epoch"].as_u64() > there["store_epoch"].as_u64());
    json(0, &["store", "check", "--store", &place.store("home")]);
    let bench = json(0, &["store", "bench", "--store", &cluster, "--time", "100ms", "--clients", "4"]);
    assert_eq!(bench["engine"], "fdb");
}
