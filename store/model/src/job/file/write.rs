//! Writes a spec as the job file that describes it: the fields that differ from their defaults.

use serde_json::{Map, Value, json};

use super::read::{CONDITIONS, MODES, OPERATORS, SPREAD_WEIGHTS, constraint_parse};
use crate::field_error::delay_text;
use crate::job::defaults::{CPU_MILLIS, MEMORY_BYTES};
use crate::job::{
    Affinity, AffinityKind, After, AfterCondition, Constraint, ConstraintOperator, GangTopology, HealthCheck,
    HelperSpec, IDENTITY_TTL_MS, IdentitySpec, JobKind, JobSpec, LogSpec, OnFailure, PortSpec,
    PreemptionSpec, Probe, ResizeMode, ResizeSignal, RestartMode, RestartSpec, Role, SecretForm,
    SecretReference, Spread, TaskOverride, TaskSpec, Toleration, TolerationOperator, UpdateSpec,
};
use crate::node::CardSelector;
use crate::resource::{Dimension, Resources};

/// A map of a job file.
#[derive(Default)]
pub(crate) struct FileMap(Map<String, Value>);

impl FileMap {
    pub(crate) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Leaves out a value that the reader takes by default.
    pub(crate) fn put_unless<T: PartialEq>(
        &mut self,
        name: &str,
        value: &T,
        default: &T,
        written: impl FnOnce(&T) -> Value,
    ) {
        if value != default {
            self.put(name, written(value));
        }
    }

    pub(crate) fn put_some<T>(&mut self, name: &str, value: Option<&T>, written: impl FnOnce(&T) -> Value) {
        if let Some(value) = value {
            self.put(name, written(value));
        }
    }

    pub(crate) fn put_list<T>(&mut self, name: &str, values: &[T], written: impl Fn(&T) -> Value) {
        if !values.is_empty() {
            self.put(name, values.iter().map(written).collect::<Vec<_>>());
        }
    }

    pub(crate) fn done(self) -> Value {
        Value::Object(self.0)
    }
}

impl JobSpec {
    /// The job file of this spec. A spec that only a program could have made may have values that no file has: compare
    /// what [`JobSpec::from_file`] reads from it.
    pub fn to_file(&self) -> Value {
        let default =
            Self::initial(self.user.clone(), self.name.clone(), self.kind, TaskSpec::of(Vec::new()));
        let mut file = FileMap::default();
        file.put("user", self.user.as_str());
        file.put("name", self.name.as_str());
        file.put_some("description", self.description.as_ref(), |text| json!(text));
        file.put_unless("labels", &self.labels, &default.labels, |labels| json!(labels));
        file.put("kind", word(&super::JobKind::NAMES, self.kind));
        file.put_unless("priority", &self.priority, &default.priority, |priority| json!(priority));
        if self.kind != JobKind::Daemon {
            file.put("count", self.count);
        }
        file.put_unless("min_member", &self.min_member, &self.min_member_default(), |least| json!(least));
        file.put_some("gang_topology", self.gang_topology(), topology);
        file.put_list("roles", self.roles(), |one| role(one, self));
        file.put_list("after", &self.after, after);
        file.put_list("constraints", &self.constraints, constraint);
        let spreads = self.spread.iter().zip(SPREAD_WEIGHTS.into_iter().chain(std::iter::repeat(1)));
        file.put_list("spread", &spreads.collect::<Vec<_>>(), |(one, weight)| spread(one, *weight));
        file.put_list("affinity", &self.affinity, affinity);
        file.put_list("tolerations", &self.tolerations, toleration);
        file.put_some("scheduler", self.scheduler.as_ref(), |name| json!(name.as_str()));
        file.put_some("profile", self.profile.as_ref(), |profile| json!(profile));
        file.put_some("queue", self.queue.as_ref(), |queue| json!(queue));
        file.put_some("preemption", self.preemption.as_ref(), preemption);
        file.put_unless("restart", &self.restart, &default.restart, |rule| restart(rule, &default.restart));
        file.put_unless("drain_delay", &self.drain_delay_ms, &default.drain_delay_ms, |ms| delay(*ms));
        file.put_some("lost_after", self.lost_after_ms.as_ref(), |ms| delay(*ms));
        file.put_some("progress_deadline", self.progress_deadline_ms.as_ref(), |ms| delay(*ms));
        file.put_some("update", self.update.as_ref(), update);
        file.put_some("alloc_set", self.alloc_set.as_ref(), |name| json!(name.as_str()));
        file.put("task", if self.kind == JobKind::AllocSet { place(&self.task) } else { task(&self.task) });
        let overrides =
            self.overrides.iter().map(|(index, own)| (index.to_string(), override_of(own, self).done()));
        let overrides: Map<String, Value> = overrides.collect();
        file.put_unless("overrides", &overrides, &Map::new(), |overrides| Value::Object(overrides.clone()));
        file.done()
    }
}

