//! `--watch`: shows a list or a status again after each change.
//!
//! A watch of the cell says that something has changed. Then the verb reads the list again, so labels, states and pages
//! mean the same as without `--watch`. It reads at most once a second, and at most a quarter of the time.

use std::time::Duration;

use borough_client::{CellItem, Client, ItemStream};
use borough_kv::env::SystemClock;
use borough_proto::v1::{PageRequest, WatchFilter};
use futures::StreamExt as _;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::list::{RowsPage, list, pages};
use crate::args::ListArguments;
use crate::exit::{Code, Failure};
use crate::output::{Printer, Style, Tabular, WatchedList, WatchedStatus};

/// Least time between two readings.
const PAUSE_LEAST: Duration = Duration::from_secs(1);
/// Time after a change in which others of the same commit arrive.
const COLLECT: Duration = Duration::from_millis(50);
/// Time between two readings of what no watch covers: cells, and the use of nodes and tasks.
const READ_INTERVAL: Duration = Duration::from_secs(5);

/// The changes that a view shows.
pub(super) enum WatchedView {
    /// Changes of the client's cell.
    Cell(Client, Box<WatchFilter>),
    /// No watch covers them.
    Unwatched,
}

impl WatchedView {
    /// Changes of the cell of `client`.
    pub(super) fn cell(client: Client, filter: WatchFilter) -> Self {
        Self::Cell(client, Box::new(filter))
    }
}

/// Says when a view must be read again.
struct ChangeNotice {
    watched: WatchedView,
    changes: Option<ItemStream<CellItem>>,
    /// The terminal has another size.
    resized: Option<Signal>,
}

/// Waits until the terminal has another size.
async fn resize(resized: &mut Option<Signal>) {
    if let Some(signal) = resized
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

impl ChangeNotice {
    /// Begins before the first reading, so that no change is missed.
    async fn open(watched: WatchedView) -> Result<Self, Failure> {
        let resized = signal(SignalKind::window_change()).ok();
        let mut notice = Self { watched, changes: None, resized };
        notice.watch().await?;
        Ok(notice)
    }

    async fn watch(&mut self) -> Result<(), Failure> {
        if let WatchedView::Cell(client, filter) = &self.watched {
            let (_, cursor) = client.cell_get().await?;
            self.changes = Some(client.watch_cell(filter.as_ref().clone(), cursor));
        }
        Ok(())
    }

    /// Begins again with the next wait: what the stream has to say about an outage is known.
    fn outage_seen(&mut self) {
        self.changes = None;
    }

    /// Waits for a change, or until the view must be read all the same.
    async fn changed(&mut self) -> Result<(), Failure> {
        loop {
            let Some(changes) = &mut self.changes else {
                if matches!(self.watched, WatchedView::Unwatched) {
                    tokio::time::sleep(READ_INTERVAL).await;
                }
                return self.watch().await;
            };
            match changes.next().await.transpose()? {
                Some(CellItem::Change(_)) => return Ok(()),
                Some(CellItem::Bookmark(_)) => {}
                Some(CellItem::Absent(absence)) => {
                    let failure = Failure::from(&*absence.error);
                    self.outage_seen();
                    return Err(failure);
                }
                Some(CellItem::Resync(_)) | None => self.changes = None,
            }
        }
    }

    /// Waits until the view must be read again. The last reading took `busy`.
    async fn next(&mut self, busy: Duration) -> Result<(), Failure> {
        let rest = tokio::time::sleep(pause(busy));
        // Taken out, so that both can be waited for.
        let mut resized = self.resized.take();
        let next = tokio::select! {
            next = self.next_change(busy, rest) => next,
            // A person who draws at a window makes many sizes.
            () = async { resize(&mut resized).await; tokio::time::sleep(COLLECT).await } => Ok(()),
        };
        self.resized = resized;
        next
    }

    async fn next_change(&mut self, busy: Duration, rest: tokio::time::Sleep) -> Result<(), Failure> {
        tokio::select! {
            changed = self.changed() => changed?,
            // The use of nodes and tasks is no change.
            () = tokio::time::sleep(READ_INTERVAL.max(pause(busy))) => return Ok(()),
        }
        let over = futures::future::join(rest, tokio::time::sleep(COLLECT));
        tokio::pin!(over);
        loop {
            tokio::select! {
                _ = &mut over => return Ok(()),
                changed = self.changed() => changed?,
            }
        }
    }
}

/// The time without reading after one that took `busy`.
fn pause(busy: Duration) -> Duration {
    busy.saturating_mul(3).max(PAUSE_LEAST)
}

/// What is said once a gateway answers a watch again.
pub(super) const ANSWERS_AGAIN: &str = "a gateway answers again; the watch goes on";

/// What a watch does while no gateway answers: it says so once, and reads again until one does. Then it says that too.
struct Absence<'p> {
    printer: &'p Printer,
    /// The first reading must succeed: a wrong address does not get better.
    has_read: bool,
    is_told: bool,
}

