//! The bodies of the catalogue, and names that must not collide.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::{Endpoint, Health};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::consul::{CatalogOwner, catalog_service, health_service, merged_name, services};
use super::prometheus::{TargetFilter, targets};
use super::state::{CheckState, catalog_node, health_state};
use super::*;
use crate::table::merged_tests::{merged_row, shop};
use crate::table::tests::{at, endpoint, facts, key, name, step, table_of, table_steps, web};
use crate::table::{NamesTable, ServiceFacts};

fn asked(text: &str) -> ServiceQuery {
    ServiceQuery::parse(&name("alpha"), text).unwrap()
}

fn labelled(labels: &[(&str, &str)]) -> ServiceFacts {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ServiceFacts { labels: Arc::new(labels), ..facts(1, &["http"]) }
}

fn ports(body: &Value) -> Vec<u64> {
    body.as_array().unwrap().iter().map(|row| row["Service"]["Port"].as_u64().unwrap()).collect()
}

#[test]
fn no_two_services_have_one_name() {
    // Each pair would be one name if the parts were joined by a character that they may contain.
    let pairs = [("a-b", "c", None), ("a", "b-c", None), ("a", "b", Some("c")), ("a--b", "c", None)];
    let named = pairs.map(|(job, user, port)| {
        let key = crate::table::ServiceKey::of_texts("alpha", user, job).unwrap();
        let port = port.map(name);
        let text = service_name(&key, port.as_ref());
        assert_eq!(
            asked(&text),
            ServiceQuery { owner: CatalogOwner::Job(key), port },
            "{text} reads as what it names"
        );
        text
    });
    assert_eq!(named, ["a-b_c", "a_b-c", "a_b_c", "a--b_c"]);
    for impossible in ["", "web", "_", "a_b_c_d", "Web_ann", "web.ann", "a___b", "a__", "a__b_"] {
        assert_eq!(ServiceQuery::parse(&name("alpha"), impossible), None, "{impossible}");
    }
}

proptest! {
    /// A client that waits for another list sleeps as long as its index stays.
    #[test]
    fn the_index_of_a_list_moves_with_what_it_shows(steps in table_steps()) {
        let mut table = table_of(&[], Vec::new());
        for (version, one) in (2..).zip(&steps) {
            let look = |table: &NamesTable| {
                let cell = table.cell("alpha").unwrap();
                (services(cell), cell.list_index())
            };
            let before = look(&table);
            let changes = one.apply(&mut table, version);
            let after = look(&table);
            if before.0 != after.0 {
                prop_assert!(after.1 > before.1 && !changes.listed.is_empty(), "after {:?}", one);
            }
            prop_assert_eq!(before.1 != after.1, !changes.listed.is_empty(), "after {:?}", one);
        }
    }
}

/// A service with the same parts has another name if it is one of several jobs.
#[test]
fn no_merged_service_has_the_name_of_a_job() {
    let key = crate::table::MergedKey::of_texts("alpha", "ann", "web").unwrap();
    for (port, text) in [(None, "web__ann"), (Some(name("http")), "web__ann_http")] {
        assert_eq!(merged_name(&key, port.as_ref()), text);
        assert_eq!(asked(text), ServiceQuery { owner: CatalogOwner::Merged(key.clone()), port });
    }
}

#[test]
fn a_merged_service_has_the_endpoints_of_its_jobs_weighted_by_their_shares() {
    let table = shop();
    let body = health_service(&table, &asked("shop__ann"), &ServiceFilter::default());
    let rows = body.as_array().unwrap();
    assert_eq!(rows.len(), 10);
    let weights: Vec<u64> =
        rows.iter().map(|row| row["Service"]["Weights"]["Passing"].as_u64().unwrap()).collect();
    assert_eq!(weights, [vec![255; 9], vec![121]].concat());
    let canary = &rows[9]["Service"];
    assert_eq!(
        (&canary["ID"], &canary["Service"], &canary["Meta"]["borough_job"], &canary["Port"]),
        (&json!("0.shop-canary.ann.alpha__shop"), &json!("shop__ann"), &json!("shop-canary"), &json!(81))
    );
    assert_eq!(canary["Tags"], json!(["app=shop"]));
    let by_port = health_service(&table, &asked("shop__ann_http"), &ServiceFilter::default());
    assert_eq!(ports(&by_port).len(), 10);
    assert_eq!(catalog_service(&table, &asked("no__ann"), &ServiceFilter::default()), json!([]));
    let listed = services(table.cell("alpha").unwrap());
    assert_eq!(listed["shop__ann"], json!(["app=shop"]));
    let targets = |service: &str, job: Option<&str>| {
        let (service, job) = (Some(name(service)), job.map(name));
        targets(&table, &TargetFilter { service, job, ..TargetFilter::default() })
    };
    let all = targets("shop", None);
    assert_eq!(
        (all.as_array().unwrap().len(), &all[0]["labels"]["__meta_borough_service"]),
        (10, &json!("shop"))
    );
    assert_eq!(targets("shop", Some("shop-canary"))[0]["targets"], json!(["10.0.1.1:81"]));
    assert_eq!(targets("no", None), json!([]));
}

