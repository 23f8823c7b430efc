//! A transition under construction: the new row, and its effects.

use super::event::{Effects, EndpointEffect, OwnerEffect, Placement, TransitionRefused};
use super::restart::{RestartDecision, restart_decide};
use super::{EXIT_MESSAGE_BYTES_MAX, PORT_COOL_DOWN_MS, TaskRules, Transition};
use crate::id::NodeId;
use crate::job::TaskEnd;
use crate::node::{CapacityEffect, CapacityShare, PORT_KEPT_BACK_MS};
use crate::resource::Resources;
use crate::task::{Charge, ChargeOwner, EndReason, Exit, Health, StopReason, TaskRow, TaskState, Verdict};

/// The result of every handler.
pub(super) type Decided = Result<Transition, TransitionRefused>;

/// The event's result is already in the row.
pub(super) fn unchanged(row: &TaskRow) -> Decided {
    Ok(Transition { row: row.clone(), changed: false, effects: Effects::default() })
}

/// The attempt of the event is over.
pub(super) fn stale(row: &TaskRow) -> Decided {
    Err(TransitionRefused::Stale { reported: row.incarnation, current: row.incarnation, state: row.state })
}

/// It cannot happen in this state.
pub(super) fn illegal(row: &TaskRow, event: &'static str, why: &'static str) -> Decided {
    Err(TransitionRefused::Illegal { state: row.state, event, why })
}

/// A transition under construction.
pub(super) struct TransitionDraft<'a> {
    before: &'a TaskRow,
    row: TaskRow,
    effects: Effects,
    now_ms: i64,
}

impl<'a> TransitionDraft<'a> {
    pub(super) fn new(before: &'a TaskRow, now_ms: i64) -> Self {
        Self { before, row: before.clone(), effects: Effects::default(), now_ms }
    }

    /// Changes fields of the row that no other step covers.
    pub(super) fn with(mut self, change: impl FnOnce(&mut TaskRow)) -> Self {
        change(&mut self.row);
        self
    }

    pub(super) fn state(mut self, state: TaskState) -> Self {
        self.row.state = state;
        self
    }

    /// The probes pass, or it runs and has none.
    pub(super) fn healthy(mut self) -> Self {
        self.row.health = Health::Healthy;
        self.row.healthy_ms = self.now_ms;
        self
    }

    pub(super) fn endpoint(mut self, effect: EndpointEffect) -> Self {
        self.effects.endpoint = effect;
        self
    }

    /// Begins a new attempt: it takes its share of the node, and its row owns the charge.
    pub(super) fn attempt_begin(mut self, placement: &Placement, state: TaskState) -> Self {
        if self.row.charge.owner == ChargeOwner::Job {
            self.effects.owner = OwnerEffect::ToTask;
        }
        self.row.state = state;
        self.row.node = Some(placement.node);
        self.row.incarnation = placement.incarnation;
        self.row.ports.clone_from(&placement.ports);
        self.row.charge = Charge { owner: ChargeOwner::Task, resources: placement.resources.clone() };
        if self.row.spec_version != placement.spec_version {
            self.row.failures_of_another();
        }
        self.row.spec_version = placement.spec_version;
        self.row.healthy_ms = 0;
        self.row.evicted = None;
        self.row.resize = None;
        self.row.alloc.clone_from(&placement.alloc);
        self.row.helpers = None;
        self.row.gang = placement.gang.map(|(gang, _)| gang);
        self.row.gang_epoch = placement.gang.map_or(0, |(_, epoch)| epoch);
        self.take()
    }

    /// The attempt takes its share of its node, or has it promised.
    pub(super) fn take(mut self) -> Self {
        let promised = self.row.promised;
        let effect = if promised { CapacityEffect::Promise } else { CapacityEffect::Take };
        self.effects.capacity = share_of(&self.row).map_or(CapacityEffect::Keep, effect);
        self
    }

