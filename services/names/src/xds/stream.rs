//! One stream of xDS as a state machine: requests and changes go in, responses come out.
//!
//! A type has at most one response that its client has not acknowledged. Whatever happens meanwhile comes together in
//! the next one, so that a client that never acknowledges costs one response per type.

use std::collections::{BTreeMap, BTreeSet};

use super::name::{XdsKind, XdsName, XdsOwner};
use super::subscription::{GivenResource, Subscription, SubscriptionBatch};
use crate::hub::{HubChange, HubKey};
use crate::table::NamesTable;

/// The most names that a stream may follow of one type.
pub const NAMES_MAX: usize = 10_000;
/// The name that stands for everything.
const WILDCARD: &str = "*";

/// Which variant of the protocol a stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdsMode {
    StateOfTheWorld,
    Incremental,
}

/// Why a client has refused a response, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdsRefusal {
    /// A code of gRPC.
    pub code: i32,
    pub message: String,
}

/// A request, in the form of either variant.
#[derive(Clone, Debug, Default)]
pub struct AdsRequest {
    pub type_url: String,
    /// The nonce of the response that it is about; empty: of none.
    pub nonce: String,
    /// Why the client has refused that response.
    pub refusal: Option<AdsRefusal>,
    /// Who the client is by its own words. Only the first request of a stream need say it.
    pub node: Option<String>,
    /// State of the world: all names that it wants. Incremental: further names.
    pub names: Vec<String>,
    /// Incremental: names that it wants no longer.
    pub left: Vec<String>,
    /// Incremental: the versions that it has from an earlier stream.
    pub versions: BTreeMap<String, String>,
}

impl AdsRequest {
    /// How many names are in it.
    pub(super) fn size(&self) -> usize {
        self.names.len().saturating_add(self.left.len()).saturating_add(self.versions.len())
    }
}

/// A response, in the form of either variant.
#[derive(Clone, Debug, PartialEq)]
pub struct AdsResponse {
    pub kind: XdsKind,
    pub nonce: String,
    pub resources: Vec<GivenResource>,
    pub removed: Vec<String>,
}

impl AdsResponse {
    /// The version of the response as a whole: equal responses have equal ones.
    pub fn version(&self) -> String {
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        self.resources.iter().for_each(|resource| digest.update(&resource.version.to_be_bytes()));
        version_text(digest.digest())
    }
}

/// A version as text.
pub(super) fn version_text(version: u64) -> String {
    format!("{version:016x}")
}

/// A client wants more names than a stream may follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{names} names of one type; accepted: at most {most}, on one stream", most = NAMES_MAX)]
pub struct TooManyNames {
    names: usize,
}

/// A response that the client has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedResponse {
    pub kind: XdsKind,
    pub nonce: String,
    pub code: i32,
    pub detail: String,
}

/// How much a client wants of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SubscriptionScope {
    Everything,
    /// The names that it has given.
    Named,
}

/// A change of what a stream follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowChange {
    Begin(HubKey),
    End(HubKey),
}

/// What a stream follows, and what its client has.
#[derive(Debug)]
pub struct AdsStream {
    mode: AdsMode,
    /// Who the client says that it is; empty: it has not said it.
    node: String,
    kinds: BTreeMap<XdsKind, Subscription>,
    /// Which names follow a service.
    followed: BTreeMap<HubKey, BTreeSet<(XdsKind, String)>>,
    /// What has come to that, and what has gone, since they were taken.
    follow_changes: Vec<FollowChange>,
    nonce: u64,
}

impl AdsStream {
    /// A stream that follows nothing yet.
    pub fn new(mode: AdsMode) -> Self {
        Self {
            mode,
            node: String::new(),
            kinds: BTreeMap::new(),
            followed: BTreeMap::new(),
            follow_changes: Vec::new(),
            nonce: 0,
        }
    }

    /// Takes the changes of what it follows since the last call, in their order.
    pub fn follow_changes(&mut self) -> Vec<FollowChange> {
        std::mem::take(&mut self.follow_changes)
    }

