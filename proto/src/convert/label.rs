//! Changes of labels.

use std::collections::{BTreeMap, BTreeSet};

use super::FieldRefused;

/// The keys that a change of labels removes. One that it also sets is refused.
pub fn labels_removed(
    labels: &BTreeMap<String, String>,
    remove: &[String],
) -> Result<BTreeSet<String>, FieldRefused> {
    if labels.is_empty() && remove.is_empty() {
        return Err(FieldRefused::new("labels", "", "a label to set, or a key in `remove`"));
    }
    let one = |(at, key): (usize, &String)| {
        if labels.contains_key(key) {
            let accepted = "a key that `labels` does not set";
            return Err(FieldRefused::new(format!("remove[{at}]"), key.clone(), accepted));
        }
        Ok(key.clone())
    };
    remove.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_set_or_removed_and_not_both() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let removed = labels_removed(&labels, &["b".to_owned(), "b".to_owned()]).unwrap();
        assert_eq!(removed, BTreeSet::from(["b".to_owned()]));
        assert_eq!(labels_removed(&labels, &["a".to_owned()]).unwrap_err().field, "remove[0]");
        assert_eq!(labels_removed(&BTreeMap::new(), &[]).unwrap_err().field, "labels");
    }
}
