//! Collects the tasks to plan next. High priorities come first. Inside a priority the cell's queueing policy decides
//! (round-robin over users by default). The jobs of one user or queue go in the order of submission.

use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use borough_model::resource::resources_add;
use borough_model::{JobId, Resources, TaskId};

use super::division::JobSlices;
use super::open::{OpenJobs, OpenKey};
use super::pinned::Waiting;
use crate::count::CountChange;
use crate::plan::{PendingClass, PendingGang, PendingQueue, PendingTask};
use crate::preempt::PreemptionScope;
use crate::queueing::{Shares, Turn};
use crate::seed::turn_chance;
use crate::tables::{CellJob, CellTables, GangPart, GangParts, ShapeId};

/// How many items of one queue are tried after an item would exceed its limit.
const LIMITED_MAX: u32 = 64;

/// The part of a batch for the jobs that have waited longest: a sixteenth.
const AGED_PART: usize = 16;

/// A request for the next tasks of a queue.
pub(super) struct PendingRequest<'a> {
    pub open: &'a OpenJobs,
    /// Jobs for which this returns false are left out.
    pub wanted: &'a dyn Fn(JobId) -> bool,
    pub now_ms: i64,
    /// The most tasks. A gang is never cut.
    pub limit: usize,
}

/// The tasks that were collected.
pub(super) struct Collected {
    pub queue: PendingQueue,
    /// Jobs with only unschedulable tasks, with the shapes of those.
    pub to_park: Vec<(JobId, BTreeSet<ShapeId>)>,
}

/// Collects the tasks that are planned next.
pub(super) fn collected(
    tables: &CellTables,
    waiting: Waiting<'_>,
    request: &PendingRequest<'_>,
) -> Collected {
    let &PendingRequest { open, wanted, now_ms, limit } = request;
    let aged = if limit == usize::MAX { 0 } else { limit / AGED_PART };
    let mut collector = Collector::new(tables, Some(waiting), now_ms, limit - aged);
    collector.queue.later_ms = waiting.retry_next();
    let mut first = open.ordered.first();
    let mut lanes_before = 0;
    while let Some(of_priority) = first {
        let (lanes, next) = lanes_of(tables, open, of_priority, wanted, lanes_before);
        lanes_before += lanes.len();
        if !collector.turns(lanes) {
            collector.queue.more = true;
            break;
        }
        first = next;
    }
    if collector.queue.more && aged > 0 {
        collector.limit = limit;
        collector.aged(open, wanted, lanes_before);
    }
    Collected { queue: collector.queue, to_park: collector.to_park }
}

/// The members of a job's gang that still need a node, as a queue of their own, unschedulable or not. `None` if too few
/// of them want one now.
pub(crate) fn gang_queue(tables: &CellTables, job: JobId, now_ms: i64) -> Option<PendingQueue> {
    let mut collector = Collector::new(tables, None, now_ms, usize::MAX);
    let mut cursor = JobCursor::new(job, tables.jobs.get(&job)?, 0);
    let item = collector.gang_item(&mut cursor);
    matches!(item, PendingItem::Taken).then_some(collector.queue)
}

/// A task alone, as a queue of its own, unschedulable or not. `None` if it does not want a node.
pub(crate) fn task_queue(tables: &CellTables, task: TaskId) -> Option<PendingQueue> {
    let mut collector = Collector::new(tables, None, i64::MAX, 1);
    let mut cursor = JobCursor::new(task.job, tables.jobs.get(&task.job)?, 0);
    cursor.index = task.index;
    let item = collector.single_item(&mut cursor);
    let found = collector.queue.tasks.first().is_some_and(|found| found.task == task);
    (matches!(item, PendingItem::Taken) && found).then_some(collector.queue)
}

