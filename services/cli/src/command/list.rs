//! Lists are read in pages, and each page is written as it comes.

use borough_proto::v1::{LabelMatch, PageRequest};
use serde::Serialize;

use crate::args::{ListArguments, condition_value, word_shown};
use crate::exit::{Code, Failure};
use crate::output::{ListOutput, Printer, Tabular};

/// Rows of the first page: few, so that the first row comes soon.
const FIRST_ROWS: u32 = 100;
/// Rows of each later page: as many as a page has at most.
const PAGE_ROWS: u32 = 1_000;

/// One page of a list.
pub(super) struct RowsPage<T> {
    pub(super) rows: Vec<T>,
    /// The page behind it; empty: none.
    pub(super) next: String,
}

/// Converts the rows of an answer to what is shown.
pub(super) fn list_page<M, T: From<M>>(rows: Vec<M>, next: String) -> RowsPage<T> {
    RowsPage { rows: rows.into_iter().map(T::from).collect(), next }
}

/// Reads the pages that are asked for, and passes each on. Returns the page behind them, if one follows.
pub(super) async fn pages<T>(
    listed: &ListArguments,
    fetch: impl AsyncFn(PageRequest) -> Result<RowsPage<T>, Failure>,
    mut show: impl FnMut(Vec<T>) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let (mut left, mut page) = (listed.limit, listed.page.clone().unwrap_or_default());
    let mut most = FIRST_ROWS;
    loop {
        let limit = left.map_or(most, |left| left.min(most));
        let RowsPage { rows, next } = fetch(PageRequest { limit, page }).await.map_err(page_refused)?;
        most = PAGE_ROWS;
        let read = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        left = left.map(|left| left.saturating_sub(read));
        show(rows)?;
        if next.is_empty() || left == Some(0) {
            return Ok(Some(next).filter(|next| !next.is_empty()));
        }
        page = next;
    }
}

/// Names the option of a page that a gateway has refused. The gateway's words are for programs.
fn page_refused(failure: Failure) -> Failure {
    if !failure.is_of_field("page.page") {
        return failure;
    }
    let value = failure.message().split_once(": ").and_then(|(_, rest)| rest.split_once("; accepted: "));
    let value = value.map_or("the page", |(value, _)| value);
    let accepted = "what the same list of this cell named for --page";
    let failure = Failure::new(
        failure.code(),
        format!("--page: {value} is no page of this list; accepted: {accepted}"),
    );
    failure.with_hint("run the same command without --page")
}

/// What a list without rows says: whose rows it would have and in which cell, and the commands that show others.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRows<'n> {
    /// The plural of the noun.
    pub(super) rows: &'static str,
    /// Empty: every user. Absent: the rows have no users.
    pub(super) user: Option<&'n str>,
    pub(super) cell: &'n str,
    /// Whether labels, states or the like choose among them.
    pub(super) chosen: bool,
    /// What each of these commands shows.
    pub(super) others: &'n [(&'static str, &'static str)],
}

impl NoRows<'_> {
    pub(super) fn text(&self) -> String {
        self.text_of(&[])
    }

    /// The same of a list that labels choose: the commands keep the labels.
    pub(super) fn text_of(&self, selector: &[LabelMatch]) -> String {
        let labels = labels_words(selector);
        let whose = match self.user {
            None => String::new(),
            Some("") => " of any user".to_owned(),
            Some(user) => format!(" of user {user}"),
        };
        let such = if self.chosen { " like this" } else { "" };
        let others: Vec<String> =
            self.others.iter().map(|(what, command)| format!("{what}: {command}{labels}")).collect();
        let hint = if others.is_empty() { String::new() } else { format!("\nhint: {}", others.join("; ")) };
        format!("no {}{such}{whose} in cell {}{hint}", self.rows, self.cell)
    }
}

/// Conditions as the option that was typed; empty without any.
fn labels_words(selector: &[LabelMatch]) -> String {
    let condition = |one: &LabelMatch| {
        let sign = if one.not { "!=" } else { "=" };
        format!("{}{sign}{}", one.key, condition_value(&one.value))
    };
    match selector {
        [] => String::new(),
        all => format!(" -l {}", word_shown(&all.iter().map(condition).collect::<Vec<_>>().join(","))),
    }
}

/// Shows a list. Without rows it says `none`.
pub(super) async fn list<T: Tabular + Serialize>(
    listed: &ListArguments,
    none: String,
    printer: &Printer,
    fetch: impl AsyncFn(PageRequest) -> Result<RowsPage<T>, Failure>,
) -> Result<Code, Failure> {
    let mut output = ListOutput::new(printer, none);
    let next = pages(listed, fetch, |rows| output.page(&rows)).await?;
    output.end()?;
    more_remark(next.as_deref(), T::PLURAL, printer);
    Ok(Code::Done)
}

/// Says how to see the rows that follow, if any do.
pub(super) fn more_remark(next: Option<&str>, noun: &str, printer: &Printer) {
    if let Some(page) = next {
        printer.remark(&format!("more {noun} follow: repeat the command with --page {page}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a list of 25 rows shows in pages of at most 10, and which page follows.
    async fn shown(limit: Option<u32>, page: Option<&str>) -> (Vec<u32>, Option<String>) {
        let fetch = async |request: PageRequest| {
            let begin = request.page.parse::<u32>().unwrap_or(0);
            let size = if request.limit == 0 { 10 } else { request.limit.min(10) };
            let end = (begin + size).min(25);
            let next = if end < 25 { end.to_string() } else { String::new() };
            Ok(RowsPage { rows: (begin..end).collect(), next })
        };
        let mut seen = Vec::new();
        let listed = ListArguments { limit, page: page.map(str::to_owned), ..ListArguments::default() };
        let next = pages(&listed, fetch, |rows| {
            seen.extend(rows);
            Ok(())
        });
        let next = next.await.ok().unwrap();
        (seen, next)
    }

    #[test]
    fn a_list_without_rows_says_whose_it_is_and_how_to_see_others() {
        let others: &[_] = &[
            ("of every user, if you may see them", "borough job list --all"),
            ("ended ones too", "borough job list --ended"),
        ];
        let none = NoRows { rows: "jobs", user: Some("ann"), cell: "alpha", chosen: false, others };
        let hint = "hint: of every user, if you may see them: borough job list --all; ended ones too: borough job list --ended";
        assert_eq!(none.text(), format!("no jobs of user ann in cell alpha\n{hint}"));
        let label = |value: &str, not| LabelMatch { key: "app".to_owned(), value: value.to_owned(), not };
        let chosen = none.text_of(&[label("shop", false), label("old", true)]);
        assert!(chosen.contains("borough job list --all -l 'app=shop,app!=old';"), "{chosen}");
        let all = NoRows { user: Some(""), chosen: true, others: &[], ..none };
        assert_eq!(all.text(), "no jobs like this of any user in cell alpha");
        assert_eq!(NoRows { user: None, others: &[], ..none }.text(), "no jobs in cell alpha");
    }

    #[tokio::test]
    async fn a_list_has_all_rows_or_as_many_as_are_asked_for() {
        assert_eq!(shown(None, None).await, ((0..25).collect(), None));
        assert_eq!(shown(Some(12), None).await, ((0..12).collect(), Some("12".to_owned())));
        assert_eq!(shown(Some(12), Some("12")).await, ((12..24).collect(), Some("24".to_owned())));
        assert_eq!(shown(Some(12), Some("24")).await, (vec![24], None));
        assert_eq!(shown(Some(25), None).await, ((0..25).collect(), None));
    }
}
