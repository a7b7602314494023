//! Tiny echo backends: `echo 127.0.0.1:9001=shop 127.0.0.1:9002=images` serves each service on its address.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use e2e::echo::Backends;

/// Echo backends: HTTP/1.1, HTTP/2 without TLS and websocket; every answer tells what the backend saw.
#[derive(Debug, Parser)]
struct Args {
    /// Address and service, for example 127.0.0.1:9001=shop.
    #[arg(required = true, value_parser = backend)]
    backends: Vec<(SocketAddr, String)>,
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
    let endpoints: BTreeMap<SocketAddr, String> = Args::parse().backends.into_iter().collect();
    let mut backends = Backends::new();
    if let Err(error) = backends.add(&endpoints, Duration::ZERO).await {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    for (address, service) in &endpoints {
        println!("{service} on {address}");
    }
    backends.finished().await;
    ExitCode::FAILURE
}
