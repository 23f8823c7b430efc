//! Limits and the codes beyond them.

use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use borough_kv::contract::{
    AtomicOp, ConflictKind, EngineTransaction, ErrorCode, Isolation, KeySelector, KvResult, RangeRequest,
    StreamingMode, TransactionOption,
};

fn code<T>(result: KvResult<T>) -> Option<ErrorCode> {
    result.err().map(|error| error.code)
}

pub(super) fn expect<T>(what: &str, result: KvResult<T>, expected: Option<ErrorCode>) -> Check {
    let found = code(result);
    ensure!(found == expected, "{what}: {found:?}, not {expected:?}");
    Ok(())
}

pub(super) async fn check(context: Context) -> Check {
    writes(&context)?;
    stamps(&context)?;
    reads(&context).await?;
    sizes(&context).await?;
    sizes_to_the_byte(&context).await?;
    attempt(&context).await
}

fn writes(context: &Context) -> Check {
    let transaction = context.begin();
    let longest =
        |extra: usize| context.key(&vec![b'k'; (KEY_BYTES_MAX + extra).saturating_sub(context.prefix.len())]);
    let (long, longer) = (longest(0), longest(1));
    let value = vec![b'v'; VALUE_BYTES_MAX + 1];
    let whole = value.get(1..).unwrap_or_default();
    let outside = Some(ErrorCode::KeyOutsideLegalRange);
    expect("longest key", transaction.set(&long, b""), None)?;
    expect("key too long", transaction.set(&longer, b""), Some(ErrorCode::KeyTooLarge))?;
    expect("longest value", transaction.set(&long, whole), None)?;
    expect("value too long", transaction.set(&long, &value), Some(ErrorCode::ValueTooLarge))?;
    expect("system key", transaction.set(b"\xff", b""), outside)?;
    expect("system key above", transaction.set(b"\xff\xff/x", b""), outside)?;
    expect("clearing a system key", transaction.clear(b"\xff"), outside)?;
    expect("clearing a key too long", transaction.clear(&longer), None)?;
    let (low, high) = (context.key(b"a"), context.key(b"b"));
    expect("inverted clear", transaction.clear_range(&high, &low), Some(ErrorCode::InvertedRange))?;
    expect("empty clear", transaction.clear_range(&low, &low), None)?;
    expect("clear into system keys", transaction.clear_range(&low, b"\xff\x01"), outside)?;
    expect(
        "operand too long",
        transaction.atomic(AtomicOp::Add, &low, &value),
        Some(ErrorCode::ValueTooLarge),
    )?;
    expect(
        "atomic on a long key",
        transaction.atomic(AtomicOp::Add, &longer, b"1"),
        Some(ErrorCode::KeyTooLarge),
    )?;
    for kind in [ConflictKind::Read, ConflictKind::Write] {
        let range = |range: std::ops::Range<&[u8]>| transaction.add_conflict_range(kind, range);
        expect("inverted conflict", range(&high..&low), Some(ErrorCode::InvertedRange))?;
        expect("conflict over all", range(&low..b"\xff"), None)?;
        expect("conflict outside", range(&low..b"\xff\x01"), outside)?;
    }
    transaction.cancel();
    expect("after cancel", transaction.set(&low, b""), Some(ErrorCode::TransactionCancelled))
}

fn stamps(context: &Context) -> Check {
    let transaction = context.begin();
    let template = |body: usize, offset: i32| [context.bytes(body), offset.to_le_bytes().to_vec()].concat();
    let key = context.key(b"stamped");
    for (body, offset, legal) in
        [(10, 0, true), (12, 2, true), (12, 3, false), (9, 0, false), (10, -1, false), (10, i32::MAX, false)]
    {
        let expected = (!legal).then_some(ErrorCode::ClientInvalidOperation);
        let operand = template(body, offset);
        let what = format!("a stamp at {offset} of {body} bytes");
        expect(&what, transaction.atomic(AtomicOp::SetVersionstampedValue, &key, &operand), expected)?;
    }
    let short = transaction.atomic(AtomicOp::SetVersionstampedKey, &context.key(b"")[..3], b"");
    expect("a stamped key without an offset", short, Some(ErrorCode::ClientInvalidOperation))
}

