//! Reads constraints: short texts such as `rack in [r1, r2]`. A preference ends in `prefer 50`.

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{text_schema, words_schema};
use super::super::reader::{FieldReader, FileItem};
use super::super::tree::TreeValue;
use super::{ATTRIBUTE_STAND_IN, any_of, map_of, weight_schema};
use crate::job::{Constraint, ConstraintOperator, JobSpec};

const ACCEPTED: &str = "ATTRIBUTE in [A, B], not in [A, B], == A, != A, > 1, < 1, exists or absent, \
    and at the end `prefer 1` to `prefer 100` where it is a wish";

pub(in crate::job::file) const OPERATORS: [(&str, ConstraintOperator); 6] = [
    ("in", ConstraintOperator::In),
    ("not_in", ConstraintOperator::NotIn),
    ("exists", ConstraintOperator::Exists),
    ("absent", ConstraintOperator::Absent),
    ("greater_than", ConstraintOperator::GreaterThan),
    ("less_than", ConstraintOperator::LessThan),
];

pub(crate) fn constraints_read(
    reader: &mut FieldReader,
    list: &FileItem<'_>,
    _: &JobSpec,
) -> Option<Vec<Constraint>> {
    Some(constraints_decode(reader, list))
}

pub(crate) fn constraints_schema() -> Value {
    let mut form = requirement_properties();
    form["prefer"] = described("Its weight as a wish. Default: it must hold", weight_schema());
    list_schema(form)
}

/// Constraints that must hold, as those of an affinity on other jobs.
pub(super) fn requirements_schema() -> Value {
    list_schema(requirement_properties())
}

fn requirement_properties() -> Value {
    let values = json!({"type": "array", "items": text_schema()});
    json!({
        "attribute": described("The attribute that it compares.", json!({"type": "string"})),
        "operator": described("How it compares.", words_schema(&OPERATORS)),
        "values": described("With what it compares.", values),
    })
}

fn list_schema(form: Value) -> Value {
    let forms = [json!({"type": "string"}), map_of(form, &["attribute", "operator"])];
    json!({"type": "array", "items": any_of(&forms)})
}

pub(super) fn constraints_decode(reader: &mut FieldReader, list: &FileItem<'_>) -> Vec<Constraint> {
    let items = reader.items(list, "a list of constraints such as [\"rack in [r1]\"]");
    items.iter().map(|item| constraint_decode(reader, item).unwrap_or_else(stand_in)).collect()
}

/// A wish, which contradicts nothing.
fn stand_in() -> Constraint {
    let attribute = ATTRIBUTE_STAND_IN.to_owned();
    Constraint { attribute, operator: ConstraintOperator::Exists, values: Vec::new(), preference: Some(1) }
}

fn constraint_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Constraint> {
    if let TreeValue::Map(_) = item.node.value {
        return map_decode(reader, item);
    }
    let text = reader.text(item)?;
    let parsed = constraint_parse(&text);
    if parsed.is_none() {
        reader.refuse(item, ACCEPTED);
    }
    parsed
}

fn map_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Constraint> {
    let fields = reader.fields(item, &["attribute", "operator", "values", "prefer"])?;
    let attribute = fields.get("attribute").and_then(|item| reader.text(&item));
    let operator = fields.get("operator").and_then(|item| reader.word(&item, &OPERATORS));
    let values = fields.get("values").map(|item| reader.texts(&item, "a list of values"));
    let preference = fields.get("prefer").and_then(|item| reader.whole(&item, "a weight of 1 to 100"));
    for name in ["attribute", "operator"] {
        if fields.get(name).is_none() {
            reader.missing(item, name, "attribute, operator, values and, for a wish, prefer");
        }
    }
    let values = values.unwrap_or_default();
    // The operator in place of an unread one takes the values that are given.
    let takes = if values.is_empty() { ConstraintOperator::Exists } else { ConstraintOperator::In };
    let attribute = attribute.unwrap_or_else(|| ATTRIBUTE_STAND_IN.to_owned());
    Some(Constraint { attribute, operator: operator.unwrap_or(takes), values, preference })
}

pub(in crate::job::file) fn constraint_parse(text: &str) -> Option<Constraint> {
    let (rule, preference) = match text.rsplit_once(" prefer ") {
        Some((rule, weight)) => (rule, Some(weight.trim().parse().ok()?)),
        None => (text, None),
    };
    let rule = rule.trim();
    let attribute_end = rule.find(|each: char| each.is_whitespace() || "=!<>[".contains(each))?;
    let (attribute, rest) = rule.split_at(attribute_end);
    let (operator, values) = operation(rest.trim())?;
    let constraint = Constraint { attribute: attribute.to_owned(), operator, values, preference };
    (!attribute.is_empty()).then_some(constraint)
}

fn operation(text: &str) -> Option<(ConstraintOperator, Vec<String>)> {
    use ConstraintOperator::{Absent, Exists, GreaterThan, In, LessThan, NotIn};
    match text {
        "exists" => return Some((Exists, Vec::new())),
        "absent" => return Some((Absent, Vec::new())),
        _ => {}
    }
    for (sign, operator) in [("==", In), ("!=", NotIn), (">", GreaterThan), ("<", LessThan)] {
        if let Some(value) = text.strip_prefix(sign) {
            return Some((operator, vec![one(value)?]));
        }
    }
    let (operator, list) = match text.strip_prefix("not") {
        Some(rest) => (NotIn, rest.trim_start().strip_prefix("in")?),
        None => (In, text.strip_prefix("in")?),
    };
    let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    let values = list.split(',').map(one).collect::<Option<Vec<_>>>()?;
    Some((operator, values))
}

/// One value: a word, or anything in double quotes.
fn one(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('"') {
        let inner = quoted.strip_suffix('"')?;
        return (!inner.contains('"')).then(|| inner.to_owned());
    }
    let special = |each: char| each.is_whitespace() || "[]\"=<>!".contains(each);
    (!text.is_empty() && !text.contains(special)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Case = (&'static str, &'static str, ConstraintOperator, &'static [&'static str], Option<u32>);

    #[test]
    fn every_form_is_read() {
        use ConstraintOperator::{Absent, Exists, GreaterThan, In, LessThan, NotIn};
        let cases: [Case; 10] = [
            ("rack in [r1, r2]", "rack", In, &["r1", "r2"], None),
            ("rack in[r1]", "rack", In, &["r1"], None),
            ("rack not in [r1]", "rack", NotIn, &["r1"], None),
            ("arch == amd64", "arch", In, &["amd64"], None),
            ("zone in [\"a b\", c]", "zone", In, &["a b", "c"], None),
            ("arch != amd64 prefer 50", "arch", NotIn, &["amd64"], Some(50)),
            ("cores > 4", "cores", GreaterThan, &["4"], None),
            ("load<0.5 prefer 1", "load", LessThan, &["0.5"], Some(1)),
            ("ssd exists", "ssd", Exists, &[], None),
            ("example.com/old absent", "example.com/old", Absent, &[], None),
        ];
        for (text, attribute, operator, values, preference) in cases {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            let expected = Constraint { attribute: attribute.to_owned(), operator, values, preference };
            assert_eq!(constraint_parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_constraint_is_refused() {
        let bad = [
            "",
            "rack",
            "rack in",
            "rack in []",
            "rack in [r1",
            "rack in r1",
            "== x",
            "rack = r1",
            "rack == a b",
            "rack in [a] prefer",
            "rack in [a] prefer much",
            "rack near r1",
            "in [a]",
        ];
        for text in bad {
            assert_eq!(constraint_parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _parsed = constraint_parse(&text);
        }
    }
}
