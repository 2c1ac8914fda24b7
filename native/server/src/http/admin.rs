//! What an operator on this machine may ask for: checkpoints, and changes of the group.

use super::{ADMIN_HEADER, Shown};
use crate::consensus::MemberView;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// What is asked of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// Who belongs to it.
    Members,
    /// That the server of this number leads.
    Transfer(u64),
    /// That the new server at this `host:port` belongs to it.
    Admit(String),
    /// That the server of this number belongs to it no more.
    Dismiss(u64),
}

/// The members afterwards, or why nothing was changed.
pub type Changed = Result<Vec<MemberView>, String>;

fn refuse_strangers(peer: SocketAddr, headers: &HeaderMap) -> Option<Response> {
    if peer.ip().to_canonical().is_loopback() && headers.contains_key(ADMIN_HEADER) {
        return None;
    }
    Some(
        (
            StatusCode::FORBIDDEN,
            "only for `append admin` on this machine",
        )
            .into_response(),
    )
}

fn json(page: &serde_json::Value) -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        page.to_string(),
    )
        .into_response()
}

pub(super) async fn checkpoint(
    State(shown): State<Arc<dyn Shown>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = refuse_strangers(peer, &headers) {
        return refused;
    }
    match shown.checkpoint().await {
        Ok(taken) => json(&serde_json::json!({
            "index": taken.mark.index,
            "rows": taken.rows,
            "bytes": taken.bytes,
        })),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}

type Asking = Query<BTreeMap<String, String>>;

pub(super) async fn members(
    state: State<Arc<dyn Shown>>,
    peer: ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    group(state, peer, &headers, Ok(Grouping::Members)).await
}

pub(super) async fn transfer(
    state: State<Arc<dyn Shown>>,
    peer: ConnectInfo<SocketAddr>,
    Query(query): Asking,
    headers: HeaderMap,
) -> Response {
    let asked = number(&query).map(Grouping::Transfer);
    group(state, peer, &headers, asked).await
}

pub(super) async fn dismiss(
    state: State<Arc<dyn Shown>>,
    peer: ConnectInfo<SocketAddr>,
    Query(query): Asking,
    headers: HeaderMap,
) -> Response {
    let asked = number(&query).map(Grouping::Dismiss);
    group(state, peer, &headers, asked).await
}

pub(super) async fn admit(
    state: State<Arc<dyn Shown>>,
    peer: ConnectInfo<SocketAddr>,
    Query(query): Asking,
    headers: HeaderMap,
) -> Response {
    let named = query.get("peer").filter(|named| !named.is_empty());
    let asked = named
        .cloned()
        .map(Grouping::Admit)
        .ok_or_else(|| "peer must be HOST:PORT".to_owned());
    group(state, peer, &headers, asked).await
}

fn number(query: &BTreeMap<String, String>) -> Result<u64, String> {
    query
        .get("id")
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| "id must be the number of a server".to_owned())
}

async fn group(
    State(shown): State<Arc<dyn Shown>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: &HeaderMap,
    asked: Result<Grouping, String>,
) -> Response {
    if let Some(refused) = refuse_strangers(peer, headers) {
        return refused;
    }
    let asked = match asked {
        Ok(asked) => asked,
        Err(wrong) => return (StatusCode::BAD_REQUEST, wrong).into_response(),
    };
    match shown.group(asked).await {
        Ok(members) => {
            let members: Vec<_> = members.iter().map(member).collect();
            json(&serde_json::json!({ "members": members }))
        }
        Err(why) => (StatusCode::CONFLICT, why).into_response(),
    }
}

fn member(member: &MemberView) -> serde_json::Value {
    serde_json::json!({
        "id": member.id,
        "peer": member.peer,
        "client": member.client,
        "votes": member.votes,
        "leads": member.leads,
        "reached": member.reached,
    })
}
