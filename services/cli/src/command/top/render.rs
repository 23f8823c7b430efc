//! Draws the view. Meaning never hangs on colour alone: states are words, and a `>` marks the chosen row.

use std::time::Duration;

use borough_model::resource::cpu_display;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::fit::{FittedColumn, GAP, columns_fit, cut, wrapped};
use super::keys::KEYS;
use super::level::{Content, ScreenLevel};
use super::query::{CellAmounts, CellHeader, Screen};
use super::rows::{TableRow, Tone};
use super::state::{GatewayLink, Input, TopState};
use crate::output::{bytes, line_shown, tally};

/// The stats of the cell and the title above the body, the remark and the keys below it.
const FRAME_ROWS: usize = 7;
/// Terminals of so many columns have room for bars.
const BAR_COLUMNS_MIN: usize = 110;
const BAR_COLUMNS: usize = 30;

/// Whether colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    Plain,
    Colored,
}

impl Palette {
    fn tone(self, tone: Tone) -> Style {
        let color = match tone {
            _ if self == Self::Plain => return Style::new(),
            Tone::Plain => return Style::new(),
            Tone::Good => Color::Green,
            Tone::Changing => Color::Yellow,
            Tone::Bad => Color::Red,
        };
        Style::new().fg(color)
    }
}

/// The rows of a terminal of `rows` rows that the body of a screen has.
pub(super) fn body_rows(rows: u16, screen: &Screen) -> usize {
    let head = usize::from(!matches!(screen, Screen::Logs(_) | Screen::Why(_)));
    usize::from(rows).saturating_sub(FRAME_ROWS - 1 + head).max(1)
}

/// Draws the view as it is at `now`.
pub(super) fn draw(frame: &mut Frame<'_>, state: &TopState, now: Duration, palette: Palette) {
    let area = frame.area();
    let columns = usize::from(area.width);
    let mut lines = header_lines(state, columns);
    lines.push(title_line(state.level(), columns));
    let footer = [remark_line(state, now, columns), keys_line(state, columns)];
    let room = usize::from(area.height).saturating_sub(lines.len() + footer.len());
    let mut body = if state.input == Input::Help {
        KEYS.iter().flat_map(|[key, meaning]| help_lines(key, meaning, columns)).collect()
    } else {
        body_lines(state.level(), Room { rows: room, columns }, palette)
    };
    body.resize(room, Line::default());
    lines.append(&mut body);
    lines.extend(footer);
    for (y, line) in (0..area.height).zip(lines) {
        let row = Rect { y: area.y + y, height: 1, ..area };
        frame.render_widget(line, row);
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(percent).unwrap_or(u64::MAX)
}

fn header_lines(state: &TopState, columns: usize) -> Vec<Line<'static>> {
    let Some(header) = &state.header else {
        let first = format!("cell {}: waiting for an answer", line_shown(&state.cell));
        return vec![Line::from(first), Line::default(), Line::default()];
    };
    let CellHeader { nodes, nodes_ready, jobs, .. } = header;
    let tasks = if header.tasks.is_empty() { "none" } else { &header.tasks };
    let first = format!(
        "cell {} {}, nodes {nodes_ready}/{nodes} ready, jobs {jobs}, tasks {tasks}",
        line_shown(&header.cell),
        header.state
    );
    let cpu = amounts_line("cpu", header.cpu_millis, cpu_display, columns);
    let memory = amounts_line("memory", header.memory_bytes, bytes, columns);
    vec![Line::from(cut(&first, columns)), Line::from(cpu), Line::from(memory)]
}

fn amounts_line(name: &str, amounts: CellAmounts, show: fn(u64) -> String, columns: usize) -> String {
    let CellAmounts { capacity, allocated, in_use } = amounts;
    let used = match in_use {
        None => "use not known".to_owned(),
        Some(in_use) => format!("{} in use ({}%)", show(in_use), percent(in_use, capacity)),
    };
    let share = percent(allocated, capacity);
    let text = format!("{name:6}  {} of {} allocated ({share}%), {used}", show(allocated), show(capacity));
    if columns < BAR_COLUMNS_MIN {
        return cut(&text, columns);
    }
    format!("{}  {}", cut(&text, 72), bar(amounts))
}