async fn reads(context: &Context) -> Check {
    let transaction = context.begin();
    let outside = Some(ErrorCode::KeyOutsideLegalRange);
    expect("reading a system key", transaction.get(b"\xff\x01", Isolation::Serializable).await, outside)?;
    let selector = KeySelector::first_greater_or_equal(b"\xff\x01".as_slice());
    expect("selecting a system key", transaction.get_key(&selector, Isolation::Serializable).await, outside)?;
    let end = KeySelector::first_greater_or_equal(b"\xff".as_slice());
    expect("the end of all keys", transaction.get_key(&end, Isolation::Snapshot).await, None)?;
    let all = RangeRequest::between(context.prefix.clone(), context.end());
    let exact = RangeRequest { mode: StreamingMode::Exact, ..all.clone() };
    expect(
        "exact without a limit",
        transaction.get_range(&exact).await,
        Some(ErrorCode::ExactModeWithoutLimits),
    )?;
    let nothing = RangeRequest { mode: StreamingMode::Iterator, iteration: 0, ..all.clone() };
    expect("iteration 0", transaction.get_range(&nothing).await, Some(ErrorCode::ClientInvalidOperation))?;
    let inverted = RangeRequest::between(context.end(), context.prefix.clone());
    let batch = transaction.get_range(&inverted).await?;
    ensure!(batch.rows.is_empty() && !batch.more, "an inverted range holds {batch:?}");
    let long = vec![b'x'; KEY_BYTES_MAX + 5];
    ensure!(transaction.get(&long, Isolation::Serializable).await?.is_none(), "no key is that long");
    Ok(())
}

/// Fills `transaction` with `count` writes of the largest value.
fn fill(context: &Context, transaction: &dyn EngineTransaction, count: usize) -> Check {
    let value = vec![b'v'; VALUE_BYTES_MAX];
    for index in 0..count {
        transaction.set(&context.key(&index.to_be_bytes()), &value)?;
    }
    Ok(())
}

async fn sizes(context: &Context) -> Check {
    let too_large = Some(ErrorCode::TransactionTooLarge);
    let transaction = context.begin();
    fill(context, transaction.as_ref(), 101)?;
    ensure!(transaction.approximate_size().await? > 10_000_000, "the size counts values");
    expect("more than 10 MB", transaction.commit().await, too_large)?;
    let transaction = context.begin();
    fill(context, transaction.as_ref(), 95)?;
    expect("less than 10 MB", transaction.commit().await, None)?;
    // Operations on one key are folded into one: a hundred thousand of them are small.
    let transaction = context.begin();
    for _ in 0..100_000 {
        transaction.atomic(AtomicOp::Add, &context.key(b"counter"), &1u64.to_le_bytes())?;
    }
    ensure!(transaction.approximate_size().await? > 0, "an operation counts");
    let committed = context.begin();
    for _ in 0..1000 {
        committed.atomic(AtomicOp::Add, &context.key(b"counter"), &1u64.to_le_bytes())?;
    }
    committed.set_option(TransactionOption::SizeLimitBytes(1000))?;
    expect("folded operations", committed.commit().await, None)?;
    let limited = context.begin();
    limited.set_option(TransactionOption::SizeLimitBytes(100))?;
    limited.set(&context.key(b"x"), &[0; 200])?;
    expect("over an own limit", limited.commit().await, too_large)?;
    for bytes in [31, 10_000_001] {
        let result = context.begin().set_option(TransactionOption::SizeLimitBytes(bytes));
        expect("an illegal limit", result, Some(ErrorCode::InvalidOptionValue))?;
    }
    let clear = context.begin();
    clear.clear_range(&context.key(b""), &context.end())?;
    clear.commit().await?;
    Ok(())
}

