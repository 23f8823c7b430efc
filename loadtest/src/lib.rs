//! Load generators and benchmarks that print JSON.
