//! What kind of call a request is, what it costs, and whose it is.

use borough_model::Name;

use crate::auth::Principal;

/// A kind of call, with a share of the gateway of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CallClass {
    /// Whatever an operator or another gateway asks.
    Operator,
    /// What changes something.
    Change,
    /// What reads one object.
    Read,
    /// What reads many, or decides over many.
    List,
    /// The begin of a stream.
    Stream,
}

pub(super) const CLASSES: [CallClass; 5] =
    [CallClass::Operator, CallClass::Change, CallClass::Read, CallClass::List, CallClass::Stream];

/// What a list or the begin of a stream costs, in seats.
const LARGE: u32 = 4;

impl CallClass {
    /// The seats that it always gets, of so many: three quarters in all. Whoever needs more first has the rest.
    pub(super) fn share(self, seats: u32) -> u32 {
        match self {
            Self::Operator | Self::Change | Self::Read => seats / 16 * 3,
            Self::List | Self::Stream => seats / 16 * 3 / 2,
        }
        .max(1)
    }

    /// The name in messages and metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Change => "change",
            Self::Read => "read",
            Self::List => "list",
            Self::Stream => "stream",
        }
    }
}

/// Whose calls wait in one queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CallerKey {
    /// Operators and other gateways have one credential.
    Operator,
    User(Name),
}

/// A call as it is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallCharge {
    pub(super) class: CallClass,
    pub(super) caller: CallerKey,
    pub(super) cost: u32,
    /// Whether it ends with its answer, or goes on as a stream.
    pub(super) is_stream: bool,
}

impl CallCharge {
    /// How a call to `path` (`/PACKAGE.SERVICE/METHOD`) is charged; `None`: not at all. The sessions of agents have
    /// connections of their own and one stream each, so users cannot keep them out.
    pub(super) fn of(path: &str, principal: &Principal) -> Option<Self> {
        let caller = match principal {
            Principal::Node(_) | Principal::Claimed(_) => return None,
            Principal::Operator => CallerKey::Operator,
            Principal::User(identity) => CallerKey::User(identity.user.clone()),
        };
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        if service.ends_with(".AgentService") || !service.starts_with("borough.") {
            return None;
        }
        let (kind, cost) = kind_of(method);
        let class = if caller == CallerKey::Operator { CallClass::Operator } else { kind };
        Some(Self { class, caller, cost, is_stream: kind == CallClass::Stream })
    }
}

/// The kind of a method, by the words that methods begin with, and its cost.
fn kind_of(method: &str) -> (CallClass, u32) {
    match method {
        "Watch" | "WatchEndpoints" | "ReadLogs" | "Exec" => (CallClass::Stream, LARGE),
        "PlanJob" | "ExplainTask" => (CallClass::List, LARGE),
        // They wait for the store or for other cells, and take no processor meanwhile.
        "PlanFederatedJob" | "GetJobHistory" | "ListAudit" | "ListAuditChunks" => (CallClass::Read, LARGE),
        _ if method.starts_with("List") => (CallClass::List, LARGE),
        _ if method.starts_with("Get") || method.starts_with("Check") => (CallClass::Read, 1),
        _ => (CallClass::Change, 1),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use borough_model::access::Identity;

    use super::*;
    use crate::cell::METHODS;

    #[test]
    fn every_method_has_a_class() {
        let mut classes = String::new();
        for rule in METHODS {
            let (class, cost) = kind_of(rule.name());
            if class == CallClass::Change {
                assert_eq!(cost, 1);
            }
            let reads = rule.name().starts_with("Get") || rule.name().starts_with("Check");
            if class != CallClass::Change && !(reads && cost == 1) {
                writeln!(classes, "{} {}", rule.name(), class.name()).unwrap();
            }
        }
        let expected = "ListCells list\nPlanJob list\nListJobs list\nGetJobHistory read\nListTasks list\nExplainTask list\nReadLogs stream\n\
                        Exec stream\nListNodes list\nListJoinTokens list\nListEndpoints list\nWatchEndpoints stream\n\
                        ListMergedServices list\nListMembers list\nPlanFederatedJob read\nListFederatedJobs list\nListQuotas list\n\
                        ListGrants list\nListHolders list\nListIdentityKeys list\nListAudit read\nListAuditChunks read\nWatch stream\nListEvents list\n";
        assert_eq!(classes, expected, "a new method: is it a change?");
    }

    #[test]
    fn users_are_charged_by_name_and_agents_not_at_all() {
        let identity = Identity { user: Name::new("ann").unwrap(), groups: Default::default() };
        let user = Principal::User(Arc::new(identity));
        let of =
            |path: &str, principal: &Principal| CallCharge::of(path, principal).map(|charge| charge.class);
        assert_eq!(of("/borough.v1.JobService/StopJob", &user), Some(CallClass::Change));
        assert_eq!(of("/borough.v1.WatchService/Watch", &user), Some(CallClass::Stream));
        assert_eq!(of("/borough.v1.WatchService/Watch", &Principal::Operator), Some(CallClass::Operator));
        assert_eq!(of("/borough.v1.AgentService/Session", &Principal::Operator), None);
        assert_eq!(of("/grpc.health.v1.Health/Check", &user), None);
        assert_eq!(of("/borough.v1.JobService/StopJob", &Principal::Node([].into())), None);
    }

    #[test]
    fn shares_leave_a_rest_and_nobody_without() {
        for seats in [16, 40, 512, 1_000_000] {
            let shares: u32 = CLASSES.iter().map(|class| class.share(seats)).sum();
            assert!(shares <= seats && CLASSES.iter().all(|class| class.share(seats) > 0), "{seats}");
        }
    }
}
