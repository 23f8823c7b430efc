//! Answers against a model that writes down every record of the zone, and packets by hand.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use borough_model::Name;
use borough_model::merged::MERGED_NAME_MAX;
use borough_model::task::{Endpoint, Health};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name as DnsName, RData, Record, RecordType};
use proptest::prelude::*;

use self::model::ZoneModel;
use super::name::{PortLabel, ZoneOwner};
use super::records::srv_weight;
use super::*;
use crate::table::merged_tests::{merged_row, of_app, shop};
use crate::table::tests::{at, endpoint, facts, step, table_of, web};
use crate::table::{AnswerTimes, MergedKey, NamesTable, ServiceFacts, ServiceKey};

fn zone() -> DnsZone {
    let own: IpAddr = "127.0.0.1".parse().unwrap();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    DnsZone::new("names.test", vec![own], ZoneTimes { ttl: seconds(7), negative_ttl: seconds(3) }).unwrap()
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(0x1234, MessageType::Query, OpCode::Query);
    let mut name = DnsName::from_ascii(name).unwrap();
    name.set_fqdn(true);
    message.add_query(Query::query(name, kind));
    message
}

fn asked(table: &NamesTable, query: &Message, transport: DnsTransport, rotation: u64) -> Message {
    let packet = query.to_vec().unwrap();
    let answer = packet_answer(Some(table), &zone(), &packet, transport, rotation).unwrap();
    Message::from_vec(&answer).unwrap()
}

fn tcp(table: &NamesTable, name: &str, kind: RecordType) -> Message {
    asked(table, &query(name, kind), DnsTransport::Tcp, 0)
}

fn shown(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.data.to_string()).collect()
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        (1..4_u8).prop_map(|last| format!("10.0.0.{last}")),
        (1..3_u8).prop_map(|last| format!("2001:db8::{last}")),
        Just("host.example.org".to_owned()),
    ]
}

prop_compose! {
    fn some_endpoint(job: &'static str, id: u64)(
        index in 0..5_u32,
        host in host(),
        number in 1_000..1_003_u16,
        weight in 1..=255_u32,
        is_healthy in any::<bool>(),
        ports in prop::sample::select(vec![&["http"][..], &["http", "admin"][..], &["old"][..], &[][..]]),
    ) -> Endpoint {
        let ports: Vec<(&str, u16)> = ports.iter().zip(number..).map(|(port, number)| (*port, number)).collect();
        let health = if is_healthy { Health::Healthy } else { Health::Unknown };
        Endpoint { health, weight, ..endpoint((id, job), index, &host, &ports) }
    }
}

/// Names near those that exist.
fn some_name() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "4",
        "9",
        "00",
        "_tcp",
        "_udp",
        "_http",
        "_admin",
        "_old",
        "_0",
        "_1",
        "_7",
        "web",
        "api",
        "svc",
        "no",
        "ann",
        "bob",
        "alpha",
        "beta",
        "0a000001",
        "7f000001",
        "20010db8000000000000000000000001",
        "xx",
    ]);
    let path = prop_oneof![
        Just(vec!["web", "ann", "alpha"]),
        Just(vec!["api", "ann", "alpha"]),
        Just(vec!["_tcp", "web", "ann", "alpha"]),
        Just(vec!["web", "svc", "ann", "alpha"]),
        Just(vec!["_tcp", "web", "svc", "ann", "alpha"]),
        Just(vec!["svc", "ann", "alpha"]),
        Just(vec!["ann", "alpha"]),
        Just(vec!["0"]),
        Just(vec![]),
    ];
    (prop::collection::vec(label, 0..3), path).prop_map(|(mut labels, path)| {
        labels.extend(path);
        labels.push("names.test");
        labels.join(".")
    })
}

