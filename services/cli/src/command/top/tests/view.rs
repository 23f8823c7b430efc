//! A view for tests, and what its gateway says.

use std::time::Duration;

use borough_client::JobRef;
use borough_proto::v1;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::feed::header_of;
use super::super::keys::intent;
use super::super::query::{FeedUpdate, Screen, ScreenAnswer, TaskScope};
use super::super::render::{Palette, body_rows, draw};
use super::super::rows::{RowTarget, job_row, node_row, task_row};
use super::super::state::TopState;

pub(super) const GIB: u64 = 1 << 30;
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
pub(super) const SMALL: [u16; 2] = [80, 24];
pub(super) const LARGE: [u16; 2] = [200, 50];

pub(super) fn resources(cpu_millis: u64, memory_bytes: u64) -> Option<v1::Resources> {
    Some(v1::Resources { cpu_millis, memory_bytes, ..Default::default() })
}

pub(super) fn cell() -> v1::Cell {
    v1::Cell {
        name: "alpha".to_owned(),
        state: v1::CellState::Open.into(),
        nodes: 3,
        nodes_ready: 2,
        capacity: resources(8_000, 32 * GIB),
        used: resources(2_350, 5 * GIB),
        jobs: 3,
        tasks: Some(v1::TaskCounts { pending: 1, running: 5, healthy: 4, ..Default::default() }),
        load: Some(v1::CellLoad { nodes: 2, cpu_millis: 1_200, memory_bytes: 7 * GIB }),
        ..Default::default()
    }
}

pub(super) fn job(name: &str, healthy: u32, cpu_millis: u64) -> v1::Job {
    let usage = v1::JobUsage {
        charged: healthy,
        charged_cpu_millis: 500 * u64::from(healthy),
        charged_memory_bytes: GIB,
        sampled: healthy.min(2),
        cpu_millis,
        memory_bytes: 100 << 20,
    };
    v1::Job {
        user: "alice".to_owned(),
        name: name.to_owned(),
        state: v1::JobState::Running.into(),
        kind: v1::JobKind::Service.into(),
        count: 3,
        priority: 200,
        submitted_ms: 1_700_000_000_000,
        tasks: Some(v1::TaskCounts { pending: 3 - healthy, running: healthy, healthy, ..Default::default() }),
        labels: [("team".to_owned(), "web".to_owned())].into(),
        usage: Some(usage),
        ..Default::default()
    }
}

pub(super) fn jobs() -> ScreenAnswer {
    let jobs = [job("web", 3, 40), job("api", 2, 1_250), job("a-job-with-a-very-long-name-indeed", 0, 0)];
    ScreenAnswer::Rows { rows: jobs.iter().map(job_row).collect(), next_page: String::new() }
}

pub(super) fn node(name: &str, tasks: u32) -> v1::Node {
    v1::Node {
        name: name.to_owned(),
        state: v1::NodeState::Ready.into(),
        schedulable: true,
        connected: true,
        capacity: resources(4_000, 16 * GIB),
        used: resources(u64::from(tasks) * 500, u64::from(tasks) * GIB),
        tasks,
        load: Some(v1::NodeLoad { cpu_millis: 600, memory_bytes: 3 * GIB, ..Default::default() }),
        host: "10.0.0.7".to_owned(),
        agent_version: "0.1.0".to_owned(),
        labels: [("rack".to_owned(), "r1".to_owned())].into(),
        ..Default::default()
    }
}

pub(super) fn nodes() -> ScreenAnswer {
    let lost = v1::Node {
        state: v1::NodeState::Lost.into(),
        schedulable: false,
        connected: false,
        load: None,
        ..node("alpha-3", 0)
    };
    let nodes = [node("alpha-1", 3), node("alpha-2", 2), lost];
    ScreenAnswer::Rows { rows: nodes.into_iter().map(node_row).collect(), next_page: String::new() }
}

