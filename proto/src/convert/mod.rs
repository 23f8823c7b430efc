//! Between messages and the model. Towards the model everything is checked and every refusal names its field; from
//! the model nothing can fail.

mod card;
mod gang;
mod job;
mod label;
mod node;
mod taint;
mod task;
mod topology;
mod wire;

pub use card::{card_from_message, card_to_message, cards_assigned};
pub use job::{
    job_spec_from_message, job_spec_to_message, job_state_to_message, job_to_message, task_spec_to_message,
};
pub use label::labels_removed;
pub use node::{
    capacity_from_message, is_drained, measured_from_message, measured_to_message, node_state_to_message,
    node_to_message, resources_to_message,
};
pub use taint::{taint_matches_from_message, taints_from_message};
pub use task::{
    TaskContext, end_reason_to_message, endpoint_to_message, exit_from_message, exit_to_message,
    health_from_message, health_to_message, helper_from_message, helper_to_message, ports_to_message,
    stop_reason_to_message, task_counts_add, task_state_to_message, task_to_message,
};
pub use topology::{domain_from_message, domain_to_message};

use borough_model::id::NameError;
use borough_model::{FederatedJobId, JobId, Name, RequestId};

/// A field of a message that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}", self.wrong())]
pub struct FieldRefused {
    /// The field's path, such as `spec.task.ports[0].number`.
    pub field: String,
    /// What was given.
    pub value: String,
    /// What would be accepted; or a text that says what is wrong with the value, and `accepted` with what would be.
    pub accepted: String,
}

impl FieldRefused {
    /// What is wrong, and what would be right. The text of a parser says both, and has the value.
    fn wrong(&self) -> String {
        let Self { value, accepted, .. } = self;
        if accepted.contains("accepted") {
            accepted.clone()
        } else {
            format!("{value:?}; accepted: {accepted}")
        }
    }

    /// A refusal of `value` in `field`.
    pub fn new(field: impl Into<String>, value: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self { field: field.into(), value: value.into(), accepted: accepted.into() }
    }

    /// The same refusal of a field within `outer`.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}

/// Characters of a refused name that are shown: more than a name may have.
const NAME_CHARACTERS_SHOWN: usize = 80;

/// A name in `field`.
pub fn name_from_text(field: &str, text: &str) -> Result<Name, FieldRefused> {
    let refused = |error: NameError| {
        let shown: String = text.chars().take(NAME_CHARACTERS_SHOWN).collect();
        FieldRefused::new(field, text, format!("the name {shown:?} {error}"))
    };
    Name::new(text).map_err(refused)
}

/// A job id in `field`: `j` and 16 hexadecimal digits.
pub fn job_id_from_text(field: &str, text: &str) -> Result<JobId, FieldRefused> {
    let number = numbered_from_text('j', text);
    number.map(JobId).ok_or_else(|| FieldRefused::new(field, text, "j and 16 hexadecimal digits"))
}

/// The id of a federated job in `field`.
pub fn federated_job_id_from_text(field: &str, text: &str) -> Result<FederatedJobId, FieldRefused> {
    let number = numbered_from_text('f', text);
    number.map(FederatedJobId).ok_or_else(|| FieldRefused::new(field, text, "f and 16 hexadecimal digits"))
}

/// The number of an id: its letter and 16 hexadecimal digits.
fn numbered_from_text(letter: char, text: &str) -> Option<u64> {
    let digits = text.strip_prefix(letter).filter(|digits| digits.len() == 16 && !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

/// A request id in `field`: 32 hexadecimal digits.
pub fn request_id_from_text(field: &str, text: &str) -> Result<RequestId, FieldRefused> {
    let number = match text.len() {
        32 => u128::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+')),
        _ => None,
    };
    number.map(RequestId).ok_or_else(|| FieldRefused::new(field, text, "32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_from_their_own_text() {
        let job = JobId(0xfeed_0000_0000_0001);
        assert_eq!(job_id_from_text("id", &job.to_string()), Ok(job));
        let request = RequestId(u128::MAX - 1);
        assert_eq!(request_id_from_text("id", &request.to_string()), Ok(request));
    }

    #[test]
    fn ids_of_another_shape_are_refused() {
        for text in ["", "j", "j1", "n0000000000000007", "j+000000000000007", "j00000000000000070"] {
            assert!(job_id_from_text("id", text).is_err(), "{text}");
        }
        for text in ["", "0", &"+".repeat(32), &"g".repeat(32), &"0".repeat(33)] {
            assert!(request_id_from_text("id", text).is_err(), "{text}");
        }
    }
}
