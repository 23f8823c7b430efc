//! The rollout of a job, for people and programs.

use std::time::Duration;

use borough_client::count_with_surge;
use borough_proto::convert::job_spec_from_message;
use borough_proto::v1;
use serde::Serialize;

use super::text::{facts, ranges, tally};
use super::{ExplanationView, Foreign, explanations_text, time, word};

/// So many canaries, with their verb.
pub(crate) fn canaries_text(canaries: u32) -> String {
    if canaries == 1 { "1 canary is".to_owned() } else { format!("{canaries} canaries are") }
}

/// Returns true if a job in this state has tasks that a rollout replaces.
fn is_live(job_state: &str) -> bool {
    matches!(job_state, "waiting" | "running")
}

/// That a rollout has left so many tasks alone: it could end no more healthy ones, or the nodes of a daemon job take no
/// new ones.
pub(crate) fn skipped_text(tasks: u32, kind: Option<v1::JobKind>) -> String {
    let (keeps, it, begins) = if tasks == 1 { ("keeps", "it", "begins") } else { ("keep", "they", "begin") };
    let tasks = tally(usize::try_from(tasks).unwrap_or(usize::MAX), "task");
    let or = match kind {
        Some(v1::JobKind::Daemon) => " or because the node takes no new task",
        Some(_) => "",
        None => ", or of a daemon job because the node takes no new task",
    };
    format!(
        "{tasks} skipped: {it} {keeps} the earlier version until {it} {begins} again, by `update.disruptions_max`{or}"
    )
}

/// The task that the failure of a rollout names; `None`: it is about none, or about several.
pub(crate) fn failed_index(failure: &str) -> Option<u32> {
    failure.strip_prefix("task ")?.split(' ').next()?.parse().ok()
}

/// That so many tasks are to surge and have no node.
pub(crate) fn surge_waits_text(tasks: u32) -> String {
    let wait = if tasks == 1 { "waits" } else { "wait" };
    format!("{} {wait} for a node", tally(usize::try_from(tasks).unwrap_or(usize::MAX), "surging task"))
}

/// How many tasks of a service are healthy, of how many: those that its owner wants. Both have what surges if the
/// gateway does not tell these apart.
pub(crate) fn healthy_of(job: &v1::Job) -> (u32, u32) {
    let healthy = job.tasks.map_or(0, |tasks| tasks.healthy);
    let progress = job.rollout.as_ref().and_then(|rollout| rollout.progress);
    match progress.and_then(|progress| progress.surging_healthy) {
        Some(surging) => (healthy.saturating_sub(surging), job.count),
        None if job.daemon.is_some() => (healthy, job.count),
        None => (healthy, count_with_surge(job)),
    }
}

/// Of a rollout that was done without a task that has its version.
const UNTRIED: &str = "no task has had it, so nothing goes back to it";

/// The last rollout of a job. The three counts are null in a watch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolloutOutput {
    pub(crate) state: String,
    pub(crate) version: u32,
    /// The last version that was rolled out before; null: none is known.
    pub(crate) from: Option<u32>,
    pub(crate) begun_ms: i64,
    pub(crate) by: Foreign,
    /// The version that it takes back; null if none.
    pub(crate) reverts: Option<u32>,
    /// Why it has failed, or why the version that it takes back has; null if it has not.
    pub(crate) failure: Option<Foreign>,
    /// The versions that were rolled out before, oldest first.
    pub(crate) versions: Vec<u32>,
    /// Tasks that it concerns, those with an attempt of the version, and the healthy ones of these.
    pub(crate) concerned: Option<u32>,
    pub(crate) updated: Option<u32>,
    pub(crate) healthy: Option<u32>,
    /// Tasks that run beside the job's own until it is done.
    pub(crate) surge: u32,
    /// Those of them that have the version first; 0: it is promoted, or had none.
    pub(crate) canaries: u32,
    /// Since when they have waited for the promotion, healthy; null: they do not.
    pub(crate) canaries_healthy_ms: Option<i64>,
    /// Those of them that have no node; null: not known.
    pub(crate) surge_unplaced: Option<u32>,
    /// Whether the cell has said that they wait for one. Most get a node at once.
    #[serde(skip)]
    surge_waits: bool,
    /// The healthy ones of them; null: not known.
    pub(crate) surge_healthy: Option<u32>,
    /// Healthy tasks of the job's own that it has ended.
    pub(crate) disruptions: u32,
    /// Tasks that kept an earlier version when it was done: it could end no more healthy ones.
    pub(crate) skipped: u32,
    /// Whether it was done without a task that has its version: no way back leads to it.
    pub(crate) untried: bool,
    /// Healthy attempts that do not count yet; null: not known.
    pub(crate) proving: Option<u32>,
}

