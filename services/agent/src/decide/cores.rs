//! Chooses an attempt's exclusive cores, and those that the other attempts share.
//!
//! The scheduler never charges a NUMA domain with more than its capacity, so enough whole cores are free for each
//! attempt that the node gets. The agent chooses them. The attempt keeps them until its release.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_proto::v1;

use super::state::AgentState;
use crate::attempt::AttemptId;

/// The cores of the machine, and their speed.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    /// Their numbers; empty if the machine does not show them.
    pub all: BTreeSet<u32>,
    /// The speed of one core, in thousandths of the reference core's.
    pub speed: u64,
}

impl Default for Cores {
    fn default() -> Self {
        Self { all: BTreeSet::new(), speed: 1000 }
    }
}

impl Cores {
    /// Converts processor time of the reference core to thousandths of a core of this machine.
    pub(crate) fn own_millis(&self, reference_millis: u64) -> u64 {
        reference_millis.saturating_mul(1000).div_ceil(self.speed.max(1))
    }

    /// Converts thousandths of a core of this machine to processor time of the reference core.
    pub(crate) fn reference_millis(&self, own_millis: u64) -> u64 {
        own_millis.saturating_mul(self.speed) / 1000
    }
}

/// The exclusive cores of all attempts.
pub(crate) fn cores_taken(state: &AgentState) -> BTreeSet<u32> {
    let open = state.attempts.values().filter(|attempt| attempt.record.released_ms.is_none());
    let exclusive = open.filter_map(|attempt| attempt.assignment.as_ref()).filter(|of| of.exclusive_cores);
    exclusive.flat_map(|assignment| assignment.cpus.iter().copied()).collect()
}

/// An assignment with the exclusive cores of its attempt, if it asks for any.
///
/// # Errors
/// Why it cannot be started, for people.
pub(crate) fn assignment_settled(
    state: &AgentState,
    assignment: Arc<v1::Assignment>,
) -> Result<Arc<v1::Assignment>, String> {
    if !assignment.exclusive_cores {
        return Ok(assignment);
    }
    let asked = assignment.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let own_millis = state.cores.own_millis(asked.map_or(0, |resources| resources.cpu_millis));
    let count = usize::try_from(own_millis.div_ceil(1000)).unwrap_or(usize::MAX);
    let taken = cores_taken(state);
    let free = assignment.cpus.iter().copied().filter(|core| !taken.contains(core));
    let chosen: Vec<u32> = free.take(count).collect();
    if chosen.len() < count || count == 0 {
        let of = assignment.cpus.len();
        return Err(format!(
            "of the {of} cores it may have, {} are free and {count} are asked for",
            chosen.len()
        ));
    }
    Ok(Arc::new(v1::Assignment { cpus: chosen, ..(*assignment).clone() }))
}

/// The cores of an attempt without exclusive ones: those of its assignment, or all, except other attempts' exclusive
/// cores. If none would be left, the attempt keeps its cores. Empty: any core.
pub(crate) fn cores_shared(
    assignment: &v1::Assignment,
    all: &BTreeSet<u32>,
    taken: &BTreeSet<u32>,
) -> Vec<u32> {
    let given = || -> BTreeSet<u32> { assignment.cpus.iter().copied().collect() };
    let of = if assignment.cpus.is_empty() { all.clone() } else { given() };
    let left: Vec<u32> = of.difference(taken).copied().collect();
    if left.is_empty() || taken.is_empty() { assignment.cpus.clone() } else { left }
}

