//! The HTTP connection manager of a gateway.

use std::time::Duration;

use envoy_types::pb::envoy::config::accesslog::v3 as accesslog;
use envoy_types::pb::envoy::config::common::mutation_rules::v3 as mutation_rules;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3 as file_log;
use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3 as cel;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3 as early;
use envoy_types::pb::envoy::extensions::request_id::uuid::v3 as uuid;

use super::{ListenerInput, Routing, filters};
use crate::translate::{names, proto};

/// Options that hold for all connection managers of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Proxies in front of the gateway whose `x-forwarded-for` entry is believed.
    pub trusted_hops: u32,
    /// Value of the `server` response header; empty passes the backend's on.
    pub server_name: String,
    /// Serve websocket upgrades.
    pub websocket: bool,
    /// Serve HTTP/1.0.
    pub http_10: bool,
    /// Merge adjacent slashes in paths.
    pub merge_slashes: bool,
    /// Idle time after which a client connection is closed; `None` is Envoy's default of an hour.
    pub idle_timeout: Option<Duration>,
    /// Where requests are logged.
    pub access_log: Option<AccessLog>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            trusted_hops: 0,
            server_name: "istio-envoy".to_owned(),
            websocket: true,
            http_10: false,
            merge_slashes: false,
            idle_timeout: None,
            access_log: None,
        }
    }
}

/// A text log of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// File, for example `/dev/stdout`.
    pub path: String,
    /// Envoy format string with its line end; empty is Envoy's default.
    pub format: String,
}

/// True for requests that are logged: those whose route does not have `off` in this namespace of its metadata.
const LOGGED: &str = "!(has(xds.route_metadata.filter_metadata) && 'isthmus.access_log' in xds.route_metadata.filter_metadata \
    && 'off' in xds.route_metadata.filter_metadata['isthmus.access_log'] \
    && xds.route_metadata.filter_metadata['isthmus.access_log']['off'] == true)";

/// The network filter of a chain.
pub(super) fn filter(
    input: &ListenerInput,
    stat_prefix: &str,
    route_name: &str,
    grpc_web: bool,
) -> listener::Filter {
    let mut manager = manager(&input.options);
    manager.stat_prefix = stat_prefix.to_owned();
    manager.http_filters = filters::chain(input.port, input.routing, grpc_web);
    match input.routing {
        Routing::Scoped { on_demand } => scoped(&mut manager, input.port, on_demand),
        Routing::Plain => manager.route_specifier = Some(plain(route_name)),
    }
    listener::Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(proto::any(
            &manager,
        ))),
    }
}

fn manager(options: &HttpOptions) -> hcm::HttpConnectionManager {
    use hcm::http_connection_manager as shape;
    let transformation = if options.server_name.is_empty() {
        shape::ServerHeaderTransformation::PassThrough
    } else {
        shape::ServerHeaderTransformation::Overwrite
    };
    let certificate_details = shape::SetCurrentClientCertDetails {
        subject: Some(proto::boolean(true)),
        cert: true,
        dns: true,
        uri: true,
        ..Default::default()
    };
    hcm::HttpConnectionManager {
        server_name: options.server_name.clone(),
        server_header_transformation: transformation.into(),
        use_remote_address: Some(proto::boolean(true)),
        xff_num_trusted_hops: options.trusted_hops,
        forward_client_cert_details: shape::ForwardClientCertDetails::SanitizeSet.into(),
        set_current_client_cert_details: Some(certificate_details),
        normalize_path: Some(proto::boolean(true)),
        merge_slashes: options.merge_slashes,
        path_with_escaped_slashes_action: shape::PathWithEscapedSlashesAction::KeepUnchanged.into(),
        stream_idle_timeout: Some(proto::seconds(0)),
        upgrade_configs: upgrades(options),
        http_protocol_options: options.http_10.then(|| core::Http1ProtocolOptions {
            accept_http_10: true,
            ..Default::default()
        }),
        common_http_protocol_options: options.idle_timeout.map(|idle| core::HttpProtocolOptions {
            idle_timeout: Some(proto::duration(idle)),
            ..Default::default()
        }),
        request_id_extension: Some(request_id()),
        access_log: options.access_log.iter().map(access_log).collect(),
        ..Default::default()
    }
}

fn upgrades(options: &HttpOptions) -> Vec<hcm::http_connection_manager::UpgradeConfig> {
    let websocket = options
        .websocket
        .then(|| hcm::http_connection_manager::UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        });
    websocket.into_iter().collect()
}