impl From<v1::Rollout> for RolloutOutput {
    fn from(rollout: v1::Rollout) -> Self {
        Self {
            state: word(rollout.state().as_str_name(), "ROLLOUT_STATE_"),
            version: rollout.version,
            from: rollout.versions.last().copied(),
            begun_ms: rollout.begun_ms,
            by: rollout.by.into(),
            reverts: Some(rollout.reverts).filter(|version| *version > 0),
            failure: Some(rollout.failure).filter(|failure| !failure.is_empty()).map(Foreign::from),
            versions: rollout.versions,
            concerned: rollout.progress.map(|progress| progress.concerned),
            updated: rollout.progress.map(|progress| progress.updated),
            healthy: rollout.progress.map(|progress| progress.healthy),
            surge: rollout.surge,
            canaries: rollout.canaries,
            disruptions: rollout.disruptions,
            skipped: rollout.skipped,
            untried: rollout.untried,
            proving: rollout.progress.and_then(|progress| progress.proving),
            canaries_healthy_ms: Some(rollout.canaries_healthy_ms).filter(|at_ms| *at_ms > 0),
            surge_unplaced: rollout
                .progress
                .and_then(|progress| Some(rollout.surge.saturating_sub(progress.surging?))),
            surge_waits: false,
            surge_healthy: rollout.progress.and_then(|progress| progress.surging_healthy),
        }
    }
}

impl RolloutOutput {
    /// In a list, behind the state of a job; empty if it is done.
    pub(crate) fn text_short(&self) -> String {
        let healthy = self.healthy.zip(self.concerned);
        let progress = healthy.map(|(healthy, of)| format!(" {healthy}/{of}")).unwrap_or_default();
        let surge = match (self.surge, self.surge_unplaced.unwrap_or(0)) {
            (0, _) => String::new(),
            (surge, unplaced) if unplaced >= surge => format!(", {surge} to surge"),
            (surge, unplaced) => format!(", {} surging", surge.saturating_sub(unplaced)),
        };
        match self.state.as_str() {
            "done" => String::new(),
            "rolling" if self.canaries_healthy_ms.is_some() => "canary waits for promote".to_owned(),
            "rolling" if self.canaries > 0 => "canary".to_owned(),
            "rolling" => format!("rollout{progress}{surge}"),
            "failed" => format!("rollout failed{surge}"),
            state => format!("rollout {state}{progress}{surge}"),
        }
    }

    /// How many tasks surge, and how many of them have no node; `None`: none is to surge.
    fn surge_text(&self) -> Option<String> {
        let unplaced = self.surge_unplaced.unwrap_or(0).min(self.surge);
        let wait = if unplaced == 1 { "waits" } else { "wait" };
        match self.surge.saturating_sub(unplaced) {
            0 if unplaced == 0 => None,
            0 if self.surge_waits => Some(surge_waits_text(unplaced)),
            0 => Some(format!("{unplaced} to surge")),
            placed if unplaced == 0 => Some(format!("{placed} surging")),
            placed if self.surge_waits => {
                Some(format!("{placed} surging, and {unplaced} more {wait} for a node"))
            }
            placed => Some(format!("{placed} surging, and {unplaced} more to surge")),
        }
    }

    /// The state, of a job in this state. Once that is over, nothing of its rollout goes on.
    fn state_word(&self, job_state: &str) -> &str {
        let is_open = matches!(self.state.as_str(), "rolling" | "paused");
        if is_open && !is_live(job_state) { "unfinished" } else { &self.state }
    }

