//! Admin HTTP of the controller.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::admin::{self, Readiness};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::model::{Diagnostic, Reports};
use crate::xds::ConfigMaps;

const PAGES: &[(&str, &str)] = &[
    (
        "/debug/configz",
        "all configs that are served, as manifests",
    ),
    (
        "/debug/diagnostics",
        "mistakes in users' objects and how to mend them",
    ),
    ("/metrics", "metrics in Prometheus text format"),
    (
        "/ready",
        "200 when the configs are complete, else 503 and why",
    ),
];

/// All endpoints.
pub(super) fn router(
    readiness: Readiness,
    registry: Registry,
    configs: watch::Receiver<Arc<ConfigMaps>>,
    reports: watch::Receiver<Arc<Reports>>,
) -> Router {
    let configz = async move || {
        let configs = configs.borrow().clone();
        blocking(move || {
            configs
                .decode()
                .map(|config| config.to_json())
                .collect::<Vec<_>>()
        })
        .await
    };
    let diagnostics = async move || {
        let reports = reports.borrow().clone();
        blocking(move || {
            reports
                .all()
                .iter()
                .map(diagnostic_json)
                .collect::<Vec<_>>()
        })
        .await
    };
    admin::ready(readiness)
        .merge(admin::metrics(Arc::new(registry)))
        .merge(admin::debug_index(PAGES))
        .route("/debug/configz", get(configz))
        .route("/debug/diagnostics", get(diagnostics))
}

/// Large pages are made outside of the threads that serve the configs.
async fn blocking(make: impl FnOnce() -> Vec<Value> + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(move || admin::json(&make())).await {
        Ok(response) => response,
        Err(error) => {
            let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            (status, error.to_string()).into_response()
        }
    }
}

fn diagnostic_json(diagnostic: &Diagnostic) -> Value {
    json!({
        "severity": diagnostic.severity().as_str(),
        "reason": diagnostic.reason.as_str(),
        "kind": diagnostic.object.as_ref().map(|o| o.kind.as_str()),
        "namespace": diagnostic.object.as_ref().map(|o| &*o.namespace),
        "name": diagnostic.object.as_ref().map(|o| &*o.name),
        "file": diagnostic.place.as_ref().map(|p| &*p.file),
        "line": diagnostic.place.as_ref().map(|p| p.line),
        "field": diagnostic.field,
        "message": diagnostic.message,
    })
}
