//! A job of a scenario, through the builder of the library.

use borough_client::{JobBuilder, JobSpecRefused};
use borough_proto::v1::JobSpec;
use serde_json::{Value, json};

/// The spec that `job` asks for, as a job of `user`.
pub(super) fn build(job: &Value, user: &str) -> Result<JobSpec, JobSpecRefused> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(text).collect() };
    let name = text(&job["name"]);
    let mut builder =
        if job["kind"] == "batch" { JobBuilder::batch(name) } else { JobBuilder::service(name) };
    builder = builder.command(texts(&job["command"]));
    builder = builder.cpu_millis(job["cpu_millis"].as_u64().unwrap_or(50));
    builder = builder.memory_bytes(job["memory_bytes"].as_u64().unwrap_or(32 << 20));
    if let Some(count) = job["count"].as_u64() {
        builder = builder.field("count", json!(count));
    }
    for port in texts(&job["ports"]) {
        builder = builder.port(port);
    }
    for (key, value) in job["labels"].as_object().into_iter().flatten() {
        builder = builder.label(key, text(value));
    }
    for (key, value) in job["env"].as_object().into_iter().flatten() {
        builder = builder.environment(key, text(value));
    }
    // The rest has the values of a job file.
    for (name, field) in [
        ("priority", "priority"),
        ("band", "priority"),
        ("max_attempts", "restart.attempts"),
        ("weight", "task.weight"),
    ] {
        if !job[name].is_null() {
            builder = builder.field(field, job[name].clone());
        }
    }
    let probe = &job["probe"];
    if let Some(port) = probe["tcp"].as_str() {
        builder = builder.health_tcp(port);
    } else if let Some(port) = probe["http"].as_str() {
        builder = builder.health_http(port, text(&probe["path"]));
    } else if probe["exec"].is_array() {
        builder = builder.health_command(texts(&probe["exec"]));
    }
    builder.build(user)
}
