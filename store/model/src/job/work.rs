//! Kinds of work, and the rules of a cell that choose the scheduler of a job that names none. Several schedulers work
//! over one shared state (Omega, EuroSys 2013, section 3).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Band, JobKind, JobSpec, band};
use crate::field_error::FieldError;
use crate::id::Name;

/// A kind of work that a rule of a cell can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkKind {
    /// Jobs of which several tasks must fit before any is placed.
    Gang,
    /// Jobs of a band of priority.
    Band(Band),
    /// Jobs that run until stopped.
    Service,
    /// Jobs that run until done.
    Batch,
    /// Jobs with one task on each node.
    Daemon,
}

impl WorkKind {
    /// Every kind, in the order in which the rules apply: first what a job needs of a scheduler, then how important it
    /// is, then how it ends.
    pub const ALL: [Self; 8] = [
        Self::Gang,
        Self::Band(Band::Monitoring),
        Self::Band(Band::Production),
        Self::Band(Band::Batch),
        Self::Band(Band::BestEffort),
        Self::Service,
        Self::Batch,
        Self::Daemon,
    ];

    /// Its name in the settings. Batch is a kind of job and a band of priority, so the names of bands say `band`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gang => "gang",
            Self::Band(Band::Monitoring) => "band:monitoring",
            Self::Band(Band::Production) => "band:production",
            Self::Band(Band::Batch) => "band:batch",
            Self::Band(Band::BestEffort) => "band:best_effort",
            Self::Service => "service",
            Self::Batch => "batch",
            Self::Daemon => "daemon",
        }
    }

    /// Returns true if the job is of this kind.
    pub fn is_of(self, spec: &JobSpec) -> bool {
        match self {
            Self::Gang => spec.min_member > 1,
            Self::Band(wanted) => band(spec.priority) == wanted,
            Self::Service => spec.kind == JobKind::Service,
            Self::Batch => spec.kind == JobKind::Batch,
            Self::Daemon => spec.kind == JobKind::Daemon,
        }
    }
}

/// Checks the rules of a cell: the name of a kind of work, and its scheduler. The errors name every invalid rule under
/// `field`.
pub fn scheduler_rules_check(
    field: &str,
    rules: impl IntoIterator<Item = (String, String)>,
) -> Result<BTreeMap<String, Name>, Vec<FieldError>> {
    let (mut checked, mut errors) = (BTreeMap::new(), Vec::new());
    for (work, scheduler) in rules {
        let path = format!("{field}[{work}]");
        if WorkKind::ALL.iter().all(|kind| kind.as_str() != work) {
            let accepted = format!("rules for {}", WorkKind::ALL.map(WorkKind::as_str).join(", "));
            errors.push(FieldError { path, value: format!("{work:?}"), accepted });
            continue;
        }
        match Name::new(scheduler.as_str()) {
            Ok(name) => drop(checked.insert(work, name)),
            Err(_) => {
                let accepted = "1 to 63 of a-z, 0-9 and -, starting with a letter".to_owned();
                errors.push(FieldError { path, value: format!("{scheduler:?}"), accepted });
            }
        }
    }
    if errors.is_empty() { Ok(checked) } else { Err(errors) }
}

/// The scheduler that the rules of a cell give to a new job. `None` if the job names one itself, or if no rule is for
/// it. Ignores rules for kinds of work that only a newer program knows.
pub fn scheduler_by_rules<'a>(rules: &'a BTreeMap<String, Name>, spec: &JobSpec) -> Option<&'a Name> {
    if spec.scheduler.is_some() {
        return None;
    }
    let of_job = WorkKind::ALL.iter().filter(|kind| kind.is_of(spec));
    of_job.filter_map(|kind| rules.get(kind.as_str())).next()
}