/// One lane for each user or queue with jobs of a priority, and the first job of the next priority. `first` is the
/// first job of the priority. A range query skips the other jobs of each lane. So a lane reads no more jobs than are
/// taken from it.
fn lanes_of<'a>(
    tables: &'a CellTables,
    open: &'a OpenJobs,
    first: &'a OpenKey,
    wanted: &'a dyn Fn(JobId) -> bool,
    before: usize,
) -> (Vec<Lane<'a>>, Option<&'a OpenKey>) {
    let mut lanes = Vec::new();
    let mut key = Some(first);
    while let Some(of_user) = key.filter(|key| key.priority == first.priority) {
        let number = u32::try_from(before + lanes.len() + 1).unwrap_or(u32::MAX);
        lanes.push(Lane::new(tables, open, of_user, wanted, number));
        let last = OpenKey { submitted_ms: i64::MAX, job: JobId(u64::MAX), ..of_user.clone() };
        key = open.ordered.range((Excluded(last), Unbounded)).next();
    }
    (lanes, key)
}

/// The jobs of one user, or of one queue, at one priority.
struct Lane<'a> {
    tables: &'a CellTables,
    open: &'a OpenJobs,
    first: &'a OpenKey,
    keys: Range<'a, OpenKey>,
    wanted: &'a dyn Fn(JobId) -> bool,
    number: u32,
    /// Items that were left out because they would exceed a limit.
    limited: u32,
    /// The present job.
    cursor: Option<JobCursor<'a>>,
}

impl<'a> Lane<'a> {
    fn new(
        tables: &'a CellTables,
        open: &'a OpenJobs,
        first: &'a OpenKey,
        wanted: &'a dyn Fn(JobId) -> bool,
        number: u32,
    ) -> Self {
        let keys = open.ordered.range(first..);
        Self { tables, open, first, keys, wanted, number, limited: 0, cursor: None }
    }

    /// The present job, or the next one.
    fn cursor(&mut self) -> Option<&mut JobCursor<'a>> {
        while self.cursor.is_none() {
            let of_lane = |key: &&OpenKey| key.priority == self.first.priority && key.turn == self.first.turn;
            let key = self.keys.next().filter(of_lane)?;
            if let Some(entry) = self.tables.jobs.get(&key.job).filter(|_| (self.wanted)(key.job)) {
                self.cursor = Some(JobCursor::of_queue(self.open, key.job, entry, self.number));
            }
        }
        self.cursor.as_mut()
    }
}

/// How far the tasks of a job have been collected.
struct JobCursor<'a> {
    job: JobId,
    entry: &'a CellJob,
    lane: u32,
    /// The slices of the queue; `None`: it has the whole job.
    slices: Option<JobSlices>,
    index: u32,
    gang_parts: GangParts,
    found_any: bool,
    /// A task in back-off: the job cannot be parked.
    later_any: bool,
    unschedulable: BTreeSet<ShapeId>,
    classes: BTreeMap<(ShapeId, PreemptionScope), u32>,
}

impl<'a> JobCursor<'a> {
    fn new(job: JobId, entry: &'a CellJob, lane: u32) -> Self {
        Self {
            job,
            entry,
            lane,
            slices: None,
            index: 0,
            gang_parts: entry.gang_parts(),
            found_any: false,
            later_any: false,
            unschedulable: BTreeSet::new(),
            classes: BTreeMap::new(),
        }
    }

    fn of_queue(open: &OpenJobs, job: JobId, entry: &'a CellJob, lane: u32) -> Self {
        Self { slices: open.slices.get(&job).copied(), ..Self::new(job, entry, lane) }
    }

    /// The next task that wants a node and belongs to the queue.
    fn open_next(&self) -> Option<u32> {
        let mut index = self.index;
        loop {
            let open = self.entry.open_next(index)?;
            index = self.slices.map_or(open, |slices| slices.own_next(open));
            if index == open {
                return Some(open);
            }
        }
    }
}

/// How many tasks and gangs a queue has at a moment.
#[derive(Clone, Copy)]
struct QueueLength {
    tasks: usize,
    gangs: usize,
}

impl QueueLength {
    fn of(queue: &PendingQueue) -> Self {
        Self { tasks: queue.tasks.len(), gangs: queue.gangs.len() }
    }
}

