//! Tokens as files: an operator's, those of nodes, and the file of the nodes' tokens that a gateway accepts.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use borough_gateway::auth::{Credentials, NodeGrant, NodeToken, Token};
use borough_kv::secret::{Secret, SecretError};
use borough_model::Name;
use borough_store::error_chain;

use super::{files_follow, files_private, there_already};
use crate::args::{Global, NodeTokenArguments};
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// The label of an operator's token.
pub(super) const OPERATOR_LABEL: &str = "borough-operator";
/// The label of a token of nodes.
pub(super) const NODE_LABEL: &str = "borough-node";

/// Reads the secret of a file that nobody else may read.
pub(super) fn secret_read(path: &Path) -> Result<Secret, Failure> {
    Secret::read(path).map_err(read_failure)
}

/// Reads the token of an agent. Refuses an operator's token, which must not be on a node.
pub(super) fn node_secret_read(path: &Path) -> Result<Secret, Failure> {
    let secret = secret_read(path)?;
    if secret.is_labelled(OPERATOR_LABEL) {
        let text = format!("{} holds an operator's token", path.display());
        let hint = "a node has a token of its own: borough node token NODE --to FILE --accepted FILE";
        return Err(Failure::new(Code::Refused, text).with_hint(hint));
    }
    Ok(secret)
}

/// The failure of a file that the command line names, and that cannot be read.
fn read_failure(error: SecretError) -> Failure {
    match &error {
        SecretError::Io { .. } => Failure::new(Code::Usage, error_chain(&error))
            .with_hint("name a file with a token that this user may read"),
        _ => secret_failure(error),
    }
}

pub(crate) fn secret_failure(error: SecretError) -> Failure {
    if let SecretError::Io { path, source } = &error
        && source.kind() == std::io::ErrorKind::AlreadyExists
    {
        return there_already(path);
    }
    let code = match error {
        SecretError::Io { .. } => Code::Failed,
        _ => Code::Refused,
    };
    let failure = Failure::new(code, error_chain(&error));
    match error {
        SecretError::Open { path, .. } => failure.with_hint(format!("chmod 600 {}", path.display())),
        _ => failure,
    }
}

/// The tokens of nodes that a gateway accepts: lines of `CELL` or `CELL/NODE`, a blank and the token.
fn node_tokens_read(path: &Path) -> Result<Vec<NodeToken>, Failure> {
    let named = Secret::read_named(path).map_err(read_failure)?;
    let token = |(name, secret): (String, Secret)| {
        let wrong = |error: String| {
            let text = format!("{}: {name:?} {error}", path.display());
            Failure::new(Code::Refused, text)
                .with_hint("accepted: CELL TOKEN, or CELL/NODE TOKEN, a line each")
        };
        let (cell, node) = match name.split_once('/') {
            Some((cell, node)) => (cell, Some(node)),
            None => (name.as_str(), None),
        };
        let named = |text: &str| Name::new(text).map_err(|error| wrong(error.to_string()));
        let grant = NodeGrant { cell: named(cell)?, node: node.map(named).transpose()? };
        Ok(NodeToken { token: Token::new(secret), grant })
    };
    named.into_iter().map(token).collect()
}

/// The tokens that a gateway accepts: the operator's token `operator`, and those of the file `nodes`, which is read
/// again when it changes. Must run inside a runtime.
pub(super) fn credentials_read(operator: Secret, nodes: Option<PathBuf>) -> Result<Credentials, Failure> {
    let known = nodes.as_deref().map(node_tokens_read).transpose()?.unwrap_or_default();
    let credentials = Credentials::new(Token::new(operator), known);
    if let Some(path) = nodes {
        let known = credentials.clone();
        // An invalid file changes nothing.
        tokio::spawn(files_follow(vec![path.clone()], move || match node_tokens_read(&path) {
            Ok(nodes) => {
                tracing::info!(path = %path.display(), accepted = nodes.len(), "tokens of nodes read again");
                known.nodes_replace(nodes);
            }
            Err(failure) => tracing::warn!(problem = failure.message(), "tokens of nodes stay as they were"),
        }));
    }
    Ok(credentials)
}

/// `node token`: makes a token of a node, and adds it to those that gateways accept.
pub(crate) fn node_token(
    global: &Global,
    arguments: &NodeTokenArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    files_private();
    let cell = global.cell.as_deref();
    let unnamed = || {
        Failure::new(Code::Usage, "name the cell of the node with --cell")
            .with_hint("borough node token --help")
    };
    let cell = cell.ok_or_else(unnamed)?;
    let cell = Name::new(cell).map_err(|error| Failure::new(Code::Usage, format!("--cell {error}")))?;
    let name = match &arguments.node {
        Some(node) => format!("{cell}/{node}"),
        None => cell.to_string(),
    };
    let accepted = &arguments.accepted;
    // An existing file must be one that gateways accept: not an agent's own token, and not readable by others.
    if accepted.symlink_metadata().is_ok() {
        node_tokens_read(accepted)?;
    }
    let secret = Secret::create(&arguments.to, NODE_LABEL).map_err(secret_failure)?;
    accepted_append(accepted, &name, &secret).map_err(|error| {
        // Nobody accepts this token. If it stayed, someone would take it for a valid one.
        std::fs::remove_file(&arguments.to).ok();
        Failure::new(Code::Failed, format!("cannot write {}: {error}", accepted.display()))
    })?;
    printer.remark(&format!(
        "wrote {}, which gateways with --node-tokens {} accept for {name}",
        arguments.to.display(),
        accepted.display()
    ));
    Ok(Code::Done)
}

fn accepted_append(path: &Path, name: &str, secret: &Secret) -> std::io::Result<()> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    // One write: a gateway that reads meanwhile sees the whole line or none of it.
    file.write_all(format!("{name} {}\n", secret.expose()).as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_nodes_are_read_with_what_they_are_for() {
        let directory = tempfile::tempdir().unwrap();
        let (accepted, own) = (directory.path().join("accepted"), directory.path().join("own"));
        let secret = Secret::create(&own, NODE_LABEL).unwrap();
        accepted_append(&accepted, "alpha/n1", &secret).unwrap();
        accepted_append(&accepted, "beta", &secret).unwrap();
        let read = node_tokens_read(&accepted).unwrap();
        let names: Vec<String> = read.iter().map(|token| token.grant.to_string()).collect();
        assert_eq!(names, ["node n1 of cell alpha", "nodes of cell beta"]);
        assert!(
            node_tokens_read(&own).unwrap_err().message().contains("line 1"),
            "a token alone is no such file"
        );
        accepted_append(&accepted, "Alpha", &secret).unwrap();
        let refused = node_tokens_read(&accepted).unwrap_err();
        assert!(refused.message().contains("\"Alpha\""), "{refused:?}");
    }

    #[test]
    fn an_agent_takes_no_operators_token() {
        let directory = tempfile::tempdir().unwrap();
        let (operator, node) = (directory.path().join("operator"), directory.path().join("node"));
        Secret::create(&operator, OPERATOR_LABEL).unwrap();
        Secret::create(&node, NODE_LABEL).unwrap();
        assert_eq!(node_secret_read(&operator).unwrap_err().code(), Code::Refused);
        assert!(node_secret_read(&node).is_ok());
    }
}
