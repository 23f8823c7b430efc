//! Views whose every text is hostile.

use borough_proto::v1;

use super::table::table;
use super::*;

/// Clears the screen, sets the title, forges a line, and reverses the following text.
const HOSTILE: &str = "x\x1b[2J\x1b]0;t\x07\r\nerror: all is well\u{9b}31m\u{202e}";

fn hostile() -> String {
    HOSTILE.to_owned()
}

fn task() -> v1::Task {
    let exit = v1::Exit {
        reason: v1::EndReason::StartFailed.into(),
        message: hostile(),
        node: hostile(),
        ..v1::Exit::default()
    };
    v1::Task {
        user: hostile(),
        job: hostile(),
        node: hostile(),
        host: hostile(),
        ports: vec![v1::Port { name: hostile(), number: 1 }],
        exit: Some(exit),
        helpers: vec![v1::HelperStatus {
            name: hostile(),
            exit: Some(v1::HelperExit { message: hostile(), ..v1::HelperExit::default() }),
            ..v1::HelperStatus::default()
        }],
        ..v1::Task::default()
    }
}

fn node() -> v1::Node {
    let map = || [(hostile(), hostile())].into();
    v1::Node {
        cell: hostile(),
        name: hostile(),
        id: hostile(),
        attributes: map(),
        labels: map(),
        taints: vec![v1::Taint { key: hostile(), value: hostile(), ..v1::Taint::default() }],
        packages: vec![hostile()],
        host: hostile(),
        boot_id: hostile(),
        agent_version: hostile(),
        ..v1::Node::default()
    }
}

fn endpoint() -> v1::Endpoint {
    v1::Endpoint {
        name: hostile(),
        user: hostile(),
        job: hostile(),
        host: hostile(),
        node: hostile(),
        ports: vec![v1::Port { name: hostile(), number: 1 }],
        domains: vec![hostile()],
        labels: [(hostile(), hostile())].into(),
        ..v1::Endpoint::default()
    }
}

fn explanation() -> v1::Explanation {
    v1::Explanation {
        summary: hostile(),
        headline: hostile(),
        losses: vec![v1::FilterLoss { filter: hostile(), nodes: 1 }],
        nearest: vec![v1::NearestFit { change: hostile(), nodes: 1 }],
        victims: vec![v1::Victim {
            user: hostile(),
            job: hostile(),
            reclaimed_from: hostile(),
            ..v1::Victim::default()
        }],
        victims_node: hostile(),
        ..v1::Explanation::default()
    }
}

fn plan() -> PlanView {
    let spec = v1::JobSpec { user: hostile(), name: hostile(), ..v1::JobSpec::default() };
    let change = v1::FieldChange {
        path: hostile(),
        old_json: serde_json::to_string(HOSTILE).unwrap(),
        new_json: hostile(),
    };
    let placed = v1::PlannedPlacement { node: hostile(), ..v1::PlannedPlacement::default() };
    let answer = v1::PlanJobResponse {
        changed: true,
        revision: 1,
        diff: vec![change],
        placements: vec![placed],
        unplaced: vec![explanation()],
        refusal: hostile(),
        scheduler: hostile(),
        warnings: vec![hostile()],
        ..v1::PlanJobResponse::default()
    };
    PlanView::new(&spec, HOSTILE, answer)
}

fn job() -> v1::Job {
    v1::Job {
        cell: hostile(),
        user: hostile(),
        name: hostile(),
        id: hostile(),
        labels: [(hostile(), hostile())].into(),
        description: hostile(),
        ..v1::Job::default()
    }
}

/// A version of a job with a command that clears the reader's screen.
fn version() -> JobVersionView {
    let spec = serde_json::json!({"task": {"command": [HOSTILE]}});
    let actor = Some(hostile().into());
    let spec = SpecView(Some(spec));
    JobVersionView {
        version: 1,
        revision: None,
        at_ms: Some(1),
        actor,
        job: job().into(),
        spec,
        changes: None,
    }
}

fn cell() -> CellOutput {
    let settings = v1::CellSettings {
        profile: Some(hostile()),
        failure_domains: Some(v1::FailureDomains { keys: vec![hostile()] }),
        queueing: Some(hostile()),
        schedulers: Some(v1::SchedulerRules { of: [(hostile(), hostile())].into() }),
        ..v1::CellSettings::default()
    };
    let worker =
        v1::SchedulerWorker { scheduler: hostile(), owner: hostile(), ..v1::SchedulerWorker::default() };
    CellOutput::from(v1::Cell {
        name: hostile(),
        store: hostile(),
        warnings: vec![hostile()],
        schedulers: vec![worker],
        settings: Some(settings),
        ..v1::Cell::default()
    })
}

