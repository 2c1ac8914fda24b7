//! Health, metrics and configuration over HTTP, read only; and what an operator on this machine may ask for, which changes no file that a
//! client sees.
//!
//! `/health` answers 200 while requests are served and blocks can be written, else 503 with the reason; `/prom` gives the metrics in
//! Prometheus' text, without paths or ids in labels; `/conf` gives the configuration in force as Hadoop does, XML or
//! (`?format=json`) JSON, secrets left out. `POST /admin/checkpoint` takes a checkpoint, verifies it and answers when it is kept;
//! `GET /admin/members` tells who belongs to the group, and POST of `/admin/transfer?id=N`, `/admin/admit?peer=HOST:PORT`,
//! `/admin/dismiss?id=N` changes that. Only peers on the loopback may ask, and only with the header `X-Append-Admin`, which no page in a
//! browser can send here.

mod admin;
mod conf;

pub use admin::{Changed, Grouping};

use crate::config::Entry;
use crate::store::checkpoint::Summary;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Upper bounds of the buckets of request times, seconds.
const SECONDS: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// Time after which recorded times are folded into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Whether the server can do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Requests are served.
    pub serving: bool,
    /// Datanodes that answered their last probe.
    pub live_datanodes: usize,
}

impl Health {
    fn reason(&self) -> Option<&'static str> {
        if !self.serving {
            Some("the metadata log has stopped, or its group has no leader")
        } else if self.live_datanodes == 0 {
            Some("no datanode answers")
        } else {
            None
        }
    }
}

/// How a server is, when it is known.
pub type Asked = Pin<Box<dyn Future<Output = Health> + Send>>;

/// The header without which nothing is done.
pub const ADMIN_HEADER: &str = "x-append-admin";

/// A checkpoint, when it is taken, or why there is none.
pub type Taken = Pin<Box<dyn Future<Output = Result<Summary, String>> + Send>>;

/// What a group answers, when it does.
pub type Regrouped = Pin<Box<dyn Future<Output = Changed> + Send>>;

/// What the pages show.
pub trait Shown: Send + Sync + 'static {
    /// How the server is now.
    fn health(&self) -> Asked;
    /// The configuration in force.
    fn configuration(&self) -> Vec<Entry>;
    /// Takes a checkpoint now.
    fn checkpoint(&self) -> Taken;
    /// Looks at the group, or changes it.
    fn group(&self, asked: Grouping) -> Regrouped;
}

/// The recorder of this process, installed by the first server in it. Absent when the host program has its own.
fn recorder() -> Option<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets(&SECONDS)
                .ok()?
                .build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder).ok()?;
            Some(handle)
        })
        .as_ref()
}

/// Makes this process count, from now on.
pub fn start_counting() {
    if recorder().is_none() {
        tracing::warn!("another recorder of metrics is installed: /prom is not served");
    }
}

/// Serves the pages on `socket` until `stop`.
pub async fn serve(socket: TcpListener, shown: Arc<dyn Shown>, stop: CancellationToken) {
    let pages = Router::new()
        .route("/health", get(health))
        .route("/prom", get(prom))
        .route("/conf", get(configuration))
        .route("/admin/checkpoint", post(admin::checkpoint))
        .route("/admin/members", get(admin::members))
        .route("/admin/transfer", post(admin::transfer))
        .route("/admin/admit", post(admin::admit))
        .route("/admin/dismiss", post(admin::dismiss))
        .with_state(shown)
        .into_make_service_with_connect_info::<SocketAddr>();
    let upkeep = tokio::spawn(fold_times(stop.clone()));
    let served = axum::serve(socket, pages)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::warn!(%error, "the HTTP server ended");
    }
    upkeep.abort();
}

async fn fold_times(stop: CancellationToken) {
    let Some(handle) = recorder() else { return };
    while tokio::time::timeout(UPKEEP, stop.cancelled())
        .await
        .is_err()
    {
        handle.run_upkeep();
    }
}

async fn health(State(shown): State<Arc<dyn Shown>>) -> Response {
    let health = shown.health().await;
    let reason = health.reason();
    let code = if reason.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let page = serde_json::json!({
        "healthy": reason.is_none(),
        "reason": reason,
        "serving": health.serving,
        "liveDatanodes": health.live_datanodes,
    });
    (
        code,
        [(header::CONTENT_TYPE, "application/json")],
        page.to_string(),
    )
        .into_response()
}

async fn prom() -> Response {
    match recorder() {
        Some(handle) => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], handle.render()).into_response()
        }
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "metrics are recorded elsewhere",
        )
            .into_response(),
    }
}

async fn configuration(
    State(shown): State<Arc<dyn Shown>>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let mut entries = shown.configuration();
    if let Some(name) = query.get("name") {
        entries.retain(|entry| entry.name == *name);
        if entries.is_empty() {
            return (StatusCode::NOT_FOUND, format!("Property {name} not found")).into_response();
        }
    }
    match query.get("format").map_or("xml", String::as_str) {
        "xml" => (
            [(header::CONTENT_TYPE, "text/xml; charset=utf-8")],
            conf::xml(&entries),
        )
            .into_response(),
        "json" => (
            [(header::CONTENT_TYPE, "application/json")],
            conf::json(&entries),
        )
            .into_response(),
        other => (StatusCode::BAD_REQUEST, format!("Bad format: {other}")).into_response(),
    }
}

#[cfg(test)]
mod tests;
