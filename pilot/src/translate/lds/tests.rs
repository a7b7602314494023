//! Who owns an SNI host, and what a listener is made of. That Envoy takes it is tested against
//! Envoy itself.

use rstest::rstest;

use super::*;
use crate::translate::issue::{Origin, Reason};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use prost::Message;

fn chain(hosts: &[&str]) -> TlsChain {
    TlsChain {
        origin: Origin {
            namespace: "ns".to_owned(),
            name: "gw".to_owned(),
        },
        server_name: String::new(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        secret: "kubernetes://ns/secret".to_owned(),
        min_version: TlsVersion::Auto,
        max_version: TlsVersion::Auto,
        cipher_suites: Vec::new(),
        client_certificate: ClientCertificate::None,
        http2: true,
        route_name: "https.443.https.gw.ns".to_owned(),
    }
}

fn input(servers: Servers, routing: Routing) -> ListenerInput {
    ListenerInput {
        bind: "0.0.0.0".into(),
        port: 443,
        servers,
        routing,
        options: HttpOptions::default(),
    }
}

fn https(chains: Vec<TlsChain>) -> Generated<Option<listener::Listener>> {
    listener(&input(
        Servers::Tls(chains.into_iter().map(Into::into).collect()),
        Routing::Scoped { on_demand: false },
    ))
}

fn names_of(chain: &listener::FilterChain) -> Vec<&str> {
    chain
        .filter_chain_match
        .iter()
        .flat_map(|matching| matching.server_names.iter().map(String::as_str))
        .collect()
}

fn manager(listener: &listener::Listener) -> hcm::HttpConnectionManager {
    let filter = &listener.filter_chains[0].filters[0];
    let Some(listener::filter::ConfigType::TypedConfig(any)) = &filter.config_type else {
        panic!("{filter:?}");
    };
    hcm::HttpConnectionManager::decode(any.value.as_slice()).unwrap()
}

#[test]
fn the_first_server_keeps_an_sni_host() {
    let built = https(vec![
        chain(&["B.test", "a.test"]),
        chain(&["a.test", "c.test"]),
        chain(&["a.test"]),
        chain(&["*"]),
        chain(&[]),
    ]);
    let chains = built.resource.unwrap().filter_chains;
    let hosts: Vec<_> = chains.iter().map(names_of).collect();
    assert_eq!(hosts, [vec!["a.test", "b.test"], vec!["c.test"], vec![]]);
    assert_eq!(built.issues.len(), 3);
    assert!(
        built
            .issues
            .iter()
            .all(|issue| issue.reason == Reason::Duplicate)
    );
}

#[test]
fn invalid_hosts_are_left_out() {
    let built = https(vec![chain(&["a*.test", ""]), chain(&["a.test", "x y"])]);
    let chains = built.resource.unwrap().filter_chains;
    assert_eq!(chains.len(), 1);
    assert_eq!(names_of(&chains[0]), ["a.test"]);
    assert_eq!(built.issues.len(), 3);
    assert!(https(vec![chain(&["a*.test"])]).resource.is_none());
}

#[rstest]
#[case(ClientCertificate::None, None, false)]
#[case(ClientCertificate::Optional, None, true)]
#[case(ClientCertificate::Required, Some(true), true)]
fn client_certificates(
    #[case] wanted: ClientCertificate,
    #[case] required: Option<bool>,
    #[case] checked: bool,
) {
    let built = https(vec![TlsChain {
        client_certificate: wanted,
        ..chain(&["a.test"])
    }]);
    let listener = built.resource.unwrap();
    let socket = listener.filter_chains[0].transport_socket.clone().unwrap();
    let Some(core::transport_socket::ConfigType::TypedConfig(any)) = socket.config_type else {
        panic!("no config");
    };
    let context = tls_v3::DownstreamTlsContext::decode(any.value.as_slice()).unwrap();
    assert_eq!(
        context.require_client_certificate.map(|on| on.value),
        required
    );
    let common = context.common_tls_context.unwrap();
    assert_eq!(common.alpn_protocols, ["h2", "http/1.1"]);
    assert_eq!(common.validation_context_type.is_some(), checked);
}

#[test]
fn bad_tls_parameters_are_reported() {
    let built = https(vec![TlsChain {
        min_version: TlsVersion::V1_3,
        max_version: TlsVersion::V1_0,
        cipher_suites: vec!["ROT13".to_owned()],
        ..chain(&["a.test"])
    }]);
    assert_eq!(built.issues.len(), 2);
}

#[rstest]
#[case(Routing::Plain, &[])]
#[case(Routing::Scoped { on_demand: false }, &["isthmus.scope.443"; 2])]
#[case(
    Routing::Scoped { on_demand: true },
    &[
        "envoy.filters.http.on_demand", "isthmus.scope.443", "envoy.filters.http.on_demand",
        "isthmus.scope.443", "envoy.filters.http.on_demand", "isthmus.scope.443",
        "envoy.filters.http.on_demand", "isthmus.scope.443", "envoy.filters.http.on_demand",
    ]
)]
fn filters_come_in_a_fixed_order(#[case] routing: Routing, #[case] first: &[&str]) {
    let servers = Servers::Http {
        route_name: "http.443".to_owned(),
        grpc_web: true,
    };
    let listener = listener(&input(servers, routing)).resource.unwrap();
    let manager = manager(&listener);
    let names: Vec<&str> = manager
        .http_filters
        .iter()
        .map(|filter| filter.name.as_str())
        .collect();
    let rest = [
        CORS,
        CUSTOM_RESPONSE,
        RBAC,
        LOCAL_RATE_LIMIT,
        "envoy.filters.http.grpc_web",
        FAULT,
        "envoy.filters.http.router",
    ];
    assert_eq!(names, [first, &rest].concat());
    assert_eq!(listener.name, "0.0.0.0_443");
    assert_eq!(manager.stat_prefix, "outbound_0.0.0.0_443");
}

