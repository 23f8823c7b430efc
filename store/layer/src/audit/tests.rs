//! The chain over a journal: every call once, in order, whatever steps and trims come between.

use borough_kv::Versionstamp;
use borough_model::audit::{AuditHash, AuditedCall, seal_check};
use borough_model::{Delta, NodeId};

use super::*;
use crate::journal::{Change, JournalMeter, TrimGoal, journal_cutoff, journal_trim};
use crate::testing::{TestCell, change, store_epoch_begin};

fn call(object: &str) -> AuditedCall {
    AuditedCall {
        method: "NodeService/RemoveNode".to_owned(),
        by: "operator".to_owned(),
        user: Some("ann".to_owned()),
        from: None,
        request: None,
        object: Some(object.to_owned()),
        revisions: None,
        refused: None,
        at_ms: None,
    }
}

impl TestCell {
    /// An entry with a call, or one of the cell itself.
    async fn entry(&self, request: u128, object: Option<&str>, at_ms: i64) {
        let made = self.change(Change { at_ms, ..change(request, "test") }, async |_, changes| {
            changes.push(Delta::NodeRemoved { node: NodeId(1), name: None });
            if let Some(object) = object {
                changes.call_push(call(object));
            }
            Ok(())
        });
        made.await.unwrap();
    }

    async fn seal(&self, seen: Option<SealPosition>) -> AuditSealed {
        self.run(async |tx| audit_seal(&tx, &self.space, seen).await).await.unwrap()
    }

    async fn chunks(&self) -> Vec<AuditSeal> {
        self.run(async |tx| audit_chunks_after(&tx, &self.space, 0, 0).await).await.unwrap()
    }

    /// The objects of the sealed calls. The chain holds.
    async fn objects(&self) -> Vec<String> {
        let (chunks, mut before) = (self.chunks().await, None);
        for chunk in &chunks {
            seal_check(chunk, before).unwrap();
            before = Some((chunk.number, chunk.hash));
        }
        let head = self.run(async |tx| audit_head(&tx, &self.space).await).await.unwrap().unwrap();
        assert_eq!(before.unwrap_or_default(), (head.number, AuditHash(head.hash)));
        assert_eq!(head.bytes, chunks.iter().map(|chunk| bytes_of(&chunk.body)).sum::<u64>());
        chunks.iter().flat_map(AuditSeal::records).filter_map(|record| record.call.object).collect()
    }

    /// Trims what is older than this version allows.
    async fn trim(&self) -> bool {
        let mut meter = JournalMeter::default();
        let look = self.run(async |tx| meter.look(&tx, &self.space).await).await.unwrap();
        meter.note(look);
        let goal = TrimGoal { retention_ms: 0, now_ms: i64::MAX, excess: 0 };
        let cut = self.run(async |tx| journal_cutoff(&tx, &self.space, &goal, &meter).await).await.unwrap();
        let Some(cut) = cut else { return false };
        let trimmed = self.run(async |tx| journal_trim(&tx, &self.space, cut.keep_from, 1).await).await;
        trimmed.unwrap().is_some()
    }
}

#[tokio::test]
async fn every_call_is_sealed_once_and_before_it_is_trimmed() {
    let cell = TestCell::new().await;
    cell.seal(None).await;
    let mut expected = Vec::new();
    let mut seen = None;
    for number in 0..40_u32 {
        let object = format!("node/n{number}");
        let is_call = number % 3 != 0;
        cell.entry(u128::from(number) + 1, is_call.then_some(object.as_str()), 5).await;
        expected.extend(is_call.then_some(object));
        cell.clock.advance(std::time::Duration::from_secs(1));
        if number % 7 == 0 {
            // A trim comes before the seal.
            cell.trim().await;
            let behind = cell.run(async |tx| audit_is_behind(&tx, &cell.space).await).await.unwrap();
            assert!(behind || !is_call, "{number}");
            seen = Some(cell.seal(seen).await.next);
            assert_eq!(cell.objects().await, expected, "{number}");
            assert!(!cell.run(async |tx| audit_is_behind(&tx, &cell.space).await).await.unwrap());
        }
    }
    // Another process, which has seen nothing.
    cell.seal(None).await;
    assert_eq!(cell.objects().await, expected);
    assert_eq!(cell.seal(None).await.calls, 0);
    assert!(cell.trim().await, "what is sealed may go");
}

