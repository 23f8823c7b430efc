//! Readers of irregular fields: those with short and long forms, and those with defaults that depend on other fields.

mod affinity;
mod constraint;
mod gang;
mod health;
mod helper;
mod identity;
mod job;
mod spread;
mod task;
mod toleration;

pub(crate) use affinity::{affinities_read, affinity_schema};
pub(in crate::job::file) use constraint::{OPERATORS, constraint_parse};
pub(crate) use constraint::{constraints_read, constraints_schema};
pub(crate) use gang::{count_schema, gang_read, gang_topology_schema, members_schema, roles_schema};
pub(crate) use health::{health_read, health_schema};
pub(crate) use helper::{helpers_read, helpers_schema};
pub(crate) use identity::{identities_read, identities_schema, secrets_read, secrets_schema};
pub(in crate::job::file) use job::{CONDITIONS, MODES, kind_read};
pub(crate) use job::{
    after_read, after_schema, attempts_schema, kind_schema, overrides_read, overrides_schema, pause_schema,
    restart_mode_schema, restart_read, restart_schema,
};
pub(in crate::job::file) use spread::SPREAD_WEIGHTS;
pub(crate) use spread::{spread_read, spread_schema};
pub(crate) use task::{COMMAND, ports_read, ports_schema, resources_read, resources_schema, selectors_read};
pub(crate) use toleration::{tolerations_read, tolerations_schema};

use serde_json::{Map, Value, json};

use super::reader::{FieldReader, FileItem, MapFields};
use super::schema::map_schema;

/// An attribute in place of one that could not be read.
const ATTRIBUTE_STAND_IN: &str = "unread";

/// The schema of a map with these fields and no other.
fn map_of(properties: Value, required: &[&str]) -> Value {
    let properties = match properties {
        Value::Object(properties) => properties,
        _ => Map::new(),
    };
    map_schema(properties, required)
}

/// The schema of a value that has several forms.
fn any_of(forms: &[Value]) -> Value {
    json!({"anyOf": forms})
}

/// The schema of a weight of 1 to 100.
fn weight_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 100})
}

/// The attribute of nodes that a map must name.
fn attribute_read(reader: &mut FieldReader, outer: &FileItem<'_>, fields: &MapFields<'_>) -> String {
    let text = match fields.get("attribute") {
        Some(item) => reader.text(&item),
        None => {
            reader.missing(outer, "attribute", "the attribute of nodes that names the domain, such as rack");
            None
        }
    };
    text.unwrap_or_else(|| ATTRIBUTE_STAND_IN.to_owned())
}