    /// A running attempt is charged other amounts from now on.
    pub(super) fn charge(mut self, resources: Resources) -> Self {
        if resources != self.before.charge.resources {
            let resize = |share| CapacityEffect::Resize { share, resources: resources.clone() };
            self.effects.capacity = share_of(self.before).map_or(CapacityEffect::Keep, resize);
            self.row.charge.resources = resources;
        }
        self
    }

    /// The promised share is taken.
    pub(super) fn fulfil(mut self) -> Self {
        if self.before.promised {
            self.row.promised = false;
            self.effects.capacity =
                share_of(self.before).map_or(CapacityEffect::Keep, CapacityEffect::Fulfil);
        }
        self
    }

    /// The node is lost: the share is released. The ports are kept back: the process may still listen on them, under an
    /// address that other nodes may share.
    pub(super) fn lose(self) -> Self {
        self.release_until(PORT_KEPT_BACK_MS).state(TaskState::Lost)
    }

    /// Releases the share if the row was charged, and its ports after the cool-down if they may have been used.
    pub(super) fn release(self) -> Self {
        let until_ms = self.now_ms.saturating_add(PORT_COOL_DOWN_MS);
        self.release_until(until_ms)
    }

    fn release_until(mut self, until_ms: i64) -> Self {
        if self.before.state == TaskState::Lost {
            let cool = |share| CapacityEffect::Cool { share, ports_cool_until_ms: until_ms };
            let share = share_of(self.before).filter(|share| !share.ports.is_empty());
            self.effects.capacity = share.map_or(CapacityEffect::Keep, cool);
            return self;
        }
        if !self.before.state.is_charged() {
            return self;
        }
        let used = self.before.state != TaskState::Held;
        let ports_cool_until_ms = used.then_some(until_ms);
        let promised = self.before.promised;
        self.row.promised = false;
        self.effects.capacity = match share_of(self.before) {
            None => CapacityEffect::Keep,
            Some(share) if promised => CapacityEffect::Forgo(share),
            Some(share) => CapacityEffect::Release { share, ports_cool_until_ms },
        };
        self
    }

    /// Records how the attempt ended and what follows.
    pub(super) fn exit(mut self, mut exit: Exit, rules: &TaskRules) -> Self {
        let message_end = exit.message.floor_char_boundary(EXIT_MESSAGE_BYTES_MAX);
        exit.message.truncate(message_end);
        // An agent says why the probe of an unhealthy attempt failed. Only the cell knows what it was stopped for.
        let is_of_other = exit.stop().is_some_and(|stop| self.before.stop != Some(stop));
        if exit.message.is_empty() || is_of_other {
            exit.message = self.before.stop.map(|stop| stop.text().to_owned()).unwrap_or_default();
        }
        exit.incarnation = self.before.incarnation;
        exit.node = self.before.node;
        let decision = restart_decide(rules, self.before, &exit, self.now_ms);
        self.decision(decision);
        self.row.exit = Some(Box::new(exit));
        self.row.pid = None;
        self.row.cores = Vec::new();
        self.row.health = Health::Unknown;
        self
    }

    /// Records an end without rules: its exit is unknown, and it was no failure of the task.
    pub(super) fn exit_unseen(mut self, reason: EndReason) -> Self {
        let stopped = self.before.stop.is_some_and(|stop| stop.is_final());
        self.row.exit = Some(Box::new(Exit {
            reason,
            code: None,
            signal: None,
            message: String::new(),
            at_ms: self.now_ms,
            incarnation: self.before.incarnation,
            node: self.before.node,
            start_failure: None,
        }));
        self.row.verdict = Some(if stopped { Verdict::Stopped } else { Verdict::Again });
        self
    }

    fn decision(&mut self, decision: RestartDecision) {
        self.row.verdict = Some(decision.verdict);
        self.row.failures = decision.failures;
        if decision.failures <= 1 {
            // None is left, or the first one of its version.
            self.row.failing_since = None;
        }
        self.row.not_before_ms = decision.not_before_ms;
        if decision.crashed {
            let again_there = self.row.crashed_on == self.before.node;
            self.row.crashes_there = if again_there { self.row.crashes_there.saturating_add(1) } else { 1 };
            self.row.crashed_on = self.before.node;
        }
    }

