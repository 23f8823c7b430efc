//! Verbs on everything with some labels: the list and the question before the change, and what has failed after it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use borough_client::Client;
use borough_kv::env::{Clock, SystemClock};
use borough_proto::v1::{DryRunResponse, LabelMatch};
use futures::{Stream, StreamExt as _};

use super::confirm::{Intent, ManyObjects, Unattended, confirm, confirm_many};
use crate::args::{Global, condition_value};
use crate::exit::{Code, Failure, tenths};
use crate::output::{Printer, Progress, is_attended, tally};

/// Names that are listed at most, before the change and of what has failed.
pub(super) const NAMES_MAX: usize = 20;
/// With more objects the changes themselves take a while, and show how far they are.
const QUIET_MAX: usize = 100;
/// Objects that a verb waits for at the same time: each has a watch of its own.
pub(super) const WAITS_AT_ONCE: usize = 16;
/// The least time of one wait: with a time-out, what comes last is looked at as well.
const WAIT_LEAST: Duration = Duration::from_secs(1);

/// Many objects of one kind, and what a verb does to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct BulkChange<'b> {
    /// In the imperative, with the number of the objects: `stop 3 jobs`.
    pub(super) what: &'b str,
    /// `job`, `task` or `node`.
    pub(super) noun: &'static str,
    /// What an object is afterwards: `stopped`.
    pub(super) done: &'static str,
    pub(super) by: ChosenBy,
    pub(super) harm: BulkHarm,
}

/// What a change leaves of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BulkHarm {
    /// They go on, or can be set back.
    Mild,
    /// What runs in them ends. Of many objects that nobody has typed, it takes more than a yes.
    Ends,
}

/// How the objects of a change were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChosenBy {
    /// Nobody has typed their names, so that somebody must look at them.
    Labels,
    /// By name. The question is that of the verb for one of them.
    Names(Unattended),
}

/// Lists what will be changed, and asks. Without a terminal it takes `--yes`: nobody has typed these names.
pub(super) fn confirm_all(
    global: &Global,
    client: &Client,
    change: BulkChange<'_>,
    names: &[String],
    printer: &Printer,
) -> Result<(), Failure> {
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    let such = if names.len() == 1 { "" } else { "s" };
    let intent = match change.by {
        ChosenBy::Labels => {
            printer.remark(&format!("{}{such} with these labels:\n{}", change.noun, names_text(&listed)));
            if change.harm == BulkHarm::Ends && names.len() > NAMES_MAX {
                return confirm_many(global, client, ManyObjects { what: change.what, names }, printer);
            }
            Intent::forget(change.what)
        }
        ChosenBy::Names(unattended) => {
            if is_attended() && !global.yes {
                printer.remark(&format!("{}{such}:\n{}", change.noun, names_text(&listed)));
            }
            Intent::of(change.what, unattended)
        }
    };
    confirm(global, client, intent, printer)
}

