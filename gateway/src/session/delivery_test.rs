//! Deliveries to an agent that follows the protocol exactly, over cells that no single message can hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use borough_model::job::{JobKind, TaskOverride};
use borough_model::task::StopReason;
use borough_model::{Incarnation, JobId, JobSpec, Name, TaskId};
use borough_proto::bounds::{
    CHUNK_BYTES_MAX, DESIRED_ITEMS_MAX, DESIRED_WINDOW_BYTES, SESSION_MESSAGE_BYTES_MAX, SPEC_BYTES_MAX,
};
use borough_proto::convert::{job_spec_from_message, job_spec_to_message, stop_reason_to_message};
use borough_proto::v1;
use proptest::prelude::*;
use prost::Message as _;

use super::delivery::{Delivery, DeliveryItem, DeliverySource, DeliverySpecKey};
use super::desired::{Command, DesiredAttempt};
use super::message::attempt_to_message;

const STOP: Command = Command::Stop { reason: StopReason::JobStopped, drain: false, notice_max_ms: None };

fn attempt(job: u64, index: u32) -> DesiredAttempt {
    DesiredAttempt { task: TaskId { job: JobId(job), index }, incarnation: Incarnation(1) }
}

/// A spec with so many bytes of environment.
fn spec(bytes: usize) -> JobSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let command = vec!["run".to_owned()];
    let mut spec = JobSpec::defaults(name("ada"), name("web"), JobKind::Service, command);
    spec.task.environment.insert("LARGE".to_owned(), "x".repeat(bytes));
    spec
}

/// A cell whose jobs have these specs, with assignments of a chosen size.
#[derive(Default)]
struct World {
    specs: BTreeMap<JobId, JobSpec>,
    assignment_bytes: usize,
}

impl World {
    fn new(specs: impl IntoIterator<Item = (u64, JobSpec)>) -> Self {
        Self { specs: specs.into_iter().map(|(job, spec)| (JobId(job), spec)).collect(), assignment_bytes: 0 }
    }
}

impl DeliverySource for World {
    fn item(&self, attempt: DesiredAttempt, command: Command) -> Option<DeliveryItem> {
        let message = attempt_to_message(attempt);
        Some(match command {
            Command::Run | Command::Resize(_) => {
                let assignment = v1::Assignment {
                    attempt: Some(message),
                    spec_version: 1,
                    user: "x".repeat(self.assignment_bytes),
                    ..v1::Assignment::default()
                };
                DeliveryItem::Run((attempt.task.job, 1), Box::new(assignment))
            }
            Command::Stop { reason, .. } => DeliveryItem::Stop(v1::StopCommand {
                attempt: Some(message),
                reason: stop_reason_to_message(reason).into(),
                ..v1::StopCommand::default()
            }),
            Command::Forget => DeliveryItem::Forget(message),
        })
    }

    fn spec(&self, (job, version): DeliverySpecKey) -> Option<v1::SpecDelivery> {
        let reference = Some(v1::SpecReference { job_id: job.to_string(), version });
        let spec = Some(job_spec_to_message(self.specs.get(&job)?));
        Some(v1::SpecDelivery { reference, spec })
    }
}

/// An agent that holds exactly what it was sent.
#[derive(Default)]
struct Agent {
    specs: BTreeSet<(String, u32)>,
    runs: BTreeSet<(String, u32)>,
    stops: BTreeSet<(String, u32)>,
    sequence: u64,
    spec_messages: usize,
    complete: bool,
}

