//! Pages of lists: at most a thousand rows and a bounded number of bytes. A page continues after the key of the last
//! row, so that it stays right while rows are added and removed.
//!
//! The token of a page is this key with a check, which also covers the cell and the list. A gateway refuses any other
//! text: it would begin somewhere, and rows would be missing without a word.

use borough_model::{JobId, Name, TaskId};
use borough_proto::bounds::PAGE_BYTES_MAX;
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use prost::Message;
use tonic::Status;
use xxhash_rust::xxh3::xxh3_64;

use crate::status::status_from_field;

/// Most rows in a page.
pub const PAGE_ROWS_MAX: usize = 1_000;

/// The requested page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    pub limit: usize,
    /// The key of the last row of the previous page.
    pub after: Option<String>,
}

/// A list of a cell that is read in pages. Every gateway of the cell reads its tokens.
pub struct PagedList {
    /// The cell and the list, such as `alpha jobs`. No part has a space of its own.
    name: String,
}

impl PagedList {
    /// The list `list` of a cell. Two lists with rows of different keys have different names.
    pub fn new(cell: &Name, list: &str) -> Self {
        Self { name: format!("{cell} {list}") }
    }

    /// Reads the page that a request asks for.
    ///
    /// # Errors
    /// The token is of another list or of another cell, or no gateway made it.
    pub fn request(&self, request: Option<&v1::PageRequest>) -> Result<ListPage, Status> {
        let limit = request.map_or(0, |request| request.limit);
        let limit = match usize::try_from(limit) {
            Ok(0) | Err(_) => PAGE_ROWS_MAX,
            Ok(limit) => limit.min(PAGE_ROWS_MAX),
        };
        let token = request.map(|request| request.page.as_str()).filter(|token| !token.is_empty());
        let after = token.map(|token| self.key_of(token).ok_or_else(|| refused(token))).transpose()?;
        Ok(ListPage { limit, after })
    }

    /// The token of the page behind the row with this key. Without a key there is no page.
    pub fn token(&self, key: &str) -> String {
        if key.is_empty() { String::new() } else { format!("{key}.{:016x}", self.check(key)) }
    }

    fn key_of(&self, token: &str) -> Option<String> {
        let (key, _) = token.rsplit_once('.')?;
        (self.token(key) == token).then(|| key.to_owned())
    }

    fn check(&self, key: &str) -> u64 {
        xxh3_64(format!("{} {key}", self.name).as_bytes())
    }
}

fn refused(token: &str) -> Status {
    let accepted = "`next_page` of an answer to the same list of this cell, or nothing for the first page";
    status_from_field(&FieldRefused::new("page.page", token, accepted))
}

/// The key of a task in lists. Keys have the order of ids.
pub fn task_key(task: TaskId) -> String {
    format!("{}/{:010}", task.job, task.index)
}

/// The task of a key; `None` for a text that is no key.
pub fn task_of_key(key: &str) -> Option<TaskId> {
    let (job, index) = key.split_once('/')?;
    let job = u64::from_str_radix(job.strip_prefix('j')?, 16).ok()?;
    Some(TaskId { job: JobId(job), index: index.parse().ok()? })
}

/// Selects the rows of `page` from `rows`, which are sorted by key. Also returns the key behind which the next page
/// begins (empty: none).
pub fn page_of<T>(rows: Vec<T>, page: &ListPage, key: impl Fn(&T) -> String) -> (Vec<T>, String) {
    let begin = match &page.after {
        Some(after) => rows.partition_point(|row| key(row) <= *after),
        None => 0,
    };
    let left = rows.len().saturating_sub(begin);
    let taken: Vec<T> = rows.into_iter().skip(begin).take(page.limit).collect();
    let next = taken.last().filter(|_| left > taken.len()).map(key).unwrap_or_default();
    (taken, next)
}

