//! Nobody's start, end or edit costs a request: any order of starting, every program killed under traffic, live edits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::echo::{BIND_LIMIT, Backends, Seen};
use e2e::envoy;
use e2e::http::{Answer, Exchange};
use e2e::load::Load;
use e2e::process::wait_until;
use e2e::scenario::{ingress, service, tls_secret};
use e2e::stack::{Options, Port, Stack};
use e2e::trial::{self, Needs};
use libtest_mimic::Trial;

/// How long a change may take to be seen.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the gateway may take to serve whatever the order of starting; Envoy itself waits between its tries.
const START_LIMIT: Duration = Duration::from_secs(45);
/// Pause between two starts: long enough for a program to find its source missing.
const START_PAUSE: Duration = Duration::from_millis(400);
/// Requests that follow a disturbance.
const FOLLOWING: u64 = 1_000;
const WORKERS: usize = 4;
const STEADY: &str = "steady.example.com";
const SECURE: &str = "secure.example.com";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Controller,
    Pilot,
    Envoy,
}

use Program::{Controller, Envoy, Pilot};

fn main() -> ExitCode {
    let orders = [
        [Controller, Pilot, Envoy],
        [Controller, Envoy, Pilot],
        [Pilot, Controller, Envoy],
        [Pilot, Envoy, Controller],
        [Envoy, Controller, Pilot],
        [Envoy, Pilot, Controller],
    ];
    let mut trials: Vec<Trial> = Vec::new();
    for order in orders {
        trials.push(trial::trial(
            format!("start order {order:?}"),
            Needs::Envoy,
            move || start_order(order),
        ));
    }
    let kills: [&'static [Program]; 5] = [
        &[Controller],
        &[Pilot],
        &[Envoy],
        &[Controller, Pilot],
        &[Pilot, Controller],
    ];
    for killed in kills {
        trials.push(trial::trial(
            format!("killed under traffic {killed:?}"),
            Needs::Envoy,
            move || kill(killed),
        ));
    }
    trials.push(trial::trial(
        "live edits under traffic",
        Needs::Envoy,
        live_edits,
    ));
    trials.push(trial::trial(
        "programs end with success when asked to",
        Needs::Programs,
        orderly_end,
    ));
    trial::run(trials, 2)
}

struct World {
    stack: Stack,
    backends: Backends,
    first: SocketAddr,
    second: SocketAddr,
}

impl World {
    /// Two services; a plain host and one with TLS, both served by the first.
    async fn new() -> Result<Self> {
        let stack = Stack::new(Options::default())?;
        let (first, second) = (stack.backend(0), stack.backend(1));
        let names = BTreeMap::from([(first, "first".to_owned()), (second, "second".to_owned())]);
        let mut backends = Backends::new();
        backends.add(&names, BIND_LIMIT).await?;
        stack.write(
            "services.yaml",
            &(service("first", &[first]) + &service("second", &[second])),
        )?;
        stack.write("steady.yaml", &ingress(STEADY, "first", None))?;
        stack.write("secure.yaml", &ingress(SECURE, "first", Some("secure-tls")))?;
        stack.write(
            "secret.yaml",
            &tls_secret("secure-tls", SECURE, "first certificate")?,
        )?;
        Ok(Self {
            stack,
            backends,
            first,
            second,
        })
    }

    async fn start(&mut self, program: Program) -> Result<()> {
        match program {
            Controller => self.stack.start_controller(),
            Pilot => self.stack.start_pilot(),
            Envoy => self.stack.start_envoy().await,
        }
    }

    async fn kill(&mut self, program: Program) -> Result<()> {
        let process = match program {
            Controller => self.stack.controller.take(),
            Pilot => self.stack.pilot.take(),
            Envoy => self.stack.envoy.take(),
        };
        process.context("not running")?.kill().await
    }

