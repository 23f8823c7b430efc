//! One screen of the view with its content: which rows are shown, in which order, and which one is chosen.

use borough_proto::v1::TaskState;

use super::keys::Move;
use super::log_tail::{LINES_MAX, OutputTail};
use super::query::{Screen, ScreenAnswer, TaskScope, TaskStream};
use super::rows::{CELL_COLUMNS, JOB_COLUMNS, NODE_COLUMNS, RowTarget, TASK_COLUMNS, TableColumn, TableRow};

/// The order of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    /// The number of the column.
    pub(super) column: usize,
    pub(super) is_descending: bool,
}

/// What a screen shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing has come yet.
    Awaited,
    /// The rows that pass the filter, in order.
    Rows {
        all: Vec<TableRow>,
        shown: Vec<usize>,
    },
    Lines(Vec<String>),
    Log {
        tail: OutputTail,
        /// Whether the attempt is over.
        is_over: bool,
    },
}

/// One screen of the view.
#[derive(Clone, Debug)]
pub(super) struct ScreenLevel {
    pub(super) screen: Screen,
    pub(super) content: Content,
    pub(super) filter: String,
    pub(super) sort: Sort,
    /// Why the gateway refused the last question about this screen.
    pub(super) refusal: Option<String>,
    /// The first row or line on the terminal. For output: how many lines lie below the last one on the terminal.
    pub(super) scroll: usize,
    selected: Option<RowTarget>,
    /// The tokens of the pages up to the present one; the first is empty.
    pages: Vec<String>,
    next_page: String,
}

impl ScreenLevel {
    pub(super) fn new(screen: Screen) -> Self {
        Self {
            screen,
            content: Content::Awaited,
            filter: String::new(),
            sort: Sort::default(),
            refusal: None,
            scroll: 0,
            selected: None,
            pages: vec![String::new()],
            next_page: String::new(),
        }
    }

