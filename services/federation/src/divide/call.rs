//! What the division calls of a cell: how much room it has for a job, and the visit that tells it its parts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, ClientError, ExpectedJob, JobFilter, JobRef};
use borough_model::federation::{
    AdmittedJob, CellRoom, FEDERATED_JOB_LABEL, FEDERATION_LABEL, FederatedJob, FederatedJobRow,
    FederatedPart, FoundJob, PartRollout, PartSeen, PartStep, part_step,
};
use borough_model::job::file::Problem;
use borough_model::{FederatedJobId, Name};
use borough_proto::convert::{federated_job_id_from_text, job_spec_to_message};
use borough_proto::v1;
use futures::{StreamExt as _, stream};
use tonic::Code;

/// How long one call of a cell may take.
const CALL_MAX: Duration = Duration::from_secs(4);
/// Parts of one cell that are brought to it together.
const TOLD_TOGETHER: usize = 16;

/// A cell as the division calls it.
#[derive(Clone)]
pub(super) struct CellCaller {
    pub(super) home: String,
    pub(super) cell: Name,
    pub(super) client: Client,
}

/// What a visit says of a part: the promise, and the version that is assigned to it.
#[derive(Clone)]
pub(super) struct PartNotice {
    pub(super) job: Arc<FederatedJobRow>,
    pub(super) part: FederatedPart,
    pub(super) spec: Arc<FederatedJob>,
}

/// What a visit found of one part.
pub(super) struct PartVisited {
    pub(super) job: FederatedJobId,
    /// The promise that the visit was about.
    pub(super) promise: u64,
    /// The version that the visit brought, if it submitted one.
    pub(super) version: u64,
    /// What the cell has now; absent: no job of that name is the federation's.
    pub(super) told: Result<Option<PartFound>, String>,
}

/// A part as its cell has it.
pub(super) struct PartFound {
    pub(super) admitted: AdmittedJob,
    /// Whether this visit has submitted it.
    pub(super) is_submitted: bool,
    /// The version that its own last rollout has taken back; 0: none.
    pub(super) reverts: u32,
    pub(super) seen: PartSeen,
}

/// What a visit brings.
pub(super) struct Visited {
    pub(super) cell: Name,
    /// Absent: the cell did not answer.
    pub(super) parts: Option<Vec<PartVisited>>,
    /// Jobs that are parts of a federated job, by its id, and that the visit said nothing about.
    pub(super) strays: Vec<FederatedJobId>,
}

impl CellCaller {
    fn client(&self) -> Client {
        self.client.with_deadline_max(CALL_MAX)
    }

    /// The job of the cell, with the labels that make it a part.
    fn spec(&self, job: FederatedJobId, spec: &FederatedJob, count: u32) -> Result<v1::JobSpec, String> {
        let made = spec.cell_job(&self.cell, count);
        let mut made = made.map_err(|problems| problems_text(&problems))?;
        made.labels.insert(FEDERATION_LABEL.to_owned(), self.home.clone());
        made.labels.insert(FEDERATED_JOB_LABEL.to_owned(), job.to_string());
        Ok(job_spec_to_message(&made))
    }

    /// How many more tasks the cell's own scheduler would place now beside `has`, at most `most`. `None`: the cell
    /// could not be asked.
    pub(super) async fn room(
        &self,
        job: FederatedJobId,
        spec: &FederatedJob,
        has: u32,
        most: u32,
    ) -> Option<CellRoom> {
        let (mut fits, mut most) = (0, most);
        // A quota refuses a plan as a whole, so the largest one that it admits is searched for.
        while most > fits {
            let planned = self.spec(job, spec, has.saturating_add(most)).ok()?;
            let plan = self.client().job_plan(planned).await.ok()?;
            if has == 0 && !plan.job_id.is_empty() && self.is_name_taken(job, spec).await? {
                return Some(CellRoom::NameTaken);
            }
            if plan.refusal.is_empty() {
                let placed = plan.placements.iter().filter(|placement| placement.index >= has).count();
                return Some(CellRoom::Tasks(u32::try_from(placed).unwrap_or(u32::MAX).max(fits)));
            }
            let half = fits.saturating_add(most.saturating_sub(fits) / 2);
            if half == fits {
                break;
            }
            let smaller = self.spec(job, spec, has.saturating_add(half)).ok()?;
            let plan = self.client().job_plan(smaller).await.ok()?;
            if plan.refusal.is_empty() {
                fits = half;
                most = most.saturating_sub(1);
            } else {
                most = half;
            }
        }
        Some(CellRoom::Tasks(fits))
    }

    /// Whether the cell has a job of the name that is no part of this one. `None`: the cell could not be asked.
    async fn is_name_taken(&self, job: FederatedJobId, spec: &FederatedJob) -> Option<bool> {
        let name = JobRef::new(spec.job.user.as_str(), spec.job.name.as_str());
        let row = self.client().job_get(&name).await.ok()?.job?;
        Some(!is_over(&row) && owner_of(&row) != Some(job))
    }

    /// Looks at what the cell has of the federation, and tells it what it should have.
    pub(super) async fn visit(self, parts: Vec<PartNotice>) -> Visited {
        let listed = self.listed().await;
        let Ok(mut found) = listed else {
            return Visited { cell: self.cell, parts: None, strays: Vec::new() };
        };
        let told = parts.into_iter().map(|told| {
            let name = (told.job.user().to_string(), told.job.name().to_string());
            let found = found.remove(&name);
            let caller = &self;
            async move {
                let (job, promise, version) = (told.job.id, told.part.promise, told.part.version);
                PartVisited { job, promise, version, told: caller.tell(&told, found).await }
            }
        });
        let told: Vec<_> = told.collect();
        let told = stream::iter(told).buffer_unordered(TOLD_TOGETHER).collect().await;
        let strays = found.values().filter(|job| !is_over(job)).filter_map(owner_of).collect();
        Visited { cell: self.cell, parts: Some(told), strays }
    }

