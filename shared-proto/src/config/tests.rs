use super::*;
use crate::extensions::v1alpha1::WasmPlugin;
use crate::networking::v1alpha3::{DestinationRule, EnvoyFilter, Gateway, VirtualService};

const VIRTUAL_SERVICE: &str = r#"
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: shop
  namespace: web
  labels: {team: a}
  annotations: {note: "x"}
  creationTimestamp: "2024-02-03T04:05:06Z"
  resourceVersion: "12"
spec:
  hosts: [shop.example.com]
  gateways: null
  unknownField: {a: [1]}
  hostHTTPFilters:
  - name: ip
    ipAccessControl: {remoteIpBlocks: [10.0.0.0/8]}
  http:
  - name: first
    match:
    - uri: {prefix: /a}
      headers: {x-id: {exact: "1"}, present: {}}
      queryParams: {q: {regex: ".*"}}
      ignoreUriCase: true
    route:
    - destination: {host: a.web.svc.cluster.local, port: {number: 80}}
      weight: 90
      fallbackClusters: [{host: b.web.svc.cluster.local}]
    - destination: {host: b.web.svc.cluster.local}
      weight: 10
    timeout: 1m30s
    retries: {attempts: 3, perTryTimeout: 250ms, retryRemoteLocalities: true}
    mirror_percent: 12
    mirrorPercentage: {value: 0.5}
    corsPolicy: {allowOrigins: [{exact: "https://a"}], maxAge: 24h, allowCredentials: false, unmatchedPreflights: IGNORE}
    fault: {abort: {httpStatus: 503, percentage: {value: 10}}}
    routeHTTPFilters:
    - name: limit
      localRateLimit: {tokenBucket: {maxTokens: 5, tokensPefFill: 5, fillInterval: 1s}}
    internalActiveRedirect: {maxInternalRedirects: 1, redirectUrl: "http://x", policies: [{authority: y}]}
  - redirect: {uri: /b, redirectCode: 301, derivePort: FROM_REQUEST_PORT}
  - directResponse: {status: 200, body: {bytes: aGk=}}
"#;

#[test]
fn virtual_service_as_users_write_it() {
    let config = Config::from_yaml(VIRTUAL_SERVICE).unwrap();
    assert_eq!(config.key().to_string(), "VirtualService web/shop");
    assert_eq!(config.meta.created, Some(1_706_933_106));
    assert_eq!(config.meta.labels["team"], "a");
    let spec = config.spec.get::<VirtualService>().unwrap();
    let route = &spec.http[0];
    assert_eq!(route.timeout.unwrap().seconds, 90);
    assert_eq!(
        route
            .retries
            .as_ref()
            .unwrap()
            .per_try_timeout
            .unwrap()
            .nanos,
        250_000_000
    );
    assert_eq!(route.mirror_percent.as_ref().unwrap().value, 12);
    let cors = route.cors_policy.as_ref().unwrap();
    assert_eq!(cors.max_age.unwrap().seconds, 86_400);
    assert!(!cors.allow_credentials.as_ref().unwrap().value);
    assert_eq!(route.route[0].fallback_clusters.len(), 1);
    assert_eq!(spec.host_http_filters.len(), 1);
    let body = spec.http[2]
        .direct_response
        .as_ref()
        .unwrap()
        .body
        .as_ref()
        .unwrap();
    assert_eq!(format!("{body:?}").matches("hi").count(), 1);
}

#[test]
fn printed_form_is_protobuf_json() {
    let config = Config::from_yaml(VIRTUAL_SERVICE).unwrap();
    let json = config.to_json();
    assert_eq!(json["apiVersion"], "networking.istio.io/v1alpha3");
    assert_eq!(
        json["metadata"]["creationTimestamp"],
        "2024-02-03T04:05:06Z"
    );
    let route = &json["spec"]["http"][0];
    assert_eq!(route["timeout"], "90s");
    assert_eq!(route["retries"]["perTryTimeout"], "0.250s");
    assert_eq!(route["mirrorPercent"], 12);
    assert_eq!(route["corsPolicy"]["unmatchedPreflights"], "IGNORE");
    assert_eq!(
        route["routeHTTPFilters"][0]["localRateLimit"]["tokenBucket"]["tokensPefFill"],
        5
    );
    assert_eq!(
        json["spec"]["http"][2]["directResponse"]["body"]["bytes"],
        "aGk="
    );
    assert!(json["spec"].get("gateways").is_none());
}

