//! Names: the endpoint of each task, and a stamp per job that changes with any of them.

mod row;

pub use row::EndpointRow;
