//! Settings that VirtualServices cannot express, as settings of filters.

use serde_json::{Value, json};

use super::{Problem, Settings, auth_filters, body_size};
use crate::model::{Ingress, Reason};
use crate::translate::ingress::filters::{
    ACCESS_LOG, Filter, RouteFilters, message, typed_extension,
};
use crate::translate::ingress::{Context, Diagnostics};

/// What the routes of an Ingress need; `None` when access should be restricted in a way that cannot be put into effect for this
/// host, which is reported.
pub(in crate::translate::ingress) fn filters(
    context: Context<'_>,
    ingress: &Ingress,
    settings: &Settings,
    diagnostics: &mut Diagnostics,
) -> Option<RouteFilters> {
    let mut filters = RouteFilters {
        idle_timeout: settings.idle_timeout,
        limit: settings
            .client_limit
            .as_ref()
            .map(|limit| limit.of(ingress)),
        ..RouteFilters::default()
    };
    if let Some(auth) = &settings.auth {
        let range = settings.source_range.as_ref();
        let inside = range.filter(|_| auth.or_address);
        let inside = inside.and_then(|range| range.inside());
        let added = auth_filters::add(context, ingress, (auth, inside), &mut filters);
        let mut report = |(key, message): (&str, String), reason| {
            let key = key.to_owned();
            let problem = Problem {
                key,
                reason,
                message,
            };
            diagnostics.once(problem.diagnostic(ingress));
        };
        match added {
            Ok(None) => {}
            Ok(Some(warning)) => report(warning, Reason::InvalidAnnotation),
            Err((key, message)) => {
                let message = format!("{message}; until then requests are answered with 503");
                report((key, message), Reason::AccessDenied);
                return None;
            }
        }
    }
    if let Some(bytes) = settings.body_size {
        let limit = body_size::settings(bytes);
        filters.settings.insert(Filter::BodySize, limit);
    }
    if settings.no_access_log {
        filters.metadata.insert(ACCESS_LOG, json!({"off": true}));
    }
    if settings.relative_redirects {
        let lua = "envoy.extensions.filters.http.lua.v3.LuaPerRoute";
        let on = message(lua, json!({"filter_context": {}}));
        filters.redirects.insert(Filter::RelativeRedirects, on);
    }
    Some(filters)
}

/// The action of a matcher that runs a filter.
pub(super) fn run(name: &str, filter: Value) -> Value {
    message(
        "envoy.extensions.filters.http.composite.v3.ExecuteFilterAction",
        json!({"typed_config": typed_extension(name, filter)}),
    )
}

/// Settings of a filter that does `action` for requests that a predicate does not hold for.
pub(super) fn unless(predicate: &Value, action: Value) -> Value {
    message(
        "envoy.extensions.filters.http.composite.v3.CompositePerRoute",
        json!({"matcher": {"matcher_list": {"matchers": [{
            "predicate": {"not_matcher": predicate},
            "on_match": {"action": typed_extension("run", action)},
        }]}}}),
    )
}