/// The attempts to move, with their new cores: running attempts without exclusive cores that are not on these cores
/// yet. `known` has their present cores.
pub(crate) fn moves(
    state: &AgentState,
    known: &BTreeMap<AttemptId, Vec<u32>>,
) -> BTreeMap<AttemptId, Vec<u32>> {
    let taken = cores_taken(state);
    let running = state.attempts.iter().filter(|(_, attempt)| {
        attempt.record.started_ms.is_some() && attempt.record.released_ms.is_none() && !attempt.busy
    });
    let belongs = |(id, attempt): (&AttemptId, &super::AttemptState)| {
        let assignment = attempt.assignment.as_ref().filter(|assignment| !assignment.exclusive_cores)?;
        let shared = cores_shared(assignment, &state.cores.all, &taken);
        // An attempt that was confined before gets all cores, listed one by one.
        let shared = if shared.is_empty() { state.cores.all.iter().copied().collect() } else { shared };
        let first = || {
            if assignment.cpus.is_empty() {
                state.cores.all.iter().copied().collect()
            } else {
                assignment.cpus.clone()
            }
        };
        let there = known.get(id).cloned().unwrap_or_else(first);
        (there != shared).then(|| (id.clone(), shared))
    };
    running.filter_map(belongs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::AttemptState;

    fn id(index: u32) -> AttemptId {
        AttemptId::new("j0000000000000001", index, 1).unwrap()
    }

    fn assignment(cpu_millis: u64, cpus: &[u32], exclusive_cores: bool) -> Arc<v1::Assignment> {
        let resources = Some(v1::Resources { cpu_millis, ..v1::Resources::default() });
        let spec = Some(v1::TaskSpec { resources, ..v1::TaskSpec::default() });
        Arc::new(v1::Assignment { spec, cpus: cpus.to_vec(), exclusive_cores, ..v1::Assignment::default() })
    }

    fn state(speed: u64) -> AgentState {
        AgentState { cores: Cores { all: (0..4).collect(), speed }, ..AgentState::default() }
    }

    fn run(state: &mut AgentState, index: u32, assignment: &Arc<v1::Assignment>) {
        let mut attempt = AttemptState { assignment: Some(assignment.clone()), ..AttemptState::default() };
        attempt.record.started_ms = Some(1);
        state.attempts.insert(id(index), attempt);
    }

    #[test]
    fn cores_are_given_once_and_again_when_nothing_of_the_attempt_is_left() {
        let mut state = state(1000);
        let domain = [2, 3];
        let settled =
            |state: &AgentState, millis| assignment_settled(state, assignment(millis, &domain, true));
        let first = settled(&state, 1000).unwrap();
        assert_eq!(first.cpus, [2]);
        run(&mut state, 0, &first);
        let second = settled(&state, 1000).unwrap();
        assert_eq!(second.cpus, [3]);
        run(&mut state, 1, &second);
        let refused = settled(&state, 1000).unwrap_err();
        assert_eq!(refused, "of the 2 cores it may have, 0 are free and 1 are asked for");
        state.attempts.get_mut(&id(0)).unwrap().record.released_ms = Some(2);
        assert_eq!(settled(&state, 1000).unwrap().cpus, [2]);
        assert_eq!(cores_taken(&state), [3].into());
        let shared = assignment(100, &[], false);
        assert_eq!(assignment_settled(&state, shared.clone()), Ok(shared));
    }

    #[test]
    fn faster_cores_are_fewer_for_the_same_work() {
        let settled =
            |speed, millis| assignment_settled(&state(speed), assignment(millis, &[0, 1, 2, 3], true));
        assert_eq!(settled(2000, 4000).unwrap().cpus, [0, 1]);
        assert_eq!(settled(500, 1000).unwrap().cpus, [0, 1]);
        let cores = Cores { speed: 1500, ..Cores::default() };
        assert_eq!(
            (cores.own_millis(1500), cores.own_millis(100), cores.reference_millis(1000)),
            (1000, 67, 1500)
        );
    }

    #[test]
    fn others_keep_off_and_come_back() {
        let mut state = state(1000);
        run(&mut state, 0, &assignment(100, &[], false));
        run(&mut state, 1, &assignment(100, &[2, 3], false));
        let mut known = BTreeMap::new();
        assert_eq!(moves(&state, &known), BTreeMap::new());
        run(&mut state, 2, &assignment(1000, &[2], true));
        let moved = moves(&state, &known);
        assert_eq!(moved, [(id(0), vec![0, 1, 3]), (id(1), vec![3])].into());
        known.extend(moved);
        assert_eq!(moves(&state, &known), BTreeMap::new());
        state.attempts.get_mut(&id(2)).unwrap().record.released_ms = Some(2);
        assert_eq!(moves(&state, &known), [(id(0), vec![0, 1, 2, 3]), (id(1), vec![2, 3])].into());
        // If nothing would be left, the attempt shares cores rather than stop.
        run(&mut state, 2, &assignment(2000, &[2, 3], true));
        assert_eq!(
            cores_shared(&assignment(100, &[2, 3], false), &state.cores.all, &cores_taken(&state)),
            [2, 3]
        );
    }
}
