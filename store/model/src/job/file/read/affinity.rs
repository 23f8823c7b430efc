//! Reads affinities: other tasks to run near to, or to keep apart from.

use serde_json::{Value, json};

use super::super::described;
use super::super::reader::{FieldReader, FileItem};
use super::constraint::{constraints_decode, requirements_schema};
use super::{ATTRIBUTE_STAND_IN, map_of, weight_schema};
use crate::job::{Affinity, AffinityKind, JobSpec};

const ACCEPTED: &str = "near or apart with an attribute such as rack, jobs, and prefer where it is a wish";

/// A list of maps such as `{apart: node.name, jobs: ["app == cache"]}`.
pub(crate) fn affinities_read(
    reader: &mut FieldReader,
    list: &FileItem<'_>,
    _: &JobSpec,
) -> Option<Vec<Affinity>> {
    let items = reader.items(list, "a list such as [{apart: node.name, jobs: [\"app == cache\"]}]");
    Some(items.iter().map(|item| affinity_one(reader, item)).collect())
}

pub(crate) fn affinity_schema() -> Value {
    let form = json!({
        "near": described("In the same domain of this attribute.", json!({"type": "string"})),
        "apart": described("In other domains of this attribute.", json!({"type": "string"})),
        "jobs": described("Constraints on the labels of the other jobs.", requirements_schema()),
        "prefer": described("Its weight as a wish. Default: it must hold", weight_schema()),
    });
    let mut one = map_of(form, &["jobs"]);
    one["oneOf"] = json!([{"required": ["near"]}, {"required": ["apart"]}]);
    json!({"type": "array", "items": one})
}

fn affinity_one(reader: &mut FieldReader, item: &FileItem<'_>) -> Affinity {
    let stand_in = || Affinity {
        kind: AffinityKind::Near,
        attribute: ATTRIBUTE_STAND_IN.to_owned(),
        jobs: Vec::new(),
        preference: Some(1),
    };
    let Some(fields) = reader.fields(item, &["near", "apart", "jobs", "prefer"]) else { return stand_in() };
    let preference = fields.get("prefer").and_then(|item| reader.whole(&item, "a weight of 1 to 100"));
    let jobs = match fields.get("jobs") {
        Some(jobs) => constraints_decode(reader, &jobs),
        None => {
            reader.missing(item, "jobs", "constraints on the labels of the other jobs, such as [app == web]");
            Vec::new()
        }
    };
    let (kind, attribute) = match (fields.get("near"), fields.get("apart")) {
        (Some(near), None) => (AffinityKind::Near, near),
        (None, Some(apart)) => (AffinityKind::Apart, apart),
        (Some(near), Some(apart)) => {
            reader.refuse(&apart, "near or apart, not both in one");
            (AffinityKind::Near, near)
        }
        (None, None) => {
            reader.missing(item, "near", ACCEPTED);
            return Affinity { jobs, preference, ..stand_in() };
        }
    };
    reader.alias(format!("{}.attribute", item.path), &attribute.path);
    let attribute = reader.text(&attribute).unwrap_or_else(|| ATTRIBUTE_STAND_IN.to_owned());
    Affinity { kind, attribute, jobs, preference }
}
