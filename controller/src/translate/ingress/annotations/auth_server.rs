//! Where the server is that says whether requests are allowed.
//!
//! Requests leave the gateway for it, so it may not be the gateway's own machine: Envoy's administration listens there.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::value::{self, ValueError};
use crate::model::{CATCH_ALL, Scope, parse_host};
use crate::translate::ingress::Context;
use crate::translate::ingress::backend::is_service_name;
use crate::translate::ingress::filters::Endpoint;

/// Longest path, in bytes.
const MAX_PATH: usize = 4096;

/// The server of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) tls: bool,
    host: Host,
    pub(super) port: u16,
    /// The port as it stands in the URL.
    explicit_port: bool,
    /// With its query.
    pub(super) path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// The host of the request.
    OfRequest,
    Name(String),
    Address(IpAddr),
}

/// Reads a URL.
pub(super) fn server(text: &str) -> value::Value<Server> {
    let url = value::line(text)?;
    let bad = |why: &str| ValueError::new(&url, why);
    let lower = url.to_ascii_lowercase();
    let (tls, start) = if lower.starts_with("https://") {
        (true, "https://".len())
    } else if lower.starts_with("http://") {
        (false, "http://".len())
    } else {
        return Err(bad(
            "is not a URL; write http://service.namespace.svc.cluster.local/path",
        ));
    };
    let rest = url.get(start..).unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = split_port(authority).map_err(bad)?;
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    if path.contains('$') {
        return Err(bad(
            "has a variable outside of its host, which is not supported; take it out",
        ));
    }
    let plain = |b: u8| b.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&b);
    if path.len() > MAX_PATH || !path.bytes().all(plain) {
        return Err(bad(
            "has a path that cannot be sent; escape special characters",
        ));
    }
    Ok(Server {
        tls,
        host: host_of(host).map_err(bad)?,
        port: port.unwrap_or(if tls { 443 } else { 80 }),
        explicit_port: port.is_some(),
        path,
    })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    if authority.contains('@') {
        return Err("has a user in it, which is never sent; take it out");
    }
    let bracketed = authority
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or_default())),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let Some(port) = port else {
        return Ok((host, None));
    };
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port != 0);
    port.map(|port| (host, Some(port)))
        .ok_or("has a port that is none")
}

fn host_of(text: &str) -> Result<Host, &'static str> {
    const LOCAL: &str = "leads to the gateway's own machine or network link, which is refused";
    const NAME: &str = "has no host; write http://service.namespace.svc.cluster.local/path";
    if ["$host", "$http_host"].contains(&text) {
        return Ok(Host::OfRequest);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return if is_local(address) {
            Err(LOCAL)
        } else {
            Ok(Host::Address(address))
        };
    }
    let name = parse_host(text).map_err(|_| NAME)?;
    if name == "localhost" || name.ends_with(".localhost") {
        return Err(LOCAL);
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // Resolvers read these as addresses.
    let numeric = last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit());
    if name == CATCH_ALL || name.contains('*') || numeric || !name.contains('.') {
        return Err(NAME);
    }
    Ok(Host::Name(name))
}

/// The gateway's own machine, and what is on its link only: there clouds give out credentials.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6 == METADATA
        }
    }
}

impl Server {
    /// The Service (namespace, name) that it is.
    pub(super) fn service(&self, scope: &Scope) -> Option<(Arc<str>, Arc<str>)> {
        let Host::Name(name) = &self.host else {
            return None;
        };
        let (service, namespace) = service_labels(name, &scope.domain)?;
        Some((Arc::from(namespace), Arc::from(service)))
    }

    /// Where it is for a host of ours, and what it is called there.
    ///
    /// # Errors
    /// That depends on the request.
    pub(super) fn endpoint(&self, context: Context<'_>) -> Result<(Endpoint, String), String> {
        let host = match &self.host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.clone(),
            Host::OfRequest if context.host.contains('*') => {
                return Err(format!(
                    "$host can be any name on host {}; name the server",
                    context.host
                ));
            }
            Host::OfRequest => context.host.to_owned(),
        };
        let bracketed = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.clone(),
        };
        let authority = if self.explicit_port {
            format!("{bracketed}:{}", self.port)
        } else {
            bracketed
        };
        let endpoint =
            match self.service(context.scope) {
                Some((namespace, name)) => Endpoint::Service(
                    crate::translate::names::service_host(context.scope, &namespace, &name),
                ),
                None => Endpoint::Name(host),
            };
        Ok((endpoint, authority))
    }
}

/// Service and namespace of `service.namespace.svc`, or the same with the cluster's domain.
fn service_labels<'a>(name: &'a str, domain: &str) -> Option<(&'a str, &'a str)> {
    let mut labels = name.splitn(4, '.');
    let (service, namespace, svc) = (labels.next()?, labels.next()?, labels.next()?);
    let rest = labels.next();
    let fits = svc == "svc" && rest.is_none_or(|rest| rest == domain);
    (fits && is_service_name(service) && is_service_name(namespace)).then_some((service, namespace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("http://auth.sec.svc.cluster.local/check?x=1", Some((false, 80, "/check?x=1")))]
    #[case("https://auth.sec.svc.cluster.local:8443", Some((true, 8443, "/")))]
    #[case("HTTP://a.example.org?x", Some((false, 80, "/?x")))]
    #[case("https://$host/oauth2/auth", Some((true, 443, "/oauth2/auth")))]
    #[case("http://10.0.0.7:81/a", Some((false, 81, "/a")))]
    #[case("http://[2001:db8::1]:81/a", Some((false, 81, "/a")))]
    #[case("auth.example.org/x", None)]
    #[case("ftp://a.example.org/x", None)]
    #[case("http://user:pass@a.example.org/", None)]
    #[case("http://a.example.org:0/", None)]
    #[case("http://a.example.org:+1/", None)]
    #[case("http://a.example.org/$request_uri", None)]
    #[case("http://$host.example.org/", None)]
    #[case("http://auth/", None)]
    #[case("http://localhost/", None)]
    #[case("http://a.localhost/", None)]
    #[case("http://127.0.0.1:15000/", None)]
    #[case("http://127.1/", None)]
    #[case("http://2130706433/", None)]
    #[case("http://0x7f.0x1/", None)]
    #[case("http://0.0.0.0/", None)]
    #[case("http://[::1]/", None)]
    #[case("http://[::ffff:127.0.0.1]/", None)]
    #[case("http://169.254.169.254/latest", None)]
    #[case("http://localhost./", None)]
    #[case("http://*.example.org/", None)]
    #[case("http://a.example.org/a#b", None)]
    #[case("http://a.example.org/a b", None)]
    #[case("http://", None)]
    fn urls(#[case] text: &str, #[case] expected: Option<(bool, u16, &str)>) {
        let found = server(text).ok();
        let found = found.as_ref().map(|s| (s.tls, s.port, s.path.as_str()));
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case("http://auth.sec.svc.cluster.local/", Some(("sec", "auth")))]
    #[case("http://auth.sec.svc/", Some(("sec", "auth")))]
    #[case("http://auth.sec.svc.example.org/", None)]
    #[case("http://auth.example.org/", None)]
    #[case("http://$host/", None)]
    fn services(#[case] text: &str, #[case] expected: Option<(&str, &str)>) {
        let server = server(text).unwrap();
        let service = server.service(&Scope::default());
        let service = service
            .as_ref()
            .map(|(namespace, name)| (&**namespace, &**name));
        assert_eq!(service, expected);
    }
}
