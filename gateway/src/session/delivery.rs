//! What one agent has yet to receive, as data: waiting commands in their order of importance, and chunks that the agent
//! has not acknowledged.
//!
//! An attempt has one command at a time, so the attempts of the node bound the number of waiting commands. Stops and
//! forgets go before assignments: at most [`DESIRED_WINDOW_BYTES`] are on their way before a stop, however many
//! commands wait. Each spec is sent once, before the first assignment that refers to it. It is dropped after the last
//! forget of an attempt that refers to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use borough_model::JobId;
use borough_proto::bounds::{CHUNK_BYTES_MAX, CHUNK_ITEM_BYTES_MAX, DESIRED_ITEMS_MAX, DESIRED_WINDOW_BYTES};
use borough_proto::v1;
use prost::Message as _;

use super::desired::{Command, DesiredAttempt};
use super::failure::DesiredProgress;

/// How long an agent has to acknowledge a chunk. It acknowledges as soon as it has applied the chunk; a minute allows
/// for an overloaded machine.
pub const ACKNOWLEDGE_MAX: Duration = Duration::from_secs(60);
/// Most bytes that frame an item in a chunk.
const ITEM_FRAME_BYTES: usize = 8;

/// A spec: its job and its version.
pub type DeliverySpecKey = (JobId, u32);

/// A command as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryItem {
    /// Run an attempt, by this spec.
    Run(DeliverySpecKey, Box<v1::Assignment>),
    Stop(v1::StopCommand),
    /// Drop an attempt's record.
    Forget(v1::TaskAttempt),
}

/// The source of items and specs: the cell's present rows.
pub trait DeliverySource {
    /// The command of an attempt as it is sent; `None` if the rows lack what it needs.
    fn item(&self, attempt: DesiredAttempt, command: Command) -> Option<DeliveryItem>;
    /// A spec as it is sent.
    fn spec(&self, key: DeliverySpecKey) -> Option<v1::SpecDelivery>;
}

/// The next chunk, and the commands that it settles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveryChunk {
    pub message: v1::Desired,
    /// Attempts whose forget the chunk contains.
    pub forgotten: Vec<DesiredAttempt>,
    /// Attempts that were set aside, since their item is longer than any message can be, with its bytes.
    pub set_aside: Vec<(DesiredAttempt, usize)>,
    bytes: usize,
}

/// The agent has acknowledged a chunk that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has acknowledged chunk {acknowledged}; the last one sent is {sent}")]
pub struct NeverSent {
    acknowledged: u64,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
struct WaitingItems {
    command: Command,
    /// The full state is complete only with it.
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Begin,
    Within,
    /// All of it is sent; this chunk was the last.
    Sent(u64),
}

#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    sequence: u64,
    bytes: usize,
    sent_at: Duration,
}

/// The commands and chunks for one agent, in one session.
#[derive(Debug, Default)]
pub struct Delivery {
    /// Stops and forgets.
    urgent: BTreeMap<DesiredAttempt, WaitingItems>,
    runs: BTreeMap<DesiredAttempt, WaitingItems>,
    /// Waiting commands that belong to the full state.
    full_left: usize,
    full: Option<Full>,
    /// The last command that the agent was sent, per attempt.
    commands_sent: BTreeMap<DesiredAttempt, Command>,
    /// The specs that the agent has, with the attempts that refer to them.
    specs: BTreeMap<DeliverySpecKey, BTreeSet<DesiredAttempt>>,
    spec_of: BTreeMap<DesiredAttempt, DeliverySpecKey>,
    sequence: u64,
    acknowledged: u64,
    unacknowledged: VecDeque<Unacknowledged>,
}

impl Delivery {
    /// Sends the full state, which is exactly these commands. It replaces whatever was sent or waited before.
    pub fn full(&mut self, commands: impl IntoIterator<Item = (DesiredAttempt, Command)>) {
        (self.urgent, self.runs) = (BTreeMap::new(), BTreeMap::new());
        self.commands_sent.clear();
        self.full_left = 0;
        self.full = Some(Full::Begin);
        for (attempt, command) in commands {
            self.full_left = self.full_left.saturating_add(1);
            self.wait(attempt, WaitingItems { command, full: true });
        }
    }

    /// Sends a command, unless the agent was sent the same before. It replaces a waiting command of the attempt.
    pub fn command(&mut self, attempt: DesiredAttempt, command: Command) {
        let before = self.urgent.remove(&attempt).or_else(|| self.runs.remove(&attempt));
        if before.is_none() && self.commands_sent.get(&attempt) == Some(&command) {
            return;
        }
        self.wait(attempt, WaitingItems { command, full: before.is_some_and(|before| before.full) });
    }

    fn wait(&mut self, attempt: DesiredAttempt, waiting: WaitingItems) {
        match waiting.command {
            Command::Run | Command::Resize(_) => self.runs.insert(attempt, waiting),
            Command::Stop { .. } | Command::Forget => self.urgent.insert(attempt, waiting),
        };
    }

