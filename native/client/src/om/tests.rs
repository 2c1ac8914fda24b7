//! The client against a server of a few lines that does what a test tells it.

use append_wire::invocation::InvocationId;
use append_wire::om::Status;
use tokio::net::TcpStream;

use super::*;
use crate::config::Config;
use crate::testing::om::{FakeOm, Reply, ok};

fn settings() -> Settings {
    let config = Config::empty()
        .with("ozone.client.wait.between.retries.millis", "20ms")
        .with("libappend.call.timeout", "30s");
    Settings::read(&config).unwrap()
}

async fn connect(nodes: Vec<Node>) -> OmClient {
    OmClient::connect(nodes, "ann", &settings()).await.unwrap()
}

fn change(om: &OmClient) -> OmRequest {
    om.request(Type::CreateVolume)
}

#[tokio::test]
async fn learns_what_the_server_can() {
    let fake = FakeOm::numbered(|_| ok()).await;
    let om = connect(vec![fake.node("")]).await;
    assert_eq!(om.features().om_version, 12);
    assert!(om.features().can_append());
}

#[tokio::test]
async fn an_absent_server_is_an_error_at_once() {
    let fake = FakeOm::numbered(|_| ok()).await;
    let node = fake.node("");
    drop(fake);
    // The listener's task may still be ending: wait until nobody listens.
    while TcpStream::connect((node.host.as_str(), node.port))
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    let error = OmClient::connect(vec![node.clone()], "ann", &settings())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.text().contains(&node.port.to_string()), "{error}");
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_identity() {
    let mut fake = FakeOm::numbered(|n| if n == 0 { Reply::Close } else { ok() }).await;
    let om = connect(vec![fake.node("")]).await;
    om.call(change(&om), Effect::Change).await.unwrap();
    let (first, second) = (fake.next().await, fake.next().await);
    assert_eq!(first.call.client_id, second.call.client_id);
    assert_eq!(first.call.call_id, second.call.call_id);
    assert!(second.call.retry_count > first.call.retry_count);
    assert_eq!(first.request.invocation_id, second.request.invocation_id);
    let id = InvocationId::parse(&first.request.invocation_id.unwrap()).unwrap();
    assert_eq!(id.sequence, 1);
    assert_eq!(first.request.answered_below, Some(1));
    assert_eq!(first.request.user_info.unwrap().user_name(), "ann");

    om.call(change(&om), Effect::Change).await.unwrap();
    let third = fake.next().await;
    assert_ne!(third.call.call_id, first.call.call_id);
    assert_eq!(third.request.answered_below, Some(2));
}

