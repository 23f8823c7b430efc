//! Decides whether a spec can be admitted. The errors name every invalid field at once, with its value and what would
//! be accepted, so that nobody repairs a job file one error at a time.

mod alloc;
mod contradiction;
mod daemon;
mod gang;
mod helper;
mod identity;
mod placement;
mod task;
mod update;
mod variable;

use std::fmt;

use super::file::FileMessage as _;
use super::file::kind::{FieldKind, Priority};
use super::{JobKind, JobSpec, RestartMode};
use crate::field_error::{DELAY_MS_MAX, FieldError, FieldErrors, delay_text};
use crate::id::Name;
use crate::queue::LEVELS_MAX;
use crate::resource::resources_multiply;
use crate::unread::UnreadFields;
use alloc::{alloc_member_check, alloc_set_check};
pub(super) use daemon::COUNT_ACCEPTED as DAEMON_COUNT_ACCEPTED;
use daemon::daemon_check;
use gang::count_sources;
pub use gang::{ROLES_MAX, TOGETHER_DOMAINS_MAX, count_check};
pub(super) use gang::{count_of_spec_check, gang_check};
pub(super) use helper::helpers_check;
pub(super) use identity::{identities_check, secrets_check};
pub(super) use placement::EVICT_AFTER_MS_MAX;
pub(crate) use placement::toleration_list_check;
pub(super) use placement::{
    affinities_check, after_check, constraints_check, spread_check, tolerations_check,
};
pub(crate) use task::PORTS_MAX;
pub(super) use task::{
    command_of_task_check, cores_of_task_check, directory_check, environment_of_task_check, health_check,
    overrides_check, packages_check, ports_check, resources_of_task_check, selectors_check,
};
pub(super) use update::update_check;
use variable::variables_check;
pub use variable::variables_of;
pub(in crate::job) use variable::{variable_part, variables_named};

/// Most tasks of a job. Programs list, stop and count the rows of a job together, which takes ten transactions of ten
/// thousand rows. Larger work is several jobs.
pub const COUNT_MAX: u32 = 100_000;
/// Most bytes of a stored spec. One value of the store holds 100 kB, so later fields have room.
pub const SPEC_BYTES_MAX: usize = 90_000;
/// Most jobs that a job waits for.
pub(super) const AFTER_MAX: usize = 32;
/// Most bytes of a scoring profile with its weights.
pub(super) const PROFILE_BYTES_MAX: usize = 200;
/// Most labels.
pub(super) const LABELS_MAX: usize = 64;

/// `1 task`, `2 tasks`.
fn tally(number: impl TryInto<u64>, one: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    }
}

/// A remark about an accepted field that may surprise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The path of the field.
    pub path: String,
    /// What follows from it.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl JobSpec {
    /// Checks everything that the spec alone decides. Admission also checks quota and settings of the cell.
    pub fn validate(&self) -> Result<(), Vec<FieldError>> {
        self.validate_beside(&UnreadFields::default())
    }

    /// Checks a spec with stand-ins in place of what could not be read. No error follows from a stand-in of another
    /// field; the caller drops those of the unread fields.
    pub(super) fn validate_beside(&self, unread: &UnreadFields) -> Result<(), Vec<FieldError>> {
        let mut fields = FieldErrors::beside(unread);
        self.fields_check(&mut fields, "");
        daemon_check(&mut fields, self);
        alloc_set_check(&mut fields, self);
        alloc_member_check(&mut fields, self);
        variables_check(&mut fields, self);
        size_check(&mut fields, self);
        fields.done()
    }

    /// Remarks about accepted fields that may surprise.
    pub fn notes(&self) -> Vec<Note> {
        if self.kind == JobKind::Daemon {
            return Vec::new();
        }
        let fixed = self.task.ports.iter().enumerate().filter(|(_, port)| port.number.is_some());
        let note = |(at, _)| Note {
            path: format!("task.ports[{at}].number"),
            message: format!(
                "a fixed port: at most one of the {} tasks fits on a node, and none while it cools down",
                self.count
            ),
        };
        if self.count > 1 { fixed.map(note).collect() } else { Vec::new() }
    }
}

/// Checks only a priority, for a change of it.
pub fn priority_check(priority: u32) -> Result<(), Vec<FieldError>> {
    let mut fields = FieldErrors::default();
    FieldKind::<u32>::check(&Priority, &mut fields, "priority", &priority);
    fields.done()
}

pub(super) fn restart_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    let restart = &spec.restart;
    if restart.mode == RestartMode::Never {
        return;
    }
    let longest = format!("{path}.backoff_max_ms");
    fields.delay(&format!("{path}.backoff_initial_ms"), restart.backoff_initial_ms, 10);
    fields.delay(&longest, restart.backoff_max_ms, 10);
    // A first pause that is too long says enough by itself.
    let is_too_long = restart.backoff_initial_ms > DELAY_MS_MAX;
    fields.related(&["restart.backoff"]).require(
        is_too_long || restart.backoff_initial_ms <= restart.backoff_max_ms,
        &longest,
        restart.backoff_max_ms,
        format!("at least backoff, {}", delay_text(restart.backoff_initial_ms)),
    );
}

/// A queue is a path of names. The settings of the cell define which queues exist.
pub(super) fn queue_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    let Some(queue) = &spec.queue else { return };
    let names: Vec<&str> = queue.split('/').collect();
    let fine = names.len() <= LEVELS_MAX && names.iter().all(|name| Name::new(*name).is_ok());
    let accepted = format!("the path of a queue: names with slashes between, {LEVELS_MAX} at most");
    fields.require(fine, path, format!("{queue:?}"), accepted);
}

/// A profile is a name, perhaps with weights. The scheduler knows which profiles exist.
pub(super) fn profile_check(fields: &mut FieldErrors, path: &str, spec: &JobSpec) {
    let Some(profile) = &spec.profile else { return };
    let fine =
        !profile.is_empty() && profile.len() <= PROFILE_BYTES_MAX && !profile.contains(char::is_control);
    let accepted =
        format!("the name of a scoring profile, perhaps with weights, in {PROFILE_BYTES_MAX} bytes at most");
    fields.require(fine, path, format!("{profile:?}"), accepted);
}

fn size_check(fields: &mut FieldErrors, spec: &JobSpec) {
    match minicbor::to_vec(spec) {
        Ok(bytes) => fields.require(
            bytes.len() <= SPEC_BYTES_MAX,
            "(the whole spec)",
            format!("{} bytes", bytes.len()),
            format!("at most {SPEC_BYTES_MAX} bytes as stored; give large data to tasks as files"),
        ),
        Err(error) => fields.refuse("(the whole spec)", error, "what can be stored"),
    }
    let tasks = spec.count.min(COUNT_MAX);
    let asked = spec.roles().iter().filter_map(|role| role.task.resources.as_ref());
    for resources in asked.chain([&spec.task.resources]) {
        if let Err(error) = resources_multiply(&spec.with_helpers(resources), tasks) {
            fields.related(&count_sources(spec)).refuse(
                "task.resources",
                error,
                "amounts whose sum over all tasks can be counted",
            );
        }
    }
}
