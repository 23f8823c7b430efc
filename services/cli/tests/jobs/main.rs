//! Job files through the program itself, as a user runs it: the examples, and hostile Jsonnet.

#[cfg(test)]
mod jsonnet;
