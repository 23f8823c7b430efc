//! Verbs of kubectl, nomad and docker, with the command of this program that does the same.

use super::foreign_noun::{KINDS_ELSEWHERE, is_kind, noun_of};
use super::foreign_option::{ForeignOption, carried};

/// Verbs without a noun, or below one: the command, and what it needs.
const VERBS: [(&str, &str, &str); 53] = [
    ("abort", "job stop", "JOB"),
    ("alloc", "task status", "JOB/INDEX"),
    ("allocs", "task list", ""),
    ("apply", "job run", "FILE"),
    ("attach", "job logs --follow", "JOB"),
    ("cancel", "job stop", "JOB"),
    ("config", "context list", ""),
    ("cordon", "node cordon", "NODE"),
    ("create", "job run", "FILE"),
    ("delete", "job stop", "JOB"),
    ("deploy", "job run", "FILE"),
    ("deployment", "rollout status", "JOB"),
    ("deployments", "job list", ""),
    ("describe", "job status", "JOB"),
    ("diff", "job plan", "FILE"),
    ("drain", "node drain", "NODE"),
    ("edit", "job edit", "JOB"),
    ("events", "event list", ""),
    ("gc", "job purge --all-ended", ""),
    ("exec", "task exec", "JOB/INDEX -- COMMAND"),
    ("get", "job status", ""),
    ("history", "job history", "JOB"),
    ("init", "job init", ""),
    ("inspect", "job status", "JOB"),
    ("kill", "job stop", "JOB"),
    ("label", "job label", "JOB KEY=VALUE"),
    ("list", "job list", ""),
    ("log", "job logs", "JOB"),
    ("logs", "job logs", "JOB"),
    ("ls", "job list", ""),
    ("plan", "job plan", "FILE"),
    ("promote", "rollout promote", "JOB"),
    ("ps", "task list", ""),
    ("purge", "job purge", "JOB"),
    ("restart", "job restart", "JOB"),
    ("revert", "rollout undo", "JOB"),
    ("rm", "job stop", "JOB"),
    ("rollback", "rollout undo", "JOB"),
    ("rollout", "rollout status", "JOB"),
    ("run", "job run", "FILE"),
    ("scale", "job scale", "JOB COUNT"),
    ("show", "job status", "JOB"),
    ("start", "job run", "FILE"),
    ("status", "job status", ""),
    ("stop", "job stop", "JOB"),
    ("submit", "job run", "FILE"),
    ("system", "job purge --all-ended", ""),
    ("taint", "node taint", "NODE TAINT"),
    ("uncordon", "node uncordon", "NODE"),
    ("untaint", "node untaint", "NODE TAINT"),
    ("undo", "rollout undo", "JOB"),
    ("validate", "job validate", "FILE"),
    ("version", "--version", ""),
];

/// Verbs of nomad and of Argo Rollouts on a rollout, which nomad calls a deployment.
const ROLLOUT_VERBS: [(&str, &str); 13] = [
    ("abort", "rollout undo"),
    ("cancel", "rollout undo"),
    ("fail", "rollout undo"),
    ("list", "rollout status"),
    ("pause", "rollout pause"),
    ("promote", "rollout promote"),
    ("resume", "rollout resume"),
    ("revert", "rollout undo"),
    ("rollback", "rollout undo"),
    ("status", "rollout status"),
    ("stop", "rollout pause"),
    ("unblock", "rollout resume"),
    ("undo", "rollout undo"),
];

/// Verbs of nomad on an allocation.
const ATTEMPT_VERBS: [(&str, &str, &str); 7] = [
    ("checks", "task status", "JOB/INDEX"),
    ("exec", "task exec", "JOB/INDEX -- COMMAND"),
    ("logs", "task logs", "JOB/INDEX"),
    ("restart", "task restart", "JOB/INDEX"),
    ("signal", "task signal", "JOB/INDEX SIGNAL"),
    ("status", "task status", "JOB/INDEX"),
    ("stop", "task stop", "JOB/INDEX"),
];

