//! Metrics of the pilot; the only place where their names are. Names are Istio's where Istio has one.

use std::hash::Hash;
use std::sync::atomic::{AtomicI64, AtomicU64};

use kube_watch::WatchMetrics;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use shared_proto::Kind;

use crate::model::diagnostic::DiagnosticReason;
use crate::translate::issue::Reason;

type Count = Counter<u64, AtomicU64>;

/// A counter whose name has no `_total`, as Istio has some: the format has no such type, so it is untyped.
#[derive(Clone, Debug, Default)]
pub struct PlainCount(Count);

impl PlainCount {
    /// Adds one.
    pub fn inc(&self) {
        self.0.inc();
    }
}

impl TypedMetric for PlainCount {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for PlainCount {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&self.0.get())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Label `type`: an xDS type in short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabel {
    /// `cds`, `eds`, `lds`, `rds`, `srds`, `sds` or `ecds`.
    pub r#type: XdsType,
}

/// xDS types as label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, missing_docs)]
pub enum XdsType {
    cds,
    eds,
    lds,
    rds,
    srds,
    sds,
    ecds,
    other,
}

impl XdsType {
    /// The types that gateways ask for.
    pub const ALL: [Self; 7] = [
        Self::cds,
        Self::eds,
        Self::lds,
        Self::rds,
        Self::srds,
        Self::sds,
        Self::ecds,
    ];

    /// The type of a short name.
    pub fn of(short: &str) -> Self {
        match short {
            "cds" => Self::cds,
            "eds" => Self::eds,
            "lds" => Self::lds,
            "rds" => Self::rds,
            "srds" => Self::srds,
            "sds" => Self::sds,
            "ecds" => Self::ecds,
            _ => Self::other,
        }
    }
}

/// Label `kind`: what sort of object changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// Kind of the object.
    pub kind: &'static str,
}

/// Label `reason`: a bounded set of reasons.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// Why.
    pub reason: &'static str,
}

/// Label `reason` of a config of the controller that cannot be decoded.
pub const UNDECODABLE_CONFIG: &str = "undecodable_config";
/// Kinds of objects of the registry.
const REGISTRY_KINDS: [&str; 3] = ["EndpointSlice", "Secret", "Service"];
/// What comes of a stream that asks to be let in at the secure port.
const AUTHENTICATIONS: [&str; 6] = [
    "allowed",
    "bad_token",
    "nothing_shown",
    "other_account",
    "unavailable",
    "wrong_namespace",
];

/// Label `result`: a bounded set of outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// What came of it.
    pub result: &'static str,
}

/// All metrics of the pilot. Clones share one set.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Configs that the controller changed.
    pub config_changes: Family<KindLabel, Count>,
    /// Changes of Services, EndpointSlices and Secrets.
    pub registry_changes: Family<KindLabel, Count>,
    /// Resources of the controller or the registry that could not be used.
    pub rejected: Family<ReasonLabel, Count>,
    /// Push contexts built.
    pub push_contexts: Count,
    /// Time to apply a batch of changes and to generate what follows from it.
    pub push_seconds: Histogram,
    /// Changes merged into a batch with an earlier one.
    pub debounce_merged: Count,
    /// Resources encoded.
    pub generated: Family<TypeLabel, Count>,
    /// Mistakes found while generating.
    pub issues: Family<ReasonLabel, Count>,
    /// Mistakes in objects that are read, counted when they appear.
    pub diagnostics: Family<ReasonLabel, Count>,
    /// Resources sent, removals included.
    pub sent: Family<TypeLabel, Count>,
    /// Size of the resources sent.
    pub sent_bytes: Family<TypeLabel, Count>,
    /// Responses sent.
    pub pushes: Family<TypeLabel, PlainCount>,
    /// Responses refused by proxies.
    pub rejects: Family<TypeLabel, PlainCount>,
    /// Requests with a nonce that is not the last one.
    pub expired_nonce: Family<TypeLabel, PlainCount>,
    /// Proxies connected.
    pub connected: Gauge<i64, AtomicI64>,
    /// Time from a change being used to the last ACK of a proxy.
    pub convergence_seconds: Histogram,
    /// Services known.
    pub services: Gauge<i64, AtomicI64>,
    /// Hosts of VirtualServices known.
    pub virtual_services: Gauge<i64, AtomicI64>,
    /// Whether the stream to a controller is open.
    pub controller_connected: Gauge<i64, AtomicI64>,
    /// Streams that asked to be let in at the secure port, by what came of it.
    pub authentications: Family<ResultLabel, Count>,
    /// TLS handshakes that failed.
    pub handshake_failures: Count,
    /// Times that there was no new certificate for the secure port.
    pub certificate_failures: Count,
    /// End of the certificate of the secure port, in seconds since the Unix epoch; 0 = there is none.
    pub certificate_not_after: Gauge<i64, AtomicI64>,
    /// Watches of the Kubernetes API.
    pub watches: WatchMetrics,
}

/// Makes the series of these labels.
fn start<L: Clone + Eq + Hash, M: Default>(
    family: &Family<L, M>,
    labels: impl IntoIterator<Item = L>,
) {
    for label in labels {
        drop(family.get_or_create(&label));
    }
}

fn seconds() -> Histogram {
    let bounds = [
        0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ];
    Histogram::new(bounds)
}

