//! Labels of a node: what operators say of it. Constraints read them like the attributes that its agent reports.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeRow;
use super::facts::ATTRIBUTE_BYTES_MAX;
use super::package::{ATTRIBUTE_PREFIX, INSTALLED};
use crate::field_error::{FieldError, FieldErrors};

/// Most labels of a node.
pub const NODE_LABELS_MAX: usize = 64;
/// Most conditions of a selector: one for each label that a job or a node may have.
pub const SELECTOR_CONDITIONS_MAX: usize = 64;
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

/// The value that a constraint on the attribute `key` compares: the name of the node, else a label, else an installed
/// package, else what its agent has found.
pub fn node_attribute<'a>(row: &'a NodeRow, key: &str) -> Option<&'a str> {
    if key == NODE_NAME {
        return Some(row.name.as_str());
    }
    let of_package = || {
        let package = key.strip_prefix(ATTRIBUTE_PREFIX)?;
        row.packages.contains(package).then_some(INSTALLED)
    };
    let label = row.labels.get(key).map(String::as_str);
    label.or_else(of_package).or_else(|| row.attributes.get(key).map(String::as_str))
}

/// Checks one label, or a taint without its effect. The path of the error is `key` or `value`.
pub fn label_check(key: &str, value: &str) -> Result<(), FieldError> {
    let mut fields = FieldErrors::default();
    fields.key("key", key);
    fields.line("value", value);
    fields.done().map_err(|errors| errors.into_iter().next()).or_else(|first| first.map_or(Ok(()), Err))
}

/// Checks the conditions of a selector, each a key and a value. The paths of the errors begin with `path`.
pub fn selector_check<'c>(
    path: &str,
    conditions: impl ExactSizeIterator<Item = (&'c str, &'c str)>,
) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let count = conditions.len();
    let accepted = format!("at most {SELECTOR_CONDITIONS_MAX}");
    fields.require(count <= SELECTOR_CONDITIONS_MAX, path, format!("{count} conditions"), accepted);
    for (at, (key, value)) in conditions.take(SELECTOR_CONDITIONS_MAX).enumerate() {
        fields.key(&format!("{path}[{at}].key"), key);
        // An attribute of a node may be longer than a label.
        fields.line_within(&format!("{path}[{at}].value"), value, ATTRIBUTE_BYTES_MAX);
    }
    fields.done()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_of_a_selector_is_checked() {
        let refused = |conditions: &[(&str, &str)]| {
            let errors = selector_check("selector", conditions.iter().copied()).err().unwrap_or_default();
            errors.iter().map(|error| format!("{}: {}", error.path, error.value)).collect::<Vec<_>>()
        };
        assert!(refused(&[("app", "web"), ("package/web/1.0", ""), ("node.name", "n1")]).is_empty());
        assert_eq!(
            refused(&[("app", "a\nb"), ("", "x"), ("x y", "")]),
            ["selector[0].value: \"a\\nb\"", "selector[1].key: \"\"", "selector[2].key: \"x y\""]
        );
        assert!(refused(&[("app", "web"); SELECTOR_CONDITIONS_MAX]).is_empty());
        let many = vec![("app", "web"); 1_000];
        assert_eq!(refused(&many), ["selector: 1000 conditions"]);
        let long = "x".repeat(100_000);
        assert!(refused(&[(&long, "web")])[0].len() < 200 && refused(&[("app", &long)])[0].len() < 200);
    }
}
