//! A merged service: the endpoints of several jobs of a user under one name. A selector over labels chooses the jobs,
//! and shares say how much of the traffic some of them get.

mod part;

use std::collections::BTreeMap;
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, FieldErrors};
use crate::id::{MergedServiceId, Name};

pub use part::{MergedMember, PART_WHOLE, TrafficParts, WeightSum};

/// Most characters of the name. The name in DNS has `svc` besides, and the longest name of a port must still fit.
pub const MERGED_NAME_MAX: usize = 60;
/// Most merged services of a user. A job that changes looks at each of them.
pub const MERGED_SERVICES_MAX: usize = 256;
/// Most conditions of the selector of a merged service.
pub const MERGED_CONDITIONS_MAX: usize = 16;
/// Most jobs with a share in a merged service.
pub const SHARES_MAX: usize = 16;
/// The whole traffic, in per cent.
pub const SHARE_WHOLE: u32 = 100;

/// A condition on one label of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
pub struct LabelCondition {
    #[n(0)]
    pub key: String,
    #[n(1)]
    pub value: String,
    #[n(2)]
    pub operator: LabelOperator,
}

/// How a condition compares a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum LabelOperator {
    #[n(0)]
    Is,
    /// The label has another value, or is missing.
    #[n(1)]
    IsNot,
}

impl LabelCondition {
    /// The condition of `key=value` or `key!=value`.
    pub fn from_text(text: &str) -> Option<Self> {
        let (key, value) = text.split_once('=')?;
        let (key, operator) = match key.strip_suffix('!') {
            Some(key) => (key, LabelOperator::IsNot),
            None => (key, LabelOperator::Is),
        };
        Some(Self { key: key.trim().to_owned(), value: value.trim().to_owned(), operator })
    }

    /// Returns true if the labels meet it.
    pub fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let is = labels.get(&self.key) == Some(&self.value);
        is == (self.operator == LabelOperator::Is)
    }
}

/// `key=value` or `key!=value`.
impl fmt::Display for LabelCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.operator == LabelOperator::Is { "=" } else { "!=" };
        write!(f, "{}{operator}{}", self.key, self.value)
    }
}

/// What its owner says of a merged service.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MergedServiceSpec {
    /// The labels of a job of the service: all conditions hold.
    pub selector: Vec<LabelCondition>,
    /// The share of some jobs, in per cent. The others divide what is left.
    pub shares: BTreeMap<Name, u32>,
}

/// The row of a merged service.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct MergedServiceRow {
    /// Of this service only: one that is made again with the name has another.
    #[n(0)]
    pub id: MergedServiceId,
    #[n(1)]
    pub user: Name,
    #[n(2)]
    pub name: Name,
    /// As [`MergedServiceSpec::selector`], sorted and each once.
    #[n(3)]
    pub selector: Vec<LabelCondition>,
    /// As [`MergedServiceSpec::shares`].
    #[n(4)]
    pub shares: BTreeMap<Name, u32>,
    /// Counts the changes of this row.
    #[n(5)]
    pub revision: u64,
    /// Wall time of the last change, milliseconds since 1970.
    #[n(6)]
    pub changed_ms: i64,
    /// Who made it: `user/<name>`.
    #[n(7)]
    pub changed_by: String,
}

impl MergedServiceRow {
    /// Returns true if a job with these labels is one of the service.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.iter().all(|condition| condition.is_met(labels))
    }

    /// The share of a job, in per cent; `None`: it divides what is left with the others.
    pub fn share(&self, job: &Name) -> Option<u32> {
        self.shares.get(job).copied()
    }
}

/// Checks the name of a merged service that is to be made.
pub fn merged_name_check(name: &Name) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let length = name.as_str().len();
    let accepted = format!("1 to {MERGED_NAME_MAX} characters");
    fields.require(length <= MERGED_NAME_MAX, "name", format!("{length} characters"), accepted);
    fields.done()
}