/// The word of a value; each value has one.
fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, known)| *known == value).map_or("", |(word, _)| word)
}

pub(crate) fn delay(ms: u64) -> Value {
    delay_text(ms).into()
}

fn after(after: &After) -> Value {
    match after.condition {
        AfterCondition::Succeeded => json!(after.job.as_str()),
        condition => json!({"job": after.job.as_str(), "condition": word(&CONDITIONS, condition)}),
    }
}

/// The short form, if it can say this constraint.
fn constraint(constraint: &Constraint) -> Value {
    let short = constraint_text(constraint);
    if constraint_parse(&short).as_ref() == Some(constraint) {
        return short.into();
    }
    let mut map = FileMap::default();
    map.put("attribute", constraint.attribute.as_str());
    map.put("operator", word(&OPERATORS, constraint.operator));
    map.put_unless("values", &constraint.values, &Vec::new(), |values| json!(values));
    map.put_some("prefer", constraint.preference.as_ref(), |weight| json!(weight));
    map.done()
}

fn constraint_text(constraint: &Constraint) -> String {
    use ConstraintOperator::{Absent, Exists, GreaterThan, In, LessThan, NotIn};
    let Constraint { attribute, operator, values, preference } = constraint;
    let special = |each: char| each.is_whitespace() || "[],\"=<>!".contains(each);
    let one = |value: &String| {
        if value.is_empty() || value.contains(special) { format!("\"{value}\"") } else { value.clone() }
    };
    let listed = values.iter().map(one).collect::<Vec<_>>().join(", ");
    let rule = match (operator, values.len()) {
        (Exists, _) => "exists".to_owned(),
        (Absent, _) => "absent".to_owned(),
        (GreaterThan, _) => format!("> {listed}"),
        (LessThan, _) => format!("< {listed}"),
        (In, 1) => format!("== {listed}"),
        (NotIn, 1) => format!("!= {listed}"),
        (In, _) => format!("in [{listed}]"),
        (NotIn, _) => format!("not in [{listed}]"),
    };
    let wish = preference.map(|weight| format!(" prefer {weight}")).unwrap_or_default();
    format!("{attribute} {rule}{wish}")
}

fn spread(spread: &Spread, weight: u32) -> Value {
    if *spread == Spread::preferred(spread.attribute.clone(), weight) {
        return spread.attribute.as_str().into();
    }
    let mut map = FileMap::default();
    map.put("attribute", spread.attribute.as_str());
    map.put_unless("weight", &spread.weight, &weight, |weight| json!(weight));
    map.put_some("max_skew", spread.max_skew.as_ref(), |tasks| json!(tasks));
    map.put_some("tasks_max", spread.tasks_max.as_ref(), |tasks| json!(tasks));
    map.put_some("percent_max", spread.percent_max.as_ref(), |percent| json!(percent));
    map.done()
}

