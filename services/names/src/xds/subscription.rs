//! What one stream follows of one type of resources.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::google::protobuf::Any;
use prost::Message as _;

use super::name::{XdsKind, cluster_names};
use super::resource::{XdsResource, endpoints_none, xds_resource};
use super::stream::AdsMode;
use crate::table::NamesTable;

/// Bytes of resources in one response. A client of gRPC accepts 4 MiB unless told otherwise.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// A resource as a response has it.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenResource {
    pub name: String,
    pub version: u64,
    pub body: Any,
}

/// The resources of one response.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SubscriptionBatch {
    pub(super) resources: Vec<GivenResource>,
    /// Names without a resource. Only a response of changes can say so.
    pub(super) removed: Vec<String>,
}

/// What a stream follows of one type, and what its client has.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Names that the client has asked for.
    wanted: BTreeSet<String>,
    /// Whether it was in a request before this one.
    pub(super) is_known: bool,
    /// Whether it wants everything.
    pub(super) is_wildcard: bool,
    /// Whether that is a list of ours. A proxy has its listeners and routes itself, and gets none for such a wish.
    has_list: bool,
    /// What the client has heard: a version, or that there is no such resource.
    sent: BTreeMap<String, Option<u64>>,
    /// Names to look at again.
    dirty: BTreeSet<String>,
    /// Whether to look at the whole list again. That waits for the response: until then the stream follows the list, so
    /// that no change is missed between the two.
    is_list_dirty: bool,
    /// The response that the client has not acknowledged. Until then it gets no other.
    pub(super) unacknowledged: Option<String>,
    /// Whether a response is due even if nothing is in it.
    pub(super) must_answer: bool,
}

impl Subscription {
    /// The names that it follows for the client's own sake.
    pub(super) fn wanted(&self) -> &BTreeSet<String> {
        &self.wanted
    }

    /// How many names it keeps, also those that the client does not want any more.
    pub(super) fn names(&self) -> usize {
        self.wanted.len().saturating_add(self.sent.len())
    }