    /// Who the client says that it is; empty: it has not said it.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// How many names it keeps of all types. A name that the client wants and has heard of counts twice.
    pub fn names(&self) -> usize {
        self.kinds.values().map(Subscription::names).sum()
    }

    /// Takes a request. Returns the response that it refuses, if any. A request for a type that is not served changes
    /// nothing.
    ///
    /// # Errors
    /// The client wants too many names.
    pub fn request(&mut self, mut request: AdsRequest) -> Result<Option<RefusedResponse>, TooManyNames> {
        if let Some(node) = request.node.take() {
            self.node = node;
        }
        let Some(kind) = XdsKind::of_type_url(&request.type_url) else { return Ok(None) };
        let subscription = self.kinds.entry(kind).or_default();
        let is_about_last = subscription.unacknowledged.as_ref() == Some(&request.nonce);
        let mut refused = None;
        if is_about_last {
            subscription.unacknowledged = None;
            refused = request.refusal.take().map(|AdsRefusal { code, message }| RefusedResponse {
                kind,
                nonce: request.nonce.clone(),
                code,
                detail: message,
            });
        } else if self.mode == AdsMode::StateOfTheWorld && subscription.unacknowledged.is_some() {
            // It is about an older response. The client sends its names again with the answer to the last one.
            return Ok(None);
        }
        match self.mode {
            AdsMode::StateOfTheWorld => self.names_replace(kind, request)?,
            AdsMode::Incremental => self.names_change(kind, request)?,
        }
        Ok(refused)
    }

    /// Sets the names of a type.
    fn names_replace(&mut self, kind: XdsKind, request: AdsRequest) -> Result<(), TooManyNames> {
        let mut names: BTreeSet<String> = request.names.into_iter().collect();
        let subscription = self.kinds.entry(kind).or_default();
        let is_first = !std::mem::replace(&mut subscription.is_known, true);
        // Without any name at first, a client wants all. Later it then wants none.
        let wants_all = names.remove(WILDCARD) || (names.is_empty() && is_first);
        let wants_all =
            wants_all || (names.is_empty() && subscription.is_wildcard && subscription.wanted().is_empty());
        let left: Vec<String> = subscription.wanted().difference(&names).cloned().collect();
        let added: Vec<String> = names.difference(subscription.wanted()).cloned().collect();
        bound(names.len())?;
        subscription.must_answer |= kind.is_complete_state() && (is_first || !added.is_empty());
        self.names_left(kind, &left);
        self.names_added(kind, added);
        let everything = SubscriptionScope::Everything;
        self.scope_set(kind, if wants_all { everything } else { SubscriptionScope::Named });
        Ok(())
    }

    /// Adds and removes names of a type.
    fn names_change(&mut self, kind: XdsKind, mut request: AdsRequest) -> Result<(), TooManyNames> {
        let subscription = self.kinds.entry(kind).or_default();
        let is_first = !std::mem::replace(&mut subscription.is_known, true);
        let is_wildcard = subscription.is_wildcard;
        let asks_all = request.names.iter().any(|name| name == WILDCARD);
        let leaves_all = request.left.iter().any(|name| name == WILDCARD);
        let wants_all = (is_wildcard || asks_all || (is_first && request.names.is_empty())) && !leaves_all;
        request.names.retain(|name| name != WILDCARD);
        let new = request.names.iter().filter(|name| !subscription.wanted().contains(*name)).count();
        bound(subscription.wanted().len().saturating_add(new))?;
        bound(request.versions.len())?;
        // A client waits for an answer to its wish for everything, even if there is nothing.
        subscription.must_answer |= wants_all && !is_wildcard;
        // A name that is asked for again must be answered again.
        request.names.iter().for_each(|name| subscription.forget(name));
        if is_first {
            for (name, version) in request.versions {
                if let Ok(version) = u64::from_str_radix(&version, 16) {
                    subscription.has_already(name, version);
                }
            }
        }
        self.names_left(kind, &request.left);
        self.names_added(kind, request.names);
        let everything = SubscriptionScope::Everything;
        self.scope_set(kind, if wants_all { everything } else { SubscriptionScope::Named });
        Ok(())
    }

