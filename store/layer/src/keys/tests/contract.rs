//! The contract of the endpoint keys: `docs/endpoint-keys.md`, with examples that every reader can try.

use borough_kv::Versionstamp;
use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Incarnation, JobId, Name, TaskId};
use serde_json::{Value as Json, json};

use super::super::{CellSpace, EndpointKey, Key, NameRevisionKey, StampValue, value_decode, value_encode};
use super::values::hex_bytes;
use crate::keys::KeyKind;
use crate::row::EndpointRow;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line of the examples.
fn line<K: Key>(key: &K, kind: KeyKind, value: &K::Value, meaning: &Json) -> String {
    let space = CellSpace::new(name("alpha"));
    format!("{} {} {meaning}\n", hex(&key.encode(&space)), hex(&value_encode(kind, value).unwrap()))
}

/// What differs between the examples of endpoints.
struct Sample<'s> {
    index: u32,
    incarnation: u64,
    host: &'s str,
    ports: &'s [(&'s str, u16)],
    health: Health,
    healthy_since_ms: i64,
    domains: &'s [&'s str],
}

impl Sample<'_> {
    fn row(&self) -> EndpointRow {
        let ports =
            self.ports.iter().map(|(port, number)| EndpointPort { name: name(port), number: *number });
        let endpoint = Endpoint {
            task: TaskId { job: JobId(70_000), index: self.index },
            user: name("ada"),
            job: name("web"),
            incarnation: Incarnation(self.incarnation),
            host: self.host.to_owned(),
            ports: ports.collect(),
            health: self.health,
            weight: 255,
            node: name("rack1-n7"),
            healthy_since_ms: self.healthy_since_ms,
            domains: self.domains.iter().map(|&value| value.to_owned()).collect(),
        };
        EndpointRow { endpoint, revision: 9 }
    }

    fn key(&self) -> EndpointKey {
        EndpointKey { user: name("ada"), job: name("web"), index: self.index }
    }

    fn meaning(&self) -> Json {
        let ports: serde_json::Map<String, Json> =
            self.ports.iter().map(|(port, number)| ((*port).to_owned(), json!(number))).collect();
        json!({
            "cell": "alpha", "user": "ada", "job": "web", "index": self.index, "incarnation": self.incarnation,
            "host": self.host, "ports": ports, "health": self.health, "weight": 255, "node": "rack1-n7",
            "healthy_since_ms": self.healthy_since_ms, "domains": self.domains, "revision": 9,
        })
    }

    fn line(&self) -> String {
        line(&self.key(), KeyKind::Name, &self.row(), &self.meaning())
    }
}

/// Endpoints as they were written before they had `healthy_since_ms` and `domains`.
const BEFORE: [Sample<'_>; 3] = [
    Sample {
        index: 0,
        incarnation: 1,
        host: "10.1.2.3",
        ports: &[("http", 20_001)],
        health: Health::Healthy,
        healthy_since_ms: 0,
        domains: &[],
    },
    Sample {
        index: 300,
        incarnation: 70_000,
        host: "2001:db8::7",
        ports: &[("http", 20_001), ("admin", 65_535)],
        health: Health::Unknown,
        healthy_since_ms: 0,
        domains: &[],
    },
    Sample {
        index: 23,
        incarnation: 256,
        host: "n7.rack1.example.com",
        ports: &[],
        health: Health::Unhealthy,
        healthy_since_ms: 0,
        domains: &[],
    },
];

/// The bytes of the contract never change. A new version of it has new lines.
#[test]
fn the_examples_of_the_contract_are_what_is_stored() {
    let stamp = StampValue(Versionstamp::new(0x0102_0304_0506_0708, 0x090a));
    let key = NameRevisionKey { user: name("ada"), job: name("web") };
    let meaning = json!({"cell": "alpha", "user": "ada", "job": "web", "stamp": "0102030405060708090a"});
    let first = line(&key, KeyKind::NameRevision, &stamp, &meaning);
    let [healthy, _, _] = BEFORE;
    let with_all =
        Sample { index: 7, healthy_since_ms: 1_800_000_000_000, domains: &["eu1", "", "rack1"], ..healthy };
    let demoted = Sample { index: 8, health: Health::Unknown, healthy_since_ms: 0, ..with_all };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/endpoint-keys.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    let (before, today) = lines.split_at(BEFORE.len());
    assert_eq!(today, [first, with_all.line(), demoted.line()]);
    let space = CellSpace::new(name("alpha"));
    for (line, sample) in before.iter().zip(BEFORE) {
        let parts: Vec<&str> = line.trim_end().splitn(3, ' ').collect();
        let [key, value, meaning] = parts[..] else { panic!("{line:?}") };
        assert_eq!((key, meaning), (&*hex(&sample.key().encode(&space)), &*sample.meaning().to_string()));
        let read: EndpointRow = value_decode(KeyKind::Name, &[], &hex_bytes(value)).unwrap();
        assert_eq!(read, sample.row(), "what was once written is read for ever");
    }
}
