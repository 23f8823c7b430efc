//! Selects the rows of lists by labels.

use std::collections::BTreeMap;

use borough_model::JobRow;
use borough_model::node::{NODE_NAME, NodeRow, package_attribute};
use borough_proto::v1::LabelMatch;

use crate::cell::CellContext;

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

/// Returns true if the labels of a job meet all conditions. Takes the mirror's lock for a short time.
pub(crate) fn job_meets(cell: &CellContext, selector: &[LabelMatch], job: &JobRow) -> bool {
    if selector.is_empty() {
        return true;
    }
    let stored = cell.mirror.read(|state| state.stored_spec_of(job));
    let spec = stored.and_then(|stored| stored.decoded(&job.name));
    spec.is_some_and(|spec| labels_meet(selector, &spec.labels))
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
