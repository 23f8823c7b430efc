//! Workloads of gangs: those of `scheduler_perf` (podgroup/gangscheduling, podgroup/tas, cpg), and Gödel's mix of
//! services and gangs. No threshold is published for their mean over a run: upstream has measured them since 2026 and
//! sets none.

use borough_model::Name;
use borough_model::job::{GangSpec, GangTopology, JobSpec, Role, TaskOverride};

use super::catalog::{WorkloadName, plain};
use super::workload::{Batch, Workload};

/// How the jobs of a batch form gangs.
#[derive(Clone, Copy, Debug)]
pub(super) struct GangShape {
    /// Tasks of a job.
    pub members: u32,
    /// Per cent of the jobs that are gangs; the others are services of as many tasks.
    pub percent: u32,
    /// Whether all members must be in one rack.
    pub one_rack: bool,
    /// Roles of a job, each with an equal part of the members; 1: no named roles.
    pub roles: u32,
}

impl GangShape {
    /// Makes job `number` a gang, if it must be one.
    pub(super) fn shape(self, number: u32, spec: &mut JobSpec) -> anyhow::Result<()> {
        // 37 and 100 have no common divisor: any hundred jobs in a row contain the wanted number of gangs, evenly
        // mixed.
        if number.wrapping_mul(37) % 100 >= self.percent {
            return Ok(());
        }
        spec.min_member = spec.count;
        let topology =
            GangTopology { attribute: "rack".to_owned(), domains_min: 1, domains_max: 1, preferred: false };
        let topology = self.one_rack.then_some(topology);
        let each = spec.count / self.roles.max(1);
        let roles = (0..self.roles).filter(|_| self.roles > 1).map(|role| {
            let name = Name::new(format!("role-{role}"))?;
            Ok(Role { name, count: each, min_member: each, task: TaskOverride::default() })
        });
        let roles: Vec<Role> = roles.collect::<anyhow::Result<_>>()?;
        if topology.is_some() || !roles.is_empty() {
            spec.gang = Some(GangSpec { topology, roles });
        }
        Ok(())
    }
}

fn gangs(reference: &'static str, gangs: u32, shape: GangShape) -> Workload {
    let measured = Batch { gang: Some(shape), ..Batch::plain("measured", gangs * shape.members) };
    // Racks of a hundred nodes: fifty of them.
    Workload { measured, rack_nodes: 100, ..plain(reference, 5_000, 0, 0) }
}

fn anywhere(members: u32) -> GangShape {
    GangShape { members, percent: 100, one_rack: false, roles: 1 }
}

fn one_rack(members: u32) -> GangShape {
    GangShape { one_rack: true, ..anywhere(members) }
}

fn mixed(percent: u32) -> Workload {
    let shape = GangShape { percent, ..anywhere(10) };
    let measured = Batch { gang: Some(shape), ..Batch::plain("measured", 100_000) };
    Workload { measured, ..plain("Gödel, 10,000 nodes, services and gangs mixed", 10_000, 0, 0) }
}

/// The workload of a name; `None` for those without gangs.
pub(super) fn workload_of_gangs(name: WorkloadName) -> Option<Workload> {
    use WorkloadName as Of;
    let podgroup = "podgroup/gangscheduling";
    let roles = GangShape { roles: 2, ..anywhere(6) };
    Some(match name {
        Of::Gangs1000x3 => gangs(podgroup, 1_000, anywhere(3)),
        Of::Gangs3000x3 => gangs(podgroup, 3_000, anywhere(3)),
        Of::Gangs3x1000 => gangs(podgroup, 3, anywhere(1_000)),
        Of::Gangs9x1000 => gangs(podgroup, 9, anywhere(1_000)),
        Of::Gangs10x5000 => gangs(podgroup, 10, anywhere(5_000)),
        Of::Tas750x4 => gangs("podgroup/tas", 750, one_rack(4)),
        Of::Tas2250x4 => gangs("podgroup/tas", 2_250, one_rack(4)),
        Of::Tas3x1000 => gangs("podgroup/tas", 3, one_rack(1_000)),
        Of::Tas9x1000 => gangs("podgroup/tas", 9, one_rack(1_000)),
        Of::Cpg500x2x3 => gangs("cpg/CPGGang", 500, roles),
        Of::Cpg1500x2x3 => gangs("cpg/CPGGang", 1_500, roles),
        Of::Mixed0 => mixed(0),
        Of::Mixed25 => mixed(25),
        Of::Mixed50 => mixed(50),
        Of::Mixed75 => mixed(75),
        Of::Mixed100 => mixed(100),
        _ => return None,
    })
}
