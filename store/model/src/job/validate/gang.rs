//! Checks gangs: how many tasks must fit together, roles, failure domains.

use std::collections::BTreeSet;

use super::COUNT_MAX;
use super::daemon::COUNT_ACCEPTED;
use super::task::override_check;
use super::update::count_with_surge_check;
use crate::field_error::{FieldError, FieldErrors};
use crate::job::{GangTopology, JobKind, JobSpec, MEMBER_TASKS_MAX};

/// Most roles of a job.
pub const ROLES_MAX: usize = 16;
/// Most failure domains of a gang.
pub const TOGETHER_DOMAINS_MAX: u32 = 64;

/// Checks only a count, for scaling. The rest is that of the spec in force.
pub fn count_check(count: u32, spec: &JobSpec) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    if spec.kind == JobKind::Daemon {
        fields.refuse("count", count, COUNT_ACCEPTED);
        return fields.done();
    }
    if spec.alloc_set.is_some() && count > MEMBER_TASKS_MAX {
        let accepted =
            format!("at most {MEMBER_TASKS_MAX} in a job with `alloc_set`; larger work is several jobs");
        fields.refuse("count", count, accepted);
    }
    if !spec.roles().is_empty() && count != spec.count {
        let accepted = format!("{}, the sum of its roles: a job of several roles keeps its size", spec.count);
        fields.refuse("count", count, accepted);
    }
    count_fields(&mut fields, count, spec.min_member, &[]);
    count_with_surge_check(&mut fields, count, spec);
    fields.done()
}

/// `sources` are the fields from which both numbers follow.
fn count_fields(fields: &mut FieldErrors, count: u32, min_member: u32, sources: &[String]) {
    let accepted = format!("0 to {COUNT_MAX} tasks; larger work is several jobs");
    fields.require(count <= COUNT_MAX, "count", count, accepted);
    let fits = count == 0 || min_member <= count.max(1);
    fields.related(sources).require(
        fits,
        "min_member",
        min_member,
        format!("at most the count, {count}; 0 or 1 is no gang"),
    );
}

pub(in crate::job) fn count_of_spec_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    // The sums of roles follow from the roles, whose own check names the wrong one.
    let least = if spec.roles().is_empty() { spec.min_member } else { 0 };
    count_fields(fields, spec.count, least, &gang_sources(spec));
}

/// The fields from which the count of a job file follows.
pub(super) fn count_sources(spec: &JobSpec) -> Vec<String> {
    let of_roles = (0..spec.roles().len()).map(|at| format!("roles[{at}].count"));
    ["count", "roles"].map(str::to_owned).into_iter().chain(of_roles).collect()
}

/// The fields from which the count and the minimum of a job file follow.
pub(super) fn gang_sources(spec: &JobSpec) -> Vec<String> {
    let of_roles = (0..spec.roles().len()).map(|at| format!("roles[{at}].min_member"));
    let topology = ["gang_topology", "gang_topology.attribute"];
    let own = ["min_member"].into_iter().chain(topology).map(str::to_owned);
    count_sources(spec).into_iter().chain(own).chain(of_roles).collect()
}

pub(in crate::job) fn gang_check(fields: &mut FieldErrors, _: &str, spec: &JobSpec) {
    if let Some(topology) = spec.gang_topology() {
        gang_topology_check(fields, topology, spec);
    }
    if !spec.roles().is_empty() {
        roles_check(fields, spec);
    }
}

fn gang_topology_check(fields: &mut FieldErrors, topology: &GangTopology, spec: &JobSpec) {
    let (min_member, sources) = (spec.min_member, gang_sources(spec));
    fields.key("gang_topology.attribute", &topology.attribute);
    let gang = min_member > 1;
    fields.related(&sources).require(
        gang,
        "gang_topology",
        format!("min_member {min_member}"),
        "min_member of 2 or more: a gang",
    );
    let GangTopology { domains_min, domains_max, .. } = *topology;
    let (path, given) = match domains_min {
        1 => ("gang_topology.at_most", domains_max),
        exactly => ("gang_topology.exactly", exactly),
    };
    let accepted = |most: u32| format!("1 to {most} domains, and not fewer than it has at least");
    let most = TOGETHER_DOMAINS_MAX.min(min_member.max(1));
    let bounded = (1..=TOGETHER_DOMAINS_MAX).contains(&domains_max);
    if !bounded || domains_min == 0 || domains_min > domains_max {
        fields.refuse(path, given, accepted(TOGETHER_DOMAINS_MAX));
    } else {
        fields.related(&sources).require(domains_min <= most, path, given, accepted(most));
    }
}

fn roles_check(fields: &mut FieldErrors, spec: &JobSpec) {
    let roles = spec.roles();
    let given = format!("{} roles", roles.len());
    fields.require(roles.len() <= ROLES_MAX, "roles", given, format!("at most {ROLES_MAX}"));
    let mut names = BTreeSet::new();
    for (at, role) in roles.iter().enumerate() {
        let path = |field: &str| format!("roles[{at}]{field}");
        fields.require(
            names.insert(&role.name),
            &path(".name"),
            format!("{:?}", role.name.as_str()),
            "each name once",
        );
        let accepted = format!("1 to {COUNT_MAX} tasks");
        fields.require((1..=COUNT_MAX).contains(&role.count), &path(".count"), role.count, accepted);
        let accepted = format!("at most the role's count, {}", role.count);
        fields.related(&[path(".count")]).require(
            role.min_member <= role.count,
            &path(".min_member"),
            role.min_member,
            accepted,
        );
        override_check(fields, &path(""), &role.task);
    }
    let sum = |of: fn(&crate::job::Role) -> u32| roles.iter().map(|role| u64::from(of(role))).sum::<u64>();
    let (count, least) = (sum(|role| role.count), sum(|role| role.min_member));
    let accepted = format!("none, or the sum over the roles, {count}");
    let known = u64::from(spec.count) == count;
    fields.related(&count_sources(spec)).require(known, "count", spec.count, accepted);
    let accepted = format!("none, or the sum over the roles, {least}");
    fields.related(&gang_sources(spec)).require(
        u64::from(spec.min_member.max(1)) == least.max(1),
        "min_member",
        spec.min_member,
        accepted,
    );
}
