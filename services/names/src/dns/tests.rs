//! Answers against a model that writes down every record of the zone, and packets by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use borough_model::Name;
use borough_model::task::{Endpoint, Health};
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name as DnsName, RData, Record, RecordType};
use proptest::prelude::*;

use super::records::srv_weight;
use super::*;
use crate::table::tests::{endpoint, facts, table_of, web};
use crate::table::{NamesTable, ServiceKey};

fn zone() -> DnsZone {
    let own: IpAddr = "127.0.0.1".parse().unwrap();
    DnsZone::new("names.test", vec![own], Duration::from_secs(7), Duration::from_secs(3)).unwrap()
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

/// Every record of the zone, as text.
#[derive(Default)]
struct ZoneModel {
    /// Names that exist, with or without records.
    names: BTreeSet<String>,
    records: BTreeMap<(String, RecordType), BTreeSet<String>>,
    aliases: BTreeMap<String, String>,
}

impl ZoneModel {
    fn add(&mut self, name: &str, kind: RecordType, data: String) {
        self.names.insert(name.to_owned());
        self.records.entry((name.to_owned(), kind)).or_default().insert(data);
    }

    fn add_address(&mut self, name: &str, host: &str) {
        match host.parse::<IpAddr>() {
            Ok(address @ IpAddr::V4(_)) => self.add(name, RecordType::A, address.to_string()),
            Ok(address @ IpAddr::V6(_)) => self.add(name, RecordType::AAAA, address.to_string()),
            Err(_) => {}
        }
    }

    fn of(jobs: &[(&str, crate::table::ServiceFacts)], endpoints: &[Endpoint]) -> Self {
        let mut model = Self::default();
        for name in ["names.test", "0.names.test", "alpha.names.test"] {
            model.names.insert(name.to_owned());
        }
        model.add("7f000001.0.names.test", RecordType::A, "127.0.0.1".to_owned());
        if !jobs.is_empty() {
            model.names.insert("ann.alpha.names.test".to_owned());
        }
        for (job, facts) in jobs {
            let base = format!("{job}.ann.alpha.names.test");
            model.names.extend([base.clone(), format!("_tcp.{base}")]);
            model.names.extend((0..facts.count).map(|index| format!("{index}.{base}")));
            let of_job: Vec<&Endpoint> =
                endpoints.iter().filter(|endpoint| endpoint.job.as_str() == *job).collect();
            let any_healthy = of_job.iter().any(|endpoint| endpoint.health == Health::Healthy);
            let mut ports: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (place, port) in facts.ports.iter().enumerate() {
                let names = vec![format!("_{port}._tcp.{base}"), format!("_{place}._tcp.{base}")];
                ports.insert(port.to_string(), names);
            }
            for endpoint in &of_job {
                for port in &endpoint.ports {
                    let named = || vec![format!("_{}._tcp.{base}", port.name)];
                    ports.entry(port.name.to_string()).or_insert_with(named);
                }
            }
            model.names.extend(ports.values().flatten().cloned());
            for endpoint in of_job {
                let task = format!("{}.{base}", endpoint.task.index);
                model.names.insert(task.clone());
                model.add_address(&task, &endpoint.host);
                let target = match endpoint.host.parse::<IpAddr>() {
                    Ok(IpAddr::V4(address)) => {
                        model
                            .add_address(&format!("{:08x}.0.names.test", u32::from(address)), &endpoint.host);
                        task
                    }
                    Ok(IpAddr::V6(address)) => {
                        let name = format!("{:032x}.0.names.test", u128::from(address));
                        model.add_address(&name, &endpoint.host);
                        task
                    }
                    Err(_) => {
                        model.aliases.insert(task, endpoint.host.clone());
                        endpoint.host.clone()
                    }
                };
                if any_healthy && endpoint.health != Health::Healthy {
                    continue;
                }
                model.add_address(&base, &endpoint.host);
                for port in &endpoint.ports {
                    let data = format!("0 {} {} {target}.", endpoint.weight * 256, port.number);
                    for name in &ports[port.name.as_str()] {
                        model.add(name, RecordType::SRV, data.clone());
                    }
                }
            }
        }
        model
    }

    /// The code and the records that answer a question of the zone.
    fn answer(&self, name: &str, kind: RecordType) -> (ResponseCode, BTreeSet<String>) {
        if !self.names.contains(name) {
            return (ResponseCode::NXDomain, BTreeSet::new());
        }
        if kind == RecordType::ANY {
            return (ResponseCode::NoError, ["RFC8482 ".to_owned()].into());
        }
        if let Some(alias) = self.aliases.get(name) {
            return (ResponseCode::NoError, [format!("{alias}.")].into());
        }
        if name == "names.test" && kind == RecordType::NS {
            return (ResponseCode::NoError, ["7f000001.0.names.test.".to_owned()].into());
        }
        let found = self.records.get(&(name.to_owned(), kind)).cloned().unwrap_or_default();
        (ResponseCode::NoError, found)
    }
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
        name in some_name(),
        kind in some_kind(),
        rotation in any::<u64>(),
    ) {
        let jobs = [("web", facts(1, &["http", "admin"])), ("api", facts(2, &[]))];
        // The last one of an index counts, as in the table.
        let last: BTreeMap<_, Endpoint> =
            webs.into_iter().chain(apis).map(|endpoint| (endpoint.task, endpoint)).collect();
        let endpoints: Vec<Endpoint> = last.into_values().collect();
        let table = table_of(&jobs, endpoints.clone());
        let (code, wanted) = ZoneModel::of(&jobs, &endpoints).answer(&name, kind);
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

#[test]
fn names_of_the_greatest_length_are_valid() {
    let (job, user, cell) = ("j".repeat(63), "u".repeat(63), "c".repeat(63));
    let port = "p".repeat(63);
    let zone_name = format!("{}.z", "y".repeat(48));
    let zone = DnsZone::new(&zone_name, Vec::new(), Duration::ZERO, Duration::ZERO).unwrap();
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
