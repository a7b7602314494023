//! Generated resources in a real Envoy. Reported as ignored where there is none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unreachable_pub)] // Nobody reaches into a program.

mod draining;
mod errors;
mod features;
mod fixture;
mod http;
mod mutual;
mod patches;
mod pilot_server;
mod policies;
mod proxy;
mod routing;
mod tls;
mod upstream_tls;
mod world;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let missing = proxy::find().is_none();
    if missing {
        eprintln!("ignored: no Envoy; run scripts/envoy, or set ISTHMUS_ENVOY");
    }
    let tests = [
        routing::TESTS,
        features::TESTS,
        tls::TESTS,
        policies::TESTS,
        upstream_tls::TESTS,
        errors::TESTS,
        mutual::TESTS,
        patches::TESTS,
        draining::TESTS,
    ]
    .concat();
    let ports = Trial::test("ports_are_given_once", || run(proxy::ports_are_given_once));
    let trials = tests
        .into_iter()
        .map(|(name, test)| Trial::test(name, move || run(test)).with_ignored_flag(missing))
        .chain([ports])
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn run(test: fn()) -> Result<(), Failed> {
    test();
    Ok(())
}
