//! The answer to one question.

use hickory_proto::op::{Query, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, HINFO, NS, PTR, SOA};
use hickory_proto::rr::{DNSClass, Name as DnsName, RData, Record, RecordType};

use super::name::{MERGED_LABEL, PortLabel, ZoneOwner, address_of_arpa};
use super::records::{
    AddressKind, AnswerRoom, FoundRecords, PortEndpoint, RecordsPlace, TargetNames, address_record,
    addresses, ports,
};
use super::zone::{DnsZone, wire_len};
use crate::table::{
    AnswerTimes, EndpointHost, MergedKey, MergedPort, MergedView, NamesTable, Service, ServiceEndpoint,
    ServiceKey,
};

/// The most names of an address in one answer.
const NAMES_OF_ADDRESS_MAX: usize = 64;

/// The answer to a question: its code and its records.
#[derive(Debug, Default)]
pub struct DnsAnswer {
    pub code: ResponseCode,
    /// Whether the zone's authority answers.
    pub is_authoritative: bool,
    /// Whether records are missing because there was no room.
    pub is_cut: bool,
    pub answers: Vec<Record>,
    pub authorities: Vec<Record>,
    pub additionals: Vec<Record>,
    /// The service that the records are of. Absent: no records, or not of one service.
    pub about: Option<ServiceKey>,
}

impl DnsAnswer {
    pub(super) fn refusal(code: ResponseCode) -> Self {
        Self { code, ..Self::default() }
    }
}

/// What a name has.
enum OwnerRecords {
    /// No such name.
    Missing,
    /// The name exists. The records are those that the question asks for, perhaps none.
    Found(FoundRecords),
}

impl OwnerRecords {
    fn exists() -> Self {
        Self::Found(FoundRecords::default())
    }

    fn of(answers: Vec<Record>) -> Self {
        Self::Found(FoundRecords { answers, ..FoundRecords::default() })
    }

    fn exists_if(exists: bool) -> Self {
        if exists { Self::exists() } else { Self::Missing }
    }
}

/// The answer of a zone to a question, in so many bytes beside header, question and OPT record. `rotation` says which
/// endpoint comes first.
pub fn answer(table: &NamesTable, zone: &DnsZone, question: &Query, rotation: u64, room: usize) -> DnsAnswer {
    if !matches!(question.query_class, DNSClass::IN | DNSClass::ANY)
        || matches!(question.query_type, RecordType::AXFR | RecordType::IXFR)
    {
        return DnsAnswer::refusal(ResponseCode::Refused);
    }
    let Some(owner) = ZoneOwner::of(&question.name, &zone.origin) else {
        return reverse(table, zone, question, room);
    };
    let times = zone.times(table, owner.cell());
    let soa = soa_record(table, zone, times);
    // For the SOA record of an answer without records, and the name servers of the zone.
    let reserve = record_bytes(&soa);
    let lookup = Lookup { table, zone, times, question, rotation };
    let service = owner.service().cloned();
    match lookup.records(owner, &mut AnswerRoom(room.saturating_sub(reserve))) {
        OwnerRecords::Missing => DnsAnswer {
            code: ResponseCode::NXDomain,
            is_authoritative: true,
            authorities: vec![soa],
            ..DnsAnswer::default()
        },
        OwnerRecords::Found(FoundRecords { answers, additionals, is_cut }) => {
            let authorities = if answers.is_empty() { vec![soa] } else { Vec::new() };
            let code = ResponseCode::NoError;
            let about = service.filter(|_| !answers.is_empty());
            DnsAnswer { code, is_authoritative: true, is_cut, answers, authorities, additionals, about }
        }
    }
}

/// The bytes of a record without compression, at most.
fn record_bytes(record: &Record) -> usize {
    let data = match &record.data {
        RData::SOA(soa) => wire_len(&soa.mname) + wire_len(&soa.rname) + 20,
        RData::NS(NS(name)) | RData::PTR(PTR(name)) | RData::CNAME(CNAME(name)) => wire_len(name),
        _ => 255,
    };
    wire_len(&record.name) + 10 + data
}

