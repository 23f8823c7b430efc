//! Kinds of things in kubectl, nomad and docker.

/// Words for what a verb of kubectl is about, each with the noun of this program.
const NOUNS: [(&str, &str); 43] = [
    ("all", "job"),
    ("context", "context"),
    ("contexts", "context"),
    ("cronjob", "job"),
    ("cronjobs", "job"),
    ("daemonset", "job"),
    ("daemonsets", "job"),
    ("ds", "job"),
    ("quota", "quota"),
    ("quotas", "quota"),
    ("replicaset", "job"),
    ("replicasets", "job"),
    ("resourcequota", "quota"),
    ("rs", "job"),
    ("alloc", "task"),
    ("allocation", "task"),
    ("allocations", "task"),
    ("allocs", "task"),
    ("deploy", "job"),
    ("deployment", "job"),
    ("deployments", "job"),
    ("endpoints", "name"),
    ("ep", "name"),
    ("event", "event"),
    ("events", "event"),
    ("job", "job"),
    ("jobs", "job"),
    ("no", "node"),
    ("node", "node"),
    ("nodes", "node"),
    ("po", "task"),
    ("pod", "task"),
    ("pods", "task"),
    ("service", "name"),
    ("services", "name"),
    ("statefulset", "job"),
    ("statefulsets", "job"),
    ("sts", "job"),
    ("svc", "name"),
    ("task", "task"),
    ("tasks", "task"),
    ("cell", "cell"),
    ("cells", "cell"),
];

/// Kinds of kubectl that this program has no counterpart of.
pub(super) const KINDS_ELSEWHERE: [&str; 12] = [
    "cm",
    "configmap",
    "configmaps",
    "ing",
    "ingress",
    "namespace",
    "namespaces",
    "ns",
    "pv",
    "pvc",
    "secret",
    "secrets",
];

/// Whether a word is one for a kind of thing, such as `job` or `deployment`.
pub(crate) fn is_kind(word: &str) -> bool {
    noun_of(word).is_some()
}

/// The noun of this program for a kind of another one.
pub(super) fn noun_of(word: &str) -> Option<&'static str> {
    NOUNS.iter().find(|(known, _)| *known == word).map(|(_, noun)| *noun)
}
