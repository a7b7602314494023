//! Choice among the endpoints of a backend. A cookie beats a hash, which beats a simple policy.

use shared_proto::networking::v1alpha3::LoadBalancerSettings;
use shared_proto::networking::v1alpha3::load_balancer_settings::consistent_hash_lb::{
    HashKey, HttpCookie,
};
use shared_proto::networking::v1alpha3::load_balancer_settings::{
    ConsistentHashLb, LbPolicy, SimpleLb,
};

use super::table::{
    AFFINITY, LOAD_BALANCE, SESSION_COOKIE_NAME, SESSION_COOKIE_PATH, UPSTREAM_HASH_BY,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Problems};
use crate::model::{Reason, Semantics};
use cookie::Cookie;

pub(super) mod cookie;

/// How endpoints are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadBalance {
    /// By a cookie that clients get.
    Cookie(Cookie),
    /// By something of the request.
    Hash(Hash),
    /// Without regard to the request.
    Simple(SimpleLb),
}

/// What is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    /// The address of the client.
    Address,
    /// A header.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A cookie that clients have.
    Cookie(String),
}

/// Reads how endpoints are chosen; `None` when nothing is said about it.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<LoadBalance> {
    let affinity = annotations.get(&AFFINITY, affinity, problems).is_some();
    let name = annotations.get(&SESSION_COOKIE_NAME, cookie::name, problems);
    let path = annotations.get(&SESSION_COOKIE_PATH, cookie::path, problems);
    // The other keys ask for a cookie by themselves in Higress only.
    let by_others = annotations.semantics() == Semantics::Higress;
    if affinity || (by_others && (name.is_some() || path.is_some())) {
        let cookie = Cookie::parse(annotations, (name, path), problems);
        return Some(LoadBalance::Cookie(cookie));
    }
    cookie::without_affinity(annotations, problems);
    if annotations.has(&UPSTREAM_HASH_BY) {
        let nginx = annotations.semantics() == Semantics::IngressNginx;
        let hash = |raw: &str| hash(raw, nginx);
        let hash = annotations.get(&UPSTREAM_HASH_BY, hash, problems);
        return Some(hash.map_or(LoadBalance::Simple(SimpleLb::RoundRobin), LoadBalance::Hash));
    }
    if !annotations.has(&LOAD_BALANCE) {
        return None;
    }
    let found = annotations.find(&LOAD_BALANCE, simple, problems)?;
    if let Some(message) = found.value.1 {
        problems.add(found.key, Reason::UnsupportedAnnotation, message);
    }
    Some(LoadBalance::Simple(found.value.0))
}

fn affinity(text: &str) -> Value<()> {
    match value::line(text)?.as_str() {
        "cookie" => Ok(()),
        other => Err(ValueError::new(
            other,
            "is not a kind of affinity; write cookie",
        )),
    }
}

/// With `nginx` some more of nginx's variables, also in braces. A text with several of them cannot be hashed.
fn hash(raw: &str, nginx: bool) -> Value<Hash> {
    let mut line = value::line(raw)?;
    let inner = line
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    if let (true, Some(inner)) = (nginx, inner) {
        line = format!("${inner}");
    }
    let name = |prefix: &str| {
        let name = line.strip_prefix(prefix)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (!name.is_empty() && name.bytes().all(plain)).then(|| name.to_owned())
    };
    Ok(match line.as_str() {
        "$remote_addr" | "$binary_remote_addr" => Hash::Address,
        "$request_uri" => Hash::Header(":path".to_owned()),
        "$host" => Hash::Header(":authority".to_owned()),
        "$http_host" if nginx => Hash::Header(":authority".to_owned()),
        _ => {
            let header = name("$http_").map(|name| Hash::Header(name.replace('_', "-")));
            let query = || name("$arg_").map(Hash::Query);
            let cookie = || name("$cookie_").filter(|_| nginx).map(Hash::Cookie);
            return header.or_else(query).or_else(cookie).ok_or_else(|| {
                let why = "cannot be hashed, endpoints take turns; write $remote_addr, $request_uri, $host, $http_NAME or $arg_NAME";
                ValueError::new(&line, why)
            });
        }
    })
}