pub(super) fn task(index: u32, state: v1::TaskState) -> v1::Task {
    let is_running = state == v1::TaskState::Running;
    v1::Task {
        user: "alice".to_owned(),
        job: "web".to_owned(),
        index,
        state: state.into(),
        node: if is_running { "alpha-1".to_owned() } else { String::new() },
        health: if is_running { v1::Health::Healthy.into() } else { 0 },
        charge: if is_running { resources(500, GIB) } else { None },
        usage: is_running.then(|| v1::Usage {
            cpu_millis: 20,
            memory_bytes: u64::from(index) << 20,
            ..Default::default()
        }),
        restarts: index,
        started_ms: is_running.then_some(1_700_000_000_000),
        exit: (index == 1).then(|| v1::Exit {
            reason: v1::EndReason::Exited.into(),
            code: Some(3),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(super) fn tasks(indexes: impl IntoIterator<Item = u32>, next_page: &str) -> ScreenAnswer {
    let rows = indexes.into_iter().map(|index| {
        let state = if index % 4 == 3 { v1::TaskState::Pending } else { v1::TaskState::Running };
        task_row(task(index, state), &TaskScope::Job(web()))
    });
    ScreenAnswer::Rows { rows: rows.collect(), next_page: next_page.to_owned() }
}

/// A view of a size that knows its cell, at second 10.
pub(super) struct TopView {
    pub(super) state: TopState,
    pub(super) size: [u16; 2],
}

pub(super) const NOW: Duration = Duration::from_secs(10);

impl TopView {
    pub(super) fn new(size: [u16; 2]) -> Self {
        let mut view = Self { state: TopState::new("alpha", INTERVAL, NOW), size };
        view.hears(FeedUpdate::Header(Ok(header_of(&cell()))));
        view
    }

    pub(super) fn hears(&mut self, update: FeedUpdate) {
        self.fit();
        let query = self.state.query();
        self.state.update(&query, update, NOW);
    }

    pub(super) fn answers(&mut self, answer: ScreenAnswer) {
        self.hears(FeedUpdate::Answer(Ok(answer)));
    }

    pub(super) fn fit(&mut self) {
        let screen = self.state.level().screen.clone();
        self.state.body_resize(body_rows(self.size[1], &screen));
    }

    pub(super) fn press(&mut self, code: KeyCode) {
        self.fit();
        if let Some(intent) = intent(KeyEvent::new(code, KeyModifiers::NONE), self.state.input) {
            self.state.apply(intent);
        }
    }

    pub(super) fn types(&mut self, text: &str) {
        text.chars().for_each(|each| self.press(KeyCode::Char(each)));
    }

    pub(super) fn drawn(&self, now: Duration, palette: Palette) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(self.size[0], self.size[1])).unwrap();
        terminal.draw(|frame| draw(frame, &self.state, now, palette)).unwrap();
        terminal.backend().clone()
    }

    /// The picture as text, without the spaces at the ends of lines.
    pub(super) fn text(&self) -> String {
        self.text_at(NOW)
    }

    pub(super) fn text_at(&self, now: Duration) -> String {
        let backend = self.drawn(now, Palette::Plain);
        let cells = backend.buffer().content();
        let lines = cells.chunks(usize::from(self.size[0])).map(|line| {
            let line: String = line.iter().map(|cell| cell.symbol()).collect();
            format!("{}\n", line.trim_end())
        });
        lines.collect()
    }

    /// The targets of the rows, in order.
    pub(super) fn order(&self) -> Vec<String> {
        let name = |target: &RowTarget| match target {
            RowTarget::Cell(name) | RowTarget::Node(name) => name.clone(),
            RowTarget::Job(job) => job.name.clone(),
            RowTarget::Task(task) => task.index.to_string(),
        };
        self.state.level().rows().iter().map(|row| name(&row.target)).collect()
    }

    pub(super) fn selected(&self) -> Option<RowTarget> {
        self.state.level().selected().cloned()
    }
}

pub(super) fn web() -> JobRef {
    JobRef::new("alice", "web")
}

/// The view of the tasks of alice/web.
pub(super) fn tasks_view(size: [u16; 2]) -> TopView {
    let mut view = TopView::new(size);
    view.answers(jobs());
    view.press(KeyCode::End);
    view.press(KeyCode::Enter);
    assert_eq!(view.state.query().screen, Screen::Tasks(TaskScope::Job(web())));
    view
}