struct Collector<'a> {
    tables: &'a CellTables,
    now_ms: i64,
    limit: usize,
    /// The tasks that are left out. `None`: they are collected too.
    waiting: Option<Waiting<'a>>,
    queue: PendingQueue,
    /// Jobs with only unschedulable tasks.
    to_park: Vec<(JobId, BTreeSet<ShapeId>)>,
    /// The shares of everybody, the collected tasks included, if turns depend on shares.
    shares: Option<Shares>,
}

impl<'a> Collector<'a> {
    fn new(tables: &'a CellTables, waiting: Option<Waiting<'a>>, now_ms: i64, limit: usize) -> Self {
        Self {
            tables,
            now_ms,
            limit,
            waiting,
            queue: PendingQueue::default(),
            to_park: Vec::new(),
            shares: None,
        }
    }

    /// Takes one item per turn from the lanes until all are empty. Returns false if it reached the limit.
    fn turns(&mut self, lanes: Vec<Lane<'_>>) -> bool {
        if self.tables.settings.queueing.policy.shares() {
            self.by_share(lanes)
        } else {
            self.round_robin(lanes)
        }
    }

    /// Takes one item after the other from the lane with the smallest share, the collected items included. It leaves
    /// out an item that would exceed a limit, and tries those behind it.
    fn by_share(&mut self, mut lanes: Vec<Lane<'_>>) -> bool {
        let tables = self.tables;
        let queueing = &tables.settings.queueing;
        let chance = |turn: &Turn| turn_chance(tables.closed_total, turn);
        let mut shares = self.shares.take().unwrap_or_else(|| tables.shares());
        for (number, lane) in lanes.iter().enumerate() {
            shares.lane_put(queueing, &lane.first.turn, number, chance);
        }
        let mut all = true;
        while let Some(lane) = shares.next().and_then(|number| lanes.get_mut(number)) {
            if self.queue.tasks.len() >= self.limit {
                all = false;
                break;
            }
            let before = QueueLength::of(&self.queue);
            match self.lane_item(lane) {
                PendingItem::Taken if self.limited(&mut shares, &lane.first.turn, before) => {
                    lane.cursor = None;
                    lane.limited += 1;
                    if lane.limited >= LIMITED_MAX {
                        shares.lane_done(&lane.first.turn);
                    }
                }
                PendingItem::Taken => {}
                PendingItem::Full => {
                    all = false;
                    break;
                }
                PendingItem::None => shares.lane_done(&lane.first.turn),
            }
        }
        lanes.iter().for_each(|lane| shares.lane_done(&lane.first.turn));
        self.shares = Some(shares);
        all
    }

    /// Adds the tasks since `before` to the shares, or takes them out of the queue again if they would exceed a limit.
    fn limited(&mut self, shares: &mut Shares, turn: &Turn, before: QueueLength) -> bool {
        let QueueLength { tasks, gangs } = before;
        let need = self.queue.gangs.get(gangs).map_or(1, |gang| gang.need() as usize);
        let taken = self.queue.tasks.get(tasks..).unwrap_or_default();
        let specs = taken.iter().take(need).filter_map(|pending| {
            let (_, spec) = self.tables.jobs.get(&pending.task.job)?.spec.as_ref()?;
            Some(spec.resources_for(pending.task.index))
        });
        let asked = specs.fold(Resources::default(), |sum, one| resources_add(&sum, one).unwrap_or(sum));
        if shares.limited(turn, &asked).is_some() {
            self.queue.tasks.truncate(tasks);
            self.queue.gangs.truncate(gangs);
            return true;
        }
        shares.change(turn, &asked, CountChange::Add);
        false
    }

