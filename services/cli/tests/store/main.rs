//! The verbs on stores through the program itself, each in a process of its own.

#[cfg(test)]
mod cell;
#[cfg(test)]
mod copy;
#[cfg(all(test, feature = "fdb"))]
mod fdb;
#[cfg(test)]
mod verbs;