impl Metrics {
    /// Creates the metrics and their registry.
    pub fn new() -> (Self, Registry) {
        let metrics = Self {
            config_changes: Family::default(),
            registry_changes: Family::default(),
            rejected: Family::default(),
            push_contexts: Count::default(),
            push_seconds: seconds(),
            debounce_merged: Count::default(),
            generated: Family::default(),
            issues: Family::default(),
            diagnostics: Family::default(),
            sent: Family::default(),
            sent_bytes: Family::default(),
            pushes: Family::default(),
            rejects: Family::default(),
            expired_nonce: Family::default(),
            connected: Gauge::default(),
            convergence_seconds: seconds(),
            services: Gauge::default(),
            virtual_services: Gauge::default(),
            controller_connected: Gauge::default(),
            authentications: Family::default(),
            handshake_failures: Count::default(),
            certificate_failures: Count::default(),
            certificate_not_after: Gauge::default(),
            watches: WatchMetrics::default(),
        };
        metrics.start_at_zero();
        let registry = metrics.register();
        (metrics, registry)
    }

    /// A series that appears with its first event has no rate at that event: all are there from the start.
    fn start_at_zero(&self) {
        let kinds = Kind::ALL.iter().map(|kind| kind.name());
        start(&self.config_changes, kinds.map(|kind| KindLabel { kind }));
        let kinds = REGISTRY_KINDS.map(|kind| KindLabel { kind });
        start(&self.registry_changes, kinds);
        let reasons = manifest_dir::Reason::ALL.map(manifest_dir::Reason::as_str);
        let reasons = reasons.into_iter().chain([UNDECODABLE_CONFIG]);
        start(&self.rejected, reasons.map(|reason| ReasonLabel { reason }));
        let reasons = Reason::ALL.map(Reason::as_str);
        start(&self.issues, reasons.map(|reason| ReasonLabel { reason }));
        let reasons = DiagnosticReason::ALL.map(DiagnosticReason::as_str);
        start(
            &self.diagnostics,
            reasons.map(|reason| ReasonLabel { reason }),
        );
        let results = AUTHENTICATIONS.map(|result| ResultLabel { result });
        start(&self.authentications, results);
        let types = XdsType::ALL.map(|r#type| TypeLabel { r#type });
        for family in [&self.generated, &self.sent, &self.sent_bytes] {
            start(family, types);
        }
        for family in [&self.pushes, &self.rejects, &self.expired_nonce] {
            start(family, types);
        }
    }

    fn register(&self) -> Registry {
        let mut r = Registry::default();
        let m = self.clone();
        m.watches.register(&mut r);
        // The exporter appends `_total` to the names of counters.
        r.register(
            "isthmus_config_changes",
            "Configs changed by the controller",
            m.config_changes,
        );
        r.register(
            "isthmus_registry_changes",
            "Registry objects changed",
            m.registry_changes,
        );
        r.register(
            "isthmus_rejected_objects",
            "Objects that could not be used",
            m.rejected,
        );
        r.register(
            "isthmus_push_contexts",
            "Push contexts built",
            m.push_contexts,
        );
        r.register(
            "isthmus_pilot_push_seconds",
            "Time to apply and generate a batch",
            m.push_seconds,
        );
        r.register(
            "isthmus_pilot_debounce_merged",
            "Changes merged into one push",
            m.debounce_merged,
        );
        r.register(
            "isthmus_resources_generated",
            "Resources encoded, by type",
            m.generated,
        );
        r.register(
            "isthmus_pilot_issues",
            "Mistakes found while generating",
            m.issues,
        );
        r.register(
            "isthmus_diagnostics",
            "Mistakes found in objects that are read, counted when they appear",
            m.diagnostics,
        );
        r.register(
            "isthmus_xds_resources_sent",
            "Resources sent to proxies, by type",
            m.sent,
        );
        r.register(
            "isthmus_xds_bytes_sent",
            "Bytes of resources sent, by type",
            m.sent_bytes,
        );
        r.register(
            "pilot_xds_pushes",
            "Responses sent to proxies, by type",
            m.pushes,
        );
        r.register(
            "pilot_total_xds_rejects",
            "Responses refused by proxies, by type",
            m.rejects,
        );
        r.register(
            "pilot_xds_expired_nonce",
            "Requests with an old nonce, by type",
            m.expired_nonce,
        );
        r.register("pilot_xds", "Proxies connected", m.connected);
        r.register(
            "pilot_proxy_convergence_time",
            "Seconds from a change being used to the last ACK of a proxy",
            m.convergence_seconds,
        );
        r.register("pilot_services", "Services known", m.services);
        r.register(
            "pilot_virt_services",
            "Hosts of VirtualServices known",
            m.virtual_services,
        );
        r.register(
            "isthmus_pilot_controllers_connected",
            "Controllers with an open stream",
            m.controller_connected,
        );
        self.register_security(&mut r);
        r
    }

    fn register_security(&self, r: &mut Registry) {
        let m = self.clone();
        r.register(
            "isthmus_xds_authentications",
            "Streams that asked to be let in at the TLS port, by result",
            m.authentications,
        );
        r.register(
            "isthmus_xds_handshake_failures",
            "TLS handshakes of the xDS port that failed",
            m.handshake_failures,
        );
        r.register(
            "isthmus_xds_certificate_failures",
            "Times that a new certificate of the xDS port could not be had",
            m.certificate_failures,
        );
        r.register(
            "isthmus_xds_certificate_not_after_seconds",
            "End of the certificate of the xDS port, in seconds since 1970; 0 without one",
            m.certificate_not_after,
        );
    }
}
