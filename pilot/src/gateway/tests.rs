use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use super::*;

/// Serves `pages` on a port of its own.
async fn serve(pages: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, pages).await });
    port
}

fn options(admin_port: u16) -> DrainOptions {
    DrainOptions {
        admin_port,
        delay: Duration::from_millis(10),
        limit: Duration::from_secs(5),
    }
}

#[test]
fn only_connections_of_clients_count() {
    let stats = "listener.0.0.0.0_80.downstream_cx_active: 2\n\
                 listener.0.0.0.0_80.worker_0.downstream_cx_active: 2\n\
                 listener.[__]_443.downstream_cx_active: 3\n\
                 listener.admin.downstream_cx_active: 7\n\
                 listener.admin.main_thread.downstream_cx_active: 7\n\
                 listener.isthmus_status.downstream_cx_active: 9\n";
    assert_eq!(open_connections(stats), 5);
    assert_eq!(open_connections(""), 0);
}

#[tokio::test]
async fn drain_fails_health_first_and_waits_for_connections() {
    // Three looks until the last client is gone; before health fails there are none to see.
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let (on_fail, on_stats) = (left.clone(), left.clone());
    let pages = Router::new()
        .route(
            "/healthcheck/fail",
            post(async move || on_fail.store(3, Ordering::SeqCst)),
        )
        .route(
            "/stats",
            get(async move || {
                let open = on_stats.fetch_sub(1, Ordering::SeqCst) - 1;
                format!("listener.0.0.0.0_80.downstream_cx_active: {open}\n")
            }),
        );
    let port = serve(pages).await;
    assert_eq!(drain(options(port)).await.unwrap(), 0);
    assert_eq!(left.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn drain_gives_up_at_its_limit() {
    let stats = "listener.0.0.0.0_80.downstream_cx_active: 4\n";
    let pages = Router::new()
        .route("/healthcheck/fail", post(async || ()))
        .route("/stats", get(async move || stats));
    let mut options = options(serve(pages).await);
    options.limit = Duration::from_millis(300);
    assert_eq!(drain(options).await.unwrap(), 4);
}

#[tokio::test]
async fn drain_says_when_admin_refuses() {
    let error = drain(options(serve(Router::new()).await))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Envoy's admin interface answered 404 Not Found to /healthcheck/fail"
    );
}

#[tokio::test]
async fn probe_tries_until_it_is_well() {
    let asked = Arc::new(AtomicU64::new(0));
    let page = get(async move || match asked.fetch_add(1, Ordering::SeqCst) {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "not yet"),
        _ => (StatusCode::OK, "ready"),
    });
    let port = serve(Router::new().route("/ready", page)).await;
    let url: Uri = format!("http://127.0.0.1:{port}/ready").parse().unwrap();
    let once = probe(&url, Duration::ZERO).await.unwrap();
    assert_eq!(
        once,
        (StatusCode::SERVICE_UNAVAILABLE, "not yet".to_owned())
    );
    let answer = probe(&url, Duration::from_secs(5)).await.unwrap();
    assert_eq!(answer, (StatusCode::OK, "ready".to_owned()));
}

#[tokio::test]
async fn probe_knows_plain_http_only() {
    let url: Uri = "https://localhost/".parse().unwrap();
    let error = probe(&url, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, ClientError::NotHttp), "{error}");
}