fn some_kind() -> impl Strategy<Value = RecordType> {
    use RecordType::{A, AAAA, ANY, NS, SRV, TXT};
    prop::sample::select(vec![A, AAAA, SRV, NS, TXT, ANY])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_answer_is_that_of_the_zone_written_down(
        webs in prop::collection::vec(some_endpoint("web", 1), 0..6),
        apis in prop::collection::vec(some_endpoint("api", 2), 0..3),
        has_svc in any::<bool>(),
        selector in prop::option::of(prop::sample::select(vec!["app=shop", "app!=shop", "app=no"])),
        share in prop::option::of(prop::sample::select(vec![0, 5, 100])),
        name in some_name(),
        kind in some_kind(),
        rotation in any::<u64>(),
    ) {
        let of_app = |app: &str, ports: &[&str], id| ServiceFacts { ports: facts(id, ports).ports, ..of_app(id, app) };
        let jobs = [
            ("web", of_app("shop", &["http", "admin"], 1)),
            ("api", of_app("shop", &["admin"], 2)),
            ("svc", of_app("svc", &["http"], 3)),
        ];
        let jobs = if has_svc { &jobs[..] } else { &jobs[..2] };
        // The last one of an index counts, as in the table.
        let last: BTreeMap<_, Endpoint> =
            webs.into_iter().chain(apis).map(|endpoint| (endpoint.task, endpoint)).collect();
        let endpoints: Vec<Endpoint> = last.into_values().collect();
        let mut table = table_of(jobs, endpoints.clone());
        let shares: Vec<(&str, u32)> = share.map(|share| ("api", share)).into_iter().collect();
        let merged = selector.map(|selector| merged_row("ann", "web", &[selector], &shares));
        if let Some(row) = &merged {
            step(&mut table, |cell| cell.merged_put(std::sync::Arc::clone(row), at(2)));
        }
        let (code, wanted) = ZoneModel::of(jobs, &endpoints, merged.as_deref()).answer(&name, kind);
        let full = asked(&table, &query(&name, kind), DnsTransport::Tcp, rotation);
        prop_assert_eq!(full.metadata.response_code, code, "{} {}", name, kind);
        prop_assert!(full.metadata.authoritative && !full.metadata.truncation);
        let given = shown(&full.answers);
        let found: BTreeSet<String> = given.iter().cloned().collect();
        prop_assert_eq!(&found, &wanted, "{} {}", name, kind);
        prop_assert_eq!(given.len(), found.len(), "a record twice");
        // Without records the SOA record says how long that holds.
        prop_assert_eq!(full.authorities.len(), usize::from(wanted.is_empty()));
        let cut = asked(&table, &query(&name, kind), DnsTransport::Udp, rotation);
        let of_cut: BTreeSet<String> = shown(&cut.answers).into_iter().collect();
        prop_assert!(of_cut.is_subset(&wanted));
        prop_assert_eq!(cut.metadata.truncation, of_cut.len() < wanted.len());
        prop_assert!(cut.to_vec().unwrap().len() <= 512);
    }

    #[test]
    fn no_packet_is_answered_with_more_than_its_transport_takes(
        packet in prop::collection::vec(any::<u8>(), 0..64),
        head in any::<bool>(),
    ) {
        let table = web();
        let mut bytes = if head { query("web.ann.alpha.names.test", RecordType::A).to_vec().unwrap() } else { Vec::new() };
        bytes.extend(packet);
        if let Some(answer) = packet_answer(Some(&table), &zone(), &bytes, DnsTransport::Udp, 0) {
            prop_assert!(answer.len() <= 1_232);
            prop_assert_eq!(&answer[..2], &bytes[..2], "the id");
            prop_assert!(answer[2] & 0x80 != 0, "a response");
        }
    }
}

