//! Own writes: random transactions compared with the model, read by read, and the rows that they leave.

use std::sync::Arc;

use super::model::{ModelPlace, ModelRows, atomic, place_of, select};
use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::{AtomicOp, Isolation, KeySelector, RangeRequest, StreamingMode};
use borough_kv::database::{Idempotency, Transaction};

const ROUNDS: usize = 60;
const STEPS: usize = 30;

/// Operations whose result does not depend on the commit's stamp and is never an absence. FoundationDB's selectors
/// count a key that a pending [`AtomicOp::CompareAndClear`] has cleared (its reads do not), and no caller should rely
/// on that.
const OPERATIONS: [AtomicOp; 9] = [
    AtomicOp::Add,
    AtomicOp::BitAnd,
    AtomicOp::BitOr,
    AtomicOp::BitXor,
    AtomicOp::AppendIfFits,
    AtomicOp::Max,
    AtomicOp::Min,
    AtomicOp::ByteMin,
    AtomicOp::ByteMax,
];

#[derive(Clone, Debug)]
enum RywStep {
    Set(Vec<u8>, Vec<u8>),
    Clear(Vec<u8>),
    ClearRange(Vec<u8>, Vec<u8>),
    Atomic(AtomicOp, Vec<u8>, Vec<u8>),
    Get(Vec<u8>, Isolation),
    GetKey(KeySelector, Isolation),
    Range(Box<RangeRequest>),
}

fn selector_any(context: &Context) -> KeySelector {
    let offset = i32::try_from(context.below(7)).unwrap_or(0).saturating_sub(3);
    KeySelector { key: context.any_key().into(), or_equal: context.once_in(2), offset }
}

fn step_any(context: &Context) -> RywStep {
    let value = || context.bytes(context.below(5));
    match context.below(10) {
        0 | 1 => RywStep::Set(context.any_key(), value()),
        2 => RywStep::Clear(context.any_key()),
        3 => {
            let (one, other) = (context.any_key(), context.any_key());
            RywStep::ClearRange(one.clone().min(other.clone()), one.max(other))
        }
        4 | 5 => {
            let operation = OPERATIONS.get(context.below(OPERATIONS.len())).copied().unwrap_or(AtomicOp::Add);
            RywStep::Atomic(operation, context.any_key(), value())
        }
        6 => RywStep::Get(context.any_key(), context.isolation_any()),
        7 => RywStep::GetKey(selector_any(context), context.isolation_any()),
        _ => RywStep::Range(Box::new(range_any(context))),
    }
}

/// A range by plain bounds or by selectors around one key, cut by rows, by bytes or not at all.
fn range_any(context: &Context) -> RangeRequest {
    let plain = || KeySelector::first_greater_or_equal(context.any_key());
    let (begin, end) =
        if context.once_in(2) { (plain(), plain()) } else { (selector_any(context), selector_any(context)) };
    let limit = if context.once_in(2) { context.below(6).saturating_add(1) } else { 0 };
    let mode = if limit > 0 { StreamingMode::Exact } else { StreamingMode::WantAll };
    let (reverse, isolation) = (context.once_in(2), context.isolation_any());
    RangeRequest { begin, end, limit, target_bytes: 0, mode, iteration: 1, reverse, isolation }
}

/// The model's rows for a request.
fn range_expected(rows: &ModelRows, request: &RangeRequest) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (begin, end) = (select(rows, &request.begin), select(rows, &request.end));
    let inside = |key: &Vec<u8>| {
        let place = ModelPlace::At(key.clone());
        begin <= place && place < end
    };
    let mut found: Vec<_> = rows.iter().filter(|(key, _)| inside(key)).collect();
    if request.reverse {
        found.reverse();
    }
    let limit = if request.limit == 0 { usize::MAX } else { request.limit };
    found.into_iter().take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Applies a write to the model.
fn write_apply(rows: &mut ModelRows, step: &RywStep) {
    match step {
        RywStep::Set(key, value) => {
            rows.insert(key.clone(), value.clone());
        }
        RywStep::Clear(key) => {
            rows.remove(key);
        }
        RywStep::ClearRange(begin, end) => rows.retain(|key, _| !(begin <= key && key < end)),
        RywStep::Atomic(operation, key, operand) => {
            match atomic(*operation, rows.get(key).map(Vec::as_slice), operand) {
                Some(value) => rows.insert(key.clone(), value),
                None => rows.remove(key),
            };
        }
        RywStep::Get(..) | RywStep::GetKey(..) | RywStep::Range(_) => {}
    }
}

