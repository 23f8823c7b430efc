//! The files of a trace: comma-separated values with a line of names first, none of them quoted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail};

/// A table in memory.
pub(super) struct ResultTable {
    path: String,
    columns: BTreeMap<String, usize>,
    rows: Vec<Vec<String>>,
}

/// One row of it.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    table: &'t ResultTable,
    number: usize,
}

impl ResultTable {
    /// Reads a file of a trace.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| {
            format!("the trace has no {}: give its directory with --trace", path.display())
        })?;
        Self::parsed(&path.display().to_string(), &text)
    }

    fn parsed(path: &str, text: &str) -> anyhow::Result<Self> {
        let mut lines = text.lines();
        let names = lines.next().with_context(|| format!("{path} is empty"))?;
        let columns = names.split(',').enumerate().map(|(place, name)| (name.to_owned(), place)).collect();
        let width = names.split(',').count();
        let mut rows = Vec::new();
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let row: Vec<String> = line.split(',').map(str::to_owned).collect();
            if row.len() != width || line.contains('"') {
                bail!("{path}, line {}: {} values where {width} are named", number + 2, row.len());
            }
            rows.push(row);
        }
        Ok(Self { path: path.to_owned(), columns, rows })
    }

    /// The rows in the order of the file.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.rows.len()).map(|number| Row { table: self, number })
    }
}

impl<'t> Row<'t> {
    /// A value as text; empty if the table has no such column.
    pub(super) fn text(self, column: &str) -> &'t str {
        let place = self.table.columns.get(column);
        let row = self.table.rows.get(self.number);
        row.zip(place).and_then(|(row, &place)| row.get(place)).map_or("", String::as_str)
    }

    /// A number.
    pub(super) fn number<T: std::str::FromStr>(self, column: &str) -> anyhow::Result<T> {
        let text = self.text(column);
        let parsed = text.parse().ok();
        parsed.with_context(|| {
            format!("{}, row {}: {column} is {text:?} and no such number", self.table.path, self.number + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_bad_rows_are_refused() {
        let table = ResultTable::parsed("t", "a,b\n1,x\n2,\n").unwrap();
        let rows: Vec<Row<'_>> = table.rows().collect();
        assert_eq!(rows[1].number::<u32>("a").unwrap(), 2);
        assert_eq!((rows[0].text("b"), rows[1].text("b"), rows[0].text("c")), ("x", "", ""));
        assert!(rows[0].number::<u32>("b").unwrap_err().to_string().contains("row 1"));
        assert!(ResultTable::parsed("t", "a,b\n1\n").is_err());
        assert!(ResultTable::parsed("t", "").is_err());
    }

    #[test]
    fn a_trace_that_is_not_there_is_named() {
        let error = ResultTable::read(Path::new("/nowhere/nodes.csv")).err().unwrap();
        assert!(error.to_string().contains("--trace"), "{error}");
    }
}
