//! Labels of a node: what operators say of it. Constraints read them like the attributes that its agent reports.

use std::collections::{BTreeMap, BTreeSet};

use super::package::ATTRIBUTE_PREFIX;
use crate::field_error::{FieldError, FieldErrors};

/// Most labels of a node.
pub const NODE_LABELS_MAX: usize = 64;
/// The attribute that is the name of a node in every constraint.
pub const NODE_NAME: &str = "node.name";

/// Checks the labels of a node. The system itself sets the name and the packages of a node.
pub fn node_labels_check(labels: &BTreeMap<String, String>) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    fields.labels("labels", labels, NODE_LABELS_MAX);
    for key in labels.keys() {
        let own = key == NODE_NAME || key.starts_with(ATTRIBUTE_PREFIX);
        let accepted = "any other key: node.name and those of package/ are set by the cell";
        fields.require(!own, &format!("labels[{key:?}]"), format!("{key:?}"), accepted);
    }
    fields.done()
}

/// Checks one label, or a taint without its effect. The path of the error is `key` or `value`.
pub fn label_check(key: &str, value: &str) -> Result<(), FieldError> {
    let mut fields = FieldErrors::default();
    fields.key("key", key);
    fields.line("value", value);
    fields.done().map_err(|errors| errors.into_iter().next()).or_else(|first| first.map_or(Ok(()), Err))
}

/// The labels of `before` with those of `set`, without those of `remove`.
pub fn labels_changed(
    before: &BTreeMap<String, String>,
    set: &BTreeMap<String, String>,
    remove: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let mut labels = before.clone();
    labels.retain(|key, _| !remove.contains(key));
    labels.extend(set.clone());
    labels
}
