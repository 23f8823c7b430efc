//! The contract of the endpoint keys: `docs/endpoint-keys.md`, with examples that every reader can try.

use borough_kv::Versionstamp;
use borough_model::task::{Endpoint, EndpointPort, Health};
use borough_model::{Incarnation, JobId, Name, TaskId};
use serde_json::{Value as Json, json};

use super::super::{CellSpace, EndpointKey, Key, NameRevisionKey, StampValue, value_encode};
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

fn endpoint_line(index: u32, incarnation: u64, host: &str, ports: &[(&str, u16)], health: Health) -> String {
    let (user, job, node) = (name("ada"), name("web"), name("rack1-n7"));
    let ports = ports.iter().map(|(port, number)| EndpointPort { name: name(port), number: *number });
    let endpoint = Endpoint {
        task: TaskId { job: JobId(70_000), index },
        user: user.clone(),
        job: job.clone(),
        incarnation: Incarnation(incarnation),
        host: host.to_owned(),
        ports: ports.collect(),
        health,
        weight: 255,
        node,
    };
    let ports: serde_json::Map<String, Json> =
        endpoint.ports.iter().map(|port| (port.name.to_string(), json!(port.number))).collect();
    let meaning = json!({
        "cell": "alpha", "user": "ada", "job": "web", "index": index, "incarnation": incarnation, "host": host,
        "ports": ports, "health": health, "weight": 255, "node": "rack1-n7", "revision": 9,
    });
    let row = EndpointRow { endpoint, revision: 9 };
    line(&EndpointKey { user, job, index }, KeyKind::Name, &row, &meaning)
}

/// The bytes of the contract never change. A new version of it has new lines.
#[test]
fn the_examples_of_the_contract_are_what_is_stored() {
    let stamp = StampValue(Versionstamp::new(0x0102_0304_0506_0708, 0x090a));
    let key = NameRevisionKey { user: name("ada"), job: name("web") };
    let meaning = json!({"cell": "alpha", "user": "ada", "job": "web", "stamp": "0102030405060708090a"});
    let lines = [
        endpoint_line(0, 1, "10.1.2.3", &[("http", 20_001)], Health::Healthy),
        endpoint_line(300, 70_000, "2001:db8::7", &[("http", 20_001), ("admin", 65_535)], Health::Unknown),
        endpoint_line(23, 256, "n7.rack1.example.com", &[], Health::Unhealthy),
        line(&key, KeyKind::NameRevision, &stamp, &meaning),
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/endpoint-keys.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() && !std::path::Path::new(path).exists() {
        std::fs::write(path, lines.concat()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), lines.concat());
}
