//! The operations of the scenarios.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{
    EndpointListFilter, JobFilter, JobGoal, JobRef, LogQuery, TaskFilter, TaskRef, WaitError, WaitOutcome,
};
use borough_model::RequestId;
use borough_proto::v1::{JobState, exec_request, exec_response};
use borough_tests::{http_post, now};
use futures::{TryStreamExt as _, stream};
use serde_json::Value;

use super::expect::{Failed, check};
use super::job::build;
use super::watch::EndpointLog;
use super::{Problem, Stage};

/// How long a step waits unless it says otherwise.
const WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

impl Stage<'_> {
    /// Carries out one step and checks what came of it.
    pub(super) async fn step(&self, step: &Value) -> Result<(), Problem> {
        let step = self.filled(step);
        let began = now();
        let outcome = Box::pin(self.operation(&step)).await;
        check(&step, outcome)?;
        let least = Duration::from_millis(step["at_least"].as_u64().unwrap_or_default());
        let took = now().saturating_sub(began);
        if took < least { Err(format!("it took {took:?}; at least {least:?} was expected")) } else { Ok(()) }
    }

    /// The step with the values that its texts name.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let saved = self.saved.lock();
                let world = self.world.as_object().into_iter().flatten();
                let world = world.filter_map(|(name, value)| Some((name, value.as_str()?)));
                let all = world.chain(saved.iter().map(|(name, value)| (name, value.as_str())));
                let fill = |text: String, (name, value): (&String, &str)| {
                    text.replace(&format!("${{{name}}}"), value)
                };
                Value::String(all.fold(text.clone(), fill))
            }
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), self.filled(value))).collect()
            }
            other => other.clone(),
        }
    }

    async fn operation(&self, step: &Value) -> Result<(), Failed> {
        let client = self.client();
        let job = || self.job_named(step["job"].as_str().unwrap_or_default());
        match step["do"].as_str().unwrap_or_default() {
            "client" => {
                *self.client.lock() = super::client(self.world, step).map_err(Failed::otherwise)?;
            }
            "fault" => self.fault(step).await.map_err(Failed::otherwise)?,
            "pause" => {
                tokio::time::sleep(Duration::from_millis(step["for"].as_u64().unwrap_or_default())).await
            }
            "together" => {
                let steps = step["steps"].as_array().into_iter().flatten();
                let all = futures::future::join_all(steps.map(|step| Box::pin(self.step(step)))).await;
                all.into_iter().collect::<Result<(), Problem>>().map_err(Failed::otherwise)?;
            }
            "same" => {
                let values = step["values"].as_array().map(Vec::as_slice).unwrap_or_default();
                holds(values.windows(2).all(|pair| pair[0] == pair[1]), || format!("{values:?}"))?;
            }
            "build" => drop(build(&step["job"], client.user())?),
            "submit" => self.submit(step).await?,
            "scale" => {
                let count = step["count"].as_u64().and_then(|count| u32::try_from(count).ok());
                client.job_scale(&job(), count.unwrap_or(u32::MAX)).await?;
            }
            "stop" => drop(client.job_stop(&job()).await?),
            "signal" => {
                let signal = step["signal"].as_i64().and_then(|signal| i32::try_from(signal).ok());
                client.task_signal(&self.task(step)?, signal.unwrap_or_default()).await?;
            }
            "get" => self.get(&job(), step).await?,
            "wait" => self.wait(&job(), step).await?,
            "list" => self.list(step).await?,
            "watch" | "until" | "items" | "audit" | "unwatch" => self.watched(step).await?,
            "logs" => self.logs(step).await?,
            "exec" => self.exec(step).await?,
            "federated" => self.federated(&job(), step).await?,
            "join" => self.join(step).await?,
            "keys" => self.keys(step).await?,
            "resolve" => self.resolve(&job(), step).await?,
            other => return Err(Failed::otherwise(format!("no operation {other:?}"))),
        }
        Ok(())
    }

    /// Gives an order to the proxy.
    pub(super) async fn fault(&self, order: &Value) -> Result<(), Problem> {
        let control = self.world["control"].as_str().unwrap_or_default().trim_start_matches("http://");
        let (status, answer) = http_post(control, "/fault", &order.to_string()).await?;
        if status == 200 { Ok(()) } else { Err(answer) }
    }

    async fn submit(&self, step: &Value) -> Result<(), Failed> {
        let mut client = self.client();
        if let Some(id) = step["request_id"].as_str() {
            let id = u128::from_str_radix(id, 16).map_err(|error| Failed::otherwise(error.to_string()))?;
            client = client.with_request_id(RequestId(id));
        }
        let spec = build(&step["job"], client.user())?;
        self.jobs.lock().push(spec.name.clone());
        let answer = client.job_submit(spec, 0).await?;
        if let Some(name) = step["save"].as_str() {
            self.saved.lock().insert(name.to_owned(), answer.job.unwrap_or_default().id);
        }
        Ok(())
    }

    async fn get(&self, job: &JobRef, step: &Value) -> Result<(), Failed> {
        let row = self.client().job_get(job).await?.job.unwrap_or_default();
        let state = match row.state() {
            JobState::Waiting => "queued",
            JobState::Running | JobState::Stopping => "running",
            _ => "ended",
        };
        let expected = &step["expect"];
        let is = |name: &str, value: u32| expected[name].is_null() || expected[name] == value;
        let as_said = is("count", row.count)
            && is("version", row.spec_version)
            && expected["state"].as_str().is_none_or(|expected| expected == state);
        holds(as_said, || format!("{row:?}"))
    }

    async fn wait(&self, job: &JobRef, step: &Value) -> Result<(), Failed> {
        let goal = if step["for"] == "ended" { JobGoal::Over } else { JobGoal::Up };
        let outcome = match self.client().job_wait(job, goal, within(step)).await {
            Ok(WaitOutcome::Healthy) => "healthy",
            Ok(WaitOutcome::Succeeded) => "succeeded",
            Ok(WaitOutcome::Stopped) => "stopped",
            Ok(_) => "failed",
            Err(WaitError::Late { .. }) => "timeout",
            Err(error) => return Err(error.into()),
        };
        let expected = step["outcome"].as_str();
        holds(expected.is_none_or(|expected| expected == outcome), || outcome.to_owned())
    }

    async fn list(&self, step: &Value) -> Result<(), Failed> {
        let (client, name) = (self.client(), step["job"].as_str());
        let page = step["page"].as_u64().and_then(|page| u32::try_from(page).ok()).unwrap_or_default();
        let (user, job) = (client.user().to_owned(), name.unwrap_or_default().to_owned());
        let mut rows: Vec<String> = match step["what"].as_str().unwrap_or_default() {
            "jobs" => {
                let filter = JobFilter { user, ..JobFilter::default() };
                client.jobs(filter, page).map_ok(|row| row.name).try_collect().await?
            }
            "tasks" => {
                let filter = TaskFilter { user, job, ..TaskFilter::default() };
                client
                    .tasks(filter, page)
                    .map_ok(|row| format!("{}/{}", row.job, row.index))
                    .try_collect()
                    .await?
            }
            "federated" => self.federated_names(page).await?,
            _ => {
                let filter = EndpointListFilter { user, job, selector: Vec::new() };
                client
                    .endpoints(filter, page)
                    .map_ok(|row| format!("{}/{}", row.job, row.index))
                    .try_collect()
                    .await?
            }
        };
        rows.retain(|row| name.is_none_or(|name| row.split('/').next() == Some(name)));
        let all = rows.len();
        rows.sort();
        rows.dedup();
        let expected = step["count"].as_u64();
        let as_said = rows.len() == all && expected.is_none_or(|count| usize::try_from(count) == Ok(all));
        holds(as_said, || format!("{all} rows: {rows:?}"))
    }

    async fn watched(&self, step: &Value) -> Result<(), Failed> {
        let name = step["watch"].as_str().unwrap_or_default().to_owned();
        let operation = step["do"].as_str().unwrap_or_default();
        if operation == "watch" {
            let job = step["job"].as_str().unwrap_or_default().to_owned();
            self.watches.lock().insert(name, Arc::new(EndpointLog::start(self.client(), job)));
            return Ok(());
        }
        let known = self.watches.lock().get(&name).cloned();
        let watch = known.ok_or_else(|| Failed::otherwise(format!("no watch {name}")))?;
        match operation {
            "unwatch" => drop(self.watches.lock().remove(&name)),
            "audit" => {
                let mut last = Ok(());
                let sound = until(WITHIN, async || {
                    last = watch.audit().await;
                    last.is_ok()
                });
                if !sound.await {
                    last.map_err(Failed::otherwise)?;
                }
            }
            "items" => {
                let kinds = ["snapshots", "resyncs", "absences", "withdrawals"];
                let as_said = || kinds.iter().all(|kind| within_bounds(watch.items(kind), &step[kind]));
                let limit = if step["within"].is_null() { Duration::ZERO } else { within(step) };
                let all = until(limit, async || as_said()).await;
                holds(all, || format!("{:?}", kinds.map(|kind| (kind, watch.items(kind)))))?;
            }
            _ => {
                let expected: Vec<u64> =
                    step["live"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
                let is =
                    until(within(step), async || watch.live().as_ref() == Some(&expected) && watch.all(step));
                holds(is.await, || format!("the endpoints are {:?}, or have other fields", watch.live()))?;
            }
        }
        Ok(())
    }

    async fn logs(&self, step: &Value) -> Result<(), Failed> {
        let follow = step["follow"] == true;
        let query = LogQuery { follow, ..LogQuery::default() };
        let text = step["contains"].as_str().unwrap_or_default();
        let mut read = Vec::new();
        let reading = async {
            let mut parts = self.client().task_logs(&self.task(step)?, query).await?;
            while let Some(part) = parts.try_next().await? {
                read.extend_from_slice(&part.data);
                if String::from_utf8_lossy(&read).contains(text) {
                    return Ok::<bool, Failed>(true);
                }
            }
            Ok(false)
        };
        let contains = tokio::time::timeout(within(step), reading).await.unwrap_or(Ok(false))?;
        holds(contains, || format!("the output is {:?}", String::from_utf8_lossy(&read)))
    }

    async fn exec(&self, step: &Value) -> Result<(), Failed> {
        let words = step["command"].as_array().into_iter().flatten();
        let command = words.filter_map(|word| Some(word.as_str()?.to_owned())).collect();
        let input = step["input"].as_str().unwrap_or_default().to_owned();
        let input = [exec_request::Message::Stdin(input.into()), exec_request::Message::StdinClosed(true)];
        let answers = self.client().task_exec(&self.task(step)?, command, None, stream::iter(input)).await?;
        let answers: Vec<_> = answers.try_collect().await?;
        let (mut output, mut exit) = (Vec::new(), None);
        for answer in answers {
            match answer.message {
                Some(exec_response::Message::Stdout(data)) => output.extend_from_slice(&data),
                Some(exec_response::Message::Exit(ended)) => exit = ended.code,
                _ => {}
            }
        }
        let output = String::from_utf8_lossy(&output);
        let as_said = step["output"].as_str().is_none_or(|expected| expected == output)
            && step["exit"].as_i64().is_none_or(|expected| exit.map(i64::from) == Some(expected));
        holds(as_said, || format!("{exit:?}: {output:?}"))
    }

    async fn resolve(&self, job: &JobRef, step: &Value) -> Result<(), Failed> {
        let port = step["port"].as_str().unwrap_or_default();
        let expected = step["count"].as_u64().and_then(|count| usize::try_from(count).ok());
        let client = self.client();
        let mut sets = client.addresses(job, port);
        let mut last = Vec::new();
        let resolving = async {
            while let Some(set) = sets.try_next().await? {
                let different: BTreeMap<String, ()> = set.iter().map(|one| (one.authority(), ())).collect();
                last = set;
                if Some(last.len()) == expected && different.len() == last.len() {
                    return Ok::<bool, Failed>(true);
                }
            }
            Ok(false)
        };
        let resolved = tokio::time::timeout(within(step), resolving).await.unwrap_or(Ok(false))?;
        holds(resolved, || format!("{last:?}"))
    }

    fn task(&self, step: &Value) -> Result<TaskRef, Failed> {
        let named = step["task"].as_str().and_then(|task| task.split_once('/'));
        let task = named.and_then(|(job, index)| Some((job, index.parse().ok()?)));
        let (job, index) = task.ok_or_else(|| Failed::otherwise("`task` is not JOB/INDEX"))?;
        Ok(TaskRef { job: self.job_named(job), index })
    }
}

fn within(step: &Value) -> Duration {
    step["within"].as_u64().map_or(WITHIN, Duration::from_millis)
}

fn within_bounds(count: u64, bounds: &Value) -> bool {
    bounds["min"].as_u64().is_none_or(|least| count >= least)
        && bounds["max"].as_u64().is_none_or(|most| count <= most)
}

pub(super) fn holds(as_said: bool, found: impl FnOnce() -> String) -> Result<(), Failed> {
    if as_said { Ok(()) } else { Err(Failed::otherwise(format!("found: {}", found()))) }
}

/// Waits until it holds. Returns false if it does not in time.
async fn until(limit: Duration, mut is: impl AsyncFnMut() -> bool) -> bool {
    let end = now() + limit;
    loop {
        if is().await {
            return true;
        }
        if now() >= end {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
