//! A service: the endpoints of one job, by task.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::merged::WeightSum;
use borough_model::task::Health;
use borough_model::{Name, TaskId};

use super::weights::EndpointWeights;
use super::{ServiceEndpoint, ServiceFacts, TableIndex};

/// The endpoints of a job, and the facts of the job that the views show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    facts: ServiceFacts,
    index: TableIndex,
    /// By the index of the task.
    endpoints: Vec<Arc<ServiceEndpoint>>,
    weights: EndpointWeights,
    /// The weights of the endpoints that have a port of this name.
    with_port: BTreeMap<Name, EndpointWeights>,
}

impl Service {
    pub(super) fn new(facts: ServiceFacts, index: TableIndex) -> Self {
        Self { facts, index, ..Self::default() }
    }

    /// Returns true if the views answer the same for both.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        let pairs = || self.endpoints.iter().zip(&other.endpoints);
        self.facts.shows_as(&other.facts)
            && self.endpoints.len() == other.endpoints.len()
            && pairs().all(|(one, other)| one.shows_as(other))
    }

    /// The facts of its job.
    pub fn facts(&self) -> &ServiceFacts {
        &self.facts
    }

    /// The index of its last change.
    pub fn index(&self) -> TableIndex {
        self.index
    }

    /// Its endpoints, by the index of the task.
    pub fn endpoints(&self) -> &[Arc<ServiceEndpoint>] {
        &self.endpoints
    }

    /// The endpoint of a task.
    pub fn endpoint(&self, index: u32) -> Option<&Arc<ServiceEndpoint>> {
        let at = self.place_of(index).ok()?;
        self.endpoints.get(at)
    }

    /// Returns true if traffic should go to the endpoint. That is every healthy one. If none is healthy, it is every
    /// published one: the nodes of all are lost, and it is better to try them than to serve nobody.
    pub fn is_usable(&self, endpoint: &ServiceEndpoint) -> bool {
        self.weights.healthy().sum == 0 || endpoint.health == Health::Healthy
    }

    /// The usable endpoints, from that at place `start` on and then from the first.
    pub fn usable_from(&self, start: u64) -> impl Iterator<Item = &Arc<ServiceEndpoint>> {
        let count = u64::try_from(self.endpoints.len()).unwrap_or(u64::MAX).max(1);
        let start = usize::try_from(start % count).unwrap_or_default();
        let (before, after) = self.endpoints.split_at(start.min(self.endpoints.len()));
        after.iter().chain(before).filter(|endpoint| self.is_usable(endpoint))
    }

    /// The names of its ports. Those of the spec in force come first, in the order of the job file. An attempt of an
    /// earlier version may have others.
    pub fn ports(&self) -> impl Iterator<Item = &Name> {
        let others = self.with_port.keys().filter(|port| !self.facts.ports.contains(port));
        self.facts.ports.iter().chain(others)
    }

    /// Returns true if the service or one of its endpoints has the port.
    pub fn has_port(&self, port: &Name) -> bool {
        self.facts.ports.contains(port) || self.with_port.contains_key(port)
    }

    /// The weights of its healthy endpoints, and of all.
    pub fn weights(&self) -> (WeightSum, WeightSum) {
        (self.weights.healthy(), self.weights.published())
    }

    /// The same for the endpoints that have a port.
    pub fn weights_of(&self, port: &Name) -> (WeightSum, WeightSum) {
        let weights = self.with_port.get(port);
        weights.map(|weights| (weights.healthy(), weights.published())).unwrap_or_default()
    }

    fn place_of(&self, index: u32) -> Result<usize, usize> {
        self.endpoints.binary_search_by_key(&index, |endpoint| endpoint.task.index)
    }

    /// Changes the facts. Returns true if they are others now.
    pub(super) fn facts_set(&mut self, facts: ServiceFacts) -> bool {
        let changes = !self.facts.shows_as(&facts);
        self.facts = facts;
        changes
    }

    pub(super) fn index_set(&mut self, index: TableIndex) {
        self.index = index;
    }

    /// Returns true if the job has ended and nothing of it serves: no list has it.
    pub fn is_over(&self) -> bool {
        !self.facts.is_live && self.endpoints.is_empty()
    }

    /// Puts an endpoint, unless a newer row of its task is there.
    pub(super) fn put(&mut self, endpoint: ServiceEndpoint) -> Option<EndpointPut> {
        match self.place_of(endpoint.task.index) {
            Err(at) => {
                let was_over = self.is_over();
                let lists = self.count_add(&endpoint);
                self.endpoints.insert(at, Arc::new(endpoint));
                Some(EndpointPut { before: None, shows: true, lists: lists || was_over })
            }
            Ok(at) => {
                let known = self.endpoints.get_mut(at)?;
                if known.task == endpoint.task && known.revision > endpoint.revision {
                    return None;
                }
                let shows = !known.shows_as(&endpoint);
                let endpoint = Arc::new(endpoint);
                let before = std::mem::replace(known, Arc::clone(&endpoint));
                let mut lists = self.count_add(&endpoint);
                lists |= self.count_remove(&before);
                Some(EndpointPut { before: Some(before), shows, lists })
            }
        }
    }

    /// Removes the endpoint of a task, unless a newer row has published it since.
    pub(super) fn remove(&mut self, task: TaskId, revision: u64) -> Option<EndpointRemoved> {
        let at = self.place_of(task.index).ok()?;
        let known = self.endpoints.get(at)?;
        if known.task != task || known.revision > revision {
            return None;
        }
        let endpoint = self.endpoints.remove(at);
        let lists = self.count_remove(&endpoint) || self.is_over();
        Some(EndpointRemoved { endpoint, lists })
    }

    /// Counts an endpoint and its ports. Returns true if the service has another port now.
    fn count_add(&mut self, endpoint: &ServiceEndpoint) -> bool {
        self.weights.add(endpoint);
        let mut is_other = false;
        for port in &endpoint.ports {
            let weights = self.with_port.entry(port.name.clone()).or_default();
            is_other |= weights.is_empty() && !self.facts.ports.contains(&port.name);
            weights.add(endpoint);
        }
        is_other
    }

    /// Counts an endpoint and its ports no longer. Returns true if the service lacks a port now.
    fn count_remove(&mut self, endpoint: &ServiceEndpoint) -> bool {
        self.weights.remove(endpoint);
        let mut lacks = false;
        for port in &endpoint.ports {
            let Some(weights) = self.with_port.get_mut(&port.name) else { continue };
            weights.remove(endpoint);
            if weights.is_empty() {
                self.with_port.remove(&port.name);
                lacks |= !self.facts.ports.contains(&port.name);
            }
        }
        lacks
    }
}

/// What has come of putting an endpoint.
#[derive(Debug)]
pub(super) struct EndpointPut {
    /// The endpoint of the task before.
    pub(super) before: Option<Arc<ServiceEndpoint>>,
    /// Whether the views answer something else now.
    pub(super) shows: bool,
    /// Whether lists of services do, too.
    pub(super) lists: bool,
}

/// An endpoint that was removed.
#[derive(Debug)]
pub(super) struct EndpointRemoved {
    pub(super) endpoint: Arc<ServiceEndpoint>,
    /// Whether lists of services show something else now.
    pub(super) lists: bool,
}
