//! The agent with real processes, before a gateway that the tests play. Everything that is started is ended by a guard,
//! even where a test is aborted.

#[cfg(test)]
mod gateway;
#[cfg(test)]
mod harness;

#[cfg(test)]
mod adopt;
#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod end;
#[cfg(test)]
mod health;
#[cfg(test)]
mod limits;
#[cfg(test)]
#[cfg(test)]
mod serve;
#[cfg(test)]
mod start;
#[cfg(test)]
mod versions;

/// Not a test: the agent as a process of its own, for those that kill it. See [`harness::Cell::agent_process`].
#[test]
fn agent_process() {
    harness::agent_process_main();
}
