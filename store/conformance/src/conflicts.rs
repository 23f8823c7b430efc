//! Conflict ranges in both directions. A transaction that read is refused exactly if another one wrote into what its
//! read depended on. Too few conflicts lose updates; too many are a livelock that FoundationDB would not have.
//!
//! The expected ranges are those of `ReadYourWrites.cpp`. The checks also test the plain meaning: after an accepted
//! commit, repeating the read must give the same rows.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::{
    AtomicOp, EngineTransaction, ErrorCode, Isolation, KeySelector, RangeBatch, RangeRequest, StreamingMode,
};
use borough_kv::database::key_after;

const ROUNDS: usize = 600;

/// What the reader writes before it reads.
#[derive(Clone, Debug)]
enum Own {
    Set(Bytes),
    Clear(Bytes, Bytes),
    Add(Bytes),
}

/// What the reader reads.
#[derive(Clone, Debug)]
enum ReadCase {
    Get(Bytes),
    GetKey(KeySelector),
    Range(RangeRequest),
}

/// The result of a read.
#[derive(Debug, PartialEq)]
enum Got {
    Value(Option<Bytes>),
    Key(Bytes),
    Batch(RangeBatch),
}

/// Keys that collide. Those before `m` and after it never change, so that no selector leaves the prefix.
fn key_any(context: &Context) -> Bytes {
    let letters: Vec<u8> =
        (0..context.below(3)).map(|_| b'a'.saturating_add(context.below(4).to_le_bytes()[0])).collect();
    context.key(&[b"m".as_slice(), &letters].concat()).into()
}

fn own_any(context: &Context) -> Own {
    let (one, other) = (key_any(context), key_any(context));
    match context.below(3) {
        0 => Own::Set(one),
        1 => Own::Clear(one.clone().min(other.clone()), one.max(other)),
        _ => Own::Add(one),
    }
}

fn selector_any(context: &Context) -> KeySelector {
    let offset = i32::try_from(context.below(5)).unwrap_or(0).saturating_sub(1);
    KeySelector { key: key_any(context), or_equal: context.once_in(2), offset }
}

fn read_any(context: &Context) -> ReadCase {
    match context.below(4) {
        0 => ReadCase::Get(key_any(context)),
        1 => ReadCase::GetKey(selector_any(context)),
        _ => {
            let plain = || KeySelector::first_greater_or_equal(key_any(context));
            let (begin, end) = if context.once_in(2) {
                (plain(), plain())
            } else {
                (selector_any(context), selector_any(context))
            };
            let limit = if context.once_in(2) { context.below(3).saturating_add(1) } else { 0 };
            let mode = if limit > 0 { StreamingMode::Exact } else { StreamingMode::WantAll };
            let reverse = context.once_in(2);
            ReadCase::Range(RangeRequest {
                begin,
                end,
                limit,
                target_bytes: 0,
                mode,
                iteration: 1,
                reverse,
                isolation: Isolation::Serializable,
            })
        }
    }
}

fn own_write(transaction: &dyn EngineTransaction, own: &[Own]) -> Check {
    for one in own {
        match one {
            Own::Set(key) => transaction.set(key, b"own")?,
            Own::Clear(begin, end) => transaction.clear_range(begin, end)?,
            Own::Add(key) => transaction.atomic(AtomicOp::Add, key, &[1])?,
        }
    }
    Ok(())
}

async fn read_run(transaction: &dyn EngineTransaction, read: &ReadCase) -> Result<Got, Wrong> {
    Ok(match read {
        ReadCase::Get(key) => Got::Value(transaction.get(key, Isolation::Serializable).await?),
        ReadCase::GetKey(selector) => Got::Key(transaction.get_key(selector, Isolation::Serializable).await?),
        ReadCase::Range(request) => Got::Batch(transaction.get_range(request).await?),
    })
}

