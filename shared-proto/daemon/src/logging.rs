//! Logs on standard error, as text or JSON; panics take the same way.

use std::panic::PanicHookInfo;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Libraries that warn of what is normal: a watch ends every few minutes. Naming them in the level gets their lines back.
const QUIET: &str = "kube_client=error";

/// Flags of the log; flatten them into the program's own.
#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    /// How log lines look
    #[arg(long, value_enum, default_value_t, global = true, env = "LOG_FORMAT")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or target=level pairs
    #[arg(long, default_value = "info", global = true, env = "RUST_LOG", value_parser = level)]
    pub log_level: String,
}

fn level(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is not a filter.
    #[error("--log-level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// Somebody else logs already.
    #[error("logging is set up twice")]
    Twice(#[from] TryInitError),
}

/// Starts logging for the process and routes panics to it.
///
/// # Errors
/// The level cannot be parsed, or logging was started before.
pub fn init(args: &LogArgs) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", args.log_level))?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => registry.with(layer.with_ansi(false)).try_init()?,
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init()?,
    }
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let reason = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown");
    let location = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let current = std::thread::current();
    let thread = current.name().unwrap_or("unnamed");
    tracing::error!(reason, location, thread, "panic");
}
