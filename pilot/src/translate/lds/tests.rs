//! Listener tests: SNI ownership and what a chain is made of.
