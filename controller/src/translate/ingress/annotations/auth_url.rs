//! Another server says whether a request is allowed, and with `auth-signin` where clients go that it does not know.

use std::sync::Arc;

use serde_json::{Value, json};

use super::auth::{header_text, required};
use super::auth_server::{Server, server};
use super::table::{
    AUTH_ALWAYS_SET_COOKIE, AUTH_METHOD, AUTH_REQUEST_REDIRECT, AUTH_RESPONSE_HEADERS, AUTH_SIGNIN,
    AUTH_SIGNIN_REDIRECT_PARAM, AUTH_URL,
};
use super::value::{self, ValueError};
use super::{Annotations, Problems, text, variables};
use crate::model::Scope;
use crate::translate::ingress::Context;
use crate::translate::ingress::filters::{
    AuthCluster, Endpoint, Filter, RouteFilters, message, names,
};

/// As in ingress-nginx.
const REDIRECT_PARAMETER: &str = "rd";
/// How long the server may take.
const TIMEOUT: &str = "60s";
/// Headers that frame a message or choose its route; no server may set them.
const FRAMING: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "te",
    "trailer",
    "x-isthmus-scope",
];
/// Where Envoy keeps what the server answered.
const METADATA: &str = "envoy.filters.http.ext_authz";

/// A server and how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AuthUrl {
    /// The full key of the URL, for what shows later.
    pub(crate) key: &'static str,
    server: Server,
    method: &'static str,
    /// Headers of its answer that the backend gets, in lower case.
    response_headers: Vec<String>,
    /// Cookies that it sets reach clients that it refuses, too.
    always_set_cookie: bool,
    /// Value of X-Auth-Request-Redirect, in Envoy's format.
    redirect: String,
    /// The login page, with variables.
    sign_in: Option<String>,
}

/// Reads the family.
pub(super) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<AuthUrl> {
    let url = required(annotations, &AUTH_URL, server, problems)?;
    let method = required(annotations, &AUTH_METHOD, method, problems);
    let headers = required(annotations, &AUTH_RESPONSE_HEADERS, headers, problems);
    let redirect = |text: &str| variables::format(&header_text(text)?);
    let redirect = required(annotations, &AUTH_REQUEST_REDIRECT, redirect, problems);
    let cookie = required(
        annotations,
        &AUTH_ALWAYS_SET_COOKIE,
        value::boolean,
        problems,
    );
    let parameter = required(
        annotations,
        &AUTH_SIGNIN_REDIRECT_PARAM,
        parameter,
        problems,
    );
    let parameter = parameter.map_or_else(|| REDIRECT_PARAMETER.to_owned(), |found| found.value);
    let sign_in = |text: &str| sign_in(text, &parameter);
    let sign_in = required(annotations, &AUTH_SIGNIN, sign_in, problems);
    let method = method.map_or("GET", |found| found.value);
    Some(AuthUrl {
        key: url.key,
        server: url.value,
        method,
        response_headers: headers.map(|found| found.value).unwrap_or_default(),
        always_set_cookie: cookie.is_some_and(|found| found.value),
        redirect: redirect.map_or_else(|| "%REQ(:path)%".to_owned(), |found| found.value),
        sign_in: sign_in.map(|found| found.value),
    })
}

fn method(text: &str) -> value::Value<&'static str> {
    const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let found = METHODS.into_iter().find(|method| *method == text.trim());
    found.ok_or_else(|| ValueError::new(text, "is not a method; use GET, HEAD, POST and the like"))
}

fn headers(text: &str) -> value::Value<Vec<String>> {
    let mut all = value::list(text)?;
    for name in &mut all {
        name.make_ascii_lowercase();
        if !text::is_token(name) || FRAMING.contains(&name.as_str()) {
            let why = "is not a header that backends can be given";
            return Err(ValueError::new(name, why));
        }
    }
    Ok(all)
}

fn parameter(text: &str) -> value::Value<String> {
    let name = text.trim();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(name.to_owned());
    }
    Err(ValueError::new(
        text,
        "is not the name of a query parameter",
    ))
}

/// The login page, told where the request wanted to go unless its URL says that already.
fn sign_in(text: &str, parameter: &str) -> value::Value<String> {
    let url = header_text(text)?;
    let lower = url.to_ascii_lowercase();
    let absolute = lower.starts_with("http://") || lower.starts_with("https://");
    let local = url.starts_with('/') && !url.starts_with("//") && !url.starts_with("/\\");
    if !(absolute || local) || url.contains(char::is_whitespace) {
        return Err(ValueError::new(
            &url,
            "is not the URL of a page; write https://host/path",
        ));
    }
    variables::check(&url)?;
    let query = url.split_once('?').map(|(_, query)| query);
    let query = query.filter(|query| !query.is_empty());
    let says = |query: &str| {
        query
            .split('&')
            .any(|p| p.split('=').next() == Some(parameter))
    };
    let target = "$pass_access_scheme://$http_host$escaped_request_uri";
    Ok(match query {
        Some(query) if says(query) => url,
        Some(_) => format!("{url}&{parameter}={target}"),
        None => format!("{}?{parameter}={target}", url.trim_end_matches('?')),
    })
}

