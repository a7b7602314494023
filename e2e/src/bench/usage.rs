//! Memory and CPU time of a process, from `/proc`.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// Clock ticks per second of `/proc/<pid>/stat`; Linux fixes it at 100 for user space.
const TICKS: u64 = 100;

/// Resident memory of a process in bytes.
///
/// # Errors
/// The process is gone.
pub fn resident(pid: u32) -> Result<u64> {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("no such process")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kilobytes: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .context("VmRSS is no number")?;
    Ok(kilobytes * 1024)
}

/// CPU time that a process has used, in user and kernel mode.
///
/// # Errors
/// The process is gone.
pub fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("no such process")?;
    // The name of the program, in parentheses, may hold anything; fields are counted behind it.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .context("odd stat line")?
        .1
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .context("odd stat line")
    };
    Ok(Duration::from_millis(
        (ticks(11)? + ticks(12)?) * 1000 / TICKS,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_usage_is_read() {
        assert!(resident(std::process::id()).unwrap() > 1 << 20);
        assert!(cpu(std::process::id()).is_ok());
        assert!(resident(u32::MAX).is_err());
    }
}