    /// Waits until both hosts are served.
    async fn serves(&self, limit: Duration) -> Result<()> {
        self.answers(STEADY, limit, |answer| answer.status == 200)
            .await?;
        self.answers_tls(SECURE, limit, |answer| answer.status == 200)
            .await
    }

    async fn answers(
        &self,
        host: &str,
        limit: Duration,
        fits: impl Fn(&Answer) -> bool,
    ) -> Result<()> {
        let (request, target) = (Exchange::get(host, "/"), self.stack.target(Port::Http));
        let check = async || {
            request
                .send(&target)
                .await
                .ok()
                .filter(|answer| fits(answer))
                .map(drop)
        };
        wait_until(&format!("answer of {host}"), limit, check).await
    }

    async fn answers_tls(
        &self,
        host: &str,
        limit: Duration,
        fits: impl Fn(&Answer) -> bool,
    ) -> Result<()> {
        let (request, target) = (Exchange::get(host, "/"), self.stack.tls_target(host));
        let check = async || {
            request
                .send(&target)
                .await
                .ok()
                .filter(|answer| fits(answer))
                .map(drop)
        };
        wait_until(&format!("TLS answer of {host}"), limit, check).await
    }

    fn load(&self) -> [Load; 2] {
        [
            Load::start(&self.stack.target(Port::Http), STEADY, WORKERS),
            Load::start(&self.stack.tls_target(SECURE), SECURE, 1),
        ]
    }

    /// Envoy refused nothing and lost nothing that it had.
    async fn nothing_lost(&self) -> Result<()> {
        let lost = "update_rejected$|listener_manager\\.listener_removed$|listener_manager\\.lds\\.update_failure$\
                    |cluster_manager\\.cluster_removed$|total_listeners_draining$";
        let stats = envoy::stats(&self.stack.target(Port::Admin), lost).await?;
        ensure!(!stats.is_empty(), "Envoy's statistics have other names now");
        let wrong: Vec<&(String, u64)> = stats
            .iter()
            .filter(|(name, value)| *value > 0 && !name.contains("update_failure"))
            .collect();
        ensure!(wrong.is_empty(), "{wrong:?}");
        ensure!(
            self.stack.rejections().is_empty(),
            "{:?}",
            self.stack.rejections()
        );
        Ok(())
    }
}

/// Runs the steps of a test and adds the logs to its error.
async fn with_world(steps: impl AsyncFnOnce(&mut World) -> Result<()>) -> Result<()> {
    let mut world = World::new().await?;
    let result = steps(&mut world).await;
    result.with_context(|| world.stack.logs())
}

async fn start_order(order: [Program; 3]) -> Result<()> {
    with_world(async |world| {
        for program in order {
            world.start(program).await?;
            tokio::time::sleep(START_PAUSE).await;
            world.stack.check_alive()?;
        }
        world.serves(START_LIMIT).await?;
        let load = world.load();
        load[0].more(100).await?;
        for load in load {
            load.finish().await?;
        }
        world.nothing_lost().await
    })
    .await
}

/// Kills programs one after the other under traffic, and starts them again in the same order.
async fn kill(killed: &'static [Program]) -> Result<()> {
    with_world(async |world| {
        world.stack.start().await?;
        world.serves(LIMIT).await?;
        let mut load = world.load();
        for program in killed {
            load[0].more(FOLLOWING / 10).await?;
            if *program == Envoy {
                // Requests fail while Envoy itself is down; what counts is that none does once it serves again.
                for load in load {
                    load.finish().await?;
                }
                world.kill(Envoy).await?;
                world.start(Envoy).await?;
                world.serves(START_LIMIT).await?;
                load = world.load();
            } else {
                world.kill(*program).await?;
            }
        }
        load[0].more(FOLLOWING / 2).await?;
        for program in killed.iter().filter(|program| **program != Envoy) {
            world.start(*program).await?;
            load[0].more(FOLLOWING / 10).await?;
        }
        world.stack.wait_for(Port::Mcp).await?;
        world.stack.wait_for(Port::Grpc).await?;
        load[0].more(FOLLOWING).await?;
        // The chain works again end to end: a new host arrives.
        world
            .stack
            .write("later.yaml", &ingress("later.example.com", "second", None))?;
        world
            .answers("later.example.com", START_LIMIT, |answer| {
                answer.status == 200
            })
            .await?;
        for load in load {
            load.finish().await?;
        }
        world.nothing_lost().await
    })
    .await
}

