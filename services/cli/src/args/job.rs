//! Verbs on jobs.

use std::path::PathBuf;
use std::time::Duration;

use borough_model::job::COUNT_MAX;
use clap::{Args, Subcommand};

use super::file::{FileArguments, pair};
use super::list::{
    JobLabels, LabelConditions, ListArguments, ShownJobLabels, TaskOrJobState, label_conditions,
    task_or_job_state,
};
use super::log::{AttemptChoice, attempt};
use super::number::{time_within, timeout, whole};
use super::target::TargetError;
use super::{JobTarget, LogShowArguments, TaskTarget};
use crate::jobfile::StarterKind;

/// Verbs on jobs.
#[derive(Debug, Subcommand)]
pub enum JobVerb {
    /// Write a commented job file to start from
    Init {
        /// Write to this file, which must not exist; - writes to standard output
        #[arg(default_value = "job.yaml")]
        file: PathBuf,
        /// Write a short file for this kind of work [default: one with every field]
        #[arg(short, long, value_enum, value_name = "KIND")]
        kind: Option<StarterKind>,
    },
    /// Check a job file without asking a cell
    Validate(FileArguments),
    /// Print the JSON Schema of job files, for editors
    Schema,
    /// Show what `job run` would change, and where tasks would go
    #[command(after_help = "Exit codes: 0 no change, 1 change, 2 would be refused, 255 error")]
    Plan(FileArguments),
    /// Submit a job file, and wait until the service is up or the batch job is over
    #[command(after_help = RUN_NOTES)]
    Run(RunArguments),
    /// Edit the stored job in $VISUAL or $EDITOR, see the plan, and change the job after a yes
    #[command(after_help = EDIT_NOTES)]
    Edit(EditArguments),
    /// Show a job with its tasks, or list jobs
    #[command(visible_alias = "list")]
    Status {
        /// [USER/]JOB [default: list your jobs]
        #[arg(value_name = "JOB")]
        target: Option<JobTarget>,
        /// List the jobs of every user
        #[arg(short, long)]
        all: bool,
        /// List also jobs that are over
        #[arg(short, long)]
        ended: bool,
        /// List only jobs with labels like this
        #[arg(short, long, value_parser = label_conditions, conflicts_with = "target")]
        #[arg(value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
        /// Show only tasks, or list only jobs, in these states, with commas between [default: all]
        #[arg(long, value_parser = task_or_job_state, value_name = "STATES", value_delimiter = ',')]
        state: Vec<TaskOrJobState>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Change the number of tasks of a job, and wait until it has so many, all of them up
    #[command(override_usage = "borough job scale [OPTIONS] <JOB|--label> <COUNT>")]
    Scale(ScaleArguments),
    /// Stop a job: withdraw its endpoints, end its tasks, and wait for their end
    #[command(override_usage = "borough job stop [OPTIONS] <JOB...|--label>")]
    Stop(StopArguments),
    /// Restart the tasks of a job one at a time, the next one when the last one is healthy again
    #[command(after_help = RESTART_NOTES, override_usage = "borough job restart [OPTIONS] <JOB...|--label>")]
    Restart(RestartArguments),
    /// Forget an ended job at once, with its history, instead of after the cell's retention
    #[command(after_help = PURGE_NOTES)]
    Purge(PurgeArguments),
    /// Set and remove labels of a job; no task restarts
    #[command(override_usage = "borough job label [OPTIONS] <JOB|--label> <LABEL>...")]
    Label {
        /// [USER/]JOB
        #[arg(value_name = "JOB", value_parser = super::label::job_or_label, required_unless_present = "label")]
        target: Option<super::NameOrChange<JobTarget, super::LabelArgument>>,
        /// KEY=VALUE sets a label, KEY- removes it
        #[arg(required_unless_present = "label", value_parser = super::label::label, value_name = "LABEL")]
        changes: Vec<super::LabelArgument>,
        #[command(flatten)]
        labels: JobLabels,
    },
    /// Show the output of every task of a job, each line under the name of its task
    Logs(JobLogArguments),
    /// List every job of this name with its specs, newest first, or show one version as a job file
    History {
        /// [USER/]JOB
        #[arg(value_name = "JOB")]
        target: JobTarget,
        /// Show this version of the newest job that has it, as a job file
        #[arg(long, value_name = "VERSION", value_parser = whole(1..=u32::MAX))]
        version: Option<u32>,
    },
}

/// `job logs`.
#[derive(Clone, Debug, Args)]
pub struct JobLogArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB", required_unless_present = "label", conflicts_with_all = ["label", "all"])]
    pub targets: Vec<JobTarget>,
    #[command(flatten)]
    pub labels: ShownJobLabels,
    /// Stream new output, over restarts, moves and changes of gateways, until the job is over
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub show: LogShowArguments,
    /// Show only these tasks, such as 3 or 0-2,5 [default: all]
    #[arg(long, value_name = "INDEXES", value_delimiter = ',', value_parser = indexes)]
    pub task: Vec<std::ops::RangeInclusive<u32>>,
    /// Show the attempt of each task that ended last, also while the task waits for its next start
    #[arg(short, long, conflicts_with_all = ["attempt", "follow"])]
    pub previous: bool,
    /// Begin with the last attempt of each task, with all that the cell knows, or show this one alone
    #[arg(long, value_name = "last|all|NUMBER", default_value = "last", value_parser = attempt)]
    pub attempt: AttemptChoice,
}

