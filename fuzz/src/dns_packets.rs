//! Packets that reach the DNS of the name service.
//!
//! Property: no packet makes it panic. A response is never answered. An answer has the id of its question, is a
//! response, and is never longer than its transport carries.

use std::sync::OnceLock;

use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Incarnation, JobId, Name, TaskId};
use borough_names::dns::{DnsTransport, DnsZone, ZoneTimes, packet_answer, packet_answer_cut};
use borough_names::table::{ListedCell, NamesTable, ServiceFacts};
use borough_store::Cursor;

/// The most bytes of an answer over UDP.
const UDP_BYTES_MAX: usize = 1_232;

/// A zone, and a table with a job of 400 endpoints.
fn served() -> &'static (NamesTable, DnsZone) {
    static SERVED: OnceLock<(NamesTable, DnsZone)> = OnceLock::new();
    SERVED.get_or_init(|| (table().unwrap_or_default(), zone()))
}

#[expect(clippy::expect_used, reason = "the text is a name")]
fn zone() -> DnsZone {
    DnsZone::new("z.test", vec![[127, 0, 0, 1].into()], ZoneTimes::default()).expect("a zone")
}

fn table() -> Option<NamesTable> {
    let name = |text: &str| Name::new(text).ok();
    let (cell, user, job, http) = (name("c")?, name("u")?, name("j")?, name("http")?);
    let endpoint = |index: u32| Endpoint {
        task: TaskId { job: JobId(1), index },
        user: user.clone(),
        job: job.clone(),
        incarnation: Incarnation(1),
        host: if index == 3 {
            "host.test".to_owned()
        } else {
            format!("10.0.{}.{}", index / 250, index % 250)
        },
        ports: vec![EndpointPort { name: http.clone(), number: 80 }],
        health: Health::Healthy,
        weight: 1,
        node: job.clone(),
        healthy_since_ms: 0,
        domains: Vec::new(),
    };
    let facts = ServiceFacts {
        job: JobId(1),
        is_live: true,
        count: 400,
        ports: vec![http.clone()],
        ..Default::default()
    };
    let rows = ListedCell {
        jobs: vec![((user.clone(), job.clone()), facts)],
        endpoints: (0..400).map(|index| (endpoint(index), 0)).collect(),
        ..ListedCell::default()
    };
    let mut table = NamesTable::new([cell.clone()]);
    table.change(&cell, |cell| cell.replace(rows, Cursor::start(1)));
    Some(table)
}

/// One packet over either transport.
pub fn run(data: &[u8]) {
    let (table, zone) = served();
    for transport in [DnsTransport::Udp, DnsTransport::Tcp] {
        let answer = packet_answer(Some(table), zone, data, transport, 1);
        check(data, answer.as_deref(), transport);
        check(data, packet_answer(None, zone, data, transport, 1).as_deref(), transport);
    }
    let cut = packet_answer_cut(zone, data);
    check(data, cut.as_deref(), DnsTransport::Udp);
    // The answer of a limited client has no records: a question of one name, and perhaps an OPT record.
    assert!(cut.is_none_or(|cut| cut.len() <= data.len().max(12) + 11), "amplified");
}

fn check(question: &[u8], answer: Option<&[u8]>, transport: DnsTransport) {
    let Some(answer) = answer else { return };
    assert!(question.len() >= 12 && question[2] & 0x80 == 0, "a response was answered");
    assert_eq!(answer.get(..2), question.get(..2), "the id");
    assert!(answer.len() >= 12 && answer[2] & 0x80 != 0, "not a response");
    let most = if transport == DnsTransport::Udp { UDP_BYTES_MAX } else { usize::from(u16::MAX) };
    assert!(answer.len() <= most, "{} bytes", answer.len());
}

/// Questions about names of each kind.
pub fn corpus() -> Vec<Vec<u8>> {
    let names = [
        "z.test",
        "c.z.test",
        "u.c.z.test",
        "j.u.c.z.test",
        "3.j.u.c.z.test",
        "_tcp.j.u.c.z.test",
        "_http._tcp.j.u.c.z.test",
        "_0._tcp.j.u.c.z.test",
        "0a000001.0.z.test",
        "1.0.0.10.in-addr.arpa",
        "test",
    ];
    // A, NS, SOA, PTR, AAAA, SRV, AXFR, ANY.
    let kinds = [1_u16, 2, 6, 12, 28, 33, 252, 255];
    names.iter().flat_map(|name| kinds.iter().map(move |kind| question(name, *kind))).collect()
}

fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.split('.') {
        packet.extend(u8::try_from(label.len()).into_iter().chain(label.bytes()));
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    // An OPT record: 4,096 bytes of payload.
    packet.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
    packet
}
