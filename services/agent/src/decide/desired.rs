//! The desired state of the node, gathered from the gateway's messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::JobSpec;
use borough_proto::bounds::{REFUSED_ITEMS_MAX, SESSION_ERROR_BYTES_MAX, text_cut};
use borough_proto::convert::{job_spec_from_message, task_spec_to_message};
use borough_proto::v1;

use crate::attempt::AttemptId;

/// A spec's job id and version.
type JobSpecVersion = (String, u32);

/// The desired state of this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desired {
    /// Attempts to run. [`Self::assignment`] returns one with its spec.
    pub assignments: BTreeMap<AttemptId, Arc<v1::Assignment>>,
    /// Attempts to end. A stop is never withdrawn: a task that must run again gets a new attempt.
    pub stops: BTreeMap<AttemptId, v1::StopCommand>,
    /// Attempts whose release is durable.
    pub forget: BTreeSet<AttemptId>,
    /// Whether a full desired state has arrived to its end. Only then does the agent park attempts that it does not
    /// list.
    pub complete: bool,
    specs: BTreeMap<JobSpecVersion, Arc<JobSpec>>,
    /// Specs delivered in the open session. The end of its full state drops all others.
    delivered: BTreeSet<JobSpecVersion>,
    /// The attempts named by the full state that has begun and not ended.
    named: Option<BTreeSet<AttemptId>>,
    /// The number of the session's last chunk.
    sequence: u64,
    /// The acknowledgement that is due.
    acknowledge: Option<v1::DesiredApplied>,
}

impl Desired {
    /// Begins a session. The desired state of earlier ones is valid until the full state is complete.
    pub(crate) fn opened(&mut self) {
        self.delivered.clear();
        self.named = None;
        self.sequence = 0;
        self.acknowledge = None;
    }

