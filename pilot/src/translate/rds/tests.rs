//! Route tests: every kind of route, and every mistake.