    /// The columns of its table; empty if it is none.
    pub(super) fn columns(&self) -> &'static [TableColumn] {
        match self.screen {
            Screen::Cells => CELL_COLUMNS,
            Screen::Nodes => NODE_COLUMNS,
            Screen::Jobs => JOB_COLUMNS,
            Screen::Tasks(_) => TASK_COLUMNS,
            Screen::Logs(_) | Screen::Why(_) => &[],
        }
    }

    pub(super) fn is_table(&self) -> bool {
        !self.columns().is_empty()
    }

    /// The token of the present page.
    pub(super) fn page(&self) -> &str {
        self.pages.last().map_or("", String::as_str)
    }

    /// The number of the present page, from 1.
    pub(super) fn page_number(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn has_next_page(&self) -> bool {
        !self.next_page.is_empty()
    }

    /// The state that the filter names. The gateway then lists only tasks in it, of all pages.
    pub(super) fn state_wanted(&self) -> Option<TaskState> {
        if !matches!(self.screen, Screen::Tasks(TaskScope::Job(_))) {
            return None;
        }
        let name = format!("TASK_STATE_{}", self.filter.to_ascii_uppercase());
        TaskState::from_str_name(&name).filter(|&state| state != TaskState::Unspecified)
    }

    /// The chosen row.
    pub(super) fn selected(&self) -> Option<&RowTarget> {
        self.selected.as_ref()
    }

    /// The rows in the order in which they are shown.
    pub(super) fn rows(&self) -> Vec<&TableRow> {
        match &self.content {
            Content::Rows { all, shown } => shown.iter().filter_map(|&place| all.get(place)).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes what the gateway answered.
    pub(super) fn answer_set(&mut self, answer: ScreenAnswer, height: usize) {
        self.refusal = None;
        match answer {
            ScreenAnswer::Lines(lines) => self.content = Content::Lines(lines),
            ScreenAnswer::Rows { rows, next_page } => {
                let place = self.selected_place();
                self.content = Content::Rows { all: rows, shown: Vec::new() };
                self.next_page = next_page;
                self.arrange();
                self.select_again(place, height);
            }
        }
    }

    /// Output begins again at its tail.
    pub(super) fn log_begin(&mut self) {
        self.refusal = None;
        self.content = Content::Log { tail: OutputTail::default(), is_over: false };
    }

    pub(super) fn log_push(&mut self, stream: TaskStream, data: &[u8]) {
        if let Content::Log { tail, .. } = &mut self.content {
            let begun = tail.push(stream, data);
            // Who reads above the end keeps the place.
            if self.scroll > 0 {
                self.scroll = (self.scroll + begun).min(LINES_MAX);
            }
        }
    }

    pub(super) fn log_end(&mut self) {
        if let Content::Log { is_over, .. } = &mut self.content {
            *is_over = true;
        }
    }

    pub(super) fn filter_set(&mut self, filter: String, height: usize) {
        let before = self.state_wanted();
        self.filter = filter;
        if self.state_wanted() != before {
            // The pages are those of another list now.
            self.pages = vec![String::new()];
        }
        let place = self.selected_place();
        self.arrange();
        self.select_again(place, height);
    }

    /// Sorts by the next column, or the one before.
    pub(super) fn sort_by(&mut self, step: Move) {
        let columns = self.columns().len();
        if columns == 0 {
            return;
        }
        let by = if step == Move::Up { columns - 1 } else { 1 };
        self.sort.column = (self.sort.column + by) % columns;
        // Of amounts, people want the largest; of names, the first.
        self.sort.is_descending = self.is_numbered();
        self.arrange();
    }

    pub(super) fn sort_reverse(&mut self) {
        self.sort.is_descending = !self.sort.is_descending;
        self.arrange();
    }

    /// Whether the column of the order has numbers.
    fn is_numbered(&self) -> bool {
        let Content::Rows { all, .. } = &self.content else { return false };
        all.iter().any(|row| row.values.get(self.sort.column).is_some_and(|value| value.number.is_some()))
    }

    pub(super) fn page_next(&mut self) {
        if self.has_next_page() {
            self.pages.push(std::mem::take(&mut self.next_page));
            (self.scroll, self.selected) = (0, None);
        }
    }

    pub(super) fn page_previous(&mut self) {
        if self.pages.len() > 1 {
            self.pages.pop();
            self.next_page.clear();
            (self.scroll, self.selected) = (0, None);
        }
    }

    /// Filters and sorts the rows.
    fn arrange(&mut self) {
        let (sort, filter) = (self.sort, self.filter.to_lowercase());
        let Content::Rows { all, shown } = &mut self.content else { return };
        *shown = (0..all.len()).filter(|&place| all[place].contains(&filter)).collect();
        shown.sort_by(|&left, &right| {
            let (left, right) = (&all[left], &all[right]);
            let by_target = || left.target.cmp(&right.target);
            if sort.column == 0 {
                let order = by_target();
                return if sort.is_descending { order.reverse() } else { order };
            }
            let (Some(own), Some(others)) = (left.values.get(sort.column), right.values.get(sort.column))
            else {
                return by_target();
            };
            let is_both = own.number.is_some() == others.number.is_some();
            let order = own.order(others);
            // Values without a number stay last in both directions.
            let order = if sort.is_descending && is_both { order.reverse() } else { order };
            order.then_with(by_target)
        });
    }

    /// Where the chosen row stands.
    pub(super) fn selected_place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows().iter().position(|row| row.target == *selected)
    }

    /// Keeps the chosen row, or the place of one that has gone.
    fn select_again(&mut self, place: Option<usize>, height: usize) {
        let known = self.selected_place();
        self.select(known.or(place).unwrap_or(0), height);
    }

    fn select(&mut self, place: usize, height: usize) {
        let rows = self.rows();
        let place = place.min(rows.len().saturating_sub(1));
        self.selected = rows.get(place).map(|row| row.target.clone());
        self.scroll_fit(height);
    }

    /// Scrolls so that the chosen row is on the terminal.
    pub(super) fn scroll_fit(&mut self, height: usize) {
        if !self.is_table() {
            return;
        }
        let place = self.selected_place().unwrap_or(0);
        let most = self.rows().len().saturating_sub(height);
        let least = (place + 1).saturating_sub(height);
        self.scroll = self.scroll.clamp(least, place.max(least)).min(most);
    }

    /// Chooses another row, or scrolls text.
    pub(super) fn go(&mut self, step: Move, height: usize) {
        if self.is_table() {
            let place = self.selected_place().unwrap_or(0);
            return self.select(step.from(place, height), height);
        }
        // Output is measured from its end.
        let step = if matches!(self.screen, Screen::Logs(_)) { step.reversed() } else { step };
        self.scroll = step.from(self.scroll, height).min(self.lines().len().saturating_sub(1));
    }

    /// The lines of text that the screen has.
    pub(super) fn lines(&self) -> Vec<String> {
        match &self.content {
            Content::Lines(lines) => lines.clone(),
            Content::Log { tail, .. } => tail.lines(),
            Content::Awaited | Content::Rows { .. } => Vec::new(),
        }
    }
}
