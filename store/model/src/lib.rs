//! Pure domain types: resources, constraints, priorities, specs, state machines.
