//! Tiny echo backends: `echo 127.0.0.1:9001=shop 127.0.0.1:9002=images` serves each service on its address,
//! `echo --manifests DIR` every endpoint of the EndpointSlices in a folder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use e2e::case::find_files;
use e2e::echo::Backends;
use e2e::manifests;

/// Echo backends: HTTP/1.1, HTTP/2 without TLS and websocket; every answer tells what the backend saw.
#[derive(Debug, Parser)]
struct Args {
    /// Address and service, for example 127.0.0.1:9001=shop.
    #[arg(required_unless_present = "manifests", value_parser = backend)]
    backends: Vec<(SocketAddr, String)>,
    /// Folder of manifests whose EndpointSlices name addresses and services.
    #[arg(long, value_name = "DIR")]
    manifests: Option<PathBuf>,
}

fn backend(text: &str) -> Result<(SocketAddr, String), String> {
    let (address, service) = text.split_once('=').ok_or("write ADDRESS:PORT=SERVICE")?;
    Ok((
        address
            .parse()
            .map_err(|error| format!("{address}: {error}"))?,
        service.to_owned(),
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Args::parse()).await {
        Ok(mut backends) => backends.finished().await,
        Err(error) => eprintln!("{error:#}"),
    }
    ExitCode::FAILURE
}

async fn serve(args: Args) -> Result<Backends> {
    let mut endpoints: BTreeMap<SocketAddr, String> = args.backends.into_iter().collect();
    if let Some(folder) = &args.manifests {
        for file in find_files(folder)? {
            endpoints.extend(manifests::endpoints(&std::fs::read_to_string(&file)?));
        }
    }
    let mut backends = Backends::new();
    backends.add(&endpoints, Duration::ZERO).await?;
    for (address, service) in &endpoints {
        println!("{service} on {address}");
    }
    Ok(backends)
}