/// The spec as it is admitted, with its scheduler: the one that it names, else that of the live job of its name. For a
/// new job, the rules of the cell choose.
pub fn spec_with_scheduler<'a>(
    spec: &'a JobSpec,
    live: Option<&JobSpec>,
    rules: &BTreeMap<String, Name>,
) -> Cow<'a, JobSpec> {
    let chosen = match (&spec.scheduler, live) {
        (Some(_), _) => None,
        (None, Some(live)) => live.scheduler.as_ref(),
        (None, None) => scheduler_by_rules(rules, spec),
    };
    match chosen {
        None => Cow::Borrowed(spec),
        Some(chosen) => Cow::Owned(JobSpec { scheduler: Some(chosen.clone()), ..spec.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn spec(kind: JobKind) -> JobSpec {
        JobSpec::defaults(name("ada"), name("web"), kind, vec!["true".to_owned()])
    }

    fn rules(of: &[(&str, &str)]) -> BTreeMap<String, Name> {
        let text = of.iter().map(|(work, scheduler)| ((*work).to_owned(), (*scheduler).to_owned()));
        scheduler_rules_check("schedulers", text).unwrap()
    }

    #[test]
    fn the_first_rule_that_is_for_a_job_decides() {
        let rules = rules(&[
            ("batch", "fast"),
            ("band:production", "careful"),
            ("band:best_effort", "spare"),
            ("gang", "whole"),
        ]);
        let of = |spec: &JobSpec| scheduler_by_rules(&rules, spec).map(ToString::to_string);
        let batch = spec(JobKind::Batch);
        assert_eq!(of(&batch).unwrap(), "fast", "of the batch band there is no rule");
        assert_eq!(of(&JobSpec { priority: 50, ..batch.clone() }).unwrap(), "spare", "a band before a kind");
        let gang = JobSpec { count: 4, min_member: 2, ..batch.clone() };
        assert_eq!(of(&gang).unwrap(), "whole", "a gang before a kind");
        assert_eq!(of(&JobSpec { priority: 250, ..gang }).unwrap(), "whole", "a gang before a band");
        assert_eq!(of(&spec(JobKind::Service)).unwrap(), "careful");
        assert_eq!(of(&JobSpec { priority: 300, ..spec(JobKind::Service) }), None, "no rule is for it");
        assert_eq!(of(&JobSpec { scheduler: Some(name("default")), ..batch }), None, "it says itself");
    }

    #[test]
    fn a_job_that_runs_keeps_its_scheduler_unless_another_is_named() {
        let rules = rules(&[("batch", "fast")]);
        let submitted = spec(JobKind::Batch);
        let named = |text: &str| JobSpec { scheduler: Some(name(text)), ..submitted.clone() };
        let admitted = |spec: &JobSpec, live: Option<&JobSpec>| {
            let spec = spec_with_scheduler(spec, live, &rules);
            spec.scheduler.as_ref().map(ToString::to_string)
        };
        assert_eq!(admitted(&submitted, None).unwrap(), "fast");
        assert_eq!(admitted(&submitted, Some(&submitted)), None, "admitted before there was a rule");
        assert_eq!(admitted(&submitted, Some(&named("slow"))).unwrap(), "slow");
        assert_eq!(admitted(&named("gpu"), Some(&named("slow"))).unwrap(), "gpu");
    }

    #[test]
    fn a_rule_for_what_is_not_there_is_refused_with_what_is() {
        let refused = |work: &str, scheduler: &str| {
            let errors = scheduler_rules_check("schedulers", [(work.to_owned(), scheduler.to_owned())]);
            errors.unwrap_err()[0].to_string()
        };
        assert_eq!(
            refused("cron", "fast"),
            "schedulers[cron]: \"cron\"; accepted: rules for gang, band:monitoring, band:production, band:batch, \
             band:best_effort, service, batch, daemon"
        );
        assert!(refused("band:urgent", "fast").contains("band:batch"));
        assert!(refused("batch", "Fast!").starts_with("schedulers[batch]: \"Fast!\"; accepted: 1 to 63"));
        let newer = BTreeMap::from([("from-the-future".to_owned(), name("fast"))]);
        assert_eq!(scheduler_by_rules(&newer, &spec(JobKind::Batch)), None);
    }
}