/// Returns the spec in its one form (conditions sorted, each once), or an error for each field that cannot be accepted.
pub fn merged_spec_check(mut spec: MergedServiceSpec) -> Result<MergedServiceSpec, Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    let conditions = spec.selector.len();
    let accepted = format!("1 to {MERGED_CONDITIONS_MAX} conditions, such as app=shop");
    let fine = (1..=MERGED_CONDITIONS_MAX).contains(&conditions);
    fields.require(fine, "selector", format!("{conditions} conditions"), accepted);
    for (at, condition) in spec.selector.iter().take(MERGED_CONDITIONS_MAX).enumerate() {
        fields.key(&format!("selector[{at}].key"), &condition.key);
        fields.line(&format!("selector[{at}].value"), &condition.value);
    }
    let shares = spec.shares.len();
    fields.require(shares <= SHARES_MAX, "shares", format!("{shares} jobs"), format!("at most {SHARES_MAX}"));
    for (job, share) in spec.shares.iter().take(SHARES_MAX) {
        let accepted = format!("0 to {SHARE_WHOLE} per cent");
        fields.require(*share <= SHARE_WHOLE, &format!("shares[{:?}]", job.as_str()), share, accepted);
    }
    let sum: u64 = spec.shares.values().copied().map(u64::from).sum();
    let accepted = format!("at most {SHARE_WHOLE} per cent together");
    fields.require(sum <= u64::from(SHARE_WHOLE), "shares", format!("{sum} per cent"), accepted);
    fields.done()?;
    spec.selector.sort_unstable();
    spec.selector.dedup();
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> LabelCondition {
        LabelCondition::from_text(text).unwrap()
    }

    fn spec(selector: &[&str], shares: &[(&str, u32)]) -> MergedServiceSpec {
        let shares = shares.iter().map(|(job, share)| (Name::new(*job).unwrap(), *share));
        MergedServiceSpec {
            selector: selector.iter().map(|text| condition(text)).collect(),
            shares: shares.collect(),
        }
    }

    #[test]
    fn conditions_compare_the_labels_of_a_job() {
        let labels: BTreeMap<String, String> = [("app", "shop"), ("tier", "front")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for (text, is_met) in
            [("app=shop", true), ("app=web", false), ("app!=web", true), ("zone!=a", true), ("zone=", false)]
        {
            assert_eq!(condition(text).is_met(&labels), is_met, "{text}");
            assert_eq!(condition(text).to_string(), text);
        }
    }

    #[test]
    fn a_spec_has_one_form() {
        let checked = merged_spec_check(spec(&["tier=front", "app=shop", "app=shop"], &[])).unwrap();
        assert_eq!(checked.selector, [condition("app=shop"), condition("tier=front")]);
    }

    #[test]
    fn every_wrong_field_is_named() {
        let refused = |spec: MergedServiceSpec| -> Vec<String> {
            let errors = merged_spec_check(spec).err().unwrap_or_default();
            errors.into_iter().map(|error| format!("{}: {}", error.path, error.value)).collect()
        };
        assert!(refused(spec(&["app=shop"], &[("canary", 5), ("old", 0), ("rest", 95)])).is_empty());
        assert_eq!(refused(spec(&[], &[])), ["selector: 0 conditions"]);
        assert_eq!(refused(spec(&["app=a"; 17], &[])), ["selector: 17 conditions"]);
        assert_eq!(
            refused(spec(&["x y=a\nb"], &[])),
            ["selector[0].key: \"x y\"", "selector[0].value: \"a\\nb\""]
        );
        assert_eq!(refused(spec(&["app=a"], &[("a", 101)])), ["shares[\"a\"]: 101", "shares: 101 per cent"]);
        assert_eq!(refused(spec(&["app=a"], &[("a", 60), ("b", 60)])), ["shares: 120 per cent"]);
        let names: Vec<String> = (0..17).map(|number| format!("j{number}")).collect();
        let many: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(refused(spec(&["app=a"], &many)), ["shares: 17 jobs"]);
        let named = |length: usize| merged_name_check(&Name::new("n".repeat(length)).unwrap());
        assert!(named(60).is_ok() && named(61).is_err());
    }
}
