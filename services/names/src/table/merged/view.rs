//! A merged service as the views see it.

use std::sync::Arc;

use borough_model::Name;
use borough_model::merged::{MergedMember, MergedServiceRow, TrafficParts};

use super::MergedService;
use crate::table::{CellTable, Service, ServiceEndpoint, ServiceKey, TableIndex};

/// Which port of a merged service a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedPort<'p> {
    /// Endpoints, whatever ports they have.
    Any,
    /// The port at this place in the file of each job, from 0.
    Placed(usize),
    Named(&'p Name),
}

impl<'p> MergedPort<'p> {
    /// The port of a job by its name; `None` if it has none there.
    pub fn in_job<'s>(self, service: &'s Service) -> Option<&'s Name>
    where
        'p: 's,
    {
        match self {
            Self::Any => service.facts().ports.first(),
            Self::Placed(place) => service.facts().ports.get(place),
            Self::Named(port) => Some(port).filter(|port| service.has_port(port)),
        }
    }
}

/// A job of a merged service in a view.
#[derive(Clone, Debug)]
pub struct MergedJob<'t> {
    pub key: ServiceKey,
    pub service: &'t Service,
    share: Option<u32>,
}

/// A merged service as the views see it: its jobs in the order of their names.
#[derive(Clone, Debug)]
pub struct MergedView<'t> {
    pub row: &'t MergedServiceRow,
    pub jobs: Vec<MergedJob<'t>>,
    pub index: TableIndex,
}

impl<'t> MergedView<'t> {
    pub(in crate::table) fn of(cell: &'t CellTable, service: &'t MergedService) -> Self {
        let row = &*service.row;
        let job = |job: &Name| {
            let found = cell.service(&row.user, job)?;
            let key = ServiceKey { cell: cell.name().clone(), user: row.user.clone(), job: job.clone() };
            Some(MergedJob { key, service: found, share: row.share(job) })
        };
        Self { row, jobs: service.jobs.iter().filter_map(job).collect(), index: service.index }
    }

    /// The names of its ports: those of each job in its order, each once.
    pub fn ports(&self) -> Vec<&'t Name> {
        let mut ports: Vec<&Name> = Vec::new();
        for port in self.jobs.iter().flat_map(|job| job.service.ports()) {
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        ports
    }

    /// Returns true if one of its jobs has the port.
    pub fn has_port(&self, port: MergedPort<'_>) -> bool {
        self.jobs.iter().any(|job| port.in_job(job.service).is_some())
    }

    /// How its traffic is divided now. An endpoint without the port does not count.
    pub fn parts(&self, port: MergedPort<'_>) -> TrafficParts {
        let member = |job: &MergedJob<'_>| {
            let (healthy, published) = match port {
                MergedPort::Any => job.service.weights(),
                _ => port.in_job(job.service).map(|port| job.service.weights_of(port)).unwrap_or_default(),
            };
            MergedMember { share: job.share, healthy, published }
        };
        TrafficParts::of(&self.jobs.iter().map(member).collect::<Vec<_>>())
    }

    /// Every endpoint with the place of its job, from that at place `start` on and then from the first.
    pub fn endpoints_from(
        &self,
        start: u64,
    ) -> impl Iterator<Item = (usize, &'t Arc<ServiceEndpoint>)> + use<'_, 't> {
        let count: usize = self.jobs.iter().map(|job| job.service.endpoints().len()).sum();
        let start = start.checked_rem(u64::try_from(count).unwrap_or(u64::MAX)).unwrap_or_default();
        let mut start = usize::try_from(start).unwrap_or_default();
        let mut first = 0;
        for (at, job) in self.jobs.iter().enumerate() {
            let endpoints = job.service.endpoints().len();
            if start < endpoints {
                first = at;
                break;
            }
            start -= endpoints;
        }
        let of = move |(at, from, upto): (usize, usize, usize)| {
            let endpoints = self.jobs.get(at).map(|job| job.service.endpoints()).unwrap_or_default();
            endpoints
                .get(from..upto.min(endpoints.len()))
                .unwrap_or_default()
                .iter()
                .map(move |one| (at, one))
        };
        let whole = |at: usize| (at, 0, usize::MAX);
        let after = (first.saturating_add(1)..self.jobs.len()).map(whole);
        let parts = std::iter::once((first, start, usize::MAX)).chain(after).chain((0..first).map(whole));
        parts.chain(std::iter::once((first, 0, start))).flat_map(of)
    }
}
