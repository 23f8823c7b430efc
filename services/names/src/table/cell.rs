//! The services of one cell, changed step by step as its journal goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use borough_model::merged::MergedServiceRow;
use borough_model::task::Endpoint;
use borough_model::{JobId, Name, NodeId, TaskId};
use borough_store::Cursor;

use super::merged::{MemberLabels, MergedServices};
use super::{
    AddressOwner, AnswerTimes, ListedName, NamesChanges, Service, ServiceEndpoint, ServiceKey, TableIndex,
};

/// What the views show of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceFacts {
    pub job: JobId,
    /// The version of the spec that labels and ports are of.
    pub spec_version: u32,
    /// Whether the job has not ended.
    pub is_live: bool,
    /// The number of its tasks.
    pub count: u32,
    pub labels: Arc<BTreeMap<String, String>>,
    /// The names of its ports, in the order of the job file.
    pub ports: Vec<Name>,
}

impl ServiceFacts {
    /// Returns true if the views answer the same for both.
    pub(super) fn shows_as(&self, other: &Self) -> bool {
        Self { spec_version: other.spec_version, ..self.clone() } == *other
    }

    /// What merged services compare: the labels of a job that runs.
    pub(super) fn labels_live(&self) -> MemberLabels<'_> {
        self.is_live.then_some(&*self.labels)
    }

    /// Returns true if lists of services show both alike.
    fn lists_as(&self, other: &Self) -> bool {
        (self.is_live, &self.labels, &self.ports) == (other.is_live, &other.labels, &other.ports)
    }
}

/// Where a node is, and whether it is being emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlace {
    /// The address of its tasks: an IP address or host name.
    pub host: String,
    /// The value of the first failure domain of the cell; empty if the node has none.
    pub zone: String,
    /// The value of the second failure domain.
    pub sub_zone: String,
    /// Whether an operator wants the node empty. Its endpoints serve until they are withdrawn.
    pub is_draining: bool,
}

/// What becomes of an endpoint, as others see it.
struct EndpointShown<'e> {
    /// As it was.
    endpoint: Option<&'e ServiceEndpoint>,
    /// Whether the views answer something else now.
    shows: bool,
    /// Whether lists of services do, too.
    lists: bool,
}

/// What has happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedJobEvent {
    /// It was submitted, and has taken its name.
    Created,
    Changed,
}

/// A change of the addresses of a cell.
#[derive(Clone, Debug)]
pub(super) enum AddressChange {
    Has(IpAddr, AddressOwner),
    Lacks(IpAddr, AddressOwner),
}

/// Rows of a cell, from which its table begins.
#[derive(Debug, Default)]
pub struct ListedCell {
    pub jobs: Vec<((Name, Name), ServiceFacts)>,
    pub nodes: Vec<(Name, NodeId, NodePlace)>,
    /// Endpoints, and since when each is healthy.
    pub endpoints: Vec<(Endpoint, i64)>,
    pub merged: Vec<Arc<MergedServiceRow>>,
    pub times: AnswerTimes,
}

/// How many endpoints of each service are on a node, by the name of the node.
pub(super) type NodeServices = BTreeMap<Name, BTreeMap<(Name, Name), usize>>;

/// The services of one cell.
#[derive(Clone, Debug)]
pub struct CellTable {
    name: Name,
    /// The position up to which the journal is in the table; `None` before the first listing.
    cursor: Option<Cursor>,
    times: AnswerTimes,
    /// The index of the last change of the list of services.
    pub(super) list_index: TableIndex,
    /// The least index of a service that does not exist.
    pub(super) missing_index: TableIndex,
    services: BTreeMap<(Name, Name), Service>,
    /// The names of the jobs that have a name.
    names: BTreeMap<JobId, (Name, Name)>,
    pub(super) merged: MergedServices,
    nodes: BTreeMap<Name, (NodeId, Arc<NodePlace>)>,
    /// How many endpoints of each service are on a node.
    on_node: NodeServices,
    address_changes: Vec<AddressChange>,
}

