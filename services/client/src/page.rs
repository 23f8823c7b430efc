//! Goes over the pages of lists, row by row. A page is asked for when the rows of the one before are used up.

use borough_proto::v1::{Endpoint, Job, Node, PageRequest, Task};
use futures::{StreamExt as _, stream};

use crate::call::{Client, ItemStream};
use crate::cell::EndpointListFilter;
use crate::error::ClientError;
use crate::job::JobFilter;
use crate::node::NodeFilter;
use crate::task::TaskFilter;

/// One page of rows, and where the next one begins; empty on the last.
type RowPage<T> = (Vec<T>, String);

impl Client {
    /// The jobs of a cell, by their ids. `page` rows are asked for at once; 0: as many as a page may have.
    pub fn jobs(&self, filter: JobFilter, page: u32) -> ItemStream<Job> {
        let client = self.clone();
        rows(page, move |page| {
            let (client, filter) = (client.clone(), filter.clone());
            async move {
                let answer = client.job_list_page(&filter, page).await?;
                Ok((answer.jobs, answer.next_page))
            }
        })
    }

    /// Tasks, by the ids of their jobs and their indexes.
    pub fn tasks(&self, filter: TaskFilter, page: u32) -> ItemStream<Task> {
        let client = self.clone();
        rows(page, move |page| {
            let (client, filter) = (client.clone(), filter.clone());
            async move {
                let answer = client.task_list_page(&filter, page).await?;
                Ok((answer.tasks, answer.next_page))
            }
        })
    }

    /// Nodes, by their names.
    pub fn nodes(&self, filter: NodeFilter, page: u32) -> ItemStream<Node> {
        let client = self.clone();
        rows(page, move |page| {
            let (client, filter) = (client.clone(), filter.clone());
            async move {
                let answer = client.node_list_page(&filter, page).await?;
                Ok((answer.nodes, answer.next_page))
            }
        })
    }

    /// Endpoints, by the ids of their jobs and the indexes of their tasks.
    pub fn endpoints(&self, filter: EndpointListFilter, page: u32) -> ItemStream<Endpoint> {
        let client = self.clone();
        rows(page, move |page| {
            let (client, filter) = (client.clone(), filter.clone());
            async move {
                let answer = client.endpoint_list_page(&filter, page).await?;
                Ok((answer.endpoints, answer.next_page))
            }
        })
    }
}

/// The rows of all pages. An error is the last item.
fn rows<T, P, F>(limit: u32, ask: F) -> ItemStream<T>
where
    T: Send + 'static,
    P: Future<Output = Result<RowPage<T>, ClientError>> + Send + 'static,
    F: Fn(PageRequest) -> P + Send + 'static,
{
    let first = PageRequest { limit, page: String::new() };
    let pages = stream::try_unfold((Some(first), ask), |(page, ask)| async move {
        let Some(page) = page else { return Ok(None) };
        let limit = page.limit;
        let (rows, next) = ask(page).await?;
        let next = (!next.is_empty()).then_some(PageRequest { limit, page: next });
        Ok(Some((stream::iter(rows.into_iter().map(Ok)), (next, ask))))
    });
    futures::TryStreamExt::try_flatten(pages).boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn rows_come_from_every_page_and_no_page_is_asked_for_early() {
        let asked = Arc::new(AtomicU32::new(0));
        let own = Arc::clone(&asked);
        let mut all = rows(2, move |page| {
            own.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(page.limit, 2);
                Ok(match page.page.as_str() {
                    "" => (vec![1, 2], "b".to_owned()),
                    // A page may be empty although others follow.
                    "b" => (Vec::new(), "c".to_owned()),
                    "c" => (vec![3], String::new()),
                    other => panic!("{other}"),
                })
            }
        });
        assert_eq!(all.next().await.unwrap().unwrap(), 1);
        assert_eq!(all.next().await.unwrap().unwrap(), 2);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(all.next().await.unwrap().unwrap(), 3);
        assert!(all.next().await.is_none());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}
