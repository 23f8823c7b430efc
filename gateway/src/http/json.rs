//! Endpoints as JSON and as server-sent events.

use std::sync::Arc;

use borough_model::Name;
use borough_store::journal::Cursor;
use serde_json::{Map, Value, json};
use tonic::Status;

use crate::name::{EndpointEvent, ShownEndpoint, StampedEvent};

/// A list of endpoints, with its position in the journal.
pub(super) fn endpoints(cell: &Name, endpoints: &[Arc<ShownEndpoint>], cursor: Cursor) -> String {
    let endpoints: Vec<Value> = endpoints.iter().map(|row| endpoint(cell, row)).collect();
    let mut text = json!({ "endpoints": endpoints, "cursor": cursor.to_string() }).to_string();
    text.push('\n');
    text
}

/// One event: its kind, its data and its id. The id is the position that a reader sends when it reconnects.
pub(super) fn event(cell: &Name, stamped: &StampedEvent) -> String {
    let (kind, data) = match &stamped.change {
        EndpointEvent::Published(row) => ("published", endpoint(cell, row)),
        EndpointEvent::Withdrawn { user, job, index, incarnation } => {
            let name = format!("{index}.{job}.{user}.{cell}");
            let data =
                json!({ "name": name, "user": user, "job": job, "index": index, "attempt": incarnation });
            ("withdrawn", data)
        }
        EndpointEvent::Bookmark => ("bookmark", json!({})),
    };
    // Within a commit the id stays empty, so that a reader that reconnects receives the whole commit again.
    let id = if stamped.more { String::new() } else { format!("id: {}\n", stamped.cursor) };
    format!("event: {kind}\ndata: {data}\n{id}\n")
}

/// The last event of a stream that cannot continue. The reader must list again.
pub(super) fn error_event(status: &Status) -> String {
    let data = json!({ "code": format!("{:?}", status.code()), "message": status.message() });
    format!("event: error\ndata: {data}\nid:\n\n")
}

fn endpoint(cell: &Name, shown: &ShownEndpoint) -> Value {
    let row = &shown.endpoint;
    let ports: Map<String, Value> =
        row.ports.iter().map(|port| (port.name.to_string(), Value::from(port.number))).collect();
    json!({
        "name": format!("{}.{}.{}.{cell}", row.task.index, row.job, row.user),
        "user": row.user,
        "job": row.job,
        "index": row.task.index,
        "attempt": row.incarnation.0,
        "host": row.host,
        "ports": ports,
        "health": row.health,
        "weight": row.weight,
        "node": row.node,
        "healthy_since_ms": row.healthy_since_ms,
        "domains": row.domains,
        "labels": *shown.labels,
        "draining": shown.draining,
    })
}
