//! Converts between the messages of a session and the gateway's own types.

use std::collections::BTreeMap;

use borough_model::job::{HELPERS_MAX, JobKind};
use borough_model::node::{
    AgentIdentity, AgentKey, AgentProcess, DurableId, NodeFacts, NodeRow, Pressure, confinement,
    node_packages_kept,
};
use borough_model::task::ResizeRefused;
use borough_model::{Incarnation, JobSpec, Name, NodeId, Resources, TaskId, TaskRow};
use borough_proto::bounds::{STATUS_CORES_MAX, TEXT_BYTES_MAX, text_cut};
use borough_proto::convert::{
    FieldRefused, capacity_from_message, card_from_message, cards_assigned, domain_from_message,
    exit_from_message, health_from_message, helper_from_message, job_id_from_text, job_spec_to_message,
    name_from_text, ports_to_message, resources_to_message, stop_reason_to_message,
};
use borough_proto::v1;
use borough_proto::v1::task_status::Phase;
use borough_store::mirror::MirrorHandle;
use borough_store::task::{ReportPhase, ResizeReport, TaskReport};

use super::delivery::{DeliveryItem, DeliverySource, DeliverySpecKey};
use super::desired::{Command, DesiredAttempt};
use super::registration::NodeNotes;

/// How long a task must run before it is healthy: the first time, and at most (doubled with each failure).
const HEALTHY_AFTER_MS: u64 = 1_000;
const HEALTHY_AFTER_MAX_MS: u64 = 10_000;

/// The node's facts in a hello.
pub(crate) fn facts_of(hello: &v1::Hello) -> Result<NodeFacts, FieldRefused> {
    let port = |field: &str, number: u32| {
        let wrong = || FieldRefused::new(field, number.to_string(), "1024 to 65535");
        u16::try_from(number).ok().filter(|port| *port >= 1024).ok_or_else(wrong)
    };
    let (port_first, port_last) =
        (port("port_first", hello.port_first)?, port("port_last", hello.port_last)?);
    if port_last < port_first {
        let accepted = format!("at least port_first ({port_first})");
        return Err(FieldRefused::new("port_last", port_last.to_string(), accepted));
    }
    if hello.host.is_empty() {
        return Err(FieldRefused::new("host", "", "an IP address or host name"));
    }
    Ok(NodeFacts {
        capacity: capacity_from_message(hello.capacity.as_ref())?,
        port_first,
        port_last,
        attributes: hello.attributes.clone(),
        host: hello.host.clone(),
        boot_id: hello.boot_id.clone(),
        agent_version: hello.agent_version.clone(),
        cards: hello.cards.iter().map(card_from_message).collect(),
        domains: hello.domains.iter().map(domain_from_message).collect(),
    })
}

/// The agent's process, if the hello identifies the agent.
pub(crate) fn agent_of(hello: &v1::Hello) -> Result<Option<AgentProcess>, FieldRefused> {
    if hello.agent_key.is_empty() {
        return Ok(None);
    }
    let key: Result<[u8; 16], _> = hello.agent_key.as_ref().try_into();
    let key = key.map_err(|_| {
        FieldRefused::new("agent_key", format!("{} bytes", hello.agent_key.len()), "16 bytes, or none")
    })?;
    let key = AgentKey(u128::from_be_bytes(key));
    let identity = AgentIdentity::new(key.durable_id(), &hello.machine_id);
    let identity = identity.map_err(|_| {
        let accepted = "at most 64 of a-z, 0-9 and -";
        FieldRefused::new("machine_id", hello.machine_id.chars().take(80).collect::<String>(), accepted)
    })?;
    match hello.instance {
        0 => Err(FieldRefused::new("instance", "0", "a random number that is not 0")),
        instance => {
            let identity_before =
                Some(AgentIdentity { durable: DurableId(key.0), is_digest: false, ..identity.clone() });
            Ok(Some(AgentProcess { identity, identity_before, instance }))
        }
    }
}

