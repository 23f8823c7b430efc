//! A service: the endpoints of one job, by task.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::task::Health;
use borough_model::{Name, TaskId};

use super::{ServiceEndpoint, ServiceFacts, TableIndex};

/// The endpoints of a job, and the facts of the job that the views show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    facts: ServiceFacts,
    index: TableIndex,
    /// By the index of the task.
    endpoints: Vec<Arc<ServiceEndpoint>>,
    healthy: usize,
    /// How many endpoints have a port of this name.
    with_port: BTreeMap<Name, usize>,
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
        self.healthy == 0 || endpoint.health == Health::Healthy
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

    /// Puts an endpoint. Returns the one in its place before, and whether the views answer something else now.
    pub(super) fn put(&mut self, endpoint: ServiceEndpoint) -> (Option<Arc<ServiceEndpoint>>, bool) {
        let is_healthy = usize::from(endpoint.health == Health::Healthy);
        match self.place_of(endpoint.task.index) {
            Err(at) => {
                self.healthy += is_healthy;
                self.ports_count(&endpoint, PortChange::Added);
                self.endpoints.insert(at, Arc::new(endpoint));
                (None, true)
            }
            Ok(at) => {
                let Some(known) = self.endpoints.get_mut(at) else { return (None, false) };
                if known.task == endpoint.task && known.revision > endpoint.revision {
                    return (Some(Arc::clone(known)), false);
                }
                let changes = !known.shows_as(&endpoint);
                self.healthy -= usize::from(known.health == Health::Healthy);
                self.healthy += is_healthy;
                let endpoint = Arc::new(endpoint);
                let before = std::mem::replace(known, Arc::clone(&endpoint));
                self.ports_count(&before, PortChange::Removed);
                self.ports_count(&endpoint, PortChange::Added);
                (Some(before), changes)
            }
        }
    }

    /// Removes the endpoint of a task, unless a newer row has published it since.
    pub(super) fn remove(&mut self, task: TaskId, revision: u64) -> Option<Arc<ServiceEndpoint>> {
        let at = self.place_of(task.index).ok()?;
        let known = self.endpoints.get(at)?;
        if known.task != task || known.revision > revision {
            return None;
        }
        let removed = self.endpoints.remove(at);
        self.healthy -= usize::from(removed.health == Health::Healthy);
        self.ports_count(&removed, PortChange::Removed);
        Some(removed)
    }

    fn ports_count(&mut self, endpoint: &ServiceEndpoint, change: PortChange) {
        for port in &endpoint.ports {
            let count = self.with_port.entry(port.name.clone()).or_default();
            match change {
                PortChange::Added => *count += 1,
                PortChange::Removed => *count = count.saturating_sub(1),
            }
            if *count == 0 {
                self.with_port.remove(&port.name);
            }
        }
    }
}

/// What becomes of the ports of an endpoint.
#[derive(Clone, Copy)]
enum PortChange {
    Added,
    Removed,
}
