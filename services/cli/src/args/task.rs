//! Verbs on single tasks.

use borough_proto::signal::SIGNALS;
use clap::{Args, Subcommand};

use super::list::{
    JobLabels, LabelConditions, ListArguments, TaskStateOrCondition, label_conditions, task_state,
};
use super::log::{AttemptChoice, attempt};
use super::{LogShowArguments, TaskTarget, WaitArguments, WhyTarget};

/// Verbs on tasks.
#[derive(Debug, Subcommand)]
pub enum TaskVerb {
    /// Show one task in full, or list the tasks of a job
    Status {
        /// [USER/]JOB[/INDEX]: with INDEX this task, else the tasks of the job
        #[arg(value_name = "JOB")]
        target: WhyTarget,
        /// List only this task of the job [default: all]
        #[arg(long)]
        index: Option<u32>,
        /// Show only tasks in these states, with commas between [default: all but ended ones beyond the count]
        #[arg(long, value_parser = task_state, value_name = "STATES", value_delimiter = ',')]
        state: Vec<TaskStateOrCondition>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// List the tasks of all your jobs
    List {
        /// List the tasks of every user
        #[arg(short, long)]
        all: bool,
        /// List also tasks of jobs that are over
        #[arg(short, long)]
        ended: bool,
        /// List only tasks of jobs with labels like this
        #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
        label: Vec<LabelConditions>,
        /// List only tasks in these states, with commas between [default: all but ended ones beyond the count]
        #[arg(long, value_parser = task_state, value_name = "STATES", value_delimiter = ',')]
        state: Vec<TaskStateOrCondition>,
        /// List the tasks on this node, of every user [default: on every node]
        #[arg(long, value_name = "NODE", conflicts_with_all = ["all", "ended"])]
        node: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show a task's output, also after its end
    Logs(LogArguments),
    /// Run a command in the environment of a running task
    #[command(
        after_help = "Exit codes: that of the command, or 128 plus its signal; 126 it may not be run, 127 it cannot be, \
            255 another error"
    )]
    Exec(ExecArguments),
    /// Send a signal to a running task
    Signal {
        /// [USER/]JOB/INDEX
        #[arg(value_name = "TASK")]
        target: TaskTarget,
        /// Name or number, such as HUP, SIGTERM or 9
        #[arg(value_parser = signal)]
        signal: i32,
    },
    /// Stop the running attempt (drain, SIGTERM, SIGKILL), then start a new one on any node
    Restart {
        /// [USER/]JOB/INDEX
        #[arg(value_name = "TASK")]
        target: TaskTarget,
    },
    /// Stop the running attempt as `restart` does, and start the next one elsewhere if it fits there
    #[command(after_help = TASK_STOP_NOTES, override_usage = "borough task stop [OPTIONS] <TASK...|--label>")]
    Stop(TaskStopArguments),
}

/// What `task stop` does not do.
const TASK_STOP_NOTES: &str = "The job keeps its count, so the task runs again. For fewer tasks: borough job scale. \
    If no other node fits, the task starts where it was.";

/// `task stop`.
#[derive(Clone, Debug, Args)]
pub struct TaskStopArguments {
    /// [USER/]JOB/INDEX; several are checked before the first is stopped
    #[arg(value_name = "TASK", required_unless_present = "label", conflicts_with_all = ["label", "all"])]
    pub targets: Vec<TaskTarget>,
    #[command(flatten)]
    pub labels: JobLabels,
    #[command(flatten)]
    pub wait: WaitArguments,
}

/// `task logs`.
#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// [USER/]JOB/INDEX
    #[arg(value_name = "TASK")]
    pub target: TaskTarget,
    /// Stream new output until the attempt ends, over changes of gateways
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub show: LogShowArguments,
    /// Show the attempt that ended last, also while the task waits for its next start
    #[arg(short, long, conflicts_with = "attempt")]
    pub previous: bool,
    /// Show this attempt, or the last one: the current one, if one runs
    #[arg(long, value_name = "last|NUMBER", default_value = "last", value_parser = attempt_of_task)]
    pub attempt: AttemptChoice,
}

/// `task exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecArguments {
    /// [USER/]JOB/INDEX
    #[arg(value_name = "TASK")]
    pub target: TaskTarget,
    /// Allocate no terminal, even if standard input is one
    #[arg(short = 'T', long)]
    pub no_tty: bool,
    /// Program and arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// One attempt of a task.
fn attempt_of_task(text: &str) -> Result<AttemptChoice, String> {
    let found = attempt(text).ok().filter(|choice| *choice != AttemptChoice::All);
    found.ok_or_else(|| {
        "accepted: last, or the number of an attempt from 1; of all of them: borough job logs JOB --task INDEX --attempt all"
            .to_owned()
    })
}

fn signal(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        let fits = (1..=64).contains(&number);
        return if fits { Ok(number) } else { Err("accepted: 1 to 64, or a name such as TERM".to_owned()) };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = SIGNALS.iter().find(|(known, _)| *known == name);
    known.map(|&(_, number)| number).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|&(name, _)| name).collect();
        format!("no such signal; accepted: 1 to 64, or one of {}", names.join(", "))
    })
}

/// The names of signals.
pub(crate) fn signal_names() -> impl Iterator<Item = &'static str> {
    SIGNALS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_by_name_and_number() {
        for (text, number) in [("TERM", 15), ("sigterm", 15), ("SIGKILL", 9), ("hup", 1), ("64", 64)] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for bad in ["", "0", "65", "-9", "SIG", "TERMINATE"] {
            assert!(signal(bad).is_err(), "{bad}");
        }
    }
}