#[test]
fn a_job_with_a_share_of_nothing_is_not_passing() {
    let mut table = shop();
    let row = merged_row("ann", "shop", &["app=shop"], &[("shop-canary", 0)]);
    let row = borough_model::merged::MergedServiceRow { revision: 2, ..(*row).clone() };
    step(&mut table, |cell| cell.merged_put(Arc::new(row), at(2)));
    let passing = ServiceFilter { is_passing: true, ..ServiceFilter::default() };
    let found = |filter: &ServiceFilter| ports(&health_service(&table, &asked("shop__ann"), filter));
    assert_eq!(found(&passing), [80; 9]);
    assert_eq!(found(&ServiceFilter::default()).len(), 10);
}

#[test]
fn a_service_is_listed_once_per_port_with_its_labels_as_tags() {
    let both = ServiceFacts { ports: vec![name("http"), name("admin")], ..facts(2, &[]) };
    let over = ServiceFacts { is_live: false, ..facts(3, &["http"]) };
    let jobs = [("web", labelled(&[("tier", "front"), ("canary", "")])), ("api", both), ("old", over)];
    let table = table_of(&jobs, Vec::new());
    let listed = services(table.cell("alpha").unwrap());
    assert_eq!(
        listed,
        json!({"api_ann_admin": [], "api_ann_http": [], "web_ann": ["canary", "tier=front"]}),
        "a job that is over is left out"
    );
}

#[test]
fn a_health_answer_has_what_clients_read() {
    let table = web();
    let body = health_service(&table, &asked("web_ann"), &ServiceFilter::default());
    let row = &body[1];
    assert_eq!(row["Node"]["Node"], "n1");
    assert_eq!(row["Node"]["Datacenter"], "alpha");
    let service = &row["Service"];
    assert_eq!(
        (&service["ID"], &service["Service"], &service["Address"], &service["Port"]),
        (&json!("1.web.ann.alpha"), &json!("web_ann"), &json!("10.0.0.2"), &json!(8_080))
    );
    assert_eq!(service["Weights"], json!({"Passing": 1, "Warning": 1}));
    assert_eq!(service["Meta"]["borough_zone"], "east");
    assert_eq!(row["Checks"][0]["Status"], "passing");
    let catalog = catalog_service(&table, &asked("web_ann"), &ServiceFilter::default());
    assert_eq!(
        (&catalog[1]["ServiceAddress"], &catalog[1]["ServicePort"], &catalog[1]["Address"]),
        (&json!("10.0.0.2"), &json!(8_080), &json!("10.0.0.2"))
    );
    assert_eq!(health_service(&table, &asked("no_ann"), &ServiceFilter::default()), json!([]));
}

#[test]
fn ports_and_tags_choose() {
    let two = endpoint((1, "web"), 0, "10.0.0.1", &[("http", 80), ("admin", 81)]);
    let jobs = [(
        "web",
        ServiceFacts { ports: vec![name("http"), name("admin")], ..labelled(&[("tier", "front")]) },
    )];
    let table = table_of(&jobs, vec![two]);
    let health = |text: &str, tags: &[&str]| {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        ports(&health_service(&table, &asked(text), &ServiceFilter { tags, ..ServiceFilter::default() }))
    };
    assert_eq!((health("web_ann", &[]), health("web_ann_admin", &[])), (vec![80], vec![81]));
    assert_eq!(health("web_ann_other", &[]), Vec::<u64>::new());
    assert_eq!((health("web_ann", &["tier=front"]), health("web_ann", &["tier=back"])), (vec![80], vec![]));
}

#[test]
fn passing_means_the_endpoints_that_take_traffic() {
    let table = |lost: &[u32]| -> NamesTable {
        let endpoints = (0..2).map(|index| {
            let known =
                endpoint((1, "web"), index, "10.0.0.1", &[("http", 80 + u16::try_from(index).unwrap())]);
            let health = if lost.contains(&index) { Health::Unknown } else { Health::Healthy };
            Endpoint { health, ..known }
        });
        table_of(&[("web", facts(1, &["http"]))], endpoints.collect())
    };
    let passing = ServiceFilter { is_passing: true, ..ServiceFilter::default() };
    let some = table(&[1]);
    assert_eq!(ports(&health_service(&some, &asked("web_ann"), &passing)), [80]);
    let all = health_service(&some, &asked("web_ann"), &ServiceFilter::default());
    assert_eq!((ports(&all), &all[1]["Checks"][0]["Status"]), (vec![80, 81], &json!("warning")));
    let lost = health_service(&table(&[0, 1]), &asked("web_ann"), &passing);
    assert_eq!(ports(&lost), [80, 81], "a dark control plane drains nobody");
}

