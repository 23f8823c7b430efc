//! What keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::query::Screen;
use super::state::Input;

/// A step among rows or lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl Move {
    /// Where the step ends that begins at `place`, on a screen of `height` rows. It may be behind the last row.
    pub(super) fn from(self, place: usize, height: usize) -> usize {
        let page = height.saturating_sub(1).max(1);
        match self {
            Self::Up => place.saturating_sub(1),
            Self::Down => place.saturating_add(1),
            Self::PageUp => place.saturating_sub(page),
            Self::PageDown => place.saturating_add(page),
            Self::First => 0,
            Self::Last => usize::MAX - 1,
        }
    }

    /// The same step, seen from the other end.
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::PageUp => Self::PageDown,
            Self::PageDown => Self::PageUp,
            Self::First => Self::Last,
            Self::Last => Self::First,
        }
    }
}

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyIntent {
    Quit,
    Back,
    /// Back; from the first screen, quit.
    BackOrQuit,
    Root(Screen),
    Open,
    Why,
    Go(Move),
    SortNext,
    SortPrevious,
    SortReverse,
    PageNext,
    PagePrevious,
    FilterBegin,
    FilterPush(char),
    FilterPop,
    FilterKeep,
    FilterClear,
    HelpBegin,
    HelpEnd,
}

/// The keys, as the help screen explains them.
pub(super) const KEYS: &[[&str; 2]] = &[
    ["1 2 3", "cells, nodes, jobs"],
    ["Enter", "cell: its jobs; node or job: its tasks; task: its output"],
    ["w", "why the tasks of a job, or a task, are not placed"],
    ["q  Esc", "back; q on the first screen: quit"],
    ["Ctrl-C", "quit"],
    ["arrows, j k, PgUp PgDn, Home End", "choose a row, or scroll text"],
    ["s S", "sort by the next column, or the one before"],
    ["r", "reverse the order"],
    ["/", "filter rows by text; of the tasks of a job, a state such as pending is asked of the gateway"],
    ["n p", "next page, previous page: a page has 500 rows"],
    ["?", "this help"],
];

/// What a key means.
pub(super) fn intent(key: KeyEvent, input: Input) -> Option<KeyIntent> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(KeyIntent::Quit);
    }
    match input {
        Input::Keys => command(key.code),
        Input::Filter => typed(key.code),
        Input::Help => Some(KeyIntent::HelpEnd),
    }
}

fn command(code: KeyCode) -> Option<KeyIntent> {
    Some(match code {
        KeyCode::Char('q') => KeyIntent::BackOrQuit,
        KeyCode::Esc | KeyCode::Backspace => KeyIntent::Back,
        KeyCode::Char('1') => KeyIntent::Root(Screen::Cells),
        KeyCode::Char('2') => KeyIntent::Root(Screen::Nodes),
        KeyCode::Char('3') => KeyIntent::Root(Screen::Jobs),
        KeyCode::Enter | KeyCode::Char('l') => KeyIntent::Open,
        KeyCode::Char('w') => KeyIntent::Why,
        KeyCode::Up | KeyCode::Char('k') => KeyIntent::Go(Move::Up),
        KeyCode::Down | KeyCode::Char('j') => KeyIntent::Go(Move::Down),
        KeyCode::PageUp => KeyIntent::Go(Move::PageUp),
        KeyCode::PageDown | KeyCode::Char(' ') => KeyIntent::Go(Move::PageDown),
        KeyCode::Home | KeyCode::Char('g') => KeyIntent::Go(Move::First),
        KeyCode::End | KeyCode::Char('G') => KeyIntent::Go(Move::Last),
        KeyCode::Char('s') => KeyIntent::SortNext,
        KeyCode::Char('S') => KeyIntent::SortPrevious,
        KeyCode::Char('r') => KeyIntent::SortReverse,
        KeyCode::Char('n') => KeyIntent::PageNext,
        KeyCode::Char('p') => KeyIntent::PagePrevious,
        KeyCode::Char('/') => KeyIntent::FilterBegin,
        KeyCode::Char('?' | 'h') => KeyIntent::HelpBegin,
        _ => return None,
    })
}

fn typed(code: KeyCode) -> Option<KeyIntent> {
    Some(match code {
        KeyCode::Enter => KeyIntent::FilterKeep,
        KeyCode::Esc => KeyIntent::FilterClear,
        KeyCode::Backspace => KeyIntent::FilterPop,
        KeyCode::Up => KeyIntent::Go(Move::Up),
        KeyCode::Down => KeyIntent::Go(Move::Down),
        KeyCode::Char(typed) => KeyIntent::FilterPush(typed),
        _ => return None,
    })
}
