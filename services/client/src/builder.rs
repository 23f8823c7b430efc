//! Builds the spec of a job, with the defaults and checks of a job file.

use borough_model::job::file::{Problem, TreeNode};

use borough_model::{JobSpec, Name};
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1;
use serde_json::{Map, Value, json};

use crate::in_task::ready_command;

/// Collects the fields of a job file. What is left out has the default of a job file.
///
/// [`JobBuilder::field`] sets any field that has no method of its own, by its path in a job file.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    file: Map<String, Value>,
}

/// The fields that a spec cannot have. Correct them all; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("; "))]
pub struct JobSpecRefused {
    /// For each: the field, its value, and what is accepted.
    pub problems: Vec<String>,
}

impl JobBuilder {
    /// A job whose tasks run until it is stopped.
    pub fn service(name: impl Into<String>) -> Self {
        Self::of("service", name.into())
    }

    /// A job whose tasks run until they are done.
    pub fn batch(name: impl Into<String>) -> Self {
        Self::of("batch", name.into())
    }

    fn of(kind: &str, name: String) -> Self {
        let file = Map::from_iter([("kind".to_owned(), json!(kind)), ("name".to_owned(), json!(name))]);
        Self { file }
    }

    /// The program of a task and its arguments.
    #[must_use]
    pub fn command<T: Into<String>>(self, words: impl IntoIterator<Item = T>) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        self.field("task.command", json!(words))
    }

    /// How many tasks it has; one unless set.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        self.field("count", json!(count))
    }

    /// Its priority, 0 to 399.
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        self.field("priority", json!(priority))
    }

    /// The processor time that each task requests, in thousandths of a core.
    #[must_use]
    pub fn cpu_millis(self, millis: u64) -> Self {
        self.field("task.resources.cpu", json!(format!("{millis}m")))
    }

    /// The memory that each task requests and is limited to.
    #[must_use]
    pub fn memory_bytes(self, bytes: u64) -> Self {
        self.field("task.resources.memory", json!(bytes))
    }

    /// Adds a port whose number the scheduler chooses. The task finds it in `PORT_<NAME>`.
    #[must_use]
    pub fn port(mut self, name: impl Into<String>) -> Self {
        let port = json!(name.into());
        match self.slot("task.ports") {
            Value::Array(ports) => ports.push(port),
            slot => *slot = json!([port]),
        }
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(self, key: &str, value: impl Into<String>) -> Self {
        self.entry("labels", key, value.into())
    }

    /// Sets a variable of the environment of each task.
    #[must_use]
    pub fn environment(self, key: &str, value: impl Into<String>) -> Self {
        self.entry("task.environment", key, value.into())
    }

    /// A task is healthy if a GET of `path` on the port of this name answers with 200 to 399.
    #[must_use]
    pub fn health_http(self, port: impl Into<String>, path: impl Into<String>) -> Self {
        self.field("task.health", json!({"http": {"port": port.into(), "path": path.into()}}))
    }

    /// A task is healthy if the port of this name takes a connection.
    #[must_use]
    pub fn health_tcp(self, port: impl Into<String>) -> Self {
        self.field("task.health", json!({"tcp": {"port": port.into()}}))
    }

    /// A task is healthy if the command ends with 0.
    #[must_use]
    pub fn health_command<T: Into<String>>(self, words: impl IntoIterator<Item = T>) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        self.field("task.health", json!({"command": words}))
    }

    /// A task is healthy once its program says so with [`crate::InTask::ready`].
    #[must_use]
    pub fn health_ready(self) -> Self {
        self.health_command(ready_command())
    }

    /// How often a task of a batch job is tried.
    #[must_use]
    pub fn attempts_max(self, attempts: u32) -> Self {
        self.field("restart.attempts", json!(attempts))
    }

    /// Sets a field of a job file by its path, such as `update.unavailable`. The parts of a path are separated by dots.
    #[must_use]
    pub fn field(mut self, path: &str, value: Value) -> Self {
        *self.slot(path) = value;
        self
    }

    /// The checked spec, as a job of `user`.
    ///
    /// # Errors
    /// Every field that is refused.
    pub fn build(&self, user: &str) -> Result<v1::JobSpec, JobSpecRefused> {
        let refused = |problems| JobSpecRefused { problems };
        let caller = Name::new(user).map_err(|error| refused(vec![format!("user: {error}")]))?;
        let tree = TreeNode::from(&Value::Object(self.file.clone()));
        match JobSpec::from_file(&tree, &caller) {
            Ok((spec, _)) => Ok(job_spec_to_message(&spec)),
            Err(problems) => {
                Err(refused(problems.into_iter().map(|Problem { message, .. }| message).collect()))
            }
        }
    }

    fn entry(mut self, path: &str, key: &str, value: String) -> Self {
        // A key may contain dots, so it is no part of the path.
        let slot = self.slot(path);
        if !slot.is_object() {
            *slot = json!({});
        }
        slot[key] = Value::String(value);
        self
    }

    /// The place of a field. A value on the way that is no map is replaced by one.
    fn slot(&mut self, path: &str) -> &mut Value {
        let mut parts = path.split('.');
        let first = parts.next().unwrap_or_default();
        let mut slot = self.file.entry(first).or_insert(Value::Null);
        for part in parts {
            if !slot.is_object() {
                *slot = json!({});
            }
            slot = &mut slot[part];
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_defaults_of_a_job_file() {
        let web = JobBuilder::service("web").command(["serve", "--fast"]).count(3).port("http").port("admin");
        let web = web.label("app.kubernetes.io/name", "shop").environment("A", "b").health_tcp("http");
        let spec = web.cpu_millis(250).memory_bytes(64 << 20).build("ann").unwrap();
        let task = spec.task.unwrap();
        assert_eq!((spec.name.as_str(), spec.user.as_str(), spec.count), ("web", "ann", 3));
        assert_eq!((task.grace_ms, spec.priority), (5_000, 200), "as a job file leaves them out");
        assert_eq!(task.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>(), ["http", "admin"]);
        assert_eq!(spec.labels["app.kubernetes.io/name"], "shop");
        assert_eq!(task.resources.unwrap().cpu_millis, 250);
    }

    #[test]
    fn every_refused_field_is_named() {
        let bad = JobBuilder::batch("No Name").command(Vec::<String>::new()).field("task.grace", json!("5"));
        let refused = bad.field("colour", json!("red")).build("ann").unwrap_err();
        let named = |field: &str| refused.problems.iter().any(|problem| problem.contains(field));
        assert!(["name", "task.command", "task.grace", "colour"].into_iter().all(named), "{refused}");
        assert!(JobBuilder::service("web").command(["run"]).build("Not A User").is_err());
    }
}