    /// Takes one item of each user, round and round, until all lanes are empty. Returns false if it reached the limit.
    /// Chance orders the users, and differs after each placement, so that a limit favours nobody for long. The order
    /// does not depend on which other users have work here.
    fn round_robin(&mut self, mut lanes: Vec<Lane<'_>>) -> bool {
        let turn = self.tables.closed_total;
        lanes.sort_by_cached_key(|lane| (turn_chance(turn, &lane.first.turn), &lane.first.turn));
        while !lanes.is_empty() {
            let mut done = Vec::new();
            for (number, lane) in lanes.iter_mut().enumerate() {
                if self.queue.tasks.len() >= self.limit {
                    return false;
                }
                match self.lane_item(lane) {
                    PendingItem::Taken => {}
                    PendingItem::Full => return false,
                    PendingItem::None => done.push(number),
                }
            }
            for number in done.into_iter().rev() {
                lanes.remove(number);
            }
        }
        true
    }

    fn lane_item(&mut self, lane: &mut Lane<'_>) -> PendingItem {
        while let Some(cursor) = lane.cursor() {
            let item = self.item(cursor);
            if !matches!(item, PendingItem::None) {
                return item;
            }
            if !cursor.found_any && !cursor.later_any && self.others_unschedulable(cursor) {
                self.to_park.push((cursor.job, std::mem::take(&mut cursor.unschedulable)));
            }
            lane.cursor = None;
        }
        PendingItem::None
    }

    /// Returns true if no task of other queues could be placed either. A job is parked as a whole.
    fn others_unschedulable(&mut self, cursor: &mut JobCursor<'_>) -> bool {
        if cursor.slices.take().is_none() {
            return true;
        }
        let later_ms = self.queue.later_ms;
        cursor.index = 0;
        let open = self.task_next(cursor).is_some();
        self.queue.later_ms = later_ms;
        !open && !cursor.later_any
    }

    /// Fills the rest of the limit with the jobs that have waited longest and have nothing in the queue yet.
    fn aged(&mut self, open: &OpenJobs, wanted: &dyn Fn(JobId) -> bool, lanes_before: usize) {
        let queued: BTreeSet<JobId> = self.queue.classes.iter().map(|class| class.job).collect();
        let waiting = open.aged.iter().map(|&(_, job)| job);
        let waiting = waiting.filter(|job| wanted(*job) && !queued.contains(job));
        for (number, job) in waiting.enumerate() {
            if self.queue.tasks.len() >= self.limit {
                return;
            }
            let Some(entry) = self.tables.jobs.get(&job) else { continue };
            let lane = u32::try_from(lanes_before + number + 1).unwrap_or(u32::MAX);
            let mut cursor = JobCursor::of_queue(open, job, entry, lane);
            let turn = entry.turn.clone().unwrap_or_default();
            if number == 0 && !cursor.gang_parts.is_empty() {
                let limit = std::mem::replace(&mut self.limit, usize::MAX);
                let before = QueueLength::of(&self.queue);
                if matches!(self.gang_item(&mut cursor), PendingItem::Taken) {
                    self.aged_limited(&turn, before);
                }
                self.limit = limit;
                continue;
            }
            while self.queue.tasks.len() < self.limit {
                let before = QueueLength::of(&self.queue);
                let taken = matches!(self.item(&mut cursor), PendingItem::Taken);
                if !taken || self.aged_limited(&turn, before) {
                    break;
                }
            }
        }
    }

    /// The limits of queues hold for those who have waited longest too.
    fn aged_limited(&mut self, turn: &Turn, before: QueueLength) -> bool {
        let Some(mut shares) = self.shares.take() else { return false };
        let limited = self.limited(&mut shares, turn, before);
        self.shares = Some(shares);
        limited
    }

