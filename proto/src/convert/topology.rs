//! NUMA domains of nodes.

use borough_model::node::NumaDomain;

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
