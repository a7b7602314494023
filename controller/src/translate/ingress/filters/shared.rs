//! What several hosts use together: filters of the chain, and clusters.

use serde_json::{Value, json};
use shared_proto::Config;

use super::{AuthCluster, inline, message, patch};
use crate::model::Scope;
use crate::translate::names;

/// Something that is there once, for all hosts that use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// A filter of every listener's chain, off unless a route switches it on.
    #[expect(private_interfaces, reason = "opaque to others, who only count users")]
    Filter(Filter),
    /// A cluster.
    #[expect(private_interfaces, reason = "opaque to others, who only count users")]
    Cluster(AuthCluster),
}

impl Shared {
    /// The EnvoyFilter that brings it.
    pub fn config(&self, scope: &Scope) -> Config {
        match self {
            Self::Filter(filter) => {
                let value = json!({
                    "name": filter.name(),
                    "disabled": true,
                    "typed_config": filter.config(),
                });
                let patches = vec![patch::http_filter(value)];
                let name = names::shared_filter(filter.name());
                patch::config(scope, name, filter.place(), patches)
            }
            Self::Cluster(cluster) => {
                let patches = vec![patch::cluster(cluster.value())];
                let name = names::shared_cluster(&cluster.name());
                patch::config(scope, name, 0, patches)
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::Filter(filter) => filter.name().to_owned(),
            Self::Cluster(cluster) => cluster.name(),
        }
    }
}

/// A filter, in the order of the chain: requests go down the list, answers up. Who may come in is decided first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Filter {
    /// Sends clients to a login page when [`AuthUrl`](Self::AuthUrl) answers 401.
    SignIn,
    /// Asks a server whether the request is allowed.
    AuthUrl,
    /// Notes for [`SignIn`](Self::SignIn) that the request was allowed.
    SignedIn,
    /// Checks user and password.
    BasicAuth,
    /// One of the former two, for clients of some addresses only.
    AddressOrAuth,
    /// Sets request headers to what that server answered.
    AuthHeaders,
    /// Counts the requests of each client address.
    ClientLimit,
    /// Refuses large request bodies.
    BodySize,
    /// Makes redirects relative.
    RelativeRedirects,
}

impl Filter {
    /// Its name in the chain.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SignIn => "isthmus.sign-in",
            Self::AuthUrl => "isthmus.auth-url",
            Self::SignedIn => "isthmus.signed-in",
            Self::BasicAuth => "isthmus.basic-auth",
            Self::AddressOrAuth => "isthmus.address-or-auth",
            Self::AuthHeaders => "isthmus.auth-headers",
            Self::ClientLimit => "isthmus.client-limit",
            Self::BodySize => "isthmus.body-size",
            Self::RelativeRedirects => "isthmus.relative-redirects",
        }
    }

    /// True for those that decide who may come in.
    pub(crate) fn restricts_access(self) -> bool {
        self <= Self::AuthHeaders
    }

    /// Its place among the others, above 0.
    fn place(self) -> i32 {
        // Few variants: the cast is exact.
        10 * (1 + self as i32)
    }

    /// Its settings as long as no route has its own. They let nobody in.
    fn config(self) -> Value {
        let lua = |script: &str| {
            let source = json!({"default_source_code": inline(script)});
            message("envoy.extensions.filters.http.lua.v3.Lua", source)
        };
        match self {
            Self::SignIn => lua(include_str!("sign_in.lua")),
            Self::SignedIn => lua(include_str!("signed_in.lua")),
            Self::RelativeRedirects => lua(include_str!("relative_redirects.lua")),
            Self::AuthUrl => message(
                "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
                ext_authz(
                    &json!({"server_uri": {"uri": "http://invalid", "cluster": "none", "timeout": "1s"}}),
                ),
            ),
            Self::BasicAuth => message(
                "envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
                json!({"users": inline("\n")}),
            ),
            Self::AddressOrAuth | Self::BodySize => message(
                "envoy.extensions.filters.http.composite.v3.Composite",
                json!({}),
            ),
            Self::AuthHeaders => message(
                "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
                json!({}),
            ),
            Self::ClientLimit => message(
                "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
                json!({"stat_prefix": "client_limit"}),
            ),
        }
    }
}

/// Headers that the server that is asked does not see: the gateway's own, and those that concern a connection, of which
/// it has another one.
const NOT_ASKED: [&str; 7] = [
    "x-isthmus-scope",
    "connection",
    "expect",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// `ExtAuthz` around an `HttpService`. The server sees the headers of the request.
pub(crate) fn ext_authz(service: &Value) -> Value {
    json!({
        "http_service": service,
        "transport_api_version": "V3",
        "status_on_error": {"code": 500},
        "allowed_headers": {"patterns": [{"safe_regex": {"regex": ".*"}}]},
        "disallowed_headers": super::names(NOT_ASKED),
    })
}
