//! Why tasks are not placed, or do not run as they should.

use borough_client::count_with_surge;
use borough_proto::v1;
use serde::Serialize;

use super::text::{ranges, tally, word};
use super::{ExitView, Foreign, RolloutOutput, healthy_after_ms};

/// Why similar tasks are not placed, or do not run as they should.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ExplanationView {
    /// `USER/JOB`; null where the object around it names the job.
    pub(crate) job: Option<Foreign>,
    pub(crate) indexes: Vec<u32>,
    pub(crate) summary: Foreign,
    /// The summary without what the other fields say.
    #[serde(skip)]
    pub(crate) headline: Foreign,
    /// Nodes that were examined.
    pub(crate) nodes: u32,
    /// Each node is counted at the first filter that refuses it.
    pub(crate) losses: Vec<LossView>,
    /// Changes that would make them fit, nearest first.
    pub(crate) nearest: Vec<NearestView>,
    /// Tasks that would be evicted for them.
    pub(crate) victims: Vec<VictimView>,
    /// The node of the victims; null if evictions do not help.
    pub(crate) victims_node: Option<Foreign>,
    /// The node of the tasks, if its agent does not answer; null: they are not placed.
    pub(crate) silent_node: Option<Foreign>,
    /// Since when that agent does not answer; null without such a node.
    pub(crate) silent_since_ms: Option<i64>,
    /// When that node will be declared lost, about; null if not known.
    pub(crate) lost_at_ms: Option<i64>,
    /// The most failures in a row of one of the tasks; 0: it is not about failures.
    pub(crate) failures: u32,
    /// How the latest of those attempts ended; null: it is not about failures.
    pub(crate) exit: Option<ExitView>,
    /// Before when none of those tasks starts again; null: no back-off.
    pub(crate) next_start_ms: Option<i64>,
    /// Whether the scheduler would place the tasks now, or once it is their turn.
    #[serde(skip)]
    pub(crate) fits: bool,
    /// The disruption budget of the job, and which tasks use it; empty: it is not about room elsewhere.
    #[serde(skip)]
    pub(crate) budget: Foreign,
    /// The probe that has not passed; null: it is not about the health of tasks that run.
    pub(crate) probe: Option<Foreign>,
    /// The helper that runs before or after the command of the tasks; null: it is not about helpers.
    pub(crate) helper: Option<Foreign>,
    /// Since when the first of those tasks runs; null without a probe and a helper.
    pub(crate) unhealthy_since_ms: Option<i64>,
    /// The rollout that goes on, or has failed; null: it is not about one.
    pub(crate) rollout: Option<RolloutOutput>,
    /// Whether a rollout runs these tasks beside those that the job's owner wants.
    #[serde(skip)]
    pub(crate) surges: bool,
    /// Whether tasks that run were not resized in place.
    #[serde(skip)]
    pub(crate) resize_refused: bool,
    /// Lines below the headline. The summary has them too.
    #[serde(skip)]
    pub(crate) details: Vec<Foreign>,
}

/// A task that would be evicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct VictimView {
    pub(crate) task: Foreign,
    pub(crate) priority: u32,
    /// Whether it only holds its place and does not run.
    pub(crate) holds: bool,
    /// The queue that returns it; null if it is evicted for a higher priority.
    pub(crate) reclaimed_from: Option<Foreign>,
}

impl From<v1::Victim> for VictimView {
    fn from(victim: v1::Victim) -> Self {
        let task = format!("{}/{}/{}", victim.user, victim.job, victim.index);
        let reclaimed_from = Some(Foreign::from(victim.reclaimed_from)).filter(|queue| !queue.is_empty());
        Self { task: task.into(), priority: victim.priority, holds: victim.holds, reclaimed_from }
    }
}

/// How many nodes a filter refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LossView {
    pub(crate) filter: Foreign,
    pub(crate) nodes: u32,
}

/// A change that would make nodes fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NearestView {
    pub(crate) change: Foreign,
    pub(crate) nodes: u32,
}

