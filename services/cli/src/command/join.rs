//! `node join-token`: how nodes join a cell.

use std::path::Path;

use borough_client::{Client, JoinTokenRequest};
use borough_kv::secret::Secret;
use borough_model::Name;
use borough_proto::bounds::JOIN_TOKEN_LABEL;

use super::confirm::{Intent, confirm};
use super::list::list_page;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{Global, JoinTokenIssue, JoinTokenVerb, word_shown};
use crate::exit::{Code, Failure};
use crate::output::{NodeJoinView, Printer};
use crate::role::files_private;
use crate::role::token::secret_failure;

/// Runs a verb on join tokens.
pub(super) async fn run(
    global: &Global,
    client: &Client,
    verb: JoinTokenVerb,
    printer: &Printer,
) -> Result<Code, Failure> {
    match verb {
        JoinTokenVerb::Issue(arguments) => issue(global, client, &arguments, printer).await,
        JoinTokenVerb::List { list } => {
            let fetch = async |page| {
                let answer = client.join_token_list_page(page).await?;
                Ok(list_page::<_, NodeJoinView>(answer.joins, answer.next_page))
            };
            let none = format!(
                "no node of cell {} has a join token or an identity\nhint: borough node join-token issue --help",
                client.cell()
            );
            list_or_watch(WatchedView::Unwatched, &list, none, printer, fetch).await
        }
        JoinTokenVerb::Revoke { node, identity: false } => {
            let revoked = client.join_token_revoke(node.as_str()).await;
            revoked.map_err(|error| Failure::from(error).with_list_hint("borough node join-token list"))?;
            printer.remark(&format!("the join token of node {node} counts no more"));
            Ok(Code::Done)
        }
        JoinTokenVerb::Revoke { node, identity: true } => {
            identity_revoke(global, client, &node, printer).await
        }
    }
}

/// Makes the token here, so that nobody else ever has it but its agent: the cell gets the digest.
async fn issue(
    global: &Global,
    client: &Client,
    arguments: &JoinTokenIssue,
    printer: &Printer,
) -> Result<Code, Failure> {
    let JoinTokenIssue { node, to, expires, identity_lasts } = arguments;
    files_private();
    let secret = Secret::create(to, JOIN_TOKEN_LABEL).map_err(secret_failure)?;
    let request = JoinTokenRequest {
        node: node.to_string(),
        digest: secret.digest(),
        lasts: *expires,
        identity_lasts: *identity_lasts,
    };
    if let Err(error) = client.join_token_create(request).await {
        // Nobody accepts this token. If it stayed, someone would take it for a valid one.
        std::fs::remove_file(to).ok();
        return Err(error.into());
    }
    printer.remark(&format!(
        "wrote {}, by which the agent of node {node} joins cell {} once, within {}\nhint: {}",
        to.display(),
        client.cell(),
        humantime::format_duration(*expires),
        agent_command(client, node, to, global.tls.tls_ca.as_deref())
    ));
    Ok(Code::Done)
}

/// What starts the agent of a node that joins.
fn agent_command(client: &Client, node: &Name, token: &Path, authority: Option<&Path>) -> String {
    let word = |path: &Path| word_shown(&path.to_string_lossy());
    let authority = authority.map(|file| format!(" --tls-ca {}", word(file))).unwrap_or_default();
    format!(
        "borough agent --cell {} --node {node} --gateway {} --state-dir /var/lib/borough --join-token-file {}{authority}",
        client.cell(),
        client.gateways().join(","),
        word(token)
    )
}

async fn identity_revoke(
    global: &Global,
    client: &Client,
    node: &Name,
    printer: &Printer,
) -> Result<Code, Failure> {
    let what = format!("end the identity of node {node}");
    confirm(global, client, Intent::forget(&what), printer)?;
    let revoked = client.node_identity_revoke(node.as_str()).await;
    revoked.map_err(|error| Failure::from(error).with_list_hint("borough node join-token list"))?;
    printer.remark(&format!("the identity of node {node} counts no more; its session ends within a minute"));
    Ok(Code::Done)
}
