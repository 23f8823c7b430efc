//! What a node holds for a task with helpers.

use std::collections::BTreeMap;

use borough_model::Resources;
use borough_model::job::{
    HelperPhase, HelperSpec, IDENTITY_TTL_MS, IdentitySpec, JobKind, JobSpec, SecretForm, SecretReference,
    TaskOverride, resources_with_helpers,
};
use borough_model::node::{AGENT_ALLOCS, AGENT_HELPERS, AGENT_IDENTITIES, AGENT_SECRETS};
use borough_model::resource::fits_in;
use proptest::prelude::*;

use crate::sample::{name, spec};

fn helper(at: usize, when: HelperPhase, cpu_millis: u64, memory_bytes: u64) -> HelperSpec {
    HelperSpec {
        name: name(&format!("h{at}")),
        when,
        command: vec!["run".to_owned()],
        environment: BTreeMap::new(),
        cpu_millis,
        memory_bytes,
        deadline_ms: None,
    }
}

fn amounts(cpu_millis: u64, memory_bytes: u64) -> Resources {
    Resources { cpu_millis, memory_bytes, disk_bytes: 7, ..Resources::default() }
}

#[test]
fn those_before_and_after_run_alone_and_those_beside_with_the_command() {
    let main = amounts(100, 10);
    let [before, beside, after] = [HelperPhase::Before, HelperPhase::Beside, HelperPhase::After];
    for (helpers, expected) in [
        (vec![], (100, 10)),
        (vec![helper(0, before, 50, 20)], (100, 20)),
        (vec![helper(0, before, 60, 5), helper(1, before, 60, 5)], (100, 10)),
        (vec![helper(0, beside, 30, 5), helper(1, beside, 20, 5)], (150, 20)),
        (vec![helper(0, beside, 30, 5), helper(1, after, 140, 1), helper(2, before, 90, 99)], (140, 99)),
    ] {
        assert_eq!(resources_with_helpers(&main, &helpers), amounts(expected.0, expected.1));
    }
    let most = resources_with_helpers(&amounts(u64::MAX, 1), &[helper(0, beside, 1, 1)]);
    assert_eq!((most.cpu_millis, most.memory_bytes), (u64::MAX, 2), "it does not wrap");
}

#[test]
fn an_override_replaces_what_the_command_takes_and_keeps_the_helpers() {
    let mut job: JobSpec = spec(JobKind::Service);
    job.task.resources = amounts(100, 10);
    job.task.helpers = vec![helper(0, HelperPhase::Beside, 30, 5), helper(1, HelperPhase::Before, 150, 1)];
    let resources = Some(amounts(500, 1));
    job.overrides.insert(1, TaskOverride { resources, ..TaskOverride::default() });
    assert_eq!(*job.resources_for(0), amounts(150, 15));
    assert_eq!(*job.resources_for(1), amounts(530, 6));
    assert_eq!(job.for_task(1).resources, amounts(500, 1), "the command itself");
}

/// An earlier agent would run the command without them.
#[test]
fn a_job_needs_an_agent_that_knows_its_parts() {
    let needs = |job: &JobSpec| job.constraints_in_force().map(|one| one.attribute).collect::<Vec<String>>();
    let mut job = JobSpec { constraints: Vec::new(), ..spec(JobKind::Service) };
    assert!(needs(&job).is_empty());
    job.task.helpers = vec![helper(0, HelperPhase::Beside, 30, 5)];
    assert_eq!(needs(&job), [AGENT_HELPERS]);
    job.task.helpers.clear();
    job.task.identities =
        vec![IdentitySpec { name: name("vault"), audience: "vault".to_owned(), ttl_ms: IDENTITY_TTL_MS }];
    let (secret, source) = ("S".to_owned(), "s".to_owned());
    job.task.secrets = vec![SecretReference { name: secret, source, form: SecretForm::File }];
    assert_eq!(needs(&job), [AGENT_IDENTITIES, AGENT_SECRETS]);
    let set = JobSpec { constraints: Vec::new(), ..spec(JobKind::AllocSet) };
    assert_eq!(needs(&set), [AGENT_ALLOCS]);
}

fn phases() -> impl Strategy<Value = Vec<(usize, u64, u64)>> {
    prop::collection::vec((0_usize..3, 0_u64..1_000, 0_u64..1_000), 0..8)
}

proptest! {
    /// At no time do the programs that run together need more than is held, and at some time they need all of it.
    #[test]
    fn what_is_held_is_the_most_of_all_times(main in (1_u64..1_000, 1_u64..1_000), all in phases()) {
        let helpers: Vec<HelperSpec> = all
            .iter()
            .enumerate()
            .map(|(at, &(phase, cpu, memory))| helper(at, HelperPhase::NAMES[phase].1, cpu, memory))
            .collect();
        let main = amounts(main.0, main.1);
        let held = resources_with_helpers(&main, &helpers);
        // Each time: those before, alone; the command with those beside; those after, alone.
        let mut times = vec![main.clone()];
        for helper in &helpers {
            match helper.when {
                HelperPhase::Beside => {
                    times[0].cpu_millis += helper.cpu_millis;
                    times[0].memory_bytes += helper.memory_bytes;
                }
                HelperPhase::Before | HelperPhase::After => {
                    times.push(amounts(helper.cpu_millis, helper.memory_bytes));
                }
            }
        }
        prop_assert!(times.iter().all(|time| fits_in(time, &held)));
        for amount in [|of: &Resources| of.cpu_millis, |of: &Resources| of.memory_bytes] {
            prop_assert_eq!(times.iter().map(amount).max(), Some(amount(&held)));
        }
        // More of anything never means less is held.
        let mut more = helpers;
        more.push(helper(9, HelperPhase::Beside, 1, 1));
        prop_assert!(fits_in(&held, &resources_with_helpers(&main, &more)));
    }
}
