//! Computes a task's environment, and expands `${NAME}` in it and in commands.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::job::{identity_file_name, identity_variable};
use borough_proto::v1;

use super::alloc;
use super::secret::secret_file;

/// The part of the agent's own environment that tasks inherit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub path: String,
    /// `HOME`; absent: the task's own directory. A task that runs as another user never gets it, since that user could
    /// not use it.
    pub home: Option<String>,
}

/// The `PATH` of tasks if the agent itself has none.
pub(crate) const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where an attempt runs, as its variables show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskPlace<'a> {
    pub node: &'a str,
    /// The address of the node's tasks.
    pub host: &'a str,
    pub directory: &'a str,
    /// The scratch directory of its alloc, if it is in one.
    pub alloc_directory: Option<&'a str>,
}

/// The whole environment of an attempt. The spec's values override the others.
///
/// # Errors
/// A `${NAME}` that is not defined, for people.
pub(crate) fn environment(
    assignment: &v1::Assignment,
    place: TaskPlace<'_>,
    inherited: &Inherited,
) -> Result<BTreeMap<String, String>, String> {
    let given = given(assignment, place, inherited);
    let mut whole = given.clone();
    for (name, value) in assignment.spec.iter().flat_map(|spec| &spec.environment) {
        if name.is_empty() || name.contains('=') || name.contains('\0') || value.contains('\0') {
            return Err(format!("environment {name:?}: a name has no '=' and neither has a NUL"));
        }
        let value = expand(value, &given).map_err(|unknown| format!("environment {name}: {unknown}"))?;
        whole.insert(name.clone(), value);
    }
    Ok(whole)
}

