//! How a test's cell is to be.

use std::path::PathBuf;

use borough_kv::env::SeededRng;

/// Repeats a run: the seed of its faults.
const SEED_VARIABLE: &str = "BOROUGH_TEST_SEED";

/// A test is not to depend on how full the machine is that it runs on.
pub const NEVER_SHORT: [&str; 4] = ["--memory-low=0", "--memory-stalled=0", "--disk-low=0", "--pids-low=0"];

/// How a test's cell is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// The test target it is started from, as cargo names it.
    pub target: String,
    /// Nodes of each cell.
    pub nodes: u32,
    /// Scheduler workers of each cell.
    pub schedulers: u32,
    /// Schedulers of each cell whose jobs they place.
    pub served: Vec<String>,
    /// Cells.
    pub cells: Vec<String>,
    /// Milliseconds a silent node is waited for.
    pub lost_after_ms: u64,
    /// Where the faults of the store come from.
    pub seed: u64,
    /// Whether faults are injected.
    pub faults: bool,
    /// Cards of each node, as for `borough dev --card`.
    pub cards: Vec<String>,
    /// Arguments of the agents besides, as for `borough dev --agent-argument`.
    pub agent_arguments: Vec<String>,
    /// Arguments of `borough dev` besides.
    pub dev_arguments: Vec<String>,
    /// What a shell does before it becomes the control process, such as `ulimit -n 160`.
    pub prelude: Option<String>,
    /// Where the cell's directory is made; absent: where temporary files are.
    pub below: Option<PathBuf>,
    /// Where the control process is recorded; absent: as `below`.
    pub control_below: Option<PathBuf>,
}

impl Options {
    /// One cell of two nodes, with faults.
    ///
    /// # Panics
    /// Where `BOROUGH_TEST_SEED` is no number.
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

    /// The same with so many nodes.
    #[must_use]
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// The same with this tolerance, in milliseconds.
    #[must_use]
    pub fn lost_after_ms(self, lost_after_ms: u64) -> Self {
        Self { lost_after_ms, ..self }
    }

    /// The same with workers that place the jobs of these schedulers.
    #[must_use]
    pub fn served(self, schedulers: &[&str]) -> Self {
        Self { served: schedulers.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }

    /// The same with these cards on each node.
    #[must_use]
    pub fn cards(self, cards: &[&str]) -> Self {
        Self { cards: cards.iter().map(|card| (*card).to_owned()).collect(), ..self }
    }

    /// The same with these arguments of the agents besides. One that is given already is given again.
    #[must_use]
    pub fn agent_arguments(mut self, arguments: &[&str]) -> Self {
        let name = |argument: &str| argument.split('=').next().map(str::to_owned);
        self.agent_arguments.retain(|known| !arguments.iter().any(|argument| name(argument) == name(known)));
        self.agent_arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// The same with these arguments of `borough dev` besides.
    #[must_use]
    pub fn dev_arguments(self, arguments: &[&str]) -> Self {
        Self { dev_arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(), ..self }
    }

    /// What repeats the test `name`.
    pub fn repeat(&self, name: &str) -> String {
        let (seed, target) = (self.seed, &self.target);
        format!("{SEED_VARIABLE}={seed} cargo test -p borough-tests --test {target} -- --exact {name}")
    }
}
