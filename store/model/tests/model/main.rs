//! The model's guarantees, as tests of its public interface: one program, so that it is linked once.

#[cfg(test)]
mod again;
#[cfg(test)]
mod alloc;
mod canary;
#[cfg(test)]
mod daemon;
#[cfg(test)]
mod defects;
#[cfg(test)]
mod definition;
#[cfg(test)]
mod disruption;
#[cfg(test)]
mod encoding;
#[cfg(test)]
mod federation;
#[cfg(test)]
mod gang;
#[cfg(test)]
mod help;
#[cfg(test)]
mod helper;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod job_lifecycle;
#[cfg(test)]
mod job_spec;
mod journal_sample;
#[cfg(test)]
mod known_bugs;
#[cfg(test)]
mod machine_model;
#[cfg(test)]
mod machine_table;
#[cfg(test)]
mod node;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod resize;
mod resource;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod sample;
mod silent_rollout;
#[cfg(test)]
mod size;
#[cfg(test)]
mod weight;