impl AuthUrl {
    /// The Service (namespace, name) that has to be looked up.
    pub(crate) fn service_name(&self, scope: &Scope) -> Option<(Arc<str>, Arc<str>)> {
        self.server.service(scope)
    }

    /// `HttpService`; adds what it needs besides the filter itself.
    ///
    /// # Errors
    /// The server cannot be told for this host.
    pub(super) fn service(
        &self,
        context: Context<'_>,
        filters: &mut RouteFilters,
    ) -> Result<Value, String> {
        let cluster = self.cluster(context)?;
        let mut on_refusal = vec!["www-authenticate"];
        on_refusal.extend(self.always_set_cookie.then_some("set-cookie"));
        let mut answer = json!({
            "allowed_client_headers": names(on_refusal),
            "allowed_client_headers_on_success": names(["set-cookie"]),
        });
        if let (Some(answer), false) = (answer.as_object_mut(), self.response_headers.is_empty()) {
            let all = names(self.response_headers.iter().map(String::as_str));
            answer.insert("dynamic_metadata_from_headers".to_owned(), all);
            filters
                .settings
                .insert(Filter::AuthHeaders, self.header_settings());
        }
        if let Some(url) = &self.sign_in {
            let lua = |context| {
                message(
                    "envoy.extensions.filters.http.lua.v3.LuaPerRoute",
                    json!({"filter_context": context}),
                )
            };
            filters
                .settings
                .insert(Filter::SignIn, lua(json!({"url": url})));
            filters.settings.insert(Filter::SignedIn, lua(json!({})));
        }
        let service = json!({
            "server_uri": {
                "uri": format!("{}://{}", if cluster.tls { "https" } else { "http" }, cluster.authority),
                "cluster": cluster.name(),
                "timeout": TIMEOUT,
            },
            "path_override": self.server.path,
            "authorization_request": {"headers_to_add": self.headers_to_add()},
            "authorization_response": answer,
        });
        filters.clusters.insert(cluster);
        Ok(service)
    }

    fn cluster(&self, context: Context<'_>) -> Result<AuthCluster, String> {
        let (endpoint, authority) = self.server.endpoint(context)?;
        if let (Endpoint::Service(_), Some((namespace, name))) =
            (&endpoint, self.server.service(context.scope))
        {
            let service = context.services.service(&namespace, &name);
            let service =
                service.ok_or_else(|| format!("there is no Service {namespace}/{name}"))?;
            if !service
                .ports
                .iter()
                .any(|port| port.number == self.server.port)
            {
                let port = self.server.port;
                return Err(format!("Service {namespace}/{name} has no port {port}"));
            }
        }
        if matches!(endpoint, Endpoint::Name(_)) && !["GET", "HEAD"].contains(&self.method) {
            return Err("a server that is no Service is asked with GET or HEAD only, so that no name can be made to lead to the gateway's administration; change auth-method".to_owned());
        }
        Ok(AuthCluster {
            endpoint,
            port: self.server.port,
            tls: self.server.tls,
            method: self.method,
            authority,
        })
    }

    /// What the server is told of the request; clients cannot say otherwise.
    fn headers_to_add(&self) -> Value {
        let all = [
            (
                "x-original-url",
                "%REQ(x-forwarded-proto)%://%REQ(:authority)%%REQ(:path)%",
            ),
            ("x-original-method", "%REQ(:method)%"),
            ("x-auth-request-redirect", &*self.redirect),
            ("x-real-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
            ("x-forwarded-host", "%REQ(:authority)%"),
            ("x-forwarded-method", "%REQ(:method)%"),
            ("x-forwarded-uri", "%REQ(:path)%"),
        ];
        let all = all.into_iter();
        all.map(|(key, value)| json!({"key": key, "value": value}))
            .collect()
    }

    /// The backend sees these headers as the server set them, and never as a client did.
    fn header_settings(&self) -> Value {
        let mut mutations = Vec::new();
        for name in &self.response_headers {
            let value = format!("%DYNAMIC_METADATA({METADATA}:{name})%");
            mutations.push(json!({"remove": name}));
            mutations.push(json!({"append": {
                "header": {"key": name, "value": value},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }}));
        }
        message(
            "envoy.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
            json!({"mutations": {"request_mutations": mutations}}),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TARGET: &str = "rd=$pass_access_scheme://$http_host$escaped_request_uri";

    #[rstest]
    #[case("https://a.test/login", "rd", format!("https://a.test/login?{TARGET}"))]
    #[case("https://a.test/login?", "rd", format!("https://a.test/login?{TARGET}"))]
    #[case("https://a.test/login?x=1", "rd", format!("https://a.test/login?x=1&{TARGET}"))]
    #[case("/login?rd=/home", "rd", "/login?rd=/home".to_owned())]
    #[case("/login?rdx=1", "rd", format!("/login?rdx=1&{TARGET}"))]
    #[case("/login", "next", format!("/login?{}", TARGET.replacen("rd", "next", 1)))]
    fn login_pages(#[case] url: &str, #[case] parameter: &str, #[case] expected: String) {
        assert_eq!(sign_in(url, parameter), Ok(expected));
    }
}
