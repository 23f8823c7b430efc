//! Selects the rows of lists by labels.

use std::collections::BTreeMap;

use borough_model::JobRow;
use borough_model::node::{NODE_NAME, NodeRow, package_attribute, selector_check};
use borough_proto::v1::LabelMatch;
use borough_store::mirror::StoredSpec;
use tonic::Status;

use crate::cell::CellContext;
use crate::status::status_from_validation;

/// Refuses a selector with too many conditions, or with one that no label can have. `field` is its path.
pub(crate) fn selector_checked(field: &str, selector: &[LabelMatch]) -> Result<(), Status> {
    let conditions = selector.iter().map(|wanted| (wanted.key.as_str(), wanted.value.as_str()));
    selector_check(field, conditions).map_err(|errors| status_from_validation(&errors))
}

/// Returns true if the labels meet all conditions.
pub(crate) fn labels_meet(selector: &[LabelMatch], labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|wanted| (labels.get(&wanted.key) == Some(&wanted.value)) != wanted.not)
}

/// Returns true if the labels and attributes of a node meet all conditions. A key is what a constraint reads by it: the
/// name of the node, else a label, else an installed package, else an attribute of the agent.
pub(crate) fn node_meets(selector: &[LabelMatch], row: &NodeRow) -> bool {
    selector.iter().all(|wanted| (node_value(row, &wanted.key) == Some(&wanted.value)) != wanted.not)
}

fn node_value<'r>(row: &'r NodeRow, key: &str) -> Option<&'r str> {
    if key == NODE_NAME {
        return Some(row.name.as_str());
    }
    let is_package = || row.packages.iter().any(|package| package_attribute(package) == key);
    let package = || is_package().then_some("installed");
    let label = row.labels.get(key).map(String::as_str);
    label.or_else(package).or_else(|| row.attributes.get(key).map(String::as_str))
}

/// Says which jobs meet a selector. Jobs in a row that differ in their names only need one look at their labels.
pub(crate) struct JobSelection<'s> {
    selector: &'s [LabelMatch],
    last: Option<(StoredSpec, bool)>,
}

impl<'s> JobSelection<'s> {
    pub(crate) fn new(selector: &'s [LabelMatch]) -> Self {
        Self { selector, last: None }
    }

    /// Returns true if every job is selected.
    pub(crate) fn is_all(&self) -> bool {
        self.selector.is_empty()
    }

    /// Returns true if the labels of a job meet all conditions. A job without a known spec has no labels to compare.
    pub(crate) fn has(&mut self, job: &JobRow, stored: Option<StoredSpec>) -> bool {
        if self.is_all() {
            return true;
        }
        let Some(stored) = stored else { return false };
        if let Some((last, meets)) = &self.last
            && last.is_same(&stored)
        {
            return *meets;
        }
        let spec = stored.decoded(&job.name);
        let meets = spec.is_some_and(|spec| labels_meet(self.selector, &spec.labels));
        self.last = Some((stored, meets));
        meets
    }

    /// As [`JobSelection::has`]. Takes the mirror's lock for a short time.
    pub(crate) fn has_job(&mut self, cell: &CellContext, job: &JobRow) -> bool {
        self.is_all() || self.has(job, cell.mirror.read(|state| state.stored_spec_of(job)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_hold() {
        let labels: BTreeMap<String, String> =
            [("app", "web"), ("tier", "front")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let is =
            |key: &str, value: &str| LabelMatch { key: key.to_owned(), value: value.to_owned(), not: false };
        let not = |key: &str, value: &str| LabelMatch { not: true, ..is(key, value) };
        assert!(labels_meet(&[], &labels));
        assert!(labels_meet(&[is("app", "web"), not("tier", "back")], &labels));
        assert!(labels_meet(&[not("zone", "a")], &labels), "a label that is missing has another value");
        assert!(!labels_meet(&[is("zone", "")], &labels), "a label that is missing is not empty");
        assert!(!labels_meet(&[is("app", "web"), not("tier", "front")], &labels));
        assert!(!labels_meet(&[is("app", "api")], &labels));
    }
}
