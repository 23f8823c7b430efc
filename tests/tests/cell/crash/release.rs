//! The versions of a job that a run rolls out. Together they meet every transition.

/// What a version of the job is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It replaces one task after the other.
    Plain,
    /// The same, while a further task surges.
    Surged,
    /// Another weight, which the running tasks adopt.
    Weight,
    /// Other amounts, which the running tasks get in place.
    Resize,
    /// The same, but a node has no room for them: a task surges after all.
    Outgrown,
    /// It is tried by a canary, and promotes itself.
    AutoCanary,
    /// It is tried by a canary that begins again. Its owner promotes it.
    HandCanary,
    /// Its tasks fail, so that it is taken back.
    Broken,
    /// Its owner pauses it, and resumes it.
    Paused,
    /// Its owner takes it back in its middle.
    Undone,
}

/// In this order: a change of `update` concerns each task, so the releases in place keep that of the one before.
pub(crate) const RELEASES: [Release; 10] = [
    Release::Plain,
    Release::Surged,
    Release::Weight,
    Release::Resize,
    Release::Outgrown,
    Release::AutoCanary,
    Release::HandCanary,
    Release::Broken,
    Release::Paused,
    Release::Undone,
];

/// What a task gets and shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub word: String,
    pub weight: u32,
    pub cpu_millis: u64,
    pub memory_mib: u64,
}

/// Processor time of a task of [`Release::Outgrown`], and of the job that takes the room on one node. Of a node's 1,000
/// there is no room for both, and there is room on the other one for all tasks and one that surges.
const OUTGROWN_MILLIS: u64 = 240;
const FILLER_MILLIS: u64 = 800;

impl Release {
    /// What the tasks have after it, if it is not taken back.
    pub(crate) fn amounts(self, before: &Amounts, at: usize) -> Amounts {
        let mut amounts = before.clone();
        match self {
            Self::Weight => amounts.weight = before.weight % 5 + 1,
            Self::Resize => amounts.memory_mib = 28 - before.memory_mib,
            Self::Outgrown => amounts.cpu_millis = OUTGROWN_MILLIS,
            _ => {
                amounts.word = format!("v{at}");
                amounts.cpu_millis = 10;
            }
        }
        amounts
    }

    /// Whether the tasks have the amounts of before again when it is over.
    pub(crate) fn is_taken_back(self) -> bool {
        matches!(self, Self::Broken | Self::Undone)
    }

    fn update(self) -> &'static str {
        match self {
            Self::Plain | Self::Broken => "healthy_after: 100ms",
            Self::Surged | Self::Weight | Self::Resize | Self::Outgrown => {
                "healthy_after: 100ms, surge_max: 1"
            }
            Self::AutoCanary => "healthy_after: 100ms, canaries: 1, auto_promote: true",
            // So that the controller notices on a busy machine, too, that the canary has begun again.
            Self::HandCanary => "healthy_after: 2s, canaries: 1",
            // So that there is time for an order in the middle of them.
            Self::Paused | Self::Undone => "healthy_after: 700ms",
        }
    }

    /// The job file of the release.
    pub(crate) fn file(self, count: u32, amounts: &Amounts) -> String {
        let end = if self == Self::Broken { "exit 7" } else { "exec sleep 600" };
        let Amounts { word, weight, cpu_millis, memory_mib } = amounts;
        format!(
            "name: web\ncount: {count}\nupdate: {{{}, failures_max: 1}}\nrestart: {{mode: always, backoff: 100ms}}\n\
             task: {{command: [sh, -c, 'echo {word}; {end}'], ports: [http], weight: {weight}, resources: {{cpu: \
             {cpu_millis}m, memory: {memory_mib}MiB}}, grace: 300ms}}\n",
            self.update()
        )
    }

    /// How many attempts of a task a rollout begins, at least and at most.
    pub(crate) fn begun(self, index: u32) -> (u64, u64) {
        match self {
            Self::Weight | Self::Resize => (0, 0),
            Self::Plain | Self::Surged | Self::AutoCanary | Self::HandCanary | Self::Paused => (1, 1),
            // Those on the node without room are replaced, and the others are resized.
            Self::Outgrown => (u64::from(index == 0), 1),
            Self::Broken if index == 0 => (2, u64::MAX),
            Self::Broken => (0, 0),
            Self::Undone => (0, 2),
        }
    }
}

/// The file of a job that takes the room on a node.
pub(crate) fn filler(node: &str) -> String {
    format!(
        "name: filler\nconstraints: ['node.name == {node}']\ntask: {{command: [sleep, '600'], resources: {{cpu: \
         {FILLER_MILLIS}m, memory: 4MiB}}, grace: 300ms}}\n"
    )
}