/// Refusals are written together, some seconds after they were made.
#[tokio::test]
async fn a_call_has_the_time_at_which_it_was_made() {
    let cell = TestCell::new().await;
    let made = cell.change(Change { at_ms: 9_000, ..change(1, "audit") }, async |_, changes| {
        changes.call_push(AuditedCall { at_ms: Some(4_000), ..call("job/ann/web") });
        changes.call_push(call("node/a"));
        Ok(())
    });
    made.await.unwrap();
    cell.seal(None).await;
    let chunks = cell.chunks().await;
    let times: Vec<i64> = chunks.iter().flat_map(AuditSeal::records).map(|record| record.at_ms).collect();
    assert_eq!(times, [4_000, 9_000]);
}

/// Many entries without a call: nobody reads them again, and they may be trimmed.
#[tokio::test]
async fn the_position_moves_without_calls() {
    let cell = TestCell::new().await;
    let mut seen = Some(cell.seal(None).await.next);
    for number in 0..MOVE_ENTRIES {
        cell.entry(number as u128 + 1, None, 5).await;
        // Few at a time, as a process sees them.
        if number % 100 == 7 {
            seen = Some(cell.seal(seen).await.next);
        }
    }
    let before = cell.run(async |tx| audit_head(&tx, &cell.space).await).await.unwrap().unwrap();
    let next = cell.seal(seen).await.next.at;
    let head = cell.run(async |tx| audit_head(&tx, &cell.space).await).await.unwrap().unwrap();
    assert!(head.position == next && next > before.position && head.number == 0, "{head:?}");
}

#[tokio::test]
async fn a_chain_goes_on_in_another_epoch_of_the_store() {
    let cell = TestCell::new().await;
    cell.entry(1, Some("node/a"), 5).await;
    cell.seal(None).await;
    cell.run(async |tx| store_epoch_begin(&tx, &cell.space, 1).await).await.unwrap();
    cell.entry(2, Some("node/b"), 6).await;
    let seen = SealPosition { at: Cursor { store_epoch: 1, stamp: Versionstamp::MAX }, passed: 0 };
    cell.seal(Some(seen)).await;
    assert_eq!(cell.objects().await, ["node/a", "node/b"]);
}

#[tokio::test]
async fn old_chunks_go_by_time_and_by_bytes_and_the_last_one_stays() {
    let cell = TestCell::new().await;
    for number in 1..=6_u32 {
        cell.entry(u128::from(number), Some(&format!("node/n{number}")), i64::from(number) * 1_000).await;
        cell.seal(None).await;
    }
    let trim = async |before_ms, bytes_max| {
        cell.run(async |tx| audit_trim(&tx, &cell.space, before_ms, bytes_max).await).await.unwrap()
    };
    assert_eq!(trim(0, u64::MAX).await, 0);
    assert_eq!(trim(3_000, u64::MAX).await, 2);
    assert_eq!(cell.objects().await, ["node/n3", "node/n4", "node/n5", "node/n6"]);
    let bytes = bytes_of(&cell.chunks().await[0].body);
    assert_eq!(trim(0, bytes * 2).await, 2);
    assert_eq!(trim(i64::MAX, 0).await, 1);
    assert_eq!(cell.objects().await, ["node/n6"]);
    assert_eq!(trim(i64::MAX, 0).await, 0);
}

#[tokio::test]
async fn revisions_come_from_the_deltas() {
    let cell = TestCell::new().await;
    let made = cell.change(change(1, "test"), async |_, changes| {
        changes.push(Delta::CellSettings { revision: 4 });
        changes.call_push(call("cell/alpha"));
        changes.call_push(call("quota/ann/batch"));
        changes.revised(7, 8);
        Ok(())
    });
    made.await.unwrap();
    // A call that changes nothing is recorded too.
    let nothing = cell.change(change(2, "test"), async |_, changes| {
        changes.call_push(call("node/gone"));
        Ok(())
    });
    nothing.await.unwrap();
    cell.seal(None).await;
    let chunks = cell.chunks().await;
    let revisions: Vec<_> = chunks
        .iter()
        .flat_map(AuditSeal::records)
        .map(|record| record.call.revisions.map(|revisions| (revisions.before, revisions.after)))
        .collect();
    assert_eq!(revisions, [Some((3, 4)), Some((7, 8)), None]);
}
