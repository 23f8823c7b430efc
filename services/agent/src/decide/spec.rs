//! Computes the spec of a shim from the desired state.

use std::path::{Path, PathBuf};

use borough_model::Name;
use borough_model::job::{AFTER_DEADLINE_MS, BEFORE_DEADLINE_MS};
use borough_proto::v1;
use borough_shim::cgroup::{CgroupLimits, CgroupRoot};
use borough_shim::spec::{HelperCommand, HelperWhen, LogLimits, Pinned, Spec, StopOrder};
use borough_shim::user::TaskUser;

use super::cores::Cores;
use super::environment::{self, Inherited, TaskPlace};
use crate::attempt::AttemptId;
use crate::task_users::TaskUsers;
use crate::topology::list_text;

/// The most processes and threads of one task: far more than a sane one has, far fewer than a machine has numbers for.
const PROCESSES_MAX: u64 = 8192;
/// The variable with the name of a helper.
const HELPER_VARIABLE: &str = "BOROUGH_HELPER";
/// Replaces 0 in a spec.
const LOG_FILE_BYTES: u64 = 10 << 20;
/// Replaces 0 in a spec.
const LOG_FILES: u32 = 5;

/// The settings that all attempts of this node share.
#[derive(Clone, Debug)]
pub(crate) struct NodeContext {
    pub node: String,
    /// The address of its tasks.
    pub host: String,
    pub boot_id: String,
    /// The root of its cgroups.
    pub base: CgroupRoot,
    /// The part of the agent's environment that tasks inherit.
    pub inherited: Inherited,
    pub cores: Cores,
    /// Where processes are recorded for a guard.
    pub record_dir: Option<PathBuf>,
    /// The users that tasks run as.
    pub users: TaskUsers,
    /// Where all agents of the machine record which user each job owner has.
    pub task_dir: PathBuf,
    /// The secrets that it may give to tasks, in a directory per user.
    pub secrets: Option<PathBuf>,
}

/// The cgroup leaf of shims.
pub(crate) const SHIMS_LEAF: &str = "shims";

/// Where an attempt runs on its node, and as which user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedTask<'a> {
    /// Its cores; empty: any.
    pub cpus: &'a [u32],
    pub work: &'a Path,
    /// The own directory of its alloc, if it is in one.
    pub alloc_work: Option<&'a Path>,
    /// Its user; absent: the agent's.
    pub user: Option<TaskUser>,
}

/// Computes the shim's spec of an attempt.
///
/// # Errors
/// Why it cannot be started, for people.
pub(crate) fn shim_spec(
    id: &AttemptId,
    assignment: &v1::Assignment,
    context: &NodeContext,
    placed: PlacedTask<'_>,
) -> Result<Spec, String> {
    let PlacedTask { cpus, work, alloc_work, user } = placed;
    let spec = assignment.spec.as_ref().ok_or("the assignment has no spec")?;
    let directory = work.to_str().ok_or("the state directory is not UTF-8")?;
    let alloc_directory = alloc_work.and_then(Path::to_str);
    let place = TaskPlace { node: &context.node, host: &context.host, directory, alloc_directory };
    let mut inherited = context.inherited.clone();
    if user.is_some() {
        inherited.home = None;
    }
    let environment = environment::environment(assignment, place, &inherited)?;
    let command = environment::command(&spec.command, &environment)?;
    if command.first().is_none_or(String::is_empty) {
        return Err("the command is empty".to_owned());
    }
    let resources = spec.resources.clone().unwrap_or_default();
    let limits = CgroupLimits {
        cpu_millis: context.cores.own_millis(resources.cpu_millis),
        memory_bytes: resources.memory_bytes,
        processes_max: PROCESSES_MAX,
        cpus: list_text(cpus),
        memory_domains: list_text(&assignment.memory_domains),
    };
    let helpers = spec.helpers.iter().map(|helper| helper_command(helper, assignment, place, &inherited));
    let helpers = helpers.collect::<Result<Vec<_>, String>>()?;
    let log = spec.log.unwrap_or_default();
    let or = |value: u64, instead: u64| if value == 0 { instead } else { value };
    Ok(Spec {
        attempt: id.to_string(),
        boot_id: context.boot_id.clone(),
        command,
        environment,
        // A relative directory is below the task's own.
        working_directory: work.join(spec.working_directory.as_deref().unwrap_or_default()),
        log: LogLimits {
            file_bytes_max: or(log.file_bytes_max, LOG_FILE_BYTES),
            files_max: if log.files_max == 0 { LOG_FILES } else { log.files_max },
        },
        stop: StopOrder { drain_delay_ms: assignment.drain_delay_ms, grace_ms: spec.grace_ms },
        cgroup: context.base.leaf(&id.to_string(), limits),
        shim_cgroup: context.base.leaf(SHIMS_LEAF, CgroupLimits::default()),
        pinned: Pinned { cpus: cpus.to_vec() },
        user,
        record_dir: context.record_dir.clone(),
        helpers,
    })
}

/// A helper of the attempt, as its shim needs it.
fn helper_command(
    helper: &v1::HelperSpec,
    assignment: &v1::Assignment,
    place: TaskPlace<'_>,
    inherited: &Inherited,
) -> Result<HelperCommand, String> {
    let named = |problem: String| format!("helper {:?}: {problem}", helper.name);
    // Its name is that of a directory.
    let name = Name::new(helper.name.as_str()).map_err(|error| named(format!("its name {error}")))?;
    let mut own = assignment.clone();
    own.spec.get_or_insert_default().environment.extend(helper.environment.clone());
    let mut environment = environment::environment(&own, place, inherited).map_err(named)?;
    environment.insert(HELPER_VARIABLE.to_owned(), name.to_string());
    let command = environment::command(&helper.command, &environment).map_err(named)?;
    if command.first().is_none_or(String::is_empty) {
        return Err(named("the command is empty".to_owned()));
    }
    let (when, default_ms) = match helper.when() {
        v1::HelperPhase::Before => (HelperWhen::Before, Some(BEFORE_DEADLINE_MS)),
        v1::HelperPhase::After => (HelperWhen::After, Some(AFTER_DEADLINE_MS)),
        v1::HelperPhase::Beside => (HelperWhen::Beside, None),
        v1::HelperPhase::Unspecified => {
            return Err(named("this agent does not know when it runs".to_owned()));
        }
    };
    let deadline_ms = default_ms.map(|default_ms| helper.deadline_ms.unwrap_or(default_ms));
    Ok(HelperCommand { name: name.to_string(), when, command, environment, deadline_ms })
}
