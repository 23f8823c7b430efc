//! Reads the gang of a job: how many tasks must fit together, roles, failure domains.

use serde_json::{Value, json};

use super::super::described;
use super::super::reader::{FieldReader, FileItem, MapFields};
use super::super::tree::TreeValue;
use super::task::{override_decode, override_properties};
use super::{any_of, attribute_read, map_of};
use crate::job::{
    COUNT_MAX, GangSpec, GangTopology, JobSpec, ROLES_MAX, Role, TOGETHER_DOMAINS_MAX, TaskOverride,
};

const MEMBERS: &str = "a whole number of tasks that must fit together, or all";

/// Reads `roles`, `gang_topology` and `min_member`. Their defaults depend on each other and on the count, which is read
/// before.
pub(crate) fn gang_read(reader: &mut FieldReader, fields: &MapFields<'_>, spec: &mut JobSpec) {
    let roles = fields.get("roles").map(|item| roles_decode(reader, &item, spec)).unwrap_or_default();
    let topology = fields.get("gang_topology").and_then(|item| gang_topology_decode(reader, &item));
    if topology.is_some() || !roles.is_empty() {
        spec.gang = Some(GangSpec { topology, roles });
    }
    if !spec.roles().is_empty() && fields.get("count").is_none() {
        spec.count = spec.roles().iter().fold(0, |sum: u32, role| sum.saturating_add(role.count));
    }
    spec.min_member = match fields.get("min_member") {
        None => spec.min_member_default(),
        Some(item) => match members(reader, &item) {
            Some(Members::All) => spec.count.max(1),
            Some(Members::Some(number)) => number,
            None => spec.min_member,
        },
    };
}

pub(crate) fn count_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": COUNT_MAX})
}

pub(crate) fn members_schema() -> Value {
    any_of(&[count_schema(), json!({"const": "all"})])
}

pub(crate) fn roles_schema() -> Value {
    let mut form = override_properties();
    form["name"] = described("The name of the role, as in BOROUGH_ROLE.", json!({"type": "string"}));
    form["count"] = described(
        "How many tasks have it. Default: 1",
        json!({"type": "integer", "minimum": 1, "maximum": COUNT_MAX}),
    );
    form["min_member"] =
        described("So many must fit before any is placed. Default: all of the role", members_schema());
    json!({"type": "array", "maxItems": ROLES_MAX, "items": map_of(form, &["name"])})
}

pub(crate) fn gang_topology_schema() -> Value {
    let domains = json!({"type": "integer", "minimum": 1, "maximum": TOGETHER_DOMAINS_MAX});
    let form = json!({
        "attribute": described("The attribute of nodes that names the domain.", json!({"type": "string"})),
        "at_most": described("The most domains.", domains.clone()),
        "exactly": described("The number of domains.", domains),
        "prefer": described("Whether members may stand elsewhere. Default: false", json!({"type": "boolean"})),
    });
    any_of(&[json!({"type": "string"}), map_of(form, &["attribute"])])
}

enum Members {
    All,
    Some(u32),
}

fn members(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<Members> {
    match &item.node.value {
        TreeValue::Text(text) if text == "all" => Some(Members::All),
        _ => reader.whole(item, MEMBERS).map(Members::Some),
    }
}

/// `[{name: server}, {name: worker, count: 4, min_member: 3, arguments: [--worker]}]`.
fn roles_decode(reader: &mut FieldReader, list: &FileItem<'_>, spec: &JobSpec) -> Vec<Role> {
    let items = reader.items(list, "a list of roles such as [{name: server}, {name: worker, count: 4}]");
    items.iter().map(|item| role_decode(reader, item, spec)).collect()
}

/// All tasks of a role must fit, unless it names a minimum.
fn role_decode(reader: &mut FieldReader, item: &FileItem<'_>, spec: &JobSpec) -> Role {
    let accepted =
        ["name", "count", "min_member", "command", "arguments", "environment", "resources", "weight"];
    let Some(fields) = reader.fields(item, &accepted) else {
        return Role { name: reader.name_stand_in(), count: 1, min_member: 1, task: TaskOverride::default() };
    };
    let count = fields.get("count").and_then(|item| reader.whole(&item, "a whole number of tasks from 1"));
    let count = count.unwrap_or(1);
    let min_member = fields.get("min_member").and_then(|item| members(reader, &item));
    let min_member = match min_member {
        None | Some(Members::All) => count,
        Some(Members::Some(number)) => number,
    };
    let task = override_decode(reader, &fields, &spec.task);
    let name = reader.name_of(item, &fields, "name", "a name such as worker");
    Role { name, count, min_member, task }
}

/// `rack`, or `{attribute: rack, at_most: 2}`, or `{attribute: rack, exactly: 2, prefer: true}`.
fn gang_topology_decode(reader: &mut FieldReader, item: &FileItem<'_>) -> Option<GangTopology> {
    let TreeValue::Map(_) = item.node.value else {
        let attribute = reader.text(item)?;
        return Some(GangTopology { attribute, domains_min: 1, domains_max: 1, preferred: false });
    };
    let fields = reader.fields(item, &["attribute", "at_most", "exactly", "prefer"])?;
    let mut domains = |name: &str| {
        fields.get(name).and_then(|item| reader.whole(&item, "a whole number of domains from 1"))
    };
    let (at_most, exactly) = (domains("at_most"), domains("exactly"));
    let preferred = fields.get("prefer").and_then(|item| reader.truth(&item)).unwrap_or(false);
    let (domains_min, domains_max) = match (at_most, exactly) {
        (_, None) => (1, at_most.unwrap_or(1)),
        (None, Some(exactly)) => (exactly, exactly),
        (Some(_), Some(_)) => {
            reader.refuse_whole(item, "a map; accepted: at_most or exactly, not both");
            (1, 1)
        }
    };
    let attribute = attribute_read(reader, item, &fields);
    Some(GangTopology { attribute, domains_min, domains_max, preferred })
}
