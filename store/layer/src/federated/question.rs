//! Questions to the federation process that leads, and its answers. A gateway asks and watches its question. The
//! process watches the count of questions. Whoever sees an answer, or no longer waits for one, removes the question.

use borough_kv::{Transaction, Watch};
use borough_model::FederatedJobId;
use borough_model::federation::{FEDERATED_QUESTIONS_MAX, FederatedAnswer, FederatedQuestion};

use crate::error::{RefusalRemedy, StoreError, StoreResult};
use crate::keys::{self, CellSpace, FederatedQuestionHeadKey, FederatedQuestionKey, Prefix, RangeOptions};

/// Asks the federation process. The same question again is asked once.
///
/// # Errors
/// Too many questions are open: they are answered soon, so try again.
pub async fn federated_ask(
    tx: &Transaction,
    space: &CellSpace,
    id: FederatedJobId,
    question: &FederatedQuestion,
) -> StoreResult<()> {
    let options = RangeOptions { limit: FEDERATED_QUESTIONS_MAX, ..RangeOptions::snapshot() };
    let open = keys::range::<FederatedQuestionKey>(tx, space, &Prefix::all(), options).await?;
    if open.len() >= FEDERATED_QUESTIONS_MAX {
        let reason = format!("{FEDERATED_QUESTIONS_MAX} plans of federated jobs are being made; try again");
        return Err(StoreError::refused_with(RefusalRemedy::ReadAgain, reason));
    }
    keys::write(tx, space, &FederatedQuestionKey { question: id }, question)?;
    keys::count_add(tx, space, &FederatedQuestionHeadKey {}, 1)
}

/// A question as it is now, and a watch that ends when it may have changed. The watch is inert until the transaction is
/// committed. Absent: it is gone without an answer.
pub async fn federated_answer_watch(
    tx: &Transaction,
    space: &CellSpace,
    id: FederatedJobId,
) -> StoreResult<(Option<FederatedQuestion>, Watch)> {
    let key = FederatedQuestionKey { question: id };
    Ok((keys::read(tx, space, &key).await?, keys::watch(tx, space, &key).await?))
}

/// Removes a question, answered or not.
pub async fn federated_question_end(
    tx: &Transaction,
    space: &CellSpace,
    id: FederatedJobId,
) -> StoreResult<()> {
    keys::clear(tx, space, &FederatedQuestionKey { question: id })
}

/// The questions that there are, and a watch that ends when there may be more. The watch is inert until the transaction
/// is committed.
pub async fn federated_questions_open(
    tx: &Transaction,
    space: &CellSpace,
) -> StoreResult<(Vec<(FederatedJobId, FederatedQuestion)>, Watch)> {
    let rows =
        keys::range::<FederatedQuestionKey>(tx, space, &Prefix::all(), RangeOptions::snapshot()).await?;
    let watch = keys::watch(tx, space, &FederatedQuestionHeadKey {}).await?;
    Ok((rows.into_iter().map(|(key, question)| (key.question, question)).collect(), watch))
}

/// Answers a question, if someone still waits for it. The caller holds the lease of the federation.
pub async fn federated_answer(
    tx: &Transaction,
    space: &CellSpace,
    id: FederatedJobId,
    answer: &FederatedAnswer,
) -> StoreResult<()> {
    let key = FederatedQuestionKey { question: id };
    let Some(question) = keys::read(tx, space, &key).await? else { return Ok(()) };
    keys::write(tx, space, &key, &FederatedQuestion { answer: Some(answer.clone()), ..question })
}
