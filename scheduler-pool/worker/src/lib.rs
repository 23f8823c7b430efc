//! Doing: tail the journal, call the core, commit the plan.
