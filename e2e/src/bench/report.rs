//! The report of the bench: a table for people, JSON for machines.

use std::time::Duration;

use serde::Serialize;

use super::kubernetes::{Count, KubernetesReport};
use super::run::{Settings, Start};

/// All results of a run. Times are in milliseconds, memory in megabytes (10^6), sizes in bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Hosts, with one Ingress each.
    pub routes: usize,
    /// Services with endpoints.
    pub services: usize,
    /// Secrets.
    pub secrets: usize,
    /// Median time from starting both tiers to a client that holds everything.
    pub cold_start_ms: f64,
    /// Time from the same moment until the controller is ready.
    pub controller_ready_ms: f64,
    /// Time from the same moment until the pilot is ready.
    pub pilot_ready_ms: f64,
    /// Results with one client.
    pub one: Round,
    /// Results with many clients.
    pub many: Option<Round>,
    /// Memory that each further client costs in pilot.
    pub per_client_mb: Option<f64>,
    /// With a Kubernetes API as the source: what only that has.
    pub kubernetes: Option<KubernetesReport>,
}

/// Results with a number of clients.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// Number of clients.
    pub clients: usize,
    /// Time until all of the clients that joined for this round hold everything.
    pub joined_ms: f64,
    /// Memory of the controller.
    pub controller_mb: f64,
    /// Memory of pilot.
    pub pilot_mb: f64,
    /// Memory of both.
    pub both_mb: f64,
    /// Number of edits.
    pub edits: usize,
    /// Change to acknowledged by the last client, median.
    pub p50_ms: f64,
    /// Change to acknowledged by the last client, 99th percentile.
    pub p99_ms: f64,
    /// CPU time of both tiers per change.
    pub cpu_per_change_ms: f64,
    /// Bytes that a client gets per change.
    pub bytes_per_change: f64,
}

/// Measurements of a round as the driver made them.
#[derive(Debug)]
pub struct ClientsReport {
    /// Number of clients.
    pub clients: usize,
    /// Time until the clients that joined hold everything.
    pub joined: Duration,
    /// Memory of the controller in bytes.
    pub controller_memory: u64,
    /// Memory of pilot in bytes.
    pub pilot_memory: u64,
    /// The edits.
    pub changes: Changes,
}

/// Measurements of a number of edits.
#[derive(Debug)]
pub struct Changes {
    /// Sorted.
    latencies: Vec<Duration>,
    cpu: Duration,
    bytes: usize,
}

impl Changes {
    /// From the time of each edit, the CPU time of all, and the bytes that one client got for all.
    pub fn new(mut latencies: Vec<Duration>, cpu: Duration, bytes: usize) -> Self {
        latencies.sort_unstable();
        Self {
            latencies,
            cpu,
            bytes,
        }
    }

    /// The smallest time that `share` of the edits did not exceed.
    fn percentile(&self, share: f64) -> Duration {
        let rank = (self.latencies.len() as f64 * share).ceil() as usize;
        self.latencies
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1e3)
}

