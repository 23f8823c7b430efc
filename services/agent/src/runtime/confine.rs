//! Keeps running attempts off cores that became another attempt's exclusive ones, and gives them back later.

use std::collections::{BTreeMap, BTreeSet};

use borough_shim::cgroup::Leaf;
use borough_shim::process::descendants;
use borough_shim::spec::Pinned;

use super::agent::Agent;
use crate::attempt::AttemptId;
use crate::decide::cores::moves;
use crate::event::Event;
use crate::topology::list_text;

/// How often an attempt's threads are listed: a later list shows threads that began meanwhile.
const LOOKS: usize = 8;

/// An attempt to be moved.
struct CgroupMove {
    id: AttemptId,
    leaf: Leaf,
    shim: Option<u32>,
    cores: Vec<u32>,
}

/// Begins to move the attempts that are on the wrong cores. One such move runs at a time.
pub(super) fn confine_begin(agent: &mut Agent) {
    if agent.confining {
        return;
    }
    let places = moves(&agent.state, &agent.placed);
    let moves: Vec<CgroupMove> = places
        .into_iter()
        .filter_map(|(id, cores)| {
            let leaf = agent.local.get(&id)?.leaf.clone();
            let shim = agent.state.attempts.get(&id)?.record.shim.map(|shim| shim.pid);
            Some(CgroupMove { id, leaf, shim, cores })
        })
        .collect();
    if moves.is_empty() {
        return;
    }
    agent.confining = true;
    let events = agent.starter.events.clone();
    tokio::task::spawn_blocking(move || {
        let moved = moves.into_iter().map(attempt_move).collect();
        events.send(Event::Confined(moved))
    });
}

/// Moves an attempt and returns its cores. A refused move (say, of an attempt that has just ended) is not tried again.
fn attempt_move(attempt: CgroupMove) -> (AttemptId, Vec<u32>) {
    if let Err(error) = attempt.leaf.cpus_set(&list_text(&attempt.cores)) {
        tracing::warn!(attempt = %attempt.id, %error, "the cgroup of an attempt stays on its cores");
    }
    let pinned = Pinned { cpus: attempt.cores.clone() };
    let mut seen = BTreeSet::new();
    for _ in 0..LOOKS {
        let mut processes = attempt.leaf.processes();
        processes.extend(attempt.shim.into_iter().flat_map(descendants));
        let threads: BTreeSet<u32> = processes.into_iter().flat_map(threads_of).collect();
        let new: Vec<u32> = threads.difference(&seen).copied().collect();
        if new.is_empty() {
            break;
        }
        for thread in new {
            if let Err(error) = pinned.apply_to(thread) {
                tracing::debug!(attempt = %attempt.id, thread, %error, "a thread stays on its cores");
            }
            seen.insert(thread);
        }
    }
    (attempt.id, attempt.cores)
}

fn threads_of(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Records the new cores of attempts.
pub(super) fn confined(agent: &mut Agent, moved: BTreeMap<AttemptId, Vec<u32>>) {
    agent.confining = false;
    agent.placed.extend(moved);
    let attempts = &agent.state.attempts;
    agent.placed.retain(|id, _| attempts.contains_key(id));
}
