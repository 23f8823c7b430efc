//! The secrets of an attempt, as its programs get them.

use std::collections::BTreeMap;
use std::fmt;

use borough_model::job::secret_file_name;
use borough_proto::v1;
use borough_shim::spec::Spec;

/// The resolved secrets of an attempt.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskSecrets {
    /// Values of variables.
    pub(crate) variables: BTreeMap<String, String>,
    /// Contents of files in the task's own directory, by their names.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl fmt::Debug for TaskSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskSecrets(..)")
    }
}

/// The name of the file of a secret that is given as one.
pub(crate) fn secret_file(secret: &v1::SecretReference) -> Option<String> {
    (secret.form() == v1::SecretForm::File).then(|| secret_file_name(&secret.name))
}

/// Resolves the secrets of a task by `read`, which takes the place of one.
///
/// # Errors
/// Which secret cannot be used on `node`, and why; for people.
pub(crate) fn secrets_resolve(
    spec: &v1::TaskSpec,
    node: &str,
    read: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<TaskSecrets, String> {
    let mut resolved = TaskSecrets::default();
    for secret in &spec.secrets {
        let named = |problem: String| {
            format!("its secret {} ({}) {problem} (node {node})", secret.name, secret.source)
        };
        let content = read(&secret.source).map_err(named)?;
        match secret_file(secret) {
            Some(name) => resolved.files.push((name, content)),
            None => {
                let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
                let text = text.ok_or_else(|| {
                    named("is no text without NUL, which a variable needs; accepted: `as: file`".to_owned())
                })?;
                // Editors end a file with it.
                let text = text.strip_suffix('\n').unwrap_or(&text);
                resolved.variables.insert(secret.name.clone(), text.to_owned());
            }
        }
    }
    Ok(resolved)
}

/// Gives the variables to every program of the attempt. Its commands were expanded before, so none shows a secret.
pub(crate) fn secrets_add(spec: &mut Spec, secrets: &TaskSecrets) {
    let environments = spec.helpers.iter_mut().map(|helper| &mut helper.environment);
    for environment in environments.chain([&mut spec.environment]) {
        environment.extend(secrets.variables.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(secrets: &[(&str, &str, v1::SecretForm)]) -> v1::TaskSpec {
        let reference = |(name, source, form): &(&str, &str, v1::SecretForm)| v1::SecretReference {
            name: (*name).to_owned(),
            source: (*source).to_owned(),
            form: (*form).into(),
        };
        v1::TaskSpec { secrets: secrets.iter().map(reference).collect(), ..v1::TaskSpec::default() }
    }

    #[test]
    fn a_secret_is_a_variable_or_a_file() {
        use v1::SecretForm::{File, Variable};
        let spec = spec(&[("A", "a", Variable), ("B", "b", File), ("C", "c", v1::SecretForm::Unspecified)]);
        let read = |place: &str| Ok(format!("{place}-value\n").into_bytes());
        let found = secrets_resolve(&spec, "n1", read).unwrap();
        let variables: Vec<_> =
            found.variables.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(variables, [("A", "a-value"), ("C", "c-value")]);
        assert_eq!(found.files, [("secret-B".to_owned(), b"b-value\n".to_vec())]);
        assert!(!format!("{found:?}").contains("value"));
    }

    #[test]
    fn a_problem_names_the_reference_and_the_node_and_no_content() {
        let missing = secrets_resolve(&spec(&[("A", "db/x", v1::SecretForm::Variable)]), "n1", |_| {
            Err("is not on this node".to_owned())
        });
        let missing = missing.unwrap_err();
        assert!(["A", "db/x", "n1"].iter().all(|part| missing.contains(part)), "{missing}");
        let read = |_: &str| Ok(b"bad\0value".to_vec());
        let bad = secrets_resolve(&spec(&[("A", "db/x", v1::SecretForm::Variable)]), "n1", read).unwrap_err();
        assert!(bad.contains("as: file") && !bad.contains("bad"), "{bad}");
    }
}