/// Reads each named object, before any is changed. All that fail are named together, and then nothing is changed.
pub(super) async fn named_read<N: Clone + Eq + Display, O>(
    names: &[N],
    noun: &'static str,
    read: impl AsyncFn(&N) -> Result<O, Failure>,
) -> Result<Vec<O>, Failure> {
    let mut once: Vec<N> = Vec::with_capacity(names.len());
    for name in names {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    let what = format!("change {}", tally(once.len(), noun));
    let by = ChosenBy::Names(Unattended::Proceed);
    let change = BulkChange { what: &what, noun, done: "accepted", by, harm: BulkHarm::Mild };
    let (mut outcome, mut objects) = (BulkOutcome::new(change, once.len()), Vec::with_capacity(once.len()));
    let mut hint = None;
    for (place, name) in once.iter().enumerate() {
        match read(name).await {
            Ok(object) => objects.push(object),
            Err(failure) => {
                hint = hint.or_else(|| failure.hint().map(str::to_owned));
                outcome.failed(name, failure);
            }
        }
        if outcome.is_hopeless() {
            outcome.left_alone(once.len().saturating_sub(place).saturating_sub(1));
            break;
        }
    }
    outcome.done().map_err(|failure| {
        let message = format!("{}; nothing was changed", failure.message());
        let all = Failure::new(failure.code(), message).with_details(failure.details().to_vec());
        match hint {
            Some(hint) => all.with_hint(hint),
            None => all,
        }
    })?;
    Ok(objects)
}

/// Names, each on a line of its own, and how many follow.
fn names_text(names: &[&str]) -> String {
    let line = |name: &&str| format!("  {}", name.replace('\n', "\n  "));
    let mut lines: Vec<String> = names.iter().take(NAMES_MAX).map(line).collect();
    if names.len() > NAMES_MAX {
        lines.push(format!("  and {} more", names.len() - NAMES_MAX));
    }
    lines.join("\n")
}

/// A selector as a person types it in a shell.
pub(super) fn selector_text(selector: &[LabelMatch]) -> String {
    let one = |LabelMatch { key, value, not }: &LabelMatch| {
        format!("{key}{}={}", if *not { "!" } else { "" }, condition_value(value))
    };
    let all = selector.iter().map(one).collect::<Vec<_>>().join(",");
    format!("'{}'", all.replace('\'', r"'\''"))
}

/// The failure of a verb with labels that nothing has: what `none` says of such a list, or which keys are unknown.
pub(super) fn none_selected(unknown: &[String], none: &str) -> Failure {
    let (none, hint) = none.split_once("\nhint: ").map_or((none, None), |(none, hint)| (none, Some(hint)));
    let failure = match unknown {
        [] => Failure::new(Code::NotFound, none),
        [first, rest @ ..] => Failure::new(Code::NotFound, first).with_details(rest.to_vec()),
    };
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// The end of one wait: for an object, or for several that are waited for together.
pub(super) struct BulkWait<T> {
    pub(super) name: String,
    pub(super) objects: usize,
    pub(super) ended: Result<T, Failure>,
}

/// A failure of one object, or of several at once.
struct BulkFailure {
    name: String,
    objects: usize,
    failure: Failure,
}

/// What became of many objects.
pub(super) struct BulkOutcome<'b> {
    change: BulkChange<'b>,
    total: usize,
    failed: Vec<BulkFailure>,
    /// Objects that were left alone, after a failure that they would have met as well.
    untried: usize,
}

impl<'b> BulkOutcome<'b> {
    pub(super) fn new(change: BulkChange<'b>, total: usize) -> Self {
        Self { change, total, failed: Vec::new(), untried: 0 }
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, name: impl Display, failure: impl Into<Failure>) {
        self.failed.push(BulkFailure { name: name.to_string(), objects: 1, failure: failure.into() });
    }

    /// Returns true if the last failure would be that of every further object.
    pub(super) fn is_hopeless(&self) -> bool {
        let code = self.failed.last().map(|failed| failed.failure.code());
        matches!(code, Some(Code::Unreachable | Code::NotAllowed | Code::Interrupted))
    }

    /// So many objects are left alone.
    pub(super) fn left_alone(&mut self, count: usize) {
        self.untried = self.untried.saturating_add(count);
    }

    /// Changes one object after the other. Returns what became of those that were changed.
    pub(super) async fn each<O, T>(
        &mut self,
        objects: &[O],
        name: impl Fn(&O) -> String,
        change: impl AsyncFn(&O) -> Result<T, Failure>,
        printer: &Printer,
    ) -> Vec<T> {
        let mut done = Vec::with_capacity(objects.len());
        let mut progress = Progress::new(printer);
        for (place, object) in objects.iter().enumerate() {
            if objects.len() > QUIET_MAX {
                progress.show(&format!("{place} of {}", tally(objects.len(), self.change.noun)));
            }
            match change(object).await {
                Ok(changed) => done.push(changed),
                Err(failure) => self.failed(name(object), failure),
            }
            if self.is_hopeless() {
                self.left_alone(objects.len().saturating_sub(place).saturating_sub(1));
                break;
            }
        }
        progress.reached();
        done
    }

    /// Takes the ends of waits as they come.
    pub(super) async fn waited<T>(&mut self, waits: impl Stream<Item = BulkWait<T>>) -> Vec<T> {
        let mut waits = std::pin::pin!(waits);
        let mut done = Vec::new();
        while let Some(BulkWait { name, objects, ended }) = waits.next().await {
            match ended {
                Ok(ended) => done.push(ended),
                Err(failure) => self.failed.push(BulkFailure { name, objects, failure }),
            }
            if self.is_hopeless() {
                break;
            }
        }
        done
    }

    /// The end of the verb: a failure with a line for each object that has failed, if any has.
    pub(super) fn done(self) -> Result<Code, Failure> {
        let Self { change, total, failed, untried } = self;
        if failed.is_empty() {
            return Ok(Code::Done);
        }
        let (dry, mut failed): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|failed| failed.failure.dry_run().is_some());
        if failed.is_empty() {
            return Err(dry_runs_together(&dry));
        }
        if total == 1
            && let Some(BulkFailure { failure, .. }) = failed.pop()
        {
            return Err(failure);
        }
        let codes: Vec<Code> = failed.iter().map(|failed| failed.failure.code()).collect();
        let code = codes.first().copied().filter(|first| codes.iter().all(|code| code == first));
        let count = failed.iter().map(|failed| failed.objects).sum::<usize>().saturating_add(untried);
        let message = format!("{count} of {}: not {}", tally(total, change.noun), change.done);
        let line = |BulkFailure { name, failure, .. }: &BulkFailure| {
            let text = failure.message().lines().next().unwrap_or_default();
            if text.contains(name.as_str()) { text.to_owned() } else { format!("{name}: {text}") }
        };
        let mut details: Vec<String> = failed.iter().take(NAMES_MAX).map(line).collect();
        if failed.len() > NAMES_MAX {
            details.push(format!("and {} more", failed.len() - NAMES_MAX));
        }
        if untried > 0 {
            details.push(format!("{} left alone after that", tally(untried, change.noun)));
        }
        Err(Failure::new(code.unwrap_or(Code::Failed), message).with_details(details))
    }
}

