//! Decides which helper starts or ends next: a pure function of what has happened.

use std::time::Duration;

use crate::spec::HelperWhen;

/// The pause before a helper beside the command starts again: at first, and at most. Each short run doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A run of at least this time is no short one.
const RUN_LONG: Duration = Duration::from_secs(60);
/// Time between two SIGKILLs to a helper that does not end.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// The progress of one helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HelperRun {
    pub when: HelperWhen,
    /// How long it may run.
    pub deadline: Option<Duration>,
    pub stage: HelperStage,
    /// Short runs in a row.
    pub short_runs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelperStage {
    /// Never started.
    Waiting,
    Running {
        since: Duration,
        /// Its program was executed.
        executed: bool,
        terminated: bool,
        /// When it got the last SIGKILL.
        killed: Option<Duration>,
    },
    Ended {
        at: Duration,
        end: HelperEnd,
    },
}

/// What a run of a helper came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelperEnd {
    Succeeded,
    Failed,
    /// Its program could not be executed.
    NotStarted,
}

/// The progress of the attempt's own command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MainStage {
    NotStarted(StartWish),
    Running,
    Ended {
        /// Its program was executed.
        executed: bool,
        /// The end of the grace period for helpers beside it.
        kill_at: Duration,
        /// No other process of the attempt is left.
        swept: bool,
    },
}

/// Whether the attempt's own command is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartWish {
    Wanted,
    /// The attempt is to end.
    Dropped,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelperStep {
    /// Nothing before this time, if ever.
    Wait(Option<Duration>),
    Start(usize),
    Terminate(usize),
    Kill(usize),
    /// The attempt's own command starts.
    MainStart,
    /// The attempt ends without a start of its command, since it is to end.
    MainSkip,
    /// The attempt fails by this helper, without a start of its command.
    MainFail(usize),
    /// What the command has left is ended.
    Sweep,
    /// No helper has anything left to do.
    Done,
}

impl HelperRun {
    pub(super) fn new(when: HelperWhen, deadline: Option<Duration>) -> Self {
        Self { when, deadline, stage: HelperStage::Waiting, short_runs: 0 }
    }

    /// When it starts again after its end.
    fn again_at(&self, ended: Duration) -> Duration {
        let doubled = PAUSE_FIRST.saturating_mul(1 << self.short_runs.saturating_sub(1).min(16));
        ended.saturating_add(doubled.min(PAUSE_MAX))
    }

    /// Records the end of a run.
    pub(super) fn ended(&mut self, end: HelperEnd, now: Duration) {
        if let HelperStage::Running { since, .. } = self.stage {
            let is_short = now.saturating_sub(since) < RUN_LONG;
            self.short_runs = if is_short { self.short_runs.saturating_add(1) } else { 1 };
        }
        self.stage = HelperStage::Ended { at: now, end };
    }

    /// What is due for one that runs until its deadline.
    fn deadline_step(&self, at: usize, now: Duration) -> Option<HelperStep> {
        let HelperStage::Running { since, killed, .. } = self.stage else { return None };
        let due = match (killed, self.deadline) {
            (Some(killed), _) => killed.saturating_add(KILL_AGAIN),
            (None, Some(deadline)) => since.saturating_add(deadline),
            (None, None) => return Some(HelperStep::Wait(None)),
        };
        Some(if now >= due { HelperStep::Kill(at) } else { HelperStep::Wait(Some(due)) })
    }
}

/// The next step of an attempt with these helpers.
pub(super) fn helper_step(helpers: &[HelperRun], main: MainStage, now: Duration) -> HelperStep {
    match main {
        MainStage::NotStarted(wish) => before_step(helpers, wish, now),
        MainStage::Running => restart_step(helpers, now),
        MainStage::Ended { executed, kill_at, swept } => {
            if let Some(step) = beside_end_step(helpers, kill_at, now) {
                return step;
            }
            if !swept {
                HelperStep::Sweep
            } else if executed {
                after_step(helpers, now)
            } else {
                HelperStep::Done
            }
        }
    }
}

fn of_phase(helpers: &[HelperRun], when: HelperWhen) -> impl DoubleEndedIterator<Item = (usize, &HelperRun)> {
    helpers.iter().enumerate().filter(move |(_, helper)| helper.when == when)
}