/// Cuts a page to [`PAGE_BYTES_MAX`], but keeps at least one row. Also returns the key behind which the next page
/// begins: `next` if nothing was cut.
pub fn page_cut<T: Message>(mut rows: Vec<T>, next: String, key: impl Fn(&T) -> String) -> (Vec<T>, String) {
    let mut bytes = 0_usize;
    let fits = |row: &&T| {
        bytes = bytes.saturating_add(row.encoded_len());
        bytes <= PAGE_BYTES_MAX
    };
    let fit = rows.iter().take_while(fits).count().max(1);
    if fit >= rows.len() {
        return (rows, next);
    }
    rows.truncate(fit);
    let next = rows.last().map(key).unwrap_or_default();
    (rows, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_at_its_bytes_and_goes_on_behind_them() {
        let node = |number: usize, bytes| v1::Node {
            name: format!("n{number}"),
            host: "x".repeat(bytes),
            ..v1::Node::default()
        };
        let of = |bytes| (0..5).map(|number| node(number, bytes)).collect::<Vec<_>>();
        let key = |node: &v1::Node| node.name.clone();
        let (rows, next) = page_cut(of(PAGE_BYTES_MAX / 3), "n4".to_owned(), key);
        assert_eq!((rows.len(), next.as_str()), (2, "n1"));
        let (rows, next) = page_cut(of(2 * PAGE_BYTES_MAX), String::new(), key);
        assert_eq!((rows.len(), next.as_str()), (1, "n0"), "one longer row is a page of its own");
        let (rows, next) = page_cut(of(10), "n4".to_owned(), key);
        assert_eq!((rows.len(), next.as_str()), (5, "n4"));
    }

    #[test]
    fn pages_together_are_the_list() {
        let rows: Vec<String> = (0..25).map(|number| format!("{number:02}")).collect();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = ListPage { limit: 10, after };
            let (taken, next) = page_of(rows.clone(), &page, Clone::clone);
            seen.extend(taken);
            if next.is_empty() {
                break;
            }
            after = Some(next);
        }
        assert_eq!(seen, rows);
    }

    #[test]
    fn keys_of_tasks_have_the_order_of_ids() {
        let ids = [(1, 0), (1, 9), (1, 10), (2, 0), (0x10, 3), (u64::MAX, u32::MAX)];
        let ids = ids.map(|(job, index)| TaskId { job: JobId(job), index });
        assert!(ids.is_sorted() && ids.map(task_key).is_sorted());
        assert_eq!(ids.map(|id| task_of_key(&task_key(id))), ids.map(Some));
        for bad in ["", "/", "j1", "x1/2", "j1/x", "j1/-1", "j1/4294967296", "jfffffffffffffffff/1"] {
            assert_eq!(task_of_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_page_goes_on_behind_a_row_that_has_gone() {
        let page = ListPage { limit: 2, after: Some("b".to_owned()) };
        let (taken, next) = page_of(vec!["a", "c", "d", "e"], &page, |row| (*row).to_owned());
        assert_eq!((taken, next), (vec!["c", "d"], "d".to_owned()));
    }

    #[test]
    fn limits_are_bounded() {
        let list = PagedList::new(&Name::new("alpha").unwrap(), "jobs");
        let of = |limit| list.request(Some(&v1::PageRequest { limit, page: String::new() })).unwrap().limit;
        assert_eq!([of(0), of(7), of(u32::MAX)], [PAGE_ROWS_MAX, 7, PAGE_ROWS_MAX]);
    }

    #[test]
    fn a_token_is_of_one_list_of_one_cell() {
        let list = |cell: &str, name: &str| PagedList::new(&Name::new(cell).unwrap(), name);
        let lists = [("alpha", "jobs"), ("beta", "jobs"), ("alpha", "tasks"), ("alpha", "tasks of j01")];
        let ask = |list: &PagedList, page: &str| {
            list.request(Some(&v1::PageRequest { limit: 0, page: page.to_owned() }))
        };
        let token = list("alpha", "jobs").token("ann/web.1/j01");
        for (cell, name) in lists {
            let asked = ask(&list(cell, name), &token);
            assert_eq!(asked.is_ok(), (cell, name) == ("alpha", "jobs"), "{cell} {name}");
        }
        let jobs = list("alpha", "jobs");
        assert_eq!(ask(&jobs, &token).unwrap().after.as_deref(), Some("ann/web.1/j01"));
        assert_eq!(ask(&jobs, "").unwrap().after, None);
        assert_eq!(jobs.token(""), "");
        let end = token.len() - 1;
        let last = if token.ends_with('0') { "1" } else { "0" };
        let damaged = format!("{}{last}", &token[..end]);
        for bad in ["zzz", ".", "ann/web/j01", &token[1..], &token[..end], &damaged, &format!("{token} ")] {
            let status = ask(&jobs, bad).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{bad}");
            assert!(status.message().starts_with(&format!("page.page: {bad:?}; accepted: ")), "{status:?}");
        }
    }
}
