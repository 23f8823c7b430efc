//! Reads the taints of nodes that the tasks of a job tolerate.

use serde_json::{Value, json};

use super::super::described;
use super::super::kind::{delay_schema_within, text_schema, words_schema};
use super::super::reader::{FieldReader, FileItem};
use super::super::tree::TreeValue;
use super::{ATTRIBUTE_STAND_IN, any_of, map_of};
use crate::job::validate::EVICT_AFTER_MS_MAX;
use crate::job::{Toleration, TolerationOperator};
use crate::node::TaintEffect;

const ACCEPTED: &str = "a taint's key, or a map with taint, value, operator, effect and evict_after";

/// A list of keys, or of maps such as `{taint: dedicated, value: db, effect: no_schedule}`.
pub(crate) fn tolerations_read<S>(
    reader: &mut FieldReader,
    list: &FileItem<'_>,
    _: &S,
) -> Option<Vec<Toleration>> {
    let items = reader.items(list, "a list such as [dedicated, {taint: dedicated, value: db}]");
    Some(items.iter().map(|item| toleration_one(reader, item)).collect())
}

pub(crate) fn tolerations_schema() -> Value {
    let form = json!({
        "taint": described("The key of the taint. Default: any, with operator exists", json!({"type": "string"})),
        "value": described("The value of the taint. Default: any", text_schema()),
        "operator": described("How it compares the value. Default: equal with a value, else exists", json!({"enum": ["equal", "exists"]})),
        "effect": described("The effect of the taint. Default: any", words_schema(&TaintEffect::NAMES)),
        "evict_after": described("How long a running task stays. Default: for good", delay_schema_within(0, EVICT_AFTER_MS_MAX)),
    });
    let forms = [json!({"type": "string"}), map_of(form, &[])];
    json!({"type": "array", "items": any_of(&forms)})
}

fn toleration_one(reader: &mut FieldReader, item: &FileItem<'_>) -> Toleration {
    let exists = TolerationOperator::Exists;
    let of_key = |key: Option<String>| Toleration {
        key: key.unwrap_or_else(|| ATTRIBUTE_STAND_IN.to_owned()),
        operator: exists,
        value: String::new(),
        effect: None,
        evict_after_ms: None,
    };
    let TreeValue::Map(entries) = &item.node.value else {
        return of_key(reader.text(item));
    };
    let Some(fields) = reader.fields(item, &["taint", "value", "operator", "effect", "evict_after"]) else {
        return of_key(None);
    };
    let operators = [("equal", TolerationOperator::Equal), ("exists", exists)];
    let operator = fields.get("operator").and_then(|item| reader.word(&item, &operators));
    let value = fields.get("value").and_then(|item| reader.text(&item));
    let effect = fields.get("effect").and_then(|item| reader.word(&item, &TaintEffect::NAMES));
    let evict_after_ms = fields.get("evict_after").and_then(|item| reader.duration(&item));
    let key = match fields.get("taint") {
        Some(item) => reader.text(&item),
        // Only an explicit form tolerates every taint.
        None if operator == Some(exists) => Some(String::new()),
        // Kubernetes calls it `key`, which was refused with this name.
        None if entries.iter().any(|(key, _)| key.text == "key") => None,
        None => {
            reader.missing(item, "taint", ACCEPTED);
            None
        }
    };
    let implied = if value.is_some() { TolerationOperator::Equal } else { exists };
    let operator = operator.unwrap_or(implied);
    Toleration { operator, value: value.unwrap_or_default(), effect, evict_after_ms, ..of_key(key) }
}