/// `#` for what is in use, `=` for what is allocated beyond that.
fn bar(amounts: CellAmounts) -> String {
    let columns = |part| {
        let share = u128::from(part) * BAR_COLUMNS as u128;
        let columns = share.div_ceil(u128::from(amounts.capacity.max(1)));
        usize::try_from(columns).unwrap_or(usize::MAX).min(BAR_COLUMNS)
    };
    let used = columns(amounts.in_use.unwrap_or(0));
    let allocated = columns(amounts.allocated).saturating_sub(used);
    let free = BAR_COLUMNS - used - allocated;
    format!("[{}{}{}] # in use, = allocated", "#".repeat(used), "=".repeat(allocated), ".".repeat(free))
}

fn title_line(level: &ScreenLevel, columns: usize) -> Line<'static> {
    let mut parts = vec![line_shown(&level.screen.title()).into_owned()];
    if let Content::Rows { all, shown } = &level.content {
        if level.filter.is_empty() {
            parts.push(tally(all.len(), "row"));
        } else {
            parts.push(format!("{} of {}", shown.len(), tally(all.len(), "row")));
        }
        let head = level.columns().get(level.sort.column).map_or("", |column| column.head);
        let direction = if level.sort.is_descending { "descending" } else { "ascending" };
        parts.push(format!("by {head} {direction}"));
    }
    if level.has_next_page() || level.page_number() > 1 {
        let more = if level.has_next_page() { ", more follow" } else { ", the last" };
        parts.push(format!("page {}{more}", level.page_number()));
    }
    let shown = columns_fit(level.columns(), &level.rows(), level.sort.column, columns.saturating_sub(GAP));
    match level.columns().len().saturating_sub(shown.len()) {
        hidden if hidden > 0 && matches!(level.content, Content::Rows { .. }) => {
            parts.push(format!("{} hidden (s)", tally(hidden, "column")));
        }
        _ => {}
    }
    if let Content::Log { is_over: true, .. } = &level.content {
        parts.push("the attempt has ended".to_owned());
    }
    if !level.is_table() && level.scroll > 0 {
        parts.push(match level.screen {
            Screen::Logs(_) => format!("{} above the end", tally(level.scroll, "line")),
            _ => format!("from line {}", level.scroll + 1),
        });
    }
    let text = cut(&format!("-- {} ", parts.join(", ")), columns);
    let kept = text.trim_end();
    let dashes = columns.saturating_sub(super::fit::width(kept) + 1);
    Line::from(Span::styled(format!("{kept} {}", "-".repeat(dashes)), Modifier::BOLD))
}

/// What a body has of the terminal.
#[derive(Clone, Copy, Debug)]
struct Room {
    rows: usize,
    columns: usize,
}

fn body_lines(level: &ScreenLevel, room: Room, palette: Palette) -> Vec<Line<'static>> {
    match &level.content {
        Content::Awaited => match &level.refusal {
            Some(refusal) => {
                wrapped(&[refused_text(refusal)], room.columns).into_iter().map(Line::from).collect()
            }
            None => vec![Line::from("waiting for an answer")],
        },
        Content::Rows { all, .. } if all.is_empty() => vec![Line::from("none")],
        Content::Rows { all, shown } if shown.is_empty() => {
            let text = format!("none of {} has {:?}; Esc shows all", tally(all.len(), "row"), level.filter);
            vec![Line::from(line_shown(&text).into_owned())]
        }
        Content::Rows { .. } => table_lines(level, room, palette),
        Content::Lines(_) => {
            let lines = wrapped(&level.lines(), room.columns);
            lines.into_iter().skip(level.scroll).map(Line::from).collect()
        }
        Content::Log { .. } => {
            let mut lines = wrapped(&level.lines(), room.columns);
            let end = lines.len().saturating_sub(level.scroll).max(room.rows).min(lines.len());
            lines.truncate(end);
            lines.drain(..end.saturating_sub(room.rows));
            lines.into_iter().map(Line::from).collect()
        }
    }
}

