//! Metrics that every program has: whether it is ready, and what it takes of the machine. They are read when asked for.

use std::fmt;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::admin::Readiness;

/// Clock ticks per second in `/proc`; the same on all machines that Linux programs see.
const TICKS: f64 = 100.0;

/// Registers them. The names of the process's metrics are those of Prometheus's client libraries.
pub fn register(registry: &mut Registry, readiness: &Readiness) {
    registry.register_collector(Box::new(Program {
        readiness: readiness.clone(),
        started: SystemTime::now(),
    }));
}

#[derive(Debug)]
struct Program {
    readiness: Readiness,
    started: SystemTime,
}

impl Collector for Program {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ready = i64::from(self.readiness.reason().is_none());
        let mut gauge = |name, help, value: f64| {
            let gauge = ConstGauge::new(value);
            let descriptor = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(descriptor)
        };
        #[allow(clippy::cast_precision_loss)]
        gauge("isthmus_ready", "1 when /ready answers 200", ready as f64)?;
        if let Ok(started) = self.started.duration_since(SystemTime::UNIX_EPOCH) {
            let help = "Start of the process, in seconds since 1970";
            gauge("process_start_time_seconds", help, started.as_secs_f64())?;
        }
        // Elsewhere than on Linux there is no /proc.
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of the process";
            gauge("process_resident_memory_bytes", help, bytes)?;
        }
        if let Some(count) = open_files() {
            let help = "Files and connections that are open";
            gauge("process_open_fds", help, count)?;
        }
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "CPU time of the process");
            let descriptor = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(descriptor)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

fn open_files() -> Option<f64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may hold anything; fields 14 and 15 are the times in user and system mode.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::prometheus_text;

    fn value(page: &str, name: &str) -> f64 {
        let lines = page.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_program_and_its_process_are_measured() {
        let readiness = Readiness::waiting_for("x");
        let mut registry = Registry::default();
        register(&mut registry, &readiness);
        let page = || {
            let mut page = String::new();
            prometheus_text::encode(&mut page, &registry).unwrap();
            page
        };
        let before = page();
        assert_eq!(value(&before, "isthmus_ready"), 0.0);
        assert!(value(&before, "process_resident_memory_bytes") > 1e5);
        assert!(value(&before, "process_open_fds") >= 3.0);
        assert!(value(&before, "process_start_time_seconds") > 1.7e9);
        readiness.set_ready();
        let cpu = value(&before, "process_cpu_seconds_total");
        // Busy until it shows.
        while value(&page(), "process_cpu_seconds_total") < cpu + 0.02 {}
        assert_eq!(value(&page(), "isthmus_ready"), 1.0);
    }
}
