//! Every annotation that is read, one row per key: the parsers' keys and the reference for users are this table.

/// Under which prefixes a key is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefixes {
    /// `nginx.ingress.kubernetes.io/` first, then `higress.io/`.
    Both,
    /// `higress.io/` only.
    Higress,
}

/// Prefix of ingress-nginx.
pub const NGINX: &str = "nginx.ingress.kubernetes.io/";
/// Prefix of Higress.
pub const HIGRESS: &str = "higress.io/";

/// What belongs together: keys of one family are parsed by one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// What the other keys mean.
    Semantics,
    /// New paths and hosts for backends, and paths that are regular expressions.
    Rewrite,
    /// Conditions on requests beside host and path.
    Match,
    /// Letter case of paths.
    PathCase,
    /// Hosts beside those of the rules.
    Hosts,
    /// Redirects.
    Redirect,
    /// Cross-origin requests.
    Cors,
    /// A part of the traffic to another backend.
    Canary,
    /// Client addresses.
    SourceRange,
    /// Local rate limit.
    RateLimit,
    /// Bound on the duration of a request.
    Timeout,
    /// Attempts with other endpoints.
    Retry,
    /// Copies of requests to another backend.
    Mirror,
    /// What answers when a backend cannot or fails.
    Fallback,
    /// TLS with clients.
    DownstreamTls,
    /// Protocol and TLS with backends.
    UpstreamTls,
    /// Choice among endpoints.
    LoadBalance,
    /// Headers that are added, set or removed.
    HeaderControl,
    /// Backends of registries.
    Destination,
    /// Who the client is.
    Auth,
    /// Limits on the requests of each client address.
    ClientLimit,
    /// Request bodies.
    Body,
    /// The access log.
    AccessLog,
    /// Dubbo and MCP servers.
    Protocols,
}

/// What a key changes; decides who wins when Ingresses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// The routes of the Ingress.
    Route,
    /// The hosts of the Ingress; the oldest Ingress that has one of the family's keys decides.
    Host,
    /// A port of a Service; the oldest Ingress that refers to it decides.
    Service,
    /// The gateway as a whole.
    Gateway,
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key without its prefix; for a [`named`](Self::named) key the part before the name.
    pub name: &'static str,
    /// The key with the prefix of ingress-nginx.
    pub nginx: &'static str,
    /// The key with Higress's prefix.
    pub higress: &'static str,
    /// Where it is read.
    pub prefixes: Prefixes,
    /// The family.
    pub family: Family,
    /// What it changes.
    pub applies: Applies,
    /// The grammar of its value, and its default in brackets.
    pub grammar: &'static str,
    /// What it does, in one line.
    pub effect: &'static str,
    /// True when a name of the user's choice follows, as in `exact-match-header-<name>`.
    pub named: bool,
}

impl Key {
    /// The full keys, in the order in which they are looked up.
    pub fn full(&self) -> impl Iterator<Item = &'static str> + use<> {
        let nginx = (self.prefixes == Prefixes::Both).then_some(self.nginx);
        nginx.into_iter().chain([self.higress])
    }

    /// True for an annotation's name without prefix that this key reads.
    pub fn reads(&self, name: &str) -> bool {
        match name.strip_prefix(self.name) {
            Some(rest) => self.named != rest.is_empty(),
            None => false,
        }
    }
}

/// A key that ends in `-` goes on with a name.
const fn is_named(name: &str) -> bool {
    matches!(name.as_bytes().last(), Some(b'-'))
}

macro_rules! keys {
    ($($family:ident $applies:ident {$($id:ident $name:literal $prefixes:ident, $grammar:literal, $effect:literal;)*})*) => {
        $($(
            #[doc = concat!("`", $name, "`: ", $effect, ".")]
            pub const $id: Key = Key {
                name: $name,
                nginx: concat!("nginx.ingress.kubernetes.io/", $name),
                higress: concat!("higress.io/", $name),
                prefixes: Prefixes::$prefixes,
                family: Family::$family,
                applies: Applies::$applies,
                grammar: $grammar,
                effect: $effect,
                named: is_named($name),
            };
        )*)*
        /// All keys, by family.
        pub const KEYS: &[Key] = &[$($($id),*),*];
    };
}

