//! Annotations that do nothing here: those of ingress-nginx and Higress without a counterpart, and those that nobody knows.
//!
//! Each is reported once, with what it would have done and what to use instead. Those that restrict access deny it.

use super::table::{HIGRESS, KEYS, Key, NGINX, Prefixes};
use super::{Annotations, Problems};
use crate::model::Reason;

/// An annotation that is known and does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The key without its prefix.
    pub name: &'static str,
    /// What it does elsewhere: words that follow "would".
    pub effect: &'static str,
    /// What to do instead.
    pub instead: &'static str,
    /// It restricts access, so nobody gets any.
    pub denies: bool,
}

macro_rules! rows {
    ($($mode:ident {$($name:literal: $effect:literal, $instead:literal;)*})*) => {
        /// All of them.
        pub const UNSUPPORTED: &[Unsupported] = &[$($(Unsupported {
            name: $name, effect: $effect, instead: $instead, denies: rows!(@ $mode),
        },)*)*];
    };
    (@ warn) => { false };
    (@ deny) => { true };
}

rows! {
    warn {
        // Routes and redirects
        "service-upstream": "send requests to the Service's address, not to its endpoints", "endpoints are always used; remove it";
        "proxy-redirect-from": "replace this part of the backend's Location header", "let the backend send the location that clients should see";
        "proxy-redirect-to": "replace a part of the backend's Location header by this", "let the backend send the location that clients should see";
        // TLS with clients
        "auth-tls-verify-depth": "bound the length of certificate chains", "issue client certificates from an authority of their own";
        "auth-tls-error-page": "redirect clients without a valid certificate", "the TLS handshake with them fails; remove it";
        "ssl-prefer-server-ciphers": "prefer the server's order of ciphers", "that is always so; remove it";
        // Backends
        "fastcgi-index": "name the index script of FastCGI", "FastCGI is not spoken; put an HTTP server before the application";
        "fastcgi-params-configmap": "set parameters of FastCGI", "FastCGI is not spoken; put an HTTP server before the application";
        "proxy-ssl-verify-depth": "bound the length of the backend's certificate chain", "put exactly the authority of the backend into proxy-ssl-secret";
        "proxy-ssl-ciphers": "choose the ciphers of TLS with backends", "the defaults are used; remove it";
        "proxy-ssl-protocols": "choose the versions of TLS with backends", "the defaults (1.2 and above) are used; remove it";
        "proxy-http-version": "choose HTTP 1.0 or 1.1 for backends", "1.1 is used, and HTTP/2 with backend-protocol; remove it";
        "connection-proxy-header": "set the Connection header for backends", "connections are managed by the gateway; remove it";
        "upstream-hash-by-subset": "hash to a group of endpoints", "upstream-hash-by alone leads to one endpoint";
        "upstream-hash-by-subset-size": "set the size of these groups", "upstream-hash-by alone leads to one endpoint";
        "affinity-mode": "keep clients on their endpoint when endpoints are added", "affinity is by hash, which moves a part of them; remove it";
        "affinity-canary-behavior": "decide whether affinity holds across a canary", "it does not, as with legacy; remove it";
        "session-cookie-conditional-samesite-none": "leave SameSite=None out for old browsers", "let the application set a cookie of its own";
        "session-cookie-change-on-failure": "choose another endpoint when one fails", "a hash leads to another endpoint by itself when one is gone; remove it";
        // Access
        "auth-realm": "name what the password is for", "clients are shown the URL; remove it";
        "auth-proxy-set-headers": "set headers of the question to auth-url", "let that server do without them";
        "auth-cache-key": "keep answers of auth-url", "every request is asked about; let that server keep them";
        "auth-cache-duration": "bound the life of answers of auth-url", "every request is asked about; remove it";
        "auth-keepalive": "keep connections to auth-url", "they are kept; remove it";
        "auth-keepalive-requests": "bound the requests of a connection to auth-url", "they are not bounded; remove it";
        "auth-keepalive-timeout": "bound the life of a connection to auth-url", "the default of the gateway is used; remove it";
        "auth-keepalive-share-vars": "share variables with auth-url", "there are none; remove it";
        "enable-modsecurity": "inspect requests with ModSecurity", "use a Wasm plugin with a firewall";
        "enable-owasp-core-rules": "load the OWASP rules", "use a Wasm plugin with a firewall";
        "modsecurity-transaction-id": "set the transaction id of ModSecurity", "use a Wasm plugin with a firewall";
        "modsecurity-snippet": "add rules of ModSecurity", "use a Wasm plugin with a firewall";
        // Limits
        "limit-connections": "limit connections of each client address", "connections are not counted by client; use limit-rps, which counts requests";
        "limit-rate": "limit the bytes per second of an answer", "limit them in the backend";
        "limit-rate-after": "begin limit-rate after so many bytes", "limit them in the backend";
        "client-body-buffer-size": "set the buffer of request bodies", "bodies are streamed; remove it";
        "proxy-buffering": "decide whether answers are buffered", "they are streamed; remove it";
        "proxy-request-buffering": "decide whether request bodies are buffered", "they are streamed; remove it";
        "proxy-buffers-number": "set the number of buffers for an answer", "answers are streamed; remove it";
        "proxy-buffer-size": "set the buffer of response headers", "the gateway's limits hold; remove it";
        "proxy-busy-buffers-size": "bound the buffers that are being sent", "answers are streamed; remove it";
        "proxy-max-temp-file-size": "bound the files that answers are kept in", "there are no such files; remove it";
        // Headers and code
        "proxy-cookie-domain": "replace the domain of the backend's cookies", "let the backend set the domain that clients should see";
        "proxy-cookie-path": "replace the path of the backend's cookies", "let the backend set the path that clients should see";
        "custom-headers": "add the response headers of a ConfigMap", "use higress.io/response-header-control-update";
        "configuration-snippet": "run nginx code in the location", "such code is never run; use annotations, such as header control and redirects, or a Wasm plugin";
        "server-snippet": "run nginx code in the server", "such code is never run; use annotations, such as header control and redirects, or a Wasm plugin";
        "stream-snippet": "run nginx code in a TCP server", "such code is never run";
        "http2-push-preload": "push what Link headers name", "browsers no longer take pushes; remove it";
        "disable-proxy-intercept-errors": "pass the backend's errors on in spite of custom-http-errors", "leave custom-http-errors out on this Ingress";
        // Mirrors and telemetry
        "mirror-target": "send copies of requests to a URL", "use mirror-target-service or mirror-target-fqdn";
        "mirror-host": "set the host of copies", "copies have the host of the request with -shadow";
        "mirror-request-body": "decide whether copies have a body", "they have; remove it";
        "enable-rewrite-log": "log rewrites", "ask the pilot's /debug pages where a route leads";
        "enable-opentelemetry": "turn tracing on or off for these routes", "tracing is set for the gateway as a whole";
        "opentelemetry-operation-name": "name the spans", "spans have the name of the route";
        "opentelemetry-trust-incoming-span": "decide whether the client's trace goes on", "it goes on; remove it";
        // Higress
        "rpc-destination-name": "call a Dubbo service through an Http2Rpc object", "not supported yet; speak HTTP with the backend";
        "mcp-server": "register an MCP server", "not supported yet";
        "mcp-server-match-rule-domains": "choose the hosts of an MCP server", "not supported yet";
        "mcp-server-match-rule-type": "choose how paths of an MCP server match", "not supported yet";
        "mcp-server-match-rule-value": "choose the paths of an MCP server", "not supported yet";
        "mcp-server-upstream-type": "choose the transport of an MCP server", "not supported yet";
        "mcp-server-enable-path-rewrite": "rewrite the paths of an MCP server", "not supported yet";
        "mcp-server-path-rewrite-prefix": "choose the new prefix for an MCP server", "not supported yet";
        "mcp-sse-stateful-param-name": "name the session parameter of load-balance: mcp-sse", "not supported yet";
    }
    deny {
        "auth-snippet": "run nginx code before the question to auth-url", "such code is never run; let the backend authenticate";
        "auth-tls-match-cn": "allow only client certificates with such a name", "issue them from an authority of their own and name that in auth-tls-secret";
    }
}