/// The command, without the program, for a verb `word` that `noun` does not have (empty: the program itself), with
/// the words behind it.
pub(super) fn foreign_verb(noun: &str, word: &str, rest: &[String]) -> Option<String> {
    if noun.is_empty() && PROGRAMS.contains(&word) {
        let (word, rest) = rest.split_first()?;
        return foreign_verb("", word, rest);
    }
    if word == "scale" {
        return Some(scale_command(rest)).filter(|_| matches!(noun, "" | "job"));
    }
    // `system gc` and `system prune` take nothing that this program needs.
    if matches!(word, "gc" | "system") && matches!(noun, "" | "job") {
        return Some("job purge --all-ended".to_owned());
    }
    if word == "why" {
        return why_command(noun, rest);
    }
    let OptionsApart { words, kept, others } = OptionsApart::of(rest);
    if let Some(signal) = others.iter().find_map(|other| other.signal()).filter(|_| word == "kill") {
        let task = words.first().filter(|task| is_task(task)).copied().unwrap_or("JOB/INDEX");
        return Some(format!("task signal {task} {signal}"));
    }
    let shown = log_options(word, rest);
    let command = verb_of(noun, word, words, &shown)?;
    // The command of `task exec` stands last.
    if command.contains(" -- ") {
        return Some(command);
    }
    let mut command = carried(&command, &others);
    if command.starts_with("task logs") && !command.contains(shown.trim()) {
        command.push_str(&shown);
    }
    Some(if kept.is_empty() { command } else { format!("{command} {}", kept.join(" ")) })
}

/// The same, with the words behind it that are no options. `shown`: the options of logs among them.
fn verb_of(noun: &str, word: &str, mut rest: Vec<&str>, shown: &str) -> Option<String> {
    names_plain(&mut rest);
    if let Some(command) = named_verb(noun, word, &rest) {
        return Some(command);
    }
    if let Some(command) = context_verb(noun, word, &rest) {
        return Some(command);
    }
    if let Some(command) = nomad_verb(noun, word, &rest) {
        return Some(command);
    }
    let verb = VERBS.iter().find(|(known, ..)| *known == word);
    let named = if noun.is_empty() { rest.first().and_then(|first| noun_of(first)) } else { noun_of(noun) };
    if let Some(of) = named {
        let behind = if noun.is_empty() { rest.get(1..).unwrap_or_default() } else { &rest };
        if let Some(command) = of_noun(of, word, behind) {
            return Some(with_words(&command, behind));
        }
        // `edit job web` and `taint nodes n1 gpu:no_schedule`, in this order of words.
        if noun.is_empty() && (verb.is_some_and(|(_, command, _)| command.starts_with(of)) || word == "label")
        {
            let verb = if word == "label" { format!("{of} label") } else { verb?.1.to_owned() };
            return Some(with_words(&verb, behind));
        }
    }
    let (_, command, needed) = verb?;
    // What is done with one task of a job.
    let of_one = command.strip_prefix("job ").filter(|verb| ["stop", "restart", "status"].contains(verb));
    if let Some(verb) = of_one.filter(|_| noun.is_empty() && rest.first().is_some_and(|first| is_task(first)))
    {
        return Some(with_words(&format!("task {verb}"), &rest));
    }
    // A job is stopped by its name, and begun from its file.
    match *command {
        "job stop" => rest.retain(|word| !is_file(word)),
        "job run" | "job plan" | "job validate" => rest.retain(|word| is_file(word)),
        _ => {}
    }
    // `job revert` of nomad, and `rollout history` of kubectl.
    let is_attach = noun == "task" && word == "attach";
    let is_near = is_attach || noun == "rollout" || (noun == "job" && command.starts_with("rollout"));
    if !noun.is_empty() && !is_near && !command.starts_with(noun) {
        return None;
    }
    // The output of one task.
    let of_task = rest.first().is_some_and(|first| is_task(first));
    if command.starts_with("job logs") && of_task {
        return Some(with_words(&format!("task logs{shown}"), &rest));
    }
    let command = command.trim_end_matches(" --follow");
    let shown = if command == "job logs" && shown.contains("--follow") { " --follow" } else { "" };
    Some(with_needed(&format!("{command}{shown}"), &rest, needed))
}

/// The words of a command line of another program, and its options that this program has too.
struct OptionsApart<'w> {
    words: Vec<&'w str>,
    kept: Vec<&'w str>,
    others: Vec<ForeignOption<'w>>,
}

