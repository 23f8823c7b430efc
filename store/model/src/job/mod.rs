//! A job. Its owner writes the spec, which changes rarely. The row has its state, which changes often.

mod alloc;
mod daemon;
pub mod defaults;
mod diff;
mod effective;
pub mod file;
mod gang;
mod gone;
mod helper;
mod identity;
mod machine;
mod placement;
mod preemption;
mod resize;
mod rollout;
mod row;
mod secret;
mod select;
mod size;
mod spec;
mod task;
mod toleration;
mod validate;
mod work;

pub use alloc::{
    ALLOC_COMMAND, JobAlloc, MEMBER_TASKS_MAX, MEMBERS_MAX, member_check, member_fits, set_change_check,
    set_stop_refused,
};
pub use daemon::DaemonCounts;
pub use defaults::band;
pub use diff::{
    ChangeClass, FieldChange, SpecChange, change_class, fields_fixed, is_fixed, runs_alike, spec_diff,
    spec_value,
};
pub use gang::{GangSpec, GangTopology, Role};
pub use gone::{GoneVersions, VERSIONS_KEPT_MAX};
pub use helper::{
    AFTER_DEADLINE_MS, BEFORE_DEADLINE_MS, DEADLINES_MS, HELPERS_MAX, HelperPhase, HelperSpec,
    helper_of_failure, resources_with_helpers,
};
pub use identity::{
    AUDIENCE_BYTES_MAX, IDENTITIES_MAX, IDENTITY_TTL_MS, IDENTITY_TTLS_MS, IdentitySpec, identity_file_name,
    identity_variable,
};
pub use machine::{
    AfterDecision, JobEvent, JobRefused, JobTransition, TaskEnd, after_cycle, after_decide, job_new,
    job_transition,
};
pub use placement::{Affinity, AffinityKind, Constraint, ConstraintOperator, Spread};
pub use preemption::{LastEviction, PreemptionSpec, claims_below, victims_below};
pub use resize::{ResizeMode, ResizeSignal};
pub use rollout::{
    CanaryHealth, OnFailure, Rollout, RolloutFailure, RolloutRefused, RolloutState, UpdateSpec,
    stable_versions,
};
pub use row::{JobChanges, JobMoves, JobOutcome, JobRow, JobState, ScaleOrigin, VersionOrigin, WantedSize};
pub use secret::{
    SECRET_PLACE_BYTES_MAX, SECRETS_MAX, SecretForm, SecretReference, secret_file_name, secret_place_is_fine,
};
pub use select::{JobIdentity, LABEL_JOB_NAME, LABEL_JOB_USER, job_selected};
pub use size::CountRefused;
pub use spec::{After, AfterCondition, Band, JobKind, JobSpec, RestartMode, RestartSpec};
pub use task::{HealthCheck, LogSpec, PortSpec, Probe, TaskOverride, TaskSpec};
pub use toleration::{
    Toleration, TolerationOperator, eviction_due_ms, taint_tolerated, tolerations_in_force,
};
pub use validate::variables_of;
pub use validate::{
    COUNT_MAX, Note, ROLES_MAX, SPEC_BYTES_MAX, TOGETHER_DOMAINS_MAX, count_check, priority_check,
};
pub(crate) use validate::{PORTS_MAX, toleration_list_check};
pub use work::{WorkKind, scheduler_by_rules, scheduler_rules_check, spec_with_scheduler};
