//! Reads the failure domains over which a job spreads.

use serde_json::{Value, json};

use super::super::described;
use super::super::reader::{FieldReader, FileItem};
use super::super::tree::TreeValue;
use super::{ATTRIBUTE_STAND_IN, any_of, attribute_read, map_of, weight_schema};
use crate::job::{JobSpec, Spread};

/// The weights of attributes without a weight of their own. Earlier ones weigh more.
pub(in crate::job::file) const SPREAD_WEIGHTS: [u32; 6] = [100, 50, 25, 12, 6, 3];

/// `[rack, node.name]`, `{rack: 100}`, or a list with maps such as `{attribute: rack, max_skew: 1, percent_max: 25}`.
pub(crate) fn spread_read(reader: &mut FieldReader, item: &FileItem<'_>, _: &JobSpec) -> Option<Vec<Spread>> {
    if let TreeValue::Map(_) = item.node.value {
        let entries = reader.entries(item, "a map of attributes and weights");
        let spread = entries.into_iter().enumerate().map(|(at, (key, item))| {
            reader.alias(format!("spread[{at}]"), &item.path);
            let weight = reader.whole(&item, "a weight of 1 to 100").unwrap_or(1);
            Spread::preferred(key.text.clone(), weight)
        });
        return Some(spread.collect());
    }
    let items = reader.items(item, "a list of attributes such as [rack, node.name], or a map with weights");
    let weights = SPREAD_WEIGHTS.into_iter().chain(std::iter::repeat(1));
    Some(items.iter().zip(weights).map(|(item, weight)| spread_one(reader, item, weight)).collect())
}

pub(crate) fn spread_schema() -> Value {
    let tasks = json!({"type": "integer", "minimum": 1});
    let form = json!({
        "attribute": described("The attribute of nodes that names the domain.", json!({"type": "string"})),
        "weight": described("How much it counts. Default: 100, 50, 25, 12, 6, 3, then 1", weight_schema()),
        "max_skew": described("So many tasks more than in the domain with the fewest.", tasks.clone()),
        "tasks_max": described("The most tasks in one domain.", tasks),
        "percent_max": described("The most per cent of the job's tasks in one domain.", weight_schema()),
    });
    let one = any_of(&[json!({"type": "string"}), map_of(form, &["attribute"])]);
    let weights = json!({"type": "object", "additionalProperties": weight_schema()});
    any_of(&[json!({"type": "array", "items": one}), weights])
}

fn spread_one(reader: &mut FieldReader, item: &FileItem<'_>, weight: u32) -> Spread {
    let TreeValue::Map(_) = item.node.value else {
        let attribute = reader.text(item).unwrap_or_else(|| ATTRIBUTE_STAND_IN.to_owned());
        return Spread::preferred(attribute, weight);
    };
    let Some(fields) = reader.fields(item, &["attribute", "weight", "max_skew", "tasks_max", "percent_max"])
    else {
        return Spread::preferred(ATTRIBUTE_STAND_IN.to_owned(), weight);
    };
    let mut whole =
        |name: &str, accepted: &str| fields.get(name).and_then(|item| reader.whole(&item, accepted));
    let weight = whole("weight", "a weight of 1 to 100").unwrap_or(weight);
    let max_skew = whole("max_skew", "a whole number of tasks from 1");
    let tasks_max = whole("tasks_max", "a whole number of tasks from 1");
    let percent_max = whole("percent_max", "a whole number of per cent from 1 to 100");
    let attribute = attribute_read(reader, item, &fields);
    Spread { attribute, weight, max_skew, tasks_max, percent_max }
}
