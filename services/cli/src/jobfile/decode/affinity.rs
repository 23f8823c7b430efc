//! Near which other tasks a job's tasks run, and from which they keep apart.

use borough_model::job::{Affinity, AffinityKind};

use super::super::reader::{FieldReader, FileItem};
use super::constraint::constraints_decode;

const ACCEPTED: &str = "near or apart with an attribute such as rack, jobs, and prefer where it is a wish";

/// A list of maps such as `{apart: node.name, jobs: ["app == cache"]}`.
pub(super) fn affinity_decode(reader: &mut FieldReader, list: &FileItem<'_>) -> Vec<Affinity> {
    let items = reader.items(list, "a list such as [{apart: node.name, jobs: [\"app == cache\"]}]");
    items.iter().filter_map(|item| affinity_one(reader, item)).collect()
}

fn affinity_one(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Affinity> {
    let fields = reader.fields(item, &["near", "apart", "jobs", "prefer"])?;
    let preference = fields.get("prefer").and_then(|item| reader.whole(&item, "a weight of 1 to 100"));
    let jobs = fields.get("jobs").map(|item| constraints_decode(reader, &item)).unwrap_or_default();
    let (kind, attribute) = match (fields.get("near"), fields.get("apart")) {
        (Some(near), None) => (AffinityKind::Near, near),
        (None, Some(apart)) => (AffinityKind::Apart, apart),
        (Some(_), Some(apart)) => {
            reader.refuse(&apart, "near or apart, not both in one");
            return None;
        }
        (None, None) => {
            reader.missing(item, "near", ACCEPTED);
            return None;
        }
    };
    Some(Affinity { kind, attribute: reader.text(&attribute)?, jobs, preference })
}
