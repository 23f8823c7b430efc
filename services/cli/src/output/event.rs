//! Events and the changes of a watch.

use borough_proto::v1::{self, watch_response};
use serde::Serialize;
use serde_json::Value;

use super::table::Tabular;
use super::text::{time, word};
use super::{EndpointView, Foreign, JobView, NodeOutput, TaskOutput};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventView {
    pub(crate) at_ms: i64,
    pub(crate) actor: Foreign,
    pub(crate) action: Foreign,
    pub(crate) subject: Foreign,
    pub(crate) text: Foreign,
}

impl From<v1::Event> for EventView {
    fn from(event: v1::Event) -> Self {
        Self {
            at_ms: event.at_ms,
            actor: event.actor.into(),
            action: event.action.into(),
            subject: event.subject.into(),
            text: event.text.into(),
        }
    }
}

impl Tabular for EventView {
    const PLURAL: &'static str = "events";

    fn name(&self) -> String {
        self.subject.to_string()
    }

    fn key(&self) -> String {
        format!("{} {} {} {} {}", self.at_ms, self.subject, self.action, self.actor, self.text)
    }

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        (vec!["TIME", "SUBJECT", "EVENT"], vec!["ACTOR", "ACTION"])
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let cells = vec![time(self.at_ms), self.subject.to_string(), self.text.to_string()];
        (cells, vec![self.actor.to_string(), self.action.to_string()])
    }
}

/// A change in a watch: what a list of events has of it, and the whole object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ChangeView {
    pub(crate) at_ms: i64,
    pub(crate) actor: Foreign,
    pub(crate) action: Foreign,
    /// `job`, `task`, `node`, `endpoint`, `endpoint_withdrawn`, `job_removed`, `node_removed`,
    /// `member_changed`, `member_removed` or `other`.
    pub(crate) kind: &'static str,
    pub(crate) subject: Foreign,
    pub(crate) text: Foreign,
    /// Its present state; empty if it has none.
    pub(crate) state: String,
    /// The whole object, if it exists.
    pub(crate) object: Value,
}

impl ChangeView {
    /// A view of a change; `None` for other messages.
    pub(crate) fn new(message: v1::WatchResponse) -> Option<Self> {
        use watch_response::Change;
        let (kind, subject, state, object) = match message.change? {
            Change::Job(job) => {
                let view = JobView::from(job);
                let tasks = view.tasks.text();
                let tasks = if tasks.is_empty() { tasks } else { format!(" ({tasks})") };
                let text = format!("{}{tasks}", view.state);
                ("job", format!("{}/{}", view.user, view.name), text, value(&view))
            }
            Change::Task(task) => task_change(TaskOutput::from(task)),
            Change::Node(node) => {
                let view = NodeOutput::from(node);
                ("node", view.name.to_string(), view.state_text(), value(&view))
            }
            Change::Endpoint(endpoint) => {
                let health = word(endpoint.health().as_str_name(), "HEALTH_");
                let view = EndpointView::from(endpoint);
                let text = format!("{} {health}", view.addresses());
                ("endpoint", view.name.to_string(), text.trim_start().to_owned(), value(&view))
            }
            Change::EndpointWithdrawn(gone) => {
                let (job, user) = (Foreign::from(gone.job), Foreign::from(gone.user));
                let subject = format!("{}.{job}.{user}", gone.index);
                ("endpoint_withdrawn", subject, format!("attempt {}", gone.incarnation), Value::Null)
            }
            Change::JobRemoved(gone) => {
                let [user, job, id] = [gone.user, gone.job, gone.id].map(Foreign::from);
                let named = !user.to_string().is_empty();
                let subject = if named { format!("{user}/{job}") } else { id.to_string() };
                ("job_removed", subject, String::new(), Value::Null)
            }
            Change::NodeRemoved(name) => {
                ("node_removed", Foreign::from(name).to_string(), String::new(), Value::Null)
            }
            Change::MemberChanged(name) => {
                ("member_changed", Foreign::from(name).to_string(), String::new(), Value::Null)
            }
            Change::MemberRemoved(name) => {
                ("member_removed", Foreign::from(name).to_string(), String::new(), Value::Null)
            }
            Change::Other(_) => ("other", String::new(), String::new(), Value::Null),
            Change::Bookmark(_) => return None,
        };
        let v1::WatchResponse { actor, action, at_ms, subject: told, text, .. } = message;
        // A gateway of the release before this one sends no sentences.
        let (subject, text) = if told.is_empty() {
            (format!("{} {subject}", kind.replace('_', " ")), state.clone())
        } else {
            (told, text)
        };
        let (actor, action) = (actor.into(), action.into());
        Some(Self { at_ms, actor, action, kind, subject: subject.into(), text: text.into(), state, object })
    }

    pub(crate) fn text(&self) -> String {
        // A person has done it. What the cell does by itself needs no name.
        let by = self.actor.to_string().strip_prefix("user/").map(|user| format!(" by {user}"));
        let action = format!("{}{}", self.action, by.unwrap_or_default());
        let text = format!("{} {}: {} [{action}]", time(self.at_ms), self.subject, self.text);
        text.replace(" []", "").replace(":  [", ": [")
    }
}

fn task_change(view: TaskOutput) -> (&'static str, String, String, Value) {
    let node = if view.node.is_empty() { String::new() } else { format!(" on {}", view.node) };
    let health = match (view.state.as_str(), view.health.as_str()) {
        ("running", "healthy" | "unhealthy") => format!(", {}", view.health),
        _ => String::new(),
    };
    let text = format!("{}{health}{node} (attempt {})", view.state, view.attempt);
    ("task", format!("{}/{}/{}", view.user, view.job, view.index), text, value(&view))
}

fn value<T: Serialize>(view: &T) -> Value {
    // Plain data with text keys can always be written. An error would become the value.
    serde_json::to_value(view).unwrap_or_else(|error| Value::String(error.to_string()))
}
