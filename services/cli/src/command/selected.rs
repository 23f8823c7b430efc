//! What is said of a selector with a key that nothing has: such a list is empty, or `!=` chooses everything.

use std::collections::BTreeSet;

use borough_client::{Client, JobFilter, NodeFilter};
use borough_model::job::file::nearest;
use borough_model::node::NODE_NAME;
use borough_proto::v1::{LabelMatch, PageRequest};

use crate::exit::Failure;
use crate::output::Printer;

/// Rows that are looked at: one page. If there are more, nothing is said.
const ROWS_MAX: u32 = 1_000;

/// Says which keys are neither a label nor an attribute of any node.
pub(super) async fn nodes_selected(
    client: &Client,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    if selector.is_empty() {
        return Ok(());
    }
    let answer = client.node_list_page(&NodeFilter::default(), page()).await?;
    if !answer.next_page.is_empty() || answer.nodes.is_empty() {
        return Ok(());
    }
    let mut keys: BTreeSet<&str> = answer
        .nodes
        .iter()
        .flat_map(|node| node.labels.keys().chain(node.attributes.keys()))
        .map(String::as_str)
        .collect();
    keys.insert(NODE_NAME);
    // The packages of a node are not in its message.
    let selector: Vec<&LabelMatch> =
        selector.iter().filter(|wanted| !wanted.key.starts_with("package/")).collect();
    unknown_told("no node has the label or attribute", &selector, &keys, printer);
    Ok(())
}

/// Says which keys are no label of any job of the user, or of anybody.
pub(super) async fn jobs_selected(
    client: &Client,
    user: &str,
    selector: &[LabelMatch],
    printer: &Printer,
) -> Result<(), Failure> {
    if selector.is_empty() {
        return Ok(());
    }
    let filter = JobFilter { user: user.to_owned(), ended: true, ..JobFilter::default() };
    let answer = client.job_list_page(&filter, page()).await?;
    if !answer.next_page.is_empty() || answer.jobs.is_empty() {
        return Ok(());
    }
    let keys = answer.jobs.iter().flat_map(|job| job.labels.keys()).map(String::as_str).collect();
    let whose = if user.is_empty() { String::new() } else { format!(" of user {user}") };
    let selector: Vec<&LabelMatch> = selector.iter().collect();
    unknown_told(&format!("no job{whose} has the label"), &selector, &keys, printer);
    Ok(())
}

fn page() -> PageRequest {
    PageRequest { limit: ROWS_MAX, page: String::new() }
}

fn unknown_told(none_has: &str, selector: &[&LabelMatch], keys: &BTreeSet<&str>, printer: &Printer) {
    for text in unknown_texts(none_has, selector, keys) {
        printer.remark(&text);
    }
}

/// A text for each key that is not among `keys`, with the near one.
fn unknown_texts(none_has: &str, selector: &[&LabelMatch], keys: &BTreeSet<&str>) -> Vec<String> {
    let known: Vec<&str> = keys.iter().copied().collect();
    let unknown: BTreeSet<&str> = selector.iter().map(|wanted| wanted.key.as_str()).collect();
    let unknown = unknown.into_iter().filter(|key| !keys.contains(key));
    let meant =
        |key: &str| nearest(key, &known).map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    unknown.map(|key| format!("{none_has} {key:?}{}", meant(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nothing_has_is_told_once_with_the_near_one() {
        let keys: BTreeSet<&str> = ["tier", "arch"].into();
        let wanted = |key: &str| LabelMatch { key: key.to_owned(), value: "x".to_owned(), not: false };
        let (teir, arch, zzz) = (wanted("teir"), wanted("arch"), wanted("zzzzzz"));
        assert_eq!(
            unknown_texts("no node has", &[&teir, &arch, &zzz, &teir], &keys),
            ["no node has \"teir\", did you mean \"tier\"?", "no node has \"zzzzzz\""]
        );
        assert!(unknown_texts("no node has", &[&arch], &keys).is_empty());
    }
}
