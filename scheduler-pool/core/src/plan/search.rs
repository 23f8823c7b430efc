//! The searches of a plan: one for each class. Classes of one shape share their candidates.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_model::JobId;

use super::cache::PlanCache;
use super::candidates::{CandidateCache, SearchContext, candidates_begun};
use super::class::{ClassContext, ClassPlan};
use super::domain_set::{DomainSetId, DomainSets};
use super::equivalence::{SearchKey, search_keys};
use super::spread::JobPlan;
use super::{PlanCounters, PlanInput, PlanOverlays};
use crate::filter::Requirement;
use crate::node_order::{NodeOrder, StartOffset};
use crate::overlay::PlanOverlay;
use crate::preempt::VictimSearch;
use crate::scoring::{CellStats, Scorer};
use crate::seed::mixed;
use crate::tables::{Shape, ShapeId};

/// The searches of a plan, and the caches that they use.
pub(super) struct ClassSearches<'a, 'c> {
    input: PlanInput<'a>,
    cache: &'c mut PlanCache,
    stats: CellStats<'a>,
    /// The key of each class's search.
    search_key: Vec<SearchKey>,
    plans: Vec<Option<ClassPlan>>,
    /// The number of tasks of each search.
    members: Vec<usize>,
    /// The candidates of each shape.
    candidates: BTreeMap<ShapeId, CandidateCache>,
    pub domain_sets: DomainSets,
    /// The spread of each job that has preferences between domains.
    jobs: BTreeMap<JobId, JobPlan>,
    /// The spread of all other jobs.
    plain: JobPlan,
    pub counters: PlanCounters,
}

impl<'a, 'c> ClassSearches<'a, 'c> {
    pub(super) fn new(input: PlanInput<'a>, cache: &'c mut PlanCache) -> Self {
        let (search_key, members) = search_keys(input.tables, input.queue);
        let stats = CellStats::new(input.tables, std::mem::take(&mut cache.mix));
        Self {
            input,
            cache,
            stats,
            search_key,
            plans: members.iter().map(|_| None).collect(),
            members,
            candidates: BTreeMap::new(),
            domain_sets: DomainSets::default(),
            jobs: BTreeMap::new(),
            plain: JobPlan::plain(),
            counters: PlanCounters::default(),
        }
    }

    /// Puts the candidates into the cache for later plans. Returns what the searches cost.
    pub(super) fn finish(self) -> PlanCounters {
        self.cache.mix = self.stats.into_mix_cache();
        self.cache.put_back(self.candidates.into_iter().filter(|&(id, _)| !DomainSets::has(id)));
        self.counters
    }

    /// Drops the candidates that depend on rules between tasks.
    pub(super) fn void(&mut self) {
        self.candidates.retain(|_, candidates| !candidates.constrained());
    }

    /// The search of a class, in a domain set or anywhere.
    pub(super) fn search_key(&mut self, class: u32, domain_set: Option<DomainSetId>) -> Option<SearchKey> {
        let anywhere = *self.search_key.get(class as usize)?;
        let Some(domain_set) = domain_set else { return Some(anywhere) };
        let (made, new) =
            self.domain_sets.search_key(self.input.tables, anywhere, domain_set, self.plans.len())?;
        if new {
            self.plans.push(None);
            self.members.push(self.members.get(anywhere.number).copied().unwrap_or(1));
        }
        Some(made)
    }

    /// The requirement of a search that has begun.
    pub(super) fn requirement(&self, search_key: SearchKey) -> Option<&Requirement> {
        Some(&self.plans.get(search_key.number)?.as_ref()?.requirement)
    }

    fn shape(&self, id: ShapeId) -> Option<&Arc<Shape>> {
        self.domain_sets.shape(id).or_else(|| self.input.tables.shapes.get(id))
    }

    /// The requirement of a shape, and a new victim search for it.
    pub(super) fn victims_of(
        &self,
        class: u32,
        shape: ShapeId,
        generation: u32,
    ) -> Option<(Requirement, VictimSearch)> {
        let PlanInput { tables, start_offset, .. } = self.input;
        let search_key = self.search_key.get(class as usize)?;
        let members = self.members.get(search_key.number).copied().unwrap_or(1);
        let shape = self.shape(shape)?;
        let seed = start_offset.seed ^ shape.seed();
        let search = VictimSearch::new(tables, start_offset, seed, members, generation);
        Some((Requirement::of(shape, tables), search))
    }