/// A report's notes on the machine. Unknown values are skipped.
pub(crate) fn notes_of(report: &v1::Report) -> NodeNotes {
    let kind = |kind: v1::NodePressure| match kind {
        v1::NodePressure::Unspecified => None,
        v1::NodePressure::Memory => Some(Pressure::Memory),
        v1::NodePressure::Disk => Some(Pressure::Disk),
        v1::NodePressure::Pids => Some(Pressure::Pids),
    };
    NodeNotes {
        short_of: report.pressure.as_ref().map(|reported| reported.short_of().filter_map(kind).collect()),
        packages: report
            .packages
            .as_ref()
            .map(|reported| node_packages_kept(reported.installed.iter().cloned())),
    }
}

/// The attempt of a status.
pub(crate) fn attempt_of(status: &v1::TaskStatus) -> Result<DesiredAttempt, FieldRefused> {
    let job = job_id_from_text("job_id", &status.job_id)?;
    Ok(DesiredAttempt {
        task: TaskId { job, index: status.index },
        incarnation: Incarnation(status.incarnation),
    })
}

/// The attempt of a message.
pub(crate) fn attempt_from_message(attempt: &v1::TaskAttempt) -> Result<DesiredAttempt, FieldRefused> {
    let job = job_id_from_text("job_id", &attempt.job_id)?;
    let task = TaskId { job, index: attempt.index };
    Ok(DesiredAttempt { task, incarnation: Incarnation(attempt.incarnation) })
}

/// Converts a status to a report, and returns its phase.
pub(crate) fn report_of(
    status: &v1::TaskStatus,
    node: NodeId,
) -> Result<(DesiredAttempt, Phase, TaskReport), FieldRefused> {
    let attempt = attempt_of(status)?;
    let phase = Phase::try_from(status.phase).unwrap_or(Phase::Unspecified);
    let report_phase = match phase {
        Phase::Accepted => ReportPhase::Accepted,
        Phase::Starting => ReportPhase::Starting,
        Phase::Running => ReportPhase::Running,
        Phase::Stopping => ReportPhase::Stopping,
        Phase::Exited => ReportPhase::Exited,
        Phase::Released => ReportPhase::Released,
        Phase::Unspecified => {
            return Err(FieldRefused::new("phase", status.phase.to_string(), "a phase of TaskStatus"));
        }
    };
    let mut exit = status.exit.as_ref().map(|exit| exit_from_message(exit, node)).transpose()?;
    if let Some(exit) = &mut exit {
        exit.incarnation = attempt.incarnation;
        text_cut(&mut exit.message, TEXT_BYTES_MAX);
    }
    let process = status.pid.zip(status.started_ms);
    let report = TaskReport {
        task: attempt.task,
        incarnation: attempt.incarnation,
        phase: report_phase,
        process,
        cores: status.cores.iter().copied().take(STATUS_CORES_MAX).collect(),
        health: health_from_message(status.health),
        exit,
        resize: status.resize.as_ref().map(resize_report),
        helpers: status
            .helpers
            .iter()
            .take(HELPERS_MAX)
            .map(helper_from_message)
            .collect::<Result<_, _>>()?,
    };
    Ok((attempt, phase, report))
}

/// A report of an attempt whose record is gone.
pub(crate) fn report_missing(attempt: DesiredAttempt) -> TaskReport {
    TaskReport {
        task: attempt.task,
        incarnation: attempt.incarnation,
        phase: ReportPhase::Missing,
        process: None,
        cores: Vec::new(),
        health: borough_model::task::Health::Unknown,
        exit: None,
        resize: None,
        helpers: Vec::new(),
    }
}

/// Converts an attempt to a message.
pub(crate) fn attempt_to_message(attempt: DesiredAttempt) -> v1::TaskAttempt {
    v1::TaskAttempt {
        job_id: attempt.task.job.to_string(),
        index: attempt.task.index,
        incarnation: attempt.incarnation.0,
    }
}

/// The rows of the cell, as the source of a delivery. Each item is read under a hold of the mirror's lock of its own: a
/// chunk has hundreds of them.
pub(crate) struct MirrorRows<'a> {
    pub mirror: &'a MirrorHandle,
    pub cell: &'a str,
    /// The drain delay of jobs with ports that have none of their own.
    pub drain_delay_ms: u64,
}

