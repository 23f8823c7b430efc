//! Tables: columns two spaces apart, no lines, so that people can read them and programs can cut them.

use super::Style;
use super::foreign::line_shown;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};

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
    // The heads of later parts are not shown, but keep the columns as wide as before.
    let width = |column: usize| widths.get(column).copied().unwrap_or(0);
    let heads = heads.into_iter().enumerate().map(|(column, head)| format!("{head:<0$}", width(column)));
    table.set_header(heads.map(|head| Cell::new(head).add_attribute(Attribute::Bold)));
    for row in rows {
        let (mut cells, more) = row.cells();
        if style.wide {
            cells.extend(more);
        }
        let shown =
            |cell: String| if cell.is_empty() { "-".to_owned() } else { line_shown(&cell).into_owned() };
        table.add_row(cells.into_iter().map(shown));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let shown_from = usize::from(!widths.is_empty());
    *widths = table.column_max_content_widths().into_iter().map(usize::from).collect();
    let text = table.to_string();
    text.lines().skip(shown_from).map(|line| format!("{}\n", unpadded(line))).collect()
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
    use super::unpadded;

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