/// The head and the rows of a table from the first on the terminal on.
fn table_lines(level: &ScreenLevel, room: Room, palette: Palette) -> Vec<Line<'static>> {
    let rows = level.rows();
    let fitted = columns_fit(level.columns(), &rows, level.sort.column, room.columns.saturating_sub(GAP));
    let mut head = vec![Span::raw(" ".repeat(GAP))];
    for fit in &fitted {
        let text = level.columns().get(fit.column).map_or("", |column| column.head);
        let is_order = fit.column == level.sort.column;
        let style = if is_order { Modifier::BOLD | Modifier::UNDERLINED } else { Modifier::BOLD };
        head.push(Span::styled(text, style));
        head.push(Span::raw(" ".repeat((fit.width + GAP).saturating_sub(text.len()))));
    }
    let selected = level.selected_place();
    let lines = rows.iter().enumerate().skip(level.scroll).take(room.rows).map(|(place, row)| {
        let is_selected = selected == Some(place);
        let mut spans = vec![Span::raw(if is_selected { "> " } else { "  " })];
        spans.extend(row_spans(row, &fitted, palette));
        let line = Line::from(spans);
        if is_selected { line.style(Modifier::REVERSED) } else { line }
    });
    std::iter::once(Line::from(head)).chain(lines).collect()
}

fn row_spans(row: &TableRow, fitted: &[FittedColumn], palette: Palette) -> Vec<Span<'static>> {
    let spans = fitted.iter().flat_map(|fit| {
        let value = row.values.get(fit.column).cloned().unwrap_or_default();
        [Span::styled(cut(&value.text, fit.width), palette.tone(value.tone)), Span::raw(" ".repeat(GAP))]
    });
    spans.collect()
}

fn help_lines(key: &str, meaning: &str, columns: usize) -> Vec<Line<'static>> {
    let lines = wrapped(&[meaning.to_owned()], columns.saturating_sub(36));
    let lines = lines.into_iter().enumerate().map(|(place, text)| {
        let key = if place == 0 { key } else { "" };
        Line::from(format!("  {}{text}", cut(key, 34)))
    });
    lines.collect()
}

fn refused_text(refusal: &str) -> String {
    format!("refused: {}", line_shown(refusal))
}

/// What the user must know now: no connection, a refusal, or the text of the filter.
fn remark_line(state: &TopState, now: Duration, columns: usize) -> Line<'static> {
    let bold = |text: String| Line::from(Span::styled(cut(&text, columns), Modifier::BOLD));
    match state.link(now) {
        GatewayLink::Disconnected(since) => {
            let reason = line_shown(state.unanswered().unwrap_or_default());
            return bold(format!("disconnected for {} s, retrying: {reason}", since.as_secs()));
        }
        GatewayLink::Silent(since) => return bold(format!("no answer for {} s", since.as_secs())),
        GatewayLink::Connected => {}
    }
    let level = state.level();
    // Without content, the body has it.
    if let Some(refusal) = level.refusal.as_ref().filter(|_| level.content != Content::Awaited) {
        return bold(refused_text(refusal));
    }
    if state.input == Input::Filter {
        return bold(format!("filter: {}_", line_shown(&level.filter)));
    }
    if level.filter.is_empty() {
        return Line::default();
    }
    Line::from(cut(&format!("filter: {}", line_shown(&level.filter)), columns))
}

/// The keys of the moment, the most important first.
fn keys_line(state: &TopState, columns: usize) -> Line<'static> {
    let level = state.level();
    let keys: &[&str] = match (state.input, &level.screen) {
        (Input::Help, _) => &["any key back"],
        (Input::Filter, _) => &["Enter keep", "Esc clear"],
        (_, Screen::Cells) => &["q quit", "? help", "Enter jobs", "2 nodes", "3 jobs", "s sort", "/ filter"],
        (_, Screen::Nodes) => &["q quit", "? help", "Enter tasks", "1 cells", "3 jobs", "s sort", "/ filter"],
        (_, Screen::Jobs) => {
            &["q quit", "? help", "Enter tasks", "w why", "1 cells", "2 nodes", "s sort", "/ filter"]
        }
        (_, Screen::Tasks(_)) => {
            &["q back", "? help", "Enter output", "w why", "s sort", "r reverse", "/ filter"]
        }
        (_, Screen::Logs(_)) => &["q back", "? help", "w why", "arrows scroll", "End follow"],
        (_, Screen::Why(_)) => &["q back", "? help", "arrows scroll"],
    };
    let mut text = keys.join("  ");
    if level.has_next_page() {
        text = format!("{text}  n next page");
    }
    Line::from(Span::styled(cut(&text, columns), Modifier::BOLD))
}
