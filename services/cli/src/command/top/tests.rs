//! The view over data: what keys and answers change, and how it looks at 80 and 200 columns.

mod view;

use std::time::Duration;

use borough_client::TaskRef;
use borough_proto::v1;
use expect_test::expect_file;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use self::view::{INTERVAL, LARGE, NOW, SMALL, TopView, cell, job, jobs, nodes, tasks, tasks_view, web};
use super::feed::header_of;
use super::query::{
    AskProblem, FeedUpdate, Screen, ScreenAnswer, ScreenQuery, TaskScope, TaskStream, WhySubject,
};
use super::render::Palette;
use super::rows::{RowTarget, cell_row, job_row};
use super::state::{GatewayLink, Input};

#[test]
fn every_screen_looks_as_the_golden_files_show_at_80_and_200_columns() {
    for [columns, rows] in [SMALL, LARGE] {
        let golden = |name: &str, view: &TopView| {
            expect_file![format!("golden/{name}-{columns}.txt")].assert_eq(&view.text());
        };
        let mut view = TopView::new([columns, rows]);
        view.answers(jobs());
        golden("jobs", &view);
        view.press(KeyCode::Char('1'));
        view.answers(ScreenAnswer::Rows { rows: vec![cell_row(&cell())], next_page: String::new() });
        golden("cells", &view);
        view.press(KeyCode::Char('2'));
        view.answers(nodes());
        golden("nodes", &view);
        let mut view = tasks_view([columns, rows]);
        view.answers(tasks(0..60, "more"));
        golden("tasks", &view);
        view.press(KeyCode::Enter);
        view.hears(FeedUpdate::LogBegin);
        let data = (0..100).map(|line| format!("line {line}\n")).collect::<String>();
        view.hears(FeedUpdate::LogPart { stream: TaskStream::Stdout, data: data.into_bytes() });
        view.hears(FeedUpdate::LogPart { stream: TaskStream::Stderr, data: b"oh no\x1b[2J\n".to_vec() });
        golden("output", &view);
        view.press(KeyCode::Char('?'));
        golden("help", &view);
    }
}

#[test]
fn without_colours_the_words_and_the_mark_are_the_same() {
    let mut view = TopView::new(SMALL);
    view.answers(jobs());
    let (plain, colored) = (view.drawn(NOW, Palette::Plain), view.drawn(NOW, Palette::Colored));
    let symbols = |backend: &TestBackend| -> String {
        backend.buffer().content().iter().map(|cell| cell.symbol()).collect()
    };
    assert_eq!(symbols(&plain), symbols(&colored));
    let is_colored =
        |backend: &TestBackend| backend.buffer().content().iter().any(|cell| cell.fg != Color::Reset);
    assert!(is_colored(&colored) && !is_colored(&plain));
    let marked = plain.buffer().content().iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert_eq!(marked.count(), 80, "the chosen row");
    assert!(symbols(&plain).contains("> alice/a-job"), "{}", symbols(&plain));
}

#[test]
fn no_size_of_the_terminal_is_too_small() {
    for columns in [1, 2, 9, 40, 300] {
        for rows in [1, 2, 6, 7, 8, 80] {
            let mut view = TopView::new([columns, rows]);
            view.answers(jobs());
            view.press(KeyCode::Down);
            let _drawn = view.text();
            view.press(KeyCode::Char('w'));
            view.answers(ScreenAnswer::Lines(vec!["x".repeat(50); 9]));
            view.press(KeyCode::PageDown);
            let _drawn = view.text();
        }
    }
}

#[test]
fn the_chosen_row_is_always_on_the_terminal() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..60, ""));
    let is_shown = |view: &TopView| {
        let marks = view.text().lines().filter(|line| line.starts_with("> ")).count();
        assert_eq!(marks, 1, "{}", view.text());
    };
    for key in [KeyCode::PageDown, KeyCode::End, KeyCode::Up, KeyCode::PageUp, KeyCode::Home, KeyCode::Down] {
        view.press(key);
        is_shown(&view);
    }
    view.press(KeyCode::End);
    view.size = [80, 9];
    view.fit();
    is_shown(&view);
}

#[test]
fn rows_are_sorted_by_any_column_in_both_directions() {
    let mut view = TopView::new(LARGE);
    view.answers(jobs());
    assert_eq!(view.order(), ["a-job-with-a-very-long-name-indeed", "api", "web"]);
    view.press(KeyCode::Char('r'));
    assert_eq!(view.order(), ["web", "api", "a-job-with-a-very-long-name-indeed"]);
    // CPU USE is the sixth column; the largest comes first, and who has no number last.
    view.types("sssss");
    assert_eq!(view.order(), ["api", "web", "a-job-with-a-very-long-name-indeed"]);
    view.press(KeyCode::Char('r'));
    assert_eq!(view.order(), ["web", "api", "a-job-with-a-very-long-name-indeed"]);
    assert!(view.text().contains("by CPU USE ascending"), "{}", view.text());
    view.types("S");
    assert!(view.text().contains("by CPU ALLOC descending"), "{}", view.text());
    // By index, not by the letters of the index.
    let mut view = tasks_view(LARGE);
    view.answers(tasks(0..12, ""));
    assert_eq!(view.order()[8..], ["8", "9", "10", "11"]);
}