fn request_id() -> hcm::RequestIdExtension {
    let config = uuid::UuidRequestIdConfig {
        use_request_id_for_trace_sampling: Some(proto::boolean(true)),
        ..Default::default()
    };
    hcm::RequestIdExtension {
        typed_config: Some(proto::any(&config)),
    }
}

fn access_log(log: &AccessLog) -> accesslog::AccessLog {
    let format = (!log.format.is_empty()).then(|| {
        file_log::file_access_log::AccessLogFormat::LogFormat(core::SubstitutionFormatString {
            format: Some(core::substitution_format_string::Format::TextFormatSource(
                core::DataSource {
                    specifier: Some(core::data_source::Specifier::InlineString(
                        log.format.clone(),
                    )),
                    ..Default::default()
                },
            )),
            ..Default::default()
        })
    });
    let config = file_log::FileAccessLog {
        path: log.path.clone(),
        access_log_format: format,
    };
    accesslog::AccessLog {
        name: "envoy.access_loggers.file".to_owned(),
        filter: Some(logged()),
        config_type: Some(accesslog::access_log::ConfigType::TypedConfig(proto::any(
            &config,
        ))),
    }
}

/// Routes can switch the log off, whatever the listener.
fn logged() -> accesslog::AccessLogFilter {
    use accesslog::{access_log_filter::FilterSpecifier, extension_filter::ConfigType};
    let expression = cel::ExpressionFilter {
        expression: LOGGED.to_owned(),
        ..Default::default()
    };
    let filter = accesslog::ExtensionFilter {
        name: "envoy.access_loggers.extension_filters.cel".to_owned(),
        config_type: Some(ConfigType::TypedConfig(proto::any(&expression))),
    };
    accesslog::AccessLogFilter {
        filter_specifier: Some(FilterSpecifier::ExtensionFilter(filter)),
    }
}

fn plain(route_name: &str) -> hcm::http_connection_manager::RouteSpecifier {
    hcm::http_connection_manager::RouteSpecifier::Rds(hcm::Rds {
        config_source: Some(proto::ads()),
        route_config_name: route_name.to_owned(),
    })
}

/// Routes by scope. The scope header is overwritten before anything reads it, whatever the client
/// sent; its value ends at the first `:`, so that a port in the host does not matter and the host
/// still reaches the backend as the client sent it.
fn scoped(manager: &mut hcm::HttpConnectionManager, port: u16, on_demand: bool) {
    use hcm::scoped_routes::{ConfigSpecifier, ScopeKeyBuilder, scope_key_builder};
    use scope_key_builder::fragment_builder::{
        HeaderValueExtractor, Type, header_value_extractor::ExtractType,
    };
    let extractor = HeaderValueExtractor {
        name: names::SCOPE_HEADER.to_owned(),
        element_separator: ":".to_owned(),
        extract_type: Some(ExtractType::Index(0)),
    };
    let fragment = scope_key_builder::FragmentBuilder {
        r#type: Some(Type::HeaderValueExtractor(extractor)),
    };
    let routes = hcm::ScopedRoutes {
        name: names::SCOPED_ROUTES.to_owned(),
        scope_key_builder: Some(ScopeKeyBuilder {
            fragments: vec![fragment],
        }),
        rds_config_source: Some(proto::ads()),
        config_specifier: Some(ConfigSpecifier::ScopedRds(hcm::ScopedRds {
            scoped_rds_config_source: Some(proto::ads()),
            ..Default::default()
        })),
    };
    manager.early_header_mutation_extensions = vec![set_scope_header(port, on_demand)];
    manager.route_specifier = Some(hcm::http_connection_manager::RouteSpecifier::ScopedRoutes(
        routes,
    ));
}

fn set_scope_header(port: u16, on_demand: bool) -> core::TypedExtensionConfig {
    let mut value = names::scope_name(port, "%REQ(:authority)%");
    if on_demand {
        value.push_str(names::SCOPE_ON_DEMAND);
    }
    let header = core::HeaderValue {
        key: names::SCOPE_HEADER.to_owned(),
        value,
        ..Default::default()
    };
    let append = core::HeaderValueOption {
        header: Some(header),
        append_action: core::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..Default::default()
    };
    let mutation = mutation_rules::HeaderMutation {
        action: Some(mutation_rules::header_mutation::Action::Append(append)),
    };
    core::TypedExtensionConfig {
        name: "envoy.http.early_header_mutation.header_mutation".to_owned(),
        typed_config: Some(proto::any(&early::HeaderMutation {
            mutations: vec![mutation],
        })),
    }
}