    /// Applies a chunk. Returns descriptions of the items that it could not apply. The others are valid at once, so
    /// that a stop never waits for the end of a full state. [`Self::acknowledgement`] is due afterwards.
    pub(crate) fn apply(&mut self, chunk: v1::Desired) -> Vec<String> {
        let mut refused = Vec::new();
        // Chunks of a test gateway may have no number.
        if chunk.sequence != 0 && chunk.sequence != self.sequence.saturating_add(1) {
            refused.push(format!("chunk {} came after chunk {}", chunk.sequence, self.sequence));
        }
        self.sequence = self.sequence.max(chunk.sequence);
        if chunk.full_begin {
            self.named = Some(BTreeSet::new());
        }
        self.specs_apply(chunk.specs_dropped, chunk.specs, &mut refused);
        for assignment in chunk.assignments {
            if let Err(error) = self.assignment_apply(assignment) {
                refused.push(error);
            }
        }
        for stop in chunk.stops {
            match AttemptId::of(stop.attempt.as_ref()) {
                Ok(id) => {
                    self.name(&id);
                    self.stops.insert(id, stop);
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        for attempt in &chunk.forget {
            match AttemptId::of(Some(attempt)) {
                Ok(id) => {
                    self.name(&id);
                    self.forget.insert(id);
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        if chunk.full_end {
            self.complete_now();
        }
        self.acknowledge_add(chunk.sequence, &refused);
        refused
    }

    /// Takes the acknowledgement that is due.
    pub(crate) fn acknowledgement(&mut self) -> Option<v1::DesiredApplied> {
        self.acknowledge.take()
    }

    /// The assignment of an attempt with its spec merged, ready for its start.
    pub(crate) fn assignment(&self, id: &AttemptId) -> Option<Arc<v1::Assignment>> {
        let assignment = self.assignments.get(id)?;
        if assignment.spec.is_some() {
            return Some(Arc::clone(assignment));
        }
        let spec = self.specs.get(&(id.job_id.clone(), assignment.spec_version));
        let spec = spec.map(|spec| {
            let mut task = spec.for_task(id.index);
            // The limits of an attempt hold for its helpers too.
            task.resources = spec.resources_for(id.index).into_owned();
            task_spec_to_message(&task)
        });
        Some(Arc::new(v1::Assignment { spec, ..(**assignment).clone() }))
    }

    /// Drops the orders for an attempt that is gone for good.
    pub(crate) fn forgotten(&mut self, id: &AttemptId) {
        self.assignments.remove(id);
        self.stops.remove(id);
        self.forget.remove(id);
    }

    fn specs_apply(
        &mut self,
        dropped: Vec<v1::SpecReference>,
        delivered: Vec<v1::SpecDelivery>,
        refused: &mut Vec<String>,
    ) {
        for reference in dropped {
            let key = (reference.job_id, reference.version);
            self.specs.remove(&key);
            self.delivered.remove(&key);
        }
        for delivery in delivered {
            let reference = delivery.reference.unwrap_or_default();
            let spec = delivery.spec.unwrap_or_default();
            match job_spec_from_message(&spec) {
                Ok(spec) => {
                    let key = (reference.job_id, reference.version);
                    self.delivered.insert(key.clone());
                    self.specs.insert(key, Arc::new(spec));
                }
                Err(error) => {
                    let v1::SpecReference { job_id, version } = reference;
                    refused.push(format!("spec {version} of job {job_id}: {error}"));
                }
            }
        }
    }

    fn assignment_apply(&mut self, assignment: v1::Assignment) -> Result<(), String> {
        let id = AttemptId::of(assignment.attempt.as_ref()).map_err(|error| error.to_string())?;
        let version = assignment.spec_version;
        if version != 0 && !self.specs.contains_key(&(id.job_id.clone(), version)) {
            return Err(format!("attempt {id} refers to spec {version} of its job, which was not delivered"));
        }
        self.name(&id);
        self.assignments.insert(id, Arc::new(assignment));
        Ok(())
    }

    fn name(&mut self, id: &AttemptId) {
        if let Some(named) = &mut self.named {
            named.insert(id.clone());
        }
    }

    /// Ends the full state: attempts that it has not named are no longer wanted.
    fn complete_now(&mut self) {
        let Some(named) = self.named.take() else { return };
        self.assignments.retain(|id, _| named.contains(id));
        self.stops.retain(|id, _| named.contains(id));
        self.forget.retain(|id| named.contains(id));
        self.specs.retain(|key, _| self.delivered.contains(key));
        self.complete = true;
    }

    fn acknowledge_add(&mut self, sequence: u64, refused: &[String]) {
        let due = self.acknowledge.get_or_insert_default();
        due.sequence = due.sequence.max(sequence);
        let left = REFUSED_ITEMS_MAX.saturating_sub(due.refused.len());
        due.refused.extend(refused.iter().take(left).cloned().map(|mut text| {
            text_cut(&mut text, SESSION_ERROR_BYTES_MAX);
            text
        }));
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::JobKind;
    use borough_model::{JobSpec, Name};
    use borough_proto::convert::job_spec_to_message;

    use super::*;

    const JOB: &str = "j0000000000000001";

    fn attempt(index: u32) -> v1::TaskAttempt {
        v1::TaskAttempt { job_id: JOB.to_owned(), index, incarnation: 1 }
    }

    fn id(index: u32) -> AttemptId {
        AttemptId::new(JOB, index, 1).unwrap()
    }

    fn reference(version: u32) -> v1::SpecReference {
        v1::SpecReference { job_id: JOB.to_owned(), version }
    }

    fn delivery(version: u32) -> v1::SpecDelivery {
        let name = |text: &str| Name::new(text).unwrap();
        let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, vec!["run".to_owned()]);
        spec.count = 2;
        let own =
            borough_model::job::TaskOverride { arguments: vec!["second".to_owned()], ..Default::default() };
        spec.overrides.insert(1, own);
        v1::SpecDelivery { reference: Some(reference(version)), spec: Some(job_spec_to_message(&spec)) }
    }

    fn assign(index: u32, spec_version: u32) -> v1::Assignment {
        v1::Assignment { attempt: Some(attempt(index)), spec_version, ..v1::Assignment::default() }
    }

    #[test]
    fn a_spec_comes_once_and_every_index_gets_its_own_of_it() {
        let mut desired = Desired::default();
        let first = v1::Desired {
            sequence: 1,
            specs: vec![delivery(3)],
            assignments: vec![assign(0, 3)],
            ..v1::Desired::default()
        };
        assert!(desired.apply(first).is_empty());
        let next = v1::Desired { sequence: 2, assignments: vec![assign(1, 3)], ..v1::Desired::default() };
        assert!(desired.apply(next).is_empty());
        let command = |index| desired.assignment(&id(index)).unwrap().spec.as_ref().unwrap().command.clone();
        assert_eq!(
            (command(0), command(1)),
            (vec!["run".to_owned()], vec!["run".to_owned(), "second".to_owned()])
        );
    }

    #[test]
    fn an_assignment_without_its_spec_is_set_aside_and_named_and_the_others_hold() {
        let mut desired = Desired::default();
        let chunk = v1::Desired {
            sequence: 1,
            specs: vec![delivery(1)],
            assignments: vec![assign(0, 2), assign(1, 1)],
            ..v1::Desired::default()
        };
        assert_eq!(desired.apply(chunk).len(), 1);
        assert_eq!(desired.assignments.keys().collect::<Vec<_>>(), [&id(1)]);
        let due = desired.acknowledgement().unwrap();
        assert!(due.sequence == 1 && due.refused[0].contains("spec 2"), "{due:?}");
        assert_eq!(desired.acknowledgement(), None);
    }

    #[test]
    fn a_dropped_spec_is_gone_and_may_come_again() {
        let mut desired = Desired::default();
        desired.apply(v1::Desired { sequence: 1, specs: vec![delivery(1)], ..v1::Desired::default() });
        let dropped = v1::Desired {
            sequence: 2,
            specs_dropped: vec![reference(1)],
            specs: vec![delivery(1)],
            assignments: vec![assign(0, 1)],
            ..v1::Desired::default()
        };
        assert!(desired.apply(dropped).is_empty(), "what is dropped goes first");
        let gone = v1::Desired { sequence: 3, specs_dropped: vec![reference(1)], ..v1::Desired::default() };
        desired.apply(gone);
        assert_eq!(desired.specs.len(), 0);
    }

    /// Only the last chunk completes the state. A stop is valid before that.
    #[test]
    fn a_full_state_is_complete_with_its_last_chunk() {
        let mut desired = Desired::default();
        let old = v1::Desired {
            specs: vec![delivery(1)],
            assignments: vec![assign(0, 1)],
            ..v1::Desired::default()
        };
        desired.apply(old);
        desired.opened();
        let stop = v1::StopCommand { attempt: Some(attempt(5)), ..v1::StopCommand::default() };
        let begin =
            v1::Desired { sequence: 1, full_begin: true, stops: vec![stop], ..v1::Desired::default() };
        desired.apply(begin);
        assert!(desired.stops.contains_key(&id(5)), "in force at once");
        assert!(!desired.complete && desired.assignments.contains_key(&id(0)));
        let within = v1::Desired {
            sequence: 2,
            specs: vec![delivery(2)],
            assignments: vec![assign(1, 2)],
            ..v1::Desired::default()
        };
        desired.apply(within);
        assert!(!desired.complete);
        desired.apply(v1::Desired { sequence: 3, full_end: true, ..v1::Desired::default() });
        assert!(desired.complete);
        assert_eq!(desired.assignments.keys().collect::<Vec<_>>(), [&id(1)]);
        assert!(desired.stops.contains_key(&id(5)));
        assert_eq!(desired.specs.len(), 1, "specs of the session before go with what they were for");
        assert_eq!(desired.acknowledgement().unwrap().sequence, 3);
    }

    /// If a session breaks within its full state, the previous desired state stays valid.
    #[test]
    fn a_full_state_that_breaks_off_completes_nothing() {
        let mut desired = Desired::default();
        desired.apply(v1::Desired { sequence: 1, full_begin: true, ..v1::Desired::default() });
        desired.opened();
        desired.apply(v1::Desired { sequence: 1, full_end: true, ..v1::Desired::default() });
        assert!(!desired.complete, "an end without a beginning");
    }
}