/// First those before the command, one after the other; then those beside it, in their order; then the command.
fn before_step(helpers: &[HelperRun], wish: StartWish, now: Duration) -> HelperStep {
    let stopping = wish == StartWish::Dropped;
    for (at, helper) in of_phase(helpers, HelperWhen::Before) {
        match helper.stage {
            HelperStage::Waiting if stopping => return HelperStep::MainSkip,
            HelperStage::Waiting => return HelperStep::Start(at),
            HelperStage::Running { .. } => {
                return helper.deadline_step(at, now).unwrap_or(HelperStep::Wait(None));
            }
            HelperStage::Ended { end: HelperEnd::Succeeded, .. } => {}
            HelperStage::Ended { .. } if stopping => return HelperStep::MainSkip,
            HelperStage::Ended { .. } => return HelperStep::MainFail(at),
        }
    }
    if stopping {
        return HelperStep::MainSkip;
    }
    for (at, helper) in of_phase(helpers, HelperWhen::Beside) {
        match helper.stage {
            HelperStage::Waiting => return HelperStep::Start(at),
            HelperStage::Running { executed: false, .. } => return HelperStep::Wait(None),
            HelperStage::Ended { end: HelperEnd::NotStarted, .. } => return HelperStep::MainFail(at),
            // One that has ended already starts again beside the command.
            HelperStage::Running { .. } | HelperStage::Ended { .. } => {}
        }
    }
    HelperStep::MainStart
}

/// Those beside the command that have ended start again.
fn restart_step(helpers: &[HelperRun], now: Duration) -> HelperStep {
    let mut next = None;
    for (at, helper) in of_phase(helpers, HelperWhen::Beside) {
        let due = match helper.stage {
            HelperStage::Ended { at: ended, .. } => helper.again_at(ended),
            HelperStage::Waiting => Duration::ZERO,
            HelperStage::Running { .. } => continue,
        };
        if now >= due {
            return HelperStep::Start(at);
        }
        next = Some(next.map_or(due, |next: Duration| next.min(due)));
    }
    HelperStep::Wait(next)
}

/// Those beside the command end after it: the last one first, each with what is left of the grace period.
fn beside_end_step(helpers: &[HelperRun], kill_at: Duration, now: Duration) -> Option<HelperStep> {
    for (at, helper) in of_phase(helpers, HelperWhen::Beside).rev() {
        let HelperStage::Running { terminated, killed, .. } = helper.stage else { continue };
        let due = killed.map_or(kill_at, |killed| killed.saturating_add(KILL_AGAIN));
        return Some(if now >= due {
            HelperStep::Kill(at)
        } else if terminated {
            HelperStep::Wait(Some(due))
        } else {
            HelperStep::Terminate(at)
        });
    }
    None
}