impl JobLogArguments {
    /// Which attempts of a task are shown.
    pub fn choice(&self) -> AttemptChoice {
        if self.previous { AttemptChoice::Previous } else { self.attempt }
    }
}

const RUN_NOTES: &str = "A job that runs takes the changed count, priority and metadata of its file at once. Any other \
    change begins a rollout, and the command waits for its end: borough rollout --help. A job keeps its kind, \
    gang and scheduler until it has ended.";

/// `job run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub file: FileArguments,
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 30s or 5m; the job goes on [default: no limit]
    #[arg(long, value_parser = timeout, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
    /// Report a failure when no further task of a service becomes healthy for this time [default: that of the job, 10m]
    #[arg(long, value_parser = progress_deadline, value_name = "TIME", conflicts_with = "detach")]
    pub progress_deadline: Option<Duration>,
    /// Refuse unless it is still this job in this revision, as `job plan` showed them [default: any]
    #[arg(long, value_parser = checked_revision, value_name = "ID@REVISION")]
    pub check_revision: Option<CheckedRevision>,
}

/// The job that a change is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedRevision {
    /// Empty: any job of the name. A later job of the name begins with revision 1 again.
    pub id: String,
    pub revision: u64,
}

fn checked_revision(text: &str) -> Result<CheckedRevision, String> {
    let (id, revision) = text.rsplit_once('@').unwrap_or(("", text));
    // To a gateway 0 means any revision, which is no check.
    let number = revision.parse().ok().filter(|&number| number > 0);
    let number = number.filter(|_| is_job_id(id) || !text.contains('@'));
    let accepted = "accepted: ID@REVISION as `borough job plan FILE` shows it, or a revision alone";
    number.map(|revision| CheckedRevision { id: id.to_owned(), revision }).ok_or_else(|| accepted.to_owned())
}

fn is_job_id(text: &str) -> bool {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix('j').is_some_and(|digits| digits.len() == 16 && digits.bytes().all(is_digit))
}

/// What `job edit` does with the text.
const EDIT_NOTES: &str = "The file has the fields that differ from their defaults. An unchanged file changes nothing. A \
    text that is not applied is kept, and the message tells where. If the job changes meanwhile, the edit is refused.";

/// Whether a verb waits for the effect of its change, and how long.
#[derive(Clone, Copy, Debug, Args)]
pub struct WaitArguments {
    /// Return at once, without waiting
    #[arg(short, long)]
    pub detach: bool,
    /// Stop waiting after this time, such as 30s or 5m; the change stays [default: no limit]
    #[arg(long, value_parser = timeout, value_name = "TIME", conflicts_with = "detach")]
    pub timeout: Option<Duration>,
}

impl WaitArguments {
    /// For a change that another one needs: it is waited for in any case.
    pub fn attached(self) -> Self {
        Self { detach: false, ..self }
    }
}

/// `job edit`.
#[derive(Clone, Debug, Args)]
pub struct EditArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB")]
    pub target: JobTarget,
    #[command(flatten)]
    pub wait: WaitArguments,
}

/// Some jobs by name, or those with labels.
#[derive(Clone, Debug, Args)]
pub struct JobChoice {
    /// [USER/]JOB; several are checked before the first is changed
    #[arg(value_name = "JOB", required_unless_present = "label", conflicts_with_all = ["label", "all"])]
    pub targets: Vec<JobTarget>,
    #[command(flatten)]
    pub labels: JobLabels,
}

/// `job scale`. Behind `--label` the first word is the count.
#[derive(Clone, Debug, Args)]
pub struct ScaleArguments {
    /// [USER/]JOB
    #[arg(value_name = "JOB", required_unless_present = "label")]
    pub target: Option<ScaleWord>,
    /// Number of tasks, from 0
    #[arg(value_parser = whole(0..=COUNT_MAX), required_unless_present = "label")]
    pub count: Option<u32>,
    #[command(flatten)]
    pub labels: JobLabels,
    #[command(flatten)]
    pub wait: WaitArguments,
}