/// Returns true if the reader's own writes decide `key`, so that the database's value does not matter.
fn decided(own: &[Own], key: &[u8]) -> bool {
    let mut independent: BTreeMap<&[u8], bool> = BTreeMap::new();
    let mut cleared: Vec<(&[u8], &[u8])> = Vec::new();
    let within = |cleared: &[(&[u8], &[u8])], key: &[u8]| {
        cleared.iter().any(|(begin, end)| *begin <= key && key < *end)
    };
    for one in own {
        match one {
            Own::Set(key) => {
                independent.insert(key, true);
            }
            Own::Clear(begin, end) => {
                independent.retain(|key, _| !(begin.as_ref() <= *key && *key < end.as_ref()));
                cleared.push((begin, end));
            }
            Own::Add(key) => {
                let alone = within(&cleared, key);
                independent.entry(key).or_insert(alone);
            }
        }
    }
    independent.get(key).copied().unwrap_or_else(|| within(&cleared, key))
}

/// A selector in its plain form.
fn plain(selector: &KeySelector) -> (Vec<u8>, i32) {
    let key = if selector.or_equal { key_after(&selector.key) } else { selector.key.to_vec() };
    (key, selector.offset)
}

/// The range that a read depends on, before own writes are taken out.
fn dependence(read: &ReadCase, got: &Got) -> Option<(Vec<u8>, Vec<u8>)> {
    match (read, got) {
        (ReadCase::Get(key), _) => Some((key.to_vec(), key_after(key))),
        (ReadCase::GetKey(selector), Got::Key(found)) => Some(match plain(selector) {
            (key, ..=0) => (found.to_vec(), key),
            (key, _) => (key, key_after(found)),
        }),
        (ReadCase::Range(request), Got::Batch(batch)) => range_dependence(request, batch),
        _ => None,
    }
}

fn range_dependence(request: &RangeRequest, batch: &RangeBatch) -> Option<(Vec<u8>, Vec<u8>)> {
    let ((begin, begin_offset), (end, end_offset)) = (plain(&request.begin), plain(&request.end));
    if begin_offset >= end_offset && begin >= end {
        return None;
    }
    let keys = || batch.rows.iter().map(|(key, _)| key.to_vec());
    let (lowest, highest) = (keys().min(), keys().max());
    let (mut from, mut to) = (begin.clone().min(end.clone()), begin.clone().max(end.clone()));
    if begin < end && batch.more {
        if !request.reverse && end_offset > 0 {
            to = begin;
        } else if request.reverse && begin_offset <= 1 {
            from = end;
        }
    }
    if let (Some(lowest), Some(highest)) = (lowest, highest) {
        if request.reverse || begin_offset <= 0 {
            from = from.min(lowest);
        }
        if to <= highest && (!request.reverse || end_offset > 0) {
            to = key_after(&highest);
        }
    }
    Some((from, to))
}

/// Returns true if two answers can be of the same rows. A cut batch says nothing about the rows beyond it.
fn agree(got: &Got, repeated: &Got) -> bool {
    match (got, repeated) {
        (Got::Batch(one), Got::Batch(other)) => {
            let both = one.rows.len().min(other.rows.len());
            let whole = |batch: &RangeBatch| batch.rows.len() <= both && !batch.more;
            one.rows.get(..both) == other.rows.get(..both)
                && (one.rows.len() == other.rows.len() || !(whole(one) || whole(other)))
        }
        _ => got == repeated,
    }
}

async fn base_write(context: &Context) -> Result<BTreeSet<Bytes>, Wrong> {
    let transaction = context.begin();
    transaction.clear_range(&context.key(b""), &context.end())?;
    let mut rows = BTreeSet::new();
    for key in context
        .fixed_keys()
        .into_iter()
        .map(Bytes::from)
        .chain((0..context.below(8)).map(|_| key_any(context)))
    {
        transaction.set(&key, b"base")?;
        rows.insert(key);
    }
    transaction.commit().await?;
    Ok(rows)
}

