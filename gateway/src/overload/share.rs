//! Who may work on a gateway now: a pure decision over seats, classes and callers.
//!
//! Each class of calls has a share of the seats for itself. What a class does not use, others may, as long as it can
//! have its share at once. So the sum over all classes of the larger of share and use never exceeds the seats. Within a
//! class, calls wait in a queue for each caller. The next is of the caller with the fewest seats in use. Among
//! those it is of the one that has had the least so far (start-time fair queueing, Goyal, Vin and Cheng 1997).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::class::{CLASSES, CallClass, CallerKey};
use crate::connection::CallLimits;

/// A call that waits, until its number is let in.
pub(super) type Ticket = u64;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It may be worked on.
    Open,
    /// It waits. [`Let`] has its ticket when it is let in, or thrown out.
    Waits(Ticket),
    /// So many of its caller, or of its class, wait already.
    Full,
}

/// What a change lets happen to calls that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Let {
    pub(super) entered: Vec<Ticket>,
    /// Left the queue for one of a caller with fewer.
    pub(super) thrown_out: Vec<Ticket>,
}

#[derive(Debug, Default)]
struct CallerState {
    used: u32,
    /// The virtual time at which its work so far ends.
    ends: u64,
    queue: VecDeque<(Ticket, u32)>,
}

#[derive(Debug, Default)]
struct ClassState {
    share: u32,
    used: u32,
    /// Virtual time: that of the call that was let in last.
    now: u64,
    waiting: usize,
    callers: BTreeMap<CallerKey, CallerState>,
    /// The callers with calls that wait, the next one first.
    order: BTreeSet<(u32, u64, CallerKey)>,
}

/// The seats of a gateway.
#[derive(Debug)]
pub(super) struct Seats {
    limits: CallLimits,
    classes: BTreeMap<CallClass, ClassState>,
    streams: BTreeMap<CallerKey, usize>,
    open_streams: usize,
    tickets: Ticket,
}

impl Seats {
    pub(super) fn new(limits: CallLimits) -> Self {
        let state =
            |class: CallClass| ClassState { share: class.share(limits.seats), ..ClassState::default() };
        let classes = CLASSES.into_iter().map(|class| (class, state(class))).collect();
        Self { limits, classes, streams: BTreeMap::new(), open_streams: 0, tickets: 0 }
    }

    /// Seats that are in use.
    pub(super) fn used(&self) -> u32 {
        self.classes.values().map(|class| class.used).sum()
    }

    /// Seats in use by a class, and calls that wait in it.
    pub(super) fn of(&self, class: CallClass) -> (u32, usize) {
        self.classes.get(&class).map_or((0, 0), |state| (state.used, state.waiting))
    }

    /// A call of this cost asks for its seats.
    pub(super) fn ask(&mut self, class: CallClass, caller: &CallerKey, cost: u32) -> (Entry, Let) {
        let (cost, limits) = (self.cost_of(class, cost), self.limits);
        let mut out = Let::default();
        let is_free = self.classes.get(&class).is_some_and(|state| state.waiting == 0);
        if is_free && self.has_room(class, caller, cost) {
            self.seat(class, caller, cost);
            return (Entry::Open, out);
        }
        let Some(state) = self.classes.get_mut(&class) else { return (Entry::Full, out) };
        let own = state.callers.get(caller).map_or(0, |known| known.queue.len());
        if own >= limits.waiting_per_caller {
            return (Entry::Full, out);
        }
        if state.waiting >= limits.waiting {
            match state.throw_out(own) {
                Some(ticket) => out.thrown_out.push(ticket),
                None => return (Entry::Full, out),
            }
        }
        self.tickets = self.tickets.saturating_add(1);
        let ticket = self.tickets;
        state.push(caller, ticket, cost);
        out.entered = self.let_in();
        // A caller below its bound passes those that wait for theirs.
        match out.entered.iter().position(|entered| *entered == ticket) {
            Some(at) => {
                out.entered.remove(at);
                (Entry::Open, out)
            }
            None => (Entry::Waits(ticket), out),
        }
    }

    /// The call of a caller with this cost is done.
    pub(super) fn done(&mut self, class: CallClass, caller: &CallerKey, cost: u32) -> Let {
        let cost = self.cost_of(class, cost);
        if let Some(state) = self.classes.get_mut(&class) {
            state.used = state.used.saturating_sub(cost);
            state.change(caller, |known| known.used = known.used.saturating_sub(cost));
        }
        Let { entered: self.let_in(), thrown_out: Vec::new() }
    }

