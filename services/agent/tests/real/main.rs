//! The agent with real processes, and a gateway that the tests script. A guard ends every started process, even if a
//! test is aborted.

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

/// Not a test: the agent as a separate process, for tests that kill it. See [`harness::Cell::agent_process`].
#[test]
fn agent_process() {
    harness::agent_process_main();
}
