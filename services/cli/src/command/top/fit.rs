//! How text fits the terminal: widths of columns, cut values, wrapped lines. Pure, in columns of the terminal.

use ratatui::text::Span;

use super::rows::{TableColumn, TableRow};

/// Between two columns.
pub(super) const GAP: usize = 2;
/// A longer value is cut, unless the terminal has room.
const WIDTH_MAX: usize = 48;
/// The name and the state are cut to no less than this.
const NAME_MIN: usize = 12;
/// Columns of this rank and above stay while the name and the state can be cut.
const RANK_KEPT: u8 = 6;

/// The columns that `text` takes on a terminal.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A column that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FittedColumn {
    /// Its number.
    pub(super) column: usize,
    pub(super) width: usize,
}

/// The columns of a table that fit into `available`. The less important ones leave first, but never the one of the
/// order, `sorted`. Then the name and the state are cut, before more columns leave.
pub(super) fn columns_fit(
    columns: &[TableColumn],
    rows: &[&TableRow],
    sorted: usize,
    available: usize,
) -> Vec<FittedColumn> {
    let width_of = |(place, column): (usize, &TableColumn)| {
        let values = rows.iter().filter_map(|row| row.values.get(place));
        let widest = values.map(|value| width(&value.text)).max().unwrap_or(0);
        FittedColumn { column: place, width: widest.min(WIDTH_MAX).max(column.head.len()) }
    };
    let mut fitted: Vec<FittedColumn> = columns.iter().enumerate().map(width_of).collect();
    loop {
        let total: usize = fitted.iter().map(|column| column.width + GAP).sum::<usize>().saturating_sub(GAP);
        let excess = total.saturating_sub(available);
        let spare = |place: usize| fitted.get(place).map_or(0, |one| one.width.saturating_sub(NAME_MIN));
        let of_name = excess.min(spare(0));
        let of_state = (excess - of_name).min(spare(1));
        let rank = |place: &usize| match fitted[*place].column {
            column if column == sorted => RANK_KEPT,
            column => columns[column].rank,
        };
        let least = (1..fitted.len()).min_by_key(rank);
        let is_cut = excess == of_name || least.is_none_or(|least| rank(&least) >= RANK_KEPT);
        if is_cut && excess == of_name + of_state {
            fitted.iter_mut().zip([of_name, of_state]).for_each(|(one, less)| one.width -= less);
            return fitted;
        }
        let Some(least) = least else {
            fitted.iter_mut().for_each(|one| one.width = available);
            return fitted;
        };
        fitted.remove(least);
    }
}

/// `text` in exactly `columns` columns; what does not fit is cut behind an ellipsis.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let own = width(text);
    if own <= columns {
        return format!("{text}{}", " ".repeat(columns - own));
    }
    let (mut out, mut taken) = (String::new(), 0);
    for each in text.chars() {
        let wide = width(each.encode_utf8(&mut [0; 4]));
        if taken + wide + 1 > columns {
            break;
        }
        out.push(each);
        taken += wide;
    }
    if columns > 0 {
        out.push('…');
        taken += 1;
    }
    format!("{out}{}", " ".repeat(columns.saturating_sub(taken)))
}

/// Lines of at most `columns` columns. A longer line goes on below, at a space if it has one there.
pub(super) fn wrapped(lines: &[String], columns: usize) -> Vec<String> {
    lines.iter().flat_map(|line| line_wrapped(line, columns.max(8))).collect()
}

fn line_wrapped(line: &str, columns: usize) -> Vec<String> {
    let (mut out, mut part, mut taken) = (Vec::new(), String::new(), 0);
    for each in line.chars() {
        let wide = width(each.encode_utf8(&mut [0; 4]));
        if taken + wide > columns {
            // Only a space in the second half makes lines of a fair length.
            let at = part.rfind(' ').filter(|&at| at * 2 > part.len()).map_or(part.len(), |at| at + 1);
            let rest = part.split_off(at);
            out.push(std::mem::replace(&mut part, rest).trim_end().to_owned());
            taken = width(&part);
        }
        part.push(each);
        taken += wide;
    }
    out.push(part);
    out
}

#[cfg(test)]
mod tests {
    use super::super::rows::{RowTarget, TableValue};
    use super::*;

    #[test]
    fn a_cut_value_has_exactly_its_columns() {
        for (text, columns, shown) in [
            ("web", 5, "web  "),
            ("frontend", 5, "fron…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢… "),
            ("abc", 0, ""),
        ] {
            assert_eq!(cut(text, columns), shown);
            assert_eq!(width(&cut(text, columns)), columns, "{text}");
        }
    }

    #[test]
    fn lines_go_on_below_at_a_space() {
        let lines = ["one two three four".to_owned(), String::new(), "x".repeat(20)];
        assert_eq!(wrapped(&lines, 10), ["one two", "three four", "", "xxxxxxxxxx", "xxxxxxxxxx"]);
    }

    #[test]
    fn a_narrow_terminal_keeps_the_important_columns() {
        let columns = [("JOB", 9), ("STATE", 8), ("LABELS", 1), ("CPU", 5)]
            .map(|(head, rank)| TableColumn { head, rank });
        let value = |text: &str| TableValue { text: text.to_owned(), ..TableValue::default() };
        let values = ["alice/a-long-name-of-a-job", "running", "a=b", "250m"].map(value).to_vec();
        let row = TableRow { target: RowTarget::Cell(String::new()), values };
        let fitted = |available| {
            let fitted = columns_fit(&columns, &[&row], 0, available);
            let total = fitted.iter().map(|one| one.width + GAP).sum::<usize>() - GAP;
            assert!(total <= available, "{total} of {available}");
            fitted.iter().map(|one| columns[one.column].head).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(fitted(100), "JOB STATE LABELS CPU");
        assert_eq!(fitted(36), "JOB STATE LABELS CPU", "the name is cut");
        assert_eq!(fitted(30), "JOB STATE CPU");
        assert_eq!(fitted(22), "JOB STATE");
        assert_eq!(fitted(5), "JOB");
        let by_labels: Vec<usize> =
            columns_fit(&columns, &[&row], 2, 30).iter().map(|one| one.column).collect();
        assert_eq!(by_labels, [0, 1, 2], "the column of the order stays");
    }
}
