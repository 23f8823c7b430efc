//! Whole-system tests: real processes, real clients, faults. This library holds what the tests share; the tests
//! themselves are in `tests/tests/`, one file per noun.
