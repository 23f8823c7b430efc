//! Lists and statuses that are shown again after each change. On a terminal they are redrawn. Otherwise only what has
//! changed is written: rows, or one object per line.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _};

use ratatui::text::Span;
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use super::foreign::{lines_shown, painted_shown};
use super::table::{Tabular, table, table_page};
use super::text::time;
use super::{Printer, Style};
use crate::args::OutputFormat;
use crate::exit::Failure;

/// What has happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RowEvent {
    /// It was there at the begin.
    Listed,
    Added,
    Changed,
    Removed,
}

/// An object of the stream.
#[derive(Serialize)]
struct RowChange<'a, T> {
    event: RowEvent,
    name: &'a str,
    /// Absent if the row was removed.
    object: Option<&'a T>,
}

/// A row as it was shown last.
struct ShownRow {
    name: String,
    hash: u64,
    /// The reading that had it last.
    reading: u64,
}

/// Finds what has changed between readings of a list. Keeps a name and a number per row.
#[derive(Default)]
struct RowChanges {
    shown: BTreeMap<String, ShownRow>,
    reading: u64,
}

impl RowChanges {
    /// What has happened to a row that this reading has; `None`: nothing.
    fn row(&mut self, key: String, name: String, hash: u64) -> Option<RowEvent> {
        let (reading, is_first) = (self.reading, self.reading == 0);
        let before = self.shown.insert(key, ShownRow { name, hash, reading });
        match before {
            None if is_first => Some(RowEvent::Listed),
            None => Some(RowEvent::Added),
            Some(before) => (before.hash != hash).then_some(RowEvent::Changed),
        }
    }

    /// Ends a reading. Returns the names of the rows that are gone, in order.
    fn end(&mut self) -> Vec<String> {
        let (reading, mut names) = (self.reading, Vec::new());
        self.shown.retain(|_, row| {
            let is_there = row.reading == reading;
            if !is_there {
                names.push(std::mem::take(&mut row.name));
            }
            is_there
        });
        self.reading = self.reading.saturating_add(1);
        names
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The columns of the terminal behind standard output; `None`: it is none, or does not say.
pub(super) fn columns() -> Option<usize> {
    let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    Some(columns).filter(|columns| *columns > 0)
}

/// A terminal that is redrawn.
pub(crate) struct Screen {
    is_clear: bool,
}

impl Screen {
    /// The terminal behind standard output, if answers are for people and it can be redrawn.
    fn find(printer: &Printer) -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        let is_screen = !printer.is_machine() && io::stdout().is_terminal() && !is_dumb;
        is_screen.then_some(Self { is_clear: false })
    }

    /// Its lines; 24 if it does not say how many.
    fn lines() -> usize {
        let lines = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        if lines == 0 { 24 } else { lines }
    }

    /// `more` says how to see what has no room.
    fn draw(&mut self, printer: &Printer, text: &str, more: &str) -> Result<(), Failure> {
        let shown = if printer.color { painted_shown(text) } else { lines_shown(text).into_owned() };
        let frame = frame(&shown, Self::lines(), columns().unwrap_or(usize::MAX), more);
        let clear = if self.is_clear { "" } else { "\x1b[2J" };
        self.is_clear = true;
        printer.bytes(format!("{clear}{frame}").as_bytes())
    }
}

/// A line in so many columns. A longer one ends with an ellipsis. Colours take no columns.
pub(super) fn line_cut(line: &str, columns: usize) -> String {
    let (mut kept, mut taken, mut behind) = (String::new(), 0_usize, None);
    let mut characters = line.chars();
    while let Some(each) = characters.next() {
        if each == '\u{1b}' {
            kept.push(each);
            let ends = |sign: &char| sign.is_ascii_alphabetic();
            for sign in characters.by_ref() {
                kept.push(sign);
                if ends(&sign) {
                    break;
                }
            }
            continue;
        }
        let wide = Span::raw(&*each.encode_utf8(&mut [0; 4])).width();
        if taken + wide >= columns && behind.is_none() {
            // The ellipsis stands here if something follows.
            behind = Some(kept.len());
        }
        taken += wide;
        kept.push(each);
        if taken > columns {
            let cut = behind.and_then(|at| kept.get(..at)).unwrap_or_default();
            let reset = if cut.contains('\u{1b}') { "\u{1b}[0m" } else { "" };
            return format!("{cut}…{reset}");
        }
    }
    kept
}

/// What draws a text over the one before, in so many lines and columns of a terminal. Long lines are cut, so that they
/// take no other line's place.
fn frame(text: &str, lines: usize, columns: usize, more: &str) -> String {
    let all: Vec<&str> = text.lines().collect();
    let room = lines.saturating_sub(1).max(1);
    let mut frame = String::from("\x1b[?7l\x1b[H");
    let fits = all.len() <= room;
    let shown = if fits { room } else { room.saturating_sub(1) };
    for line in all.iter().take(shown) {
        frame.push_str(&line_cut(line, columns));
        frame.push_str("\x1b[K\r\n");
    }
    if !fits {
        frame.push_str(&format!("... more below; {more}\x1b[K\r\n"));
    }
    frame.push_str("\x1b[J\x1b[?7h");
    frame
}

/// A row of a list that is watched without a screen: with when it was seen so, and why it is shown.
struct SeenRow<T> {
    row: T,
    seen: String,
}

impl<T: Tabular> Tabular for SeenRow<T> {
    const PLURAL: &'static str = T::PLURAL;

    fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
        let (mut heads, more) = T::heads();
        heads.push("SEEN");
        (heads, more)
    }

    fn cells(&self) -> (Vec<String>, Vec<String>) {
        let (mut cells, more) = self.row.cells();
        cells.push(self.seen.clone());
        (cells, more)
    }
}

fn event_word(event: RowEvent) -> &'static str {
    match event {
        RowEvent::Listed => "listed",
        RowEvent::Added => "added",
        RowEvent::Changed => "changed",
        RowEvent::Removed => "removed",
    }
}

/// A list that is watched.
pub(crate) struct WatchedList<'p, T> {
    printer: &'p Printer,
    screen: Option<Screen>,
    /// The rows of this reading, for the screen.
    rows: Vec<T>,
    changes: RowChanges,
    widths: Vec<usize>,
    /// What is said of a list without rows.
    none: String,
    /// Whether rows leave the list only because newer ones came.
    is_log: bool,
}

impl<'p, T: Tabular + Serialize> WatchedList<'p, T> {
    pub(crate) fn new(printer: &'p Printer, none: String) -> Self {
        let screen = Screen::find(printer);
        let changes = RowChanges::default();
        Self { printer, screen, rows: Vec::new(), changes, widths: Vec::new(), none, is_log: false }
    }

    /// A list of the newest events: one that leaves it is not removed.
    pub(crate) fn of_log(printer: &'p Printer, none: String) -> Self {
        Self { is_log: true, ..Self::new(printer, none) }
    }

    /// Returns true if it is drawn over the one before.
    pub(crate) fn is_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// The most rows that are shown; `None`: all.
    pub(crate) fn rows_max(&self) -> Option<u32> {
        self.screen.as_ref().map(|_| u32::try_from(Screen::lines()).unwrap_or(u32::MAX))
    }

    pub(crate) fn printer(&self) -> &'p Printer {
        self.printer
    }

    /// Begins a reading, also after one that has failed.
    pub(crate) fn begin(&mut self) {
        self.rows.clear();
    }

    /// What a reader sees of a row. A change of the rest is none to show again.
    fn shown(&self, row: &T) -> String {
        match self.printer.format {
            OutputFormat::Json | OutputFormat::Yaml => serde_json::to_string(row).unwrap_or_default(),
            OutputFormat::Table => row.cells().0.join("\t"),
            OutputFormat::Wide => {
                let (cells, more) = row.cells();
                [cells, more].concat().join("\t")
            }
        }
    }

    /// Shows some rows of a reading.
    pub(crate) fn page(&mut self, rows: Vec<T>) -> Result<(), Failure> {
        if self.screen.is_some() {
            self.rows.extend(rows);
            return Ok(());
        }
        let mut changed = Vec::new();
        for row in rows {
            let hash = hash_of(&self.shown(&row));
            if let Some(event) = self.changes.row(row.key(), row.name(), hash) {
                changed.push((event, row));
            }
        }
        if self.printer.is_machine() {
            return changed.iter().try_for_each(|(event, row)| {
                let change = RowChange { event: *event, name: &row.name(), object: Some(row) };
                self.printer.item(&change, |_| String::new())
            });
        }
        if changed.is_empty() {
            return Ok(());
        }
        let style = self.printer.style();
        if self.is_log {
            let rows: Vec<T> = changed.into_iter().map(|(_, row)| row).collect();
            return self.printer.text(&table_page(&rows, &style, &mut self.widths));
        }
        let at = time(style.now_ms.unwrap_or(0));
        let seen = |(event, row)| SeenRow { row, seen: format!("{at} {}", event_word(event)) };
        let rows: Vec<SeenRow<T>> = changed.into_iter().map(seen).collect();
        self.printer.text(&table_page(&rows, &style, &mut self.widths))
    }

    /// Ends a reading.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        if let Some(screen) = &mut self.screen {
            let rows = std::mem::take(&mut self.rows);
            let text = if rows.is_empty() { self.none.clone() } else { table(&rows, &self.printer.style()) };
            return screen.draw(self.printer, &text, "--limit and --page choose what is shown");
        }
        let is_first = self.changes.reading == 0;
        let gone = self.changes.end();
        for name in gone.into_iter().filter(|_| !self.is_log) {
            let change: RowChange<'_, T> = RowChange { event: RowEvent::Removed, name: &name, object: None };
            let at = time(self.printer.style().now_ms.unwrap_or(0));
            let gone =
                |change: &RowChange<'_, T>| format!("{at} {} is not in the list any more", change.name);
            self.printer.item(&change, gone)?;
        }
        if is_first && self.changes.shown.is_empty() && !self.printer.is_machine() {
            self.printer.remark(&self.none);
        }
        Ok(())
    }
}

