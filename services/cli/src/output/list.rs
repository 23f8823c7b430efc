//! Lists that come in pages. Each page is written as it comes, so a list of any length needs the memory of one page.

use std::marker::PhantomData;

use serde::Serialize;

use super::foreign::{json_shown, lines_shown};
use super::table::{Tabular, table_page};
use super::{JsonLayout, Printer, json, yaml};
use crate::args::OutputFormat;
use crate::exit::Failure;

/// A list that is being written: a table, or one list of objects.
pub(crate) struct ListOutput<'p, T> {
    printer: &'p Printer,
    /// Rows that were written.
    rows: usize,
    /// The widths of the columns so far: later pages stand under the first one.
    widths: Vec<usize>,
    /// What is said of a list without rows.
    none: String,
    of: PhantomData<fn(T)>,
}

impl<'p, T: Tabular + Serialize> ListOutput<'p, T> {
    pub(crate) fn new(printer: &'p Printer, none: String) -> Self {
        Self { printer, rows: 0, widths: Vec::new(), none, of: PhantomData }
    }

    /// Writes some more rows.
    pub(crate) fn page(&mut self, rows: &[T]) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        match self.printer.format {
            OutputFormat::Table | OutputFormat::Wide => {
                self.printer.text(&table_page(rows, &self.printer.style(), &mut self.widths))?;
            }
            OutputFormat::Json => self.printer.bytes(json_items(rows, self.rows)?.as_bytes())?,
            OutputFormat::Yaml => self.printer.bytes(yaml_items(rows)?.as_bytes())?,
        }
        self.rows = self.rows.saturating_add(rows.len());
        Ok(())
    }

    /// Ends the list.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match (self.printer.format, self.rows) {
            (OutputFormat::Table | OutputFormat::Wide, 0) => self.printer.remark(&self.none),
            (OutputFormat::Table | OutputFormat::Wide, _) | (OutputFormat::Yaml, 1..) => {}
            (OutputFormat::Json | OutputFormat::Yaml, 0) => self.printer.bytes(b"[]\n")?,
            (OutputFormat::Json, _) => self.printer.bytes(b"\n]\n")?,
        }
        Ok(())
    }
}

/// The rows as items of one JSON list, behind so many others, without its end. Text in JSON has no line ends, so every
/// line is indented.
fn json_items<T: Serialize>(rows: &[T], before: usize) -> Result<String, Failure> {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        text.push_str(if before == 0 && at == 0 { "[" } else { "," });
        for line in json(row, JsonLayout::Indented)?.lines() {
            text.push_str("\n  ");
            text.push_str(line);
        }
    }
    Ok(text)
}

/// The rows as items of a YAML list. A row with active characters is an item of JSON, which escapes them.
fn yaml_items<T: Serialize>(rows: &[T]) -> Result<String, Failure> {
    let mut text = String::new();
    for row in rows {
        let item = yaml(&[row])?;
        if item.starts_with('-') && lines_shown(&item) == item {
            text.push_str(item.trim_end_matches('\n'));
        } else {
            text.push_str("- ");
            text.push_str(&json_shown(&json(row, JsonLayout::Line)?));
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;

    #[derive(Serialize)]
    struct Row {
        name: String,
        number: u32,
    }

    impl Tabular for Row {
        const PLURAL: &'static str = "rows";

        fn heads() -> (Vec<&'static str>, Vec<&'static str>) {
            (vec!["NAME", "NUMBER"], Vec::new())
        }

        fn cells(&self) -> (Vec<String>, Vec<String>) {
            (vec![self.name.clone(), self.number.to_string()], Vec::new())
        }
    }

    fn rows(names: &[&str]) -> Vec<Row> {
        names.iter().map(|name| Row { name: (*name).to_owned(), number: 7 }).collect()
    }

    #[test]
    fn pages_of_objects_are_the_list_that_is_written_at_once() {
        let (first, second) = (rows(&["a", "b\u{202e}"]), rows(&["c"]));
        let paged =
            format!("{}{}\n]", json_items(&first, 0).unwrap(), json_items(&second, first.len()).unwrap());
        let whole: Vec<&Row> = first.iter().chain(&second).collect();
        assert_eq!(paged, json(&whole, JsonLayout::Indented).unwrap());
        let paged = format!("{}{}", yaml_items(&first).unwrap(), yaml_items(&second).unwrap());
        assert_eq!(
            paged,
            "- name: a\n  number: 7\n- {\"name\":\"b\\u202e\",\"number\":7}\n- name: c\n  number: 7\n"
        );
    }

    #[test]
    fn later_pages_of_a_table_stand_under_the_first_one() {
        let (style, mut widths) = (Style::default(), Vec::new());
        let mut text = table_page(&rows(&["a", "longer"]), &style, &mut widths);
        text += &table_page(&rows(&["b"]), &style, &mut widths);
        text += &table_page(&rows(&["the longest"]), &style, &mut widths);
        text += &table_page(&rows(&["c"]), &style, &mut widths);
        assert_eq!(
            text, "NAME    NUMBER\na       7\nlonger  7\nb       7\nthe longest  7\nc            7\n",
            "columns only grow"
        );
    }
}
