use std::sync::Mutex;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use imbl::OrdMap;
use serde_json::json;

use super::*;
use crate::model::{ObjectRef, Reason, ReportSource, Scope};

const HOUR: Duration = Duration::from_secs(3600);

/// Namespaces in which Events were asked to be made, in order.
type Asked = Arc<Mutex<Vec<String>>>;

/// An API server that takes Events, but for those in `full`, whose quota is used up.
fn api(asked: &Asked) -> Client {
    let asked = asked.clone();
    let answer = move |uri: Uri, body: String| -> std::future::Ready<Response> {
        let namespace = uri.path().split('/').nth(5).unwrap_or_default().to_owned();
        asked.lock().unwrap().push(namespace.clone());
        std::future::ready(if namespace == "full" {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "exceeded quota"});
            (StatusCode::FORBIDDEN, axum::Json(status)).into_response()
        } else {
            (StatusCode::CREATED, body).into_response()
        })
    };
    Client::new(Router::new().fallback(answer), "default")
}

fn object(namespace: &str) -> ObjectRef {
    ObjectRef {
        kind: ObjectKind::Ingress,
        namespace: Arc::from(namespace),
        name: Arc::from("web"),
    }
}

fn reports(mistakes: &[(&str, usize)]) -> Arc<Reports> {
    let mut reports = Reports::default();
    for (namespace, count) in mistakes {
        let found = (0..*count).map(|n| Diagnostic {
            object: Some(object(namespace)),
            place: None,
            field: n.to_string(),
            reason: Reason::InvalidHost,
            message: String::new(),
        });
        let source = ReportSource::Object(object(namespace));
        reports.replace(source, found.collect());
    }
    Arc::new(reports)
}

/// Runs for some time, and then for some more with other reports; returns what was asked for in each.
async fn told(
    first: (Arc<Reports>, Duration),
    second: (Arc<Reports>, Duration),
) -> [Vec<String>; 2] {
    let asked = Asked::default();
    let client = api(&asked);
    let settings = Settings {
        scope: Arc::new(Scope::default()),
        services: String::new(),
        status: false,
        events: true,
        identity: "me".to_owned(),
        lease: None,
    };
    let (reports, reports_seen) = watch::channel(first.0.clone());
    let (_served, served) = watch::channel(None);
    let inputs = Inputs {
        served,
        reports: reports_seen,
    };
    let uid = |namespace: &str| ((Arc::from(namespace), Arc::from("web")), Arc::from("uid"));
    let uids: Uids = OrdMap::from_iter([uid("full"), uid("shop")]);
    let (_uids, uids) = watch::channel(uids);
    let metrics = Metrics::default();
    let run = run(uids, &client, &settings, &inputs, &metrics);
    tokio::pin!(run);
    let mut seen = [Vec::new(), Vec::new()];
    for (at, (state, time)) in [first, second].into_iter().enumerate() {
        reports.send_replace(state);
        let _ = timeout(time, run.as_mut()).await;
        seen[at] = std::mem::take(&mut *asked.lock().unwrap());
    }
    seen
}

fn count(asked: &[String], namespace: &str) -> usize {
    asked.iter().filter(|one| *one == namespace).count()
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_takes_none_holds_up_no_other() {
    let both = reports(&[("full", 5), ("shop", 5)]);
    let [soon, later] = told((both.clone(), SETTLE * 2), (both, HOUR / 6)).await;
    assert_eq!(count(&soon, "shop"), 5, "{soon:?}");
    // It is tried again, less and less often.
    let tries = count(&later, "full");
    assert!((2..20).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_mistake_is_told_again_as_long_as_it_is_there() {
    let one = reports(&[("shop", 1)]);
    let [there, gone] = told(
        (one, HOUR * 5 / 2),
        (Arc::new(Reports::default()), HOUR * 5),
    )
    .await;
    assert_eq!(count(&there, "shop"), 3);
    assert_eq!(gone.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_passes_at_once_is_not_told() {
    let one = reports(&[("shop", 1)]);
    let none = Arc::new(Reports::default());
    let [before, after] = told((one, SETTLE / 2), (none, HOUR)).await;
    assert_eq!(before.len() + after.len(), 0);
}