/// A status that is watched.
pub(crate) struct WatchedStatus<'p> {
    printer: &'p Printer,
    screen: Option<Screen>,
    last: Option<u64>,
}

impl<'p> WatchedStatus<'p> {
    pub(crate) fn new(printer: &'p Printer) -> Self {
        Self { printer, screen: Screen::find(printer), last: None }
    }

    /// The most rows that a status shows; `None`: all.
    pub(crate) fn rows_max(&self) -> Option<u32> {
        self.screen.as_ref().map(|_| u32::try_from(Screen::lines()).unwrap_or(u32::MAX))
    }

    /// Shows a status, if it differs from the last one.
    pub(crate) fn show<V: Serialize>(
        &mut self,
        view: &V,
        text: fn(&V, &Style) -> String,
    ) -> Result<(), Failure> {
        let style = self.printer.style();
        if let Some(screen) = &mut self.screen {
            let shown = self.printer.typed.completed_answer(&text(view, &style));
            return screen.draw(
                self.printer,
                &shown,
                "a taller terminal, or the command without -w, shows it",
            );
        }
        // An age changes with each reading, and is no change to write.
        let style = Style { now_ms: None, ..style };
        let shown = match self.printer.format {
            OutputFormat::Table | OutputFormat::Wide => text(view, &style),
            OutputFormat::Json | OutputFormat::Yaml => serde_json::to_string(view).unwrap_or_default(),
        };
        let hash = hash_of(&shown);
        let is_first = self.last.is_none();
        if self.last.replace(hash) == Some(hash) {
            return Ok(());
        }
        // An empty line divides texts.
        self.printer.item(view, |_| if is_first { shown } else { format!("\n{shown}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changes_between_readings_are_found() {
        let mut changes = RowChanges::default();
        let mut read = |rows: &[(&str, u64)]| {
            let mut found = Vec::new();
            for (name, hash) in rows {
                let event = changes.row((*name).to_owned(), (*name).to_owned(), *hash);
                found.extend(event.map(|event| format!("{event:?} {name}")));
            }
            found.extend(changes.end().into_iter().map(|name| format!("Removed {name}")));
            found
        };
        assert_eq!(read(&[("a", 1), ("b", 1)]), ["Listed a", "Listed b"]);
        assert_eq!(read(&[("a", 1), ("b", 1)]), Vec::<String>::new());
        assert_eq!(read(&[("a", 2), ("c", 1)]), ["Changed a", "Added c", "Removed b"]);
        assert_eq!(read(&[("b", 1)]), ["Added b", "Removed a", "Removed c"]);
        assert_eq!(read(&[]), ["Removed b"]);
    }

    #[test]
    fn a_line_that_is_cut_ends_with_an_ellipsis() {
        assert_eq!(line_cut("NAME  STATE", 11), "NAME  STATE");
        assert_eq!(line_cut("NAME  STATE", 8), "NAME  S…");
        assert_eq!(line_cut("\u{1b}[31mred\u{1b}[0m", 3), "\u{1b}[31mred\u{1b}[0m");
        assert_eq!(line_cut("\u{1b}[31mlong\u{1b}[0m", 3), "\u{1b}[31mlo…\u{1b}[0m");
        assert_eq!(line_cut("漢字漢字", 5), "漢字…");
        assert_eq!(line_cut("漢字漢字", 4), "漢…");
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        let text = |count: usize| (0..count).map(|line| format!("line {line}\n")).collect::<String>();
        let lines = |frame: &str| frame.matches("\r\n").count();
        assert_eq!(
            frame(&text(2), 5, 80, "x"),
            "\x1b[?7l\x1b[Hline 0\x1b[K\r\nline 1\x1b[K\r\n\x1b[J\x1b[?7h"
        );
        assert_eq!(lines(&frame(&text(4), 5, 80, "x")), 4);
        let cut = frame(&text(5), 5, 80, "x");
        assert_eq!(lines(&cut), 4);
        assert!(cut.contains("line 2") && !cut.contains("line 3") && cut.contains("more below"), "{cut:?}");
        assert_eq!(lines(&frame(&text(9), 0, 80, "x")), 1, "a terminal without a size");
    }
}
