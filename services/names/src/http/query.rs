//! The query of a request.

use std::collections::BTreeMap;
use std::time::Duration;

/// A blocking query waits this long unless it asks for another time.
const WAIT_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// A blocking query waits at most this long, whatever it asks for.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// Why a query is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum QueryError {
    #[error("index: {0:?} is no number; accepted: the X-Consul-Index of an earlier answer")]
    Index(String),
    #[error("wait: {0:?} is no time; accepted: a time such as 30s or 5m, at most 10m")]
    Wait(String),
    #[error("{0}: this catalogue does not filter by it; leave it out")]
    Unsupported(String),
    /// Without it the answer would be of everything, which nobody has asked for.
    #[error("{0}: there is no such parameter; accepted: {accepted}", accepted = TARGET_PARAMETERS.join(", "))]
    Unknown(String),
    #[error("{field}: {value:?} is no name; accepted: 1 to 63 of a-z, 0-9 and -, starting with a letter")]
    Name { field: &'static str, value: String },
}

/// The parameters of a request. One that is given again counts with its last value, except `tag`.
#[derive(Debug, Default)]
pub(super) struct HttpQuery {
    values: BTreeMap<String, String>,
    pub(super) tags: Vec<String>,
}

/// Parameters of the targets for Prometheus.
pub(super) const TARGET_PARAMETERS: [&str; 5] = ["cell", "user", "service", "job", "port"];

/// Parameters that would make the answer another one, and that nobody here understands.
const UNSUPPORTED: [&str; 3] = ["filter", "node-meta", "sameness-group"];

impl HttpQuery {
    pub(super) fn parse(text: &str) -> Result<Self, QueryError> {
        let mut query = Self::default();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            if UNSUPPORTED.contains(&&*key) && !value.is_empty() {
                return Err(QueryError::Unsupported(key.into_owned()));
            }
            match &*key {
                "tag" => query.tags.push(value.into_owned()),
                _ => drop(query.values.insert(key.into_owned(), value.into_owned())),
            }
        }
        Ok(query)
    }

    /// Refuses every parameter of which `accepted` says nothing.
    pub(super) fn only(&self, accepted: &[&str]) -> Result<(), QueryError> {
        let tag = (!self.tags.is_empty()).then_some("tag");
        let mut all = self.values.keys().map(String::as_str).chain(tag);
        let unknown = all.find(|key| !accepted.contains(key));
        unknown.map_or(Ok(()), |key| Err(QueryError::Unknown(key.to_owned())))
    }

    /// The value of a parameter, unless it is empty.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns true for `key`, `key=1` and `key=true`.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|value| !matches!(value.as_str(), "0" | "false"))
    }

    /// The index that the client has seen; `None`: it does not want to wait.
    pub(super) fn index(&self) -> Result<Option<u64>, QueryError> {
        let Some(text) = self.value("index") else { return Ok(None) };
        let index: u64 = text.parse().map_err(|_| QueryError::Index(text.to_owned()))?;
        Ok((index > 0).then_some(index))
    }

    /// How long to wait, with some jitter from `random`, so that clients do not come back all at once.
    pub(super) fn wait(&self, random: u64) -> Result<Duration, QueryError> {
        let wait = match self.value("wait") {
            None => WAIT_DEFAULT,
            Some(text) => {
                let bare = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{text}s"));
                let parsed = humantime::parse_duration(bare.as_deref().unwrap_or(text));
                parsed.map_err(|_| QueryError::Wait(text.to_owned()))?
            }
        };
        let wait = wait.min(WAIT_MAX);
        let jitter = u64::try_from((wait / 16).as_millis()).unwrap_or_default();
        Ok(wait + Duration::from_millis(random % jitter.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_bounded_and_bad_parameters_are_refused() {
        let wait = |text: &str, random| HttpQuery::parse(text).unwrap().wait(random);
        assert_eq!(wait("wait=10h", 0).unwrap(), WAIT_MAX);
        assert_eq!(wait("", 0).unwrap(), WAIT_DEFAULT);
        assert_eq!(wait("wait=1m30s", 0).unwrap(), Duration::from_secs(90));
        assert_eq!(wait("wait=30", 0).unwrap(), Duration::from_secs(30));
        for random in [1, 5_000, u64::MAX] {
            let jittered = wait("wait=16s", random).unwrap();
            assert!((16.0..=17.0).contains(&jittered.as_secs_f64()), "{jittered:?}");
        }
        assert_eq!(wait("wait=soon", 0), Err(QueryError::Wait("soon".to_owned())));
        let index = |text: &str| HttpQuery::parse(text).unwrap().index();
        assert_eq!((index("index=7"), index("index=0"), index("")), (Ok(Some(7)), Ok(None), Ok(None)));
        assert_eq!(index("index=-1"), Err(QueryError::Index("-1".to_owned())));
        let filter = HttpQuery::parse("filter=ServiceMeta.a%3D%3D1").unwrap_err();
        assert_eq!(filter, QueryError::Unsupported("filter".to_owned()));
        let only = |text: &str| HttpQuery::parse(text).unwrap().only(&TARGET_PARAMETERS);
        assert_eq!(only("job=web&cell=alpha"), Ok(()));
        assert_eq!(only("jobs=web"), Err(QueryError::Unknown("jobs".to_owned())));
        assert_eq!(only("job=web&tag=a"), Err(QueryError::Unknown("tag".to_owned())));
        let query = HttpQuery::parse("passing&tag=a%3Db&tag=c&dc=alpha").unwrap();
        assert_eq!((query.is_set("passing"), query.tags.len(), query.value("dc")), (true, 2, Some("alpha")));
        assert!(!HttpQuery::parse("passing=false").unwrap().is_set("passing"));
    }
}