fn mb(bytes: u64) -> f64 {
    round(bytes as f64 / 1e6)
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl From<ClientsReport> for Round {
    fn from(report: ClientsReport) -> Self {
        let changes = &report.changes;
        let edits = changes.latencies.len();
        let each = |total: f64| {
            if edits == 0 {
                0.0
            } else {
                round(total / edits as f64)
            }
        };
        Self {
            clients: report.clients,
            joined_ms: ms(report.joined),
            controller_mb: mb(report.controller_memory),
            pilot_mb: mb(report.pilot_memory),
            both_mb: mb(report.controller_memory + report.pilot_memory),
            edits,
            p50_ms: ms(changes.percentile(0.5)),
            p99_ms: ms(changes.percentile(0.99)),
            cpu_per_change_ms: each(changes.cpu.as_secs_f64() * 1e3),
            bytes_per_change: each(changes.bytes as f64),
        }
    }
}

impl Report {
    /// Puts the results together.
    pub fn new(
        settings: &Settings,
        secrets: usize,
        start: Start,
        one: ClientsReport,
        many: Option<ClientsReport>,
    ) -> Self {
        let (one, many) = (Round::from(one), many.map(Round::from));
        let per_client_mb = many.as_ref().map(|many| {
            let further = many.clients.saturating_sub(one.clients).max(1) as f64;
            round((many.pilot_mb - one.pilot_mb) / further)
        });
        let plan = &settings.plan;
        Self {
            routes: plan.routes,
            services: plan.services,
            secrets,
            cold_start_ms: ms(start.complete),
            controller_ready_ms: ms(start.controller),
            pilot_ready_ms: ms(start.pilot),
            one,
            many,
            per_client_mb,
            kubernetes: None,
        }
    }

    /// The table.
    pub fn table(&self) -> String {
        let input = (self.routes, self.services, self.secrets);
        let mut table = Table(format!(
            "{} hosts with one Ingress each, {} Services, {} certificates\n\n",
            input.0, input.1, input.2
        ));
        let many = self.many.as_ref();
        let clients = many.map(|many| format!("{} clients", many.clients));
        table.row("", "1 client", &clients.unwrap_or_default());
        let rows: [(&str, Pick, &str); 8] = [
            ("memory, controller", |round| round.controller_mb, "MB"),
            ("memory, pilot", |round| round.pilot_mb, "MB"),
            ("memory, both", |round| round.both_mb, "MB"),
            ("change to acknowledged, p50", |round| round.p50_ms, "ms"),
            ("change to acknowledged, p99", |round| round.p99_ms, "ms"),
            (
                "CPU per change, both tiers",
                |round| round.cpu_per_change_ms,
                "ms",
            ),
            (
                "bytes per change and client",
                |round| round.bytes_per_change,
                "B",
            ),
            (
                "joining clients complete after",
                |round| round.joined_ms,
                "ms",
            ),
        ];
        for (name, pick, unit) in rows {
            let show = |round: &Round| format!("{:.2} {unit}", pick(round));
            table.row(name, &show(&self.one), &many.map(show).unwrap_or_default());
        }
        if let Some(size) = self.per_client_mb {
            table.row(
                "memory of each further client",
                &format!("{size:.2} MB"),
                "",
            );
        }
        for (name, time) in [
            ("cold start to complete snapshot", self.cold_start_ms),
            ("  controller ready", self.controller_ready_ms),
            ("  pilot ready", self.pilot_ready_ms),
        ] {
            table.row(name, &format!("{time:.0} ms"), "");
        }
        if let Some(kubernetes) = &self.kubernetes {
            kubernetes.show(&mut table);
        }
        self.peers(&mut table);
        table.0
    }

    /// Ratios to published figures of istiod for about the same work, where there are any for this size.
    fn peers(&self, table: &mut Table) {
        let Some(peer) = PEERS.iter().find(|peer| peer.routes == self.routes) else {
            return;
        };
        let many = self
            .many
            .as_ref()
            .filter(|many| many.clients == peer.clients);
        table.0.push_str(
            "\npublished figures, other run (one Service, no TLS, Kubernetes as source)\n",
        );
        table.row(
            &format!("istiod 1.32-dev, {} hosts", peer.routes),
            "istiod",
            "ratio",
        );
        let mut row = |name: &str, theirs: f64, ours: Option<f64>, unit: &str| {
            let ratio = ours
                .filter(|ours| *ours > 0.0)
                .map(|ours| format!("{:.1} x", theirs / ours));
            table.row(
                name,
                &format!("{theirs} {unit}"),
                &ratio.unwrap_or_else(|| "-".to_owned()),
            );
        };
        let with = |count: usize| format!("  {count} clients");
        let one = &self.one;
        row(
            "change to arrival, p50, 1 client",
            peer.p50.0,
            Some(one.p50_ms),
            "ms",
        );
        row(
            &with(peer.clients),
            peer.p50.1,
            many.map(|many| many.p50_ms),
            "ms",
        );
        row(
            "CPU per change, 1 client",
            peer.cpu.0,
            Some(one.cpu_per_change_ms),
            "ms",
        );
        row(
            &with(peer.clients),
            peer.cpu.1,
            many.map(|many| many.cpu_per_change_ms),
            "ms",
        );
        row(
            "sent per change and client",
            peer.bytes,
            Some(one.bytes_per_change),
            "B",
        );
        row("memory, 1 client", peer.memory.0, Some(one.both_mb), "MB");
        row(
            &with(peer.clients),
            peer.memory.1,
            many.map(|many| many.both_mb),
            "MB",
        );
    }
}

/// Picks a value out of a round.
type Pick = fn(&Round) -> f64;

pub(super) struct Table(String);

impl Table {
    pub(super) fn heading(&mut self, text: &str) {
        self.0.push('\n');
        self.0.push_str(text);
        self.0.push('\n');
    }

    pub(super) fn calls(&mut self, name: &str, calls: &[Count]) {
        let all: u64 = calls.iter().map(|call| call.count).sum();
        self.row(name, &all.to_string(), "");
        for call in calls {
            let name = format!("  {}: {}", call.who, call.what);
            self.row(&name, &call.count.to_string(), "");
        }
    }

    pub(super) fn row(&mut self, name: &str, first: &str, second: &str) {
        let line = format!("{name:<38} {first:>14} {second:>14}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

/// Published figures of a peer: with one client, and with many.
struct Peer {
    routes: usize,
    clients: usize,
    p50: (f64, f64),
    cpu: (f64, f64),
    bytes: f64,
    memory: (f64, f64),
}

const PEERS: [Peer; 2] = [
    Peer {
        routes: 1_000,
        clients: 20,
        p50: (135.0, 396.0),
        cpu: (42.0, 641.0),
        bytes: 475e3,
        memory: (138.0, 196.0),
    },
    Peer {
        routes: 10_000,
        clients: 100,
        p50: (498.0, 13_700.0),
        cpu: (471.0, 37_000.0),
        bytes: 4.8e6,
        memory: (283.0, 1_660.0),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let changes = Changes::new(
            (1..=200).rev().map(Duration::from_millis).collect(),
            Duration::ZERO,
            0,
        );
        assert_eq!(changes.percentile(0.5), Duration::from_millis(100));
        assert_eq!(changes.percentile(0.99), Duration::from_millis(198));
        assert_eq!(
            Changes::new(Vec::new(), Duration::ZERO, 0).percentile(0.5),
            Duration::ZERO
        );
    }
}