/// What `job scale` changes, and to how many tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleChoice {
    Job(JobTarget, u32),
    /// The jobs that the labels choose.
    Labelled(u32),
}

impl ScaleArguments {
    /// What the words of the line mean together.
    ///
    /// # Errors
    /// What is wrong with them, as a usage error says it.
    pub(crate) fn choice(&self) -> Result<ScaleChoice, String> {
        if self.labels.label.is_empty() { self.choice_named() } else { self.choice_labelled() }
    }

    fn choice_named(&self) -> Result<ScaleChoice, String> {
        match (&self.target, self.count) {
            (Some(ScaleWord::Job(target)), Some(count)) => Ok(ScaleChoice::Job(target.clone(), count)),
            (Some(ScaleWord::Number(text)), Some(_)) => {
                let refused = text.parse::<JobTarget>().err().map(|error| error.to_string());
                Err(format!("JOB: {}", refused.unwrap_or_else(|| format!("{text:?} is no job"))))
            }
            (None, _) | (_, None) => Err("borough job scale needs JOB and COUNT".to_owned()),
        }
    }

    fn choice_labelled(&self) -> Result<ScaleChoice, String> {
        match (&self.target, self.count) {
            (Some(ScaleWord::Number(text)), None) => {
                let count = whole(0..=COUNT_MAX)(text);
                count
                    .map(ScaleChoice::Labelled)
                    .map_err(|accepted| format!("COUNT: {}; {accepted}", super::value_shown(text)))
            }
            (None, _) => Err("borough job scale needs COUNT".to_owned()),
            (Some(ScaleWord::Job(_)), None) => {
                let text = "--label and JOB exclude each other, and COUNT is missing; \
                            give --label and COUNT, or JOB and COUNT";
                Err(text.to_owned())
            }
            (Some(_), _) => Err("--label and JOB exclude each other; give one of them".to_owned()),
        }
    }
}

/// The first word of `job scale`: a job, or the count of those that labels choose. A name never begins with a digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleWord {
    Job(JobTarget),
    Number(String),
}

impl std::str::FromStr for ScaleWord {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(Self::Number(text.to_owned()));
        }
        text.parse().map(Self::Job)
    }
}

/// `job stop`.
#[derive(Clone, Debug, Args)]
pub struct StopArguments {
    #[command(flatten)]
    pub choice: JobChoice,
    #[command(flatten)]
    pub wait: WaitArguments,
}

/// What `job restart` does with tasks that do not come back.
const RESTART_NOTES: &str = "A task that is not healthy in time, or dead for good, ends the command with code 1. The \
    tasks after it are left alone, and the message tells how to go on. So does Ctrl-C. With --label one job comes after \
    the other, and those after a failed one are left alone.";

/// How long `job restart` waits for one task.
pub(crate) const RESTART_TIMEOUT: Duration = Duration::from_secs(300);

/// `job restart`.
#[derive(Clone, Debug, Args)]
pub struct RestartArguments {
    #[command(flatten)]
    pub choice: JobChoice,
    /// Restart only these tasks, such as 3 or 0-2,5 [default: all]
    #[arg(long, value_name = "INDEXES", value_delimiter = ',', value_parser = indexes)]
    #[arg(conflicts_with_all = ["from", "label"])]
    pub task: Vec<std::ops::RangeInclusive<u32>>,
    /// Begin with this task; with --label JOB/INDEX: leave out the jobs before JOB [default: 0]
    #[arg(long, value_name = "INDEX", value_parser = restart_from)]
    pub from: Option<RestartFrom>,
    /// Stop if a task is not healthy again after this time, such as 30s or 5m
    #[arg(long, value_parser = timeout, value_name = "TIME", default_value = "5m")]
    pub timeout: Duration,
}

/// Where a restart begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartFrom {
    /// A task of the one job.
    Index(u32),
    /// A task of one of the jobs that labels choose.
    Task(TaskTarget),
}

fn restart_from(text: &str) -> Result<RestartFrom, String> {
    if text.contains('/') {
        return text.parse().map(RestartFrom::Task).map_err(|error: TargetError| error.to_string());
    }
    whole(0..=INDEX_MAX)(text).map(RestartFrom::Index)
}