fn soa_record(table: &NamesTable, zone: &DnsZone, times: AnswerTimes) -> Record {
    let server = zone.nameservers.first().cloned().unwrap_or_else(|| zone.origin.clone());
    let mailbox = zone.named(&["hostmaster"]).unwrap_or_else(|| zone.origin.clone());
    // Nobody transfers the zone. The serial number only shows people that something has changed.
    let index = table.cells().map(|cell| cell.index().0).max().unwrap_or_default();
    let serial = u32::try_from((index >> 12) & u64::from(u32::MAX)).unwrap_or_default();
    let soa = SOA::new(server, mailbox, serial, 60, 10, 86_400, times.negative_ttl_s);
    // A resolver keeps a negative answer for the lesser of this time to live and the last field.
    Record::from_rdata(zone.origin.clone(), times.negative_ttl_s, RData::SOA(soa))
}

/// The answer about a name outside of the zone: the names of an address of ours, or a refusal.
fn reverse(table: &NamesTable, zone: &DnsZone, question: &Query, room: usize) -> DnsAnswer {
    let owners = address_of_arpa(&question.name).and_then(|address| table.at_address(address));
    let Some(owners) = owners else { return DnsAnswer::refusal(ResponseCode::Refused) };
    let times = zone.times(table, None);
    let mut answer = DnsAnswer { is_authoritative: true, ..DnsAnswer::default() };
    if !matches!(question.query_type, RecordType::PTR | RecordType::ANY) {
        answer.authorities.push(soa_record(table, zone, times));
        return answer;
    }
    let mut room = AnswerRoom(room);
    for (key, index) in owners.iter().take(NAMES_OF_ADDRESS_MAX) {
        let Some(name) = task_name(zone, key, *index) else { continue };
        if !room.take(wire_len(&question.name) + 10 + wire_len(&name)) {
            answer.is_cut = true;
            break;
        }
        let data = RData::PTR(PTR(name));
        answer.answers.push(Record::from_rdata(question.name.clone(), times.ttl_s, data));
    }
    answer
}

fn task_name(zone: &DnsZone, key: &ServiceKey, index: u32) -> Option<DnsName> {
    zone.named(&[&index.to_string(), key.job.as_str(), key.user.as_str(), key.cell.as_str()])
}

struct Lookup<'a> {
    table: &'a NamesTable,
    zone: &'a DnsZone,
    times: AnswerTimes,
    question: &'a Query,
    rotation: u64,
}