fn affinity(affinity: &Affinity) -> Value {
    let kind = match affinity.kind {
        AffinityKind::Near => "near",
        AffinityKind::Apart => "apart",
    };
    let mut map = FileMap::default();
    map.put(kind, affinity.attribute.as_str());
    map.put("jobs", affinity.jobs.iter().map(constraint).collect::<Vec<_>>());
    map.put_some("prefer", affinity.preference.as_ref(), |weight| json!(weight));
    map.done()
}

pub(crate) fn toleration(toleration: &Toleration) -> Value {
    let Toleration { key, operator, value, effect, evict_after_ms } = toleration;
    let exists = *operator == TolerationOperator::Exists;
    if exists && !key.is_empty() && value.is_empty() && effect.is_none() && evict_after_ms.is_none() {
        return key.as_str().into();
    }
    let mut map = FileMap::default();
    if key.is_empty() {
        map.put("operator", "exists");
    } else {
        map.put("taint", key.as_str());
    }
    if !exists {
        map.put("value", value.as_str());
    }
    map.put_some("effect", effect.as_ref(), |effect| json!(effect.name()));
    map.put_some("evict_after", evict_after_ms.as_ref(), |ms| delay(*ms));
    map.done()
}

fn topology(topology: &GangTopology) -> Value {
    let GangTopology { attribute, domains_min, domains_max, preferred } = topology;
    if (*domains_min, *domains_max, *preferred) == (1, 1, false) {
        return attribute.as_str().into();
    }
    let mut map = FileMap::default();
    map.put("attribute", attribute.as_str());
    map.put(if *domains_min == 1 { "at_most" } else { "exactly" }, *domains_max);
    map.put_unless("prefer", preferred, &false, |preferred| json!(preferred));
    map.done()
}

fn role(role: &Role, spec: &JobSpec) -> Value {
    let mut map = FileMap::default();
    map.put("name", role.name.as_str());
    map.put("count", role.count);
    map.put_unless("min_member", &role.min_member, &role.count, |least| json!(least));
    map.0.extend(override_of(&role.task, spec).0);
    map.done()
}

fn override_of(own: &TaskOverride, spec: &JobSpec) -> FileMap {
    let mut map = FileMap::default();
    map.put_some("command", own.command.as_ref(), |command| json!(command));
    map.put_list("arguments", &own.arguments, |argument| json!(argument));
    map.put_unless("environment", &own.environment, &Default::default(), |variables| json!(variables));
    map.put_some("resources", own.resources.as_ref(), |amounts| {
        resources(amounts, &spec.task.resources, |_| None)
    });
    map.put_some("weight", own.weight.as_ref(), |weight| json!(weight));
    map
}

fn update(update: &UpdateSpec) -> Value {
    let mut map = FileMap::default();
    map.put_some("unavailable_max", update.unavailable_max.as_ref(), |tasks| json!(tasks));
    map.put_some("unavailable_percent_max", update.unavailable_percent_max.as_ref(), |share| json!(share));
    let default = UpdateSpec::default();
    map.put_unless("healthy_after", &update.healthy_after_ms, &default.healthy_after_ms, |ms| delay(*ms));
    map.put_unless("failures_max", &update.failures_max, &default.failures_max, |failures| json!(failures));
    let on_failure = |what: &OnFailure| json!(word(&OnFailure::NAMES, *what));
    map.put_unless("on_failure", &update.on_failure, &default.on_failure, on_failure);
    map.put_some("surge_max", update.surge_max.as_ref(), |tasks| json!(tasks));
    map.put_some("surge_percent_max", update.surge_percent_max.as_ref(), |share| json!(share));
    map.put_unless("canaries", &update.canaries, &0, |tasks| json!(tasks));
    map.put_unless("auto_promote", &update.auto_promote, &false, |itself| json!(itself));
    map.put_some("disruptions_max", update.disruptions_max.as_ref(), |tasks| json!(tasks));
    let resize = |mode: &ResizeMode| json!(word(&ResizeMode::NAMES, *mode));
    map.put_unless("resize", &update.resize, &default.resize, resize);
    let signal = |signal: &ResizeSignal| json!(word(&ResizeSignal::NAMES, *signal));
    map.put_some("resize_signal", update.resize_signal.as_ref(), signal);
    map.done()
}

