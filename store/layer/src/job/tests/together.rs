//! Jobs that are admitted in one transaction, against the same submissions one by one.

use borough_kv::env::{Rng, SeededRng};
use borough_model::RequestId;

use super::*;
use crate::testing::seeds;

/// One submission: its spec and the number of its candidate.
type Asked = (JobSpec, u64);

/// Some submissions of few names, users and sizes, and now and then one that fits no quota.
fn asked(rng: &dyn Rng, first: u64, count: u64) -> Vec<Asked> {
    let draw = |below: u64| rng.next_u64() % below;
    let one = |candidate: u64| {
        let user = if draw(3) == 0 { "bob" } else { "ada" };
        let job = format!("job-{}", draw(12));
        let mut spec = spec(&job, u32::try_from(1 + draw(4)).unwrap());
        spec.user = name(user);
        spec.task.resources.cpu_millis = 100 * (1 + draw(3));
        if draw(8) == 0 {
            spec.task.resources.cpu_millis = u64::MAX / 2;
        }
        (spec, candidate)
    };
    (first..first + count).map(one).collect()
}

async fn limited_cell() -> TestCell {
    let cell = TestCell::new().await;
    for (user, tasks_max) in [("ada", 25), ("bob", 6)] {
        let limit = QuotaRow { tasks_max: Some(tasks_max), ..QuotaRow::default() };
        let set =
            cell.run(async |tx| quota_set(&tx, &cell.space, &name(user), Band::Batch, Some(&limit)).await);
        set.await.unwrap();
    }
    cell
}

async fn together(cell: &TestCell, asked: &[Asked]) -> Vec<Option<JobSubmitted>> {
    let jobs: Vec<JobAdmission<'_>> = asked
        .iter()
        .map(|(spec, candidate)| JobAdmission {
            spec,
            candidate: JobId(*candidate),
            request: RequestId(u128::from(*candidate)),
            submitted_ms: 1_000,
        })
        .collect();
    let change =
        change(u128::from(asked.first().map_or(0, |(_, candidate)| 1_000 + candidate)), "job_submit");
    cell.change(change, async |tx, changes| jobs_admit(tx, changes, &jobs).await).await.unwrap()
}

/// The rows of every job, by user and name, and what each user has charged.
async fn shown(cell: &TestCell) -> (Vec<borough_model::JobRow>, Vec<u64>) {
    let rows = cell.run(async |tx| {
        let prefix = crate::keys::Prefix::<crate::keys::JobRowKey>::all();
        let rows =
            crate::keys::range(&tx, &cell.space, &prefix, crate::keys::RangeOptions::snapshot()).await?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    });
    let charged = cell.run(async |tx| {
        let ada = quota_usage(&tx, &cell.space, &name("ada"), Band::Batch).await?;
        let bob = quota_usage(&tx, &cell.space, &name("bob"), Band::Batch).await?;
        Ok(vec![ada.tasks, ada.used.cpu_millis, bob.tasks, bob.used.cpu_millis])
    });
    (rows.await.unwrap(), charged.await.unwrap())
}

/// What is admitted together, followed by the rest one by one, leaves what all would have left one by one in that
/// order. Each round submits some jobs and ends others.
#[tokio::test]
async fn jobs_admitted_together_are_as_those_admitted_one_by_one() {
    let (mut admitted, mut left) = (0, 0);
    for seed in seeds(30) {
        let rng = SeededRng::shared(seed);
        let (cell, model) = (limited_cell().await, limited_cell().await);
        for round in 0..6_u64 {
            let asked = asked(&*rng, 1 + round * 20, rng.next_u64() % 12);
            let answers = together(&cell, &asked).await;
            assert_eq!(answers.len(), asked.len());
            let is_admitted = |at: usize| answers.get(at).is_some_and(Option::is_some);
            let (first, rest): (Vec<usize>, Vec<usize>) = (0..asked.len()).partition(|at| is_admitted(*at));
            for at in first {
                let (spec, candidate) = &asked[at];
                let alone = submit(&model, spec, *candidate).await;
                assert_eq!(alone.ok(), answers[at], "seed {seed}, round {round}: {spec:?}");
                admitted += 1;
            }
            for at in rest {
                let (spec, candidate) = &asked[at];
                let (ours, its) =
                    (submit(&cell, spec, *candidate).await, submit(&model, spec, *candidate).await);
                assert_eq!(ours.ok(), its.ok(), "seed {seed}, round {round}: {spec:?}");
                left += 1;
            }
            let (ours, its) = (shown(&cell).await, shown(&model).await);
            assert_eq!(ours, its, "seed {seed}, round {round}");
            let live = ours.0.iter().find(|row| matches!(row.state, JobState::Running));
            if let Some(job) = live.map(|row| row.id.0) {
                stop(&cell, job).await;
                stop(&model, job).await;
            }
            check(&cell).await;
        }
    }
    assert!(admitted > 100 && left > 100, "{admitted} together, {left} alone");
}

#[tokio::test]
async fn what_is_not_plainly_new_is_left_and_nothing_of_it_is_written() {
    let cell = limited_cell().await;
    submit(&cell, &spec("web", 3), 1).await.unwrap();
    let too_many = JobSpec { user: name("bob"), ..spec("wide", 7) };
    let few = JobSpec { user: name("bob"), ..spec("narrow", 2) };
    let asked = [
        (spec("web", 4), 2),
        (spec("db", 1), 3),
        (spec("db", 2), 4),
        (spec("api", 1), 1),
        (too_many, 5),
        (spec("batch", 1), 6),
        (few, 7),
    ];
    let answers = together(&cell, &asked).await;
    let created =
        |job: u64| Some(JobSubmitted { job: JobId(job), outcome: SubmitOutcome::Created, revision: 1 });
    assert_eq!(answers, [None, created(3), None, None, None, created(6), created(7)]);
    let (rows, charged) = shown(&cell).await;
    assert_eq!(rows.iter().map(|row| row.id.0).collect::<Vec<_>>(), [1, 3, 6, 7]);
    assert_eq!(rows[1].request, RequestId(3), "the row names its own request");
    assert_eq!(charged[0], 5);
    assert_eq!(charged[2], 2, "what fits of a line is admitted");
    check(&cell).await;
}
