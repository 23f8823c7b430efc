//! Records of an answer, within its room.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, SRV};
use hickory_proto::rr::{Name as DnsName, RData, Record};

use super::encode::owner_bytes;
use super::zone::{DnsZone, wire_len};
use crate::table::{EndpointHost, ServiceEndpoint, ServiceKey};

/// Above this many endpoints, SRV records name addresses instead of tasks. Many tasks share an address, so an answer
/// of 1,000 endpoints on 600 hosts then has all of their addresses.
const TASK_TARGETS_MAX: usize = 256;
/// Endpoints that one answer looks at, so that a question costs the same however many there are.
const LOOKS_MAX: usize = 8_192;
/// Bytes of type, class, time to live and length of a record.
const RECORD_BYTES: usize = 10;
/// Bytes of a name that repeats the question's.
const POINTER_BYTES: usize = 2;

/// The room of a message that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerRoom(pub(super) usize);

impl AnswerRoom {
    /// Takes so many bytes. Returns false if they are not left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

/// The records of one kind of an answer.
#[derive(Debug, Default)]
pub(super) struct FoundRecords {
    pub(super) answers: Vec<Record>,
    pub(super) additionals: Vec<Record>,
    /// Whether some did not fit.
    pub(super) is_cut: bool,
}

/// The kind of address that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    V4,
    V6,
}

impl AddressKind {
    pub(super) fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

pub(super) fn address_record(owner: &DnsName, ttl: u32, address: IpAddr) -> Record {
    let data = match address {
        IpAddr::V4(address) => RData::A(A(address)),
        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
    };
    Record::from_rdata(owner.clone(), ttl, data)
}

fn address_bytes(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 16,
    }
}

/// Where records are, and for how long they may be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordsPlace<'q> {
    pub(super) owner: &'q DnsName,
    pub(super) zone: &'q DnsZone,
    pub(super) ttl_s: u32,
}

/// The addresses of usable endpoints, each once. Hosts that are names have none here: a client follows their SRV
/// records, or asks for the task.
pub(super) fn addresses<'t>(
    usable: impl Iterator<Item = &'t ServiceEndpoint>,
    place: &RecordsPlace<'_>,
    kind: AddressKind,
    room: &mut AnswerRoom,
) -> FoundRecords {
    let mut found = FoundRecords::default();
    let mut seen = BTreeSet::new();
    for (looks, endpoint) in usable.enumerate() {
        if looks >= LOOKS_MAX && !found.answers.is_empty() {
            found.is_cut = true;
            break;
        }
        let Some(address) = endpoint.host.address().filter(|address| kind.has(*address)) else { continue };
        if !seen.insert(address) {
            continue;
        }
        if !room.take(POINTER_BYTES + RECORD_BYTES + address_bytes(address)) {
            found.is_cut = true;
            break;
        }
        found.answers.push(address_record(place.owner, place.ttl_s, address));
    }
    found
}

/// The weight of an SRV record. HAProxy divides it by 256 and takes 0 as drained, so a weight from 1 to 255 comes out
/// as it is in the job.
pub(super) fn srv_weight(weight: u32) -> u16 {
    u16::try_from(weight.clamp(1, 255) * 256).unwrap_or(u16::MAX)
}

/// An endpoint for an SRV record.
pub(super) struct PortEndpoint<'t> {
    /// Its job.
    pub(super) key: &'t ServiceKey,
    pub(super) endpoint: &'t ServiceEndpoint,
    /// The number of the port.
    pub(super) number: u16,
    /// As the job has it, 1 to 255.
    pub(super) weight: u32,
}

/// What the targets of SRV records name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetNames {
    Tasks,
    Addresses,
}

impl TargetNames {
    /// What they name in an answer about so many endpoints.
    pub(super) fn of(endpoints: usize) -> Self {
        if endpoints > TASK_TARGETS_MAX { Self::Addresses } else { Self::Tasks }
    }
}

/// The target of an SRV record.
fn target_of(zone: &DnsZone, targets: TargetNames, found: &PortEndpoint<'_>) -> Option<DnsName> {
    let PortEndpoint { key, endpoint, .. } = found;
    match &endpoint.host {
        // The target of an SRV record is the name of a host, and this is one.
        EndpointHost::Named(name) => DnsName::from_ascii(name).ok().map(|mut name| {
            name.set_fqdn(true);
            name
        }),
        EndpointHost::Address(address) if targets == TargetNames::Addresses => zone.address_name(*address),
        EndpointHost::Address(_) => zone.named(&[
            &endpoint.task.index.to_string(),
            key.job.as_str(),
            key.user.as_str(),
            key.cell.as_str(),
        ]),
    }
}

/// The SRV records of a port, and the addresses of their targets as far as there is room. `usable` has each usable
/// endpoint, or nothing in place of one without the port.
pub(super) fn ports<'t>(
    usable: impl Iterator<Item = Option<PortEndpoint<'t>>>,
    names: TargetNames,
    place: &RecordsPlace<'_>,
    room: &mut AnswerRoom,
) -> FoundRecords {
    let RecordsPlace { owner, zone, ttl_s } = *place;
    let mut found = FoundRecords::default();
    let (mut targets, mut seen) = (Vec::new(), BTreeSet::new());
    for (looks, one) in usable.enumerate() {
        if looks >= LOOKS_MAX && !found.answers.is_empty() {
            found.is_cut = true;
            break;
        }
        let Some(one) = one else { continue };
        let Some(target) = target_of(zone, names, &one) else { continue };
        let PortEndpoint { endpoint, number, weight, .. } = one;
        // Two tasks of a job may share neither host nor port, but a record twice would be a mistake.
        if !seen.insert((target.clone(), number)) {
            continue;
        }
        if !room.take(POINTER_BYTES + RECORD_BYTES + 6 + wire_len(&target)) {
            found.is_cut = true;
            break;
        }
        targets.extend(endpoint.host.address().map(|address| (target.clone(), address)));
        let data = SRV::new(0, srv_weight(weight), number, target);
        found.answers.push(Record::from_rdata(owner.clone(), ttl_s, RData::SRV(data)));
    }
    let mut given = BTreeSet::new();
    for (target, address) in targets {
        if given.contains(&target) {
            continue;
        }
        if !room.take(owner_bytes(&target, &zone.origin) + RECORD_BYTES + address_bytes(address)) {
            break;
        }
        found.additionals.push(address_record(&target, ttl_s, address));
        given.insert(target);
    }
    found
}