    /// The attempt is released: carries out the verdict.
    pub(super) fn attempt_end(self) -> Self {
        match self.row.verdict {
            None | Some(Verdict::Again) => {
                // A task that only has to move, gets another version or loses its node ran well.
                let is_ordered = |stop: StopReason| stop.is_move() || stop == StopReason::Updated;
                let is_of_node = |exit: &Exit| {
                    matches!(exit.reason, EndReason::NodeLost | EndReason::NodeRebooted)
                        || exit.is_of_full_node()
                };
                let moves =
                    self.row.stop.is_some_and(is_ordered) || self.row.exit.as_deref().is_some_and(is_of_node);
                let step = self.with(|row| row.restarts = row.restarts.saturating_add(u32::from(!moves)));
                step.back_to_pending()
            }
            Some(verdict @ (Verdict::Succeeded | Verdict::Failed | Verdict::Stopped)) => {
                step_over(self, verdict)
            }
        }
    }

    /// The task wants a node again; its row keeps the charge.
    pub(super) fn back_to_pending(self) -> Self {
        let step = self.release().with(|row| {
            row.node = None;
            row.stop = None;
            row.verdict = None;
            row.started_ms = None;
        });
        step.attempt_clear().state(TaskState::Pending)
    }

    fn attempt_clear(self) -> Self {
        self.with(|row| {
            row.ports = Vec::new();
            row.pid = None;
            row.cores = Vec::new();
            row.health = Health::Unknown;
            row.resize = None;
        })
    }

    /// The transition, with the next revision.
    pub(super) fn done(mut self) -> Decided {
        self.row.revision = self.before.revision.saturating_add(1);
        if self.row.state != self.before.state {
            self.row.changed_ms = self.now_ms;
        }
        Ok(Transition { row: self.row, changed: true, effects: self.effects })
    }
}

/// The task is over for good.
fn step_over(step: TransitionDraft<'_>, verdict: Verdict) -> TransitionDraft<'_> {
    let mut step = step.release().attempt_clear().state(TaskState::Dead);
    step.row.verdict = Some(verdict);
    step.row.not_before_ms = 0;
    step.row.charge.owner = ChargeOwner::Released;
    step.effects.owner = OwnerEffect::Release;
    let is_withdrawn = verdict == Verdict::Stopped && step.row.stop == Some(StopReason::NodeLeft);
    step.effects.ended = if is_withdrawn { Some(TaskEnd::Withdrawn) } else { verdict.end() };
    step
}

impl TransitionDraft<'_> {
    /// The task is over since its job was stopped or shrank.
    pub(super) fn stopped_for_good(self) -> Self {
        step_over(self, Verdict::Stopped)
    }

    /// A task that died when its job shrank is wanted again: the job's remainder owns its charge.
    pub(super) fn revived(mut self) -> Self {
        self.effects.owner = OwnerEffect::ToJob;
        self.row.charge.owner = ChargeOwner::Job;
        self.row.failures_clear();
        self.back_to_pending()
    }

    /// A task of a daemon job is for a node. What happened on another one says nothing about it.
    pub(super) fn serving(self, node: NodeId) -> Self {
        let elsewhere = self.before.node_served() != Some(node);
        let step = self.revived().with(|row| {
            row.daemon_node = Some(Box::new(node));
            (row.crashed_on, row.crashes_there, row.evicted) = (None, 0, None);
            // Nothing of a spec was begun for it yet, so no rollout waits for it.
            row.spec_version = 0;
        });
        if !elsewhere {
            return step;
        }
        step.with(|row| {
            row.exit = None;
            row.helpers = None;
            row.restarts = 0;
        })
    }
}

fn share_of(row: &TaskRow) -> Option<CapacityShare> {
    let node = row.node?;
    Some(CapacityShare { node, resources: row.charge.resources.clone(), ports: row.port_numbers() })
}