    /// In one line, of the job of this name in this state: from which version to which, how far, and why not further.
    pub(crate) fn text(&self, job: &str, job_state: &str) -> String {
        let why = self.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
        let mut text = format!("of version {}", self.version);
        match (self.reverts, self.from) {
            (Some(reverts), _) => text.push_str(&format!(", which takes back version {reverts}")),
            (None, Some(from)) => text.push_str(&format!(" from {from}")),
            (None, None) => {}
        }
        text.push_str(&format!(", {}", self.state_word(job_state)));
        if self.untried && self.state == "done" {
            text.push_str(&format!("; {UNTRIED}"));
        }
        if self.skipped > 0 && is_live(job_state) {
            text.push_str(&format!("; {}", self.skipped_text()));
        }
        if let Some(canaries) = self.canaries_text(job).filter(|_| is_live(job_state)) {
            text.push_str(&format!("; {canaries}"));
        }
        if self.state == "failed" {
            text.push_str(&why);
        }
        if !is_live(job_state) && self.state != "done" {
            text.push_str(&format!("; the job is {job_state}"));
        } else if self.state != "done"
            && let Some(progress) = self.progress_text()
        {
            text.push_str(&format!("; {progress}"));
        }
        // What goes back has failed by itself, or goes back because of that.
        if let Some(reverts) = self.reverts.filter(|_| self.state != "failed" && !why.is_empty()) {
            text.push_str(&format!("; version {reverts} failed{why}"));
        }
        text
    }

    /// Which tasks it has left alone, and why.
    fn skipped_text(&self) -> String {
        skipped_text(self.skipped, None)
    }

    /// What its canaries wait for; `None`: it has none.
    fn canaries_text(&self, job: &str) -> Option<String> {
        let canaries = canaries_text(self.canaries);
        match self.canaries_healthy_ms {
            _ if self.canaries == 0 => None,
            // What it knew about them may be out of date.
            _ if self.state == "paused" => Some(format!(
                "{canaries} not promoted while the rollout is paused; to go on: `borough rollout resume {job}`"
            )),
            _ if self.state != "rolling" => None,
            Some(since_ms) => Some(format!(
                "{canaries} healthy since {}; to go on: `borough rollout promote {job}`",
                time(since_ms)
            )),
            None => {
                let healthy = self
                    .surge_healthy
                    .map(|healthy| format!(", {} healthy by now", healthy.min(self.canaries)));
                let healthy = healthy.unwrap_or_default();
                Some(format!("nothing is replaced until {canaries} healthy for long enough{healthy}"))
            }
        }
    }

    /// When a healthy attempt counts; `None`: none is waited for. Until then nothing goes on, and nothing else says so.
    pub(super) fn counts_text(&self, healthy_after_ms: u64) -> Option<String> {
        let is_awaited = self.state == "rolling" && self.canaries_healthy_ms.is_none();
        let has_any = self.healthy.unwrap_or(0).max(self.surge_healthy.unwrap_or(0)) > 0;
        let is_proving = self.proving.map_or(has_any, |proving| proving > 0);
        if !is_awaited || !is_proving || healthy_after_ms == 0 {
            return None;
        }
        let after = humantime::format_duration(Duration::from_millis(healthy_after_ms));
        Some(format!("each attempt once it has been healthy for {after} (`update.healthy_after`)"))
    }

    /// How many tasks have the version, and how many of them are healthy; `None`: not known.
    fn progress_text(&self) -> Option<String> {
        let (updated, of, healthy) = (self.updated?, self.concerned?, self.healthy?);
        let have = format!("{updated} of {of} have it");
        let have = if updated == 0 { have } else { format!("{have}, {healthy} of these are healthy") };
        Some(match self.surge_text() {
            None => have,
            Some(surge) => format!("{have}; {surge}"),
        })
    }
}

/// The last rollout of a job, with the job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RolloutStatusView {
    pub(crate) user: Foreign,
    pub(crate) name: Foreign,
    /// Once the job is over, nothing of its rollout goes on.
    pub(crate) job_state: String,
    pub(crate) kind: String,
    /// Tasks of the job.
    pub(crate) count: u32,
    #[serde(flatten)]
    pub(crate) rollout: RolloutOutput,
    /// The earlier version that says the same, if the rollout takes one back; null: none is known.
    pub(crate) brings_back: Option<u32>,
    /// How the last attempt ended of the task that made it fail, if that did not start: it has written nothing.
    #[serde(skip)]
    pub(crate) unstarted: Option<Foreign>,
    /// Why tasks have no node, while the rollout is not done.
    pub(crate) unplaced: Vec<ExplanationView>,
    /// Tasks that it waits for because they end, or because their node is lost, while it is not done.
    pub(crate) leaving: Vec<Foreign>,
    /// How long an attempt has to be healthy before it counts, in milliseconds, while that is waited for.
    #[serde(skip)]
    pub(crate) healthy_after_ms: Option<u64>,
}

