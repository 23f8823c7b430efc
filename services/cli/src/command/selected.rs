//! Selectors by labels: what is said of a key that nothing has, since such a list is empty, or `!=` chooses everything.

use std::collections::BTreeSet;

use borough_client::{Client, ClientError, JobFilter, NodeFilter};
use borough_model::job::file::nearest;
use borough_model::node::{NODE_NAME, SELECTOR_CONDITIONS_MAX};
use borough_proto::v1::{LabelMatch, PageRequest};

use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Rows that are looked at: one page. If there are more, nothing is said.
const ROWS_MAX: u32 = 1_000;

/// Says which keys are neither a label nor an attribute of any node.
pub(super) async fn nodes_selected(
    client: &Client,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    nodes_unknown(client, selector).await?.iter().for_each(|text| printer.remark(text));
    Ok(())
}

/// Says which keys are no label of any job of the user, or of anybody.
pub(super) async fn jobs_selected(
    client: &Client,
    user: &str,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    jobs_unknown(client, user, selector).await?.iter().for_each(|text| printer.remark(text));
    Ok(())
}

/// Says which keys no job and no node has.
pub(super) async fn events_selected(
    client: &Client,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    if !is_looked_up(selector)? {
        return Ok(());
    }
    if let (Some(mut keys), Some(of_nodes)) = (job_keys(client, "").await?, node_keys(client).await?) {
        keys.extend(of_nodes);
        let texts = unknown_texts("no job and no node has the label", &without_packages(selector), &keys);
        texts.iter().for_each(|text| printer.remark(text));
    }
    Ok(())
}

/// A text for each key that is neither a label nor an attribute of any node.
pub(super) async fn nodes_unknown(client: &Client, selector: &[LabelMatch]) -> Result<Vec<String>, Failure> {
    if !is_looked_up(selector)? {
        return Ok(Vec::new());
    }
    let keys = node_keys(client).await?;
    let texts =
        |keys| unknown_texts("no node has the label or attribute", &without_packages(selector), &keys);
    Ok(keys.map(texts).unwrap_or_default())
}

/// A text for each key that is no label of any job of the user, or of anybody.
pub(super) async fn jobs_unknown(
    client: &Client,
    user: &str,
    selector: &[LabelMatch],
) -> Result<Vec<String>, Failure> {
    if !is_looked_up(selector)? {
        return Ok(Vec::new());
    }
    let whose = if user.is_empty() { String::new() } else { format!(" of user {user}") };
    let keys = job_keys(client, user).await?;
    let texts = |keys| unknown_texts(&format!("no job{whose} has the label"), selector, &keys);
    Ok(keys.map(texts).unwrap_or_default())
}

/// Refuses more conditions than a gateway takes. Without a condition nothing is looked up.
fn is_looked_up(selector: &[LabelMatch]) -> Result<bool, Failure> {
    let count = selector.len();
    if count <= SELECTOR_CONDITIONS_MAX {
        return Ok(count > 0);
    }
    let message = format!("--label: {count} conditions; accepted: at most {SELECTOR_CONDITIONS_MAX}");
    Err(Failure::new(Code::Usage, message))
}

/// The packages of a node are not in its message.
fn without_packages(selector: &[LabelMatch]) -> Vec<LabelMatch> {
    selector.iter().filter(|wanted| !wanted.key.starts_with("package/")).cloned().collect()
}

/// The keys of the labels and attributes of all nodes; `None` if they are many, or none.
async fn node_keys(client: &Client) -> Result<Option<BTreeSet<String>>, ClientError> {
    let answer = client.node_list_page(&NodeFilter::default(), page()).await?;
    if !answer.next_page.is_empty() || answer.nodes.is_empty() {
        return Ok(None);
    }
    let keys = answer.nodes.into_iter().flat_map(|node| {
        let (labels, attributes) = (node.labels.into_keys(), node.attributes.into_keys());
        labels.chain(attributes)
    });
    Ok(Some(keys.chain([NODE_NAME.to_owned()]).collect()))
}

/// The keys of the labels of all jobs of the user, or of anybody; `None` if the jobs are many, or none.
async fn job_keys(client: &Client, user: &str) -> Result<Option<BTreeSet<String>>, ClientError> {
    let filter = JobFilter { user: user.to_owned(), ended: true, ..JobFilter::default() };
    let answer = client.job_list_page(&filter, page()).await?;
    if !answer.next_page.is_empty() || answer.jobs.is_empty() {
        return Ok(None);
    }
    Ok(Some(answer.jobs.into_iter().flat_map(|job| job.labels.into_keys()).collect()))
}

fn page() -> PageRequest {
    PageRequest { limit: ROWS_MAX, page: String::new() }
}

/// A text for each key that is not among `keys`, with the near one.
fn unknown_texts(none_has: &str, selector: &[LabelMatch], keys: &BTreeSet<String>) -> Vec<String> {
    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
    let unknown: BTreeSet<&str> = selector.iter().map(|wanted| wanted.key.as_str()).collect();
    let unknown = unknown.into_iter().filter(|key| !keys.contains(*key));
    let meant =
        |key: &str| nearest(key, &known).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    unknown.map(|key| format!("{none_has} {key:?}{}", meant(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nothing_has_is_told_once_with_the_near_one() {
        let keys: BTreeSet<String> = ["tier", "arch"].map(str::to_owned).into();
        let wanted = |key: &str| LabelMatch { key: key.to_owned(), value: "x".to_owned(), not: false };
        let (teir, arch, zzz) = (wanted("teir"), wanted("arch"), wanted("zzzzzz"));
        assert_eq!(
            unknown_texts("no node has", &[teir.clone(), arch.clone(), zzz, teir], &keys),
            ["no node has \"teir\", did you mean \"tier\"?", "no node has \"zzzzzz\""]
        );
        assert!(unknown_texts("no node has", &[arch], &keys).is_empty());
    }
}