    /// Counts a placed task in its job's spread, if a search follows that.
    pub(super) fn task_added(&mut self, job: JobId, node: u32) {
        self.domains_counted(job, node, |count| count.saturating_add(1));
    }

    /// Takes a task out of its job's spread.
    pub(super) fn task_removed(&mut self, job: JobId, node: u32) {
        self.domains_counted(job, node, |count| count.saturating_sub(1));
    }

    fn domains_counted(&mut self, job: JobId, node: u32, change: impl Fn(u32) -> u32) {
        if let Some(job) = self.jobs.get_mut(&job) {
            let domains = job.domains(&self.input.tables.nodes, node);
            job.counted(&domains, change);
        }
    }

    /// The best node of a search. The search begins at its first use. `avoid` is chosen only if it is the only one.
    pub(super) fn chosen(
        &mut self,
        overlays: &PlanOverlays<'_>,
        search_key: SearchKey,
        avoid: Option<u32>,
    ) -> Option<u32> {
        let SearchKey { number, domains_alike, job, shape } = search_key;
        if !domains_alike && !self.jobs.contains_key(&job) {
            self.jobs.insert(job, JobPlan::new(self.input.tables, job)?);
        }
        if self.plans.get(number)?.is_none() {
            let requirement = Requirement::of(self.shape(shape)?, self.input.tables);
            self.counters.classes += 1;
            let members = self.members.get(number).copied().unwrap_or(1);
            let begun = ClassPlan::new(requirement, members, &overlays.current);
            *self.plans.get_mut(number)? = Some(begun);
        }
        if !self.candidates.contains_key(&shape) {
            let candidates = self.candidates_of(overlays, search_key)?;
            self.candidates.insert(shape, candidates);
        }
        let job = if domains_alike { &mut self.plain } else { self.jobs.get_mut(&job)? };
        let mut context = ClassContext {
            overlay: &overlays.current,
            without_placements: &overlays.without_placements,
            candidates: self.candidates.get_mut(&shape)?,
            beyond: self.input.start_offset.beyond,
            now_ms: self.input.now_ms,
            counters: &mut self.counters,
        };
        self.plans.get_mut(number)?.as_mut()?.chosen(&mut context, job, avoid)
    }

    /// The candidates of a shape: those of an earlier plan, or an empty cache.
    fn candidates_of(
        &mut self,
        overlays: &PlanOverlays<'_>,
        search_key: SearchKey,
    ) -> Option<CandidateCache> {
        let PlanInput { tables, start_offset, now_ms, .. } = self.input;
        let id = search_key.shape;
        let requirement = &self.plans.get(search_key.number)?.as_ref()?.requirement;
        let on_domain_set = self.domain_sets.shape(id);
        let shape = on_domain_set.or_else(|| tables.shapes.get(id))?;
        let profile = shape.profile.unwrap_or(tables.settings.profile);
        let scorer = Arc::new(Scorer::new(profile, &self.stats, requirement));
        if on_domain_set.is_some() {
            return Some(candidates_on_domain_set(
                shape,
                requirement,
                &overlays.current,
                start_offset,
                &scorer,
            ));
        }
        let mut search = SearchContext {
            overlay: &overlays.without_placements,
            requirement,
            now_ms,
            scorer: &scorer,
            counters: &mut self.counters,
        };
        candidates_begun(&mut search, &overlays.current, id, start_offset, self.cache)
    }
}

/// The candidates of a class in a domain set.
fn candidates_on_domain_set(
    shape: &Arc<Shape>,
    requirement: &Requirement,
    overlay: &PlanOverlay<'_>,
    start_offset: StartOffset,
    scorer: &Arc<Scorer>,
) -> CandidateCache {
    let seed = mixed(start_offset.seed ^ shape.seed());
    let order = NodeOrder::new(overlay.nodes.count(), StartOffset::undivided(start_offset.seed), seed);
    CandidateCache::new(Arc::clone(shape), requirement, overlay, order, seed, Arc::clone(scorer))
}