impl<'w> OptionsApart<'w> {
    /// Puts other options aside, such as the `-f` of `apply -f web.yaml`. Behind `--` nothing is an option.
    fn of(line: &'w [String]) -> Self {
        let (mut words, mut kept, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let mut line = line.iter().map(String::as_str);
        while let Some(word) = line.next() {
            match word {
                "--" => {
                    words.push(word);
                    words.extend(line.by_ref());
                }
                "-o" | "--output" | "-l" | "--selector" | "--label" => {
                    let option = if matches!(word, "-o" | "--output") { "-o" } else { "-l" };
                    let value = line.next().unwrap_or_default();
                    if option == "-l" || OUTPUTS.contains(&value) {
                        kept.extend([option, value]);
                    }
                }
                "-n" | "--namespace" | "-c" | "--container" => drop(line.next()),
                _ if word.starts_with('-') => others.push(ForeignOption::read(word, &mut line)),
                _ => words.push(word),
            }
        }
        Self { words, kept, others }
    }
}

/// Forms of answers that this program has too.
const OUTPUTS: [&str; 4] = ["wide", "json", "yaml", "table"];

/// Commands that are not found by their verb alone.
fn named_verb(noun: &str, word: &str, rest: &[&str]) -> Option<String> {
    match (noun, word, rest) {
        ("", "create", ["quota", ..]) => Some("quota set --help".to_owned()),
        ("", "get", [kind]) if KINDS_ELSEWHERE.contains(kind) => Some("--help".to_owned()),
        ("" | "job", "update", _) => {
            let files: Vec<&str> = rest.iter().copied().filter(|word| is_file(word)).collect();
            Some(with_needed("job run", &files, "FILE"))
        }
        ("", "label", [kind, behind @ ..]) if noun_of(kind) == Some("task") => {
            Some(with_needed("job label", behind, "JOB KEY=VALUE"))
        }
        ("" | "node", "taint", words)
            if words.iter().any(|word| word.contains(':') || word.ends_with('-')) =>
        {
            let words =
                words.strip_prefix(&["node"]).or_else(|| words.strip_prefix(&["nodes"])).unwrap_or(words);
            let away = words.iter().any(|word| word.ends_with('-'));
            let taints: Vec<String> = words.iter().map(|word| taint_plain(word)).collect();
            let taints: Vec<&str> = taints.iter().map(String::as_str).collect();
            Some(with_words(if away { "node untaint" } else { "node taint" }, &taints))
        }
        ("", "token" | "tokens", ["create" | "new", behind @ ..]) => {
            Some(with_needed("auth token", behind, "USER"))
        }
        ("", "user" | "users", ["list" | "ls"] | []) => Some("auth grants".to_owned()),
        ("", "top", [kind, ..]) if is_kind(kind) => Some("top".to_owned()),
        ("context", "use-context", behind) => Some(with_needed("context use", behind, "NAME")),
        ("context", "current" | "current-context" | "get-contexts" | "show", _) => {
            Some("context list".to_owned())
        }
        _ => None,
    }
}

/// A taint as this program writes it: `k:NoExecute-` of kubectl is `k:no_execute`.
fn taint_plain(word: &str) -> String {
    const EFFECTS: [(&str, &str); 3] = [
        ("PreferNoSchedule", "prefer_no_schedule"),
        ("NoSchedule", "no_schedule"),
        ("NoExecute", "no_execute"),
    ];
    let Some((key, effect)) = word.split_once(':') else { return word.trim_end_matches('-').to_owned() };
    let effect = effect.trim_end_matches('-');
    let own = EFFECTS.iter().find(|(known, _)| *known == effect).map_or(effect, |(_, own)| own);
    format!("{key}:{own}")
}

/// `why` below a noun, as `federation job why` is a verb.
fn why_command(noun: &str, rest: &[String]) -> Option<String> {
    let names: Vec<&str> = rest.iter().map(String::as_str).collect();
    let needed = if noun == "task" { "JOB/INDEX" } else { "JOB" };
    matches!(noun, "job" | "task" | "rollout").then(|| with_needed("why", &names, needed))
}

/// `deployment/web` of kubectl is the job `web`.
fn names_plain(words: &mut [&str]) {
    for word in words {
        if let Some((kind, name)) = word.split_once('/')
            && noun_of(kind).is_some()
            && !is_number(name)
        {
            *word = name;
        }
    }
}

/// Options that say to how many tasks a job is scaled.
pub(super) const COUNT_OPTIONS: [&str; 2] = ["--count", "--replicas"];

/// `job scale JOB COUNT`, also of `--replicas=3 deployment/web` of kubectl and of `web=3` of docker.
pub(super) fn scale_command(words: &[String]) -> String {
    let (mut names, mut count) = (Vec::new(), None);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            _ if COUNT_OPTIONS.contains(&word) => count = words.next(),
            Some((option, value)) if COUNT_OPTIONS.contains(&option) => count = Some(value),
            _ if word.starts_with('-') => {}
            Some((job, value)) => {
                names.push(job);
                count = Some(value);
            }
            None if is_number(word) => count = Some(word),
            None => names.push(word),
        }
    }
    // `deployment web` of kubectl, also with a `/` between.
    let name = match names.as_slice() {
        [] => "JOB",
        [kind, name, ..] if is_kind(kind) => name,
        [name, ..] => match name.split_once('/') {
            Some((kind, job)) if is_kind(kind) => job,
            _ => name,
        },
    };
    format!("job scale {name} {}", count.unwrap_or("COUNT"))
}