#[test]
fn connections_are_passed_on() {
    assert_eq!(passed_to(&[]), "refused BlackHoleCluster");
    assert_eq!(passed_to(&[("a", 0)]), "outbound_0.0.0.0_443 a");
    let shares = [("a", 1), ("b", 3)];
    assert_eq!(passed_to(&shares), "outbound_0.0.0.0_443 a=1 b=3");
}

fn passed_to(clusters: &[(&str, u32)]) -> String {
    use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp_proxy;
    use tcp_proxy::tcp_proxy::ClusterSpecifier;
    let passthrough = TlsServer::Passthrough(Passthrough {
        origin: chain(&[]).origin,
        hosts: vec!["a.test".to_owned(), "b.test".to_owned()],
        clusters: clusters
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect(),
    });
    let servers = Servers::Tls(vec![chain(&["b.test"]).into(), passthrough]);
    let built = listener(&input(servers, Routing::Plain));
    let chains = built.resource.unwrap().filter_chains;
    assert_eq!(names_of(&chains[1]), ["a.test"], "b.test has an owner");
    assert_eq!(built.issues.len(), 1);
    assert!(chains[1].transport_socket.is_none());
    let Some(listener::filter::ConfigType::TypedConfig(any)) = &chains[1].filters[0].config_type
    else {
        panic!("{chains:?}");
    };
    let proxy = tcp_proxy::TcpProxy::decode(any.value.as_slice()).unwrap();
    let to = match proxy.cluster_specifier.unwrap() {
        ClusterSpecifier::Cluster(name) => name,
        ClusterSpecifier::WeightedClusters(all) => {
            let all = all
                .clusters
                .iter()
                .map(|c| format!("{}={}", c.name, c.weight));
            all.collect::<Vec<_>>().join(" ")
        }
    };
    format!("{} {to}", proxy.stat_prefix)
}

#[test]
fn routes_can_switch_the_access_log_off() {
    let servers = Servers::Http {
        route_name: "http.80".to_owned(),
        grpc_web: false,
    };
    let mut input = input(servers, Routing::Scoped { on_demand: false });
    input.options.access_log = Some(AccessLog {
        path: "/dev/stdout".to_owned(),
        format: String::new(),
    });
    let listener = listener(&input).resource.unwrap();
    let logs = manager(&listener).access_log;
    let [log] = logs.as_slice() else {
        panic!("{logs:?}");
    };
    let filter = format!("{:?}", log.filter.as_ref().unwrap());
    assert!(filter.contains("extension_filters.cel"), "{filter}");
}
