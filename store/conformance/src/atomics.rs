//! Atomic operations along every axis: the operation, the present value, the operand's length, and the transaction's
//! earlier writes. The transaction itself reads the result, and so does the next one.

use super::model::atomic;
use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::{AtomicOp, Committed, Isolation};

/// Lengths of operands and of present values; `None` is an absent key.
const LENGTHS: [usize; 6] = [0, 1, 2, 7, 8, 13];

/// What the transaction wrote to the key before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PriorWrite {
    Nothing,
    Set(usize),
    Cleared,
    /// The same operation, with an operand of this length.
    Same(usize),
    /// Another operation, with an operand of this length.
    Other(AtomicOp, usize),
}

const BEFORE: [PriorWrite; 8] = [
    PriorWrite::Nothing,
    PriorWrite::Set(0),
    PriorWrite::Set(4),
    PriorWrite::Cleared,
    PriorWrite::Same(8),
    PriorWrite::Same(2),
    PriorWrite::Other(AtomicOp::Add, 4),
    PriorWrite::Other(AtomicOp::CompareAndClear, 8),
];

/// One case under one key.
struct Case {
    key: Vec<u8>,
    operation: AtomicOp,
    existing: Option<Vec<u8>>,
    before: PriorWrite,
    earlier: Vec<u8>,
    operand: Vec<u8>,
}

impl Case {
    fn name(&self) -> String {
        let Self { operation, existing, before, earlier, operand, .. } = self;
        format!("{operation:?} of {operand:?} on {existing:?} after {before:?} {earlier:?}")
    }

    fn expected(&self) -> Option<Vec<u8>> {
        let existing = self.existing.as_deref();
        let below = match self.before {
            PriorWrite::Nothing => existing.map(<[u8]>::to_vec),
            PriorWrite::Set(_) => Some(self.earlier.clone()),
            PriorWrite::Cleared => None,
            PriorWrite::Same(_) => atomic(self.operation, existing, &self.earlier),
            PriorWrite::Other(operation, _) => atomic(operation, existing, &self.earlier),
        };
        atomic(self.operation, below.as_deref(), &self.operand)
    }
}

/// Interesting operands: often the present value itself, often small, often with the top bit set.
fn operand_any(context: &Context, existing: Option<&Vec<u8>>, length: usize) -> Vec<u8> {
    match existing {
        Some(existing) if existing.len() == length && context.once_in(3) => existing.clone(),
        _ if context.once_in(4) => vec![0; length],
        _ if context.once_in(4) => vec![0xff; length],
        _ => context.bytes(length),
    }
}

fn cases(context: &Context, operation: AtomicOp) -> Vec<Case> {
    let mut cases = Vec::new();
    let there = std::iter::once(None).chain(LENGTHS.into_iter().map(Some));
    for existing in there.map(|length| length.map(|length| context.bytes(length))) {
        for (length, before) in LENGTHS.into_iter().flat_map(|length| BEFORE.map(|before| (length, before))) {
            let earlier = match before {
                PriorWrite::Nothing | PriorWrite::Cleared => Vec::new(),
                PriorWrite::Set(length) | PriorWrite::Same(length) | PriorWrite::Other(_, length) => {
                    operand_any(context, existing.as_ref(), length)
                }
            };
            let key = context
                .key(&[&[operation.code().to_le_bytes()[0]], &cases.len().to_be_bytes()[6..]].concat());
            let operand = operand_any(context, existing.as_ref(), length);
            cases.push(Case { key, operation, existing: existing.clone(), before, earlier, operand });
        }
    }
    cases
}

async fn commit(context: &Context, cases: &[Case]) -> Result<Committed, Wrong> {
    let transaction = context.begin();
    for case in cases {
        let key = &case.key;
        match case.before {
            PriorWrite::Nothing => {}
            PriorWrite::Set(_) => transaction.set(key, &case.earlier)?,
            PriorWrite::Cleared => transaction.clear(key)?,
            PriorWrite::Same(_) => transaction.atomic(case.operation, key, &case.earlier)?,
            PriorWrite::Other(operation, _) => transaction.atomic(operation, key, &case.earlier)?,
        }
        transaction.atomic(case.operation, key, &case.operand)?;
        // Half of the cases are not read before the commit, so that they reach it unevaluated.
        if context.once_in(2) {
            let (found, expected) = (transaction.get(key, Isolation::Snapshot).await?, case.expected());
            ensure!(
                found.as_deref() == expected.as_deref(),
                "{}: seen {found:?}, not {expected:?}",
                case.name()
            );
        }
    }
    Ok(transaction.commit().await?)
}

pub(super) async fn check(context: Context) -> Check {
    let operations = AtomicOp::ALL.into_iter();
    let stamped = [AtomicOp::SetVersionstampedKey, AtomicOp::SetVersionstampedValue];
    for operation in operations.filter(|operation| !stamped.contains(operation)) {
        let cases = cases(&context, operation);
        let transaction = context.begin();
        for case in &cases {
            if let Some(existing) = &case.existing {
                transaction.set(&case.key, existing)?;
            }
        }
        transaction.commit().await?;
        commit(&context, &cases).await?;
        let transaction = context.begin();
        for case in &cases {
            let (found, expected) = (transaction.get(&case.key, Isolation::Snapshot).await?, case.expected());
            ensure!(
                found.as_deref() == expected.as_deref(),
                "{}: left {found:?}, not {expected:?}",
                case.name()
            );
        }
    }
    append_limit(&context).await
}

/// An append that does not fit leaves the value as it is, without an error.
async fn append_limit(context: &Context) -> Check {
    let key = context.key(b"long");
    let transaction = context.begin();
    transaction.set(&key, &vec![b'x'; 99_990])?;
    transaction.commit().await?;
    for (operand, length) in [(11, 99_990), (10, 100_000), (1, 100_000)] {
        let transaction = context.begin();
        transaction.atomic(AtomicOp::AppendIfFits, &key, &vec![b'y'; operand])?;
        transaction.commit().await?;
        let found = context.begin().get(&key, Isolation::Snapshot).await?.map(|value| value.len());
        ensure!(found == Some(length), "appending {operand} bytes left {found:?}, not {length}");
    }
    Ok(())
}
