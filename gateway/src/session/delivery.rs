//! What is on its way to one agent, as data: commands that wait, in the order in which they matter, and chunks that the
//! agent has not acknowledged.
//!
//! A life has one command at a time, so what waits is bounded by the lives of the node. Stops and forgets go before
//! assignments: at most [`DESIRED_WINDOW_BYTES`] are on their way before a stop, however much waits. Each spec is sent
//! once, before the first assignment that refers to it, and dropped after the last forget of a life that does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use borough_model::JobId;
use borough_proto::bounds::{CHUNK_BYTES_MAX, CHUNK_ITEM_BYTES_MAX, DESIRED_ITEMS_MAX, DESIRED_WINDOW_BYTES};
use borough_proto::v1;
use prost::Message as _;

use super::desired::{Command, Life};

/// How long an agent has to acknowledge a chunk. It acknowledges as soon as it has taken it in; a minute is for a machine
/// that is short of everything.
pub const ACKNOWLEDGE_MAX: Duration = Duration::from_secs(60);
/// Bytes that stand around an item in a chunk, at most.
const ITEM_FRAME_BYTES: usize = 8;

/// Which spec: of which job, and its version.
pub type SpecKey = (JobId, u32);

/// A command as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Run a life, by this spec.
    Run(SpecKey, Box<v1::Assignment>),
    /// End a life.
    Stop(v1::StopCommand),
    /// Drop a life's record.
    Forget(v1::TaskLife),
}

/// Where items and specs come from: the cell's rows as they are now.
pub trait Rows {
    /// A life's command as it is sent; `None` where the rows lack what it takes.
    fn item(&self, life: Life, command: Command) -> Option<Item>;
    /// A spec as it is sent.
    fn spec(&self, key: SpecKey) -> Option<v1::SpecDelivery>;
}

/// The next chunk, and what came of the commands on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// To be sent.
    pub message: v1::Desired,
    /// Lives whose forget is in it.
    pub forgotten: Vec<Life>,
    /// Lives whose item is longer than any message takes, with its bytes: they were set aside.
    pub set_aside: Vec<(Life, usize)>,
    bytes: usize,
}

/// The agent has acknowledged what was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has acknowledged chunk {acknowledged}; the last one sent is {sent}")]
pub struct NeverSent {
    acknowledged: u64,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: Command,
    /// The full state is complete only with it.
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// To be begun.
    Begin,
    /// On its way.
    Within,
    /// Sent to its end, with this chunk.
    Sent(u64),
}

#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    sequence: u64,
    bytes: usize,
    sent_at: Duration,
}

/// What is on its way to one agent, in one session.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Stops and forgets.
    urgent: BTreeMap<Life, Waiting>,
    runs: BTreeMap<Life, Waiting>,
    /// Commands of the full state that wait.
    full_left: usize,
    full: Option<Full>,
    /// What the agent was last sent of each life.
    told: BTreeMap<Life, Command>,
    /// Specs the agent has, and the lives that refer to them.
    specs: BTreeMap<SpecKey, BTreeSet<Life>>,
    spec_of: BTreeMap<Life, SpecKey>,
    sequence: u64,
    acknowledged: u64,
    unacknowledged: VecDeque<Unacknowledged>,
}

impl Delivery {
    /// Has the full state sent, which is exactly these commands, whatever was sent before. Commands that waited are of
    /// before and are dropped.
    pub fn full(&mut self, commands: impl IntoIterator<Item = (Life, Command)>) {
        (self.urgent, self.runs) = (BTreeMap::new(), BTreeMap::new());
        self.told.clear();
        self.full_left = 0;
        self.full = Some(Full::Begin);
        for (life, command) in commands {
            self.full_left = self.full_left.saturating_add(1);
            self.wait(life, Waiting { command, full: true });
        }
    }

    /// Has a command sent, unless the agent was sent the same before. It takes the place of one that waits.
    pub fn command(&mut self, life: Life, command: Command) {
        let before = self.urgent.remove(&life).or_else(|| self.runs.remove(&life));
        if before.is_none() && self.told.get(&life) == Some(&command) {
            return;
        }
        self.wait(life, Waiting { command, full: before.is_some_and(|before| before.full) });
    }

    fn wait(&mut self, life: Life, waiting: Waiting) {
        match waiting.command {
            Command::Run => self.runs.insert(life, waiting),
            Command::Stop { .. } | Command::Forget => self.urgent.insert(life, waiting),
        };
    }