async fn round(context: &Context) -> Result<bool, Wrong> {
    let rows = base_write(context).await?;
    let own: Vec<Own> = (0..context.below(4)).map(|_| own_any(context)).collect();
    let read = read_any(context);
    let reader = context.begin();
    // A read that own writes answer alone needs no version. A version taken by the commit would be too young to
    // conflict.
    reader.read_version().await?;
    own_write(reader.as_ref(), &own)?;
    let got = read_run(reader.as_ref(), &read).await?;

    let written = key_any(context);
    let writer = context.begin();
    if rows.contains(&written) && context.once_in(2) {
        writer.clear(&written)?;
    } else {
        writer.set(&written, b"other")?;
    }
    writer.commit().await?;

    let inside = dependence(&read, &got).is_some_and(|(from, to)| from <= written && *written < *to);
    let expected = inside && !decided(&own, &written);
    reader.set(&context.key(b"z"), b"")?;
    let refused = match reader.commit().await {
        Ok(_) => false,
        Err(error) if error.code == ErrorCode::NotCommitted => true,
        Err(error) => return Err(error.into()),
    };
    let story = || format!("rows {rows:?}, own {own:?}, {read:?} gave {got:?}, written {written:?}");
    ensure!(refused == expected, "refused {refused}, not {expected}: {}", story());
    if !refused {
        let again = context.begin();
        // The reader's own writes are committed by now. Applying them again must not change what it saw, except for
        // additions, which would count twice.
        if !own.iter().any(|one| matches!(one, Own::Add(_))) {
            own_write(again.as_ref(), &own)?;
            let repeated = read_run(again.as_ref(), &read).await?;
            ensure!(agree(&got, &repeated), "accepted, yet the read now gives {repeated:?}: {}", story());
        }
    }
    Ok(refused)
}

pub(super) async fn check(context: Context) -> Check {
    let mut refused = 0;
    for _ in 0..ROUNDS {
        refused += usize::from(round(&context).await?);
    }
    // A suite that never refuses or never accepts has checked nothing.
    ensure!(
        (ROUNDS / 20..ROUNDS - ROUNDS / 20).contains(&refused),
        "{refused} of {ROUNDS} rounds were refused"
    );
    explicit(&context).await?;
    reported(&context).await
}

/// Explicit ranges, blind writes, and the option that removes a write conflict.
async fn explicit(context: &Context) -> Check {
    let (key, other) = (context.key(b"explicit"), context.key(b"explicit-other"));
    for (reads, hides, expected) in [(true, false, true), (false, false, false), (true, true, false)] {
        let reader = context.begin();
        reader.read_version().await?;
        let writer = context.begin();
        if hides {
            writer.set_option(borough_kv::contract::TransactionOption::NextWriteNoWriteConflictRange)?;
        }
        writer.set(&key, b"1")?;
        writer.commit().await?;
        if reads {
            reader.add_conflict_range(borough_kv::contract::ConflictKind::Read, &key..&key_after(&key))?;
        }
        reader.set(&other, b"1")?;
        let refused = reader.commit().await.is_err();
        ensure!(refused == expected, "reads {reads}, hidden {hides}: refused {refused}");
    }
    Ok(())
}

/// A refused commit names the conflicting ranges if the option is set.
async fn reported(context: &Context) -> Check {
    let keys: Vec<Vec<u8>> = (b'0'..b'4').map(|digit| context.key(&[b'r', digit])).collect();
    let reader = context.begin();
    reader.set_option(borough_kv::contract::TransactionOption::ReportConflictingKeys)?;
    for key in &keys {
        reader.get(key, Isolation::Serializable).await?;
    }
    let writer = context.begin();
    let written = keys.get(2).cloned().unwrap_or_default();
    writer.set(&written, b"1")?;
    writer.commit().await?;
    reader.set(&context.key(b"r"), b"1")?;
    let code = reader.commit().await.err().map(|error| error.code);
    ensure!(code == Some(ErrorCode::NotCommitted), "a read that was written since: {code:?}");
    let ranges = reader.conflicting_ranges().await?;
    let covers = |key: &Vec<u8>| ranges.iter().any(|range| range.start <= *key && *key < range.end);
    ensure!(covers(&written), "{ranges:?} does not name {written:?}");
    ensure!(keys.iter().filter(|key| covers(key)).count() == 1, "{ranges:?} names what was not written");
    Ok(())
}