    fn names_added(&mut self, kind: XdsKind, names: Vec<String>) {
        for name in &names {
            if let Some(parsed) = XdsName::parse(name) {
                self.follow(parsed.hub_key(), kind, name.clone());
            }
        }
        self.kinds.entry(kind).or_default().want(names);
    }

    fn names_left(&mut self, kind: XdsKind, names: &[String]) {
        for name in names {
            self.kinds.entry(kind).or_default().leave(name);
            let Some(parsed) = XdsName::parse(name) else { continue };
            self.unfollow(parsed.hub_key(), kind, name.clone());
        }
    }

    fn follow(&mut self, key: HubKey, kind: XdsKind, name: String) {
        let followers = self.followed.entry(key.clone()).or_default();
        if followers.is_empty() {
            self.follow_changes.push(FollowChange::Begin(key));
        }
        followers.insert((kind, name));
    }

    fn unfollow(&mut self, key: HubKey, kind: XdsKind, name: String) {
        let Some(followers) = self.followed.get_mut(&key) else { return };
        followers.remove(&(kind, name));
        if followers.is_empty() {
            self.followed.remove(&key);
            self.follow_changes.push(FollowChange::End(key));
        }
    }

    /// Begins or ends to follow everything of a type. Only clusters are served that way: a proxy has its listeners and
    /// routes of its own, and asks for the endpoints of each cluster.
    fn scope_set(&mut self, kind: XdsKind, scope: SubscriptionScope) {
        let subscription = self.kinds.entry(kind).or_default();
        let wants_all = scope == SubscriptionScope::Everything;
        subscription.is_wildcard = wants_all;
        let has_list = wants_all && kind == XdsKind::Cluster;
        if !subscription.list_set(has_list) {
            return;
        }
        if has_list {
            self.follow(HubKey::Lists, kind, WILDCARD.to_owned());
        } else {
            self.unfollow(HubKey::Lists, kind, WILDCARD.to_owned());
        }
    }

    /// Takes what has changed in the table.
    pub fn changed(&mut self, changed: &BTreeSet<HubChange>) {
        for change in changed {
            match change {
                HubChange::Service(key) => self.touch(&HubKey::Service(key.clone())),
                HubChange::Merged(key) => self.touch(&HubKey::Merged(key.clone())),
                // The clusters of a merged service are those of its jobs.
                HubChange::List(_) => {}
                HubChange::Listed(listed) => {
                    let owner = XdsOwner::Job(listed.service.clone());
                    let name = XdsName { owner, port: listed.port.clone() };
                    if let Some(subscription) = self.kinds.get_mut(&XdsKind::Cluster) {
                        subscription.touch_listed(name.to_string());
                    }
                }
            }
        }
    }

    /// Looks again at the names that follow `key`.
    fn touch(&mut self, key: &HubKey) {
        for (kind, name) in self.followed.get(key).into_iter().flatten() {
            if let Some(subscription) = self.kinds.get_mut(kind) {
                subscription.touch(name);
            }
        }
    }

    /// The responses that are due now.
    pub fn responses(&mut self, table: &NamesTable) -> Vec<AdsResponse> {
        let mut responses = Vec::new();
        for (kind, subscription) in &mut self.kinds {
            let Some(batch) = subscription.batch(table, *kind, self.mode) else { continue };
            let SubscriptionBatch { resources, removed } = batch;
            self.nonce = self.nonce.saturating_add(1);
            let nonce = self.nonce.to_string();
            subscription.unacknowledged = Some(nonce.clone());
            responses.push(AdsResponse { kind: *kind, nonce, resources, removed });
        }
        responses
    }
}

fn bound(names: usize) -> Result<(), TooManyNames> {
    if names > NAMES_MAX { Err(TooManyNames { names }) } else { Ok(()) }
}