    /// Adds names. The client gets each of them again, unless it has said which version it has.
    pub(super) fn want(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.dirty.insert(name.clone());
            self.wanted.insert(name);
        }
    }

    /// Removes a name.
    pub(super) fn leave(&mut self, name: &str) {
        self.wanted.remove(name);
        if !self.has_list {
            self.sent.remove(name);
            self.dirty.remove(name);
        }
    }

    /// Forgets what the client has heard of a name, since it asks for it again.
    pub(super) fn forget(&mut self, name: &str) {
        self.sent.remove(name);
    }

    /// Records what the client has from an earlier stream.
    pub(super) fn has_already(&mut self, name: String, version: u64) {
        self.sent.insert(name, Some(version));
    }

    /// Looks again at a name that is followed.
    pub(super) fn touch(&mut self, name: &str) {
        if self.wanted.contains(name) || self.sent.contains_key(name) {
            self.dirty.insert(name.to_owned());
        }
    }

    /// Looks again at a name in the list of everything.
    pub(super) fn touch_listed(&mut self, name: String) {
        if self.has_list {
            self.dirty.insert(name);
        }
    }

    /// Begins or ends to follow the list of everything. Returns true if it is another state.
    pub(super) fn list_set(&mut self, has_list: bool) -> bool {
        let was = std::mem::replace(&mut self.has_list, has_list);
        self.is_list_dirty |= has_list && !was;
        was != has_list
    }

    /// Makes the whole list dirty, if that is due.
    fn list_touch(&mut self, table: &NamesTable) {
        if !std::mem::take(&mut self.is_list_dirty) {
            return;
        }
        let names = cluster_names(table);
        let gone = self.sent.keys().filter(|name| !names.contains(*name) && !self.wanted.contains(*name));
        self.dirty.extend(gone.cloned().collect::<Vec<_>>());
        self.dirty.extend(names);
    }

    /// The resource that the client should have under a name now.
    fn current(&self, table: &NamesTable, kind: XdsKind, name: &str) -> Option<XdsResource> {
        let is_listed = || self.has_list && cluster_is_listed(table, name);
        if !self.wanted.contains(name) && !is_listed() {
            return None;
        }
        let current = xds_resource(table, kind, name);
        let had_endpoints = || kind == XdsKind::Endpoints && self.sent.get(name).is_some_and(Option::is_some);
        // Endpoints cannot be taken back, only emptied.
        current.or_else(|| had_endpoints().then(|| endpoints_none(name)))
    }

    /// The next response, if one is due and the last one was acknowledged.
    pub(super) fn batch(
        &mut self,
        table: &NamesTable,
        kind: XdsKind,
        mode: AdsMode,
    ) -> Option<SubscriptionBatch> {
        if self.unacknowledged.is_some() {
            return None;
        }
        self.list_touch(table);
        if self.dirty.is_empty() && !self.must_answer {
            return None;
        }
        let batch = if mode == AdsMode::StateOfTheWorld && kind.is_complete_state() {
            self.batch_of_all(table, kind)
        } else {
            self.batch_of_changes(table, kind, mode)
        };
        if batch.is_some() {
            self.must_answer = false;
        }
        batch
    }

    /// Everything, if any of it has changed.
    fn batch_of_all(&mut self, table: &NamesTable, kind: XdsKind) -> Option<SubscriptionBatch> {
        let dirty = std::mem::take(&mut self.dirty);
        let version = |name: &str| self.current(table, kind, name).map(|resource| resource.version);
        let has_changed = dirty.iter().any(|name| {
            let told = self.sent.get(name).copied();
            let now = version(name);
            // A name that has no resource and was never told of one is news only in an answer to its request.
            told.unwrap_or_default() != now
        });
        if !has_changed && !self.must_answer {
            return None;
        }
        let mut names: BTreeSet<String> = self.wanted.clone();
        if self.has_list {
            names.extend(cluster_names(table));
        }
        let mut batch = SubscriptionBatch::default();
        let mut sent = BTreeMap::new();
        for name in names {
            let resource = self.current(table, kind, &name);
            sent.insert(name.clone(), resource.as_ref().map(|resource| resource.version));
            batch.resources.extend(resource.map(|resource| given(name, resource)));
        }
        self.sent = sent;
        Some(batch)
    }

    /// What has changed, as far as one response holds it.
    fn batch_of_changes(
        &mut self,
        table: &NamesTable,
        kind: XdsKind,
        mode: AdsMode,
    ) -> Option<SubscriptionBatch> {
        let mut batch = SubscriptionBatch::default();
        let mut bytes = 0;
        while bytes < RESPONSE_BYTES_MAX
            && let Some(name) = self.dirty.pop_first()
        {
            let current = self.current(table, kind, &name);
            let told = self.sent.get(&name).copied();
            let now = current.as_ref().map(|resource| resource.version);
            // A name of the list that the client never had is no news when it is gone.
            let is_unknown = current.is_none() && told.is_none() && !self.wanted.contains(&name);
            if told == Some(now) || is_unknown {
                continue;
            }
            match current {
                Some(resource) => {
                    bytes += resource.body.encoded_len();
                    self.sent.insert(name.clone(), now);
                    batch.resources.push(given(name, resource));
                }
                None if mode == AdsMode::Incremental => {
                    bytes += name.len();
                    self.sent_missing(&name);
                    batch.removed.push(name);
                }
                // The client learns it from its own time-out, or from the list of clusters.
                None => {}
            }
        }
        let is_due = self.must_answer || !batch.resources.is_empty() || !batch.removed.is_empty();
        // A state of the world that is not complete says nothing without resources.
        let is_due = is_due && (mode == AdsMode::Incremental || !batch.resources.is_empty());
        is_due.then_some(batch)
    }

    fn sent_missing(&mut self, name: &str) {
        if self.wanted.contains(name) {
            self.sent.insert(name.to_owned(), None);
        } else {
            self.sent.remove(name);
        }
    }
}

/// Returns true if a client that wants everything gets the cluster.
fn cluster_is_listed(table: &NamesTable, name: &str) -> bool {
    let parsed = super::name::XdsName::parse(name);
    parsed.is_some_and(|parsed| {
        parsed.service(table).is_some_and(|service| super::name::is_listed(&parsed, service))
    })
}

fn given(name: String, resource: XdsResource) -> GivenResource {
    GivenResource { name, version: resource.version, body: resource.body }
}