#[tokio::test]
async fn garbage_from_the_server_breaks_one_connection_only() {
    let fake = FakeOm::numbered(|n| if n == 0 { Reply::Garbage } else { ok() }).await;
    let om = connect(vec![fake.node("")]).await;
    om.call(om.request(Type::InfoVolume), Effect::Read)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_change_without_an_answer_has_an_unknown_outcome() {
    let fake = FakeOm::numbered(|_| Reply::Nothing).await;
    let om = connect(vec![fake.node("")]).await;
    let soon = || Instant::now() + Duration::from_millis(50);
    let error = om
        .call_until(change(&om), Effect::Change, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert!(error.request().is_some());
    let error = om
        .call_until(om.request(Type::InfoVolume), Effect::Read, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_connection_that_fell_silent_is_left() {
    let mut fake = FakeOm::mute_first().await;
    let config = Config::empty()
        .with("ipc.client.connect.timeout", "100ms")
        .with("libappend.call.timeout", "200ms");
    let settings = Settings::read(&config).unwrap();
    let om = OmClient::connect(vec![fake.node("")], "ann", &settings)
        .await
        .unwrap();
    let error = om.call(change(&om), Effect::Change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    om.call(change(&om), Effect::Change).await.unwrap();
    let (first, second) = (fake.next().await, fake.next().await);
    assert_ne!(first.call.call_id, second.call.call_id);
}

#[tokio::test]
async fn the_suggested_leader_is_asked_next() {
    let message = "OM:a is not the leader. Suggested leader is OM:c[host:1].";
    let a = FakeOm::numbered(move |_| Reply::Exception("OMNotLeaderException", message.to_owned()))
        .await;
    let mut b = FakeOm::numbered(|_| ok()).await;
    let mut c = FakeOm::numbered(|_| ok()).await;
    let om = connect(vec![a.node("a"), b.node("b"), c.node("c")]).await;
    om.call(change(&om), Effect::Change).await.unwrap();
    c.next().await;
    assert!(b.seen.try_recv().is_err());
    // The leader is remembered.
    om.call(change(&om), Effect::Change).await.unwrap();
    c.next().await;
}

#[tokio::test]
async fn a_leader_that_is_not_ready_is_asked_again() {
    let mut a = FakeOm::numbered(|n| match n {
        0 | 1 => Reply::Exception("OMLeaderNotReadyException", "wait".to_owned()),
        _ => ok(),
    })
    .await;
    let mut b = FakeOm::numbered(|_| ok()).await;
    let om = connect(vec![a.node("a"), b.node("b")]).await;
    om.call(change(&om), Effect::Change).await.unwrap();
    let calls = [a.next().await, a.next().await, a.next().await];
    assert!(
        calls
            .iter()
            .all(|seen| seen.call.call_id == calls[0].call.call_id)
    );
    assert!(b.seen.try_recv().is_err());
}

#[tokio::test]
async fn a_server_that_is_gone_is_passed_over() {
    let gone = FakeOm::numbered(|_| ok()).await;
    let mut b = FakeOm::numbered(|_| ok()).await;
    let om = connect(vec![gone.node("a"), b.node("b")]).await;
    let node = gone.node("a");
    drop(gone);
    while TcpStream::connect((node.host.as_str(), node.port))
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    for server in &om.servers {
        *server.link_for_test().await = None;
    }
    om.call(change(&om), Effect::Change).await.unwrap();
    b.next().await;
}

#[tokio::test]
async fn an_answer_with_an_error_status_is_not_tried_elsewhere() {
    let mut fake = FakeOm::numbered(|_| {
        Reply::Answer(Box::new(OmResponse {
            status: Status::VolumeAlreadyExists.into(),
            message: Some("volume v".to_owned()),
            ..OmResponse::default()
        }))
    })
    .await;
    let om = connect(vec![fake.node("")]).await;
    let error = om.call(change(&om), Effect::Change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(error.status(), Some("VOLUME_ALREADY_EXISTS"));
    fake.next().await;
    assert!(fake.seen.try_recv().is_err());
}

#[tokio::test]
async fn many_calls_share_a_connection_and_meet_their_own_answers() {
    let fake = FakeOm::numbered(|_| ok()).await;
    let om = Arc::new(connect(vec![fake.node("")]).await);
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let om = Arc::clone(&om);
            tokio::spawn(async move { om.call(om.request(Type::InfoVolume), Effect::Read).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_closed_client_refuses_at_once() {
    let fake = FakeOm::numbered(|_| ok()).await;
    let om = connect(vec![fake.node("")]).await;
    om.close().await;
    let error = om.call(change(&om), Effect::Change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn fault_28_a_publication_whose_answers_are_lost_is_asked_for_until_it_is_decided() {
    let mut fake = FakeOm::numbered(|n| if n < 6 { Reply::Close } else { ok() }).await;
    let config = Config::empty()
        .with("ozone.client.wait.between.retries.millis", "20ms")
        .with("libappend.call.timeout", "30ms");
    let settings = Settings::read(&config).unwrap();
    let om = OmClient::connect(vec![fake.node("")], "ann", &settings)
        .await
        .unwrap();
    om.decide(change(&om)).await.unwrap();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..7 {
        ids.insert(fake.next().await.request.invocation_id);
    }
    assert_eq!(ids.len(), 1, "a resend that is a call of its own");
}

#[tokio::test]
async fn fault_28_beyond_the_window_the_outcome_is_unknown_and_nothing_is_sent_as_new() {
    let mut fake = FakeOm::numbered(|_| Reply::Close).await;
    let config = Config::empty()
        .with("ozone.client.wait.between.retries.millis", "20ms")
        .with("libappend.call.timeout", "20ms")
        .with("libappend.outcome.timeout", "150ms");
    let settings = Settings::read(&config).unwrap();
    let om = OmClient::connect(vec![fake.node("")], "ann", &settings)
        .await
        .unwrap();
    let error = om.decide(change(&om)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    let first = fake.next().await.request.invocation_id;
    let mut sent = 1;
    while let Ok(seen) = fake.seen.try_recv() {
        assert_eq!(seen.request.invocation_id, first);
        sent += 1;
    }
    assert!(sent > 1);
    // A call that never reached a server is no uncertain one.
    drop(fake);
    let error = om.decide(change(&om)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Timeout | ErrorKind::OutcomeUnknown),
        "{error}"
    );
}
