//! 100,000 generated Ingresses, right and wrong, through both tiers as libraries; what Envoy thinks of a sample; and some that
//! come and go in an API server.
//!
//! No panic, no message that does not survive the wire, nothing that the pilot refuses, nothing that Envoy refuses. A failure
//! is shrunk to the least objects that show it and printed as a manifest.

mod churn;
mod ingress;
mod tiers;
mod validation;

use std::cell::Cell;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{self, Needs};
use proptest::collection::vec;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use shared_proto::envoy::message_to_json;
use tiers::SelfSigned;

/// Objects that have to be tried, by each of [`PARTS`] trials that run side by side.
const OBJECTS: usize = 100_000 / PARTS;
const PARTS: usize = 2;
/// Objects of one try: enough for conflicts, few enough to shrink.
const TOGETHER: std::ops::Range<usize> = 50..151;
/// One of so many tries goes on to the resources of the pilot.
const GENERATED: u32 = 8;
/// Objects of the sample that Envoy judges.
const SAMPLE: usize = 200;

fn main() -> ExitCode {
    let part = |part: usize| {
        let name = format!("both tiers take {OBJECTS} generated ingresses, part {part} of {PARTS}");
        trial::trial(name, Needs::Nothing, || async { both_tiers() })
    };
    let mut trials: Vec<_> = (1..=PARTS).map(part).collect();
    trials.push(trial::trial(
        format!("envoy accepts {SAMPLE} generated ingresses"),
        Needs::EnvoyAlone,
        || async { envoy_accepts() },
    ));
    trials.push(trial::trial(
        "ingresses come and go in an API server, and what is left is served as from a folder",
        Needs::ApiServer,
        churn::churn,
    ));
    trial::run(trials, PARTS)
}

fn both_tiers() -> Result<()> {
    let cases = OBJECTS.div_ceil((TOGETHER.start + TOGETHER.end - 1) / 2) + 50;
    let config = Config {
        cases: u32::try_from(cases)?,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let (tried, number) = (Cell::new(0), Cell::new(0_u32));
    let certificate = SelfSigned::new()?;
    let result = TestRunner::new(config).run(&vec(ingress::ingress(), TOGETHER), |ingresses| {
        tried.set(tried.get() + ingresses.len());
        number.set(number.get() + 1);
        let manifest = ingress::manifest(ingress::services().chain(ingresses));
        let generated = number.get().is_multiple_of(GENERATED);
        check(&manifest, generated.then_some(&certificate))
            .map_err(|error| TestCaseError::fail(format!("{error:#}\n{manifest}")))
    });
    result.map_err(|error| anyhow::anyhow!("{error}"))?;
    ensure!(
        tried.get() >= OBJECTS,
        "only {} objects were tried",
        tried.get()
    );
    Ok(())
}

fn check(manifest: &str, registry: Option<&SelfSigned>) -> Result<()> {
    let pipeline = tiers::translate(manifest);
    let mut changes = tiers::received(&pipeline)?;
    let Some(certificate) = registry else {
        return Ok(());
    };
    changes.extend(tiers::registry(certificate));
    let resources = tiers::generate(changes);
    for (name, resource) in resources
        .routes
        .iter()
        .chain(&resources.clusters)
        .chain(&resources.listeners)
    {
        let (type_url, bytes) = resource.parts()?;
        message_to_json(shared_proto::envoy::type_name(&type_url), &bytes)
            .with_context(|| format!("{name} is no proper message"))?;
    }
    Ok(())
}

fn envoy_accepts() -> Result<()> {
    let envoy = e2e::envoy::find()?;
    let folder = tempfile::tempdir()?;
    let seed = *b"two hundred ingresses, all fixed";
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let certificate = SelfSigned::new()?;
    // Few at a time: many on the same hosts would only show the oldest of them.
    let strategy = vec(ingress::ingress(), 20);
    for _ in 0..SAMPLE / 20 {
        let tree = strategy
            .new_tree(&mut runner)
            .map_err(|reason| anyhow::anyhow!("{reason}"))?;
        let manifest = ingress::manifest(ingress::services().chain(tree.current()));
        let mut changes = tiers::received(&tiers::translate(&manifest))?;
        changes.extend(tiers::registry(&certificate));
        let resources = tiers::generate(changes);
        ensure!(!resources.routes.is_empty(), "no routes to judge");
        let configuration = validation::configuration(&resources)?;
        validation::validate(&envoy, &configuration, folder.path())
            .with_context(|| format!("Envoy refuses\n{manifest}"))?;
    }
    Ok(())
}
