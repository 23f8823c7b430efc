//! The verbs: each asks a gateway and shows the answer.

mod attempts;
mod audit;
mod auth;
mod bulk;
mod cell;
mod confirm;
mod context;
mod drain;
mod event;
mod event_log;
mod explain;
mod federated;
mod job;
mod join;
mod list;
mod login;
mod member;
mod merged;
mod name;
mod node;
mod node_bulk;
mod quota;
mod removed;
mod rollout;
mod rollout_bulk;
mod rollout_undo;
mod selected;
mod store;
mod task;
mod top;
mod unknown;
mod watch;
mod why;

use crate::args::{
    Arguments, FederationArguments, FederationVerb, GivenProcess, Global, NamedTarget, NodeVerb, Verb,
};
use crate::complete;
use crate::connect;
use crate::exit::{Code, Failure};
use crate::jobfile;
use crate::output::Printer;
use crate::role;
pub(crate) use audit::audited_methods;
pub(crate) use rollout_undo::KnownVersions;

/// Runs the verb of the arguments.
pub(crate) fn run(arguments: Arguments, printer: &Printer) -> Result<Code, Failure> {
    let Arguments { global, verb } = arguments;
    let named = verb.named();
    if global.dry_run && !verb.takes_dry_run() {
        let message = "--dry-run: this verb has no dry run; accepted: verbs that change something in a cell, such as job stop";
        let failure = Failure::new(Code::Usage, message);
        return Err(match verb {
            Verb::Job(_) => failure.with_hint("what a job file would do: borough job plan FILE"),
            _ => failure,
        });
    }
    login::renewed(&global, &verb, printer);
    verb_run(&global, verb, printer).map_err(|failure| match named {
        Some(named) if failure.code() == Code::NotFound => unknown_explained(&global, &named, failure),
        _ if failure.code() == Code::Unreachable => connect::unreachable_explained(&global, failure),
        _ => failure,
    })
}

fn verb_run(global: &Global, verb: Verb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        Verb::Job(verb) => block_on(job::run(global, verb, printer)),
        Verb::Rollout(verb) => block_on(rollout::run(global, verb, printer)),
        Verb::Task(verb) => block_on(task::run(global, verb, printer)),
        Verb::Why(arguments) => block_on(why::run(global, arguments, printer)),
        Verb::Explain(arguments) => explain::run(&arguments, printer),
        Verb::Node(NodeVerb::Token(arguments)) => role::token::node_token(global, &arguments, printer),
        Verb::Node(verb) => block_on(node::run(global, verb, printer)),
        Verb::Context(verb) => context::run(global, verb, printer),
        Verb::Cell(verb) => block_on(cell::run(global, verb, printer)),
        Verb::Quota(verb) => block_on(quota::run(global, verb, printer)),
        Verb::Auth(verb) => block_on(auth::run(global, verb, printer)),
        Verb::Audit(verb) => block_on(audit::run(global, verb, printer)),
        Verb::Name(verb) => block_on(name::run(global, verb, printer)),
        Verb::Event(verb) => block_on(event::run(global, verb, printer)),
        Verb::Top(arguments) => block_on(top::run(global, &arguments, printer)),
        Verb::Store(verb) => block_on(store::run(global, verb, printer)),
        Verb::Completion { shell } => completion(shell, printer),
        Verb::Dev(arguments) => role::dev::run(global, &arguments, printer),
        Verb::Agent(arguments) => role::agent::run(global, arguments),
        Verb::Gateway(arguments) => role::serve::gateway(global, arguments, printer),
        Verb::Scheduler(arguments) => role::serve::scheduler(global, arguments, printer),
        Verb::Controller(arguments) => role::serve::controller(global, arguments, printer),
        Verb::Federation(FederationArguments { verb: Some(FederationVerb::Job(verb)), .. }) => {
            block_on(federated::run(global, verb, printer))
        }
        Verb::Federation(FederationArguments { process: GivenProcess(Some(process)), .. }) => {
            role::serve::federation(global, process, printer)
        }
        Verb::Federation(_) => {
            let message = "neither a verb nor --credentials is given";
            Err(Failure::new(Code::Usage, message).with_hint("borough federation --help"))
        }
        Verb::Names(arguments) => role::names::run(&arguments, printer),
        Verb::EvaluateJsonnet(arguments) => jobfile::evaluate(arguments)
            .map(|()| Code::Done)
            .or_else(|problem| printer.error_bytes(problem.as_bytes()).map(|()| Code::Failed)),
    }
}

/// The failure of a verb whose job or node does not exist.
fn unknown_explained(global: &Global, named: &NamedTarget, failure: Failure) -> Failure {
    let Ok(runtime) = runtime() else { return failure };
    let explained = runtime.block_on(unknown::explained(global, named, failure));
    runtime.shutdown_background();
    explained
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Code::Failed, format!("cannot start the runtime: {error}")))
}

/// Verbs wait for one thing at a time: one thread is enough for them.
fn block_on(verb: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(verb);
    // A pending read of the terminal must not keep the program from ending.
    runtime.shutdown_background();
    outcome
}

fn completion(shell: clap_complete::Shell, printer: &Printer) -> Result<Code, Failure> {
    printer.bytes(&complete::script(&shell.to_string())?).map(|()| Code::Done)
}