impl<'p> Absence<'p> {
    fn new(printer: &'p Printer) -> Self {
        Self { printer, has_read: false, is_told: false }
    }

    /// The result of a reading; `None` if it must be repeated, which is when a pause is over.
    async fn over<T>(&mut self, read: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match read {
            Err(failure) if self.has_read && failure.code() == Code::Unreachable => {
                if !std::mem::replace(&mut self.is_told, true) {
                    let why = failure.message();
                    self.printer.remark(&format!("{why}; the watch goes on as soon as one answers"));
                }
                tokio::time::sleep(PAUSE_LEAST).await;
                Ok(None)
            }
            read => {
                self.has_read = true;
                if std::mem::take(&mut self.is_told) && read.is_ok() {
                    self.printer.remark(ANSWERS_AGAIN);
                }
                read.map(Some)
            }
        }
    }
}

/// The list with at most so many rows.
pub(super) fn limited(listed: &ListArguments, rows_max: Option<u32>) -> ListArguments {
    let limit = listed.limit.into_iter().chain(rows_max).min();
    ListArguments { limit, ..listed.clone() }
}

/// Shows a list once, or with `--watch` again after each change. Without rows it says `none`.
pub(super) async fn list_or_watch<T: Tabular + Serialize>(
    watched: WatchedView,
    listed: &ListArguments,
    none: String,
    printer: &Printer,
    fetch: impl AsyncFn(PageRequest) -> Result<RowsPage<T>, Failure>,
) -> Result<Code, Failure> {
    if !listed.watching.watch {
        return list(listed, none, printer, fetch).await;
    }
    list_watch(watched, listed, WatchedList::new(printer, none), fetch).await
}

/// Shows a list again after each change.
pub(super) async fn list_watch<T: Tabular + Serialize>(
    watched: WatchedView,
    listed: &ListArguments,
    mut output: WatchedList<'_, T>,
    fetch: impl AsyncFn(PageRequest) -> Result<RowsPage<T>, Failure>,
) -> Result<Code, Failure> {
    let clock = SystemClock::shared();
    let mut absence = Absence::new(output.printer());
    let mut notice = ChangeNotice::open(watched).await?;
    let mut is_cut_told = output.is_screen();
    loop {
        let begun = clock.monotonic();
        output.begin();
        let read = pages(&limited(listed, output.rows_max()), &fetch, |rows| output.page(rows)).await;
        let Some(next) = absence.over(read).await? else {
            notice.outage_seen();
            continue;
        };
        output.end()?;
        output.printer().reader_check()?;
        if let Some(limit) = listed.limit.filter(|_| next.is_some())
            && !std::mem::replace(&mut is_cut_told, true)
        {
            output.printer().remark(&cut_text(limit, T::PLURAL));
        }
        absence.over(notice.next(clock.monotonic().saturating_sub(begun)).await).await?;
    }
}

/// What is said of rows behind those that a watch shows.
fn cut_text(limit: u32, noun: &str) -> String {
    format!(
        "there are more {noun}: with --limit {limit} the watch shows those that are the first {limit} at the time"
    )
}

/// Shows a status again after each change. `fetch` gets how many rows a screen has.
pub(super) async fn status_watch<V: Serialize>(
    watched: WatchedView,
    printer: &Printer,
    fetch: impl AsyncFn(Option<u32>) -> Result<V, Failure>,
    text: fn(&V, &Style) -> String,
) -> Result<Code, Failure> {
    let clock = SystemClock::shared();
    let (mut notice, mut output) = (ChangeNotice::open(watched).await?, WatchedStatus::new(printer));
    let mut absence = Absence::new(printer);
    loop {
        let begun = clock.monotonic();
        let read = fetch(output.rows_max()).await;
        let Some(view) = absence.over(read).await? else {
            notice.outage_seen();
            continue;
        };
        output.show(&view, text)?;
        printer.reader_check()?;
        absence.over(notice.next(clock.monotonic().saturating_sub(begun)).await).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reading_has_a_long_pause() {
        assert_eq!(pause(Duration::from_millis(10)), PAUSE_LEAST);
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(6));
    }

    #[test]
    fn a_screen_bounds_a_list() {
        let of =
            |limit, rows_max| limited(&ListArguments { limit, ..ListArguments::default() }, rows_max).limit;
        assert_eq!([of(None, None), of(Some(5), None), of(None, Some(9))], [None, Some(5), Some(9)]);
        assert_eq!([of(Some(5), Some(9)), of(Some(9), Some(5))], [Some(5), Some(5)]);
    }
}
