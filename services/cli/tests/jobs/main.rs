//! Job files through the program itself, as a user runs it: the examples, and Jsonnet that misbehaves.

#[cfg(test)]
mod jsonnet;
