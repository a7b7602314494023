//! Generated messages; the modules mirror the protobuf packages below `istio`.

/// Declares the module of one protobuf package: its messages and their JSON codec.
macro_rules! package {
    ($(#[$doc:meta])* $version:ident, $package:literal) => {
        $(#[$doc])*
        #[allow(missing_docs, unreachable_pub, rust_2018_idioms, clippy::all)]
        pub mod $version {
            include!(concat!(env!("OUT_DIR"), "/", $package, ".rs"));
            include!(concat!(env!("OUT_DIR"), "/", $package, ".serde.rs"));
        }
    };
}

/// `istio.analysis`: validation messages inside a status.
pub mod analysis {
    package!(
        /// `istio.analysis.v1alpha1`: messages of the configuration analysis.
        v1alpha1,
        "istio.analysis.v1alpha1"
    );
}

/// `istio.extensions`: extensions of the proxy.
pub mod extensions {
    package!(
        /// `istio.extensions.v1alpha1`: WasmPlugin and TrafficExtension.
        v1alpha1,
        "istio.extensions.v1alpha1"
    );
}

/// `istio.mcp`: the envelope of a config on the wire.
pub(crate) mod mcp {
    package!(
        /// `istio.mcp.v1alpha1`: Resource and its Metadata.
        v1alpha1,
        "istio.mcp.v1alpha1"
    );
}

/// `istio.meta`: status shared by all kinds.
pub mod meta {
    package!(
        /// `istio.meta.v1alpha1`: status conditions.
        v1alpha1,
        "istio.meta.v1alpha1"
    );
}

/// `istio.networking`: traffic configuration.
pub mod networking {
    package!(
        /// `istio.networking.v1alpha3`: gateways, routes, destinations, filters, workloads.
        v1alpha3,
        "istio.networking.v1alpha3"
    );
    package!(
        /// `istio.networking.v1beta1`: ProxyConfig.
        v1beta1,
        "istio.networking.v1beta1"
    );
}

/// `istio.security`: who may call what.
pub mod security {
    package!(
        /// `istio.security.v1beta1`: authentication and authorization policies.
        v1beta1,
        "istio.security.v1beta1"
    );
}

/// `istio.telemetry`: traces, metrics and access logs.
pub mod telemetry {
    package!(
        /// `istio.telemetry.v1alpha1`: Telemetry.
        v1alpha1,
        "istio.telemetry.v1alpha1"
    );
}

/// `istio.type`: types shared by the other packages.
pub mod r#type {
    package!(
        /// `istio.type.v1beta1`: workload selectors and policy targets.
        v1beta1,
        "istio.r#type.v1beta1"
    );
}
