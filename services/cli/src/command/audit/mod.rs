//! `audit list`, `export` and `verify`.

mod file;

use std::path::Path;

use borough_client::Client;
use borough_gateway::cell::{METHODS, MethodRule};
use borough_kv::env::SystemClock;
use borough_model::audit::{AuditHash, AuditSeal};
use borough_model::job::file::nearest;
use borough_proto::v1::{AuditChunk, AuditFilter, AuditOutcome, ListAuditChunksResponse};

use self::file::{AuditFile, CheckedChain};
use super::list::list_page;
use super::watch::{WatchedView, list_or_watch};
use crate::args::{AuditFilterArguments, AuditOutcomeWord, AuditVerb, Global, value_shown};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{AuditChainView, AuditedCallView, Printer};

const BEHIND: &str = "calls of the last moments are not sealed yet, and are left out: no controller leads the cell, or it is \
                      behind; repeat the command in some seconds";

const METHODS_HINT: &str = "borough audit list shows the method of each call";

pub(super) async fn run(global: &Global, verb: AuditVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        AuditVerb::List { filter, list } => {
            if let Some(unknown) = filter.method.as_deref().and_then(method_unknown) {
                return Err(Failure::new(Code::Usage, unknown).with_hint(METHODS_HINT));
            }
            let client = connect::cell_client(global).await?;
            let filter = filter_of(&filter, SystemClock::shared().wall_ms());
            let fetch = async |page| {
                let answer = client.audit_list_page(filter.clone(), page).await?;
                if answer.behind {
                    printer.remark(BEHIND);
                }
                Ok(list_page::<_, AuditedCallView>(answer.calls, answer.next_page))
            };
            let none = format!("no calls like this in cell {}", client.cell());
            list_or_watch(WatchedView::Unwatched, &list, none, printer, fetch).await
        }
        AuditVerb::Export { to } => {
            let client = connect::cell_client(global).await?;
            let chain = export(&client, &to, printer).await?;
            printer.list(&[view_of(&chain)], "")?;
            Ok(Code::Done)
        }
        AuditVerb::Verify { file, hash } => {
            let hash = hash.as_deref().map(hash_of).transpose()?;
            let chain = match file {
                Some(file) => AuditFile::read(&file, hash)?.chain,
                None => cell_chain(&connect::cell_client(global).await?, hash, printer).await?,
            };
            if let Some(hash) = hash
                && !chain.has_looked_for()
            {
                let text = format!("the chain does not have the hash {hash}");
                let hint =
                    "it is of another cell, or older than what is kept, or somebody has made another chain";
                return Err(Failure::new(Code::Refused, text).with_hint(hint));
            }
            printer.list(&[view_of(&chain)], "")?;
            Ok(Code::Done)
        }
    }
}

/// What the audit may have beside the methods of the API: those of agents, and what HTTP refuses. `other` stands for
/// refusals without room of their own.
const OTHER_METHODS: [&str; 7] = [
    "Session",
    "JoinNode",
    "GET /metrics",
    "GET /v1/cells/CELL/names",
    "GET /v1/cells/CELL/names/watch",
    "GET other",
    "other",
];

/// The methods that the audit may have, without their services.
pub(crate) fn audited_methods() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(MethodRule::name).chain(OTHER_METHODS)
}

/// What is said of a method that this program does not know: an empty list of its calls would look like an answer.
fn method_unknown(method: &str) -> Option<String> {
    let known: Vec<&str> = audited_methods().collect();
    let own = method.strip_prefix("AgentService/").unwrap_or(method);
    let is_known = known.contains(&own) || METHODS.iter().any(|rule| rule.method == method);
    let meant = nearest(method, &known).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    (!is_known)
        .then(|| format!("--method: {}: no method of the API has this name{meant}", value_shown(method)))
}

fn filter_of(arguments: &AuditFilterArguments, now_ms: i64) -> AuditFilter {
    let AuditFilterArguments { by, method, object, outcome, since } = arguments.clone();
    let since_ms =
        since.map(|since| now_ms.saturating_sub(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)));
    let outcome = match outcome {
        None => AuditOutcome::Unspecified,
        Some(AuditOutcomeWord::Done) => AuditOutcome::Done,
        Some(AuditOutcomeWord::Refused) => AuditOutcome::Refused,
    };
    AuditFilter {
        by: by.unwrap_or_default(),
        method: method.unwrap_or_default(),
        object: object.unwrap_or_default(),
        outcome: outcome.into(),
        since_ms: since_ms.unwrap_or_default(),
        until_ms: 0,
    }
}

fn hash_of(text: &str) -> Result<AuditHash, Failure> {
    AuditHash::from_text(text).ok_or_else(|| {
        let text = format!("--hash: {text:?}; accepted: 64 hexadecimal digits, as the command prints them");
        Failure::new(Code::Usage, text).with_hint("borough audit verify --help")
    })
}

fn view_of(chain: &CheckedChain) -> AuditChainView {
    AuditChainView {
        first: chain.first,
        last: chain.last.map(|(number, _)| number),
        calls: chain.calls,
        hash: chain.last.map(|(_, hash)| hash.to_string()),
    }
}

/// Appends to a file what has come since its last chunk. Every chunk is checked, those that are there already too.
async fn export(client: &Client, to: &Path, printer: &Printer) -> Result<CheckedChain, Failure> {
    let mut file = AuditFile::open(to)?;
    let last = file.chain.last.map_or(0, |(number, _)| number);
    chunks_read(client, printer, last, |chunk| file.append(chunk)).await?;
    file.end()
}

/// Reads and checks the audit of a cell.
async fn cell_chain(
    client: &Client,
    hash: Option<AuditHash>,
    printer: &Printer,
) -> Result<CheckedChain, Failure> {
    let mut chain = CheckedChain::new(hash);
    chunks_read(client, printer, 0, |chunk| chain.push(chunk)).await?;
    Ok(chain)
}

/// Passes each chunk of a cell after the number `after` on, the oldest first. Says it if newer calls are not sealed.
async fn chunks_read(
    client: &Client,
    printer: &Printer,
    mut after: u64,
    mut take: impl FnMut(&AuditSeal) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let ListAuditChunksResponse { chunks, behind } = client.audit_chunks(after).await?;
        if behind {
            printer.remark(BEHIND);
        }
        let Some(last) = chunks.last() else { return Ok(()) };
        after = last.number;
        for chunk in chunks {
            take(&seal_of(chunk)?)?;
        }
    }
}

fn seal_of(chunk: AuditChunk) -> Result<AuditSeal, Failure> {
    let AuditChunk { number, previous, hash, text } = chunk;
    let hashes = AuditHash::from_slice(&previous).zip(AuditHash::from_slice(&hash));
    let (previous, hash) = hashes.ok_or_else(|| {
        Failure::new(Code::Failed, format!("chunk {number} has no whole hash"))
            .with_hint("the gateway is of another version, or is none")
    })?;
    Ok(AuditSeal { number, previous, hash, body: text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_nothing_has_is_said_with_the_near_one() {
        for known in ["StopJob", "JobService/StopJob", "Exec", "other"] {
            assert_eq!(method_unknown(known), None, "{known}");
        }
        let unknown = method_unknown("StopJbo").unwrap();
        assert_eq!(
            unknown,
            "--method: \"StopJbo\": no method of the API has this name, did you mean \"StopJob\"?"
        );
        assert!(method_unknown("stopjob").unwrap().contains("did you mean \"StopJob\"?"));
        assert!(method_unknown("zzz").unwrap().ends_with("has this name"));
    }
}
