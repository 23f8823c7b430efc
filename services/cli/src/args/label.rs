//! Labels on the command line: `tier=db` sets one, `tier-` removes it.

use borough_client::LabelChange;
use borough_model::FieldError;
use borough_model::node::label_check;

use super::JobTarget;
use super::list::LabelConditions;
use super::target::TargetError;

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
        LabelArgument::Set(_, value) if several(value) => {
            Err(format!("has more than one label; accepted: each by itself, such as {}", apart(text)))
        }
        LabelArgument::Set(key, value) => parts_check(key, value).map(|()| read),
        LabelArgument::Remove(key) => parts_check(key, "").map(|()| read),
    }
}

/// Most bytes of labels that a message shows as they would be right.
const APART_BYTES_MAX: usize = 100;

/// The labels with spaces between, or a short example instead of very many.
fn apart(text: &str) -> String {
    if text.len() <= APART_BYTES_MAX { text.replace(',', " ") } else { "tier=db team=web".to_owned() }
}

/// The first word of a verb that labels or taints: the name of what it changes, or with `--label` the first change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOrChange<N, C> {
    Name(N),
    Change(C),
}

impl<N, C> NameOrChange<N, C> {
    /// The one that is named, and all changes. Without a name, the selector chooses.
    ///
    /// # Errors
    /// The words do not go together: what is wrong, as a usage error says it.
    pub(crate) fn apart(
        first: Option<Self>,
        rest: Vec<C>,
        selector: &[LabelConditions],
        noun: &str,
    ) -> Result<(Option<N>, Vec<C>), String> {
        let change = match first {
            Some(Self::Name(_)) if !selector.is_empty() => {
                return Err(format!("--label and {noun} exclude each other; give one of them"));
            }
            Some(Self::Name(name)) => return Ok((Some(name), rest)),
            Some(Self::Change(change)) => Some(change),
            None => None,
        };
        if selector.is_empty() {
            return Err(format!("{noun} is missing; give {noun} before the changes, or --label"));
        }
        let change = change.ok_or("nothing is changed; give what to set or to remove")?;
        Ok((None, std::iter::once(change).chain(rest).collect()))
    }
}

/// The first word of `job label`.
pub(super) fn job_or_label(text: &str) -> Result<NameOrChange<JobTarget, LabelArgument>, TargetError> {
    if is_label(text) {
        return Ok(NameOrChange::Change(label(text)?));
    }
    text.parse().map(NameOrChange::Name)
}

/// The first word of `node label`.
pub(super) fn node_or_label(text: &str) -> Result<NameOrChange<String, LabelArgument>, String> {
    if is_label(text) {
        label(text).map(NameOrChange::Change)
    } else {
        Ok(NameOrChange::Name(text.to_owned()))
    }
}

/// No name has an equals sign, or ends with a dash.
fn is_label(text: &str) -> bool {
    text.contains('=') || (text.len() > 1 && text.ends_with('-'))
}

/// Returns true if a further label stands behind a comma of the value, as in a selector.
fn several(value: &str) -> bool {
    let is_key = |key: &str| !key.is_empty() && label_check(key, "").is_ok();
    let is_label = |part: &str| {
        part.split_once('=').map(|(key, _)| key).or_else(|| part.strip_suffix('-')).is_some_and(is_key)
    };
    value.split(',').skip(1).any(is_label)
}

/// Checks the key and the value of a label or a taint, so that a refusal has what the user has typed.
pub(super) fn parts_check(key: &str, value: &str) -> Result<(), String> {
    label_check(key, value).map_err(|FieldError { path, value, accepted }| {
        let part = if path == "key" { "key" } else { "value" };
        format!("has the {part} {value}; accepted: {accepted}")
    })
}

/// The change that the labels of a command line ask for. The error says which key stands twice.
pub(crate) fn label_change(labels: Vec<LabelArgument>) -> Result<LabelChange, String> {
    let mut change = LabelChange::default();
    for label in labels {
        let (LabelArgument::Set(key, _) | LabelArgument::Remove(key)) = &label;
        if change.set.contains_key(key) || change.remove.contains(key) {
            return Err(format!("the label {key:?} stands twice; accepted: each label once"));
        }
        match label {
            LabelArgument::Set(key, value) => drop(change.set.insert(key, value)),
            LabelArgument::Remove(key) => change.remove.push(key),
        }
    }
    Ok(change)
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
        for (bad, problem) in [
            ("a=b,c=d", "has more than one label; accepted: each by itself, such as a=b c=d"),
            ("a=b,c-", "has more than one label; accepted: each by itself, such as a=b c-"),
            ("x y=1", "has the key \"x y\"; accepted: 1 to 128 of "),
            ("x y-", "has the key \"x y\"; accepted: 1 to 128 of "),
            ("a=b\nc", "has the value \"b\\nc\"; accepted: at most 256 bytes on one line"),
        ] {
            let refused = label(bad).unwrap_err();
            assert!(refused.starts_with(problem), "{bad}: {refused}");
        }
        let long = label(&"k=v,".repeat(10_000)).unwrap_err();
        assert!(long.ends_with("such as tier=db team=web"), "{}", long.len());
        for fine in ["a=b,c", "a=b=c", "a=1,2,3", "a="] {
            assert!(label(fine).is_ok(), "{fine}");
        }
        let change_of =
            |labels: &[&str]| label_change(labels.iter().map(|text| label(text).unwrap()).collect());
        let change = change_of(&["a=1", "b-"]).unwrap();
        assert_eq!(change.set, [("a".to_owned(), "1".to_owned())].into());
        for twice in [["a=1", "a=2"], ["a=1", "a-"], ["a-", "a-"]] {
            assert_eq!(
                change_of(&twice).unwrap_err(),
                "the label \"a\" stands twice; accepted: each label once"
            );
        }
        assert_eq!(change.remove, ["b"]);
    }
}