/// Programs whose whole command lines people type behind this one's name.
const PROGRAMS: [&str; 4] = ["kubectl", "k", "nomad", "docker"];

/// The options of logs that this program has too.
fn log_options(word: &str, rest: &[String]) -> String {
    let is_logs = |word: &str| matches!(word, "log" | "logs" | "attach");
    if !is_logs(word) && !rest.first().is_some_and(|word| is_logs(word)) {
        return String::new();
    }
    let has = |names: [&str; 2]| rest.iter().any(|word| names.contains(&word.as_str()));
    let follow = if word == "attach" || has(["-f", "--follow"]) { " --follow" } else { "" };
    let previous = if has(["-p", "--previous"]) { " --previous" } else { "" };
    format!("{follow}{previous}")
}

/// `config use-context prod` of kubectl, and `node eligibility -disable n1` of nomad without its options.
fn context_verb(noun: &str, word: &str, rest: &[&str]) -> Option<String> {
    let (of, verb, behind) = match (noun, rest) {
        ("", [verb, behind @ ..]) => (word, *verb, behind),
        (noun, rest) => (noun, word, rest),
    };
    let command = match (of, verb) {
        ("config", "use-context") => "context use",
        ("config", "delete-context") => "context remove",
        ("config", "get-contexts" | "current-context" | "view") => return Some("context list".to_owned()),
        ("config", "set-context") => "context add",
        ("node", "eligibility") => "node cordon",
        _ => return None,
    };
    Some(with_words(command, behind))
}

fn is_file(word: &str) -> bool {
    [".yaml", ".yml", ".json", ".jsonnet", ".hcl", ".nomad"].iter().any(|end| word.ends_with(end))
}

/// `alloc logs ID`, `deployment pause ID`, and `rollout abort JOB` of Argo Rollouts.
fn nomad_verb(noun: &str, word: &str, rest: &[&str]) -> Option<String> {
    let (of, verb, behind) = match (noun, rest) {
        ("rollout", _) => (noun, word, rest),
        ("", [verb, behind @ ..]) => (word, *verb, behind),
        _ => return None,
    };
    match of {
        "rollout" | "deployment" | "deployments" => {
            let (_, command) = ROLLOUT_VERBS.iter().find(|(known, _)| *known == verb)?;
            Some(with_needed(command, behind, "JOB"))
        }
        "alloc" | "allocation" | "allocs" => {
            let (_, command, needed) = ATTEMPT_VERBS.iter().find(|(known, ..)| *known == verb)?;
            // The id of an allocation names no task here. Another word may be a job.
            let named = behind.iter().find(|word| !word.starts_with('-'));
            match named {
                Some(name) if is_task(name) => Some(with_needed(command, behind, needed)),
                Some(job) if !is_hex(job) => Some(match *command {
                    "task logs" => format!("job logs {job}"),
                    "task status" => format!("job status {job}"),
                    _ => format!("{command} {}", needed.replacen("JOB", job, 1)),
                }),
                _ => Some(with_needed(command, &[], needed)),
            }
        }
        _ => None,
    }
}

/// A command with the words behind it, or with what it needs. The version of `job revert JOB VERSION` is an option.
fn with_needed(command: &str, words: &[&str], needed: &str) -> String {
    match words {
        [] => with_words(command, &[needed]),
        // The command of `task exec` stands behind `--`.
        [task, behind @ ..] if command == "task exec" && !behind.is_empty() => {
            // A command runs in one task.
            let first = if is_task(task) { "" } else { "/0" };
            let dashes = if behind.contains(&"--") { "" } else { " --" };
            with_words(&format!("{command} {task}{first}{dashes}"), behind)
        }
        [job, version] if command == "rollout undo" && is_number(version) => {
            with_words(command, &[*job, "--to", *version])
        }
        words => with_words(command, words),
    }
}

