//! The metadata version: one key beyond the user's. Everybody may read it, and the only legal write sets it to the
//! commit's stamp.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;

use super::limits::expect;
use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::limits::{METADATA_VERSION_KEY as KEY, METADATA_VERSION_OPERAND as OPERAND};
use borough_kv::contract::{
    AtomicOp, ConflictKind, EngineTransaction, ErrorCode, Isolation, KeySelector, RangeRequest,
    TransactionOption, Version, Versionstamp,
};
use borough_kv::database::key_after;

const TOUCH: AtomicOp = AtomicOp::SetVersionstampedValue;

pub(super) async fn check(context: Context) -> Check {
    stamped(&context).await?;
    refused(&context).await?;
    unreadable(&context).await?;
    conflicts(&context).await?;
    watched(&context).await
}

async fn touch(context: &Context) -> Result<Versionstamp, Wrong> {
    let transaction = context.begin();
    transaction.atomic(TOUCH, KEY, &OPERAND)?;
    Ok(transaction.commit().await?.stamp.unwrap_or_default())
}

fn is_stamp(value: Option<&Bytes>, stamp: Versionstamp) -> bool {
    value.is_some_and(|value| value.as_ref() == stamp.0)
}

/// Its value is the stamp of the last touch at each read version, with and without a conflict.
async fn stamped(context: &Context) -> Check {
    let mut touches: Vec<Versionstamp> = Vec::new();
    for round in 0..5_u8 {
        let before = context.begin();
        let old = before.get(KEY, Isolation::Snapshot).await?;
        let stamp = touch(context).await?;
        ensure!(
            before.get(KEY, Isolation::Serializable).await? == old,
            "a later touch is seen in round {round}"
        );
        ensure!(
            is_stamp(context.begin().get(KEY, Isolation::Serializable).await?.as_ref(), stamp),
            "a touch is not seen"
        );
        touches.push(stamp);
    }
    for stamp in touches {
        let reader = context.begin();
        reader.set_read_version(stamp.version())?;
        let found = reader.get(KEY, Isolation::Snapshot).await?;
        ensure!(is_stamp(found.as_ref(), stamp), "{found:?} at {stamp}");
    }
    // It is no row of any range.
    let end = KeySelector::first_greater_or_equal(b"\xff".as_slice());
    let past = KeySelector { offset: 3, ..end };
    let last = context.begin().get_key(&past, Isolation::Snapshot).await?;
    ensure!(last == b"\xff".as_slice(), "a selector comes to {last:?}");
    let tail = RangeRequest::between(context.end(), b"\xff".as_slice());
    let rows = context.begin().get_range(&RangeRequest { end: past, ..tail }.reverse().limit(1)).await?.rows;
    ensure!(rows.iter().all(|(key, _)| *key < b"\xff".as_slice()), "a range holds {rows:?}");
    Ok(())
}

