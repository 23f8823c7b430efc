//! Injects faults: everything that the plan allows, drawn from the seed.

use std::sync::atomic::Ordering;

use borough_testkit::rng_of;

use crate::network::Host;
use crate::plan::Plan;
use crate::world::{
    GATEWAYS, LOST_AFTER_MS, NODES, WORKERS, World, controller_host, gateway_host, node_host, worker_host,
};

/// An hour and a day, in milliseconds.
const JUMPS_MS: [i64; 4] = [3_600_000, -3_600_000, 86_400_000, -86_400_000];
/// Controllers of the cell, one of which leads.
pub(crate) const CONTROLLERS: usize = 2;
/// How long a machine is away that stands for one away for an hour, in milliseconds. All tolerances are shorter here
/// too.
const AWAY_MS: u64 = 6 * LOST_AFTER_MS;

/// A fault that ends by itself at a time.
enum Undo {
    Mend(Host, Host),
    Descriptors(Host),
    DiskSpace(Host),
    Begin(Host),
    CloneGone(Host),
    GateOpen,
}

pub(crate) struct Disturber {
    plan: Plan,
    next_ms: u64,
    undo: Vec<(u64, Undo)>,
    /// How often each kind of fault was injected.
    pub met: std::collections::BTreeMap<&'static str, u64>,
}

impl Disturber {
    /// A disturber that waits until all roles are there.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), next_ms: 2_000, undo: Vec::new(), met: std::collections::BTreeMap::new() }
    }

    pub(crate) fn begin(&self, world: &mut World) {
        world.shared_address = self.plan.is_on("shared_address");
        (0..GATEWAYS).for_each(|number| world.gateway_begin(number));
        (0..WORKERS).for_each(|place| world.worker_begin(place));
        (0..CONTROLLERS).for_each(|number| world.controller_begin(number));
        (0..NODES).for_each(|number| agent_begin(world, number));
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, world: &mut World) {
        let (due, later) = self.undo.drain(..).partition(|(at_ms, _)| *at_ms <= world.now_ms);
        self.undo = later;
        let due: Vec<(u64, Undo)> = due;
        due.into_iter().for_each(|(_, undo)| undone(world, undo));
        if world.now_ms >= self.next_ms {
            self.next_ms = world.now_ms + 50 + world.below(900);
            let all = self.plan.of(crate::plan::ALL);
            if !all.is_empty() {
                let which = all[usize::try_from(world.below(u64::try_from(all.len()).unwrap())).unwrap()];
                self.inject(world, which);
            }
        }
    }

    pub(crate) fn calm(&mut self, world: &mut World) {
        for (_, undo) in std::mem::take(&mut self.undo) {
            undone(world, undo);
        }
        world.network.heal();
        for skew in world.skews.values() {
            skew.store(0, Ordering::Relaxed);
        }
        let now_ms = world.now_ms;
        world.roles.values_mut().for_each(|role| role.paused_until_ms = now_ms);
        world.machines.values().for_each(|machine| {
            machine.disk_full(false);
            machine.calm();
        });
    }

    fn later(&mut self, world: &World, wait_ms: u64, undo: Undo) {
        self.undo.push((world.now_ms + wait_ms, undo));
    }

    fn inject(&mut self, world: &mut World, which: &'static str) {
        let gateway = usize::try_from(world.below(u64::try_from(GATEWAYS).unwrap())).unwrap();
        let node = usize::try_from(world.below(u64::try_from(NODES).unwrap())).unwrap();
        let place = u32::try_from(world.below(u64::from(WORKERS))).unwrap();
        let controller = usize::try_from(world.below(u64::try_from(CONTROLLERS).unwrap())).unwrap();
        let (gateway_at, node_at) = (gateway_host(gateway), node_host(node));
        let long_ms = 200 + world.below(2 * LOST_AFTER_MS);
        world
            .trace
            .note(format_args!("inject {which} {gateway_at} {node_at} {place} {controller} {long_ms}"));
        *self.met.entry(which).or_default() += 1;
        match which {
            "pause_gateway" => pause(world, &gateway_at, long_ms),
            "pause_worker" => pause(world, &worker_host(place), long_ms),
            "pause_controller" => pause(world, &controller_host(controller), long_ms),
            "pause_agent" => pause(world, &node_at, long_ms),
            "kill_gateway" => world.gateway_begin(gateway),
            "kill_worker" => world.worker_begin(place),
            "kill_controller" => world.controller_begin(controller),
            "kill_agent" if world.roles.contains_key(&node_at) => {
                world.kill(&node_at);
                self.later(world, 50 + long_ms / 8, Undo::Begin(node_at));
            }
            "reboot" | "away_long" if world.roles.contains_key(&node_at) => {
                world.network.vanish(&node_at);
                world.kill(&node_at);
                if let Some(machine) = world.machines.get(&node_at) {
                    machine.reboot();
                }
                let away_ms = if which == "reboot" { 300 + long_ms / 4 } else { AWAY_MS };
                self.later(world, away_ms, Undo::Begin(node_at));
            }
            "clone" => self.clone(world, node),
            "link_cut" => {
                world.network.cut(&gateway_at, &node_at);
                self.later(world, long_ms, Undo::Mend(gateway_at, node_at));
            }
            "link_reset" => world.network.reset(&gateway_at, &node_at),
            "half_close" if world.below(2) == 0 => world.network.half_close(&gateway_at, &node_at),
            "half_close" => world.network.half_close(&node_at, &gateway_at),
            "descriptors" => {
                world.network.full_set(&gateway_at, true);
                self.later(world, long_ms, Undo::Descriptors(gateway_at));
            }
            "agent_disk_full" => {
                if let Some(machine) = world.machines.get(&node_at) {
                    machine.disk_full(true);
                    self.later(world, long_ms, Undo::DiskSpace(node_at));
                }
            }
            "clock_jump" => clock_jump(world),
            "cell_drain" => {
                world.gate_set(false);
                self.later(world, long_ms / 2, Undo::GateOpen);
            }
            // Operators do the rest, or the host is away already.
            _ => {}
        }
    }

    /// A second machine, made from the image of the first, starts an agent of the same name.
    fn clone(&mut self, world: &mut World, node: usize) {
        let (of, twin): (Host, Host) = (node_host(node), format!("{}-twin", node_host(node)).into());
        if world.roles.contains_key(&twin) || !world.roles.contains_key(&of) {
            return;
        }
        let Some(machine) = world.machines.get(&of) else { return };
        let copy = machine.cloned(&twin, rng_of(world.seed, 700 + world.now_ms));
        world.machines.insert(twin.clone(), copy);
        world.agent_begin(&twin, &of, node + NODES);
        self.later(world, 4_000 + world.below(6_000), Undo::CloneGone(twin));
    }
}