    /// A call no longer waits. Returns false if it was let in or thrown out before.
    pub(super) fn give_up(&mut self, class: CallClass, caller: &CallerKey, ticket: Ticket) -> bool {
        let Some(state) = self.classes.get_mut(&class) else { return false };
        let mut found = false;
        state.change(caller, |known| {
            let before = known.queue.len();
            known.queue.retain(|(waits, _)| *waits != ticket);
            found = known.queue.len() < before;
        });
        state.waiting = state.waiting.saturating_sub(usize::from(found));
        found
    }

    /// Opens a stream of a caller, unless there are too many.
    pub(super) fn stream_open(&mut self, caller: &CallerKey) -> bool {
        let own = self.streams.get(caller).copied().unwrap_or(0);
        let is_user = matches!(caller, CallerKey::User(_));
        if self.open_streams >= self.limits.streams || (is_user && own >= self.limits.streams_per_caller()) {
            return false;
        }
        self.open_streams = self.open_streams.saturating_add(1);
        self.streams.insert(caller.clone(), own.saturating_add(1));
        true
    }

    pub(super) fn stream_close(&mut self, caller: &CallerKey) {
        let Some(own) = self.streams.get_mut(caller) else { return };
        *own = own.saturating_sub(1);
        self.open_streams = self.open_streams.saturating_sub(1);
        if *own == 0 {
            self.streams.remove(caller);
        }
    }

    /// Streams that are open.
    pub(super) fn streams(&self) -> usize {
        self.open_streams
    }

    /// No call costs more than the share of its class: it would never be let in.
    fn cost_of(&self, class: CallClass, cost: u32) -> u32 {
        self.classes.get(&class).map_or(cost, |state| cost.clamp(1, state.share))
    }

    /// The most seats that a class can ever have.
    fn most(&self, class: CallClass) -> u32 {
        let others = self.classes.iter().filter(|(other, _)| **other != class);
        let most = self.limits.seats.saturating_sub(others.map(|(_, state)| state.share).sum());
        if class == CallClass::List { most.min(self.limits.lists) } else { most }
    }

    fn has_room(&self, class: CallClass, caller: &CallerKey, cost: u32) -> bool {
        let held = |(other, state): (&CallClass, &ClassState)| {
            let used = if *other == class { state.used.saturating_add(cost) } else { state.used };
            used.max(state.share)
        };
        if self.classes.iter().map(held).sum::<u32>() > self.limits.seats {
            return false;
        }
        let most = self.most(class);
        let used = self.classes.get(&class).map_or(0, |state| state.used);
        if used > 0 && used.saturating_add(cost) > most {
            return false;
        }
        let own = self.classes.get(&class).and_then(|state| state.callers.get(caller));
        let own = own.map_or(0, |known| known.used);
        // One user never has all: the next one finds seats at once.
        !matches!(caller, CallerKey::User(_)) || own == 0 || own.saturating_add(cost) <= most - most / 4
    }

    fn seat(&mut self, class: CallClass, caller: &CallerKey, cost: u32) {
        let Some(state) = self.classes.get_mut(&class) else { return };
        state.used = state.used.saturating_add(cost);
        let now = state.now;
        let mut begins = now;
        state.change_or_add(caller, |known| {
            begins = known.ends.max(now);
            known.used = known.used.saturating_add(cost);
            known.ends = begins.saturating_add(u64::from(cost));
        });
        state.now = begins.max(now);
    }

    /// Lets in as many as there is room for.
    fn let_in(&mut self) -> Vec<Ticket> {
        let mut entered = Vec::new();
        for class in CLASSES {
            while let Some((caller, ticket, cost)) = self.next(class) {
                if let Some(state) = self.classes.get_mut(&class) {
                    state.change(&caller, |known| {
                        known.queue.pop_front();
                    });
                    state.waiting = state.waiting.saturating_sub(1);
                }
                self.seat(class, &caller, cost);
                entered.push(ticket);
            }
        }
        entered
    }

    /// The first call of a class, in the order of callers, that has room now.
    fn next(&self, class: CallClass) -> Option<(CallerKey, Ticket, u32)> {
        let state = self.classes.get(&class)?;
        for (_, _, caller) in &state.order {
            let (ticket, cost) = *state.callers.get(caller)?.queue.front()?;
            if self.has_room(class, caller, cost) {
                return Some((caller.clone(), ticket, cost));
            }
            // Those behind have as many seats or more. Only a user at the own bound is passed: operators have none.
            if !self.has_room(class, &CallerKey::Operator, cost) {
                return None;
            }
        }
        None
    }
}

