//! Variants of a trace that nobody published: the tasks of one with other parts of each kind. Policies that were tuned
//! on the published variants are tried on these.

use std::path::Path;

use anyhow::Context as _;
use borough_kv::env::SeededRng;

use super::openb::{self, OpenbTask};

/// Draws the tasks of a variant. One seed for all: a variant of one name is always the same.
const SEED: u64 = 0x0b05_2026;

/// Which part of a trace a task belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskPart {
    /// No cards.
    CpuOnly,
    /// A part of one card.
    Share,
    /// One card.
    Whole,
    /// More than one card.
    Several,
}

impl TaskPart {
    fn of(task: &OpenbTask) -> Self {
        match task.gpu_millis {
            0 => Self::CpuOnly,
            1..1000 => Self::Share,
            1000 => Self::Whole,
            _ => Self::Several,
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "cpu-only" => Some(Self::CpuOnly),
            "share" => Some(Self::Share),
            "whole" => Some(Self::Whole),
            "several" => Some(Self::Several),
            _ => None,
        }
    }
}

/// The tasks of a variant: those of a file, or those of `FILE~PART=PERCENT+PART=PERCENT`.
pub(super) fn variant_tasks(directory: &Path, variant: &str) -> anyhow::Result<Vec<OpenbTask>> {
    let Some((file, parts)) = variant.split_once('~') else { return openb::tasks(directory, variant) };
    let mut tasks = openb::tasks(directory, file)?;
    for part in parts.split('+') {
        let named = part.split_once('=').and_then(|(name, percent)| {
            let percent = percent.parse().ok().filter(|percent| (0..100).contains(percent))?;
            Some((TaskPart::named(name)?, percent))
        });
        let (of, percent) = named.with_context(|| {
            format!("{part:?} is no part: give cpu-only, share, whole or several, and 0 to 99 per cent")
        })?;
        tasks = resampled(tasks, of, percent)?;
    }
    Ok(tasks)
}

/// The tasks, with so many of one part that they are `percent` of all. Those of the part are dropped at random, or
/// drawn again with replacement; all others stay.
fn resampled(tasks: Vec<OpenbTask>, of: TaskPart, percent: u64) -> anyhow::Result<Vec<OpenbTask>> {
    let rng = SeededRng::shared(SEED);
    let below = |end: usize| usize::try_from(rng.next_u64() % end.max(1) as u64).unwrap_or(0);
    let (known, mut all): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|task| TaskPart::of(task) == of);
    let wanted = usize::try_from(all.len() as u64 * percent / (100 - percent.min(99)))?;
    anyhow::ensure!(!known.is_empty() || wanted == 0, "the trace has no task of this part");
    let mut part = known.clone();
    while part.len() > wanted {
        part.swap_remove(below(part.len()));
    }
    while part.len() < wanted {
        part.extend(known.get(below(known.len())).cloned());
    }
    all.append(&mut part);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cpu_millis: u64, gpu_millis: u64) -> OpenbTask {
        OpenbTask { cpu_millis, memory_mib: 1, gpu_millis, models: Vec::new(), service: false }
    }

    fn count(tasks: &[OpenbTask], of: TaskPart) -> usize {
        tasks.iter().filter(|task| TaskPart::of(task) == of).count()
    }

    #[test]
    fn a_part_grows_or_shrinks_and_the_others_stay() {
        let tasks: Vec<OpenbTask> =
            (0..100).map(|number| task(number, [0, 500, 1000, 2000][number as usize % 4])).collect();
        for (of, percent, wanted) in
            [(TaskPart::CpuOnly, 50, 75), (TaskPart::Share, 0, 0), (TaskPart::Several, 10, 8)]
        {
            let made = resampled(tasks.clone(), of, percent).unwrap();
            assert_eq!(count(&made, of), wanted);
            assert_eq!(made.len(), 75 + wanted);
            assert!(made.iter().all(|task| tasks.contains(task)));
            assert_eq!(made, resampled(tasks.clone(), of, percent).unwrap());
        }
        assert!(resampled(vec![task(1, 0)], TaskPart::Several, 50).is_err());
    }

    #[test]
    fn a_name_of_a_variant_says_its_parts() {
        let directory = tempfile::tempdir().unwrap();
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\nb,1,1,1,500\nc,1,1,1,1000\nd,1,1,2,1000\n";
        std::fs::write(directory.path().join("openb_pod_list_x.csv"), text).unwrap();
        let tasks = |variant: &str| variant_tasks(directory.path(), variant);
        assert_eq!(tasks("x").unwrap().len(), 4);
        let made = tasks("x~cpu-only=50+share=0").unwrap();
        assert_eq!((count(&made, TaskPart::CpuOnly), count(&made, TaskPart::Share)), (3, 0));
        for wrong in ["x~cpu=5", "x~share", "x~share=100", "x~share=-1", "y"] {
            assert!(tasks(wrong).is_err(), "{wrong}");
        }
    }
}
