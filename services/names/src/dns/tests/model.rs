//! The zone written down: every record that there is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use borough_model::Name;
use borough_model::merged::{MergedMember, MergedServiceRow, TrafficParts};
use borough_model::task::{Endpoint, Health};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

use crate::table::ServiceFacts;

/// The endpoints of a job.
fn of_job<'e>(endpoints: &'e [Endpoint], job: &'e str) -> impl Iterator<Item = &'e Endpoint> {
    endpoints.iter().filter(move |endpoint| endpoint.job.as_str() == job)
}

/// Every record of the zone, as text.
#[derive(Default)]
pub(super) struct ZoneModel {
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

    pub(super) fn of(
        jobs: &[(&str, ServiceFacts)],
        endpoints: &[Endpoint],
        merged: Option<&MergedServiceRow>,
    ) -> Self {
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
        if let Some(row) = merged {
            model.merged(jobs, endpoints, row);
        }
        model
    }

    /// The names of a merged service: the endpoints of its jobs, weighted by their parts.
    fn merged(&mut self, jobs: &[(&str, ServiceFacts)], endpoints: &[Endpoint], row: &MergedServiceRow) {
        let base = format!("{}.svc.ann.alpha.names.test", row.name);
        self.names.extend(["ann.alpha.names.test".to_owned(), "svc.ann.alpha.names.test".to_owned()]);
        self.names.extend([base.clone(), format!("_tcp.{base}")]);
        let chosen: Vec<&(&str, ServiceFacts)> =
            jobs.iter().filter(|(_, facts)| row.selects(&facts.labels)).collect();
        // For each name of a port, that port of each job; for addresses, all endpoints of each job.
        let mut names: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for (at, (job, facts)) in chosen.iter().enumerate() {
            let own = facts.ports.iter().enumerate();
            let own = own.flat_map(|(place, port)| [(place.to_string(), port), (port.to_string(), port)]);
            let others = of_job(endpoints, job).flat_map(|endpoint| &endpoint.ports);
            let others = others.map(|port| (port.name.to_string(), &port.name));
            for (label, port) in own.chain(others) {
                let name = format!("_{label}._tcp.{base}");
                names.entry(name).or_insert_with(|| vec![None; chosen.len()])[at] = Some(port.to_string());
            }
        }
        let has =
            |endpoint: &Endpoint, port: &str| endpoint.ports.iter().any(|one| one.name.as_str() == port);
        let parts = |port: &dyn Fn(usize, &Endpoint) -> bool| {
            let member = |(at, (job, _)): (usize, &&(&str, ServiceFacts))| {
                let mut member =
                    MergedMember { share: row.share(&Name::new(*job).unwrap()), ..MergedMember::default() };
                for endpoint in of_job(endpoints, job).filter(|endpoint| port(at, endpoint)) {
                    member.published.add(endpoint.weight, 1);
                    member.healthy.add(endpoint.weight, u64::from(endpoint.health == Health::Healthy));
                }
                member
            };
            TrafficParts::of(&chosen.iter().enumerate().map(member).collect::<Vec<_>>())
        };
        let all = parts(&|_, _| true);
        for (at, (job, _)) in chosen.iter().enumerate() {
            for endpoint in of_job(endpoints, job).filter(|one| all.part(at) > 0 && all.uses(one.health)) {
                self.add_address(&base, &endpoint.host);
            }
        }
        for (owner, ports) in names {
            self.names.insert(owner.clone());
            let port =
                |at: usize, endpoint: &Endpoint| ports[at].as_ref().is_some_and(|port| has(endpoint, port));
            let parts = parts(&port);
            for (at, (job, _)) in chosen.iter().enumerate() {
                for endpoint in of_job(endpoints, job).filter(|one| port(at, one) && parts.uses(one.health)) {
                    let index = endpoint.task.index;
                    let Some(weight) = parts.weight(at, endpoint.weight, index) else { continue };
                    let target = match endpoint.host.parse::<IpAddr>() {
                        Ok(_) => format!("{index}.{job}.ann.alpha.names.test"),
                        Err(_) => endpoint.host.clone(),
                    };
                    let mut numbers = endpoint.ports.iter();
                    let wanted = ports[at].as_deref().unwrap();
                    let number = numbers.find(|one| one.name.as_str() == wanted).unwrap().number;
                    let data = format!("0 {} {number} {target}.", weight * 256);
                    self.add(&owner, RecordType::SRV, data);
                }
            }
        }
    }

    /// The code and the records that answer a question of the zone.
    pub(super) fn answer(&self, name: &str, kind: RecordType) -> (ResponseCode, BTreeSet<String>) {
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