fn agent_begin(world: &mut World, number: usize) {
    let host = node_host(number);
    world.agent_begin(&host, &host, number);
}

fn pause(world: &mut World, host: &Host, long_ms: u64) {
    let until_ms = world.now_ms + long_ms;
    world.pause_max_ms = world.pause_max_ms.max(long_ms);
    if let Some(role) = world.roles.get_mut(host) {
        role.paused_until_ms = until_ms;
    }
}

/// The wall clock of one host is off from now on.
fn clock_jump(world: &mut World) {
    let at = usize::try_from(world.below(u64::try_from(world.skews.len()).unwrap())).unwrap();
    let jump = JUMPS_MS[usize::try_from(world.below(4)).unwrap()];
    let host = world.skews.keys().nth(at).cloned();
    if let Some(skew) = host.and_then(|host| world.skews.get(&host).cloned()) {
        skew.store(jump, Ordering::Relaxed);
    }
}

fn undone(world: &mut World, undo: Undo) {
    match undo {
        Undo::Mend(one, other) => world.network.mend(&one, &other),
        Undo::Descriptors(host) => world.network.full_set(&host, false),
        Undo::DiskSpace(host) => {
            world.machines.get(&host).into_iter().for_each(|machine| machine.disk_full(false))
        }
        Undo::GateOpen => world.gate_set(true),
        Undo::Begin(host) => {
            let number = (0..NODES).find(|number| node_host(*number) == host);
            number.into_iter().for_each(|number| agent_begin(world, number));
        }
        Undo::CloneGone(host) => {
            world.network.vanish(&host);
            world.kill(&host);
            if let Some(machine) = world.machines.remove(&host) {
                machine.reboot();
            }
        }
    }
}
