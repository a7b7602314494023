//! The `pilot` program.

use std::process::ExitCode;

use pilot::args::{Cli, Command, SPELLINGS};
use pilot::{app, bootstrap};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = daemon::flags::rewrite_camel_case(std::env::args_os(), SPELLINGS);
    let cli: Cli = daemon::flags::parse_or_exit(args);
    let result = match cli.command {
        Command::Serve(args) => serve(*args),
        Command::Bootstrap(args) => print_bootstrap(*args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<kube_watch::ConnectError>() {
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

fn print_bootstrap(args: pilot::args::BootstrapArgs) -> anyhow::Result<()> {
    println!(
        "{}",
        serde_json::to_string_pretty(&bootstrap::bootstrap(&args.options()))?
    );
    Ok(())
}