impl Agent {
    fn take(&mut self, chunk: &v1::Desired) {
        assert!(chunk.encoded_len() <= SESSION_MESSAGE_BYTES_MAX, "{} bytes", chunk.encoded_len());
        let items = chunk.assignments.len() + chunk.stops.len() + chunk.forget.len() + chunk.specs.len();
        assert!(items <= DESIRED_ITEMS_MAX, "{items} items");
        assert_eq!(chunk.sequence, self.sequence + 1);
        self.sequence = chunk.sequence;
        for reference in &chunk.specs_dropped {
            assert!(
                self.specs.remove(&(reference.job_id.clone(), reference.version)),
                "dropped, never delivered"
            );
        }
        for delivery in &chunk.specs {
            let reference = delivery.reference.clone().unwrap();
            assert!(delivery.encoded_len() <= SPEC_BYTES_MAX);
            assert!(self.specs.insert((reference.job_id, reference.version)), "delivered twice");
            self.spec_messages += 1;
        }
        let key = |attempt: &Option<v1::TaskAttempt>| {
            attempt.as_ref().map(|attempt| (attempt.job_id.clone(), attempt.index)).unwrap()
        };
        for assignment in &chunk.assignments {
            let (job, index) = key(&assignment.attempt);
            assert!(self.specs.contains(&(job.clone(), assignment.spec_version)), "before its spec");
            self.runs.insert((job, index));
        }
        self.stops.extend(chunk.stops.iter().map(|stop| key(&stop.attempt)));
        for forget in &chunk.forget {
            self.runs.remove(&(forget.job_id.clone(), forget.index));
            self.stops.remove(&(forget.job_id.clone(), forget.index));
        }
        self.complete = (self.complete && !chunk.full_begin) || chunk.full_end;
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Sends and acknowledges until nothing waits. Returns the number of chunks.
fn settle(delivery: &mut Delivery, world: &World, agent: &mut Agent) -> usize {
    let mut chunks = 0;
    while let Some(chunk) = delivery.next(world, at(1)) {
        agent.take(&chunk.message);
        delivery.acknowledged(chunk.message.sequence).unwrap();
        chunks += 1;
    }
    chunks
}

/// The largest job that is admitted: no single message can hold its spec with its tasks.
#[test]
fn sixty_tasks_of_85_kilobytes_come_with_one_spec() {
    let world = World::new([(1, spec(85_000))]);
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full((0..60).map(|index| (attempt(1, index), Command::Run)));
    settle(&mut delivery, &world, &mut agent);
    assert_eq!((agent.runs.len(), agent.spec_messages, agent.complete), (60, 1, true));
    assert!(delivery.is_complete());
}

#[test]
fn a_thousand_jobs_of_4_kilobytes_come_in_chunks() {
    let world = World::new((0..1_000).map(|job| (job, spec(4_200))));
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full((0..1_000).map(|job| (attempt(job, 0), Command::Run)));
    let chunks = settle(&mut delivery, &world, &mut agent);
    assert!(chunks >= 1_000 * 4_200 / CHUNK_BYTES_MAX, "{chunks} chunks");
    assert_eq!((agent.runs.len(), agent.spec_messages, agent.complete), (1_000, 1_000, true));
}

/// Jobs with a spec at its bound each. Many short entries grow most when they are encoded.
#[test]
fn specs_at_their_bound_fit_a_message_each() {
    let mut largest = spec(0);
    let mut bytes = minicbor::to_vec(&largest).unwrap().len();
    for number in 0_u32.. {
        let name: String =
            number.to_string().bytes().map(|digit| char::from(b'A' + (digit - b'0'))).collect();
        // Two bytes of framing each for the name and for the empty value.
        bytes += name.len() + 2;
        if bytes > borough_model::job::SPEC_BYTES_MAX - 16 {
            break;
        }
        largest.task.environment.insert(name, String::new());
    }
    let stored = minicbor::to_vec(&largest).unwrap().len();
    assert!(stored > borough_model::job::SPEC_BYTES_MAX - 64, "{stored} bytes");
    assert_eq!(largest.validate(), Ok(()));
    let message = job_spec_to_message(&largest);
    assert!(message.encoded_len() <= SPEC_BYTES_MAX, "{} bytes", message.encoded_len());
    assert_eq!(job_spec_from_message(&message).unwrap(), largest, "the agent has what was admitted");
    let world = World::new((0..20).map(|job| (job, largest.clone())));
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full((0..20).map(|job| (attempt(job, 0), Command::Run)));
    settle(&mut delivery, &world, &mut agent);
    assert_eq!(agent.runs.len(), 20);
}

#[test]
fn a_spec_with_roles_and_overrides_is_the_same_on_the_node() {
    let mut own = spec(10);
    own.count = 3;
    own.overrides.insert(2, TaskOverride { arguments: vec!["more".to_owned()], ..TaskOverride::default() });
    let there = job_spec_from_message(&job_spec_to_message(&own)).unwrap();
    for index in 0..3 {
        assert_eq!(there.for_task(index), own.for_task(index));
    }
}

#[test]
fn no_more_is_on_its_way_than_the_agent_has_credit_for() {
    let world = World::new((0..1_000).map(|job| (job, spec(60_000))));
    let mut delivery = Delivery::default();
    delivery.full((0..1_000).map(|job| (attempt(job, 0), Command::Run)));
    let (mut bytes, mut first) = (0, None);
    while let Some(chunk) = delivery.next(&world, at(1)) {
        bytes += chunk.message.encoded_len();
        first = first.or(Some(chunk.message.sequence));
    }
    assert!(bytes <= DESIRED_WINDOW_BYTES && bytes > DESIRED_WINDOW_BYTES / 2, "{bytes} bytes");
    assert_eq!(delivery.waiting(at(11)), Some(at(10)));
    delivery.acknowledged(first.unwrap()).unwrap();
    assert!(delivery.next(&world, at(2)).is_some() && delivery.next(&world, at(2)).is_none());
    assert!(delivery.acknowledged(1_000).is_err(), "what was not sent");
}

/// Ten thousand starts of one user wait. The very next chunk contains the stop of another user's task.
#[test]
fn a_stop_does_not_wait_for_what_is_to_be_started() {
    let world = World::new((0..1_000).map(|job| (job, spec(60_000))));
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full((1..1_000).map(|job| (attempt(job, 0), Command::Run)));
    while let Some(chunk) = delivery.next(&world, at(1)) {
        agent.take(&chunk.message);
    }
    delivery.command(attempt(0, 0), STOP);
    assert!(delivery.next(&world, at(2)).is_none(), "no credit yet");
    delivery.acknowledged(1).unwrap();
    agent.take(&delivery.next(&world, at(2)).unwrap().message);
    assert_eq!(agent.stops.len(), 1);
    assert!(!agent.complete && agent.runs.len() < 100);
}

/// A full node forgets, starts and stops every task again, within the bounds on items.
#[test]
fn twenty_thousand_attempts_are_within_the_bounds() {
    let world = World::new((0..4).map(|job| (job, spec(10))));
    let attempts = || (0..4).flat_map(|job| (0..5_000).map(move |index| attempt(job, index)));
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full(attempts().map(|attempt| (attempt, Command::Run)));
    settle(&mut delivery, &world, &mut agent);
    assert_eq!(agent.runs.len(), 20_000);
    attempts().for_each(|attempt| delivery.command(attempt, STOP));
    settle(&mut delivery, &world, &mut agent);
    assert_eq!(agent.stops.len(), 20_000);
    attempts().for_each(|attempt| delivery.command(attempt, Command::Forget));
    settle(&mut delivery, &world, &mut agent);
    assert!(agent.runs.is_empty() && agent.specs.is_empty(), "specs that nothing refers to are dropped");
}

/// An item that no message can hold is set aside and named. Everything else is delivered.
#[test]
fn an_item_that_no_message_takes_holds_up_nothing() {
    let mut world = World::new([(1, spec(10)), (2, spec(SESSION_MESSAGE_BYTES_MAX))]);
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full([(attempt(2, 0), Command::Run), (attempt(1, 0), Command::Run)]);
    let chunk = delivery.next(&world, at(1)).unwrap();
    agent.take(&chunk.message);
    assert!(
        matches!(chunk.set_aside[..], [(aside, bytes)] if aside == attempt(2, 0) && bytes > SESSION_MESSAGE_BYTES_MAX)
    );
    assert_eq!((agent.runs.len(), agent.complete), (1, true));
    // The largest assignment and the largest spec together take two chunks.
    world.specs.insert(JobId(3), spec(89_000));
    world.assignment_bytes = CHUNK_BYTES_MAX;
    delivery.command(attempt(3, 0), Command::Run);
    assert_eq!(settle(&mut delivery, &world, &mut agent), 2, "one after the other");
    assert_eq!(agent.runs.len(), 2);
}

#[test]
fn what_was_sent_is_not_sent_again_and_a_newer_command_takes_the_place_of_one_that_waits() {
    let world = World::new([(1, spec(10))]);
    let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
    delivery.full([(attempt(1, 0), Command::Run)]);
    settle(&mut delivery, &world, &mut agent);
    delivery.command(attempt(1, 0), Command::Run);
    assert!(delivery.next(&world, at(1)).is_none());
    delivery.command(attempt(1, 1), Command::Run);
    delivery.command(attempt(1, 1), STOP);
    let chunk = delivery.next(&world, at(1)).unwrap().message;
    assert_eq!((chunk.assignments.len(), chunk.stops.len()), (0, 1));
    delivery.acknowledged(chunk.sequence).unwrap();
    delivery.full([(attempt(1, 0), Command::Run)]);
    let again = delivery.next(&world, at(1)).unwrap().message;
    assert!(again.full_begin && again.full_end && again.assignments.len() == 1 && again.specs.is_empty());
}

proptest! {
    /// Commands and acknowledgements come in any order. The agent ends with the last commands, no spec is sent twice,
    /// and the full state is complete exactly when all of it was sent.
    #[test]
    fn the_agent_ends_with_what_was_wanted(
        sizes in prop::collection::vec(1usize..80_000, 1..6),
        steps in prop::collection::vec((0u64..6, 0u32..4, 0u8..4, any::<bool>()), 1..60),
    ) {
        let jobs = sizes.len() as u64;
        let world = World::new(sizes.into_iter().enumerate().map(|(job, bytes)| (job as u64, spec(bytes))));
        let (mut delivery, mut agent) = (Delivery::default(), Agent::default());
        let mut wanted: BTreeMap<DesiredAttempt, Command> = BTreeMap::new();
        delivery.full((0..jobs).map(|job| (attempt(job, 0), Command::Run)));
        wanted.extend((0..jobs).map(|job| (attempt(job, 0), Command::Run)));
        let mut acknowledged = 0;
        for (job, index, kind, acknowledge) in steps {
            let attempt = attempt(job % jobs, index);
            // An attempt runs, then stops, then is forgotten for good.
            let next = match (wanted.get(&attempt), kind) {
                (None, _) => Some(Command::Run),
                (Some(Command::Run), 1) => Some(STOP),
                (Some(Command::Stop { .. }), 2) => Some(Command::Forget),
                _ => None,
            };
            if let Some(next) = next {
                delivery.command(attempt, next);
                wanted.insert(attempt, next);
            }
            if let Some(chunk) = delivery.next(&world, at(1)) {
                agent.take(&chunk.message);
            }
            if acknowledge && agent.sequence > acknowledged {
                acknowledged += 1;
                delivery.acknowledged(acknowledged).unwrap();
            }
        }
        delivery.acknowledged(agent.sequence).unwrap();
        settle(&mut delivery, &world, &mut agent);
        let of = |command: fn(&Command) -> bool| wanted.values().filter(|found| command(found)).count();
        prop_assert_eq!(agent.stops.len(), of(|command| matches!(command, Command::Stop { .. })));
        let runs = agent.runs.difference(&agent.stops).count();
        prop_assert_eq!(runs, of(|command| *command == Command::Run));
        prop_assert!(agent.complete && delivery.is_complete());
    }
}