fn preemption(preemption: &PreemptionSpec) -> Value {
    let mut map = FileMap::default();
    map.put_unless("never", &preemption.never, &false, |never| json!(never));
    map.put_some("notice_max", preemption.notice_max_ms.as_ref(), |ms| delay(*ms));
    map.put_some("down_max", preemption.down_max.as_ref(), |tasks| json!(tasks));
    map.done()
}

fn restart(rule: &RestartSpec, default: &RestartSpec) -> Value {
    let mode = word(&MODES, rule.mode);
    if *rule == (RestartSpec { mode: rule.mode, ..*default }) {
        return mode.into();
    }
    let mut map = FileMap::default();
    map.put_unless::<RestartMode>("mode", &rule.mode, &default.mode, |_| mode.into());
    map.put_unless("attempts", &rule.attempts_max, &default.attempts_max, |most| match most {
        Some(most) => json!(most),
        None => json!("unlimited"),
    });
    map.put_unless("backoff", &rule.backoff_initial_ms, &default.backoff_initial_ms, |ms| delay(*ms));
    // The default of the longest pause follows from the first one.
    let pauses = |rule: &RestartSpec| (rule.backoff_initial_ms, rule.backoff_max_ms);
    map.put_unless("backoff_max", &pauses(rule), &pauses(default), |(_, most)| delay(*most));
    map.put_unless("reset_after", &rule.reset_after_ms, &default.reset_after_ms, |ms| delay(*ms));
    map.done()
}

/// An alloc runs nothing itself, so no file names its command.
fn place(task: &TaskSpec) -> Value {
    task_fields(FileMap::default(), task)
}

fn task(task: &TaskSpec) -> Value {
    let mut map = FileMap::default();
    map.put("command", json!(task.command));
    task_fields(map, task)
}

fn task_fields(mut map: FileMap, task: &TaskSpec) -> Value {
    let default = TaskSpec::of(Vec::new());
    map.put_unless("environment", &task.environment, &default.environment, |variables| json!(variables));
    map.put_some("working_directory", task.working_directory.as_ref(), |path| json!(path));
    let needs = |task: &TaskSpec| (task.resources.clone(), task.device_selectors.clone());
    map.put_unless("resources", &needs(task), &needs(&default), |(amounts, selectors)| {
        resources(amounts, &default.resources, |kind| selectors.get(kind))
    });
    map.put_list("ports", &task.ports, port);
    map.put_some("health", task.health.as_ref(), health);
    map.put_unless("grace", &task.grace_ms, &default.grace_ms, |ms| delay(*ms));
    map.put_unless("log", &task.log, &default.log, |log| {
        let LogSpec { file_bytes_max, files_max } = log;
        json!({"file_bytes": amount(&Dimension::Disk, *file_bytes_max), "files": files_max})
    });
    map.put_unless("weight", &task.weight, &default.weight, |weight| json!(weight));
    map.put_some("within", task.within.as_ref(), |within| json!(word(&crate::node::Within::NAMES, *within)));
    map.put_list("packages", &task.packages, |package| json!(package));
    map.put_unless("exclusive_cores", &task.exclusive_cores, &false, |own| json!(own));
    map.put_list("helpers", &task.helpers, helper);
    map.put_list("identities", &task.identities, identity);
    map.put_list("secrets", &task.secrets, secret);
    map.done()
}

fn identity(identity: &IdentitySpec) -> Value {
    let mut map = FileMap::default();
    map.put("name", identity.name.as_str());
    map.put_unless("audience", &identity.audience.as_str(), &identity.name.as_str(), |text| json!(text));
    map.put_unless("ttl", &identity.ttl_ms, &IDENTITY_TTL_MS, |ms| delay(*ms));
    map.done()
}

