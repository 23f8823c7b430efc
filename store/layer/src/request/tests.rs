//! Keyed requests against a store.

use borough_kv::FaultPlan;
use borough_model::{NodeId, RequestId, Resources};

use super::*;
use crate::error::StoreError;
use crate::keys::{self, NodeReservedKey, Prefix, RangeOptions, RequestExpiryKey, RequestKey};
use crate::testing::{LATE, TestCell, seeds};

/// Adds one to a number under a request id: a second addition would show.
async fn add_once(cell: &TestCell, request: u128, digest: &[u8]) -> Result<Vec<u8>, StoreError> {
    let (id, key) = (RequestId(request), NodeReservedKey { node: NodeId(1) });
    let adding = cell.run(async |tx| {
        if let RequestBegun::Done(result) = request_begin(&tx, &cell.space, id, digest).await? {
            return Ok(result);
        }
        let before = keys::read(&tx, &cell.space, &key).await?.unwrap_or_default();
        let after = Resources { cpu_millis: before.cpu_millis + 1, ..before };
        keys::write(&tx, &cell.space, &key, &after)?;
        let result = after.cpu_millis.to_string().into_bytes();
        let expires_ms = i64::try_from(request).unwrap();
        request_finish(&tx, &cell.space, id, digest, &result, expires_ms)?;
        Ok(result)
    });
    adding.await
}

#[tokio::test]
async fn a_repeated_request_has_one_effect_and_one_answer() {
    let cell = TestCell::new().await;
    assert_eq!(add_once(&cell, 10, b"x").await.unwrap(), b"1");
    assert_eq!(add_once(&cell, 10, b"x").await.unwrap(), b"1");
    assert_eq!(add_once(&cell, 11, b"x").await.unwrap(), b"2");
    assert_eq!(add_once(&cell, 10, b"x").await.unwrap(), b"1");
    let reused = add_once(&cell, 10, b"y").await;
    assert!(matches!(reused, Err(StoreError::RequestReused { request }) if request == RequestId(10)));
}

#[tokio::test]
async fn requests_are_forgotten_when_their_time_has_passed_and_not_before() {
    let cell = TestCell::new().await;
    for request in [10, 20, 30, 40] {
        add_once(&cell, request, b"x").await.unwrap();
    }
    let expire = async |now_ms, limit| {
        cell.run(async |tx| request_expire(&tx, &cell.space, 0, now_ms, limit).await).await.unwrap()
    };
    assert_eq!(expire(9, 10).await, 0);
    assert_eq!(expire(30, 2).await, 2);
    assert_eq!(expire(30, 2).await, 1);
    assert_eq!(expire(30, 2).await, 0);
    let left = cell.run(async |tx| {
        let rows =
            keys::range::<RequestKey>(&tx, &cell.space, &Prefix::all(), RangeOptions::snapshot()).await?;
        let index =
            keys::range::<RequestExpiryKey>(&tx, &cell.space, &Prefix::all(), RangeOptions::snapshot())
                .await?;
        Ok((rows.len(), index.len()))
    });
    assert_eq!(left.await.unwrap(), (1, 1));
    assert_eq!(add_once(&cell, 40, b"x").await.unwrap(), b"4", "still known");
    assert_eq!(add_once(&cell, 10, b"x").await.unwrap(), b"5", "forgotten, so done again");
}

#[tokio::test]
async fn requests_that_were_done_together_are_found_one_by_one_and_expire_together() {
    let cell = TestCell::new().await;
    let results: Vec<Vec<u8>> = (0..3_u8).map(|number| vec![number]).collect();
    let finish = async |entry: u128, requests: [u128; 3], expires_ms| {
        cell.run(async |tx| {
            let done = requests.iter().zip(&results).map(|(id, result)| RequestDone {
                request: RequestId(*id),
                digest: b"x",
                result: result.clone(),
            });
            requests_finish(&tx, &cell.space, RequestId(entry), done.collect(), expires_ms)
        })
        .await
        .unwrap();
    };
    finish(100, [1, 2, 3], 20).await;
    finish(101, [4, 5, 6], 20).await;
    let begun = async |id: u128| {
        cell.run(async |tx| request_begin(&tx, &cell.space, RequestId(id), b"x").await).await.unwrap()
    };
    assert_eq!(begun(2).await, RequestBegun::Done(vec![1]));
    assert_eq!(begun(6).await, RequestBegun::Done(vec![2]));
    assert_eq!(begun(100).await, RequestBegun::Fresh, "the entry's id is no request");
    let expire = async |now_ms, limit| {
        cell.run(async |tx| request_expire(&tx, &cell.space, 0, now_ms, limit).await).await.unwrap()
    };
    assert_eq!(expire(19, 10).await, 0);
    assert_eq!(expire(20, 2).await, 3, "a whole entry");
    assert_eq!(begun(2).await, RequestBegun::Fresh);
    assert_eq!(begun(4).await, RequestBegun::Done(vec![0]));
    assert_eq!(expire(20, 2).await, 3);
    assert_eq!(expire(20, 2).await, 0);
    let left = cell.run(async |tx| {
        let (all, options) = (Prefix::all(), RangeOptions::snapshot());
        Ok(keys::range::<RequestKey>(&tx, &cell.space, &all, options).await?.len())
    });
    assert_eq!(left.await.unwrap(), 0);
}

/// Whatever the store does, and however often the client repeats, each request adds one.
#[tokio::test(start_paused = true)]
async fn requests_have_one_effect_whatever_the_store_does() {
    for seed in seeds(20) {
        let cell = std::rc::Rc::new(TestCell::with_faults(seed, FaultPlan::heavy()).await);
        let clients = tokio::task::LocalSet::new();
        for client in 0..4_u128 {
            let cell = std::rc::Rc::clone(&cell);
            clients.spawn_local(async move {
                for request in client * 100..client * 100 + 10 {
                    let answer = persist(&cell, request).await;
                    assert_eq!(persist(&cell, request).await, answer, "seed {seed}: request {request}");
                }
            });
        }
        clients.await;
        tokio::time::sleep(LATE).await;
        let key = NodeReservedKey { node: NodeId(1) };
        let total = loop {
            if let Ok(total) = cell.run(async |tx| keys::read(&tx, &cell.space, &key).await).await {
                break total.unwrap().cpu_millis;
            }
        };
        assert_eq!(total, 40, "seed {seed}");
    }
}

/// A client that repeats until it has an answer.
async fn persist(cell: &TestCell, request: u128) -> Vec<u8> {
    loop {
        if let Ok(answer) = add_once(cell, request, b"x").await {
            return answer;
        }
    }
}
