//! Debug pages: JSON, sorted, read-only. Private keys are never shown.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::admin;
use serde::Deserialize;
use serde_json::{Value, json};
use shared_proto::config::Config;
use xds_engine::types::ENVOY;
use xds_engine::{Resource, ResourceMap, Snapshot};

use crate::model::diagnostic::{Diagnostic, ObjectRef};
use crate::xds::connections::Connections;
use crate::xds::updater::Handle;

/// What the pages read.
#[derive(Clone, Debug)]
pub struct DebugState {
    /// For the configs.
    pub updater: Handle,
    /// For the proxies.
    pub connections: Arc<Connections>,
}

const PAGES: &[(&str, &str)] = &[
    (
        "/ready",
        "200 when the first complete configuration is served",
    ),
    (
        "/debug/configz",
        "configs of the controller, as Kubernetes objects",
    ),
    (
        "/debug/diagnostics",
        "mistakes in the objects that are read and how to mend them",
    ),
    ("/debug/syncz", "connected proxies and how far each is"),
    (
        "/debug/config_dump?proxyID=NAME",
        "what a proxy is sent; &types=lds,rds chooses types",
    ),
];

/// The pages below `/debug`.
pub fn router(state: DebugState) -> Router {
    Router::new()
        .route("/debug/configz", get(configz))
        .route("/debug/diagnostics", get(diagnostics))
        .route("/debug/syncz", get(syncz))
        .route("/debug/config_dump", get(config_dump))
        .with_state(state)
        .merge(admin::debug_index(PAGES))
}

async fn configz(State(state): State<DebugState>) -> Response {
    let context = state.updater.context();
    let object = |config: &Arc<crate::model::config::StoredConfig>| match config.spec() {
        Ok(spec) => Config {
            meta: config.meta(),
            spec,
        }
        .to_json(),
        Err(error) => json!({ "error": error.to_string(), "object": config.key.to_string() }),
    };
    admin::json(&context.configs.values().map(object).collect::<Vec<_>>())
}

/// The same fields as the controller's page has; objects of the pilot come from no file.
async fn diagnostics(State(state): State<DebugState>) -> Response {
    let diagnostics = state.updater.diagnostics();
    let one = |(object, diagnostic): (&ObjectRef, &Diagnostic)| {
        json!({
            "severity": diagnostic.reason.severity().as_str(),
            "reason": diagnostic.reason.as_str(),
            "kind": object.kind,
            "namespace": &*object.name.namespace,
            "name": &*object.name.name,
            "file": null,
            "line": null,
            "field": diagnostic.field,
            "message": diagnostic.message,
        })
    };
    admin::json(&diagnostics.all().map(one).collect::<Vec<_>>())
}

async fn syncz(State(state): State<DebugState>) -> Response {
    admin::json(&state.connections.status())
}

#[derive(Debug, Deserialize)]
struct DumpQuery {
    #[serde(rename = "proxyID")]
    proxy_id: Option<String>,
    types: Option<String>,
}

async fn config_dump(State(state): State<DebugState>, Query(query): Query<DumpQuery>) -> Response {
    let names = || {
        let names: Vec<_> = state
            .connections
            .status()
            .into_iter()
            .map(|s| s.proxy)
            .collect();
        if names.is_empty() {
            "none is connected".to_owned()
        } else {
            names.join(", ")
        }
    };
    let Some(proxy) = query.proxy_id else {
        let text = format!("give ?proxyID=NAME; connected: {}\n", names());
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let Some(snapshot) = state.connections.snapshot(&proxy) else {
        let text = format!("no proxy {proxy:?}; connected: {}\n", names());
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    let wanted: Option<Vec<String>> = query
        .types
        .map(|types| types.split(',').map(|t| t.trim().to_lowercase()).collect());
    let known: Vec<_> = ENVOY.iter().collect();
    if let Some(unknown) = wanted
        .iter()
        .flatten()
        .find(|w| !known.iter().any(|spec| spec.short == w.as_str()))
    {
        let short: Vec<_> = known.iter().map(|spec| spec.short).collect();
        let text = format!("no type {unknown:?}; there are: {}\n", short.join(", "));
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    let chosen = known.into_iter().filter(|spec| {
        wanted
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(|w| w == spec.short))
    });
    let dump: serde_json::Map<String, Value> = chosen
        .filter_map(|spec| {
            Some((
                spec.short.to_owned(),
                resources(snapshot.resources(spec.url)?),
            ))
        })
        .collect();
    admin::json(&dump)
}

fn resources(map: &ResourceMap) -> Value {
    let one = |(name, resource): (&Arc<str>, &Arc<Resource>)| {
        let content = match resource.parts() {
            Ok((type_url, value)) => {
                let name = shared_proto::envoy::type_name(&type_url);
                shared_proto::envoy::message_to_json(name, &value)
                    .unwrap_or_else(|error| json!({ "error": error.to_string() }))
            }
            Err(error) => json!({ "error": error.to_string() }),
        };
        json!({ "name": &**name, "version": resource.version().to_string(), "resource": redact(content) })
    };
    map.iter().map(one).collect()
}

/// Hides what is in any field named `privateKey`.
fn redact(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                *field = if key == "privateKey" || key == "private_key" {
                    json!("[redacted]")
                } else {
                    redact(std::mem::take(field))
                };
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = redact(std::mem::take(item))),
        _ => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_hidden_at_any_depth() {
        let shown =
            redact(json!({ "a": [{ "privateKey": { "inlineBytes": "c2VjcmV0" }, "b": 1 }] }));
        assert_eq!(
            shown,
            json!({ "a": [{ "privateKey": "[redacted]", "b": 1 }] })
        );
    }
}