impl From<v1::Explanation> for ExplanationView {
    fn from(explanation: v1::Explanation) -> Self {
        let losses = explanation.losses.into_iter();
        let nearest = explanation.nearest.into_iter();
        Self {
            job: None,
            indexes: explanation.indexes,
            summary: explanation.summary.into(),
            headline: explanation.headline.into(),
            nodes: explanation.nodes,
            losses: losses.map(|loss| LossView { filter: loss.filter.into(), nodes: loss.nodes }).collect(),
            nearest: nearest.map(|fit| NearestView { change: fit.change.into(), nodes: fit.nodes }).collect(),
            victims: explanation.victims.into_iter().map(VictimView::from).collect(),
            victims_node: Some(Foreign::from(explanation.victims_node)).filter(|node| !node.is_empty()),
            silent_node: Some(Foreign::from(explanation.silent_node)).filter(|node| !node.is_empty()),
            silent_since_ms: Some(explanation.silent_since_ms).filter(|&since| since > 0),
            lost_at_ms: Some(explanation.lost_at_ms).filter(|&at| at > 0),
            failures: explanation.failures,
            exit: explanation.exit.map(ExitView::from),
            next_start_ms: Some(explanation.next_start_ms).filter(|&at| at > 0),
            fits: explanation.fits,
            budget: explanation.budget.into(),
            probe: Some(Foreign::from(explanation.probe)).filter(|probe| !probe.is_empty()),
            helper: Some(Foreign::from(explanation.helper)).filter(|helper| !helper.is_empty()),
            unhealthy_since_ms: Some(explanation.unhealthy_since_ms).filter(|&since| since > 0),
            rollout: None,
            surges: false,
            resize_refused: explanation.resize_refused,
            details: explanation.details.into_iter().map(Foreign::from).collect(),
        }
    }
}

impl ExplanationView {
    /// Returns true if the job of the tasks waits in vain for others.
    pub(crate) fn is_never(&self) -> bool {
        self.headline.raw().starts_with("never starts")
    }

    /// Returns true if it is about tasks that run: their health, or a helper of theirs.
    pub(crate) fn is_of_running(&self) -> bool {
        self.probe.is_some() || self.helper.is_some()
    }
}

pub(crate) fn explanations_text(explanations: &[ExplanationView]) -> String {
    let text = |explanation: &ExplanationView| {
        let word = if explanation.surges { "surging task" } else { "task" };
        let tasks = match explanation.indexes.as_slice() {
            [] => "all tasks".to_owned(),
            [index] => format!("{word} {index}"),
            indexes => format!("{} ({})", tally(indexes.len(), word), ranges(indexes)),
        };
        let text = explanation.text();
        let is_one = explanation.indexes.len() == 1;
        format!("{tasks}: {}", if is_one { text } else { of_several(&text) })
    };
    explanations.iter().map(text).collect()
}

/// What the scheduler says of one task, as it is said of several.
fn of_several(text: &str) -> String {
    const VERBS: [(&str, &str); 4] = [
        ("waits ", "wait "),
        ("fits ", "fit "),
        ("backs off ", "back off "),
        ("never starts", "never start"),
    ];
    let verb = VERBS.iter().find_map(|(one, several)| Some((text.strip_prefix(one)?, several)));
    verb.map_or_else(|| text.to_owned(), |(rest, several)| format!("{several}{rest}"))
}

impl ExplanationView {
    /// Explanations of tasks of `job`: those about tasks that surge say so.
    pub(crate) fn all_of(job: &v1::Job, explanations: Vec<v1::Explanation>) -> Vec<Self> {
        // A daemon job has an index for each node that it has served, and nothing of it surges.
        let end = count_with_surge(job);
        let surging = if job.daemon.is_some() { end..end } else { job.count..end };
        let surges = |view: &Self| {
            !view.indexes.is_empty() && view.indexes.iter().all(|index| surging.contains(index))
        };
        let views = explanations.into_iter().map(Self::from);
        let name = Foreign::from(format!("{}/{}", job.user, job.name));
        views.map(|view| Self { surges: surges(&view), job: Some(name.clone()), ..view }).collect()
    }