fn secret(secret: &SecretReference) -> Value {
    let mut map = FileMap::default();
    map.put("name", secret.name.as_str());
    map.put("source", secret.source.as_str());
    map.put_unless("as", &secret.form, &SecretForm::Variable, |form| json!(word(&SecretForm::NAMES, *form)));
    map.done()
}

fn helper(helper: &HelperSpec) -> Value {
    let mut map = FileMap::default();
    map.put("name", helper.name.as_str());
    map.put("when", helper.when.name());
    map.put("command", json!(helper.command));
    map.put_unless("environment", &helper.environment, &Default::default(), |variables| json!(variables));
    map.put_unless("cpu", &helper.cpu_millis, &CPU_MILLIS, |cpu| amount(&Dimension::Cpu, *cpu));
    map.put_unless("memory", &helper.memory_bytes, &MEMORY_BYTES, |bytes| amount(&Dimension::Memory, *bytes));
    map.put_some("deadline", helper.deadline_ms.as_ref(), |ms| delay(*ms));
    map.done()
}

/// Processor time and memory, and the other amounts where they differ from `default`.
fn resources<'s>(
    amounts: &Resources,
    default: &Resources,
    selector: impl Fn(&str) -> Option<&'s CardSelector>,
) -> Value {
    let names = ["cpu", "memory", "disk", "disk_rate", "network_rate"];
    let mut map = FileMap::default();
    for (name, dimension) in names.into_iter().zip(Dimension::FIXED) {
        let (own, taken) = (amounts.amount(&dimension), default.amount(&dimension));
        let always = matches!(dimension, Dimension::Cpu | Dimension::Memory);
        if always || own != taken {
            map.put(name, amount(&dimension, own));
        }
    }
    let devices = amounts.device_millis.iter().map(|(kind, &millis)| {
        let count = amount(&Dimension::Device(kind.clone()), millis);
        let Some(selector) = selector(kind) else { return (kind.clone(), count) };
        let mut device = FileMap::default();
        device.put("count", count);
        device.put_list("model", &selector.models, |model| json!(model));
        device
            .put_unless("memory", &selector.memory_bytes_min, &0, |bytes| amount(&Dimension::Memory, *bytes));
        (kind.clone(), device.done())
    });
    let devices: Map<String, Value> = devices.collect();
    if amounts.device_millis != default.device_millis {
        map.put("devices", Value::Object(devices));
    }
    map.done()
}

/// An amount with its unit; a whole number without one.
fn amount(dimension: &Dimension, amount: u64) -> Value {
    let text = dimension.amount_display(amount);
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

fn port(port: &PortSpec) -> Value {
    match port.number {
        None => port.name.as_str().into(),
        Some(number) => json!({"name": port.name.as_str(), "number": number}),
    }
}

fn health(check: &HealthCheck) -> Value {
    let default = HealthCheck::of(check.probe.clone());
    let mut map = FileMap::default();
    match &check.probe {
        Probe::Http { port, path } if path == "/" => map.put("http", port.as_str()),
        Probe::Http { port, path } => map.put("http", json!({"port": port.as_str(), "path": path})),
        Probe::Tcp { port } => map.put("tcp", port.as_str()),
        Probe::Command { command } => map.put("command", json!(command)),
    }
    map.put_unless("interval", &check.interval_ms, &default.interval_ms, |ms| delay(*ms));
    // The default of the timeout follows from a short interval.
    let times = |check: &HealthCheck| (check.interval_ms, check.timeout_ms);
    map.put_unless("timeout", &times(check), &times(&default), |(_, timeout)| delay(*timeout));
    map.put_unless("failures", &check.failures_max, &default.failures_max, |most| json!(most));
    map.put_unless("initial_grace", &check.initial_grace_ms, &default.initial_grace_ms, |ms| delay(*ms));
    map.done()
}
