//! The calls about federated jobs.

use borough_client::{FederatedFilter, JobRef};
use borough_proto::v1::order_federated_release_request::Order;
use borough_proto::v1::{FederatedJob, FederatedJobState, PageRequest};
use serde_json::{Value, json};

use super::Stage;
use super::expect::Failed;
use super::step::holds;

impl Stage<'_> {
    /// Makes the call of a step, and compares what it says.
    pub(super) async fn federated(&self, job: &JobRef, step: &Value) -> Result<(), Failed> {
        let client = self.client();
        let number = |name: &str| step[name].as_u64().and_then(|number| u32::try_from(number).ok());
        let order = async |order: Order| {
            let ordered = client.federated_order(job, order, number("stage").unwrap_or_default()).await;
            Ok::<Value, Failed>(fields(&ordered?))
        };
        let found = match step["call"].as_str().unwrap_or_default() {
            "run" => {
                let name = step["file"]["name"].as_str().unwrap_or_default();
                let revision = step["revision"].as_u64().unwrap_or_default();
                self.federated_run(&self.job_named(name), step["file"].to_string(), revision).await?
            }
            "again" => {
                let known = client.federated_get(job).await?;
                let revision = known.job.unwrap_or_default().revision;
                self.federated_run(job, known.job_file, revision).await?
            }
            "get" => fields(&client.federated_get(job).await?.job.unwrap_or_default()),
            "scale" => fields(&client.federated_scale(job, number("count").unwrap_or(u32::MAX)).await?),
            "stop" => fields(&client.federated_stop(job).await?),
            "pause" => order(Order::Pause).await?,
            "resume" => order(Order::Resume).await?,
            "approve" => order(Order::Approve).await?,
            "undo" => order(Order::Revert).await?,
            "forget" => fields(&client.federated_forget(job).await?.unwrap_or_default()),
            "history" => json!({"count": client.federated_history(job).await?.len()}),
            other => return Err(Failed::otherwise(format!("no call {other:?}"))),
        };
        let mut expected = step["expect"].as_object().into_iter().flatten();
        holds(expected.all(|(name, value)| found[name] == *value), || found.to_string())
    }

    async fn federated_run(&self, job: &JobRef, file: String, revision: u64) -> Result<Value, Failed> {
        let answer = self.client().federated_run(job, file, revision).await?;
        let mut found = fields(&answer.job.unwrap_or_default());
        found["changed"] = json!(answer.changed);
        Ok(found)
    }

    /// The names of the user's federated jobs, over all pages of `limit` rows.
    pub(super) async fn federated_names(&self, limit: u32) -> Result<Vec<String>, Failed> {
        let client = self.client();
        let filter = FederatedFilter { user: client.user().to_owned(), ..FederatedFilter::default() };
        let (mut names, mut page) = (Vec::new(), String::new());
        loop {
            let answer = client.federated_list_page(&filter, PageRequest { limit, page }).await?;
            names.extend(answer.jobs.into_iter().map(|job| job.name));
            if answer.next_page.is_empty() {
                return Ok(names);
            }
            page = answer.next_page;
        }
    }
}

/// What a step may expect of a job.
fn fields(job: &FederatedJob) -> Value {
    let state = match job.state() {
        FederatedJobState::Active => "active",
        FederatedJobState::Stopping => "stopping",
        FederatedJobState::Stopped => "stopped",
        FederatedJobState::Unspecified => "unspecified",
    };
    json!({"count": job.count, "version": job.version, "revision": job.revision, "state": state})
}