keys! {
    Semantics Route {
        ANNOTATION_SEMANTICS "annotation-semantics" Higress, "higress or ingress-nginx (that of the IngressClass, else of the flag `--annotation-semantics`)", "whose meaning paths and annotations of the Ingress have; also read on IngressClasses";
    }
    Rewrite Route {
        REWRITE_TARGET "rewrite-target" Both, "path; `$1` to `$9` are capture groups of the path", "backends see this path in place of what the Ingress path matched";
        USE_REGEX "use-regex" Both, "boolean (false)", "paths are regular expressions, matched at the start";
        FULL_PATH_REGEX "full-path-regex" Higress, "boolean (false)", "paths are regular expressions, matched as a whole";
        REWRITE_PATH "rewrite-path" Higress, "path", "backends see this path in place of the matched prefix; beats rewrite-target";
        UPSTREAM_VHOST "upstream-vhost" Both, "host[:port]", "backends see this host";
        X_FORWARDED_PREFIX "x-forwarded-prefix" Both, "path", "backends see it in the header X-Forwarded-Prefix, on routes whose path is rewritten";
    }
    Match Route {
        MATCH_METHOD "match-method" Higress, "methods separated by spaces", "requests with one of these methods only";
        EXACT_MATCH_HEADER "exact-match-header-" Higress, "text", "requests whose header has this value only";
        PREFIX_MATCH_HEADER "prefix-match-header-" Higress, "text", "requests whose header begins so only";
        REGEX_MATCH_HEADER "regex-match-header-" Higress, "regular expression", "requests whose header matches as a whole only";
        EXACT_MATCH_PSEUDO "exact-match-pseudo-header-" Higress, "text", "requests whose authority, path, method or scheme has this value only";
        PREFIX_MATCH_PSEUDO "prefix-match-pseudo-header-" Higress, "text", "requests whose authority, path, method or scheme begins so only";
        REGEX_MATCH_PSEUDO "regex-match-pseudo-header-" Higress, "regular expression", "requests whose authority, path, method or scheme matches as a whole only";
        EXACT_MATCH_QUERY "exact-match-query-" Higress, "text", "requests whose query parameter has this value only";
        PREFIX_MATCH_QUERY "prefix-match-query-" Higress, "text", "requests whose query parameter begins so only";
        REGEX_MATCH_QUERY "regex-match-query-" Higress, "regular expression", "requests whose query parameter matches as a whole only";
    }
    PathCase Route {
        IGNORE_PATH_CASE "ignore-path-case" Both, "boolean (false)", "Exact and Prefix paths match in any letter case";
    }
    Hosts Host {
        SERVER_ALIAS "server-alias" Both, "comma list of hosts", "hosts without rules of their own that are served as the first host of the Ingress is";
        FROM_TO_WWW_REDIRECT "from-to-www-redirect" Both, "boolean (false)", "www.example.com is redirected to example.com, or the other way round, with 308; only where the other one has no rules";
    }
    Redirect Route {
        TEMPORAL_REDIRECT "temporal-redirect" Both, "http or https URL", "clients are sent there for now; beats the other redirects";
        TEMPORAL_REDIRECT_CODE "temporal-redirect-code" Both, "301, 302, 303, 307 or 308 (302)", "status of temporal-redirect";
        PERMANENT_REDIRECT "permanent-redirect" Both, "http or https URL", "clients are sent there for good; beats redirects to https";
        PERMANENT_REDIRECT_CODE "permanent-redirect-code" Both, "301, 302, 303, 307 or 308 (301)", "status of permanent-redirect";
        SSL_REDIRECT "ssl-redirect" Both, "boolean (false)", "plain requests are sent to https with 308";
        FORCE_SSL_REDIRECT "force-ssl-redirect" Both, "boolean (false)", "the same as ssl-redirect";
        USE_PORT_IN_REDIRECTS "use-port-in-redirects" Both, "boolean (false)", "redirects to https name the port of the gateway";
        PRESERVE_TRAILING_SLASH "preserve-trailing-slash" Both, "boolean", "nothing: redirects to https always keep the path as it is";
    }
    Redirect Host {
        APP_ROOT "app-root" Both, "path", "requests for `/` are sent there with 302; the newest Ingress of the host decides";
    }
    Redirect Route {
        RELATIVE_REDIRECTS "relative-redirects" Both, "boolean (false)", "redirects of the gateway within the host have no scheme and host";
    }
    Cors Route {
        ENABLE_CORS "enable-cors" Both, "boolean (false)", "cross-origin requests are allowed as the other cors keys say";
        CORS_ALLOW_ORIGIN "cors-allow-origin" Both, "comma list of origins, `https://*.example.com` or `*` (`*`)", "origins that may send requests";
        CORS_ALLOW_METHODS "cors-allow-methods" Both, "comma list (GET, PUT, POST, DELETE, PATCH, OPTIONS)", "methods that they may use";
        CORS_ALLOW_HEADERS "cors-allow-headers" Both, "comma list (DNT, X-CustomHeader, Keep-Alive, User-Agent, X-Requested-With, If-Modified-Since, Cache-Control, Content-Type, Authorization)", "headers that they may send";
        CORS_EXPOSE_HEADERS "cors-expose-headers" Both, "comma list", "headers of the answer that they may read";
        CORS_ALLOW_CREDENTIALS "cors-allow-credentials" Both, "boolean (true)", "cookies and credentials may be sent";
        CORS_MAX_AGE "cors-max-age" Both, "seconds (1728000)", "how long browsers may keep the answer to a preflight request";
    }
    Canary Route {
        CANARY "canary" Both, "boolean (false)", "the Ingress takes a part of the traffic of another one with the same hosts and paths";
        CANARY_BY_HEADER "canary-by-header" Both, "header name", "requests with this header set to `always` go to the canary";
        CANARY_BY_HEADER_VALUE "canary-by-header-value" Both, "regular expression", "values of the header that lead to the canary, beside `always`";
        CANARY_BY_HEADER_PATTERN "canary-by-header-pattern" Both, "regular expression", "the header leads to the canary when it contains a match";
        CANARY_BY_COOKIE "canary-by-cookie" Both, "cookie name", "requests with this cookie set to `always` go to the canary";
        CANARY_WEIGHT "canary-weight" Both, "whole number (0)", "share of requests that go to the canary";
        CANARY_WEIGHT_TOTAL "canary-weight-total" Both, "whole number above 0 (100)", "what canary-weight is a part of";
    }
    SourceRange Route {
        WHITELIST_SOURCE_RANGE "whitelist-source-range" Both, "comma list of addresses and CIDR blocks; `*` = all", "other clients get 403; a value without a valid entry denies all";
        ALLOWLIST_SOURCE_RANGE "allowlist-source-range" Both, "comma list of addresses and CIDR blocks; `*` = all", "the same as whitelist-source-range";
        DENYLIST_SOURCE_RANGE "denylist-source-range" Both, "comma list of addresses and CIDR blocks; `*` = all", "these clients get 403";
    }
    RateLimit Route {
        ROUTE_LIMIT_RPM "route-limit-rpm" Higress, "whole number above 0", "requests per minute of a gateway instance, others get 429; beats route-limit-rps";
        ROUTE_LIMIT_RPS "route-limit-rps" Higress, "whole number above 0", "requests per second of a gateway instance, others get 429";
        ROUTE_LIMIT_BURST_MULTIPLIER "route-limit-burst-multiplier" Higress, "whole number above 0 (5)", "how many times the limit may come at once";
    }
    Timeout Route {
        TIMEOUT "timeout" Higress, "seconds; 0 = none (0)", "bound on a request from its end to the end of the answer";
        PROXY_READ_TIMEOUT "proxy-read-timeout" Both, "seconds (none)", "a request is given up after this time without a byte in either direction; the longer one of this and proxy-send-timeout holds";
        PROXY_SEND_TIMEOUT "proxy-send-timeout" Both, "seconds (none)", "the same as proxy-read-timeout";
    }
    Timeout Service {
        PROXY_CONNECT_TIMEOUT "proxy-connect-timeout" Both, "seconds above 0 (10)", "bound on the time to connect to an endpoint";
    }
    Retry Route {
        PROXY_NEXT_UPSTREAM "proxy-next-upstream" Both, "list of error, timeout, invalid_header, http_NNN, non_idempotent; or off (error)", "what is tried again";
        PROXY_NEXT_UPSTREAM_TRIES "proxy-next-upstream-tries" Both, "whole number (3)", "how often it is tried again";
        PROXY_NEXT_UPSTREAM_TIMEOUT "proxy-next-upstream-timeout" Both, "seconds; 0 = none (0)", "bound on each attempt";
    }
    Mirror Route {
        MIRROR_TARGET_SERVICE "mirror-target-service" Both, "[namespace/]service[:port]", "a copy of each request goes to this Service";
        MIRROR_TARGET_FQDN "mirror-target-fqdn" Both, "host name", "a copy of each request goes there; beats mirror-target-service";
        MIRROR_TARGET_FQDN_PORT "mirror-target-fqdn-port" Both, "port (80)", "port of mirror-target-fqdn";
        MIRROR_PERCENTAGE "mirror-percentage" Both, "0 to 100 (100)", "how many requests are copied";
    }
    Fallback Route {
        DEFAULT_BACKEND "default-backend" Both, "[namespace/]service", "answers when the backend has no endpoint";
        CUSTOM_HTTP_ERRORS "custom-http-errors" Both, "comma list of status codes", "answers with these are replaced by the default backend's";
    }
    DownstreamTls Host {
        AUTH_TLS_SECRET "auth-tls-secret" Both, "[namespace/]secret: that of the host's certificate, or the same name with -cacert", "clients must have a certificate of this authority";
        AUTH_TLS_VERIFY_CLIENT "auth-tls-verify-client" Both, "on, off or optional (on)", "whether clients must have the certificate that auth-tls-secret is for; optional: it is verified when they show one";
        SSL_PASSTHROUGH "ssl-passthrough" Both, "boolean (false)", "TLS connections go to the backend of path `/` as they are, by the name of the host in their handshake; not where access is restricted";
        SSL_CIPHER "ssl-cipher" Both, "cipher names separated by colons", "ciphers of TLS up to 1.2";
        SSL_CIPHERS "ssl-ciphers" Both, "cipher names separated by colons", "the same as ssl-cipher, which beats it";
        TLS_MIN_PROTOCOL_VERSION "tls-min-protocol-version" Both, "TLSv1.0 to TLSv1.3", "lowest version of TLS";
        TLS_MAX_PROTOCOL_VERSION "tls-max-protocol-version" Both, "TLSv1.0 to TLSv1.3", "highest version of TLS";
    }
    DownstreamTls Route {
        AUTH_TLS_PASS_CERTIFICATE "auth-tls-pass-certificate-to-upstream" Both, "boolean (false)", "backends see the client's certificate, PEM with URL escapes, in the header ssl-client-cert";
    }
    UpstreamTls Service {
        BACKEND_PROTOCOL "backend-protocol" Both, "HTTP, HTTP2, HTTPS, GRPC or GRPCS (HTTP)", "protocol that the backend speaks";
        PROXY_SSL_SECRET "proxy-ssl-secret" Both, "[namespace/]secret", "certificate for the backend, and the authority of its certificate";
        PROXY_SSL_VERIFY "proxy-ssl-verify" Both, "on or off (off)", "the certificate of the backend is verified";
        PROXY_SSL_NAME "proxy-ssl-name" Both, "host name", "server name in the TLS handshake with the backend";
        PROXY_SSL_SERVER_NAME "proxy-ssl-server-name" Both, "on or off (off)", "proxy-ssl-name is sent";
    }
    LoadBalance Service {
        LOAD_BALANCE "load-balance" Both, "round_robin, least_conn, least_request or random (round_robin)", "choice of the endpoint";
        UPSTREAM_HASH_BY "upstream-hash-by" Both, "$remote_addr, $request_uri, $host, $http_NAME or $arg_NAME", "equal values go to the same endpoint; beats load-balance";
        AFFINITY "affinity" Both, "cookie", "a client stays with its endpoint; beats upstream-hash-by";
        SESSION_COOKIE_NAME "session-cookie-name" Both, "cookie name (INGRESSCOOKIE)", "cookie of the affinity";
        SESSION_COOKIE_PATH "session-cookie-path" Both, "path (/)", "path of the cookie";
        SESSION_COOKIE_MAX_AGE "session-cookie-max-age" Both, "seconds (until the browser ends)", "life of the cookie";
        SESSION_COOKIE_EXPIRES "session-cookie-expires" Both, "seconds", "the same when session-cookie-max-age is absent";
        SESSION_COOKIE_DOMAIN "session-cookie-domain" Both, "host name (that of the request)", "hosts that the cookie is sent to";
        SESSION_COOKIE_SAMESITE "session-cookie-samesite" Both, "None, Lax or Strict", "requests from other sites that carry the cookie; None makes it Secure";
        SESSION_COOKIE_SECURE "session-cookie-secure" Both, "boolean (false)", "the cookie is sent over TLS only";
    }
    HeaderControl Route {
        REQUEST_HEADER_ADD "request-header-control-add" Higress, "lines of name and value", "headers that are added to requests";
        REQUEST_HEADER_UPDATE "request-header-control-update" Higress, "lines of name and value", "headers of requests that are set";
        REQUEST_HEADER_REMOVE "request-header-control-remove" Higress, "comma list of names", "headers that are removed from requests";
        RESPONSE_HEADER_ADD "response-header-control-add" Higress, "lines of name and value", "headers that are added to answers";
        RESPONSE_HEADER_UPDATE "response-header-control-update" Higress, "lines of name and value", "headers of answers that are set";
        RESPONSE_HEADER_REMOVE "response-header-control-remove" Higress, "comma list of names", "headers that are removed from answers";
    }
    Auth Route {
        AUTH_URL "auth-url" Both, "http or https URL; its host may be $host", "this server is asked about every request: 2xx lets it pass, anything else is the answer";
        AUTH_METHOD "auth-method" Both, "method (GET)", "method of the question; for servers that are no Service of the cluster GET or HEAD";
        AUTH_RESPONSE_HEADERS "auth-response-headers" Both, "comma list of header names", "backends get these headers as that server answered them, and never as a client sent them";
        AUTH_SIGNIN "auth-signin" Both, "URL; $host, $scheme, $request_uri and $escaped_request_uri stand for those of the request", "clients that it answers with 401 are sent there with 302";
        AUTH_SIGNIN_REDIRECT_PARAM "auth-signin-redirect-param" Both, "name (rd)", "query parameter of auth-signin with the URL of the request, added unless it is there";
        AUTH_REQUEST_REDIRECT "auth-request-redirect" Both, "text; $host, $scheme and $request_uri stand for those of the request ($request_uri)", "header X-Auth-Request-Redirect of the question";
        AUTH_ALWAYS_SET_COOKIE "auth-always-set-cookie" Both, "boolean (false)", "cookies that the server sets reach clients that it refuses, too";
        AUTH_TYPE "auth-type" Both, "basic", "clients need a user and a password";
        AUTH_SECRET "auth-secret" Both, "[namespace/]secret of the same namespace", "the users and hashes of their passwords, made by `htpasswd -s`";
        AUTH_SECRET_TYPE "auth-secret-type" Both, "auth-file or auth-map (auth-file)", "the Secret has a password file in its field auth, or a field for each user";
        SATISFY "satisfy" Both, "all or any (all)", "with any, clients of an allowed address need not prove who they are";
        ENABLE_GLOBAL_AUTH "enable-global-auth" Both, "boolean", "there is no authentication for all hosts, so there is nothing to take part in";
    }
    ClientLimit Route {
        LIMIT_RPS "limit-rps" Both, "whole number; 0 = none (0)", "requests per second of each client address at a gateway instance, others get 503";
        LIMIT_RPM "limit-rpm" Both, "whole number; 0 = none (0)", "requests per minute of each client address; holds beside limit-rps";
        LIMIT_BURST_MULTIPLIER "limit-burst-multiplier" Both, "whole number above 0 (5)", "how many times the limit may come at once";
        LIMIT_WHITELIST "limit-whitelist" Both, "comma list of addresses and CIDR blocks", "clients that are not counted";
        LIMIT_ALLOWLIST "limit-allowlist" Both, "comma list of addresses and CIDR blocks", "the same as limit-whitelist";
    }
    Body Route {
        PROXY_BODY_SIZE "proxy-body-size" Both, "bytes, or a number with k, m or g; 0 = unbounded (0)", "larger request bodies get 413";
    }
    AccessLog Route {
        ENABLE_ACCESS_LOG "enable-access-log" Both, "boolean (true)", "requests are written to the gateway's access log";
    }
    Destination Route {
        DESTINATION "destination" Higress, "lines of [weight%] host[:port] [subset]", "backends of registries, for paths whose backend is the McpBridge default";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_described() {
        let names: BTreeSet<&str> = KEYS.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), KEYS.len());
        for key in KEYS {
            assert!(key.nginx.ends_with(key.name) && key.nginx.starts_with(NGINX));
            assert!(key.higress.ends_with(key.name) && key.higress.starts_with(HIGRESS));
            assert_eq!(key.named, key.name.ends_with('-'), "{}", key.name);
            assert!(!key.effect.ends_with('.') && !key.grammar.is_empty());
        }
    }

    #[test]
    fn a_named_key_needs_its_name() {
        assert!(EXACT_MATCH_HEADER.reads("exact-match-header-x"));
        assert!(!EXACT_MATCH_HEADER.reads("exact-match-header-"));
        assert!(TIMEOUT.reads("timeout"));
        assert!(!TIMEOUT.reads("timeouts"));
    }
}