/// The policy, and what to say when it stands in for one that does not exist here.
fn simple(raw: &str) -> Value<(SimpleLb, Option<&'static str>)> {
    if raw.trim().is_empty() {
        return Ok((SimpleLb::RoundRobin, None));
    }
    let line = value::line(raw)?;
    Ok(match line.to_ascii_uppercase().as_str() {
        "ROUND_ROBIN" => (SimpleLb::RoundRobin, None),
        "LEAST_CONN" => (SimpleLb::LeastConn, None),
        "LEAST_REQUEST" => (SimpleLb::LeastRequest, None),
        "RANDOM" => (SimpleLb::Random, None),
        "EWMA" => (
            SimpleLb::LeastRequest,
            Some("ewma is not known here, least_request is used in its place; write that"),
        ),
        "MCP-SSE" => (
            SimpleLb::RoundRobin,
            Some("mcp-sse is not supported yet, endpoints take turns; sessions may be lost"),
        ),
        _ => {
            let why = "is not a policy; write round_robin, least_request, least_conn or random";
            return Err(ValueError::new(&line, why));
        }
    })
}

impl LoadBalance {
    /// The settings of a port.
    pub(crate) fn settings(&self) -> LoadBalancerSettings {
        let consistent = |key| {
            LbPolicy::ConsistentHash(ConsistentHashLb {
                hash_key: Some(key),
                ..ConsistentHashLb::default()
            })
        };
        let policy = match self {
            Self::Simple(simple) => LbPolicy::Simple((*simple).into()),
            Self::Cookie(cookie) => consistent(HashKey::HttpCookie(cookie.settings())),
            Self::Hash(Hash::Address) => consistent(HashKey::UseSourceIp(true)),
            Self::Hash(Hash::Header(name)) => consistent(HashKey::HttpHeaderName(name.clone())),
            Self::Hash(Hash::Query(name)) => {
                consistent(HashKey::HttpQueryParameterName(name.clone()))
            }
            // Without a life the gateway makes none for clients that have none.
            Self::Hash(Hash::Cookie(name)) => consistent(HashKey::HttpCookie(HttpCookie {
                name: name.clone(),
                ..HttpCookie::default()
            })),
        };
        LoadBalancerSettings {
            lb_policy: Some(policy),
            ..LoadBalancerSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{parsed, parsed_as};
    use super::*;
    use rstest::rstest;

    const AFFINITY: &str = "nginx.ingress.kubernetes.io/affinity";
    const NAME: &str = "nginx.ingress.kubernetes.io/session-cookie-name";
    const PATH: &str = "higress.io/session-cookie-path";
    const AGE: &str = "nginx.ingress.kubernetes.io/session-cookie-max-age";
    const EXPIRES: &str = "nginx.ingress.kubernetes.io/session-cookie-expires";
    const DOMAIN: &str = "nginx.ingress.kubernetes.io/session-cookie-domain";
    const SITE: &str = "nginx.ingress.kubernetes.io/session-cookie-samesite";
    const SECURE: &str = "nginx.ingress.kubernetes.io/session-cookie-secure";
    const HASH: &str = "nginx.ingress.kubernetes.io/upstream-hash-by";
    const LB: &str = "nginx.ingress.kubernetes.io/load-balance";

    fn shown(choice: Option<LoadBalance>) -> String {
        match choice {
            None => String::new(),
            Some(LoadBalance::Cookie(cookie)) => {
                let settings = cookie.settings();
                let mut words = vec!["cookie".to_owned(), settings.name, settings.path];
                words.push(settings.ttl.unwrap().seconds.to_string());
                let attributes = settings.attributes.into_iter();
                words.extend(attributes.map(|a| format!("{}={}", a.name, a.value)));
                words.join(" ")
            }
            Some(LoadBalance::Hash(hash)) => format!("{hash:?}"),
            Some(LoadBalance::Simple(simple)) => simple.as_str_name().to_owned(),
        }
    }

    #[rstest]
    #[case(&[], "", 0)]
    #[case(&[(AFFINITY, "cookie")], "cookie INGRESSCOOKIE / 0", 0)]
    #[case(&[(NAME, "r"), (PATH, "/x"), (AGE, "5"), (EXPIRES, "6")], "cookie r /x 5", 0)]
    #[case(&[(AFFINITY, "cookie"), (NAME, "r"), (EXPIRES, "600"), (HASH, "$host")], "cookie r / 600", 0)]
    #[case::age_alone(&[(AGE, "5")], "", 0)]
    #[case::attributes(&[(NAME, "r"), (DOMAIN, "shop.test"), (SITE, "lax"), (SECURE, "true")], "cookie r / 0 Domain=shop.test SameSite=Lax Secure=", 0)]
    #[case::none_is_secure(&[(NAME, "r"), (SITE, "None")], "cookie r / 0 SameSite=None Secure=", 0)]
    #[case::none_insecure(&[(NAME, "r"), (SITE, "None"), (SECURE, "false")], "cookie r / 0 SameSite=None", 1)]
    #[case::bad_attributes(&[(NAME, "r"), (DOMAIN, "a;b"), (SITE, "some"), (SECURE, "yes")], "cookie r / 0", 3)]
    #[case::attributes_alone(&[(DOMAIN, "shop.test"), (SITE, "Lax"), (SECURE, "true")], "", 3)]
    #[case::bad_affinity(&[(AFFINITY, "none")], "", 1)]
    #[case::bad_cookie(&[(AFFINITY, "cookie"), (NAME, "a;b"), (PATH, "x"), (AGE, "-1")], "cookie INGRESSCOOKIE / 0", 3)]
    #[case(&[(HASH, "$remote_addr")], "Address", 0)]
    #[case(&[(HASH, "$request_uri")], "Header(\":path\")", 0)]
    #[case(&[(HASH, "$host")], "Header(\":authority\")", 0)]
    #[case(&[(HASH, "$http_x_user"), (LB, "random")], "Header(\"x-user\")", 0)]
    #[case(&[(HASH, "$arg_s_1")], "Query(\"s_1\")", 0)]
    #[case(&[(HASH, "$cookie_id"), (LB, "random")], "ROUND_ROBIN", 1)]
    #[case(&[(HASH, "$request_uri$host")], "ROUND_ROBIN", 1)]
    #[case(&[(HASH, "$http_a$host")], "ROUND_ROBIN", 1)]
    #[case(&[(HASH, "")], "ROUND_ROBIN", 1)]
    #[case(&[(LB, "least_conn")], "LEAST_CONN", 0)]
    #[case(&[(LB, "")], "ROUND_ROBIN", 0)]
    #[case(&[(LB, "ewma")], "LEAST_REQUEST", 1)]
    #[case(&[(LB, "mcp-sse")], "ROUND_ROBIN", 1)]
    #[case(&[(LB, "round-robin")], "", 1)]
    #[case(&[(LB, "PASSTHROUGH")], "", 1)]
    fn choices(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (choice, found) = parsed(annotations, parse);
        assert_eq!(shown(choice), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }

    #[rstest]
    #[case(&[(AFFINITY, "cookie"), (NAME, "r")], "cookie r / 0", 0)]
    #[case::no_affinity(&[(NAME, "r"), (LB, "random")], "RANDOM", 0)]
    #[case(&[(HASH, "$cookie_id")], "Cookie(\"id\")", 0)]
    #[case(&[(HASH, "${request_uri}")], "Header(\":path\")", 0)]
    #[case(&[(HASH, "$http_host")], "Header(\":authority\")", 0)]
    #[case(&[(HASH, "$request_uri$host")], "ROUND_ROBIN", 1)]
    #[case(&[(HASH, "text")], "ROUND_ROBIN", 1)]
    fn choices_of_ingress_nginx(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (choice, found) = parsed_as(Semantics::IngressNginx, annotations, parse);
        assert_eq!(shown(choice), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
