//! The journal has loads only while somebody follows them, and then all of them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::cell::{LoadJournal, cell_meta_read};
use crate::check::{CheckMode, cell_check};
use crate::node::{loads_begin, loads_begun, loads_end, loads_journal, node_loads_read};

async fn end(cell: &TestCell) {
    cell.change(change(20, "loads_end"), async |tx, changes| loads_end(tx, changes).await).await.unwrap();
}

async fn begin(cell: &TestCell) -> bool {
    cell.change(change(21, "loads_begin"), async |tx, changes| loads_begin(tx, changes).await).await.unwrap()
}

async fn begun(cell: &TestCell) -> bool {
    cell.change(change(22, "loads_begun"), async |tx, changes| loads_begun(tx, changes).await).await.unwrap()
}

/// Journals the loads of all nodes, in pages of two. Returns the number of pages.
async fn journal_all(cell: &TestCell) -> usize {
    let (mut after, mut pages) = (None, 0);
    loop {
        let page = cell
            .change(change(23, "node_loads"), async |tx, changes| loads_journal(tx, changes, after, 2).await);
        after = page.await.unwrap();
        pages += 1;
        if after.is_none() {
            return pages;
        }
    }
}

/// The last load of each node that the journal has.
async fn journalled(cell: &TestCell) -> BTreeMap<NodeId, Option<LoadMeasured>> {
    let page =
        cell.run(async |tx| journal_tail(&tx, &cell.space, Cursor::start(1), 1_000).await).await.unwrap();
    let deltas = page.entries.into_iter().flat_map(|(_, entry)| entry.deltas);
    let loads = deltas.filter_map(|delta| match delta {
        Delta::NodeLoad { node, load } => Some((node, load.measured)),
        _ => None,
    });
    loads.collect()
}

async fn stored(cell: &TestCell, nodes: &[NodeId]) -> BTreeMap<NodeId, Option<LoadMeasured>> {
    let loads = cell.run(async |tx| node_loads_read(&tx, &cell.space, nodes).await).await.unwrap();
    loads.into_iter().map(|(node, load)| (node, load.measured)).collect()
}

async fn is_sound(cell: &TestCell) {
    let broken = cell.run(async |tx| cell_check(&tx, &cell.space, CheckMode::Always).await).await.unwrap();
    assert_eq!(broken, []);
}

#[tokio::test]
async fn a_load_that_nobody_follows_is_in_no_entry_and_comes_when_somebody_does() {
    let cell = TestCell::new().await;
    let mut nodes = Vec::new();
    for id in 1..=5 {
        nodes.push(register(&cell, &format!("n{id}"), &facts(), id).await.row.id);
    }
    assert_eq!(loads_set(&cell, &[(nodes[0], SESSION, Some(load(9)))]).await, 1);
    assert_eq!(journalled(&cell).await.len(), 1, "a cell that decided nothing has all of them");
    end(&cell).await;
    let head = cell.run(async |tx| crate::journal::journal_head(&tx, &cell.space).await).await.unwrap();
    for round in 1..=20 {
        let reports: Vec<_> =
            nodes.iter().map(|node| (*node, SESSION, Some(load(round * 150 + node.0)))).collect();
        assert_eq!(loads_set(&cell, &reports).await, 5);
    }
    let after = cell.run(async |tx| crate::journal::journal_head(&tx, &cell.space).await).await.unwrap();
    assert_eq!(after, head, "a hundred loads, and no entry");
    is_sound(&cell).await;
    assert!(begin(&cell).await);
    assert_eq!(loads_set(&cell, &[(nodes[4], SESSION, Some(load(7)))]).await, 1);
    assert_eq!(journalled(&cell).await[&nodes[4]], Some(load(7)), "from the beginning on it has each change");
    assert_eq!(journal_all(&cell).await, 3);
    assert!(begun(&cell).await);
    assert_eq!(journalled(&cell).await, stored(&cell, &nodes).await);
    is_sound(&cell).await;
    assert!(!begin(&cell).await, "nothing is left to do");
    let entries = journalled(&cell).await;
    assert_eq!(journal_all(&cell).await, 3);
    assert_eq!(journalled(&cell).await, entries);
    let meta = cell.run(async |tx| cell_meta_read(&tx, &cell.space).await).await.unwrap();
    assert_eq!((meta.loads, meta.revision), (Some(LoadJournal::On), 1), "no worker lists the cell again");
}

/// A report that was under way when somebody began is in the journal: its first try, that had found nobody, fails.
#[tokio::test]
async fn no_report_slips_past_who_begins_to_follow() {
    let cell = TestCell::new().await;
    let node = register(&cell, "n1", &facts(), 7).await.row.id;
    end(&cell).await;
    let attempts = AtomicU32::new(0);
    let reporting = cell.change(change(4, "node_loads"), async |tx, changes| {
        let writer = node_writer(tx, &cell.space, fence(node)).await?;
        let reports: Vec<_> = writer.iter().map(|writer| (writer, Some(load(900)))).collect();
        let written = node_loads_set(changes, &reports).await?;
        if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(begin(&cell).await);
            journal_all(&cell).await;
            assert!(begun(&cell).await);
        }
        Ok(written)
    });
    assert_eq!(reporting.await.unwrap(), 1);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert_eq!(journalled(&cell).await[&node], Some(load(900)));
}

/// A controller ends while a gateway begins: the gateway finds out, and does it again.
#[tokio::test]
async fn who_begins_finds_out_that_somebody_ended_it() {
    let cell = TestCell::new().await;
    end(&cell).await;
    assert!(begin(&cell).await);
    end(&cell).await;
    assert!(!begun(&cell).await);
    assert!(begin(&cell).await && begin(&cell).await, "who began may have died");
    assert!(begun(&cell).await && !begin(&cell).await);
}
