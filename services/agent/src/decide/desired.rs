//! What the control plane wants, gathered from its messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_proto::v1;

use crate::life::LifeId;

/// What the control plane wants of this node.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// Lives to be run.
    pub assignments: BTreeMap<LifeId, Arc<v1::Assignment>>,
    /// Lives to be ended. A stop is never taken back: a task that shall run again gets a new life.
    pub stops: BTreeMap<LifeId, v1::StopCommand>,
    /// Lives whose release is durable.
    pub forget: BTreeSet<LifeId>,
    /// Whether a full message has arrived: only then is a life that is not listed unknown.
    pub complete: bool,
}

impl Desired {
    /// Takes a message in; the answer names what in it could not be understood.
    pub fn apply(&mut self, message: v1::Desired) -> Vec<String> {
        let mut refused = Vec::new();
        if message.full {
            self.assignments.clear();
            self.stops.clear();
            self.forget.clear();
            self.complete = true;
        }
        for assignment in message.assignments {
            match LifeId::of(assignment.life.as_ref()) {
                Ok(id) => drop(self.assignments.insert(id, Arc::new(assignment))),
                Err(error) => refused.push(error.to_string()),
            }
        }
        for stop in message.stops {
            match LifeId::of(stop.life.as_ref()) {
                Ok(id) => drop(self.stops.insert(id, stop)),
                Err(error) => refused.push(error.to_string()),
            }
        }
        for life in &message.forget {
            match LifeId::of(Some(life)) {
                Ok(id) => drop(self.forget.insert(id)),
                Err(error) => refused.push(error.to_string()),
            }
        }
        refused
    }

    /// Drops what is said of a life that is gone for good.
    pub fn forgotten(&mut self, id: &LifeId) {
        self.assignments.remove(id);
        self.stops.remove(id);
        self.forget.remove(id);
    }
}
