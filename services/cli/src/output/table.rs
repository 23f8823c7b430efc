//! Tables: columns two spaces apart, no lines, so that people can read them and programs can cut them.

use super::Style;
use super::fit::{fitted, left_out_text};
use super::foreign::line_shown;
use super::watch::line_cut;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use ratatui::text::Span;

/// A row of a table.
pub(crate) trait Tabular {
    /// The plural of its noun.
    const PLURAL: &'static str;

    /// The heads of the columns; the second list is for wide tables.
    fn heads() -> (Vec<&'static str>, Vec<&'static str>);

    /// The cells of a row, in the order of the heads.
    fn cells(&self) -> (Vec<String>, Vec<String>);

    /// Its name for people.
    fn name(&self) -> String {
        self.cells().0.into_iter().next().unwrap_or_default()
    }

    /// What distinguishes it from every other row.
    fn key(&self) -> String {
        self.name()
    }
}

pub(crate) fn table<T: Tabular>(rows: &[T], style: &Style) -> String {
    table_page(rows, style, &mut Vec::new())
}

/// The part of a table with these rows. `widths` has the widths of its columns so far, and is empty for the first part,
/// which alone has the heads.
pub(super) fn table_page<T: Tabular>(rows: &[T], style: &Style, widths: &mut Vec<usize>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let (mut heads, more) = T::heads();
    if style.wide {
        heads.extend(more);
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|row| cells_shown(row, style)).collect();
    let limits =
        style.columns.map(|most| fitted(&content_widths(&heads, &rows, widths), &widths_of(&heads), most));
    let count = limits.as_ref().map_or(heads.len(), Vec::len);
    let left_out = heads.split_off(count.min(heads.len()));
    // The heads of later parts are not shown, but keep the columns as wide as before.
    let width = |column: usize| widths.get(column).copied().unwrap_or(0);
    let heads = heads.into_iter().enumerate().map(|(column, head)| format!("{head:<0$}", width(column)));
    table.set_header(heads.map(|head| Cell::new(head).add_attribute(Attribute::Bold)));
    for row in rows {
        let cut =
            |(column, cell): (usize, String)| match limits.as_ref().and_then(|limits| limits.get(column)) {
                Some(limit) => line_cut(&cell, *limit),
                None => cell,
            };
        table.add_row(row.into_iter().take(count).enumerate().map(cut));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let shown_from = usize::from(!widths.is_empty());
    *widths = table.column_max_content_widths().into_iter().map(usize::from).collect();
    let text = table.to_string();
    let lines = text.lines().skip(shown_from).map(|line| format!("{}\n", unpadded(line)));
    let is_said = !left_out.is_empty() && shown_from == 0;
    lines.chain(is_said.then(|| left_out_text(&left_out))).collect()
}

/// The cells of a row, each as one line of text.
fn cells_shown<T: Tabular>(row: &T, style: &Style) -> Vec<String> {
    let (mut cells, more) = row.cells();
    if style.wide {
        cells.extend(more);
    }
    let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { line_shown(&cell).into_owned() };
    cells.into_iter().map(shown).collect()
}

fn widths_of(cells: &[impl AsRef<str>]) -> Vec<usize> {
    cells.iter().map(|cell| Span::raw(cell.as_ref()).width()).collect()
}

/// The widths that the cells need. A later part has the columns of the first one.
fn content_widths(heads: &[&str], rows: &[Vec<String>], before: &[usize]) -> Vec<usize> {
    let mut widths = widths_of(heads);
    for row in rows.iter().map(|row| widths_of(row)) {
        for (width, needed) in widths.iter_mut().zip(row) {
            *width = (*width).max(needed);
        }
    }
    if !before.is_empty() {
        widths.truncate(before.len());
    }
    for (width, needed) in widths.iter_mut().zip(before) {
        *width = (*width).max(*needed);
    }
    widths
}

/// A line without blanks at its end. Those before the last change of colour go too, or a terminal of just that width
/// shows an empty line.
fn unpadded(line: &str) -> String {
    let line = line.trim_end();
    let Some((before, after)) = line.rsplit_once('\u{1b}') else { return line.to_owned() };
    let is_end = after.strip_prefix('[').and_then(|rest| rest.strip_suffix('m'));
    if is_end.is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit())) {
        return format!("{}\u{1b}{after}", before.trim_end());
    }
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static str, &'static str);

    impl Tabular for Row {
        const PLURAL: &'static str = "rows";

        fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
            (vec!["JOB", "LAST EXIT", "SUBMITTED"], Vec::new())
        }

        fn cells(&self) -> (Vec<String>, Vec<String>) {
            let cells = [self.0, self.1, "2026-11-27T23:25:01Z"].map(str::to_owned);
            (cells.to_vec(), Vec::new())
        }
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let rows = [Row("web", "start failed: cannot execute the program of the task")];
        let of = |columns| table(&rows, &Style { columns, ..Style::default() });
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(of(None).contains("of the task  2026"));
        let cut = of(Some(60));
        assert!(widest(&cut) <= 60 && cut.contains("…  2026-11-27T23:25:01Z"), "{cut}");
        let narrow = of(Some(30));
        assert!(narrow.contains("more columns: SUBMITTED; all of them: -o wide"), "{narrow}");
        assert!(narrow.contains("web  start failed: cannot e"), "{narrow}");
        // A later part has the same columns, and says nothing again.
        let (style, mut widths) = (Style { columns: Some(30), ..Style::default() }, Vec::new());
        table_page(&rows, &style, &mut widths);
        let later = table_page(&rows, &style, &mut widths);
        assert_eq!(later.lines().count(), 1, "{later}");
    }

    #[test]
    fn no_line_is_wider_than_what_it_shows() {
        assert_eq!(unpadded("JOB  TASKS   "), "JOB  TASKS");
        assert_eq!(
            unpadded("\u{1b}[1mJOB  \u{1b}[0m\u{1b}[1mTASKS   \u{1b}[0m  "),
            "\u{1b}[1mJOB  \u{1b}[0m\u{1b}[1mTASKS\u{1b}[0m"
        );
        assert_eq!(unpadded("\u{1b}[1mJOB\u{1b}[0m  web  "), "\u{1b}[1mJOB\u{1b}[0m  web");
    }
}