impl CellTable {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            cursor: None,
            times: AnswerTimes::default(),
            list_index: TableIndex::default(),
            missing_index: TableIndex::default(),
            services: BTreeMap::new(),
            names: BTreeMap::new(),
            merged: MergedServices::default(),
            nodes: BTreeMap::new(),
            on_node: BTreeMap::new(),
            address_changes: Vec::new(),
        }
    }

    /// The name of the cell.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How long answers about its names may be kept.
    pub fn times(&self) -> AnswerTimes {
        self.times
    }

    /// Returns true if the cell was listed once.
    pub fn is_complete(&self) -> bool {
        self.cursor.is_some()
    }

    /// The index of the position up to which the journal is in the table.
    pub fn index(&self) -> TableIndex {
        self.cursor.map_or_else(TableIndex::default, TableIndex::of)
    }

    /// The index of the last change of the list of services.
    pub fn list_index(&self) -> TableIndex {
        self.list_index
    }

    /// The index of a service, or that of services that do not exist.
    pub fn index_of(&self, user: &Name, job: &Name) -> TableIndex {
        self.service(user, job).map_or(self.missing_index, Service::index)
    }

    /// A service.
    pub fn service(&self, user: &Name, job: &Name) -> Option<&Service> {
        self.services.get(&(user.clone(), job.clone()))
    }

    /// Every service, by user and job.
    pub fn services(&self) -> impl Iterator<Item = (ServiceKey, &Service)> {
        self.services.iter().map(|((user, job), service)| (self.key(user, job), service))
    }

    /// Returns true if the user has a service, of one job or a merged one.
    pub fn has_user(&self, user: &Name) -> bool {
        self.jobs_of(user).next().is_some() || self.has_merged(user)
    }

    /// The jobs of a user by name.
    pub(super) fn jobs_of<'s>(
        &'s self,
        user: &'s Name,
    ) -> impl Iterator<Item = (&'s Name, &'s Service)> + 's {
        let from = self.services.range((user.clone(), Name::first())..);
        from.take_while(move |((of, _), _)| of == user).map(|((_, job), service)| (job, service))
    }

    pub(super) fn key(&self, user: &Name, job: &Name) -> ServiceKey {
        ServiceKey { cell: self.name.clone(), user: user.clone(), job: job.clone() }
    }

    /// Takes the changes of addresses since the last call.
    pub(super) fn addresses_take(&mut self) -> Vec<AddressChange> {
        std::mem::take(&mut self.address_changes)
    }

    /// Records that the table is at `cursor`.
    pub fn advance(&mut self, cursor: Cursor) {
        self.cursor = Some(cursor);
    }

    /// Replaces everything with the rows of a listing. Services that are the same keep their index, unless the store
    /// has another epoch.
    pub fn replace(&mut self, rows: ListedCell, cursor: Cursor) -> NamesChanges {
        let index = TableIndex::of(cursor);
        let is_new_epoch = self.cursor.is_none_or(|known| known.store_epoch != cursor.store_epoch);
        let mut next = Self::new(self.name.clone());
        next.times = rows.times;
        next.nodes = rows.nodes.into_iter().map(|(node, id, place)| (node, (id, Arc::new(place)))).collect();
        for ((user, job), facts) in rows.jobs {
            next.names.insert(facts.job, (user.clone(), job.clone()));
            next.services.insert((user, job), Service::new(facts, index));
        }
        for (endpoint, healthy_ms) in rows.endpoints {
            next.endpoint_put(&endpoint, 0, healthy_ms, cursor);
        }
        let mut changes = NamesChanges::default();
        for (name, service) in &mut next.services {
            let known = self.services.get(name).filter(|known| known.shows_as(service));
            match known.filter(|_| !is_new_epoch) {
                Some(known) => service.index_set(known.index()),
                None => {
                    service.index_set(index);
                    changes.services.insert(self.key(&name.0, &name.1));
                }
            }
        }
        let gone = self.services.keys().filter(|name| !next.services.contains_key(*name));
        changes.services.extend(gone.map(|(user, job)| self.key(user, job)));
        for row in rows.merged {
            next.merged_insert(row, index);
        }
        self.merged_compare(&mut next, &mut changes);
        for (name, service) in &self.services {
            for endpoint in service.endpoints() {
                let owner = (self.key(&name.0, &name.1), endpoint.task.index);
                let gone = endpoint.host.address().map(|address| AddressChange::Lacks(address, owner));
                self.address_changes.extend(gone);
            }
        }
        self.address_changes.append(&mut next.address_changes);
        next.address_changes = std::mem::take(&mut self.address_changes);
        // What the list shows may have changed with any service.
        let is_listed_alike = changes.services.is_empty() && changes.merged.is_empty() && !is_new_epoch;
        next.list_index = if is_listed_alike { self.list_index } else { index };
        next.missing_index = if is_listed_alike { self.missing_index } else { index };
        if !is_listed_alike {
            for key in &changes.services {
                let name = (key.user.clone(), key.job.clone());
                let known = [self.services.get(&name), next.services.get(&name)];
                let ports = known.into_iter().flatten().flat_map(Service::ports).cloned();
                changes.listed.extend(listed_names(key, ports));
            }
        }
        next.cursor = Some(cursor);
        *self = next;
        changes
    }

    /// Puts a published or changed endpoint.
    pub fn endpoint_put(
        &mut self,
        endpoint: &Endpoint,
        revision: u64,
        healthy_ms: i64,
        cursor: Cursor,
    ) -> NamesChanges {
        let place = self.place_of_node(&endpoint.node);
        let endpoint_of = ServiceEndpoint::new(endpoint, revision, healthy_ms, place);
        let name = (endpoint.user.clone(), endpoint.job.clone());
        let owner = (self.key(&name.0, &name.1), endpoint.task.index);
        let address = endpoint_of.host.address();
        let service = self.services.entry(name).or_default();
        let Some(put) = service.put(endpoint_of) else { return NamesChanges::default() };
        let before = put.before.as_deref();
        let address_before = before.and_then(|before| before.host.address());
        if address_before != address {
            let lacks = address_before.map(|address| AddressChange::Lacks(address, owner.clone()));
            let has = address.map(|address| AddressChange::Has(address, owner.clone()));
            self.address_changes.extend(lacks.into_iter().chain(has));
        }
        if before.map(|before| &before.node) != Some(&endpoint.node) {
            let service = (endpoint.user.clone(), endpoint.job.clone());
            before.inspect(|before| self.node_lacks(&before.node, &endpoint.user, &endpoint.job));
            *self.on_node.entry(endpoint.node.clone()).or_default().entry(service).or_default() += 1;
        }
        self.endpoint_changed(
            owner.0,
            EndpointShown { endpoint: before, shows: put.shows, lists: put.lists },
            cursor,
        )
    }

    /// Removes a withdrawn endpoint.
    pub fn endpoint_remove(
        &mut self,
        user: &Name,
        job: &Name,
        task: TaskId,
        revision: u64,
        cursor: Cursor,
    ) -> NamesChanges {
        let key = self.key(user, job);
        let Some(service) = self.services.get_mut(&(user.clone(), job.clone())) else {
            return NamesChanges::default();
        };
        let Some(removed) = service.remove(task, revision) else { return NamesChanges::default() };
        let endpoint = &removed.endpoint;
        let owner = (key.clone(), task.index);
        self.address_changes
            .extend(endpoint.host.address().map(|address| AddressChange::Lacks(address, owner)));
        self.node_lacks(&endpoint.node, user, job);
        let shown = EndpointShown { endpoint: Some(endpoint), shows: true, lists: removed.lists };
        self.endpoint_changed(key, shown, cursor)
    }

    /// Records at the service that an endpoint of it has changed.
    fn endpoint_changed(
        &mut self,
        key: ServiceKey,
        shown: EndpointShown<'_>,
        cursor: Cursor,
    ) -> NamesChanges {
        let at = TableIndex::of(cursor);
        let mut changes = NamesChanges::default();
        let Some(service) = self.services.get_mut(&(key.user.clone(), key.job.clone())) else {
            return changes;
        };
        if shown.lists {
            let ports_before = shown.endpoint.into_iter().flat_map(|endpoint| &endpoint.ports);
            let ports = service.ports().chain(ports_before.map(|port| &port.name)).cloned();
            changes.listed = listed_names(&key, ports);
            self.list_index = self.list_index.next_at(at);
        }
        if shown.shows {
            service.index_set(service.index().next_at(at));
            self.merged_touch(&key.user, &key.job, BTreeSet::new(), at, &mut changes);
            changes.services.insert(key);
        }
        changes
    }

    /// Counts one endpoint of a service on a node less.
    fn node_lacks(&mut self, node: &Name, user: &Name, job: &Name) {
        let service = &(user.clone(), job.clone());
        let Some(services) = self.on_node.get_mut(node) else { return };
        if let Some(count) = services.get_mut(service) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                services.remove(service);
            }
        }
        if services.is_empty() {
            self.on_node.remove(node);
        }
    }

    /// Puts the facts of a job. A name passes on to the job that was created with it last.
    pub fn job_put(
        &mut self,
        user: &Name,
        job: &Name,
        facts: ServiceFacts,
        event: NamedJobEvent,
        cursor: Cursor,
    ) -> NamesChanges {
        let key = self.key(user, job);
        let name = (user.clone(), job.clone());
        let at = TableIndex::of(cursor);
        let mut changes = NamesChanges::default();
        let id = facts.job;
        let labels = facts.is_live.then(|| Arc::clone(&facts.labels));
        match self.services.get_mut(&name) {
            None => {
                changes.listed = listed_names(&key, facts.ports.iter().cloned());
                self.services.insert(name.clone(), Service::new(facts, self.missing_index.next_at(at)));
            }
            Some(service) => {
                let before = service.facts();
                if before.job != id && event == NamedJobEvent::Changed {
                    return changes;
                }
                if !before.lists_as(&facts) {
                    let ports = service.ports().chain(&facts.ports).cloned();
                    changes.listed = listed_names(&key, ports);
                }
                let job_before = before.job;
                if !service.facts_set(facts) {
                    return changes;
                }
                service.index_set(service.index().next_at(at));
                if job_before != id {
                    self.names.remove(&job_before);
                }
            }
        }
        self.names.insert(id, name);
        if !changes.listed.is_empty() {
            self.list_index = self.list_index.next_at(at);
        }
        let others = self.merged.job_set(user, job, labels.as_deref());
        self.merged_touch(user, job, others, at, &mut changes);
        changes.services.insert(key);
        changes
    }

    /// The facts of a job, if the name is the job's.
    pub fn facts_of(&self, user: &Name, name: &Name, job: JobId) -> Option<&ServiceFacts> {
        self.service(user, name).map(Service::facts).filter(|facts| facts.job == job)
    }

    /// Removes the service of a job that is no more.
    pub fn job_remove(&mut self, job: JobId, cursor: Cursor) -> NamesChanges {
        let Some(name) = self.names.remove(&job) else { return NamesChanges::default() };
        let key = self.key(&name.0, &name.1);
        let mut listed = BTreeSet::new();
        if let Some(service) = self.services.remove(&name) {
            listed = listed_names(&key, service.ports().cloned());
            for endpoint in service.endpoints() {
                self.node_lacks(&endpoint.node, &name.0, &name.1);
                let owner = (key.clone(), endpoint.task.index);
                let gone = endpoint.host.address().map(|address| AddressChange::Lacks(address, owner));
                self.address_changes.extend(gone);
            }
            let at = service.index().next_at(TableIndex::of(cursor));
            self.missing_index = self.missing_index.next_at(at);
            self.list_index = self.list_index.next_at(at);
        }
        let mut changes = NamesChanges { listed, ..NamesChanges::default() };
        let others = self.merged.job_set(&key.user, &key.job, None);
        self.merged_touch(&key.user, &key.job, others, TableIndex::of(cursor), &mut changes);
        changes.services.insert(key);
        changes
    }

    /// Puts what is known of a node, and passes it on to its endpoints.
    pub fn node_put(&mut self, node: &Name, id: NodeId, place: NodePlace, cursor: Cursor) -> NamesChanges {
        let mut changes = NamesChanges::default();
        if self.nodes.get(node).is_some_and(|(known, at)| (*known, &**at) == (id, &place)) {
            return changes;
        }
        let place = Arc::new(place);
        self.nodes.insert(node.clone(), (id, Arc::clone(&place)));
        let at = TableIndex::of(cursor);
        for (user, job) in self.on_node.get(node).into_iter().flat_map(BTreeMap::keys) {
            let Some(service) = self.services.get_mut(&(user.clone(), job.clone())) else { continue };
            let on_node = service.endpoints().iter().filter(|endpoint| endpoint.node == *node);
            let moved: Vec<ServiceEndpoint> = on_node
                .map(|known| ServiceEndpoint { place: Arc::clone(&place), ..(**known).clone() })
                .collect();
            let mut shows = false;
            for endpoint in moved {
                shows |= service.put(endpoint).is_some_and(|put| put.shows);
            }
            if shows {
                service.index_set(service.index().next_at(at));
                let (user, job) = (user.clone(), job.clone());
                changes.services.insert(ServiceKey { cell: self.name.clone(), user, job });
            }
        }
        for ServiceKey { user, job, .. } in changes.services.clone() {
            self.merged_touch(&user, &job, BTreeSet::new(), at, &mut changes);
        }
        changes
    }

    /// Forgets a node, which has no tasks any more.
    pub fn node_remove(&mut self, node: NodeId) {
        self.nodes.retain(|_, (id, _)| *id != node);
    }

    /// What it keeps apart from the services: the names by job, and how many endpoints of each service a node has.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (&BTreeMap<JobId, (Name, Name)>, &NodeServices) {
        (&self.names, &self.on_node)
    }

    /// Where a node is, as its endpoints have it.
    pub(super) fn place_of_node(&self, node: &Name) -> Arc<NodePlace> {
        self.nodes.get(node).map(|(_, place)| Arc::clone(place)).unwrap_or_default()
    }

    /// The names of the nodes, and what is known of them.
    pub fn nodes(&self) -> impl Iterator<Item = (&Name, &NodePlace)> {
        self.nodes.iter().map(|(node, (_, place))| (node, &**place))
    }
}

/// A service and these ports of it, as lists have them.
fn listed_names(key: &ServiceKey, ports: impl Iterator<Item = Name>) -> BTreeSet<ListedName> {
    let whole = ListedName { service: key.clone(), port: None };
    let of_port = |port| ListedName { service: key.clone(), port: Some(port) };
    ports.map(of_port).chain([whole]).collect()
}
