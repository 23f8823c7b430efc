//! Labels on the command line: `tier=db` sets one, `tier-` removes it.

use borough_client::LabelChange;

const ACCEPTED: &str = "accepted: KEY=VALUE to set a label, KEY- to remove it";

/// One label that is set or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelArgument {
    Set(String, String),
    Remove(String),
}

/// Reads one label.
pub(super) fn label(text: &str) -> Result<LabelArgument, String> {
    let read = match text.split_once('=') {
        Some((key, value)) => LabelArgument::Set(key.to_owned(), value.to_owned()),
        None => LabelArgument::Remove(text.strip_suffix('-').ok_or(ACCEPTED)?.to_owned()),
    };
    match &read {
        LabelArgument::Set(key, _) | LabelArgument::Remove(key) if key.is_empty() => Err(ACCEPTED.to_owned()),
        _ => Ok(read),
    }
}

/// The change that the labels of a command line ask for. Of two values of one key the last counts.
pub(crate) fn label_change(labels: Vec<LabelArgument>) -> LabelChange {
    let mut change = LabelChange::default();
    for label in labels {
        match label {
            LabelArgument::Set(key, value) => drop(change.set.insert(key, value)),
            LabelArgument::Remove(key) => change.remove.push(key),
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_and_removed() {
        let set = |key: &str, value: &str| Ok(LabelArgument::Set(key.to_owned(), value.to_owned()));
        assert_eq!(label("tier=db"), set("tier", "db"));
        assert_eq!(label("tier="), set("tier", ""));
        assert_eq!(label("tier=a=b-"), set("tier", "a=b-"));
        assert_eq!(label("tier-"), Ok(LabelArgument::Remove("tier".to_owned())));
        for bad in ["tier", "", "-", "=db"] {
            assert_eq!(label(bad), Err(ACCEPTED.to_owned()), "{bad}");
        }
        let change = label_change(vec![label("a=1").unwrap(), label("b-").unwrap(), label("a=2").unwrap()]);
        assert_eq!(change.set, [("a".to_owned(), "2".to_owned())].into());
        assert_eq!(change.remove, ["b"]);
    }
}