/// Sends a write, or compares a read with the model.
async fn step_run(transaction: &Transaction, prefix: &[u8], rows: &ModelRows, step: &RywStep) -> Check {
    match step {
        RywStep::Set(key, value) => transaction.set(key, value)?,
        RywStep::Clear(key) => transaction.clear(key)?,
        RywStep::ClearRange(begin, end) => transaction.clear_range(begin, end)?,
        RywStep::Atomic(operation, key, operand) => transaction.atomic(*operation, key, operand)?,
        RywStep::Get(key, isolation) => {
            let found = match isolation {
                Isolation::Snapshot => transaction.get_snapshot(key).await?,
                Isolation::Serializable => transaction.get(key).await?,
            };
            let expected = rows.get(key).map(Vec::as_slice);
            ensure!(found.as_deref() == expected, "{step:?}: {found:?}, the model has {expected:?}");
        }
        RywStep::GetKey(selector, isolation) => {
            let found = place_of(&transaction.get_key(selector, *isolation).await?, prefix);
            let expected = select(rows, selector);
            ensure!(found == expected, "{step:?}: {found:?}, the model has {expected:?}");
        }
        RywStep::Range(request) => {
            let found = range_read(transaction, prefix, request).await?;
            let expected = range_expected(rows, request);
            ensure!(found == expected, "{step:?}: {found:?}, the model has {expected:?}");
        }
    }
    Ok(())
}

/// Reads a range without the prefix's neighbours. An exact one comes in one batch.
async fn range_read(
    transaction: &Transaction,
    prefix: &[u8],
    request: &RangeRequest,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Wrong> {
    let rows = match request.mode {
        StreamingMode::Exact => transaction.get_range(request).await?.rows,
        _ => transaction.range_all(request.clone()).await?,
    };
    let rows = rows.into_iter().filter(|(key, _)| key.starts_with(prefix));
    Ok(rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

async fn rows_read(transaction: &Transaction, context: &Context) -> Result<ModelRows, Wrong> {
    let request = RangeRequest::between(context.prefix.clone(), context.end());
    let rows = transaction.range_all(request).await?;
    Ok(rows.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

pub(super) async fn check(context: Context) -> Check {
    let mut rows: ModelRows = context.fixed_keys().into_iter().map(|key| (key, b"fixed".to_vec())).collect();
    let fill = |transaction: Transaction, _| {
        let rows = rows.clone();
        async move { Ok::<_, Wrong>(rows.iter().try_for_each(|(key, value)| transaction.set(key, value))?) }
    };
    super::cycle::persist(|| context.database.run("fill", Idempotency::Natural, fill)).await?;
    for _ in 0..ROUNDS {
        let steps: Arc<Vec<RywStep>> = Arc::new((0..STEPS).map(|_| step_any(&context)).collect());
        let known = Arc::new(std::mem::take(&mut rows));
        let script = |transaction: Transaction, _| {
            let (steps, known, context) = (Arc::clone(&steps), Arc::clone(&known), context.clone());
            async move {
                // An earlier try may have committed: this one begins with the rows that it left.
                let mut rows =
                    if context.faulty { rows_read(&transaction, &context).await? } else { (*known).clone() };
                for step in steps.iter() {
                    step_run(&transaction, &context.prefix, &rows, step).await?;
                    write_apply(&mut rows, step);
                }
                Ok::<_, Wrong>(rows)
            }
        };
        let result = context.database.run("own writes", Idempotency::Natural, script).await;
        let read = |transaction: Transaction, _| {
            let context = context.clone();
            async move { rows_read(&transaction, &context).await }
        };
        let stored =
            super::cycle::persist(|| context.database.run("read", Idempotency::ReadOnly, read)).await?;
        match result {
            Ok(left) => ensure!(stored == left, "{steps:?} left {stored:?}, the model has {left:?}"),
            // The contract leaves this open, and the commit may come later: continue with the present rows.
            Err(Wrong::Store(error)) if context.faulty && !error.code.is_retryable() => {
                super::cycle::late_commits_wait().await;
                let read = || context.database.run("read", Idempotency::ReadOnly, read);
                rows = super::cycle::persist(read).await?;
                continue;
            }
            Err(wrong) => return Err(wrong),
        }
        rows = stored;
    }
    Ok(())
}
