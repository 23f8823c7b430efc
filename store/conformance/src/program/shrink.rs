//! A program and its simpler forms. proptest's state cannot leave its thread, so it gets a thread of its own. A future
//! that waits for an engine can then move to another thread.

use std::sync::mpsc;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::super::Wrong;
use super::generate;
use super::step::ProgramStep;

/// What to do with the present program.
enum ShrinkStep {
    Simplify,
    Complicate,
}

/// The program of a seed, and its simpler forms.
pub(super) struct Shrinker {
    asks: mpsc::Sender<ShrinkStep>,
    programs: mpsc::Receiver<Option<Vec<ProgramStep>>>,
}

impl Shrinker {
    /// The shrinker of `seed`.
    pub(super) fn start(seed: u64) -> Result<Self, Wrong> {
        let (asks, asked) = mpsc::channel();
        let (give, programs) = mpsc::channel();
        let run = move || {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_le_bytes());
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
            let mut runner = TestRunner::new_with_rng(Config::default(), rng);
            let Ok(mut tree) = generate::program().new_tree(&mut runner) else { return };
            // A receiver that is gone needs no more.
            let mut open = give.send(Some(tree.current())).is_ok();
            while open && let Ok(ask) = asked.recv() {
                let changed = match ask {
                    ShrinkStep::Simplify => tree.simplify(),
                    ShrinkStep::Complicate => tree.complicate(),
                };
                open = give.send(changed.then(|| tree.current())).is_ok();
            }
        };
        let thread = std::thread::Builder::new().name("programs".to_owned()).spawn(run);
        thread.map_err(|error| Wrong::Differs(format!("no thread for programs: {error}")))?;
        Ok(Self { asks, programs })
    }

    /// The program as it was generated.
    pub(super) fn first(&mut self) -> Result<Vec<ProgramStep>, Wrong> {
        let program = self.programs.recv().ok().flatten();
        program.ok_or_else(|| Wrong::Differs("no program was generated".to_owned()))
    }

    /// A simpler program, after one that failed.
    pub(super) fn simplify(&mut self) -> Option<Vec<ProgramStep>> {
        self.ask(ShrinkStep::Simplify)
    }

    /// A less simple program, after one that passed.
    pub(super) fn complicate(&mut self) -> Option<Vec<ProgramStep>> {
        self.ask(ShrinkStep::Complicate)
    }

    fn ask(&mut self, ask: ShrinkStep) -> Option<Vec<ProgramStep>> {
        self.asks.send(ask).ok()?;
        self.programs.recv().ok().flatten()
    }
}