/// An operation and the size that it counts, for a key of so many bytes and a value of ten.
type LimitCase = (&'static str, fn(&dyn EngineTransaction, &[u8]) -> KvResult<()>, fn(usize) -> usize);

/// The size that each operation counts against the limit, as measured on FoundationDB 7.3. A mutation counts 44 bytes
/// and its contents, a conflict range 24 bytes and both keys.
const COUNTED: [LimitCase; 7] = [
    ("set", |tx, key| tx.set(key, &[1; 10]), |key| 44 + key + 10 + 24 + 2 * key + 1),
    ("clear", |tx, key| tx.clear(key), |key| 44 + 2 * key + 1 + 24 + 2 * key + 1),
    (
        "clear range",
        |tx, key| tx.clear_range(key, &[key, b"z"].concat()),
        |key| 44 + 2 * key + 1 + 24 + 2 * key + 1,
    ),
    ("atomic", |tx, key| tx.atomic(AtomicOp::Add, key, &[1; 10]), |key| 44 + key + 10 + 24 + 2 * key + 1),
    (
        "set without a conflict",
        |tx, key| {
            tx.set_option(TransactionOption::NextWriteNoWriteConflictRange)?;
            tx.set(key, &[1; 10])
        },
        |key| 44 + key + 10,
    ),
    (
        "read conflict",
        |tx, key| {
            tx.add_conflict_range(ConflictKind::Read, key..&[key, b"z"].concat())?;
            tx.set(key, &[1; 10])
        },
        |key| 44 + key + 10 + 2 * (24 + 2 * key + 1),
    ),
    (
        "write conflict",
        |tx, key| {
            tx.add_conflict_range(ConflictKind::Write, &[key, b"y"].concat()..&[key, b"z"].concat())?;
            tx.set(key, &[1; 10])
        },
        |key| 44 + key + 10 + 24 + 2 * key + 1 + 24 + 2 * key + 2,
    ),
];

/// The smallest limit under which an operation commits is exactly the size that it counts.
async fn sizes_to_the_byte(context: &Context) -> Check {
    for (what, operation, counted) in COUNTED {
        for length in [context.prefix.len() + 1, 100, 1_000] {
            let mut key = context.key(b"s");
            key.resize(length.max(key.len()), b's');
            let (mut refused, mut taken) = (32, 100_000);
            while taken - refused > 1 {
                let limit = (refused + taken) / 2;
                let transaction = context.begin();
                transaction.set_option(TransactionOption::SizeLimitBytes(limit))?;
                // Blind, so that the size alone decides the commit.
                operation(transaction.as_ref(), &key)?;
                match transaction.commit().await {
                    Ok(_) => taken = limit,
                    Err(error) if error.code == ErrorCode::TransactionTooLarge => refused = limit,
                    Err(error) if error.code.is_retryable() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let expected = u64::try_from(counted(key.len())).unwrap_or(u64::MAX);
            ensure!(taken == expected, "{what} of {} bytes counts {taken}, not {expected}", key.len());
        }
    }
    Ok(())
}

/// What a transaction answers after its end.
async fn attempt(context: &Context) -> Check {
    let key = context.key(b"attempt");
    let transaction = context.begin();
    transaction.set(&key, b"1")?;
    let committed = transaction.commit().await?;
    ensure!(committed.version.is_some() && committed.stamp.is_some(), "a commit has a version and a stamp");
    expect("a write after the commit", transaction.set(&key, b"2"), Some(ErrorCode::UsedDuringCommit))?;
    expect(
        "a read after the commit",
        transaction.get(&key, Isolation::Snapshot).await,
        Some(ErrorCode::UsedDuringCommit),
    )?;
    transaction.reset();
    ensure!(
        transaction.get(&key, Isolation::Snapshot).await?.as_deref() == Some(b"1"),
        "a reset transaction starts again"
    );
    let committed = transaction.commit().await?;
    ensure!(committed.version.is_none() && committed.stamp.is_none(), "nothing was written: {committed:?}");
    transaction.reset();
    transaction.cancel();
    expect(
        "a read after cancel",
        transaction.get(&key, Isolation::Snapshot).await,
        Some(ErrorCode::TransactionCancelled),
    )?;
    transaction.reset();
    let final_error = borough_kv::contract::KvError::new(ErrorCode::ClientInvalidOperation);
    let answered = transaction.on_error(&final_error).await;
    expect("a final error", answered, Some(ErrorCode::ClientInvalidOperation))?;
    Ok::<(), Wrong>(())
}
