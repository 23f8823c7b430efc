//! Rows, events and specs the tests begin with.

use borough_model::id::{Incarnation, JobId, Name, NodeId, TaskId};
use borough_model::job::file::{FieldInfo, TreeNode, fields_flat};
use borough_model::job::{HelperPhase, JobKind, JobSpec};
use borough_model::resource::Resources;
use borough_model::task::{
    Attempt, EndReason, Exit, Health, HelperExit, HelperState, HelperStatus, Placement, PortAssignment,
    ResizeOrder, ResizeRefused, StopReason, TaskEvent, TaskRow, TaskRules, task_transition,
};
use serde_json::Value;

pub(crate) const NOW: i64 = 1_000_000;
pub(crate) const NODE: NodeId = NodeId(7);
pub(crate) const STARTED: i64 = NOW - 500;

/// Each reason for the end of an attempt.
pub(crate) const END_REASONS: [EndReason; 7] = [
    EndReason::Exited,
    EndReason::Signaled,
    EndReason::OutOfMemory,
    EndReason::StartFailed,
    EndReason::Stopped,
    EndReason::NodeLost,
    EndReason::NodeRebooted,
];

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn spec(kind: JobKind) -> JobSpec {
    JobSpec::defaults(name("ada"), name("web"), kind, vec!["/bin/serve".to_owned()])
}

/// A job file with the example of every field that has one. A job in an alloc set decides about no node, so that field
/// stands alone.
pub(crate) fn example_file() -> Value {
    let mut file = examples(JobSpec::file_fields());
    file.as_object_mut().unwrap().remove("alloc_set");
    let task = JobSpec::file_fields().iter().find(|field| field.file == "task").unwrap();
    file["task"] = examples(task.inner.unwrap());
    file
}

fn examples(fields: &'static [FieldInfo]) -> Value {
    let fields = fields_flat(fields);
    let examples = fields.iter().filter_map(|field| Some((field.file.to_owned(), field.example?())));
    Value::Object(examples.collect())
}

/// The spec of a file.
pub(crate) fn file_spec(file: &Value) -> Result<JobSpec, Vec<String>> {
    let read = JobSpec::from_file(&TreeNode::from(file), &name("ada"));
    read.map(|(spec, _)| spec).map_err(|problems| problems.into_iter().map(|one| one.message).collect())
}

pub(crate) fn rules(kind: JobKind) -> TaskRules {
    TaskRules::from(&spec(kind))
}

pub(crate) fn attempt(incarnation: u64) -> Attempt {
    Attempt { node: NODE, incarnation: Incarnation(incarnation) }
}

pub(crate) fn placement(incarnation: u64) -> Placement {
    Placement {
        node: NODE,
        incarnation: Incarnation(incarnation),
        ports: vec![PortAssignment { name: name("http"), number: 20_001 }],
        resources: Resources { cpu_millis: 500, memory_bytes: 64 << 20, ..Resources::default() },
        spec_version: 1,
        gang: None,
        alloc: None,
    }
}

pub(crate) fn exit(reason: EndReason, code: Option<i32>) -> Exit {
    Exit {
        reason,
        code,
        signal: None,
        message: String::new(),
        at_ms: NOW,
        incarnation: Incarnation(0),
        node: None,
        start_failure: None,
    }
}

pub(crate) fn exited(incarnation: u64, code: i32, released: bool, kind: JobKind) -> TaskEvent {
    let exit = exit(EndReason::Exited, Some(code));
    TaskEvent::ProcessExited { attempt: attempt(incarnation), exit, released, rules: rules(kind) }
}

pub(crate) fn started(incarnation: u64, health: Health) -> TaskEvent {
    let cores = Vec::new();
    TaskEvent::ProcessStarted { attempt: attempt(incarnation), pid: 42, started_ms: STARTED, health, cores }
}

/// An order for so many thousandths of a core, in place of those of [`placement`].
pub(crate) fn resize_ordered(incarnation: u64, cpu_millis: u64, refused: Option<ResizeRefused>) -> TaskEvent {
    let in_force = placement(incarnation).resources;
    let granted = Resources { cpu_millis, ..in_force.clone() };
    let order = Box::new(ResizeOrder { version: 2, granted, in_force, refused });
    TaskEvent::ResizeOrdered { attempt: attempt(incarnation), order }
}

pub(crate) fn stop(reason: StopReason) -> TaskEvent {
    TaskEvent::StopRequested { reason }
}

/// The row after these events.
pub(crate) fn row_after(events: &[TaskEvent]) -> TaskRow {
    row_from(TaskRow::never_placed(TaskId { job: JobId(1), index: 0 }), events)
}

pub(crate) fn row_from(row: TaskRow, events: &[TaskEvent]) -> TaskRow {
    events.iter().fold(row, |row, event| match task_transition(&row, event, NOW) {
        Ok(transition) => transition.row,
        Err(refused) => panic!("{} refused: {refused}", event.name()),
    })
}

pub(crate) fn placed() -> TaskRow {
    row_after(&[TaskEvent::Place(placement(1))])
}

pub(crate) fn running(health: Health) -> TaskRow {
    row_from(placed(), &[TaskEvent::AgentAccepted { attempt: attempt(1) }, started(1, health)])
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A helper that has ended.
pub(crate) fn helper_status() -> HelperStatus {
    let exit = HelperExit { code: Some(3), signal: Some(9), message: "late".to_owned(), at_ms: 7 };
    HelperStatus {
        name: name("logs"),
        when: HelperPhase::Beside,
        state: HelperState::Ended,
        restarts: 2,
        exit: Some(exit),
    }
}

/// The elements of an encoded struct.
pub(crate) fn elements(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let length = decoder.array().unwrap().unwrap();
    let mut element = || {
        let begin = decoder.position();
        decoder.skip().unwrap();
        bytes[begin..decoder.position()].to_vec()
    };
    (0..length).map(|_| element()).collect()
}

/// The encoding of a struct with these elements.
pub(crate) fn array_of(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = minicbor::Encoder::new(Vec::new());
    encoder.array(u64::try_from(elements.len()).unwrap()).unwrap();
    let mut bytes = encoder.into_writer();
    bytes.extend(elements.iter().flatten());
    bytes
}
