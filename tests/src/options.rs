//! The options of a test's cell.

use std::path::PathBuf;

use borough_kv::env::SeededRng;

/// Sets the seed of the faults, to repeat a run.
const SEED_VARIABLE: &str = "BOROUGH_TEST_SEED";

/// Disables pressure taints, so that a test does not depend on the free resources of its machine.
pub const NEVER_SHORT: [&str; 4] = ["--memory-low=0", "--memory-stalled=0", "--disk-low=0", "--pids-low=0"];

/// The options of a test's cell.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// The test target that starts it, by cargo's name.
    pub target: String,
    pub nodes: u32,
    pub schedulers: u32,
    /// Schedulers whose jobs they place.
    pub served: Vec<String>,
    pub cells: Vec<String>,
    /// Milliseconds of silence after which a node is lost.
    pub lost_after_ms: u64,
    /// The seed of the store's faults.
    pub seed: u64,
    /// Whether faults are injected.
    pub faults: bool,
    /// Cards of each node, as for `borough dev --card`.
    pub cards: Vec<String>,
    /// Additional arguments of the agents, as for `borough dev --agent-argument`.
    pub agent_arguments: Vec<String>,
    /// Additional arguments of `borough dev`.
    pub dev_arguments: Vec<String>,
    /// A shell command before the shell becomes the control process, such as `ulimit -n 160`.
    pub prelude: Option<String>,
    /// The parent of the cell's directory; absent: that of temporary files.
    pub below: Option<PathBuf>,
    /// Where the control process is recorded; absent: as `below`.
    pub control_below: Option<PathBuf>,
}

impl Options {
    /// One cell of two nodes, with faults.
    ///
    /// # Panics
    /// `BOROUGH_TEST_SEED` is not a number.
    pub fn new(program: &str, target: &str) -> Self {
        let given = std::env::var(SEED_VARIABLE).ok();
        let given = given.map(|text| text.parse().expect("BOROUGH_TEST_SEED is a number"));
        Self {
            program: PathBuf::from(program),
            target: target.to_owned(),
            nodes: 2,
            schedulers: 2,
            served: vec!["default".to_owned()],
            cells: vec!["alpha".to_owned()],
            lost_after_ms: 60_000,
            // Short, so that people can type it.
            seed: given.unwrap_or_else(|| SeededRng::from_kernel().1 & 0xffff_ffff),
            faults: true,
            cards: Vec::new(),
            agent_arguments: NEVER_SHORT.map(str::to_owned).to_vec(),
            dev_arguments: Vec::new(),
            prelude: None,
            below: None,
            control_below: None,
        }
    }

    /// Sets the number of nodes.
    #[must_use]
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Sets the cells; the first is that of the client.
    #[must_use]
    pub fn cells(self, cells: &[&str]) -> Self {
        Self { cells: cells.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// Sets the tolerance of silence, in milliseconds.
    #[must_use]
    pub fn lost_after_ms(self, lost_after_ms: u64) -> Self {
        Self { lost_after_ms, ..self }
    }

    /// Sets the schedulers whose jobs the workers place.
    #[must_use]
    pub fn served(self, schedulers: &[&str]) -> Self {
        Self { served: schedulers.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// Sets the cards of each node.
    #[must_use]
    pub fn cards(self, cards: &[&str]) -> Self {
        Self { cards: cards.iter().map(|card| (*card).to_owned()).collect(), ..self }
    }

    /// Adds arguments of the agents. A repeated one is passed again.
    #[must_use]
    pub fn agent_arguments(mut self, arguments: &[&str]) -> Self {
        let name = |argument: &str| argument.split('=').next().map(str::to_owned);
        self.agent_arguments.retain(|known| !arguments.iter().any(|argument| name(argument) == name(known)));
        self.agent_arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Adds arguments of `borough dev`.
    #[must_use]
    pub fn dev_arguments(self, arguments: &[&str]) -> Self {
        Self { dev_arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(), ..self }
    }

    /// The command that repeats the test `name`.
    pub fn repeat(&self, name: &str) -> String {
        let (seed, target) = (self.seed, &self.target);
        format!("{SEED_VARIABLE}={seed} cargo test -p borough-tests --test {target} -- --exact {name}")
    }
}