async fn orderly_end() -> Result<()> {
    with_world(async |world| {
        world.stack.start_control_plane().await?;
        for (name, process) in [
            ("pilot", world.stack.pilot.take()),
            ("controller", world.stack.controller.take()),
        ] {
            let ended = process.context("not running")?.terminate().await?;
            ensure!(ended, "{name} did not end with status 0");
        }
        Ok(())
    })
    .await
}

fn served_by(answer: &Answer, service: &str) -> bool {
    serde_json::from_slice::<Seen>(&answer.body).is_ok_and(|seen| seen.service == service)
}

fn has_certificate(answer: &Answer, text: &str) -> bool {
    let certificate = answer.certificate.as_deref().unwrap_or_default();
    String::from_utf8_lossy(certificate).contains(text)
}

async fn live_edits() -> Result<()> {
    with_world(async |world| {
        world
            .stack
            .write("edited.yaml", &ingress("edited.example.com", "first", None))?;
        world.stack.write(
            "rotated.yaml",
            &ingress("rotated.example.com", "first", Some("rotated-tls")),
        )?;
        let secret = |text| tls_secret("rotated-tls", "rotated.example.com", text);
        world
            .stack
            .write("rotated-secret.yaml", &secret("certificate one")?)?;
        world
            .stack
            .write("moved.yaml", &service("moved", &[world.first]))?;
        world
            .stack
            .write("moving.yaml", &ingress("moving.example.com", "moved", None))?;
        world.stack.start().await?;
        world.serves(LIMIT).await?;
        world
            .answers("edited.example.com", LIMIT, |answer| {
                served_by(answer, "first")
            })
            .await?;
        let load = world.load();

        world.stack.write(
            "edited.yaml",
            &ingress("edited.example.com", "second", None),
        )?;
        world
            .answers("edited.example.com", LIMIT, |answer| {
                served_by(answer, "second")
            })
            .await
            .context("edit")?;

        world
            .stack
            .write("added.yaml", &ingress("added.example.com", "second", None))?;
        world
            .answers("added.example.com", LIMIT, |answer| {
                served_by(answer, "second")
            })
            .await
            .context("add")?;

        world.stack.remove("added.yaml")?;
        world
            .answers("added.example.com", LIMIT, |answer| answer.status == 404)
            .await
            .context("delete")?;

        let one = |answer: &Answer| has_certificate(answer, "certificate one");
        world
            .answers_tls("rotated.example.com", LIMIT, one)
            .await
            .context("first certificate")?;
        world
            .stack
            .write("rotated-secret.yaml", &secret("certificate two")?)?;
        let two = |answer: &Answer| has_certificate(answer, "certificate two");
        world
            .answers_tls("rotated.example.com", LIMIT, two)
            .await
            .context("rotated certificate")?;

        world
            .stack
            .write("moved.yaml", &service("moved", &[world.second]))?;
        world
            .answers("moving.example.com", LIMIT, |answer| {
                served_by(answer, "second")
            })
            .await
            .context("endpoints")?;

        load[0].more(FOLLOWING).await?;
        for load in load {
            load.finish().await?;
        }
        ensure!(
            world.backends.hits().contains_key("second"),
            "the second backend was never asked"
        );
        let rejected = envoy::stats(&world.stack.target(Port::Admin), "update_rejected$").await?;
        ensure!(
            rejected.iter().all(|(_, value)| *value == 0),
            "{rejected:?}"
        );
        Ok(())
    })
    .await
}
