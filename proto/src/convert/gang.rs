//! How the tasks of a job belong together.

use borough_model::job::{GangSpec, GangTopology, Role};

use super::job::{override_from_message, override_to_message};
use super::{FieldRefused, name_from_text};
use crate::v1;

pub(super) fn gang_topology_to_message(topology: &GangTopology) -> v1::GangTopology {
    v1::GangTopology {
        attribute: topology.attribute.clone(),
        domains_min: topology.domains_min,
        domains_max: topology.domains_max,
        preferred: topology.preferred,
    }
}

pub(super) fn role_to_message(role: &Role) -> v1::Role {
    v1::Role {
        name: role.name.to_string(),
        count: role.count,
        min_member: role.min_member,
        task: Some(override_to_message(&role.task)),
    }
}

/// Absent where the message has neither.
pub(super) fn gang_from_message(message: &v1::JobSpec) -> Result<Option<GangSpec>, FieldRefused> {
    let topology = message.gang_topology.as_ref().map(|topology| GangTopology {
        attribute: topology.attribute.clone(),
        domains_min: topology.domains_min.max(1),
        domains_max: topology.domains_max.max(1),
        preferred: topology.preferred,
    });
    let roles = message.roles.iter().enumerate().map(role_from_message).collect::<Result<Vec<_>, _>>()?;
    let some = topology.is_some() || !roles.is_empty();
    Ok(some.then_some(GangSpec { topology, roles }))
}

fn role_from_message((index, message): (usize, &v1::Role)) -> Result<Role, FieldRefused> {
    let task = message.task.as_ref().map(override_from_message).transpose()?;
    Ok(Role {
        name: name_from_text(&format!("roles[{index}].name"), &message.name)?,
        count: message.count,
        min_member: message.min_member,
        task: task.unwrap_or_default(),
    })
}
