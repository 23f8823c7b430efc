//! How the tasks of a job belong together: two fields of the message, one of the model.

use borough_model::job::{GangSpec, GangTopology};

use super::FieldRefused;
use super::wire::{Wire, WirePath};
use crate::v1;

/// The fields of a message that say it.
pub(super) struct GangFields {
    pub(super) gang_topology: Option<v1::GangTopology>,
    pub(super) roles: Vec<v1::Role>,
}

impl GangFields {
    pub(super) fn of(gang: &Option<GangSpec>) -> Self {
        let topology = gang.as_ref().and_then(|gang| gang.topology.as_ref());
        let roles = gang.as_ref().map_or(&[][..], |gang| &gang.roles);
        Self { gang_topology: topology.map(Wire::of), roles: roles.iter().map(Wire::of).collect() }
    }

    /// Absent where the message has neither.
    pub(super) fn read(message: &v1::JobSpec, path: &WirePath<'_>) -> Result<Option<GangSpec>, FieldRefused> {
        let topology: Option<GangTopology> = message.gang_topology.read(&path.field("gang_topology"))?;
        let roles: Vec<_> = message.roles.read(&path.field("roles"))?;
        let some = topology.is_some() || !roles.is_empty();
        Ok(some.then_some(GangSpec { topology, roles }))
    }
}

impl Wire<GangTopology> for v1::GangTopology {
    fn of(topology: &GangTopology) -> Self {
        Self {
            attribute: topology.attribute.clone(),
            domains_min: topology.domains_min,
            domains_max: topology.domains_max,
            preferred: topology.preferred,
        }
    }

    fn read(&self, _: &WirePath<'_>) -> Result<GangTopology, FieldRefused> {
        Ok(GangTopology {
            attribute: self.attribute.clone(),
            domains_min: self.domains_min.max(1),
            domains_max: self.domains_max.max(1),
            preferred: self.preferred,
        })
    }
}