#[test]
fn a_filter_is_typed_kept_and_taken_away() {
    let mut view = TopView::new(SMALL);
    view.answers(jobs());
    view.types("/API");
    assert_eq!((view.state.input, view.order()), (Input::Filter, vec!["api".to_owned()]));
    assert!(view.text().contains("1 of 3 rows"), "{}", view.text());
    view.press(KeyCode::Backspace);
    view.press(KeyCode::Enter);
    assert_eq!((view.state.input, view.order().len()), (Input::Keys, 1), "only api contains ap");
    view.answers(jobs());
    assert_eq!(view.order(), ["api"], "new answers are filtered too");
    view.press(KeyCode::Esc);
    assert_eq!(view.order().len(), 3, "Esc takes the filter away first");
    view.types("/q");
    view.press(KeyCode::Esc);
    assert!(!view.state.is_over, "q was text");
    assert_eq!((view.state.input, view.order().len()), (Input::Keys, 3));
}

#[test]
fn the_state_of_a_jobs_tasks_is_asked_of_the_gateway() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..500, "second"));
    view.press(KeyCode::Char('n'));
    assert_eq!(view.state.query().page, "second");
    view.types("/pending");
    let query = view.state.query();
    assert_eq!((query.states, query.page.as_str()), (vec![v1::TaskState::Pending], ""));
    view.press(KeyCode::Backspace);
    assert_eq!(view.state.query().states, []);
}

#[test]
fn pages_go_forth_and_back_and_no_further() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..500, "p2"));
    assert!(view.text().contains("page 1, more follow"), "{}", view.text());
    view.press(KeyCode::Char('p'));
    assert_eq!(view.state.query().page, "");
    view.press(KeyCode::Char('n'));
    view.press(KeyCode::Char('n'));
    assert_eq!(view.state.query().page, "p2", "the answer about the third page is not there yet");
    view.answers(tasks(500..510, ""));
    assert!(view.text().contains("page 2, the last"), "{}", view.text());
    view.press(KeyCode::Char('n'));
    assert_eq!(view.state.query().page, "p2");
    view.press(KeyCode::Char('p'));
    assert_eq!(view.state.query().page, "");
}

#[test]
fn drill_down_leads_to_output_and_why_and_back_again() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..2, ""));
    view.press(KeyCode::Down);
    view.press(KeyCode::Enter);
    let task = TaskRef { job: web(), index: 1 };
    assert_eq!(view.state.query().screen, Screen::Logs(task));
    view.press(KeyCode::Char('w'));
    assert_eq!(view.state.query().screen, Screen::Why(WhySubject { job: web(), index: Some(1) }));
    for screen in ["output of alice/web/1", "tasks of alice/web", "jobs"] {
        view.press(KeyCode::Esc);
        assert!(view.text().contains(&format!("-- {screen}")), "{}", view.text());
    }
    view.press(KeyCode::Esc);
    assert!(!view.state.is_over, "Esc does not quit");
    view.press(KeyCode::Char('w'));
    assert_eq!(view.state.query().screen, Screen::Why(WhySubject { job: web(), index: None }));
    view.press(KeyCode::Char('q'));
    assert!(!view.state.is_over);
    view.press(KeyCode::Char('q'));
    assert!(view.state.is_over);
}

#[test]
fn a_node_leads_to_its_tasks_and_a_cell_to_its_jobs() {
    let mut view = TopView::new(SMALL);
    view.press(KeyCode::Char('2'));
    view.answers(nodes());
    view.press(KeyCode::Enter);
    assert_eq!(view.state.query().screen, Screen::Tasks(TaskScope::Node("alpha-1".to_owned())));
    view.press(KeyCode::Char('1'));
    let beta = v1::Cell { name: "beta".to_owned(), ..cell() };
    view.answers(ScreenAnswer::Rows {
        rows: [cell(), beta].iter().map(cell_row).collect(),
        next_page: String::new(),
    });
    view.press(KeyCode::Down);
    view.press(KeyCode::Enter);
    let query = view.state.query();
    assert_eq!((query.cell.as_str(), query.screen), ("beta", Screen::Jobs));
    assert!(view.text().contains("cell beta: waiting for an answer"), "{}", view.text());
}

#[test]
fn the_choice_follows_its_row_and_keeps_its_place_if_the_row_is_gone() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks([1, 2, 3], ""));
    view.press(KeyCode::Down);
    let task = |index| Some(RowTarget::Task(TaskRef { job: web(), index }));
    view.answers(tasks([0, 1, 2, 3], ""));
    assert_eq!(view.selected(), task(2));
    view.answers(tasks([0, 1, 3], ""));
    assert_eq!(view.selected(), task(3), "at the same place");
    view.answers(tasks([], ""));
    assert_eq!(view.selected(), None);
    view.answers(tasks([7], ""));
    assert_eq!(view.selected(), task(7));
}