/// How long an attempt of this spec has to be healthy before it counts in a rollout.
pub(crate) fn healthy_after_ms(spec: &v1::JobSpec) -> Option<u64> {
    let spec = job_spec_from_message(spec).ok()?;
    Some(spec.update.unwrap_or_default().healthy_after_ms)
}

/// A task that a rollout waits for, as it is said: `task 0 ends on alpha-1 since TIME`.
pub(crate) fn leaving_text(task: &v1::Task) -> Foreign {
    let on = if task.node.is_empty() { String::new() } else { format!(" on {}", task.node) };
    let since = time(task.changed_ms);
    let text = match task.state() {
        v1::TaskState::Lost => {
            format!("task {} is lost with its node {} since {since}", task.index, task.node)
        }
        _ => format!("task {} ends{on} since {since}: drain delay, SIGTERM, grace", task.index),
    };
    text.into()
}

impl RolloutStatusView {
    /// `unplaced` says why tasks of the job have no node.
    pub(crate) fn new(job: &v1::Job, rollout: v1::Rollout, unplaced: Vec<ExplanationView>) -> Self {
        let surge_waits = unplaced.iter().any(|view| view.surges && !view.fits);
        Self {
            user: job.user.as_str().into(),
            name: job.name.as_str().into(),
            job_state: word(job.state().as_str_name(), "JOB_STATE_"),
            kind: word(job.kind().as_str_name(), "JOB_KIND_"),
            count: job.count,
            rollout: RolloutOutput { surge_waits, ..rollout.into() },
            brings_back: None,
            unstarted: None,
            unplaced,
            leaving: Vec::new(),
            healthy_after_ms: None,
        }
    }

    /// The command that shows what the attempts of a version wrote that has failed; empty: it has not.
    fn output_text(&self) -> String {
        let Some(failure) = self.rollout.failure.as_ref().map(ToString::to_string) else {
            return String::new();
        };
        if let Some(end) = &self.unstarted {
            return format!("nothing; {end}");
        }
        let job = format!("{}/{}", self.user, self.name);
        match failed_index(&failure) {
            Some(index) => format!("borough task logs {job}/{index} --previous"),
            None => format!("borough job logs {job} --attempt all"),
        }
    }

