//! Measures both tiers on generated input with fake Envoys: memory, cold start, change to acknowledged.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::bench::generate::Plan;
use e2e::bench::run::{Settings, run};

/// Generates Ingress objects, runs controller and pilot on loopback with fake Envoys over delta ADS, and prints memory,
/// cold start and the time from a change to its acknowledgement.
#[derive(Debug, Parser)]
struct Args {
    /// Hosts, with one Ingress each; every tenth has TLS.
    #[arg(long, default_value_t = 10_000)]
    routes: usize,
    /// Services with endpoints [default: as many as routes].
    #[arg(long)]
    services: Option<usize>,
    /// Clients of the second round.
    #[arg(long, default_value_t = 100)]
    clients: usize,
    /// Edits per round.
    #[arg(long, default_value_t = 200)]
    edits: usize,
    /// Pause between two edits in milliseconds.
    #[arg(long, default_value_t = 150)]
    pause_ms: u64,
    /// Cold starts, of which the median counts.
    #[arg(long, default_value_t = 3)]
    starts: usize,
    /// Seed of the generated input.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// No TLS.
    #[arg(long)]
    no_tls: bool,
    /// Objects in a real Kubernetes API (etcd and kube-apiserver) instead of a folder
    #[arg(long)]
    kubernetes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let services = args.services.unwrap_or(args.routes).max(1);
    let plan = Plan {
        routes: args.routes.max(1),
        services,
        edited: 20,
        seed: args.seed,
        tls: !args.no_tls,
    };
    let pause = Duration::from_millis(args.pause_ms);
    let settings = Settings {
        plan,
        clients: args.clients,
        edits: args.edits,
        pause,
        starts: args.starts,
        kubernetes: args.kubernetes,
    };
    match run(&settings).await {
        Ok(report) if args.json => match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("bench: {error}"),
        },
        Ok(report) => print!("{}", report.table()),
        Err(error) => {
            eprintln!("bench: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
