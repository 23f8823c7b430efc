//! The object that a command line names, for the message if the cell has none of that name.

use super::{
    EventFilter, EventVerb, JobTarget, JobVerb, NameOrChange, NameVerb, NodeVerb, ScaleWord, TaskVerb, Verb,
};

/// What a command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedTarget {
    Job(JobTarget),
    Node(String),
}

impl Verb {
    /// The job or node that the verb is for. `None` if it is for none, or for something new.
    pub(crate) fn named(&self) -> Option<NamedTarget> {
        match self {
            Self::Job(verb) => verb.target().cloned().map(NamedTarget::Job),
            Self::Rollout(verb) => verb.target().cloned().map(NamedTarget::Job),
            Self::Task(verb) => verb.named(),
            Self::Why(arguments) => {
                only(&arguments.targets).map(|target| NamedTarget::Job(target.job().clone()))
            }
            Self::Node(verb) => verb.node().map(|node| NamedTarget::Node(node.to_owned())),
            Self::Name(NameVerb::List { target, .. } | NameVerb::Watch { target }) => {
                target.clone().map(NamedTarget::Job)
            }
            Self::Event(EventVerb::List { filter, .. } | EventVerb::Watch { filter }) => filter.named(),
            _ => None,
        }
    }
}

/// The only one of several. A message about several names each.
fn only<T>(targets: &[T]) -> Option<&T> {
    match targets {
        [only] => Some(only),
        _ => None,
    }
}

impl JobVerb {
    fn target(&self) -> Option<&JobTarget> {
        match self {
            Self::Status { target, .. } => target.as_ref(),
            Self::Purge(arguments) => only(&arguments.targets),
            Self::Edit(arguments) => Some(&arguments.target),
            Self::Stop(arguments) => only(&arguments.choice.targets),
            Self::Restart(arguments) => only(&arguments.choice.targets),
            Self::Scale(arguments) => match &arguments.target {
                Some(ScaleWord::Job(target)) => Some(target),
                Some(ScaleWord::Number(_)) | None => None,
            },
            Self::Logs(arguments) => only(&arguments.targets),
            Self::Label { target: Some(NameOrChange::Name(target)), .. } | Self::History { target, .. } => {
                Some(target)
            }
            Self::Label { .. } => None,
            Self::Init { .. } | Self::Validate(_) | Self::Schema | Self::Plan(_) | Self::Run(_) => None,
        }
    }
}

impl TaskVerb {
    fn named(&self) -> Option<NamedTarget> {
        let target = match self {
            Self::List { node, .. } => return node.clone().map(NamedTarget::Node),
            Self::Status { target, .. } => target.job(),
            Self::Logs(arguments) => arguments.target.job(),
            Self::Exec(arguments) => arguments.target.job(),
            Self::Stop(arguments) => only(&arguments.targets)?.job(),
            Self::Signal { target, .. } | Self::Restart { target } => target.job(),
        };
        Some(NamedTarget::Job(target.clone()))
    }
}

impl NodeVerb {
    fn node(&self) -> Option<&str> {
        match self {
            Self::List { .. } | Self::Token(_) | Self::JoinToken(_) => None,
            Self::Drain(arguments) => only(&arguments.choice.nodes).map(String::as_str),
            Self::Cordon(choice) | Self::Uncordon(choice) => only(&choice.nodes).map(String::as_str),
            Self::Taint { node: Some(NameOrChange::Name(node)), .. }
            | Self::Label { node: Some(NameOrChange::Name(node)), .. } => Some(node),
            Self::Taint { .. } | Self::Label { .. } => None,
            Self::Remove { nodes } => only(nodes).map(String::as_str),
            Self::Untaint { node, label, .. } => label.is_empty().then_some(node.as_str()),
            Self::Status { node, .. } => node.as_deref(),
            Self::Admit { node, .. } => Some(node),
        }
    }
}

impl EventFilter {
    fn named(&self) -> Option<NamedTarget> {
        let job = self.job.clone().map(NamedTarget::Job);
        job.or_else(|| self.node.clone().map(NamedTarget::Node))
    }
}