/// Reports the annotations that do nothing.
pub(crate) fn report(annotations: &Annotations<'_>, problems: &mut Problems) {
    for (full, _) in annotations.all() {
        let (name, nginx) = match full.strip_prefix(NGINX) {
            Some(name) => (name, true),
            None => (full.strip_prefix(HIGRESS).unwrap_or(full), false),
        };
        if let Some(key) = KEYS.iter().find(|key| key.reads(name)) {
            other_prefix(full, key, nginx, problems);
        } else if let Some(row) = UNSUPPORTED.iter().find(|row| row.name == name) {
            row.report(full, problems);
        } else {
            let message = "is not known and does nothing; look for a misspelling, or remove it";
            problems.add(full, Reason::UnknownAnnotation, message);
        }
    }
}

fn other_prefix(full: &str, key: &Key, nginx: bool, problems: &mut Problems) {
    if nginx && key.prefixes == Prefixes::Higress {
        let message = format!("is read with the prefix {HIGRESS} only; change the prefix");
        problems.add(full, Reason::IneffectiveAnnotation, message);
    }
}

impl Unsupported {
    fn report(&self, full: &str, problems: &mut Problems) {
        let Self {
            effect, instead, ..
        } = self;
        if self.denies {
            let message = format!("would {effect}, which is not supported; {instead}");
            problems.deny(full, &message);
        } else {
            let message = format!("would {effect}, here it does nothing; {instead}");
            problems.add(full, Reason::UnsupportedAnnotation, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::testing::problems_of;
    use rstest::rstest;
    use std::collections::BTreeSet;

    fn reported(key: &str) -> Vec<Reason> {
        let parse = |annotations: &Annotations<'_>, problems: &mut Problems| {
            report(annotations, problems);
            None::<()>
        };
        problems_of(&[(key, "x")], parse).1
    }

    #[test]
    fn no_key_is_in_both_tables() {
        let names: BTreeSet<&str> = UNSUPPORTED.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), UNSUPPORTED.len());
        for row in UNSUPPORTED {
            assert!(!KEYS.iter().any(|key| key.reads(row.name)), "{}", row.name);
            assert_eq!(
                row.denies,
                ["auth-snippet", "auth-tls-match-cn"].contains(&row.name)
            );
        }
    }

    #[test]
    fn every_row_is_reported() {
        for row in UNSUPPORTED {
            let expected = if row.denies {
                Reason::AccessDenied
            } else {
                Reason::UnsupportedAnnotation
            };
            assert_eq!(reported(&format!("nginx/{}", row.name)), [expected]);
        }
    }

    #[rstest]
    #[case("nginx/whatever", &[Reason::UnknownAnnotation])]
    #[case("higress/whatever", &[Reason::UnknownAnnotation])]
    #[case("higress/match-header-x", &[Reason::UnknownAnnotation])]
    #[case("higress/exact-match-header-", &[Reason::UnknownAnnotation])]
    #[case("higress/exact-match-header-x", &[])]
    #[case("nginx/exact-match-header-x", &[Reason::IneffectiveAnnotation])]
    #[case("nginx/timeout", &[Reason::IneffectiveAnnotation])]
    #[case("nginx/canary", &[])]
    #[case("higress/auth-snippet", &[Reason::AccessDenied])]
    fn others(#[case] key: &str, #[case] expected: &[Reason]) {
        assert_eq!(reported(key), expected);
    }
}