/// Whether a word is `JOB/INDEX`.
fn is_task(word: &str) -> bool {
    word.rsplit_once('/').is_some_and(|(_, index)| is_number(index))
}

/// Whether a word is an id of another system, or a part of one.
fn is_hex(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `get`, `describe` and `delete` of something.
fn of_noun(noun: &str, word: &str, names: &[&str]) -> Option<String> {
    let is_unnamed = names.is_empty();
    let verb = match word {
        "get" | "list" | "ls" | "ps" | "status" if is_unnamed => "list",
        "describe" | "inspect" | "show" if is_unnamed => "list",
        "get" | "list" | "ls" | "describe" | "inspect" | "show" | "status" => match noun {
            "name" | "event" | "context" => "list",
            _ => "status",
        },
        "delete" | "rm" | "remove" | "kill" => match noun {
            "job" | "task" => "stop",
            "node" => "remove",
            _ => return None,
        },
        _ => return None,
    };
    Some(format!("{noun} {verb}"))
}

fn with_words(command: &str, words: &[&str]) -> String {
    let words = std::iter::once(command).chain(words.iter().copied()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(noun: &str, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (word, rest) = words.split_first().unwrap();
        foreign_verb(noun, word, rest).unwrap_or_default()
    }

    #[test]
    fn a_job_behind_a_verb_of_allocations_is_taken_over() {
        for (line, command) in [
            ("logs web", "job logs web"),
            ("status web", "job status web"),
            ("stop web", "task stop web/INDEX"),
        ] {
            let rest: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(foreign_verb("", "alloc", &rest).as_deref(), Some(command), "{line}");
        }
    }

    #[test]
    fn verbs_of_other_programs_are_known() {
        for (line, command) in [
            ("run web.yaml", "job run web.yaml"),
            ("run", "job run FILE"),
            ("apply -f web.yaml", "job run web.yaml"),
            ("get", "job status"),
            ("get pods", "task list"),
            ("get pod web/0", "task status web/0"),
            ("get nodes", "node list"),
            ("get svc web", "name list web"),
            ("describe node n1", "node status n1"),
            ("describe web", "job status web"),
            ("delete pod web/0", "task stop web/0"),
            ("delete node n1", "node remove n1"),
            ("delete web", "job stop web"),
            ("delete", "job stop JOB"),
            ("logs -f web", "job logs --follow web"),
            ("logs -f web/0", "task logs --follow web/0"),
            ("logs --previous web/0", "task logs --previous web/0"),
            ("exec -it web/0 sh", "task exec web/0 -- sh"),
            ("exec -it web sh", "task exec web/0 -- sh"),
            ("exec web -- ls -l", "task exec web/0 -- ls -l"),
            ("alloc exec web/0 ls -l", "task exec web/0 -- ls"),
            ("config use-context prod", "context use prod"),
            ("config get-contexts", "context list"),
            ("edit job web", "job edit web"),
            ("delete -f web.yaml", "job stop JOB"),
            ("taint nodes n1 a=b:NoSchedule", "node taint n1 a=b:no_schedule"),
            ("deployment promote web", "rollout promote web"),
            ("label node n1 a=b", "node label n1 a=b"),
            ("label web a=b", "job label web a=b"),
            ("kubectl get nodes", "node list"),
            ("nomad job stop web", ""),
            ("scale deployment/web 3", "job scale web 3"),
            ("scale --replicas=3 deployment/web", "job scale web 3"),
            ("scale --replicas 3 deployment web", "job scale web 3"),
            ("scale --count 3 web", "job scale web 3"),
            ("scale web=3", "job scale web 3"),
            ("scale", "job scale JOB COUNT"),
            ("attach web", "job logs --follow web"),
            ("attach -it web/0", "task logs --follow web/0"),
            ("attach", "job logs --follow JOB"),
            ("system gc", "job purge --all-ended"),
            ("system prune", "job purge --all-ended"),
            ("docker system prune -a", "job purge --all-ended"),
            ("gc", "job purge --all-ended"),
            ("logs web/0", "task logs web/0"),
            ("ps -a", "task list"),
            ("status", "job status"),
            ("exec -it web/0 -- ls -l", "task exec web/0 -- ls -l"),
            ("rollback web", "rollout undo web"),
            ("rollback web 2", "rollout undo web --to 2"),
            ("cancel web", "job stop web"),
            ("abort web", "job stop web"),
            ("alloc logs web/0", "task logs web/0"),
            ("alloc logs 4f2a", "task logs JOB/INDEX"),
            ("alloc exec -i web/0 -- ls -l", "task exec web/0 -- ls -l"),
            ("alloc status", "task status JOB/INDEX"),
            ("alloc web/0", "task status web/0"),
            ("deployment status web", "rollout status web"),
            ("deployment fail 4f2a", "rollout undo 4f2a"),
            ("deployment list", "rollout status JOB"),
            ("deployment", "rollout status JOB"),
            ("deployments", "job list"),
            ("get deployments", "job list"),
            ("get allocs", "task list"),
            ("version", "--version"),
            ("jobs", ""),
        ] {
            assert_eq!(of("", line), command, "{line}");
        }
    }

    #[test]
    fn options_and_words_that_differ_are_translated() {
        for (line, command) in [
            ("taint node n1 k:NoExecute-", "node untaint n1 k:no_execute"),
            ("get nodes -o wide", "node list -o wide"),
            ("get pods web/0 -o yaml", "task status web/0 -o yaml"),
            ("get pods web/0 -o name -n x", "task status web/0"),
            ("get pods -l app=web", "task list -l app=web"),
            ("get jobs -n default", "job list"),
            ("label pods web a=b", "job label web a=b"),
            ("create quota x", "quota set --help"),
            ("run nginx --image nginx", "job run FILE"),
            ("start web", "job run FILE"),
            ("token create", "auth token USER"),
            ("user list", "auth grants"),
            ("top pods", "top"),
            ("logs --tail 5 web/0", "task logs web/0 --tail 5"),
            ("logs --tail=5 web/0", "task logs web/0 --tail 5"),
            ("logs -f --since 10m web", "job logs --follow web --since 10m"),
            ("alloc logs -f web/0", "task logs web/0 --follow"),
            ("drain n1 --timeout 60s", "node drain n1 --timeout 60s"),
            ("drain n1 --force --ignore-daemonsets", "node drain n1 --force"),
            ("run --detach web.yaml", "job run web.yaml --detach"),
            ("kill -s HUP web/0", "task signal web/0 HUP"),
            ("kill web/0", "task stop web/0"),
            ("restart web/0", "task restart web/0"),
            ("inspect web/0", "task status web/0"),
            ("get pods -w", "task list -w"),
            ("get ds", "job list"),
            ("get contexts", "context list"),
            ("get quota", "quota list"),
            ("get secrets", "--help"),
            ("taint node n1 dedicated-", "node untaint n1 dedicated"),
        ] {
            assert_eq!(of("", line), command, "{line}");
        }
    }

    #[test]
    fn verbs_of_other_programs_are_known_below_a_noun() {
        for (noun, line, command) in [
            ("job", "delete web", "job stop web"),
            ("job", "describe web", "job status web"),
            ("job", "ls", "job list"),
            ("task", "ps", "task list"),
            ("task", "attach web/0", "task logs --follow web/0"),
            ("job", "attach web", "job logs --follow web"),
            ("job", "attach web/0", "task logs --follow web/0"),
            ("job", "gc", "job purge --all-ended"),
            ("node", "gc", ""),
            ("node", "get n1", "node status n1"),
            ("job", "apply web.yaml", "job run web.yaml"),
            ("job", "drain n1", ""),
            ("job", "revert web", "rollout undo web"),
            ("job", "revert web 2", "rollout undo web --to 2"),
            ("job", "cancel web", "job stop web"),
            ("rollout", "cancel web", "rollout undo web"),
            ("rollout", "abort", "rollout undo JOB"),
            ("rollout", "promote web", "rollout promote web"),
            ("rollout", "restart deployment/web", "job restart web"),
            ("node", "eligibility -disable n1", "node cordon n1"),
            ("rollout", "history web", "job history web"),
            ("rollout", "restart web", "job restart web"),
            ("job", "runn web.yaml", ""),
            ("job", "update web.yaml", "job run web.yaml"),
            ("context", "use-context x", "context use x"),
            ("context", "current", "context list"),
            ("job", "why web", "why web"),
            ("task", "why web/0", "why web/0"),
            ("task", "why", "why JOB/INDEX"),
        ] {
            assert_eq!(of(noun, line), command, "{noun} {line}");
        }
    }
}
