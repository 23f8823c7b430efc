//! What the model promises, as tests of its public interface: one program, so that it is linked once.

mod encoding;
mod job_life;
mod job_spec;
mod machine_model;
mod machine_table;
mod node;
mod resource;
mod restart;
mod sample;
mod unit;