impl Lookup<'_> {
    fn records(&self, owner: ZoneOwner, room: &mut AnswerRoom) -> OwnerRecords {
        let found = self.records_of_kind(owner, room);
        // RFC 8482: an answer to ANY may be this one. All records of a name would be an amplification.
        match found {
            OwnerRecords::Found(_) if self.question.query_type == RecordType::ANY => {
                let hinfo = RData::HINFO(HINFO::new("RFC8482".to_owned(), String::new()));
                OwnerRecords::of(vec![Record::from_rdata(
                    self.question.name.clone(),
                    self.times.ttl_s,
                    hinfo,
                )])
            }
            found => found,
        }
    }

    fn records_of_kind(&self, owner: ZoneOwner, room: &mut AnswerRoom) -> OwnerRecords {
        match owner {
            ZoneOwner::Nobody => OwnerRecords::Missing,
            ZoneOwner::Apex => self.apex(room),
            ZoneOwner::Addresses => OwnerRecords::exists(),
            ZoneOwner::Address(address) => {
                let is_known = self.zone.own.contains(&address) || self.table.at_address(address).is_some();
                if !is_known {
                    return OwnerRecords::Missing;
                }
                let asked = self.address_kind().is_some_and(|kind| kind.has(address));
                let record = || address_record(&self.question.name, self.times.ttl_s, address);
                OwnerRecords::of(asked.then(record).into_iter().collect())
            }
            ZoneOwner::Cell(cell) => OwnerRecords::exists_if(self.table.cell(cell.as_str()).is_some()),
            ZoneOwner::User { cell, user } => {
                let cell = self.table.cell(cell.as_str());
                OwnerRecords::exists_if(cell.is_some_and(|cell| cell.has_user(&user)))
            }
            ZoneOwner::Service(key) if self.is_parent_of_merged(&key) => OwnerRecords::exists(),
            ZoneOwner::Service(key) => self.with_service(&key, |service| {
                self.addresses(service.usable_from(self.rotation).map(|endpoint| &**endpoint), room)
            }),
            ZoneOwner::Task(key, index) => self.with_service(&key, |service| self.task(service, index)),
            ZoneOwner::Ports(key) => self.with_service(&key, |_| OwnerRecords::exists()),
            ZoneOwner::Port(key, label) => {
                self.with_service(&key, |service| self.port(&key, service, &label, room))
            }
            ZoneOwner::Merged(key) => self.with_merged(&key, |merged| {
                let parts = merged.parts(MergedPort::Any);
                let usable = merged
                    .endpoints_from(self.rotation)
                    .filter(|(job, endpoint)| parts.part(*job) > 0 && parts.uses(endpoint.health));
                self.addresses(usable.map(|(_, endpoint)| &**endpoint), room)
            }),
            ZoneOwner::MergedPorts(key) => self.with_merged(&key, |_| OwnerRecords::exists()),
            ZoneOwner::MergedPort(key, label) => {
                self.with_merged(&key, |merged| self.merged_port(merged, &label, room))
            }
        }
    }

    /// Returns true for the name above a user's merged services, if no job has it.
    fn is_parent_of_merged(&self, key: &ServiceKey) -> bool {
        let has_merged = || self.table.cell(key.cell.as_str()).is_some_and(|cell| cell.has_merged(&key.user));
        key.job.as_str() == MERGED_LABEL && self.table.service(key).is_none() && has_merged()
    }

    fn with_merged(
        &self,
        key: &MergedKey,
        records: impl FnOnce(&MergedView<'_>) -> OwnerRecords,
    ) -> OwnerRecords {
        self.table.merged(key).map_or(OwnerRecords::Missing, |merged| records(&merged))
    }

    /// The SRV records of a merged service. Their weights divide the traffic by the shares of the jobs.
    fn merged_port(&self, merged: &MergedView<'_>, label: &PortLabel, room: &mut AnswerRoom) -> OwnerRecords {
        let port = match label {
            PortLabel::Named(port) => MergedPort::Named(port),
            PortLabel::Placed(place) => MergedPort::Placed(*place),
        };
        if !merged.has_port(port) {
            return OwnerRecords::Missing;
        }
        if self.question.query_type != RecordType::SRV {
            return OwnerRecords::exists();
        }
        let parts = merged.parts(port);
        let names: Vec<_> = merged.jobs.iter().map(|job| port.in_job(job.service)).collect();
        let usable = merged.endpoints_from(self.rotation).filter_map(|(at, endpoint)| {
            let job = merged.jobs.get(at).filter(|_| parts.uses(endpoint.health))?;
            let number = names.get(at).copied().flatten().and_then(|port| endpoint.port(port));
            let weight = parts.weight(at, endpoint.weight_shown(), endpoint.task.index);
            let found = number.zip(weight);
            Some(found.map(|(number, weight)| PortEndpoint { key: &job.key, endpoint, number, weight }))
        });
        let endpoints = merged.jobs.iter().map(|job| job.service.endpoints().len()).sum();
        OwnerRecords::Found(ports(usable, TargetNames::of(endpoints), &self.place(), room))
    }

    /// The addresses of endpoints, if the question asks for addresses.
    fn addresses<'e>(
        &self,
        usable: impl Iterator<Item = &'e ServiceEndpoint>,
        room: &mut AnswerRoom,
    ) -> OwnerRecords {
        let Some(kind) = self.address_kind() else { return OwnerRecords::exists() };
        OwnerRecords::Found(addresses(usable, &self.place(), kind, room))
    }

    fn with_service(&self, key: &ServiceKey, records: impl FnOnce(&Service) -> OwnerRecords) -> OwnerRecords {
        self.table.service(key).map_or(OwnerRecords::Missing, records)
    }

    /// Where the records of the answer are.
    fn place(&self) -> RecordsPlace<'_> {
        RecordsPlace { owner: &self.question.name, zone: self.zone, ttl_s: self.times.ttl_s }
    }

    fn address_kind(&self) -> Option<AddressKind> {
        match self.question.query_type {
            RecordType::A => Some(AddressKind::V4),
            RecordType::AAAA => Some(AddressKind::V6),
            _ => None,
        }
    }

    fn task(&self, service: &Service, index: u32) -> OwnerRecords {
        let Some(endpoint) = service.endpoint(index) else {
            // A task without an endpoint has a name and no address.
            return OwnerRecords::exists_if(index < service.facts().count);
        };
        let owner = &self.question.name;
        match &endpoint.host {
            EndpointHost::Address(address) => {
                let asked = self.address_kind().is_some_and(|kind| kind.has(*address));
                let record = || address_record(owner, self.times.ttl_s, *address);
                OwnerRecords::of(asked.then(record).into_iter().collect())
            }
            // An alias answers every type. The resolver follows it.
            EndpointHost::Named(name) => {
                let alias = DnsName::from_ascii(name).ok().map(|mut alias| {
                    alias.set_fqdn(true);
                    Record::from_rdata(owner.clone(), self.times.ttl_s, RData::CNAME(CNAME(alias)))
                });
                OwnerRecords::of(alias.into_iter().collect())
            }
        }
    }

    fn port(
        &self,
        key: &ServiceKey,
        service: &Service,
        label: &PortLabel,
        room: &mut AnswerRoom,
    ) -> OwnerRecords {
        let port = match label {
            PortLabel::Named(port) => Some(port).filter(|port| service.has_port(port)),
            PortLabel::Placed(place) => service.facts().ports.get(*place),
        };
        let Some(port) = port else { return OwnerRecords::Missing };
        if self.question.query_type != RecordType::SRV {
            return OwnerRecords::exists();
        }
        let usable = service.usable_from(self.rotation).map(|endpoint| {
            let weight = endpoint.weight_shown();
            endpoint.port(port).map(|number| PortEndpoint { key, endpoint, number, weight })
        });
        let names = TargetNames::of(service.endpoints().len());
        OwnerRecords::Found(ports(usable, names, &self.place(), room))
    }

    fn apex(&self, room: &mut AnswerRoom) -> OwnerRecords {
        let Self { zone, times, question, .. } = self;
        let mut found = FoundRecords::default();
        match question.query_type {
            RecordType::SOA => found.answers.push(soa_record(self.table, zone, *times)),
            RecordType::NS => {
                for server in &zone.nameservers {
                    let data = RData::NS(NS(server.clone()));
                    let record = Record::from_rdata(question.name.clone(), times.ttl_s, data);
                    if !room.take(record_bytes(&record)) {
                        found.is_cut = true;
                        break;
                    }
                    found.answers.push(record);
                }
                for address in &zone.own {
                    let Some(name) = zone.address_name(*address) else { continue };
                    if zone.nameservers.contains(&name) && room.take(wire_len(&name) + 26) {
                        found.additionals.push(address_record(&name, times.ttl_s, *address));
                    }
                }
            }
            _ => {}
        }
        OwnerRecords::Found(found)
    }
}
