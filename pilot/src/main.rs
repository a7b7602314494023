//! The `pilot` program.

use std::process::ExitCode;

use anyhow::Context;
use pilot::args::{BootstrapError, Cli, Command, SPELLINGS};
use pilot::security::setup::SetupError;
use pilot::{app, bootstrap, gateway};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = daemon::flags::rewrite_camel_case(std::env::args_os(), SPELLINGS);
    let cli: Cli = daemon::flags::parse_or_exit(args);
    let result = match cli.command {
        Command::Serve(args) => serve(*args),
        Command::Bootstrap(args) => write_bootstrap(*args),
        Command::Drain(args) => drain(&args),
        Command::Probe(args) => probe(&args),
        Command::Flags => {
            print!("{}", pilot::args::reference());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let usage = error.is::<kube_watch::ConnectError>()
                || error.is::<SetupError>()
                || error.is::<BootstrapError>();
            if usage {
                daemon::flags::USAGE.into()
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn serve(args: pilot::args::ServeArgs) -> anyhow::Result<()> {
    daemon::logging::init(&args.log)?;
    tokio::runtime::Runtime::new()?.block_on(app::serve(args))
}

fn write_bootstrap(args: pilot::args::BootstrapArgs) -> anyhow::Result<()> {
    let output = args.output.clone();
    let options = args.options()?;
    let text = serde_json::to_string_pretty(&bootstrap::bootstrap(&options))?;
    match output {
        Some(path) => {
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        }
        None => {
            println!("{text}");
            Ok(())
        }
    }
}

fn drain(args: &pilot::args::DrainArgs) -> anyhow::Result<()> {
    let options = gateway::DrainOptions {
        admin_port: args.admin_port,
        delay: args.delay,
        limit: args.limit,
    };
    let left = tokio::runtime::Runtime::new()?.block_on(gateway::drain(options))?;
    match left {
        0 => println!("drained"),
        left => println!("{left} connections are still open"),
    }
    Ok(())
}

fn probe(args: &pilot::args::ProbeArgs) -> anyhow::Result<()> {
    let (status, body) =
        tokio::runtime::Runtime::new()?.block_on(gateway::probe(&args.url, args.limit))?;
    println!("{status}\n{}", body.trim_end());
    anyhow::ensure!(
        status == http::StatusCode::OK,
        "{} answered {status}",
        args.url
    );
    Ok(())
}
