//! Explains tasks that run with other amounts than they are to have: a resize in place was refused.

use borough_model::job::RolloutState;
use borough_model::task::ResizeRefused;
use borough_proto::v1;

use super::explanation_of;

/// Tasks whose figures an explanation shows.
const SHOWN_MAX: usize = 3;

/// Tasks of a job that were not resized.
#[derive(Clone, Debug, Default)]
pub(super) struct RefusedTasks {
    indexes: Vec<u32>,
    /// The first ones: `USER/JOB/INDEX`, and why.
    shown: Vec<(String, String)>,
    /// The job, if its rollout is paused.
    paused: Option<String>,
}

impl RefusedTasks {
    /// Adds a task of `job` that still waits, while its rollout is in this state. One without room, and one that its
    /// node could not resize, is replaced.
    pub(super) fn add(&mut self, index: u32, job: &str, refused: &ResizeRefused, rollout: RolloutState) {
        if !matches!(refused, ResizeRefused::MemoryInUse { .. }) {
            return;
        }
        self.indexes.push(index);
        if self.shown.len() < SHOWN_MAX {
            self.shown.push((format!("{job}/{index}"), refused.to_string()));
        }
        self.paused = (rollout == RolloutState::Paused).then(|| job.to_owned());
    }

    /// One explanation, if there is such a task.
    pub(super) fn explained(self) -> Option<v1::Explanation> {
        let (name, why) = self.shown.first()?;
        let (keeps, it) = if self.indexes.len() == 1 {
            ("keeps its amounts", "it")
        } else {
            ("keep their amounts", "them")
        };
        let headline = if self.indexes.len() == 1 {
            format!("{keeps}: {why}")
        } else {
            format!("{keeps}: {name}: {why}")
        };
        let mut details: Vec<String> =
            self.shown.iter().skip(1).map(|(name, why)| format!("{name}: {why}")).collect();
        let again = match &self.paused {
            None => "the rollout tries again as its use falls".to_owned(),
            Some(job) => format!("the rollout is paused, and tries again after borough rollout resume {job}"),
        };
        details.push(format!(
            "{again}, and does not restart {it}: borough task restart {name} starts it with the new amounts; or ask for more \
             `memory`: borough job run FILE"
        ));
        let explanation = explanation_of(self.indexes, headline, details);
        Some(v1::Explanation { resize_refused: true, ..explanation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_uses_its_memory_is_named_with_the_figures_and_the_way_out() {
        let mut refused = RefusedTasks::default();
        let rolling = RolloutState::Rolling;
        refused.add(4, "ann/web", &ResizeRefused::NoRoom { missing: "cpu".to_owned() }, rolling);
        assert_eq!(refused.clone().explained(), None, "the rollout replaces it");
        for index in [0, 2] {
            let in_use = ResizeRefused::MemoryInUse { used_bytes: 70 << 20, asked_bytes: 64 << 20 };
            refused.add(index, "ann/web", &in_use, rolling);
        }
        let mut paused = refused.clone();
        let explanation = refused.explained().unwrap();
        assert_eq!((explanation.indexes.as_slice(), explanation.resize_refused), (&[0, 2][..], true));
        let why = "it uses 70MiB of memory, which is more than the 64MiB that it is to have";
        assert_eq!(explanation.headline, format!("keep their amounts: ann/web/0: {why}"));
        assert_eq!(explanation.details[0], format!("ann/web/2: {why}"));
        assert!(explanation.details[1].contains("borough task restart ann/web/0"), "{explanation:?}");
        let in_use = ResizeRefused::MemoryInUse { used_bytes: 70 << 20, asked_bytes: 64 << 20 };
        paused.add(3, "ann/web", &in_use, RolloutState::Paused);
        let details = paused.explained().unwrap().details.join("\n");
        assert!(details.contains("the rollout is paused") && details.contains("resume ann/web"), "{details}");
    }
}