    /// Lives of which the agent was sent something in this session.
    pub fn told(&self) -> impl Iterator<Item = Life> + '_ {
        self.told.keys().copied()
    }

    /// Whether the agent has acknowledged a full state to its end.
    pub fn is_complete(&self) -> bool {
        matches!(self.full, Some(Full::Sent(sequence)) if sequence <= self.acknowledged)
    }

    /// The agent has applied every chunk up to `sequence`.
    pub fn acknowledged(&mut self, sequence: u64) -> Result<(), NeverSent> {
        if sequence > self.sequence {
            return Err(NeverSent { acknowledged: sequence, sent: self.sequence });
        }
        self.acknowledged = self.acknowledged.max(sequence);
        while self.unacknowledged.front().is_some_and(|first| first.sequence <= sequence) {
            self.unacknowledged.pop_front();
        }
        Ok(())
    }

    /// How long the oldest chunk has waited at `now` (monotonic) to be acknowledged; `None` where none waits.
    pub fn waiting(&self, now: Duration) -> Option<Duration> {
        self.unacknowledged.front().map(|first| now.saturating_sub(first.sent_at))
    }

    /// The next chunk to be sent at `now` (monotonic); `None` where nothing waits, or too much is unacknowledged.
    pub fn next(&mut self, rows: &impl Rows, now: Duration) -> Option<Chunk> {
        let begins = self.full == Some(Full::Begin);
        if (!begins && self.urgent.is_empty() && self.runs.is_empty()) || !self.has_credit() {
            return None;
        }
        let mut chunk = Chunk::default();
        if begins {
            chunk.message.full_begin = true;
            self.full = Some(Full::Within);
        }
        while let Some((&life, &waiting)) =
            self.urgent.first_key_value().or_else(|| self.runs.first_key_value())
        {
            if !self.item_add(&mut chunk, rows, life, waiting.command) {
                break;
            }
            self.urgent.remove(&life);
            self.runs.remove(&life);
            self.full_left = self.full_left.saturating_sub(usize::from(waiting.full));
        }
        let ends = self.full == Some(Full::Within) && self.full_left == 0;
        let silent = chunk.bytes == 0 && !begins && !ends;
        if silent {
            return (!chunk.set_aside.is_empty()).then_some(chunk);
        }
        self.sequence = self.sequence.saturating_add(1);
        if ends {
            chunk.message.full_end = true;
            self.full = Some(Full::Sent(self.sequence));
        }
        chunk.message.sequence = self.sequence;
        let bytes = chunk.message.encoded_len();
        self.unacknowledged.push_back(Unacknowledged { sequence: self.sequence, bytes, sent_at: now });
        Some(chunk)
    }

    /// Whether another chunk may be on its way. One may always, however long.
    fn has_credit(&self) -> bool {
        let bytes: usize = self.unacknowledged.iter().map(|chunk| chunk.bytes).sum();
        bytes == 0 || bytes.saturating_add(CHUNK_BYTES_MAX) <= DESIRED_WINDOW_BYTES
    }

    /// Adds a life's command to the chunk; `false` where the chunk is full before it. What the rows lack is dropped: a
    /// change of the rows brings it again.
    fn item_add(&mut self, chunk: &mut Chunk, rows: &impl Rows, life: Life, command: Command) -> bool {
        let Some(item) = rows.item(life, command) else { return true };
        match item {
            Item::Run(key, assignment) => {
                if !self.specs.contains_key(&key) {
                    let Some(spec) = rows.spec(key) else { return true };
                    match chunk.room(spec.encoded_len()) {
                        Room::Fits => chunk.message.specs.push(spec),
                        Room::Full => return false,
                        Room::Never(bytes) => return chunk.set_aside(life, bytes),
                    }
                    self.spec_use(life, key);
                }
                match chunk.room(assignment.encoded_len()) {
                    Room::Fits => chunk.message.assignments.push(*assignment),
                    Room::Full => return false,
                    Room::Never(bytes) => return chunk.set_aside(life, bytes),
                }
                self.spec_use(life, key);
            }
            Item::Stop(stop) => match chunk.room(stop.encoded_len()) {
                Room::Fits => chunk.message.stops.push(stop),
                Room::Full => return false,
                Room::Never(bytes) => return chunk.set_aside(life, bytes),
            },
            Item::Forget(forget) => {
                match chunk.room(forget.encoded_len().saturating_mul(2)) {
                    Room::Fits => chunk.message.forget.push(forget),
                    Room::Full => return false,
                    Room::Never(bytes) => return chunk.set_aside(life, bytes),
                }
                chunk.message.specs_dropped.extend(self.spec_unuse(life));
                chunk.forgotten.push(life);
                self.told.remove(&life);
                return true;
            }
        }
        self.told.insert(life, command);
        true
    }

    fn spec_use(&mut self, life: Life, key: SpecKey) {
        self.specs.entry(key).or_default().insert(life);
        if let Some(before) = self.spec_of.insert(life, key).filter(|before| *before != key)
            && let Some(lives) = self.specs.get_mut(&before)
        {
            lives.remove(&life);
        }
    }

    /// A life is forgotten: the spec that no other life refers to.
    fn spec_unuse(&mut self, life: Life) -> Option<v1::SpecReference> {
        let key = self.spec_of.remove(&life)?;
        let lives = self.specs.get_mut(&key)?;
        lives.remove(&life);
        if !lives.is_empty() {
            return None;
        }
        self.specs.remove(&key);
        Some(v1::SpecReference { job_id: key.0.to_string(), version: key.1 })
    }
}

/// Whether an item finds room.
enum Room {
    Fits,
    /// Not in this chunk.
    Full,
    /// In none: so many bytes.
    Never(usize),
}

impl Chunk {
    /// Counts an item of so many bytes in, where it fits.
    fn room(&mut self, item: usize) -> Room {
        if item > CHUNK_ITEM_BYTES_MAX {
            return Room::Never(item);
        }
        let bytes = self.bytes.saturating_add(item).saturating_add(ITEM_FRAME_BYTES);
        let v1::Desired { assignments, stops, forget, specs, specs_dropped, .. } = &self.message;
        let items = [assignments.len(), stops.len(), forget.len(), specs.len(), specs_dropped.len()];
        // A forget may take a dropped spec with it.
        let many = items.iter().sum::<usize>().saturating_add(2) > DESIRED_ITEMS_MAX;
        if self.bytes > 0 && (bytes > CHUNK_BYTES_MAX || many) {
            return Room::Full;
        }
        self.bytes = bytes;
        Room::Fits
    }

    fn set_aside(&mut self, life: Life, bytes: usize) -> bool {
        self.set_aside.push((life, bytes));
        true
    }
}