#[test]
fn without_an_answer_the_last_picture_stays_and_the_view_says_since_when() {
    let mut view = TopView::new(SMALL);
    view.answers(jobs());
    assert_eq!(view.state.link(NOW + INTERVAL), GatewayLink::Connected);
    let late = NOW + Duration::from_secs(6);
    assert!(view.text_at(late).contains("no answer for 6 s"), "{}", view.text_at(late));
    view.hears(FeedUpdate::Header(Err(AskProblem::Unanswered(
        "no gateway answers at 127.0.0.1:7400".to_owned(),
    ))));
    let text = view.text_at(NOW + Duration::from_secs(5));
    assert!(text.contains("disconnected for 5 s, retrying: no gateway answers at 127.0.0.1:7400"), "{text}");
    assert!(text.contains("> alice/a-job") && text.contains("nodes 2/3 ready"), "{text}");
    assert!(!view.state.is_over);
    view.answers(jobs());
    assert!(!view.text().contains("disconnected"), "{}", view.text());
}

#[test]
fn a_refusal_is_shown_until_the_next_answer() {
    let mut view = tasks_view(SMALL);
    view.hears(FeedUpdate::Answer(Err(AskProblem::Refused("no job alice/web in cell alpha".to_owned()))));
    assert!(view.text().contains("refused: no job alice/web in cell alpha"), "{}", view.text());
    view.answers(tasks(0..2, ""));
    assert!(!view.text().contains("refused"), "{}", view.text());
}

/// Where nothing was shown yet, the refusal stands instead of the wait for an answer, and whole.
#[test]
fn a_refusal_ends_the_wait_for_output() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..1, ""));
    view.press(KeyCode::Enter);
    assert!(view.text().contains("waiting for an answer"), "{}", view.text());
    let refusal = "task alice/web/0 ran on alpha-3, which is no node of cell alpha any more".to_owned();
    view.hears(FeedUpdate::Answer(Err(AskProblem::Refused(refusal))));
    let text = view.text();
    assert!(text.contains("refused: task alice/web/0 ran on alpha-3"), "{text}");
    assert!(!text.contains("waiting for an answer"), "{text}");
    assert_eq!(text.matches("refused").count(), 1, "{text}");
    view.hears(FeedUpdate::LogBegin);
    assert!(!view.text().contains("refused"), "{}", view.text());
}

#[test]
fn an_answer_to_an_earlier_question_changes_nothing() {
    let mut view = TopView::new(SMALL);
    let earlier = view.state.query();
    view.press(KeyCode::Char('2'));
    view.state.update(&earlier, FeedUpdate::Answer(Ok(jobs())), NOW);
    assert!(view.text().contains("waiting for an answer"), "{}", view.text());
    let other = ScreenQuery { cell: "beta".to_owned(), ..view.state.query() };
    let beta = v1::Cell { name: "beta".to_owned(), ..cell() };
    view.state.update(&other, FeedUpdate::Header(Ok(header_of(&beta))), NOW);
    assert!(view.text().contains("cell alpha"), "{}", view.text());
}

#[test]
fn output_follows_its_end_unless_the_reader_is_above_it() {
    let mut view = tasks_view(SMALL);
    view.answers(tasks(0..1, ""));
    view.press(KeyCode::Enter);
    view.hears(FeedUpdate::LogBegin);
    let line = |number: u32| FeedUpdate::LogPart {
        stream: TaskStream::Stdout,
        data: format!("line {number}.\n").into_bytes(),
    };
    (0..40).for_each(|number| view.hears(line(number)));
    assert!(view.text().contains("line 39."), "{}", view.text());
    view.press(KeyCode::Up);
    (40..50).for_each(|number| view.hears(line(number)));
    let text = view.text();
    assert!(text.contains("line 38.") && !text.contains("line 39."), "{text}");
    assert!(text.contains("11 lines above the end"), "{text}");
    view.press(KeyCode::End);
    assert!(view.text().contains("line 49."), "{}", view.text());
    view.hears(FeedUpdate::LogEnd);
    assert!(view.text().contains("the attempt has ended"), "{}", view.text());
}

#[test]
fn names_of_others_cannot_act_on_the_terminal() {
    let mut view = TopView::new(LARGE);
    let hostile = v1::Job { name: "x\x1b[2J".to_owned(), ..job("x", 1, 1) };
    view.answers(ScreenAnswer::Rows { rows: vec![job_row(&hostile)], next_page: String::new() });
    for _screen in ["the row of the job", "the title of its tasks"] {
        let text = view.text();
        assert!(!text.contains('\x1b') && text.contains("x\\u{1b}[2J"), "{text}");
        view.press(KeyCode::Enter);
    }
}