impl ClassState {
    fn push(&mut self, caller: &CallerKey, ticket: Ticket, cost: u32) {
        self.waiting = self.waiting.saturating_add(1);
        self.change_or_add(caller, |known| known.queue.push_back((ticket, cost)));
    }

    /// Throws out the last call of the caller with the most that wait, if it has more than `own` and one.
    fn throw_out(&mut self, own: usize) -> Option<Ticket> {
        let most = self.callers.iter().max_by_key(|(_, known)| known.queue.len())?;
        let (caller, _) = Some(most).filter(|(_, known)| known.queue.len() > own.saturating_add(1))?;
        let (caller, mut ticket) = (caller.clone(), None);
        self.change(&caller, |known| ticket = known.queue.pop_back().map(|(ticket, _)| ticket));
        self.waiting = self.waiting.saturating_sub(usize::from(ticket.is_some()));
        ticket
    }

    fn change_or_add(&mut self, caller: &CallerKey, change: impl FnOnce(&mut CallerState)) {
        if !self.callers.contains_key(caller) {
            self.callers.insert(caller.clone(), CallerState::default());
        }
        self.change(caller, change);
    }

    /// Changes a caller, keeps the order, and forgets callers without calls.
    fn change(&mut self, caller: &CallerKey, change: impl FnOnce(&mut CallerState)) {
        let Some(known) = self.callers.get_mut(caller) else { return };
        if !known.queue.is_empty() {
            self.order.remove(&(known.used, known.ends, caller.clone()));
        }
        change(known);
        if !known.queue.is_empty() {
            self.order.insert((known.used, known.ends, caller.clone()));
        } else if known.used == 0 && known.ends <= self.now {
            self.callers.remove(caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use borough_model::Name;
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str) -> CallerKey {
        CallerKey::User(Name::new(name).unwrap())
    }

    fn seats() -> Seats {
        Seats::new(CallLimits { waiting_per_caller: 4, waiting: 10, streams: 8, ..CallLimits::of_seats(40) })
    }

    /// Fills the room of a class with calls of one caller, and returns how many were let in.
    fn fill(seats: &mut Seats, class: CallClass, caller: &CallerKey) -> u32 {
        let mut entered = 0;
        while seats.ask(class, caller, 1).0 == Entry::Open {
            entered += 1;
        }
        entered
    }

    #[test]
    fn a_storm_of_one_class_leaves_every_other_its_share() {
        let mut all = seats();
        let (hog, ann) = (user("hog"), user("ann"));
        let got = fill(&mut all, CallClass::List, &hog);
        assert!(got < all.most(CallClass::List), "one user never has all: {got}");
        for class in CLASSES.into_iter().filter(|class| *class != CallClass::List) {
            for _ in 0..class.share(40) {
                assert_eq!(all.ask(class, &CallerKey::Operator, 1).0, Entry::Open, "{class:?}");
            }
        }
        // Another user finds room in the class of the storm as well.
        assert_eq!(all.ask(CallClass::List, &ann, 1).0, Entry::Open);
    }

    /// Lists and plans take a processor each, so few are worked on at a time, and the queue is fair.
    #[test]
    fn few_lists_are_worked_on_at_a_time_for_each_processor() {
        let limits = CallLimits::of_seats(512).on_processors(2);
        let mut all = Seats::new(limits);
        let (hog, ann) = (user("hog"), user("ann"));
        let open = |all: &mut Seats, who: &CallerKey| all.ask(CallClass::List, who, 4).0;
        assert_eq!([(); 4].map(|()| open(&mut all, &hog) == Entry::Open), [true, true, true, false]);
        assert_eq!(open(&mut all, &ann), Entry::Open, "one user never has all");
        let Entry::Waits(ticket) = open(&mut all, &ann) else { panic!("all are taken") };
        let Entry::Waits(_) = open(&mut all, &user("bob")) else { panic!("all are taken") };
        let freed = all.done(CallClass::List, &ann, 4).entered;
        assert_eq!(freed.len(), 1);
        assert_ne!(freed, [ticket], "the one who has none is before her");
        assert_eq!(fill(&mut all, CallClass::Read, &ann), all.most(CallClass::Read) / 4 * 3, "others go on");
    }

    #[test]
    fn who_has_least_is_next() {
        let mut all = seats();
        let (hog, ann) = (user("hog"), user("ann"));
        let got = fill(&mut all, CallClass::Change, &hog);
        fill(&mut all, CallClass::Change, &CallerKey::Operator);
        let (entry, _) = all.ask(CallClass::Change, &ann, 1);
        let Entry::Waits(ticket) = entry else { panic!("{entry:?}") };
        assert!(got > 1);
        let freed = all.done(CallClass::Change, &hog, 1);
        assert_eq!(freed.entered, [ticket], "the storm waited before, and has more");
    }

    #[test]
    fn queues_are_bounded_and_the_longest_gives_way() {
        let mut all = seats();
        let names = ["a", "b", "c", "d"].map(user);
        fill(&mut all, CallClass::Read, &CallerKey::Operator);
        for (caller, count) in names.iter().zip([3, 4, 2, 0]) {
            for _ in 0..count {
                assert!(matches!(all.ask(CallClass::Read, caller, 1).0, Entry::Waits(_)));
            }
        }
        assert_eq!(all.ask(CallClass::Read, &names[1], 1), (Entry::Full, Let::default()), "its own bound");
        // The operator waits once, from the filling: the class is full.
        assert_eq!(all.of(CallClass::Read).1, 10);
        let (entry, changed) = all.ask(CallClass::Read, &names[3], 1);
        assert!(matches!(entry, Entry::Waits(_)));
        assert_eq!(changed.thrown_out.len(), 1, "the last call of b gives way");
        let b = all.classes[&CallClass::Read].callers[&names[1]].queue.len();
        assert_eq!((b, all.of(CallClass::Read).1), (3, 10));
    }

    #[test]
    fn streams_are_bounded_for_each_caller_and_in_all() {
        let mut all = seats();
        let (hog, ann) = (user("hog"), user("ann"));
        let opened = (0..8).filter(|_| all.stream_open(&hog)).count();
        assert_eq!(opened, 6);
        assert!(all.stream_open(&ann) && all.stream_open(&CallerKey::Operator) && !all.stream_open(&ann));
        all.stream_close(&hog);
        assert!(all.stream_open(&ann));
        assert_eq!(all.streams(), 8);
    }

    proptest! {
        /// Whatever comes and goes: no class takes the share of another, everybody who waits is let in once seats are
        /// free, and nothing is left when all is done.
        #[test]
        fn shares_hold_and_nobody_waits_for_ever(
            steps in prop::collection::vec((0_u8..4, 0_usize..5, 0_usize..4, 1_u32..6), 1..200)
        ) {
            let mut all = seats();
            let callers = [CallerKey::Operator, user("a"), user("b"), user("c")];
            let mut open: Vec<(CallClass, usize, u32)> = Vec::new();
            let mut waits: BTreeMap<Ticket, (CallClass, usize, u32)> = BTreeMap::new();
            let enter = |changed: Let, waits: &mut BTreeMap<Ticket, _>, open: &mut Vec<_>| {
                for ticket in changed.entered {
                    open.push(waits.remove(&ticket).expect("it waits"));
                }
                for ticket in changed.thrown_out {
                    waits.remove(&ticket).expect("it waits");
                }
            };
            for (step, class, caller, cost) in steps {
                let class = CLASSES[class];
                match step {
                    0 | 1 => {
                        let (entry, changed) = all.ask(class, &callers[caller], cost);
                        match entry {
                            Entry::Open => open.push((class, caller, cost)),
                            Entry::Waits(ticket) => drop(waits.insert(ticket, (class, caller, cost))),
                            Entry::Full => {}
                        }
                        enter(changed, &mut waits, &mut open);
                    }
                    2 if !open.is_empty() => {
                        let (class, caller, cost) = open.remove(caller % open.len());
                        let changed = all.done(class, &callers[caller], cost);
                        enter(changed, &mut waits, &mut open);
                    }
                    _ => {
                        if let Some((ticket, (class, caller, _))) = waits.pop_first() {
                            prop_assert!(all.give_up(class, &callers[caller], ticket));
                        }
                    }
                }
                let held: u32 = all.classes.values().map(|state| state.used.max(state.share)).sum();
                prop_assert!(held <= 40, "{held}");
                let waiting: usize = all.classes.values().map(|state| state.waiting).sum();
                prop_assert_eq!(waiting, waits.len());
            }
            while let Some((class, caller, cost)) = open.pop() {
                let changed = all.done(class, &callers[caller], cost);
                enter(changed, &mut waits, &mut open);
            }
            prop_assert!(waits.is_empty(), "{waits:?}");
            prop_assert_eq!(all.used(), 0);
            prop_assert!(all.classes.values().all(|state| state.order.is_empty()));
        }
    }
}
