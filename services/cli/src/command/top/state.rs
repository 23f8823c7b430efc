//! The state of the view, and what keys and answers change in it. Pure: time is an argument.

use std::time::Duration;

use borough_proto::v1::TaskState;

use super::keys::{KeyIntent, Move};
use super::level::ScreenLevel;
use super::query::{AskProblem, CellHeader, FeedUpdate, Screen, ScreenQuery, TaskScope, WhySubject};
use super::rows::RowTarget;

/// An answer that is this much later than the interval is missed.
const PATIENCE: Duration = Duration::from_secs(3);

/// What typed text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Keys are commands.
    Keys,
    /// Keys are the text of the filter.
    Filter,
    /// The keys are explained. Any key goes back.
    Help,
}

/// How the view stands with the gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GatewayLink {
    Connected,
    /// The next answer is late.
    Silent(Duration),
    /// The last question had no answer.
    Disconnected(Duration),
}

/// The state of the view.
#[derive(Clone, Debug)]
pub(super) struct TopState {
    pub(super) cell: String,
    /// The screens, from the first to the one that is shown. Never empty.
    levels: Vec<ScreenLevel>,
    pub(super) header: Option<CellHeader>,
    pub(super) input: Input,
    /// Rows of the terminal that the body of a screen has.
    pub(super) body_rows: usize,
    /// Whether the user has asked to end.
    pub(super) is_over: bool,
    interval: Duration,
    answered_at: Duration,
    /// Why the last question had no answer.
    unanswered: Option<String>,
}

impl TopState {
    /// The view of the jobs of `cell`, which has answered at `now`.
    pub(super) fn new(cell: impl Into<String>, interval: Duration, now: Duration) -> Self {
        Self {
            cell: cell.into(),
            levels: vec![ScreenLevel::new(Screen::Jobs)],
            header: None,
            input: Input::Keys,
            body_rows: 1,
            is_over: false,
            interval,
            answered_at: now,
            unanswered: None,
        }
    }

    /// The screen that is shown.
    pub(super) fn level(&self) -> &ScreenLevel {
        // The list is never empty.
        &self.levels[self.levels.len() - 1]
    }

