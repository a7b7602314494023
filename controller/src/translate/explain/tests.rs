use rstest::rstest;
use shared_proto::networking::v1alpha3::VirtualService;
use shared_proto::{Config, Spec};

use super::*;

const HTTP: &str = r#"
  - match: [{uri: {exact: /both}, headers: {x-c: {exact: always}}}]
    route: [{destination: {host: canary, port: {number: 80}}, weight: 100}]
  - match: [{uri: {exact: /both}}]
    route:
    - {destination: {host: a, port: {number: 80}}, weight: 90}
    - {destination: {host: b, port: {number: 81}}, weight: 10}
  - match: [{uri: {prefix: /any/}, ignoreUriCase: true}]
    rewrite: {uri: /new/, authority: in.test}
    route: [{destination: {host: a}}]
  - match: [{uri: {regex: '(?i)/svc(/|$)(.*).*'}}]
    rewrite: {uriRegexRewrite: {match: '(?i)/svc(/|$)(.*).*', rewrite: '/\2'}}
    route: [{destination: {host: a}}]
  - match: [{uri: {prefix: /move}}]
    redirect: {scheme: https, authority: b.test, redirectCode: 301}
  - match: [{uri: {prefix: /secure}}]
    redirect: {scheme: https, redirectCode: 308}
    directResponse: {status: 503}
  - match: [{uri: {prefix: /literal}}]
    directResponse: {status: 302}
    headers: {response: {set: {location: '%REQ(:SCHEME)%://%REQ(:AUTHORITY)%%REQ(:PATH)%&a=%%20'}}}
  - match: [{uri: {prefix: /shared}, method: {regex: GET|OPTIONS}, queryParams: {q: {exact: '1'}}}]
    corsPolicy: {allowOrigins: [{regex: 'https://.*'}], allowHeaders: [x-a], allowMethods: [GET]}
    routeHTTPFilters: [{name: f, ip_access_control: {remoteIpBlocks: [10.0.0.0/8]}}]
    route: [{destination: {host: a}}]
"#;

fn spec() -> VirtualService {
    let text = format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: VirtualService\nmetadata: {{name: a, namespace: n}}\nspec:\n  http:{HTTP}"
    );
    let config = Config::from_yaml(&text).unwrap();
    let Spec::VirtualService(spec) = config.spec else {
        panic!("another kind");
    };
    *spec
}

#[rstest]
#[case("/both", "a:80 90%, b:81 10% sees /both")]
#[case("/bothx", "none")]
#[case("/ANY/x?q", "a sees /new/x?q of in.test")]
#[case("/SVC/a/b", "a sees /a/b")]
#[case("/svc", "a sees /")]
#[case("/svcx", "none")]
#[case("/move/x?y=1", "301 to https://b.test/move/x?y=1")]
#[case("/secure", "308 to https://h.test/secure")]
#[case("/literal?x=1", "302 to http://h.test/literal?x=1&a=%20")]
#[case("/shared?q=1", "a sees /shared?q=1")]
#[case("/shared?q=2", "none")]
fn answers(#[case] path: &str, #[case] expected: &str) {
    let spec = spec();
    let answer = Routes::new(&spec).answer(&Request::get("h.test", path));
    let found = answer.map_or("none".to_owned(), |answer| answer.action.to_string());
    assert_eq!(found, expected);
}

#[test]
fn headers_schemes_and_clients() {
    let spec = spec();
    let routes = Routes::new(&spec);
    let action = |request: &Request| routes.answer(request).unwrap().action.to_string();
    let canary = Request::get("h.test", "/both").with("X-C", "always");
    assert_eq!(action(&canary), "canary:80 sees /both");
    let mut secure = Request::get("h.test", "/secure");
    secure.https = true;
    assert_eq!(action(&secure), "503");
    let mut outside = Request::get("h.test", "/shared?q=1");
    outside.client = Some("11.0.0.1".parse().unwrap());
    assert_eq!(action(&outside), "403");
    outside.client = Some("10.0.0.1".parse().unwrap());
    assert_eq!(action(&outside), "a sees /shared?q=1");
}

#[test]
fn origins() {
    let spec = spec();
    let routes = Routes::new(&spec);
    let request = Request::get("h.test", "/shared?q=1");
    let cors = |request: Request| {
        let answer = routes.answer(&request).unwrap();
        (answer.cors, answer.action.to_string())
    };
    let allowed = cors(request.clone().with("origin", "https://x"));
    assert_eq!(allowed.0, "access-control-allow-origin: https://x");
    assert_eq!(cors(request.clone().with("origin", "http://x")).0, "");
    let mut preflight = request.with("origin", "https://x");
    preflight = preflight.with("access-control-request-method", "GET");
    preflight.method = "OPTIONS".to_owned();
    let expected = (
        "https://x may send GET with x-a".to_owned(),
        "200".to_owned(),
    );
    assert_eq!(cors(preflight), expected);
}

#[test]
fn requests_are_command_lines() {
    let mut request = Request::get("h.test", "/a?b=c").with("x-c", "always");
    request.method = "POST".to_owned();
    request.https = true;
    request.client = Some("10.0.0.1".parse().unwrap());
    let expected = "curl -X POST -H 'x-c: always' 'https://h.test/a?b=c' (from 10.0.0.1)";
    assert_eq!(request.to_string(), expected);
}