impl DeliverySource for MirrorRows<'_> {
    fn item(&self, attempt: DesiredAttempt, command: Command) -> Option<DeliveryItem> {
        let job = attempt.task.job;
        let (row, spec, granting, node, alloc) = self.mirror.read(|state| {
            let row = state.tasks().get(&attempt.task);
            let node = row.and_then(|row| state.nodes().get(&row.node?));
            let spec = row.and_then(|row| state.spec(job, row.spec_version));
            let granting = row.and_then(|row| state.spec(job, row.resize_ordered()?.version));
            let place = row.and_then(|row| row.in_alloc());
            let alloc = place.and_then(|place| {
                let alloc = state.tasks().get(&place.alloc)?;
                let is_same = alloc.incarnation == place.attempt;
                is_same.then(|| Some(in_alloc_to_message(alloc, &state.jobs().get(&alloc.id.job)?.name)))?
            });
            (row.cloned(), spec, granting, node.cloned(), alloc)
        });
        match command {
            Command::Run | Command::Resize(_) => {
                let (row, node) = (row?, node?);
                let key = (job, row.spec_version);
                let mut assignment = self.assignment(&row, spec.as_deref()?, &node);
                // Its alloc is gone: the controller is about to stop it.
                if row.in_alloc().is_some() && alloc.is_none() {
                    return None;
                }
                assignment.alloc = alloc;
                if let Command::Resize(order) = command {
                    assignment.resize = Some(resize_order(&row, order, granting.as_deref())?);
                }
                Some(DeliveryItem::Run(key, Box::new(assignment)))
            }
            Command::Stop { .. } => {
                stop(attempt, command, spec.as_deref(), self.drain_delay_ms).map(DeliveryItem::Stop)
            }
            Command::Forget => Some(DeliveryItem::Forget(attempt_to_message(attempt))),
        }
    }

    fn spec(&self, (job, version): DeliverySpecKey) -> Option<v1::SpecDelivery> {
        let spec = self.mirror.read(|state| state.spec(job, version))?;
        let reference = Some(v1::SpecReference { job_id: job.to_string(), version });
        Some(v1::SpecDelivery { reference, spec: Some(job_spec_to_message(&spec)) })
    }
}

/// The alloc of an attempt.
fn in_alloc_to_message(alloc: &TaskRow, set: &Name) -> v1::InAlloc {
    let attempt = DesiredAttempt { task: alloc.id, incarnation: alloc.incarnation };
    v1::InAlloc {
        attempt: Some(attempt_to_message(attempt)),
        set: set.to_string(),
        ports: ports_to_message(&alloc.ports),
    }
}

/// The order that a row gives its agent; `None` if it gives another one by now. `spec` is that of the version that asks
/// for it.
fn resize_order(row: &TaskRow, order: u64, spec: Option<&JobSpec>) -> Option<v1::ResizeOrder> {
    let resize = row.resize_ordered().filter(|resize| resize.order == order)?;
    let signal = spec.and_then(|spec| spec.update?.resize_signal).map_or(0, |signal| signal.number());
    // Devices stay as they are.
    let amounts = Resources { device_millis: BTreeMap::new(), ..resize.granted.clone() };
    let resources = Some(resources_to_message(&amounts));
    Some(v1::ResizeOrder { order, resources, signal })
}

/// What an agent says of the last order to resize an attempt.
fn resize_report(settled: &v1::ResizeSettled) -> ResizeReport {
    let refused = match (settled.memory_used_bytes, settled.error.as_str()) {
        (0, "") => None,
        (0, error) => Some(ResizeRefused::Failed { message: error.to_owned() }),
        (used_bytes, _) => {
            Some(ResizeRefused::MemoryInUse { used_bytes, asked_bytes: settled.memory_asked_bytes })
        }
    };
    ResizeReport { order: settled.order, refused }
}

