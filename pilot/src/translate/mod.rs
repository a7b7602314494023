//! Pure mapping from facts and Istio objects to Envoy xDS resources.
//!
//! What comes in is borrowed and complete; what goes out is one Envoy message, and beside it the
//! mistakes that were found. Nothing here waits, reads a clock or keeps state, and equal input
//! gives equal bytes.
