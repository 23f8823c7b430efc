//! The events of a watched list. Its limit is of the events from before. What happens from then on is shown whole,
//! however much of it happens between two readings.

use std::cell::RefCell;

use borough_client::{Client, ClientError};
use borough_proto::v1::{Cursor, Event, WatchFilter};

use crate::args::EVENTS_MAX;
use crate::output::Printer;

/// Events that the second reading asks for at first. It doubles the number until one of them is known.
const NEW_FIRST: u32 = 100;

/// What one reading after the other has shown.
pub(super) struct EventLog<'l> {
    client: &'l Client,
    filter: WatchFilter,
    /// The most events from before.
    limit: u32,
    /// A terminal shows the newest events each time.
    is_screen: bool,
    printer: &'l Printer,
    /// Everything up to here was shown; `None`: nothing was.
    shown: RefCell<Option<Cursor>>,
}

impl<'l> EventLog<'l> {
    pub(super) fn new(client: &'l Client, filter: WatchFilter, limit: u32, printer: &'l Printer) -> Self {
        Self { client, filter, limit, is_screen: false, printer, shown: RefCell::new(None) }
    }

    /// Shows the newest events each time.
    pub(super) fn on_screen(self, is_screen: bool) -> Self {
        Self { is_screen, ..self }
    }

    /// The newest events, as far as a screen has `lines`, at first. From then on all that came since.
    pub(super) async fn read(&self, lines: u32) -> Result<Vec<Event>, ClientError> {
        let shown = self.shown.borrow().clone().filter(|_| !self.is_screen);
        let Some(shown) = shown else {
            let limit = if self.is_screen { lines } else { self.limit };
            let answer = self.client.event_list(self.filter.clone(), limit).await?;
            *self.shown.borrow_mut() = answer.cursor;
            return Ok(answer.events);
        };
        let mut most = NEW_FIRST;
        loop {
            let answer = self.client.event_list(self.filter.clone(), most).await?;
            let count = answer.events.len();
            let events: Vec<Event> =
                answer.events.into_iter().filter(|event| is_behind(event.cursor.as_ref(), &shown)).collect();
            let is_whole = events.len() < count || u32::try_from(count).is_ok_and(|count| count < most);
            if !is_whole && most < EVENTS_MAX {
                most = most.saturating_mul(4).min(EVENTS_MAX);
                continue;
            }
            if !is_whole && !answer.trimmed {
                self.printer.remark(&missed_text());
            }
            *self.shown.borrow_mut() = answer.cursor;
            return Ok(events);
        }
    }
}

/// Returns true if an event is later than all that was shown. A cell that was imported begins a new history.
fn is_behind(event: Option<&Cursor>, shown: &Cursor) -> bool {
    let order = |cursor: &Cursor| (cursor.store_epoch, cursor.stamp.clone());
    event.is_none_or(|event| order(event) > order(shown))
}

fn missed_text() -> String {
    format!(
        "more than {EVENTS_MAX} events came at once, and the oldest of them are left out; to see each change: borough event watch"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_new_if_it_is_later_than_what_was_shown() {
        let at = |store_epoch, stamp: u8| Cursor { store_epoch, stamp: vec![stamp; 10].into() };
        let shown = at(1, 7);
        let of = |store_epoch, stamp| is_behind(Some(&at(store_epoch, stamp)), &shown);
        assert_eq!([of(1, 6), of(1, 7), of(1, 8), of(2, 1)], [false, false, true, true]);
        assert!(is_behind(None, &shown), "an older gateway does not say");
    }
}
