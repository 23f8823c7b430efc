//! How the tasks of a job belong together.

use borough_model::job::{GangSpec, Role, Together};

use super::job::{override_from_message, override_to_message};
use super::{FieldRefused, name_from_text};
use crate::v1;

pub(super) fn together_to_message(together: &Together) -> v1::Together {
    v1::Together {
        attribute: together.attribute.clone(),
        domains_min: together.domains_min,
        domains_max: together.domains_max,
        preferred: together.preferred,
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
    let together = message.together.as_ref().map(|together| Together {
        attribute: together.attribute.clone(),
        domains_min: together.domains_min.max(1),
        domains_max: together.domains_max.max(1),
        preferred: together.preferred,
    });
    let roles = message.roles.iter().enumerate().map(role_from_message).collect::<Result<Vec<_>, _>>()?;
    let some = together.is_some() || !roles.is_empty();
    Ok(some.then_some(GangSpec { together, roles }))
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