/// All other operations on it are refused, and so are its neighbours.
async fn refused(context: &Context) -> Check {
    let outside = Some(ErrorCode::KeyOutsideLegalRange);
    let invalid = Some(ErrorCode::ClientInvalidOperation);
    let transaction = context.begin();
    expect("setting it", transaction.set(KEY, &OPERAND), invalid)?;
    expect("clearing it", transaction.clear(KEY), outside)?;
    expect("clearing over it", transaction.clear_range(b"\xfe\xff", b"\xff\xff"), outside)?;
    for operation in AtomicOp::ALL {
        let expected = if operation == TOUCH { None } else { invalid };
        let what = format!("{operation:?} on it");
        expect(&what, context.begin().atomic(operation, KEY, &OPERAND), expected)?;
    }
    let mut placed = [0; 15];
    placed[11] = 1;
    let mut filled = OPERAND;
    filled[0] = 0xff;
    for operand in [&b""[..], &OPERAND[1..], &[0; 15], &placed, &filled, &[0; 100_001]] {
        let what = format!("an operand of {} bytes", operand.len());
        expect(&what, transaction.atomic(TOUCH, KEY, operand), invalid)?;
    }
    let after = key_after(KEY);
    let conflict = |kind, end: &[u8]| transaction.add_conflict_range(kind, KEY..end);
    expect("a read conflict", conflict(ConflictKind::Read, &after), None)?;
    expect("a write conflict", conflict(ConflictKind::Write, &after), outside)?;
    expect("a wider read conflict", conflict(ConflictKind::Read, &key_after(&after)), outside)?;
    let neighbour = &KEY[..KEY.len() - 1];
    expect("reading before it", transaction.get(neighbour, Isolation::Snapshot).await, outside)?;
    expect("reading behind it", transaction.get(&after, Isolation::Snapshot).await, outside)?;
    expect("watching behind it", transaction.watch(&after).await.map(drop), outside)?;
    expect("touching beside it", transaction.atomic(TOUCH, neighbour, &OPERAND), outside)?;
    let selector = KeySelector::last_less_or_equal(KEY);
    expect("selecting it", transaction.get_key(&selector, Isolation::Snapshot).await, outside)?;
    let range = RangeRequest::between(KEY, after);
    expect("ranging over it", transaction.get_range(&range).await, outside)?;
    Ok(())
}

/// A transaction cannot read its own touch.
async fn unreadable(context: &Context) -> Check {
    let unreadable = Some(ErrorCode::AccessedUnreadable);
    let stamp = touch(context).await?;
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let transaction = context.begin();
        transaction.atomic(TOUCH, KEY, &OPERAND)?;
        expect("an own touch", transaction.get(KEY, isolation).await, unreadable)?;
        expect("its commit", transaction.commit().await, unreadable)?;
    }
    let transaction = context.begin();
    transaction.set_option(TransactionOption::BypassUnreadable)?;
    transaction.atomic(TOUCH, KEY, &OPERAND)?;
    let seen = transaction.get(KEY, Isolation::Serializable).await?;
    ensure!(seen.as_deref() == Some(&OPERAND), "the placeholder: {seen:?}");
    let hidden = context.begin();
    hidden.set_option(TransactionOption::SnapshotRywDisable)?;
    hidden.atomic(TOUCH, KEY, &OPERAND)?;
    ensure!(
        is_stamp(hidden.get(KEY, Isolation::Snapshot).await?.as_ref(), stamp),
        "a snapshot read without own writes"
    );
    expect("a read with them", hidden.get(KEY, Isolation::Serializable).await, unreadable)?;
    let disabled = context.begin();
    disabled.set_option(TransactionOption::ReadYourWritesDisable)?;
    disabled.atomic(TOUCH, KEY, &OPERAND)?;
    ensure!(
        is_stamp(disabled.get(KEY, Isolation::Serializable).await?.as_ref(), stamp),
        "a read without own writes"
    );
    disabled.commit().await?;
    Ok(())
}

/// How one transaction depends on the key, and whether another one's touch makes it fail.
#[derive(Clone, Copy, Debug)]
enum Depends {
    Get,
    Snapshot,
    Conflict,
    Touch,
    Watch,
}

async fn depend(reader: &dyn EngineTransaction, how: Depends) -> Check {
    match how {
        Depends::Get => drop(reader.get(KEY, Isolation::Serializable).await?),
        Depends::Snapshot => drop(reader.get(KEY, Isolation::Snapshot).await?),
        Depends::Conflict => reader.add_conflict_range(ConflictKind::Read, KEY..&key_after(KEY))?,
        Depends::Touch => reader.atomic(TOUCH, KEY, &OPERAND)?,
        // Registering and reading are one step of two futures: the commit waits for the read.
        Depends::Watch => drop(reader.watch(KEY).await?),
    }
    Ok(())
}

