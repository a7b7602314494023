//! What answers when a backend has no endpoint, or answers with an error.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::http_internal_active_redirect::RedirectUrlRewriteSpecifier;
use shared_proto::networking::v1alpha3::{
    Destination, Headers, HttpInternalActiveRedirect, HttpRoute, PortSelector, headers,
};

use super::mirror::first_port;
use super::table::{CUSTOM_HTTP_ERRORS, DEFAULT_BACKEND};
use super::value::{self, Value, ValueError};
use super::{Annotations, Problem, Problems};
use crate::model::{Ingress, Reason};
use crate::translate::ingress::backend::is_service_name;
use crate::translate::ingress::{Context, Diagnostics};
use crate::translate::names;

/// The request for the page that takes the place of an error: only its path is used.
const ERROR_URL: &str = "http://example.com/";
/// Headers that lead that request to the route of error pages.
pub(crate) const ROUTE_NAME_HEADER: &str = "x-envoy-route-name";
/// See [`ROUTE_NAME_HEADER`].
pub(crate) const SERVICE_HEADER: &str = "x-envoy-fallback-service";

/// A Service that stands in, and for which answers besides none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fallback {
    /// The full key that names the Service.
    key: &'static str,
    /// `None` = that of the Ingress.
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    /// Statuses whose answers are replaced.
    errors: Vec<u32>,
}

/// The Service of a [`Fallback`], found.
#[derive(Clone, Debug)]
pub(crate) struct FallbackService {
    /// `namespace/name`.
    pub(crate) name: String,
    /// Its first port.
    pub(crate) destination: Destination,
}

/// Reads what stands in.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Fallback> {
    let service = annotations.find(&DEFAULT_BACKEND, service, problems);
    let codes = annotations.find(&CUSTOM_HTTP_ERRORS, value::list, problems);
    let mut errors = Vec::new();
    if let Some(found) = codes {
        if service.is_none() {
            let message = "has no effect without default-backend; name the Service that answers";
            problems.add(found.key, Reason::IneffectiveAnnotation, message);
        }
        for item in found.value {
            match status(&item) {
                Ok(code) if errors.contains(&code) => {}
                Ok(code) => errors.push(code),
                Err(error) => problems.invalid(found.key, &error),
            }
        }
    }
    let found = service?;
    Some(Fallback {
        key: found.key,
        namespace: found.value.0,
        name: found.value.1,
        errors,
    })
}

fn service(text: &str) -> Value<(Option<Arc<str>>, Arc<str>)> {
    let found = value::namespaced_name(text)?;
    let namespace = found.namespace;
    if !is_service_name(&found.name) || !namespace.as_deref().is_none_or(is_service_name) {
        return Err(ValueError::new(text, "does not name a Service"));
    }
    Ok((namespace.map(Arc::from), Arc::from(found.name)))
}

/// A status that a gateway can replace: an error.
fn status(text: &str) -> Value<u32> {
    let why = "is not a status of an error and is left out; use 400 to 599";
    let code = text.parse().ok().filter(|code| (400..600).contains(code));
    code.ok_or_else(|| ValueError::new(text, why))
}

impl Fallback {
    /// The Service (namespace, name) that has to be looked up.
    pub(crate) fn service(&self, ingress: &Ingress) -> (Arc<str>, Arc<str>) {
        let namespace = self.namespace.as_ref().unwrap_or(&ingress.namespace);
        (namespace.clone(), self.name.clone())
    }

    /// The Service with its first port; one that cannot be found is reported.
    pub(in crate::translate::ingress) fn resolve(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
        diagnostics: &mut Diagnostics,
    ) -> Option<FallbackService> {
        let (namespace, name) = self.service(ingress);
        match first_port(context.services, &namespace, &name) {
            Ok(port) => Some(FallbackService {
                name: format!("{namespace}/{name}"),
                destination: Destination {
                    host: names::service_host(context.scope, &namespace, &name),
                    subset: String::new(),
                    port: Some(PortSelector {
                        number: port.into(),
                    }),
                },
            }),
            Err(message) => {
                let problem = Problem {
                    key: self.key.to_owned(),
                    reason: Reason::UnresolvedService,
                    message: format!("{message}; nothing stands in for the backend"),
                };
                diagnostics.once(problem.diagnostic(ingress));
                None
            }
        }
    }

    /// Adds the Service to all destinations, and what sends errors to the route of error pages.
    pub(in crate::translate::ingress) fn apply(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
        http: &mut HttpRoute,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(service) = self.resolve(context, ingress, diagnostics) else {
            return;
        };
        for destination in &mut http.route {
            let fallbacks = &mut destination.fallback_clusters;
            fallbacks.push(service.destination.clone());
        }
        if self.errors.is_empty() || http.route.is_empty() {
            return;
        }
        let add = [
            (ROUTE_NAME_HEADER, names::fallback_route(&http.name)),
            (SERVICE_HEADER, service.name),
        ];
        http.internal_active_redirect = Some(HttpInternalActiveRedirect {
            max_internal_redirects: 1,
            redirect_response_codes: self.errors.clone(),
            redirect_url_rewrite_specifier: Some(RedirectUrlRewriteSpecifier::RedirectUrl(
                ERROR_URL.to_owned(),
            )),
            allow_cross_scheme: true,
            headers: Some(Headers {
                request: Some(headers::HeaderOperations {
                    add: add.map(|(name, value)| (name.to_owned(), value)).into(),
                    ..headers::HeaderOperations::default()
                }),
                ..Headers::default()
            }),
            forced_use_original_host: true,
            forced_add_header_before_route_matcher: true,
            ..HttpInternalActiveRedirect::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;
    use rstest::rstest;

    const BACKEND: &str = "nginx.ingress.kubernetes.io/default-backend";
    const ERRORS: &str = "higress.io/custom-http-errors";

    #[rstest]
    #[case(&[], None, 0)]
    #[case(&[(BACKEND, "err")], Some("None/err []"), 0)]
    #[case(&[(BACKEND, "m/err"), (ERRORS, "404, 503")], Some("Some(\"m\")/err [404, 503]"), 0)]
    #[case::some_invalid(&[(BACKEND, "err"), (ERRORS, "404,503,abc,200,404")], Some("None/err [404, 503]"), 2)]
    #[case::no_backend(&[(ERRORS, "404")], None, 1)]
    #[case::no_name(&[(BACKEND, "a_b")], None, 1)]
    fn fallbacks(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: Option<&str>,
        #[case] problems: usize,
    ) {
        let (fallback, found) = parsed(annotations, parse);
        let shown = fallback.map(|f| format!("{:?}/{} {:?}", f.namespace, f.name, f.errors));
        assert_eq!(shown.as_deref(), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