    /// The jobs of the cell that are parts of this federation's jobs, by user and name.
    async fn listed(&self) -> Result<BTreeMap<(String, String), v1::Job>, ClientError> {
        let labels = [(FEDERATION_LABEL.to_owned(), self.home.clone())].into();
        let filter = JobFilter { labels, ended: true, ..JobFilter::default() };
        let mut jobs = self.client().job_list(&filter).await?;
        jobs.retain(|job| !is_over(job) || is_finished(job));
        // The last one of a name counts.
        jobs.sort_by_key(|job| job.submitted_ms);
        Ok(jobs.into_iter().map(|job| ((job.user.clone(), job.name.clone()), job)).collect())
    }

    async fn tell(&self, told: &PartNotice, found: Option<v1::Job>) -> Result<Option<PartFound>, String> {
        let PartNotice { job, part, spec } = told;
        let target = JobRef::new(job.user().as_str(), job.name().as_str());
        let mut found = found;
        let may_be_there = part.count > 0 || (part.admitted.is_some() && !part.is_arrived());
        if found.is_none() && may_be_there {
            // A job of the cell's own has no label, and is not listed. Nor is a part that has lost its labels.
            found = match self.client().job_get(&target).await {
                Ok(answer) => answer.job.filter(|job| !is_over(job)),
                Err(error) if error.code() == Some(Code::NotFound) => None,
                Err(error) => return Err(error.to_string()),
            };
        }
        let known = found.as_ref().map(found_job);
        match part_step(job.id, part, known.as_ref()) {
            PartStep::Rest => Ok(found.as_ref().filter(|job| owner_of(job).is_some()).map(part_found)),
            PartStep::Taken { id } => Err(format!(
                "the cell has a job {target} of its own ({id}), which the federation leaves alone; stop it there, or take \
                 the cell out of `cells`"
            )),
            PartStep::Stop { id } => {
                let stopped = self.client().job_stop_of(&target, &id).await;
                stopped.map(|_| None).map_err(|error| error.to_string())
            }
            PartStep::Scale { expected: FoundJob { job, revision, .. } } => {
                let expected = ExpectedJob { id: job.id, revision };
                let scaled = self.client().job_scale_of(&target, expected, part.count).await;
                Ok(scaled.map_err(|error| error.to_string())?.job.as_ref().map(part_found))
            }
            PartStep::Submit { expected } => {
                let spec = self.spec(job.id, spec, part.count)?;
                let client = self.client();
                let answer = match expected {
                    None => client.job_submit_new(spec).await,
                    Some(FoundJob { job, revision, .. }) => {
                        client.job_submit_to(spec, ExpectedJob { id: job.id, revision }).await
                    }
                };
                let answer = answer.map_err(|error| error.to_string())?;
                let found = answer.job.as_ref().map(part_found);
                Ok(found.map(|found| PartFound { is_submitted: true, ..found }))
            }
        }
    }
}

fn is_over(job: &v1::Job) -> bool {
    job.state() == v1::JobState::Stopped || is_finished(job)
}

/// Whether it has ended by itself.
fn is_finished(job: &v1::Job) -> bool {
    use v1::JobState::{DependencyFailed, Failed, Succeeded};
    matches!(job.state(), Succeeded | Failed | DependencyFailed)
}

fn owner_of(job: &v1::Job) -> Option<FederatedJobId> {
    let text = job.labels.get(FEDERATED_JOB_LABEL)?;
    federated_job_id_from_text(FEDERATED_JOB_LABEL, text).ok()
}

fn found_job(job: &v1::Job) -> FoundJob {
    FoundJob {
        job: admitted(job),
        revision: job.revision,
        owner: owner_of(job),
        count: job.count,
        has_failed: part_rollout(job) == PartRollout::Failed,
        reverts: reverts(job),
        is_finished: is_finished(job),
    }
}

fn reverts(job: &v1::Job) -> u32 {
    job.rollout.as_ref().map_or(0, |rollout| rollout.reverts)
}

fn admitted(job: &v1::Job) -> AdmittedJob {
    let done = v1::RolloutState::Done;
    let open = job.rollout.as_ref().filter(|rollout| rollout.state() != done && rollout.reverts == 0);
    let version = open.map_or(job.spec_version, |rollout| rollout.version);
    AdmittedJob { id: job.id.clone(), changed_revision: job.changed_revision, version }
}

fn part_rollout(job: &v1::Job) -> PartRollout {
    match job.rollout.as_ref().map(v1::Rollout::state) {
        Some(v1::RolloutState::Rolling | v1::RolloutState::Paused) => PartRollout::Rolling,
        Some(v1::RolloutState::Failed) => PartRollout::Failed,
        _ => PartRollout::Done,
    }
}

fn part_found(job: &v1::Job) -> PartFound {
    let tasks = job.tasks.unwrap_or_default();
    let seen = PartSeen {
        at_ms: 0,
        running: tasks.running,
        healthy: tasks.healthy,
        pending: tasks.pending.saturating_add(tasks.held),
        succeeded: tasks.succeeded,
        failed: tasks.failed,
        rollout: part_rollout(job),
        finished: is_finished(job),
    };
    PartFound { admitted: admitted(job), is_submitted: false, reverts: reverts(job), seen }
}

fn problems_text(problems: &[Problem]) -> String {
    let texts: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    format!("the job of this cell cannot be admitted: {}", texts.join("; "))
}
