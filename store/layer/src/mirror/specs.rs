//! The specs of jobs in a mirror. It keeps them as stored bytes, because few are read again and a decoded one takes
//! several times as much. Specs that differ only in the job's name are kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_model::job::VERSIONS_KEPT_MAX;
use borough_model::{JobId, JobRow, JobSpec, Name};
use parking_lot::Mutex;

/// Decoded specs that are kept: about as many as one page of the journal concerns.
const DECODED_MAX: u64 = 256;

/// A version of a job's spec.
type SpecVersion = (JobId, u32);

/// A spec as it is kept: without the name of its job. To decode it takes microseconds, so that a reader of many does it
/// without the mirror's lock.
#[derive(Clone, Debug)]
pub struct StoredSpec(Arc<[u8]>);

impl StoredSpec {
    /// Returns true if `other` is kept in the same place, and so is equal.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The spec of the job called `name`.
    pub fn decoded(&self, name: &Name) -> Option<JobSpec> {
        let spec: JobSpec = minicbor::decode(&self.0)
            .inspect_err(|error| tracing::error!(%name, %error, "a spec cannot be decoded"))
            .ok()?;
        Some(JobSpec { name: name.clone(), ..spec })
    }
}

/// The specs of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct MirrorSpecs {
    versions: BTreeMap<SpecVersion, Arc<[u8]>>,
    /// The jobs with more versions than are kept for ever.
    many: BTreeSet<JobId>,
    /// The distinct bytes, with the number of versions that have them.
    users: BTreeMap<Arc<[u8]>, u32>,
    decoded: DecodedSpecs,
}

/// The specs are equal if their bytes are: what is decoded follows from them.
impl PartialEq for MirrorSpecs {
    fn eq(&self, other: &Self) -> bool {
        self.versions == other.versions
    }
}

impl MirrorSpecs {
    /// Adds a version, or replaces it.
    pub(super) fn put(&mut self, job: JobId, version: u32, spec: &JobSpec) {
        // Without its own name a spec equals those of its siblings. The job's row has the name.
        let nameless = JobSpec { name: spec.user.clone(), ..spec.clone() };
        let bytes = match minicbor::to_vec(&nameless) {
            Ok(bytes) => bytes,
            Err(error) => return tracing::error!(%job, %error, "a spec cannot be encoded"),
        };
        let known = self.users.get_key_value(bytes.as_slice()).map(|(known, _)| Arc::clone(known));
        let bytes = known.unwrap_or_else(|| Arc::from(bytes));
        *self.users.entry(Arc::clone(&bytes)).or_default() += 1;
        if let Some(before) = self.versions.insert((job, version), bytes) {
            self.unused(&before);
        }
        // Without a high number it has few.
        if usize::try_from(version).unwrap_or(usize::MAX) > VERSIONS_KEPT_MAX {
            self.many_follow(job);
        }
    }

    fn many_follow(&mut self, job: JobId) {
        if self.versions_of(job).nth(VERSIONS_KEPT_MAX).is_some() {
            self.many.insert(job);
        } else {
            self.many.remove(&job);
        }
    }

    /// The versions of a job, ascending.
    pub(super) fn versions_of(&self, job: JobId) -> impl Iterator<Item = u32> {
        self.versions.range((job, 0)..=(job, u32::MAX)).map(|((_, version), _)| *version)
    }

    /// The jobs with more versions than [`VERSIONS_KEPT_MAX`].
    pub(super) fn many(&self) -> &BTreeSet<JobId> {
        &self.many
    }

    /// Removes the versions of a job that are gone by its row.
    pub(super) fn forget_gone(&mut self, row: &JobRow) {
        let Some(gone) = row.gone_versions() else { return };
        let job = row.id;
        let versions = gone.among(self.versions_of(job).take_while(|version| *version < gone.below));
        for version in &versions {
            if let Some(bytes) = self.versions.remove(&(job, *version)) {
                self.unused(&bytes);
            }
        }
        if !versions.is_empty() {
            self.many_follow(job);
        }
    }

    /// Returns true if it has the version.
    pub(super) fn contains(&self, job: JobId, version: u32) -> bool {
        self.versions.contains_key(&(job, version))
    }

    /// Removes every version of a job.
    pub(super) fn remove(&mut self, job: JobId) {
        let versions = self.versions.range((job, 0)..=(job, u32::MAX)).map(|(key, _)| *key);
        for key in versions.collect::<Vec<_>>() {
            if let Some(bytes) = self.versions.remove(&key) {
                self.unused(&bytes);
            }
        }
        self.many.remove(&job);
    }

    fn unused(&mut self, bytes: &Arc<[u8]>) {
        let Some(users) = self.users.get_mut(bytes) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.users.remove(bytes);
        }
    }

    /// A version of a spec as it is kept.
    pub(super) fn stored(&self, job: JobId, version: u32) -> Option<StoredSpec> {
        self.versions.get(&(job, version)).map(|bytes| StoredSpec(Arc::clone(bytes)))
    }

    /// A version of the spec of a job called `name`.
    pub(super) fn get(&self, job: JobId, version: u32, name: &Name) -> Option<Arc<JobSpec>> {
        let stored = self.stored(job, version)?;
        self.decoded.get((job, version), || stored.decoded(name).map(Arc::new))
    }
}

/// The specs that were decoded last. A version never changes, so it is never stale.
#[derive(Debug, Default)]
struct DecodedSpecs(Mutex<BTreeMap<u64, (SpecVersion, Arc<JobSpec>)>>);

impl Clone for DecodedSpecs {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl DecodedSpecs {
    fn get(&self, key: SpecVersion, decode: impl FnOnce() -> Option<Arc<JobSpec>>) -> Option<Arc<JobSpec>> {
        let (JobId(job), version) = key;
        let place = job.wrapping_add(u64::from(version)) % DECODED_MAX;
        if let Some((known, spec)) = self.0.lock().get(&place)
            && *known == key
        {
            return Some(Arc::clone(spec));
        }
        let spec = decode()?;
        self.0.lock().insert(place, (key, Arc::clone(&spec)));
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use borough_model::job::JobKind;

    fn spec(name: &str, command: &str) -> JobSpec {
        let named = |text: &str| Name::new(text).unwrap();
        JobSpec::defaults(named("ann"), named(name), JobKind::Batch, vec![command.to_owned()])
    }

    #[test]
    fn specs_that_differ_in_the_name_are_kept_once_and_each_has_its_name() {
        let mut specs = MirrorSpecs::default();
        let given: Vec<JobSpec> = ["a", "b", "c"]
            .into_iter()
            .zip(["/bin/true", "/bin/true", "/bin/false"])
            .map(|(n, c)| spec(n, c))
            .collect();
        for (job, spec) in (1..).zip(&given) {
            specs.put(JobId(job), 1, spec);
            specs.put(JobId(job), 1, spec);
        }
        assert_eq!(specs.users.values().copied().collect::<Vec<_>>().iter().sum::<u32>(), 3);
        assert_eq!(specs.users.len(), 2);
        for _ in 0..2 {
            for (job, spec) in (1..).zip(&given) {
                assert_eq!(specs.get(JobId(job), 1, &spec.name).as_deref(), Some(spec));
                assert_eq!(specs.get(JobId(job + DECODED_MAX), 1, &spec.name), None);
            }
        }
        (1..=3).for_each(|job| specs.remove(JobId(job)));
        assert!(specs.users.is_empty() && specs.get(JobId(1), 1, &given[0].name).is_none());
    }
}