#[test]
fn a_port_has_its_endpoints_with_weights_as_haproxy_reads_them() {
    let endpoints = [(0, 1), (1, 10), (2, 255)].map(|(index, weight)| {
        let host = format!("10.0.0.{}", index + 1);
        Endpoint { weight, ..endpoint((1, "web"), index, &host, &[("http", 8_080)]) }
    });
    let table = table_of(&[("web", facts(1, &["http"]))], endpoints.to_vec());
    let answer = tcp(&table, "_http._tcp.web.ann.alpha.names.test", RecordType::SRV);
    assert_eq!(
        shown(&answer.answers),
        [
            "0 256 8080 0.web.ann.alpha.names.test.",
            "0 2560 8080 1.web.ann.alpha.names.test.",
            "0 65280 8080 2.web.ann.alpha.names.test.",
        ]
    );
    assert_eq!(shown(&answer.additionals), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(answer.answers[0].ttl, 7);
    // HAProxy: the weight is w / 256, rounded up, and 0 means drained.
    let haproxy = |weight| u32::from(srv_weight(weight)).div_ceil(256);
    assert!((1..=255).all(|weight| haproxy(weight) == weight));
    assert!(srv_weight(0) > 0, "a published endpoint is never drained by its weight");
}

#[test]
fn a_canary_has_a_weight_of_five_per_cent() {
    let table = shop();
    let answer = tcp(&table, "_http._tcp.shop.svc.ann.alpha.names.test", RecordType::SRV);
    let weights = shown(&answer.answers).into_iter().map(|record| {
        let mut parts = record.split(' ').map(str::to_owned);
        (parts.nth(1).unwrap().parse::<u32>().unwrap(), parts.nth(1).unwrap())
    });
    let weights: Vec<(u32, String)> = weights.collect();
    let canary = weights.iter().filter(|(_, target)| target.starts_with("0.shop-canary.ann.alpha."));
    let canary: u32 = canary.map(|(weight, _)| *weight).sum();
    let all: u32 = weights.iter().map(|(weight, _)| *weight).sum();
    let part = f64::from(canary) / f64::from(all);
    assert!((part - 0.05).abs() < 0.000_5, "{part} of {weights:?}");
    assert_eq!((answer.answers.len(), answer.additionals.len()), (10, 10));
    // Addresses have no weights.
    assert_eq!(tcp(&table, "shop.svc.ann.alpha.names.test", RecordType::A).answers.len(), 10);
}

/// A job may be called `svc`, and a merged service may have the name of a job. The first label tells whose name it is:
/// those of tasks and of `_tcp` do not begin with a letter, and those of merged services do.
#[test]
fn no_name_of_a_merged_service_is_one_of_a_job() {
    let name = |text: &str| DnsName::from_ascii(format!("{text}.names.test.")).unwrap();
    let owner = |text: &str| ZoneOwner::of(&name(text), &zone().origin).unwrap();
    let svc = || ServiceKey::of_texts("alpha", "ann", "svc").unwrap();
    let web = || MergedKey::of_texts("alpha", "ann", "web").unwrap();
    assert_eq!(owner("svc.ann.alpha"), ZoneOwner::Service(svc()));
    assert_eq!(owner("0.svc.ann.alpha"), ZoneOwner::Task(svc(), 0));
    assert_eq!(owner("_tcp.svc.ann.alpha"), ZoneOwner::Ports(svc()));
    assert_eq!(owner("web.svc.ann.alpha"), ZoneOwner::Merged(web()));
    assert_eq!(owner("_tcp.web.svc.ann.alpha"), ZoneOwner::MergedPorts(web()));
    assert_eq!(owner("_0._tcp.web.svc.ann.alpha"), ZoneOwner::MergedPort(web(), PortLabel::Placed(0)));
    let nested = MergedKey::of_texts("alpha", "ann", "svc").unwrap();
    assert_eq!(owner("svc.svc.ann.alpha"), ZoneOwner::Merged(nested));
    for nobody in ["0.web.svc.ann.alpha", "web.web.svc.ann.alpha", "x.web.ann.alpha"] {
        assert_eq!(owner(nobody), ZoneOwner::Nobody, "{nobody}");
    }
    // At the limits of names, each name of a merged service still fits.
    let longest = |length: usize, letter: &str| letter.repeat(length);
    let zone_name = format!("{}.z", longest(48, "y"));
    let zone = DnsZone::new(&zone_name, Vec::new(), ZoneTimes::default()).unwrap();
    let (service, user, cell) = (longest(MERGED_NAME_MAX, "s"), longest(63, "u"), longest(63, "c"));
    assert!(zone.named(&["_99", "_tcp", &service, "svc", &user, &cell]).is_some());
    let too_long = longest(MERGED_NAME_MAX + 2, "s");
    assert!(zone.named(&["_99", "_tcp", &too_long, "svc", &user, &cell]).is_none());
}

#[test]
fn the_first_record_goes_round() {
    let table = web();
    let first = |rotation| {
        let answer =
            asked(&table, &query("web.ann.alpha.names.test", RecordType::A), DnsTransport::Udp, rotation);
        assert_eq!(answer.answers.len(), 3);
        answer.answers[0].data.to_string()
    };
    let firsts: Vec<String> = (0..4).map(first).collect();
    assert_eq!(firsts, ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1"]);
}

fn large(count: u32) -> NamesTable {
    let endpoints = (0..count).map(|index| {
        // Two tasks on each host.
        let host = format!("10.1.{}.{}", index / 500, index % 500 / 2 + 1);
        endpoint((1, "web"), index, &host, &[("http", 20_000 + u16::try_from(index % 2).unwrap())])
    });
    table_of(&[("web", facts(1, &["http"]))], endpoints.collect())
}

#[test]
fn a_thousand_endpoints_fit_into_one_answer_with_their_addresses() {
    let table = large(1_000);
    let name = "_http._tcp.web.ann.alpha.names.test";
    let answer = tcp(&table, name, RecordType::SRV);
    assert_eq!((answer.answers.len(), answer.additionals.len()), (1_000, 500));
    let addresses: BTreeMap<String, String> =
        answer.additionals.iter().map(|record| (record.name.to_ascii(), record.data.to_string())).collect();
    for record in &answer.answers {
        let RData::SRV(srv) = &record.data else { panic!("{record}") };
        let address = &addresses[&srv.target.to_ascii()];
        let found = tcp(&table, &srv.target.to_ascii(), RecordType::A);
        assert_eq!(
            shown(&found.answers),
            std::slice::from_ref(address),
            "the target has the address that was added"
        );
    }
    let udp = asked(&table, &query(name, RecordType::SRV), DnsTransport::Udp, 0);
    assert!(udp.metadata.truncation && !udp.answers.is_empty());
    let mut large = query(name, RecordType::SRV);
    large.set_edns(Edns::new().set_max_payload(4_096).clone());
    let with_edns = asked(&table, &large, DnsTransport::Udp, 0);
    assert!(with_edns.answers.len() > udp.answers.len());
    assert_eq!(with_edns.edns.as_ref().unwrap().max_payload(), 1_232);
    assert!(with_edns.to_vec().unwrap().len() <= 1_232);
}

/// The TTL of a positive answer, and the TTL and last field of the SOA record of a negative one.
fn ttls(table: &NamesTable, zone: &DnsZone, name: &str) -> Vec<u32> {
    let packet = query(name, RecordType::SRV).to_vec().unwrap();
    let answer = packet_answer(Some(table), zone, &packet, DnsTransport::Tcp, 0).unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    let soa = answer.authorities.iter().flat_map(|record| match &record.data {
        RData::SOA(soa) => vec![record.ttl, soa.minimum],
        _ => Vec::new(),
    });
    answer.answers.iter().map(|record| record.ttl).chain(soa).collect()
}

#[test]
fn answers_are_kept_as_their_cell_says_unless_the_zone_says_otherwise() {
    let times = |ttl_s, negative_ttl_s| AnswerTimes { ttl_s, negative_ttl_s };
    let cells = [("alpha", times(30, 4)), ("beta", times(2, 9))];
    let mut table = NamesTable::new(cells.map(|(cell, _)| Name::new(cell).unwrap()));
    for (cell, times) in cells {
        let of = (Name::new("ann").unwrap(), Name::new("web").unwrap());
        let rows = crate::table::ListedCell {
            jobs: vec![(of, facts(1, &["http"]))],
            endpoints: vec![(endpoint((1, "web"), 0, "10.0.0.1", &[("http", 8080)]), 0)],
            times,
            ..Default::default()
        };
        table.change(&Name::new(cell).unwrap(), |cell| cell.replace(rows, at(1)));
    }
    let of_cells = DnsZone::new("names.test", Vec::new(), ZoneTimes::default()).unwrap();
    let asked = |name: &str| ttls(&table, &of_cells, &format!("{name}.names.test"));
    assert_eq!(asked("_0._tcp.web.ann.alpha"), [30]);
    assert_eq!(asked("_0._tcp.web.ann.beta"), [2]);
    assert_eq!(asked("_0._tcp.api.ann.alpha"), [4, 4], "a name that does not exist");
    assert_eq!(asked("web.ann.beta"), [9, 9], "a name without such records");
    assert_eq!(asked("gamma"), [4, 4], "the least of any cell");
    let fixed = ZoneTimes { ttl: Some(Duration::from_secs(60)), negative_ttl: None };
    let fixed = DnsZone::new("names.test", Vec::new(), fixed).unwrap();
    let asked = |name: &str| ttls(&table, &fixed, &format!("{name}.names.test"));
    assert_eq!((asked("_0._tcp.web.ann.beta"), asked("web.ann.beta")), (vec![60], vec![9, 9]));
}

#[test]
fn names_of_the_greatest_length_are_valid() {
    let (job, user, cell) = ("j".repeat(63), "u".repeat(63), "c".repeat(63));
    let port = "p".repeat(63);
    let zone_name = format!("{}.z", "y".repeat(48));
    let zone = DnsZone::new(&zone_name, Vec::new(), ZoneTimes::default()).unwrap();
    let name = |text: &str| Name::new(text).unwrap();
    let mut table = NamesTable::new([name(&cell)]);
    let endpoint = Endpoint {
        user: name(&user),
        job: name(&job),
        ..endpoint((1, "web"), u32::MAX, "10.0.0.1", &[(&port, 80)])
    };
    let rows = crate::table::ListedCell {
        jobs: vec![((name(&user), name(&job)), facts(1, &[&port]))],
        endpoints: vec![(endpoint, 0)],
        ..Default::default()
    };
    table.change(&name(&cell), |cell| cell.replace(rows, crate::table::tests::at(1)));
    let asked = query(&format!("_0._tcp.{job}.{user}.{cell}.{zone_name}"), RecordType::SRV).to_vec().unwrap();
    let answer = packet_answer(Some(&table), &zone, &asked, DnsTransport::Tcp, 0).unwrap();
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(shown(&answer.answers), [format!("0 256 80 4294967295.{job}.{user}.{cell}.{zone_name}.")]);
    assert_eq!(shown(&answer.additionals), ["10.0.0.1"]);
    assert!(ServiceKey::of_texts(&cell, &user, &job).is_some());
}

#[test]
fn an_address_has_the_names_of_its_tasks() {
    let table = web();
    let answer = tcp(&table, "2.0.0.10.in-addr.arpa", RecordType::PTR);
    assert_eq!(shown(&answer.answers), ["1.web.ann.alpha.names.test."]);
    let unknown = tcp(&table, "9.9.0.10.in-addr.arpa", RecordType::PTR);
    assert_eq!(unknown.metadata.response_code, ResponseCode::Refused, "no zone of ours");
    let part = tcp(&table, "0.0.10.in-addr.arpa", RecordType::PTR);
    assert_eq!(part.metadata.response_code, ResponseCode::Refused);
}

#[test]
fn the_apex_has_soa_and_name_servers() {
    let table = web();
    let soa = tcp(&table, "names.test", RecordType::SOA);
    let RData::SOA(soa) = &soa.answers[0].data else { panic!("{soa}") };
    assert_eq!((soa.mname.to_ascii().as_str(), soa.minimum), ("7f000001.0.names.test.", 3));
    let servers = tcp(&table, "NAMES.test", RecordType::NS);
    assert_eq!(shown(&servers.answers), ["7f000001.0.names.test."]);
    assert_eq!(shown(&servers.additionals), ["127.0.0.1"]);
    let given = zone().with_nameservers(&["ns1.example.org".to_owned()]).unwrap();
    let packet = query("names.test", RecordType::NS).to_vec().unwrap();
    let answer = packet_answer(Some(&table), &given, &packet, DnsTransport::Udp, 0).unwrap();
    assert_eq!(shown(&Message::from_vec(&answer).unwrap().answers), ["ns1.example.org."]);
}

#[test]
fn what_is_no_business_of_the_zone_is_refused() {
    let table = web();
    let code = |name: &str, kind| tcp(&table, name, kind).metadata.response_code;
    assert_eq!(code("example.org", RecordType::A), ResponseCode::Refused);
    assert_eq!(code("test", RecordType::NS), ResponseCode::Refused);
    assert_eq!(code("names.test", RecordType::AXFR), ResponseCode::Refused);
    assert_eq!(code("names.test", RecordType::IXFR), ResponseCode::Refused);
    let answer = tcp(&table, "web.ann.alpha.names.test", RecordType::A);
    assert!(!answer.metadata.recursion_available);
}

#[test]
fn hostile_packets_get_a_refusal_or_nothing() {
    let table = web();
    let answer = |packet: &[u8]| packet_answer(Some(&table), &zone(), packet, DnsTransport::Udp, 0);
    let code = |packet: &[u8]| Message::from_vec(&answer(packet).unwrap()).unwrap().metadata.response_code;
    let asked = query("web.ann.alpha.names.test", RecordType::A);
    let bytes = asked.to_vec().unwrap();
    assert_eq!(answer(&bytes[..11]), None, "no header");
    assert_eq!(code(&bytes[..20]), ResponseCode::FormErr);
    let mut response = bytes.clone();
    response[2] |= 0x80;
    assert_eq!(answer(&response), None, "servers would answer one another for ever");
    let mut two = asked.clone();
    two.add_query(asked.queries[0].clone());
    assert_eq!(code(&two.to_vec().unwrap()), ResponseCode::FormErr);
    let mut none = asked.clone();
    none.queries.clear();
    assert_eq!(code(&none.to_vec().unwrap()), ResponseCode::FormErr);
    let mut update = asked.clone();
    update.metadata.op_code = OpCode::Update;
    assert_ne!(code(&update.to_vec().unwrap()), ResponseCode::NoError);
    let mut newer = asked;
    newer.set_edns(Edns::new().set_version(1).clone());
    // 16 has two names.
    assert!(matches!(code(&newer.to_vec().unwrap()), ResponseCode::BADVERS | ResponseCode::BADSIG));
    // A name that points at itself.
    let mut looped = bytes[..12].to_vec();
    looped.extend([0xc0, 0x0c, 0, 1, 0, 1]);
    assert_eq!(code(&looped), ResponseCode::FormErr);
    let unready = packet_answer(None, &zone(), &bytes, DnsTransport::Udp, 0).unwrap();
    let unready = Message::from_vec(&unready).unwrap();
    assert_eq!(unready.metadata.response_code, ResponseCode::ServFail, "never an empty answer");
    let cut = packet_answer_cut(&zone(), &bytes).unwrap();
    assert!(cut.len() <= bytes.len(), "no more than was received");
    assert!(Message::from_vec(&cut).unwrap().metadata.truncation);
}