    fn level_mut(&mut self) -> &mut ScreenLevel {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    /// What the view asks the gateway for.
    pub(super) fn query(&self) -> ScreenQuery {
        let level = self.level();
        ScreenQuery {
            cell: self.cell.clone(),
            screen: level.screen.clone(),
            page: level.page().to_owned(),
            states: level.state_wanted().into_iter().collect::<Vec<TaskState>>(),
        }
    }

    /// How the view stands with the gateways at `now`.
    pub(super) fn link(&self, now: Duration) -> GatewayLink {
        let since = now.saturating_sub(self.answered_at);
        match &self.unanswered {
            Some(_) => GatewayLink::Disconnected(since),
            None if since > self.interval + PATIENCE => GatewayLink::Silent(since),
            None => GatewayLink::Connected,
        }
    }

    /// Why the last question had no answer.
    pub(super) fn unanswered(&self) -> Option<&str> {
        self.unanswered.as_deref()
    }

    /// Takes what the gateway said to `query`. An answer to an earlier question is dropped.
    pub(super) fn update(&mut self, query: &ScreenQuery, update: FeedUpdate, now: Duration) {
        let (heard, is_current) = (update.problem(), self.query() == *query);
        match heard {
            Some(AskProblem::Unanswered(reason)) => {
                self.unanswered = Some(reason.clone());
                return;
            }
            _ => {
                self.unanswered = None;
                self.answered_at = now;
            }
        }
        let height = self.body_rows;
        match update {
            FeedUpdate::Header(Ok(header)) if query.cell == self.cell => self.header = Some(header),
            FeedUpdate::Header(Err(AskProblem::Refused(reason))) if is_current => {
                self.level_mut().refusal = Some(reason);
            }
            FeedUpdate::Answer(Ok(answer)) if is_current => self.level_mut().answer_set(answer, height),
            FeedUpdate::Answer(Err(AskProblem::Refused(reason))) if is_current => {
                self.level_mut().refusal = Some(reason);
            }
            FeedUpdate::LogBegin if is_current => self.level_mut().log_begin(),
            FeedUpdate::LogPart { stream, data } if is_current => self.level_mut().log_push(stream, &data),
            FeedUpdate::LogEnd if is_current => self.level_mut().log_end(),
            _ => {}
        }
    }

    /// Does what a key means.
    pub(super) fn apply(&mut self, intent: KeyIntent) {
        let height = self.body_rows;
        match intent {
            KeyIntent::Quit => self.is_over = true,
            KeyIntent::Back => self.back(),
            KeyIntent::BackOrQuit if self.levels.len() == 1 => self.is_over = true,
            KeyIntent::BackOrQuit => self.back(),
            KeyIntent::Root(screen) => {
                self.levels = vec![ScreenLevel::new(screen)];
            }
            KeyIntent::Open => self.open(),
            KeyIntent::Why => self.why(),
            KeyIntent::Go(step) => self.level_mut().go(step, height),
            KeyIntent::SortNext => self.level_mut().sort_by(Move::Down),
            KeyIntent::SortPrevious => self.level_mut().sort_by(Move::Up),
            KeyIntent::SortReverse => self.level_mut().sort_reverse(),
            KeyIntent::PageNext => self.level_mut().page_next(),
            KeyIntent::PagePrevious => self.level_mut().page_previous(),
            KeyIntent::FilterBegin if self.level().is_table() => self.input = Input::Filter,
            KeyIntent::FilterBegin => {}
            KeyIntent::FilterKeep | KeyIntent::HelpEnd => self.input = Input::Keys,
            KeyIntent::FilterClear => {
                self.input = Input::Keys;
                self.level_mut().filter_set(String::new(), height);
            }
            KeyIntent::FilterPush(typed) => {
                let mut filter = self.level().filter.clone();
                // A filter longer than a line shows nothing more.
                if filter.chars().count() < 64 {
                    filter.push(typed);
                }
                self.level_mut().filter_set(filter, height);
            }
            KeyIntent::FilterPop => {
                let mut filter = self.level().filter.clone();
                filter.pop();
                self.level_mut().filter_set(filter, height);
            }
            KeyIntent::HelpBegin => self.input = Input::Help,
        }
    }

    /// The terminal has another size.
    pub(super) fn body_resize(&mut self, rows: usize) {
        self.body_rows = rows.max(1);
        let height = self.body_rows;
        self.level_mut().scroll_fit(height);
    }

    /// First takes the filter away, then the screen. The first screen stays.
    fn back(&mut self) {
        let height = self.body_rows;
        if !self.level().filter.is_empty() {
            self.level_mut().filter_set(String::new(), height);
        } else if self.levels.len() > 1 {
            self.levels.pop();
        }
    }

    /// Shows what is behind the chosen row.
    fn open(&mut self) {
        let screen = match self.level().selected() {
            Some(RowTarget::Cell(cell)) => {
                let cell = cell.clone();
                if self.cell != cell {
                    (self.cell, self.header) = (cell, None);
                }
                Screen::Jobs
            }
            Some(RowTarget::Node(node)) => Screen::Tasks(TaskScope::Node(node.clone())),
            Some(RowTarget::Job(job)) => Screen::Tasks(TaskScope::Job(job.clone())),
            Some(RowTarget::Task(task)) => Screen::Logs(task.clone()),
            None => return,
        };
        self.levels.push(ScreenLevel::new(screen));
    }

    /// Explains the chosen job or task, or the task of the output.
    fn why(&mut self) {
        let subject = match (self.level().selected(), &self.level().screen) {
            (Some(RowTarget::Job(job)), _) => WhySubject { job: job.clone(), index: None },
            (Some(RowTarget::Task(task)), _) | (_, Screen::Logs(task)) => {
                WhySubject { job: task.job.clone(), index: Some(task.index) }
            }
            _ => return,
        };
        self.levels.push(ScreenLevel::new(Screen::Why(subject)));
    }
}

impl FeedUpdate {
    /// Why it is no answer.
    fn problem(&self) -> Option<&AskProblem> {
        match self {
            Self::Header(Err(problem)) | Self::Answer(Err(problem)) => Some(problem),
            _ => None,
        }
    }
}