/// Those after the command run one after the other. None keeps the next one from its turn.
fn after_step(helpers: &[HelperRun], now: Duration) -> HelperStep {
    for (at, helper) in of_phase(helpers, HelperWhen::After) {
        match helper.stage {
            HelperStage::Waiting => return HelperStep::Start(at),
            HelperStage::Running { .. } => {
                return helper.deadline_step(at, now).unwrap_or(HelperStep::Wait(None));
            }
            HelperStage::Ended { .. } => {}
        }
    }
    HelperStep::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn helpers(of: &[HelperWhen]) -> Vec<HelperRun> {
        of.iter().map(|&when| HelperRun::new(when, Some(ms(1_000)))).collect()
    }

    fn running(executed: bool) -> HelperStage {
        HelperStage::Running { since: ms(0), executed, terminated: false, killed: None }
    }

    const ALL: [HelperWhen; 6] = [
        HelperWhen::Before,
        HelperWhen::Beside,
        HelperWhen::After,
        HelperWhen::Before,
        HelperWhen::Beside,
        HelperWhen::After,
    ];
    const BEGIN: MainStage = MainStage::NotStarted(StartWish::Wanted);
    const STOPPING: MainStage = MainStage::NotStarted(StartWish::Dropped);

    fn ended(swept: bool) -> MainStage {
        MainStage::Ended { executed: true, kill_at: ms(500), swept }
    }

    #[test]
    fn those_before_run_one_after_the_other_and_those_beside_start_in_order() {
        let mut all = helpers(&ALL);
        assert_eq!(helper_step(&all, BEGIN, ms(0)), HelperStep::Start(0));
        all[0].stage = running(true);
        assert_eq!(helper_step(&all, BEGIN, ms(0)), HelperStep::Wait(Some(ms(1_000))));
        all[0].ended(HelperEnd::Succeeded, ms(5));
        assert_eq!(helper_step(&all, BEGIN, ms(5)), HelperStep::Start(3));
        all[3].ended(HelperEnd::Succeeded, ms(6));
        assert_eq!(helper_step(&all, BEGIN, ms(6)), HelperStep::Start(1));
        all[1].stage = running(false);
        assert_eq!(
            helper_step(&all, BEGIN, ms(6)),
            HelperStep::Wait(None),
            "its program is not executed yet"
        );
        all[1].stage = running(true);
        assert_eq!(helper_step(&all, BEGIN, ms(6)), HelperStep::Start(4));
        all[4].ended(HelperEnd::Failed, ms(7));
        assert_eq!(helper_step(&all, BEGIN, ms(7)), HelperStep::MainStart);
    }

    #[test]
    fn a_failure_before_the_command_is_one_of_the_attempt() {
        for end in [HelperEnd::Failed, HelperEnd::NotStarted] {
            let mut all = helpers(&ALL);
            all[0].ended(end, ms(1));
            assert_eq!(helper_step(&all, BEGIN, ms(1)), HelperStep::MainFail(0));
            assert_eq!(helper_step(&all, STOPPING, ms(1)), HelperStep::MainSkip, "the stop has ended it");
        }
        let mut beside = helpers(&[HelperWhen::Beside]);
        beside[0].ended(HelperEnd::NotStarted, ms(1));
        assert_eq!(helper_step(&beside, BEGIN, ms(1)), HelperStep::MainFail(0));
        let mut late = helpers(&[HelperWhen::Before]);
        late[0].stage = running(true);
        assert_eq!(helper_step(&late, BEGIN, ms(1_000)), HelperStep::Kill(0));
    }

    #[test]
    fn an_order_to_stop_lets_nothing_start() {
        let mut all = helpers(&ALL);
        assert_eq!(helper_step(&all, STOPPING, ms(0)), HelperStep::MainSkip);
        all[0].stage = running(true);
        assert_eq!(helper_step(&all, STOPPING, ms(0)), HelperStep::Wait(Some(ms(1_000))));
        all[0].ended(HelperEnd::Succeeded, ms(1));
        assert_eq!(helper_step(&all, STOPPING, ms(1)), HelperStep::MainSkip);
        assert_eq!(helper_step(&helpers(&[HelperWhen::Beside]), STOPPING, ms(1)), HelperStep::MainSkip);
    }

    #[test]
    fn one_beside_the_command_starts_again_after_growing_pauses() {
        let mut all = helpers(&[HelperWhen::Beside]);
        let mut pauses = Vec::new();
        let mut now = ms(0);
        for _ in 0..8 {
            all[0].stage =
                HelperStage::Running { since: now, executed: true, terminated: false, killed: None };
            all[0].ended(HelperEnd::Succeeded, now);
            let HelperStep::Wait(Some(at)) = helper_step(&all, MainStage::Running, now) else { panic!() };
            assert_eq!(helper_step(&all, MainStage::Running, at), HelperStep::Start(0));
            pauses.push((at - now).as_millis());
            now = at;
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        all[0].stage = HelperStage::Running { since: now, executed: true, terminated: false, killed: None };
        let later = now + RUN_LONG;
        all[0].ended(HelperEnd::Failed, later);
        assert_eq!(helper_step(&all, MainStage::Running, later), HelperStep::Wait(Some(later + ms(500))));
    }

    #[test]
    fn those_beside_end_in_reverse_order_within_the_grace_period() {
        let mut all = helpers(&ALL);
        (all[1].stage, all[4].stage) = (running(true), running(true));
        assert_eq!(helper_step(&all, ended(false), ms(0)), HelperStep::Terminate(4));
        all[4].stage = HelperStage::Running { since: ms(0), executed: true, terminated: true, killed: None };
        assert_eq!(helper_step(&all, ended(false), ms(0)), HelperStep::Wait(Some(ms(500))));
        assert_eq!(helper_step(&all, ended(false), ms(500)), HelperStep::Kill(4));
        all[4].stage =
            HelperStage::Running { since: ms(0), executed: true, terminated: true, killed: Some(ms(500)) };
        assert_eq!(helper_step(&all, ended(false), ms(500)), HelperStep::Wait(Some(ms(600))));
        assert_eq!(helper_step(&all, ended(false), ms(600)), HelperStep::Kill(4));
        all[4].ended(HelperEnd::Failed, ms(600));
        assert_eq!(helper_step(&all, ended(false), ms(600)), HelperStep::Kill(1), "no grace is left for it");
        all[1].ended(HelperEnd::Failed, ms(600));
        assert_eq!(helper_step(&all, ended(false), ms(600)), HelperStep::Sweep);
    }

    #[test]
    fn those_after_run_once_whatever_they_come_to() {
        let mut all = helpers(&ALL);
        assert_eq!(helper_step(&all, ended(true), ms(0)), HelperStep::Start(2));
        all[2].stage = running(true);
        assert_eq!(helper_step(&all, ended(true), ms(1_000)), HelperStep::Kill(2));
        all[2].ended(HelperEnd::Failed, ms(1_000));
        assert_eq!(helper_step(&all, ended(true), ms(1_000)), HelperStep::Start(5));
        all[5].ended(HelperEnd::NotStarted, ms(1_000));
        assert_eq!(helper_step(&all, ended(true), ms(1_000)), HelperStep::Done);
        let never = MainStage::Ended { executed: false, kill_at: ms(0), swept: true };
        assert_eq!(helper_step(&helpers(&ALL), never, ms(0)), HelperStep::Done, "the command never ran");
    }
}
