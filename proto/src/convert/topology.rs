//! NUMA domains of nodes, and tasks that stay within one.

use borough_model::node::{NumaDomain, Within};

use super::FieldRefused;
use crate::v1;

/// A domain as a message.
pub fn domain_to_message(domain: &NumaDomain) -> v1::NumaDomain {
    v1::NumaDomain {
        place: domain.place,
        socket: domain.socket,
        cpus: domain.cpus.clone(),
        memory_bytes: domain.memory_bytes,
    }
}

/// A domain that an agent has found.
pub fn domain_from_message(message: &v1::NumaDomain) -> NumaDomain {
    NumaDomain {
        place: message.place,
        socket: message.socket,
        cpus: message.cpus.clone(),
        memory_bytes: message.memory_bytes,
    }
}

pub(super) fn within_to_message(within: Option<Within>) -> v1::task_spec::Within {
    match within {
        None => v1::task_spec::Within::Unspecified,
        Some(Within::OneSocket) => v1::task_spec::Within::OneSocket,
        Some(Within::OneNumaNode) => v1::task_spec::Within::OneNumaNode,
    }
}

pub(super) fn within_from_message(within: i32) -> Result<Option<Within>, FieldRefused> {
    match v1::task_spec::Within::try_from(within) {
        Ok(v1::task_spec::Within::Unspecified) => Ok(None),
        Ok(v1::task_spec::Within::OneSocket) => Ok(Some(Within::OneSocket)),
        Ok(v1::task_spec::Within::OneNumaNode) => Ok(Some(Within::OneNumaNode)),
        Err(_) => {
            Err(FieldRefused::new("within", within.to_string(), "one_socket, one_numa_node or nothing"))
        }
    }
}