fn changes() -> Vec<ChangeView> {
    use v1::watch_response::Change;
    let gone = v1::EndpointWithdrawn { user: hostile(), job: hostile(), ..v1::EndpointWithdrawn::default() };
    let all = [
        Change::Job(job()),
        Change::Task(task()),
        Change::Node(node()),
        Change::Endpoint(endpoint()),
        Change::EndpointWithdrawn(gone),
        Change::JobRemoved(v1::JobRemoved { id: hostile(), user: hostile(), job: hostile() }),
        Change::NodeRemoved(hostile()),
        Change::MemberChanged(hostile()),
        Change::MemberRemoved(hostile()),
    ];
    let view = |change| {
        let message = v1::WatchResponse {
            actor: hostile(),
            action: hostile(),
            change: Some(change),
            ..v1::WatchResponse::default()
        };
        ChangeView::new(message).unwrap()
    };
    all.into_iter().map(view).collect()
}

/// What every view shows to people, by name.
fn shown(style: &Style) -> Vec<(&'static str, String)> {
    let event = v1::Event {
        actor: hostile(),
        action: hostile(),
        subject: hostile(),
        text: hostile(),
        ..v1::Event::default()
    };
    let status = JobStatusView {
        job: job().into(),
        tasks: vec![task().into()],
        unplaced: vec![explanation().into()],
        unhealthy: Vec::new(),
        spec: SpecView(None),
        next_page: None,
    };
    let violation = ViolationView {
        rule: "rule".to_owned(),
        key: HOSTILE.into(),
        stored: HOSTILE.into(),
        expected: HOSTILE.into(),
    };
    let checked = CellCheckView {
        cell: HOSTILE.into(),
        state: "open".to_owned(),
        at: None,
        nodes: 0,
        jobs: 0,
        tasks: 0,
        endpoints: 0,
        requests: 0,
        violations: vec![violation],
    };
    let mut all = vec![
        ("jobs", table(&[JobView::from(job())], style)),
        ("job", status.text(style)),
        ("history", table(&[version()], style)),
        ("tasks", table(&[TaskOutput::from(task())], style)),
        ("exit", ExitView::from(task().exit.unwrap()).text()),
        ("nodes", table(&[NodeOutput::from(node())], style)),
        (
            "node",
            NodeStatusView { node: node().into(), drain: vec![HOSTILE.into()], tasks: vec![task().into()] }
                .text(style),
        ),
        ("cells", table(&[cell()], style)),
        ("cell", cell().text(style)),
        ("endpoints", table(&[EndpointView::from(endpoint())], style)),
        ("published", EndpointChangeView::Published { endpoint: endpoint().into() }.text()),
        ("resync", EndpointChangeView::Resync { reason: HOSTILE.into() }.text()),
        ("events", table(&[EventView::from(event)], style)),
        ("why", explanations_text(&[explanation().into()])),
        ("plan", plan().text(style)),
        ("check", StoreCheckView::new("here".to_owned(), vec![checked]).text(style)),
    ];
    all.extend(changes().iter().map(|change| ("change", change.text())));
    all
}

#[test]
fn no_view_shows_what_a_terminal_would_act_on() {
    for wide in [false, true] {
        for (what, text) in shown(&Style { wide, color: false, columns: None, now_ms: None }) {
            assert_eq!(lines_shown(&text), text, "{what}");
            assert!(
                !text.lines().any(|line| line.starts_with("error:")),
                "{what} has a forged line:\n{text}"
            );
        }
        for (what, text) in shown(&Style { wide, color: true, columns: None, now_ms: None }) {
            assert_eq!(painted_shown(&text), text, "{what}: there are colours, and nothing besides");
            assert!(!text.contains("\x1b[2J") && !text.contains("\x1b[31m\u{202e}"), "{what}");
        }
    }
}

#[test]
fn answers_for_programs_have_the_text_itself_and_nothing_for_a_terminal() {
    let view = TaskOutput::from(task());
    let text = json(&view, JsonLayout::Indented).unwrap();
    assert_eq!(lines_shown(&text), text);
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["user"], HOSTILE);
    let text = yaml(&view).unwrap();
    assert_eq!(lines_shown(&text), text);
    let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(read["user"], HOSTILE);
}
