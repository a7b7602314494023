//! End-to-end harness: starts the real controller, pilot and Envoy, sends requests through them and judges the answers.
//!
//! * [`case`] the format of an acceptance case, [`runner`] runs one, [`judge`] says what does not fit;
//! * [`stack`] the three programs with ports of their own, [`process`], [`ports`] and [`envoy`] below it;
//! * [`api_server`] a Kubernetes API without nodes, [`objects`] a client for it, [`audit`] its log, [`api_cases`] cases whose objects are there, in a
//!   [`network`] of their own;
//! * [`dump`] what a gateway is sent, for comparisons;
//! * [`echo`] backends, [`http`] and [`tls`] client;
//! * [`kube`] a real Kubernetes, with Pods;
//! * [`mod@bench`] generator, fake Envoys and measurements of `scripts/bench`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod api_cases;
pub mod api_server;
pub mod audit;
pub mod bench;
pub mod case;
pub mod dump;
pub mod echo;
pub mod envoy;
pub mod http;
pub mod judge;
pub mod kube;
pub mod load;
pub mod manifests;
pub mod network;
pub mod objects;
pub mod ports;
pub mod process;
pub mod runner;
pub mod scenario;
pub mod stack;
pub mod tls;
pub mod trial;
mod websocket;