    /// The attempts about which this session has sent a command.
    pub fn commands_sent(&self) -> impl Iterator<Item = DesiredAttempt> + '_ {
        self.commands_sent.keys().copied()
    }

    /// How far the agent is with its desired state.
    pub fn progress(&self) -> DesiredProgress {
        if self.is_complete() { DesiredProgress::Complete } else { DesiredProgress::Partial }
    }

    /// Returns true if the agent has acknowledged a full state to its end.
    pub fn is_complete(&self) -> bool {
        matches!(self.full, Some(Full::Sent(sequence)) if sequence <= self.acknowledged)
    }

    /// Handles the acknowledgement of every chunk up to `sequence`.
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

    /// How long the oldest chunk has waited for its acknowledgement at `now` (monotonic); `None` if none waits.
    pub fn waiting(&self, now: Duration) -> Option<Duration> {
        self.unacknowledged.front().map(|first| now.saturating_sub(first.sent_at))
    }

    /// The next chunk to send at `now` (monotonic). `None` if nothing waits, or if too many bytes are unacknowledged.
    pub fn next(&mut self, rows: &impl DeliverySource, now: Duration) -> Option<DeliveryChunk> {
        let begins = self.full == Some(Full::Begin);
        if (!begins && self.urgent.is_empty() && self.runs.is_empty()) || !self.has_credit() {
            return None;
        }
        let mut chunk = DeliveryChunk::default();
        if begins {
            chunk.message.full_begin = true;
            self.full = Some(Full::Within);
        }
        while let Some((&attempt, &waiting)) =
            self.urgent.first_key_value().or_else(|| self.runs.first_key_value())
        {
            if !self.item_add(&mut chunk, rows, attempt, waiting.command) {
                break;
            }
            self.urgent.remove(&attempt);
            self.runs.remove(&attempt);
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

    /// Returns true if another chunk may be sent. One may always be, however long.
    fn has_credit(&self) -> bool {
        let bytes: usize = self.unacknowledged.iter().map(|chunk| chunk.bytes).sum();
        bytes == 0 || bytes.saturating_add(CHUNK_BYTES_MAX) <= DESIRED_WINDOW_BYTES
    }

    /// Adds an attempt's command to the chunk; `false` if the chunk is full. A command whose rows are missing is
    /// dropped: a change of the rows brings it again.
    fn item_add(
        &mut self,
        chunk: &mut DeliveryChunk,
        rows: &impl DeliverySource,
        attempt: DesiredAttempt,
        command: Command,
    ) -> bool {
        let Some(item) = rows.item(attempt, command) else { return true };
        match item {
            DeliveryItem::Run(key, assignment) => {
                if !self.specs.contains_key(&key) {
                    let Some(spec) = rows.spec(key) else { return true };
                    match chunk.fit(spec.encoded_len()) {
                        ItemFit::Fits => chunk.message.specs.push(spec),
                        ItemFit::Full => return false,
                        ItemFit::Never(bytes) => return chunk.set_aside(attempt, bytes),
                    }
                    self.spec_use(attempt, key);
                }
                match chunk.fit(assignment.encoded_len()) {
                    ItemFit::Fits => chunk.message.assignments.push(*assignment),
                    ItemFit::Full => return false,
                    ItemFit::Never(bytes) => return chunk.set_aside(attempt, bytes),
                }
                self.spec_use(attempt, key);
            }
            DeliveryItem::Stop(stop) => match chunk.fit(stop.encoded_len()) {
                ItemFit::Fits => chunk.message.stops.push(stop),
                ItemFit::Full => return false,
                ItemFit::Never(bytes) => return chunk.set_aside(attempt, bytes),
            },
            DeliveryItem::Forget(forget) => {
                match chunk.fit(forget.encoded_len().saturating_mul(2)) {
                    ItemFit::Fits => chunk.message.forget.push(forget),
                    ItemFit::Full => return false,
                    ItemFit::Never(bytes) => return chunk.set_aside(attempt, bytes),
                }
                chunk.message.specs_dropped.extend(self.spec_unuse(attempt));
                chunk.forgotten.push(attempt);
                self.commands_sent.remove(&attempt);
                return true;
            }
        }
        self.commands_sent.insert(attempt, command);
        true
    }

    fn spec_use(&mut self, attempt: DesiredAttempt, key: DeliverySpecKey) {
        self.specs.entry(key).or_default().insert(attempt);
        if let Some(before) = self.spec_of.insert(attempt, key).filter(|before| *before != key)
            && let Some(attempts) = self.specs.get_mut(&before)
        {
            attempts.remove(&attempt);
        }
    }

    /// Removes a forgotten attempt. Returns its spec if no other attempt refers to it.
    fn spec_unuse(&mut self, attempt: DesiredAttempt) -> Option<v1::SpecReference> {
        let key = self.spec_of.remove(&attempt)?;
        let attempts = self.specs.get_mut(&key)?;
        attempts.remove(&attempt);
        if !attempts.is_empty() {
            return None;
        }
        self.specs.remove(&key);
        Some(v1::SpecReference { job_id: key.0.to_string(), version: key.1 })
    }
}

/// Whether an item fits.
enum ItemFit {
    Fits,
    /// Not in this chunk.
    Full,
    /// Not in any chunk: the item has so many bytes.
    Never(usize),
}

impl DeliveryChunk {
    /// Counts an item of so many bytes if it fits.
    fn fit(&mut self, item: usize) -> ItemFit {
        if item > CHUNK_ITEM_BYTES_MAX {
            return ItemFit::Never(item);
        }
        let bytes = self.bytes.saturating_add(item).saturating_add(ITEM_FRAME_BYTES);
        let v1::Desired { assignments, stops, forget, specs, specs_dropped, .. } = &self.message;
        let items = [assignments.len(), stops.len(), forget.len(), specs.len(), specs_dropped.len()];
        // A forget may also drop a spec.
        let many = items.iter().sum::<usize>().saturating_add(2) > DESIRED_ITEMS_MAX;
        if self.bytes > 0 && (bytes > CHUNK_BYTES_MAX || many) {
            return ItemFit::Full;
        }
        self.bytes = bytes;
        ItemFit::Fits
    }

    fn set_aside(&mut self, attempt: DesiredAttempt, bytes: usize) -> bool {
        self.set_aside.push((attempt, bytes));
        true
    }
}