#[test]
fn manifests_round_trip() {
    let gateway = r#"
apiVersion: networking.istio.io/v1beta1
kind: Gateway
metadata: {name: g, namespace: n}
spec:
  selector: {higress: higress-system-higress-gateway}
  servers:
  - hosts: [n/a.example.com]
    port: {name: https-443, number: 443, protocol: HTTPS}
    tls: {mode: SIMPLE, credentialName: kubernetes-ingress://c/n/s, minProtocolVersion: TLSV1_2, cipherSuites: [A]}
"#;
    let rule = r#"
apiVersion: networking.istio.io/v1alpha3
kind: DestinationRule
metadata: {name: d, namespace: n}
spec:
  host: a
  trafficPolicy:
    loadBalancer: {consistentHash: {httpCookie: {name: c, ttl: 0s}}}
    connectionPool: {tcp: {maxConnections: 5, connectTimeout: 30ms}, http: {h2UpgradePolicy: UPGRADE}}
    outlierDetection: {consecutive5xxErrors: 7, interval: 5m}
    tls: {mode: MUTUAL, insecureSkipVerify: true}
    portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: LEAST_REQUEST}}]
"#;
    let filter = r#"
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: f, namespace: n}
spec:
  priority: -1
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: GATEWAY, listener: {filterChain: {filter: {name: hcm, subFilter: {name: router}}}}}
    patch:
      operation: INSERT_BEFORE
      value: {name: x, typed_config: {"@type": "type.googleapis.com/a.B", n: 1, f: 1.5, none: null, l: [true]}}
"#;
    let plugin = r#"
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: w, namespace: n}
spec:
  url: oci://r/p:1
  phase: AUTHN
  priority: 10
  failStrategy: FAIL_OPEN
  pluginConfig: {_rules_: [{_match_route_: [a], k: null}]}
"#;
    for text in [VIRTUAL_SERVICE, gateway, rule, filter, plugin] {
        let config = Config::from_yaml(text).unwrap();
        assert_eq!(Config::from_json(&config.to_json()).unwrap(), config);
        assert_eq!(
            Config::from_yaml(&config.to_yaml().unwrap()).unwrap(),
            config
        );
        let spec = Spec::decode(config.kind(), config.spec.encode()).unwrap();
        assert_eq!(spec, config.spec);
    }
    let config = Config::from_yaml(filter).unwrap();
    let spec = config.spec.get::<EnvoyFilter>().unwrap();
    let value = spec.config_patches[0]
        .patch
        .as_ref()
        .unwrap()
        .value
        .as_ref()
        .unwrap();
    assert_eq!(value.to_json()["typed_config"]["n"], 1);
    assert!(
        value.to_json()["typed_config"]
            .as_object()
            .unwrap()
            .contains_key("none")
    );
    let config = Config::from_yaml(rule).unwrap();
    let detection = config.spec.get::<DestinationRule>().unwrap();
    assert!(format!("{detection:?}").contains("consecutive_5xx_errors: Some"));
    assert!(
        Config::from_yaml(plugin)
            .unwrap()
            .spec
            .get::<WasmPlugin>()
            .is_some()
    );
    assert!(
        Config::from_yaml(plugin)
            .unwrap()
            .spec
            .get::<Gateway>()
            .is_none()
    );
}

#[test]
fn mistakes_name_the_place() {
    let base = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\n";
    for (text, message) in [
        (
            format!("{base}spec: {{http: [{{timeout: soon}}]}}"),
            "spec.http[0].timeout: invalid duration \"soon\"",
        ),
        (
            format!("{base}spec: {{hosts: x}}"),
            "spec.hosts: invalid type",
        ),
        (
            base.replace("VirtualService", "Nope"),
            "unknown kind \"Nope\"",
        ),
        (base.replace("v1\n", "v9\n"), "unknown kind"),
        (
            base.replace("name: a", "x: y"),
            "metadata.name: want a string",
        ),
        ("[1]".to_owned(), "apiVersion: want a string"),
        ("a: [".to_owned(), "invalid YAML"),
    ] {
        let error = Config::from_yaml(&text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn an_absent_spec_is_empty() {
    let text =
        "{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: none}}";
    let config = Config::from_yaml(text).unwrap();
    assert_eq!(config.spec.to_json(), json!({}));
    assert_eq!(&*config.meta.namespace, "");
}