/// The end of a verb whose changes were all dry runs.
fn dry_runs_together(ended: &[BulkFailure]) -> Failure {
    let mut all = DryRunResponse::default();
    for answer in ended.iter().filter_map(|ended| ended.failure.dry_run()) {
        all.changes |= answer.changes;
        all.effects.extend(answer.effects.iter().cloned());
        all.effects_left_out = all.effects_left_out.saturating_add(answer.effects_left_out);
    }
    Failure::of_dry_run(all)
}

/// The time that all waits of a verb have together.
pub(super) struct SharedTimeout {
    clock: Arc<dyn Clock>,
    begun: Duration,
    limit: Option<Duration>,
}

impl SharedTimeout {
    pub(super) fn begin(limit: Option<Duration>) -> Self {
        let clock = SystemClock::shared();
        Self { begun: clock.monotonic(), clock, limit }
    }

    /// The time that is left for a wait that begins now, as messages name it; `None`: no limit.
    pub(super) fn left(&self) -> Option<Duration> {
        let waited = self.clock.monotonic().saturating_sub(self.begun);
        self.limit.map(|limit| time_left(limit, waited))
    }
}

/// The time that is left of `limit`, rounded up to a tenth of a second: nobody reads nanoseconds.
fn time_left(limit: Duration, waited: Duration) -> Duration {
    tenths(limit.saturating_sub(waited)).max(WAIT_LEAST).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_readable() {
        let of = |waited: Duration| time_left(Duration::from_secs(12), waited);
        assert_eq!(of(Duration::from_nanos(335_286)), Duration::from_secs(12));
        assert_eq!(of(Duration::from_millis(4_950)), Duration::from_millis(7_100));
        assert_eq!(of(Duration::from_secs(60)), WAIT_LEAST);
        assert_eq!(time_left(Duration::from_millis(5), Duration::ZERO), Duration::from_millis(5));
    }

    const CHANGE: BulkChange<'static> = BulkChange {
        what: "stop 3 jobs",
        noun: "job",
        done: "stopped",
        by: ChosenBy::Labels,
        harm: BulkHarm::Ends,
    };

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names: Vec<String> = (0..23).map(|number| format!("ann/j{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(names_text(&names[..2]), "  ann/j0\n  ann/j1");
        let text = names_text(&names);
        assert!(text.contains("ann/j19\n  and 3 more") && !text.contains("ann/j20"), "{text}");
    }

    #[test]
    fn a_failure_of_some_names_each_and_has_the_code_that_they_share() {
        let ended = |failures: &[(&str, Code, &str)], untried| {
            let mut outcome = BulkOutcome::new(CHANGE, 3);
            for (name, code, text) in failures {
                outcome.failed(name, Failure::new(*code, *text));
            }
            outcome.left_alone(untried);
            outcome.done().map_err(|failure| {
                (failure.code(), failure.message().to_owned(), failure.details().join(" | "))
            })
        };
        assert_eq!(ended(&[], 0), Ok(Code::Done));
        let refused = [("ann/a", Code::Refused, "no"), ("ann/b", Code::Refused, "job ann/b is over\nmore")];
        assert_eq!(
            ended(&refused, 0),
            Err((Code::Refused, "2 of 3 jobs: not stopped".into(), "ann/a: no | job ann/b is over".into()))
        );
        let both = [("ann/a", Code::Refused, "no"), ("ann/b", Code::NotFound, "none")];
        assert_eq!(ended(&both, 0).unwrap_err().0, Code::Failed);
        let away = [("ann/a", Code::Unreachable, "no gateway answers")];
        assert_eq!(
            ended(&away, 2),
            Err((
                Code::Unreachable,
                "3 of 3 jobs: not stopped".into(),
                "ann/a: no gateway answers | 2 jobs left alone after that".into()
            ))
        );
    }

    #[tokio::test]
    async fn names_that_are_not_there_keep_the_near_one_and_the_hint() {
        let read = async |name: &&str| match *name {
            "cart" => Ok(()),
            name => {
                let text = format!("no job {name:?} of user ann, did you mean \"cart\"?");
                Err(Failure::new(Code::NotFound, text).with_hint("borough job list --ended"))
            }
        };
        let failure = named_read(&["cart", "crat"], "job", read).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotFound);
        assert!(failure.details()[0].ends_with("did you mean \"cart\"?"), "{failure:?}");
        assert_eq!(failure.hint(), Some("borough job list --ended"));
    }

    #[test]
    fn the_failure_of_a_single_object_is_its_own() {
        let mut outcome = BulkOutcome::new(CHANGE, 1);
        outcome.failed("ann/a", Failure::new(Code::NotFound, "no job"));
        assert_eq!(outcome.done().unwrap_err().message(), "no job");
    }

    #[test]
    fn an_empty_selection_says_which_key_nothing_has() {
        let none = "no jobs like this of user ann in cell alpha\nhint: of every user, if you may see them: borough job list --all";
        let plain = none_selected(&[], none);
        assert_eq!(plain.message(), "no jobs like this of user ann in cell alpha");
        assert_eq!(plain.hint(), Some("of every user, if you may see them: borough job list --all"));
        let unknown = none_selected(&["no job has the label \"taem\"".to_owned()], none);
        assert_eq!((unknown.message(), unknown.code()), ("no job has the label \"taem\"", Code::NotFound));
    }
}