    /// The rollout of a job, if it is not done, or if it takes back what has failed. `spec` is in force.
    pub(crate) fn of_rollout(job: &v1::Job, spec: Option<&v1::JobSpec>) -> Option<Self> {
        let rollout = RolloutOutput::from(job.rollout.clone()?);
        let is_live = matches!(job.state(), v1::JobState::Waiting | v1::JobState::Running);
        let state = word(job.state().as_str_name(), "JOB_STATE_");
        if !is_live || (rollout.state == "done" && rollout.failure.is_none()) {
            return None;
        }
        let job_name = format!("{}/{}", job.user, job.name);
        let headline = format!("rollout {}", rollout.text(&job_name, &state));
        let counts = spec.and_then(healthy_after_ms).and_then(|after_ms| rollout.counts_text(after_ms));
        let mut details: Vec<String> = counts.map(|text| format!("counts: {text}")).into_iter().collect();
        details.push(format!("borough rollout status {job_name}"));
        let summary = format!("{headline}; {}", details.join("; "));
        let explanation = v1::Explanation { summary, headline, details, ..v1::Explanation::default() };
        let name = Foreign::from(job_name);
        Some(Self { rollout: Some(rollout), job: Some(name), ..Self::from(explanation) })
    }

    /// The explanation without its tasks: the headline, and a line per fact.
    pub(crate) fn text(&self) -> String {
        if self.headline.is_empty() {
            // An older gateway: its summary says everything.
            return format!("{}\n", self.summary);
        }
        let mut text = format!("{}\n", self.headline);
        for loss in &self.losses {
            let of = format!("{} of {}", loss.nodes, tally(width(self.nodes), "node"));
            text.push_str(&format!("  {of} refused by: {}\n", loss.filter));
        }
        for fit in &self.nearest {
            let nodes = tally(width(fit.nodes), "node");
            text.push_str(&format!("  would fit on {nodes} {}\n", fit.change));
        }
        text.push_str(&victims_text(&self.victims, self.victims_node.as_ref()));
        text.extend(self.details.iter().map(|line| format!("  {line}\n")));
        text
    }
}

/// Victims for people, a line each.
pub(crate) fn victims_text(victims: &[VictimView], node: Option<&Foreign>) -> String {
    let on = node.map(|node| format!(" on {node}")).unwrap_or_default();
    let line = |victim: &VictimView| {
        let queue = victim.reclaimed_from.as_ref();
        let why = queue.map(|queue| format!(", beyond the guarantee of queue {queue}")).unwrap_or_default();
        format!("  evicts task {} (priority {}{why}){on}\n", victim.task, victim.priority)
    };
    victims.iter().map(line).collect()
}

fn width(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_task_of_a_daemon_job_surges() {
        let surges = |daemon: Option<v1::DaemonStatus>| {
            let rollout = Some(v1::Rollout { surge: 1, ..v1::Rollout::default() });
            let job = v1::Job { count: 1, surge: 1, daemon, rollout, ..v1::Job::default() };
            let explanation = v1::Explanation { indexes: vec![1], ..v1::Explanation::default() };
            ExplanationView::all_of(&job, vec![explanation]).iter().any(|view| view.surges)
        };
        assert!(surges(None));
        assert!(!surges(Some(v1::DaemonStatus { indexes: 4, ..v1::DaemonStatus::default() })));
    }

    #[test]
    fn the_verb_is_of_as_many_tasks_as_are_named() {
        let of = |indexes: Vec<u32>, headline: &str| {
            let headline = headline.to_owned();
            let explanation = v1::Explanation { indexes, headline, ..v1::Explanation::default() };
            explanations_text(&[explanation.into()])
        };
        assert_eq!(of(vec![0, 1, 2], "waits for an alloc"), "3 tasks (0-2): wait for an alloc\n");
        assert_eq!(of(vec![0, 2], "fits on none of 2 nodes"), "2 tasks (0, 2): fit on none of 2 nodes\n");
        assert_eq!(of(vec![], "fits on none of 2 nodes"), "all tasks: fit on none of 2 nodes\n");
        assert_eq!(of(vec![1], "fits on none of 2 nodes"), "task 1: fits on none of 2 nodes\n");
        assert_eq!(of(vec![0, 1], "their node n1 is drained"), "2 tasks (0-1): their node n1 is drained\n");
    }
}