/// The variables that the agent sets.
fn given(
    assignment: &v1::Assignment,
    place: TaskPlace<'_>,
    inherited: &Inherited,
) -> BTreeMap<String, String> {
    let attempt = assignment.attempt.clone().unwrap_or_default();
    let home = inherited.home.clone().unwrap_or_else(|| place.directory.to_owned());
    let mut given: BTreeMap<String, String> = [
        ("PATH", inherited.path.clone()),
        ("HOME", home),
        ("HOST", place.host.to_owned()),
        ("BOROUGH_CELL", assignment.cell.clone()),
        ("BOROUGH_USER", assignment.user.clone()),
        ("BOROUGH_JOB", assignment.job.clone()),
        ("BOROUGH_INDEX", attempt.index.to_string()),
        ("BOROUGH_ATTEMPT", attempt.incarnation.to_string()),
        ("BOROUGH_NODE", place.node.to_owned()),
        ("BOROUGH_TASK_DIR", place.directory.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    given.extend(alloc::variables(assignment, place.alloc_directory));
    for port in &assignment.ports {
        given.insert(port_variable(&port.name), port.number.to_string());
    }
    given.extend(files_variables(assignment, place.directory));
    for (name, value) in cards_variables(&assignment.cards) {
        given.insert(name, value);
    }
    if let Some(first) = assignment.ports.first() {
        given.insert("PORT".to_owned(), first.number.to_string());
    }
    given
}

/// The paths of the files with identities and secrets.
fn files_variables(assignment: &v1::Assignment, directory: &str) -> Vec<(String, String)> {
    let Some(spec) = &assignment.spec else { return Vec::new() };
    let path = |file: String| format!("{directory}/{file}");
    let identities = spec.identities.iter().filter_map(|identity| Name::new(identity.name.as_str()).ok());
    let identities = identities.map(|name| (identity_variable(&name), path(identity_file_name(&name))));
    let secrets = spec.secrets.iter();
    let secrets = secrets.filter_map(|secret| Some((secret.name.clone(), path(secret_file(secret)?))));
    identities.chain(secrets).collect()
}

/// Programs expect cards of this kind in [`GPU_VARIABLES`].
const KIND_GPU: &str = "gpu";
/// The variables of CUDA, of NVIDIA's container runtime and of ROCm.
const GPU_VARIABLES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// The cards of an attempt. `BOROUGH_DEVICE_<KIND>` lists them by the node's names, `BOROUGH_DEVICE_<KIND>_MILLIS` has
/// the attempt's share of each.
fn cards_variables(cards: &[v1::AssignedCard]) -> Vec<(String, String)> {
    let mut of_kind: BTreeMap<&str, (Vec<&str>, u64)> = BTreeMap::new();
    for assigned in cards {
        let Some(card) = &assigned.card else { continue };
        let (ids, millis) = of_kind.entry(&card.kind).or_default();
        ids.push(&card.id);
        *millis = assigned.millis;
    }
    let mut variables = Vec::new();
    for (kind, (ids, millis)) in of_kind {
        let upper = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' };
        let name = format!("BOROUGH_DEVICE_{}", kind.chars().map(upper).collect::<String>());
        let ids = ids.join(",");
        variables.push((format!("{name}_MILLIS"), millis.to_string()));
        if kind == KIND_GPU {
            variables.extend(GPU_VARIABLES.map(|variable| (variable.to_owned(), ids.clone())));
        }
        variables.push((name, ids));
    }
    variables
}

/// `PORT_` and the port's name in capitals, `-` as `_`.
fn port_variable(name: &str) -> String {
    format!("PORT_{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// Expands the variables of a command.
///
/// # Errors
/// A `${NAME}` that is not defined, for people.
pub(crate) fn command(
    command: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let part = |(at, text): (usize, &String)| {
        if text.contains('\0') {
            return Err(format!("command, part {at}: holds a NUL"));
        }
        expand(text, environment).map_err(|unknown| format!("command, part {at}: {unknown}"))
    };
    command.iter().enumerate().map(part).collect()
}

/// Expands `${NAME}`. `$${` becomes a plain `${`. Braces around anything but a name stay as they are.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = from.get(2..).unwrap_or_default();
            continue;
        }
        out.push_str(before);
        let inner = from.get(2..).unwrap_or_default();
        let name = inner.split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
        if let Some(name) = name {
            let value = variables.get(name).ok_or_else(|| {
                format!("${{{name}}} is not a variable of this task; a plain one is written $${{{name}}}")
            })?;
            out.push_str(value);
            rest = inner.get(name.len().saturating_add(1)..).unwrap_or_default();
        } else {
            out.push_str("${");
            rest = inner;
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(environment: &[(&str, &str)]) -> v1::Assignment {
        let port = |name: &str, number| v1::Port { name: name.to_owned(), number };
        v1::Assignment {
            attempt: Some(v1::TaskAttempt { job_id: "j".to_owned(), index: 2, incarnation: 7 }),
            cell: "east".to_owned(),
            user: "ann".to_owned(),
            job: "web".to_owned(),
            spec: Some(v1::TaskSpec {
                environment: environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
                ..v1::TaskSpec::default()
            }),
            ports: vec![port("http-main", 8080), port("admin", 9090)],
            ..v1::Assignment::default()
        }
    }

    fn whole(pairs: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
        let inherited = Inherited { path: "/bin".to_owned(), home: None };
        let place = TaskPlace { node: "n1", host: "127.0.0.1", directory: "/t", alloc_directory: None };
        environment(&assignment(pairs), place, &inherited)
    }

    #[test]
    fn a_task_knows_who_and_where_it_is() {
        let found = whole(&[("URL", "http://${HOST}:${PORT_HTTP_MAIN}/"), ("HOME", "/h")]).unwrap();
        let expect = [
            ("PORT_HTTP_MAIN", "8080"),
            ("PORT_ADMIN", "9090"),
            ("PORT", "8080"),
            ("HOST", "127.0.0.1"),
            ("URL", "http://127.0.0.1:8080/"),
            ("HOME", "/h"),
            ("PATH", "/bin"),
            ("BOROUGH_CELL", "east"),
            ("BOROUGH_USER", "ann"),
            ("BOROUGH_JOB", "web"),
            ("BOROUGH_INDEX", "2"),
            ("BOROUGH_ATTEMPT", "7"),
            ("BOROUGH_NODE", "n1"),
            ("BOROUGH_TASK_DIR", "/t"),
        ];
        for (name, value) in expect {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(found.len(), expect.len());
    }

    #[test]
    fn a_task_knows_which_cards_it_has() {
        let card = |kind: &str, place: u32, id: &str, millis| v1::AssignedCard {
            card: Some(v1::Card { kind: kind.to_owned(), place, id: id.to_owned(), ..v1::Card::default() }),
            millis,
        };
        let cards = [card("gpu", 0, "GPU-a", 1000), card("gpu", 3, "GPU-b", 1000), card("x-y", 1, "7", 250)];
        let found: BTreeMap<String, String> = cards_variables(&cards).into_iter().collect();
        let expect = [
            ("BOROUGH_DEVICE_GPU", "GPU-a,GPU-b"),
            ("BOROUGH_DEVICE_GPU_MILLIS", "1000"),
            ("BOROUGH_DEVICE_X_Y", "7"),
            ("BOROUGH_DEVICE_X_Y_MILLIS", "250"),
            ("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"),
            ("NVIDIA_VISIBLE_DEVICES", "GPU-a,GPU-b"),
            ("ROCR_VISIBLE_DEVICES", "GPU-a,GPU-b"),
        ];
        for (name, value) in expect {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(found.len(), expect.len());
        assert!(cards_variables(&[]).is_empty());
    }

    #[test]
    fn names_are_filled_in_and_everything_else_is_left_alone() {
        let variables = [("A".to_owned(), "1".to_owned())].into();
        for (text, expect) in [
            ("x${A}y${A}", "x1y1"),
            ("$${A}", "${A}"),
            ("${A:-2}", "${A:-2}"),
            ("${}", "${}"),
            ("$A", "$A"),
            ("${A", "${A"),
            ("${", "${"),
            ("$", "$"),
            ("é${A}é", "é1é"),
            ("${${A}", "${1"),
        ] {
            assert_eq!(expand(text, &variables).as_deref(), Ok(expect), "{text}");
        }
        assert!(expand("${B}", &variables).unwrap_err().contains("$${B}"));
        // A gateway refuses what no agent could expand, by the same grammar.
        for text in ["x${A}y${B}", "$${A} ${B}", "${A:-2} ${} ${A", "${${A}", "é${_A1}é", "$A", "$$${A}"] {
            let names = borough_model::job::variables_of(text);
            let known = names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
            assert!(expand(text, &known).is_ok(), "{text}");
            let refused = expand(text, &BTreeMap::new());
            assert_eq!(refused.is_err(), !names.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_passed_to_a_process_is_refused() {
        assert!(whole(&[("A=B", "x")]).is_err());
        assert!(whole(&[("A", "x\0")]).is_err());
        assert!(whole(&[("A", "${PORT_OTHER}")]).unwrap_err().contains("PORT_OTHER"));
        assert!(command(&["a\0".to_owned()], &BTreeMap::new()).is_err());
    }
}
