//! `top`: a full-screen view of cells, nodes, jobs and tasks.
//!
//! `state` and `level` are what the view knows, `keys` what keys mean, `render` how it looks: pure functions over data.
//! `feed` asks the gateway, and `terminal` holds the terminal. The loop here passes events between them.

mod feed;
mod fit;
mod keys;
mod level;
mod log_tail;
mod query;
mod render;
mod rows;
mod state;
mod terminal;

use std::time::Duration;

use borough_kv::env::SystemClock;
use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::sync::{mpsc, watch};

use self::feed::{Feed, Said};
use self::render::{Palette, body_rows, draw};
use self::state::TopState;
use self::terminal::{EndSignals, TopTerminal, broken, events, terminal_check};
use crate::args::{Global, TopArguments};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// How often the view is drawn at least: it shows for how long no gateway answers.
const TICK: Duration = Duration::from_secs(1);
/// Answers that wait for the view at most.
const ANSWERS_MAX: usize = 16;

pub(super) async fn run(
    global: &Global,
    arguments: &TopArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    terminal_check(printer)?;
    let client = connect::cell_client(global).await?;
    // A wrong address, token or cell is reported as every verb does it, before the screen is taken.
    client.cell_get().await?;
    let clock = SystemClock::shared();
    let mut state = TopState::new(client.cell(), arguments.interval, clock.monotonic());
    let palette = if printer.is_colored() { Palette::Colored } else { Palette::Plain };
    let mut signals = EndSignals::listen()?;
    let mut terminal = TopTerminal::enter()?;
    let mut events = events();
    let (wanted, questions) = watch::channel(state.query());
    let (said, mut answers) = mpsc::channel::<Said>(ANSWERS_MAX);
    tokio::spawn(Feed { client, wanted: questions, said, interval: arguments.interval }.run());
    let mut tick = tokio::time::interval(TICK);
    while !state.is_over {
        let size = terminal.size().map_err(|error| broken(&error))?;
        state.body_resize(body_rows(size.height, &state.level().screen));
        let now = clock.monotonic();
        terminal.draw(|frame| draw(frame, &state, now, palette)).map_err(|error| broken(&error))?;
        tokio::select! {
            event = events.recv() => {
                event_take(&mut state, &event.ok_or_else(|| ended("the terminal has gone"))?);
                while let Ok(event) = events.try_recv() {
                    event_take(&mut state, &event);
                }
            }
            answer = answers.recv() => {
                let mut next = Some(answer.ok_or_else(|| ended("nothing asks the gateway any more"))?);
                while let Some((query, update)) = next {
                    state.update(&query, update, clock.monotonic());
                    next = answers.try_recv().ok();
                }
            }
            _ = tick.tick() => {}
            () = signals.received() => {
                return Err(Failure::new(Code::Interrupted, "interrupted by a signal"));
            }
        }
        let query = state.query();
        wanted.send_if_modified(|asked| {
            let is_other = *asked != query;
            if is_other {
                asked.clone_from(&query);
            }
            is_other
        });
    }
    Ok(Code::Done)
}

fn ended(what: &str) -> Failure {
    Failure::new(Code::Failed, what)
}

/// Takes a key. A new size is read before the next drawing.
fn event_take(state: &mut TopState, event: &Event) {
    if let Event::Key(key) = event
        && key.kind != KeyEventKind::Release
        && let Some(intent) = keys::intent(*key, state.input)
    {
        state.apply(intent);
    }
}

#[cfg(test)]
mod tests;