async fn conflicts(context: &Context) -> Check {
    for (how, hidden, expected) in [
        (Depends::Get, false, true),
        (Depends::Get, true, false),
        (Depends::Snapshot, false, false),
        (Depends::Conflict, false, true),
        (Depends::Touch, false, false),
        (Depends::Watch, false, true),
    ] {
        let reader = context.begin();
        reader.set_option(TransactionOption::ReportConflictingKeys)?;
        reader.read_version().await?;
        let writer = context.begin();
        if hidden {
            writer.set_option(TransactionOption::NextWriteNoWriteConflictRange)?;
        }
        depend(reader.as_ref(), how).await?;
        writer.atomic(TOUCH, KEY, &OPERAND)?;
        writer.commit().await?;
        reader.set(&context.key(b"reader"), b"")?;
        let code = reader.commit().await.err().map(|error| error.code);
        let wanted = expected.then_some(ErrorCode::NotCommitted);
        ensure!(code == wanted, "{how:?}, hidden {hidden}: {code:?}, not {wanted:?}");
        let ranges = reader.conflicting_ranges().await?;
        let named = expected.then(|| Bytes::from_static(KEY)..Bytes::from(key_after(KEY)));
        ensure!(ranges == named.into_iter().collect::<Vec<_>>(), "{how:?} names {ranges:?}");
    }
    Ok(())
}

/// A touch fires watches of it; its own touch cannot be watched.
async fn watched(context: &Context) -> Check {
    let transaction = context.begin();
    let mut watch = transaction.watch(KEY).await?;
    transaction.commit().await?;
    ensure!((&mut watch).now_or_never().is_none(), "a watch fires before a touch");
    touch(context).await?;
    let fired = tokio::time::timeout(Duration::from_secs(20), watch).await;
    ensure!(matches!(fired, Ok(Ok(()))), "a watch after a touch: {fired:?}");
    let transaction = context.begin();
    transaction.atomic(TOUCH, KEY, &OPERAND)?;
    let code = match transaction.watch(KEY).await {
        Ok(watch) => watch.await.err(),
        Err(error) => Some(error),
    };
    let code = code.map(|error| error.code);
    ensure!(code == Some(ErrorCode::AccessedUnreadable), "a watch of an own touch: {code:?}");
    Ok(())
}

/// The metadata version comes with the read version, so it can be read however old that is. A read version that was set
/// by hand brings none. `older` lets more time pass than a transaction lasts.
pub async fn run_old(
    begin: impl Fn() -> std::sync::Arc<dyn EngineTransaction>,
    older: impl AsyncFnOnce(),
) -> Result<(), String> {
    let text = |error: borough_kv::contract::KvError| error.to_string();
    let touch = async || -> Result<Version, String> {
        let writer = begin();
        writer.atomic(TOUCH, KEY, &OPERAND).map_err(text)?;
        Ok(writer.commit().await.map_err(text)?.version.unwrap_or_default())
    };
    let first = touch().await?;
    let (reader, plain) = (begin(), begin());
    for transaction in [&reader, &plain] {
        transaction.read_version().await.map_err(text)?;
    }
    touch().await?;
    older().await;
    touch().await?;
    let found = reader.get(KEY, Isolation::Serializable).await.map_err(text)?;
    let version = found.as_deref().and_then(Versionstamp::from_slice).map(Versionstamp::version);
    if version != Some(first) {
        return Err(format!("{found:?}, not the stamp of {first}"));
    }
    let neighbour = plain.get(b"beside", Isolation::Snapshot).await.err().map(|error| error.code);
    if neighbour != Some(ErrorCode::TransactionTooOld) {
        return Err(format!("another key in a transaction as old: {neighbour:?}"));
    }
    reader.set(b"beside", b"").map_err(text)?;
    let commit = reader.commit().await.err().map(|error| error.code);
    if commit != Some(ErrorCode::TransactionTooOld) {
        return Err(format!("its commit: {commit:?}"));
    }
    Ok(())
}