impl RestartArguments {
    /// Refuses options that do not go with what is restarted.
    ///
    /// # Errors
    /// What is wrong, as a usage error says it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_labelled = !self.choice.labels.label.is_empty();
        let is_one = self.choice.targets.len() == 1;
        match &self.from {
            Some(RestartFrom::Index(index)) if is_labelled => {
                return Err(format!(
                    "--from: \"{index}\" is a task of one job; accepted with --label: JOB/INDEX, such as web/{index}"
                ));
            }
            Some(RestartFrom::Task(_)) if !is_labelled => {
                return Err(
                    "--from takes JOB/INDEX with --label only; give an INDEX of the one job".to_owned()
                );
            }
            Some(RestartFrom::Index(_)) if !is_one => {
                return Err("--from is for one job, and several are named; give one of them".to_owned());
            }
            _ => {}
        }
        if !self.task.is_empty() && !is_one {
            return Err("--task is for one job, and several are named; give one of them".to_owned());
        }
        Ok(())
    }
}

/// What a purge leaves.
const PURGE_NOTES: &str = "All earlier jobs of the name are forgotten too. Their output is no longer shown. Agents \
    remove it from their disks within a day.";

/// `job purge`.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "borough job purge <JOB...|--label|--all-ended>")]
pub struct PurgeArguments {
    /// [USER/]JOB; several are checked before the first is forgotten
    #[arg(value_name = "JOB", required_unless_present_any = ["all_ended", "label"])]
    #[arg(conflicts_with_all = ["label", "all"])]
    pub targets: Vec<JobTarget>,
    #[command(flatten)]
    pub labels: JobLabels,
    /// Purge every job of yours that has ended, except under a name that is in use again
    #[arg(long, conflicts_with_all = ["targets", "label"])]
    pub all_ended: bool,
}

/// Arguments of the process that evaluates a job file.
#[derive(Clone, Debug, Args)]
pub struct EvaluateArguments {
    /// Variable for std.extVar
    #[arg(long, value_parser = pair)]
    pub ext_str: Vec<(String, String)>,
    /// Argument of the function the file is
    #[arg(long, value_parser = pair)]
    pub tla_str: Vec<(String, String)>,
    /// The file
    pub file: PathBuf,
}

/// The bounds of `progress_deadline` in a job file.
const PROGRESS_DEADLINES_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

/// A progress deadline, within the bounds of the job file's field.
fn progress_deadline(text: &str) -> Result<Duration, String> {
    time_within(text, &PROGRESS_DEADLINES_MS, "1s to 24h")
}

/// The highest index of a task.
const INDEX_MAX: u32 = COUNT_MAX.saturating_sub(1);

/// The index of a task, or the first and the last one of several, as `borough why` writes them.
fn indexes(text: &str) -> Result<std::ops::RangeInclusive<u32>, String> {
    let index = |text: &str| text.trim().parse().ok().filter(|index| *index <= INDEX_MAX);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let read = index(first).zip(index(last)).filter(|(first, last)| first <= last);
    read.map(|(first, last)| first..=last)
        .ok_or_else(|| format!("accepted: indexes from 0 to {INDEX_MAX}, such as 3 or 0-2,5"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Verb};

    fn choice(line: &str) -> Result<ScaleChoice, String> {
        match Arguments::read(line.split(' ')).map_err(|error| error.to_string())?.verb {
            Verb::Job(JobVerb::Scale(arguments)) => arguments.choice(),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_count_stands_behind_the_job_or_alone_with_labels() {
        let web = |count| Ok(ScaleChoice::Job("web".parse().unwrap(), count));
        assert_eq!(choice("borough job scale web 3"), web(3));
        assert_eq!(choice("borough job scale --detach web 0"), web(0));
        for line in ["-l app=web 3", "3 -l app=web", "--label app=web --all 3 --yes"] {
            assert_eq!(choice(&format!("borough job scale {line}")), Ok(ScaleChoice::Labelled(3)), "{line}");
        }
        let one = choice("borough job scale -l app=web x").unwrap_err();
        assert_eq!(
            one,
            "--label and JOB exclude each other, and COUNT is missing; give --label and COUNT, or JOB and COUNT"
        );
        let both = "--label and JOB exclude each other; give one of them";
        for line in ["-l app=web web 3", "-l app=web 3 4"] {
            assert_eq!(choice(&format!("borough job scale {line}")).unwrap_err(), both, "{line}");
        }
        assert_eq!(choice("borough job scale -l app=web").unwrap_err(), "borough job scale needs COUNT");
        let most = "accepted: a whole number, 0 to 100000";
        assert_eq!(
            choice("borough job scale -l a=b 100001").unwrap_err(),
            format!("COUNT: \"100001\"; {most}")
        );
        assert_eq!(choice("borough job scale -l a=b -1").unwrap_err(), format!("COUNT: \"-1\"; {most}"));
        assert!(
            choice("borough job scale 3 4").unwrap_err().starts_with("JOB: the name of the job, \"3\", ")
        );
        for line in ["borough job scale web", "borough job scale", "borough job scale --all 3"] {
            assert!(choice(line).is_err(), "{line}");
        }
    }
}