    /// The next task of a job that may be placed now.
    fn task_next(&mut self, cursor: &mut JobCursor<'_>) -> Option<(u32, ShapeId)> {
        while let Some(index) = cursor.open_next() {
            cursor.index = index + 1;
            let not_before_ms = cursor.entry.task(index).map_or(i64::MIN, |slot| slot.not_before_ms);
            if not_before_ms > self.now_ms {
                cursor.later_any = true;
                let later_ms = self.queue.later_ms.unwrap_or(i64::MAX);
                self.queue.later_ms = Some(later_ms.min(not_before_ms));
                continue;
            }
            let task = TaskId { job: cursor.job, index };
            if self.waiting.is_some_and(|known| known.pinned.waits(task, cursor.entry.task(index))) {
                continue;
            }
            let Some(shape) = cursor.entry.shape_of(index) else { continue };
            let scope = || PreemptionScope::of_task(self.tables, cursor.entry, index);
            if self.waiting.is_some_and(|known| known.unschedulable.parks(shape, scope)) {
                cursor.unschedulable.insert(shape);
                if cursor.entry.task(index).is_none_or(|slot| !slot.evicted) {
                    cursor.index = cursor.entry.shape_end(index);
                }
                continue;
            }
            return Some((index, shape));
        }
        None
    }

    fn item(&mut self, cursor: &mut JobCursor<'_>) -> PendingItem {
        if self.waiting.is_some_and(|known| known.unschedulable.gang_reason(cursor.job).is_some()) {
            return PendingItem::None;
        }
        if cursor.gang_parts.is_empty() { self.single_item(cursor) } else { self.gang_item(cursor) }
    }

    fn single_item(&mut self, cursor: &mut JobCursor<'_>) -> PendingItem {
        let Some((index, shape)) = self.task_next(cursor) else { return PendingItem::None };
        self.task_push(cursor, index, shape, None);
        PendingItem::Taken
    }

    /// The tasks from which a gang chooses its members: of each role and shape as many as it needs, since equal ones
    /// serve equally. Other tasks of the job come later, once the gang is placed. No task of a gang runs before its
    /// gang does.
    fn gang_item(&mut self, cursor: &mut JobCursor<'_>) -> PendingItem {
        let parts = cursor.gang_parts.clone();
        let mut members = Vec::new();
        for part in &parts {
            let before = members.len();
            self.part_members(cursor, *part, &mut members);
            if members.len() - before < part.need as usize {
                return PendingItem::None;
            }
        }
        if !self.queue.tasks.is_empty() && self.queue.tasks.len().saturating_add(members.len()) > self.limit {
            return PendingItem::Full;
        }
        (cursor.gang_parts, cursor.index) = (GangParts::new(), u32::MAX);
        self.queue.gangs.push(PendingGang { job: cursor.job, parts });
        let gang = u32::try_from(self.queue.gangs.len() - 1).ok();
        for (index, shape) in members {
            self.task_push(cursor, index, shape, gang);
        }
        PendingItem::Taken
    }

    fn part_members(
        &mut self,
        cursor: &mut JobCursor<'_>,
        part: GangPart,
        members: &mut Vec<(u32, ShapeId)>,
    ) {
        let mut of_shape: BTreeMap<ShapeId, u32> = BTreeMap::new();
        cursor.index = part.first;
        while let Some((index, shape)) = self.task_next(cursor).filter(|&(index, _)| index < part.end) {
            let taken = of_shape.entry(shape).or_default();
            if *taken < part.need {
                *taken += 1;
                members.push((index, shape));
            } else {
                cursor.index = cursor.entry.shape_end(index);
            }
        }
    }

    fn task_push(&mut self, cursor: &mut JobCursor<'_>, index: u32, shape: ShapeId, gang: Option<u32>) {
        cursor.found_any = true;
        let classes = &mut self.queue.classes;
        let scope = PreemptionScope::of_task(self.tables, cursor.entry, index);
        let class = *cursor.classes.entry((shape, scope)).or_insert_with(|| {
            classes.push(PendingClass { job: cursor.job, shape, lane: cursor.lane, scope });
            u32::try_from(classes.len() - 1).unwrap_or(u32::MAX)
        });
        self.queue.tasks.push(PendingTask { task: TaskId { job: cursor.job, index }, class, gang });
    }
}

enum PendingItem {
    Taken,
    /// The next item would exceed the limit.
    Full,
    None,
}