#[test]
fn targets_have_labels_that_prometheus_takes() {
    let labels =
        [("app.kubernetes.io/name", "a \"quoted\"\nvalue"), ("app-kubernetes.io/name", "second"), ("é", "x")];
    let jobs = [("web", labelled(&labels))];
    let six = endpoint((1, "web"), 0, "2001:db8::1", &[("http", 80), ("admin", 81)]);
    let table = table_of(&jobs, vec![six]);
    let all = targets(&table, &TargetFilter::default());
    assert_eq!(all.as_array().unwrap().len(), 2);
    let group = &all[0];
    assert_eq!(group["targets"], json!(["[2001:db8::1]:80"]));
    for key in group["labels"].as_object().unwrap().keys() {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        assert!(key.chars().all(fits) && key.starts_with("__meta_borough_"), "{key}");
    }
    assert_eq!(
        group["labels"]["__meta_borough_label_app_kubernetes_io_name"], "second",
        "the first in order"
    );
    assert_eq!(group["labels"]["__meta_borough_job"], "web");
    // A load balancer sees how much of the job it has.
    assert_eq!(group["labels"]["__meta_borough_job_tasks"], "3");
    let found = health_service(&table, &asked("web_ann"), &ServiceFilter::default());
    assert_eq!(found[0]["Service"]["Meta"]["borough_job_tasks"], "3");
    let one = TargetFilter {
        cell: Some(name("alpha")),
        user: Some(name("ann")),
        service: None,
        job: Some(name("web")),
        port: Some(name("admin")),
    };
    assert_eq!(targets(&table, &one)[0]["targets"], json!(["[2001:db8::1]:81"]));
    let other = TargetFilter { user: Some(name("bob")), ..TargetFilter::default() };
    assert_eq!(targets(&table, &other), json!([]));
    assert_eq!(key("web").to_string(), "web.ann.alpha");
}

/// The names of services in checks.
fn checked(body: &Value) -> Vec<&str> {
    body.as_array().unwrap().iter().map(|check| check["ServiceName"].as_str().unwrap()).collect()
}

#[test]
fn checks_are_found_by_their_state_over_all_services() {
    let mut lost = endpoint((1, "web"), 1, "10.0.0.2", &[("http", 8080)]);
    lost.health = Health::Unknown;
    let published = vec![endpoint((1, "web"), 0, "10.0.0.1", &[("http", 8080)]), lost];
    let api = endpoint((2, "api"), 0, "10.0.0.1", &[("http", 90), ("admin", 91)]);
    let jobs = [("web", facts(1, &["http"])), ("api", facts(2, &["http", "admin"]))];
    let table = table_of(&jobs, [published, vec![api]].concat());
    let cell = table.cell("alpha").unwrap();
    let of = |state: &str| health_state(&table, cell, CheckState::parse(state).unwrap());
    assert_eq!(checked(&of("any")), ["api_ann_http", "api_ann_admin", "web_ann", "web_ann"]);
    assert_eq!(checked(&of("passing")), ["api_ann_http", "api_ann_admin", "web_ann"]);
    let warning = of("warning");
    assert_eq!((checked(&warning), &warning[0]["Output"]), (vec!["web_ann"], &json!("unknown")));
    assert_eq!(of("critical"), json!([]));
    assert_eq!(CheckState::parse("maintenance"), None);
    // The checks are those of the service by itself.
    let by_service = health_service(&table, &asked("web_ann"), &ServiceFilter::default());
    assert_eq!(by_service[1]["Checks"][0], warning[0]);
    let node = catalog_node(&table, cell, "n1");
    assert_eq!(node["Node"]["Node"], "n1");
    assert_eq!(node["Services"]["0.api.ann.alpha_admin"]["Port"], 91);
    assert_eq!(node["Services"].as_object().unwrap().len(), 4);
    assert_eq!(catalog_node(&table, cell, "n2"), Value::Null);
}

proptest! {
    /// Who waits for the checks of a cell hears of each change of them.
    #[test]
    fn the_index_of_all_services_moves_with_each_change(steps in table_steps()) {
        let mut table = table_of(&[], Vec::new());
        for (version, one) in (2..).zip(&steps) {
            let look = |table: &NamesTable| {
                let cell = table.cell("alpha").unwrap();
                (health_state(table, cell, CheckState::Any), table.changed_index(cell))
            };
            let before = look(&table);
            one.apply(&mut table, version);
            let after = look(&table);
            prop_assert!(before.1.0 > 0, "0 would make a client ask again at once");
            prop_assert!(before.0 == after.0 || after.1 > before.1, "after {:?}", one);
        }
    }
}