impl MirrorRows<'_> {
    /// The assignment of a row's attempt. It refers to its spec.
    fn assignment(&self, row: &TaskRow, spec: &JobSpec, node: &NodeRow) -> v1::Assignment {
        let (cpus, memory_domains) = confinement(&row.charge.resources, &node.domains);
        v1::Assignment {
            attempt: Some(attempt_to_message(DesiredAttempt { task: row.id, incarnation: row.incarnation })),
            cell: self.cell.to_owned(),
            user: spec.user.to_string(),
            job: spec.name.to_string(),
            spec: None,
            spec_version: row.spec_version,
            ports: ports_to_message(&row.ports),
            drain_delay_ms: drain_delay_ms(spec, self.drain_delay_ms),
            cards: cards_assigned(row, node),
            cpus,
            memory_domains,
            exclusive_cores: spec.task.exclusive_cores,
            healthy_after_ms: healthy_after_ms(row.failures),
            resize: None,
            alloc: None,
            is_alloc: spec.kind == JobKind::AllocSet,
        }
    }
}

/// The drain delay of a job: its own, or that of the cell if it has none and publishes endpoints.
fn drain_delay_ms(spec: &JobSpec, of_cell_ms: u64) -> u64 {
    let publishes = spec.kind != JobKind::AllocSet && !spec.task.ports.is_empty();
    match spec.drain_delay_ms {
        0 if publishes => of_cell_ms,
        own_ms => own_ms,
    }
}

/// How long a task must run before it is healthy after so many failures in a row. A task that keeps crashing must not
/// count as healthy in between.
pub(crate) fn healthy_after_ms(failures: u32) -> u64 {
    HEALTHY_AFTER_MS.saturating_mul(1 << failures.min(10)).min(HEALTHY_AFTER_MAX_MS)
}

/// The stop of an attempt, with the delays of its spec if that is known. `of_cell_ms`: the drain delay of jobs without
/// one.
pub(crate) fn stop(
    attempt: DesiredAttempt,
    command: Command,
    spec: Option<&JobSpec>,
    of_cell_ms: u64,
) -> Option<v1::StopCommand> {
    let Command::Stop { reason, drain, notice_max_ms } = command else { return None };
    let drain_delay_ms = spec.filter(|_| drain).map_or(0, |spec| drain_delay_ms(spec, of_cell_ms));
    let grace_ms = spec.map_or(GRACE_MS, |spec| spec.task.grace_ms);
    let grace_ms = grace_ms.min(notice_max_ms.unwrap_or(u64::MAX));
    let reason = stop_reason_to_message(reason).into();
    Some(v1::StopCommand { attempt: Some(attempt_to_message(attempt)), reason, drain_delay_ms, grace_ms })
}

/// The grace of an attempt whose spec is forgotten.
const GRACE_MS: u64 = 5_000;

/// The node that a hello names.
pub(crate) fn hello_names(hello: &v1::Hello) -> Result<borough_model::Name, FieldRefused> {
    name_from_text("node", &hello.node)
}

#[cfg(test)]
mod tests {
    use borough_model::job::PortSpec;
    use borough_model::task::StopReason;
    use borough_testkit::{job_spec, name};

    use super::*;

    #[test]
    fn a_job_with_ports_waits_as_its_cell_says_unless_it_says_otherwise() {
        let mut spec = job_spec("ann", "web", JobKind::Service);
        let task = TaskId { job: borough_model::JobId(1), index: 0 };
        let attempt = DesiredAttempt { task, incarnation: Incarnation(1) };
        let delay = |spec: &JobSpec, drain| {
            let command = Command::Stop { reason: StopReason::JobStopped, drain, notice_max_ms: None };
            stop(attempt, command, Some(spec), 4_000).unwrap().drain_delay_ms
        };
        assert_eq!(delay(&spec, true), 0, "it publishes nothing");
        spec.task.ports = vec![PortSpec { name: name("http"), number: None }];
        assert_eq!(delay(&spec, true), 4_000);
        assert_eq!(delay(&spec, false), 0, "nobody waits for a task that must go at once");
        spec.drain_delay_ms = 700;
        assert_eq!(delay(&spec, true), 700);
        spec.drain_delay_ms = 0;
        spec.kind = JobKind::AllocSet;
        assert_eq!(delay(&spec, true), 0, "the tasks in it have endpoints, not the alloc");
    }
}