    pub(crate) fn text(&self) -> String {
        let rollout = &self.rollout;
        let versions = rollout.versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let is_over = !is_live(&self.job_state);
        let over = if is_over { format!(", and the job is {}", self.job_state) } else { String::new() };
        let state = rollout.state_word(&self.job_state);
        let takes_back = rollout.reverts.map(|version| format!("version {version}")).unwrap_or_default();
        let brings_back = self.brings_back.map(|version| format!("version {version}")).unwrap_or_default();
        let is_batch = self.kind == "batch";
        let batch =
            if is_batch { "running attempts go on, and only later ones get the new version" } else { "" };
        let mut shown = vec![
            ("job", format!("{}/{}", self.user, self.name)),
            ("rollout", format!("of version {}: {state}{over}", rollout.version)),
            ("takes back", takes_back),
            ("brings back", brings_back),
            ("why", rollout.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("what it wrote", self.output_text()),
            ("begun", format!("{} by {}", time(rollout.begun_ms), rollout.by)),
            ("canaries", if is_over { String::new() } else { self.canaries_text() }),
            ("tasks", if is_over { String::new() } else { self.tasks_text() }),
            ("counts", self.healthy_after_ms.and_then(|ms| rollout.counts_text(ms)).unwrap_or_default()),
            ("waits for", self.leaving.iter().map(Foreign::to_string).collect::<Vec<_>>().join("; ")),
            ("untried", if rollout.untried && state == "done" { UNTRIED.to_owned() } else { String::new() }),
            ("skipped", if rollout.skipped > 0 { rollout.skipped_text() } else { String::new() }),
            ("batch", batch.to_owned()),
            ("rolled out", if versions.is_empty() { versions } else { format!("before: {versions}") }),
        ];
        shown.retain(|(_, text)| !text.is_empty());
        let mut text = facts(&shown);
        if !self.unplaced.is_empty() {
            text.push('\n');
            text.push_str(&explanations_text(&self.unplaced));
        }
        text
    }

    /// Which tasks the canaries are, and what they wait for. They stand behind those of the owner.
    fn canaries_text(&self) -> String {
        let job = format!("{}/{}", self.user, self.name);
        let Some(text) = self.rollout.canaries_text(&job) else { return String::new() };
        let end = self.count.saturating_add(self.rollout.canaries);
        let indexes: Vec<u32> = (self.count..end).collect();
        format!("{} {}: {text}", if indexes.len() == 1 { "task" } else { "tasks" }, ranges(&indexes))
    }

    fn tasks_text(&self) -> String {
        let Some(mut progress) = self.rollout.progress_text() else { return String::new() };
        if self.rollout.surge_waits && self.rollout.surge_unplaced.is_some_and(|tasks| tasks > 0) {
            progress.push_str(&format!(" (borough why {}/{})", self.user, self.name));
        }
        let others = self.count.saturating_sub(self.rollout.concerned.unwrap_or(self.count));
        if others == 0 || self.kind == "batch" {
            return progress;
        }
        let need = if others == 1 { "needs" } else { "need" };
        let others = tally(usize::try_from(others).unwrap_or(usize::MAX), "other task");
        format!("{progress}; {others} of the job {need} no change")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_healthy_attempts_reads_for_how_long() {
        let progress =
            Some(v1::RolloutProgress { concerned: 6, updated: 1, healthy: 1, ..Default::default() });
        let state = v1::RolloutState::Rolling.into();
        let rollout = v1::Rollout { state, version: 2, progress, ..v1::Rollout::default() };
        let mut view = RolloutStatusView::new(&v1::Job::default(), rollout, Vec::new());
        let line = "each attempt once it has been healthy for 1h (`update.healthy_after`)";
        assert!(!view.text().contains(line));
        view.healthy_after_ms = Some(3_600_000);
        assert!(view.text().contains(line), "{}", view.text());
        view.rollout.proving = Some(0);
        assert!(!view.text().contains(line), "all of them count");
        (view.rollout.proving, view.rollout.healthy) = (None, Some(0));
        assert!(!view.text().contains(line), "none is");
    }

    /// The time since which they were healthy may be that of attempts that have ended since.
    #[test]
    fn the_canaries_of_a_paused_rollout_wait_for_its_resumption() {
        let state = v1::RolloutState::Paused.into();
        let rollout =
            v1::Rollout { state, version: 2, canaries: 1, canaries_healthy_ms: 5, ..Default::default() };
        let text = RolloutOutput::from(rollout).text("ann/web", "running");
        let end = "1 canary is not promoted while the rollout is paused; to go on: `borough rollout resume ann/web`";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_documentation_lists_the_fields_of_a_status() {
        let view = RolloutStatusView::new(&v1::Job::default(), v1::Rollout::default(), Vec::new());
        let object = serde_json::to_value(&view).unwrap();
        let own: std::collections::BTreeSet<&str> =
            object.as_object().unwrap().keys().map(String::as_str).collect();
        let page = include_str!("../../../../docs/cli.md");
        let row = page.lines().find(|line| line.starts_with("| `rollout status`, ")).unwrap();
        let (_, listed) = row.split_once("`{").unwrap();
        let (listed, _) = listed.split_once("}`").unwrap();
        assert_eq!(listed.split(", ").collect::<std::collections::BTreeSet<_>>(), own);
    }

    #[test]
    fn a_rollout_names_what_ends_and_what_is_lost() {
        let task = |state: v1::TaskState, index| {
            let (state, node) = (state.into(), "n1".to_owned());
            leaving_text(&v1::Task { state, node, index, changed_ms: 1_000, ..v1::Task::default() })
        };
        let rollout = v1::Rollout { state: v1::RolloutState::Rolling.into(), ..v1::Rollout::default() };
        let mut view = RolloutStatusView::new(&v1::Job::default(), rollout, Vec::new());
        assert!(!view.text().contains("waits for"));
        view.leaving = vec![task(v1::TaskState::Stopping, 0), task(v1::TaskState::Lost, 2)];
        let line = "waits for  task 0 ends on n1 since 1970-01-01T00:00:01Z: drain delay, SIGTERM, grace; \
                    task 2 is lost with its node n1 since 1970-01-01T00:00:01Z\n";
        assert!(view.text().contains(line), "{}", view.text());
    }

    #[test]
    fn a_rollout_says_how_far_it_is_and_why_not_further() {
        let progress =
            Some(v1::RolloutProgress { concerned: 3, updated: 2, healthy: 1, ..Default::default() });
        let rolling = v1::Rollout {
            state: v1::RolloutState::Rolling.into(),
            version: 4,
            versions: vec![1, 3],
            progress,
            ..v1::Rollout::default()
        };
        let of = |rollout: &v1::Rollout| {
            let output = RolloutOutput::from(rollout.clone());
            (output.text_short(), output.text("ann/web", "running"))
        };
        let text = |short: &str, long: &str| (short.to_owned(), long.to_owned());
        assert_eq!(
            of(&rolling),
            text("rollout 1/3", "of version 4 from 3, rolling; 2 of 3 have it, 1 of these are healthy")
        );
        let surging = v1::Rollout { surge: 2, ..rolling.clone() };
        let text_of = "of version 4 from 3, rolling; 2 of 3 have it, 1 of these are healthy; 2 surging";
        assert_eq!(of(&surging), text("rollout 1/3, 2 surging", text_of));
        let placed = |placed| {
            let progress = progress.map(|known| v1::RolloutProgress { surging: Some(placed), ..known });
            v1::Rollout { progress, ..surging.clone() }
        };
        // Most get a node at once. Only the cell knows which of them wait for one.
        let have = "of version 4 from 3, rolling; 2 of 3 have it, 1 of these are healthy";
        let long = format!("{have}; 1 surging, and 1 more to surge");
        assert_eq!(of(&placed(1)), text("rollout 1/3, 1 surging", &long));
        assert_eq!(of(&placed(0)), text("rollout 1/3, 2 to surge", &format!("{have}; 2 to surge")));
        let status = |rollout: v1::Rollout, fits| {
            let state = v1::JobState::Running.into();
            let job =
                v1::Job { state, count: 3, surge: 2, rollout: Some(rollout.clone()), ..v1::Job::default() };
            let explained = v1::Explanation { indexes: vec![3, 4], fits, ..v1::Explanation::default() };
            RolloutStatusView::new(&job, rollout, ExplanationView::all_of(&job, vec![explained])).text()
        };
        assert!(status(placed(1), false).contains("; 1 surging, and 1 more waits for a node (borough why"));
        assert!(status(placed(0), false).contains("; 2 surging tasks wait for a node (borough why"));
        assert!(!status(placed(0), true).contains("wait"), "they fit, and only have no node yet");
        // Nothing of it goes on once the job is over.
        let over = RolloutOutput::from(surging.clone()).text("ann/web", "stopped");
        assert_eq!(over, "of version 4 from 3, unfinished; the job is stopped");
        let view = |job_state: v1::JobState| {
            let job = v1::Job { state: job_state.into(), count: 3, ..v1::Job::default() };
            RolloutStatusView::new(&job, surging.clone(), Vec::new()).text()
        };
        assert!(view(v1::JobState::Stopped).contains("of version 4: unfinished, and the job is stopped"));
        assert!(view(v1::JobState::Running).contains("of version 4: rolling\n"));
        let unknown =
            v1::Rollout { state: v1::RolloutState::Paused.into(), progress: None, ..rolling.clone() };
        assert_eq!(of(&unknown), text("rollout paused", "of version 4 from 3, paused"));
        let done = v1::Rollout { state: v1::RolloutState::Done.into(), ..rolling.clone() };
        assert_eq!(of(&done), text("", "of version 4 from 3, done"));
        let failure = "task 0 failed 3 times in a row".to_owned();
        let failed =
            v1::Rollout { state: v1::RolloutState::Failed.into(), failure, progress: None, ..rolling };
        let why = "of version 4 from 3, failed: task 0 failed 3 times in a row";
        assert_eq!(of(&failed), text("rollout failed", why));
        let back = v1::Rollout { state: v1::RolloutState::Done.into(), version: 5, reverts: 4, ..failed };
        let why = "of version 5, which takes back version 4, done; version 4 failed: task 0 failed 3 times in a row";
        assert_eq!(of(&back), text("", why));
    }
}
