//! Connections of clients that make one call after the other: served as all others are, by threads of their own.

use super::*;
use crate::rpc::lane;
use append_wire::hrpc::SINGLE_CALLS;

async fn open(address: SocketAddr) -> Peer {
    let mut peer = Peer::connect(address).await;
    peer.send(&opening_of_class(SINGLE_CALLS, "alice", None))
        .await;
    peer
}

#[tokio::test]
async fn calls_are_answered_in_turn_and_the_service_hears_who_calls() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peer = open(served.address).await;
    for id in 1..=200 {
        peer.call(id, "").await;
        let (answered, answer) = peer.answer().await;
        assert_eq!(answered, id);
        assert!(answer.message().starts_with("alice "), "{answer:?}");
    }
    // A client may send on before it has its answer, and pings.
    let mut ping = BytesMut::new();
    encode_ping(CLIENT, MAX, &mut ping).unwrap();
    peer.call(201, "").await;
    peer.send(&ping).await;
    peer.call(202, "").await;
    assert_eq!(peer.answer().await.0, 201);
    assert_eq!(peer.answer().await.0, 202);
}

#[tokio::test]
async fn more_connections_than_lanes_are_all_served() {
    let served = serve(Echo::new(), RpcLimits::default()).await;
    let mut peers = Vec::new();
    for _ in 0..lane::MOST + 8 {
        let mut peer = open(served.address).await;
        peer.call(1, "").await;
        assert_eq!(peer.answer().await.0, 1);
        peers.push(peer);
    }
    // Places come back.
    drop(peers);
    let mut peer = open(served.address).await;
    peer.call(1, "").await;
    assert_eq!(peer.answer().await.0, 1);
}

#[tokio::test]
async fn garbage_large_frames_and_panics_end_their_connection_only() {
    let limits = RpcLimits {
        frame_bytes: 4 << 10,
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut other = open(served.address).await;
    for bad in [
        &b"\0\0\0\x04\xff\xff\xff\xff"[..],
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
    ] {
        let mut peer = open(served.address).await;
        peer.call(1, "").await;
        assert_eq!(peer.answer().await.0, 1);
        peer.send(bad).await;
        while peer.reply().await.is_some() {}
    }
    let mut large = open(served.address).await;
    large.call(1, &"x".repeat(5 << 10)).await;
    assert!(large.reply().await.is_none());
    let mut panicking = open(served.address).await;
    panicking.call(1, "panic").await;
    assert!(panicking.reply().await.is_none());
    let mut unknown = open(served.address).await;
    unknown.call(1, "unknown").await;
    assert!(unknown.reply().await.is_none());
    other.call(1, "").await;
    assert_eq!(other.answer().await.0, 1);
}

#[tokio::test]
async fn a_peer_that_dribbles_a_frame_or_stops_within_one_is_given_up() {
    let limits = RpcLimits {
        frame: Duration::from_millis(50),
        opening: Duration::from_millis(50),
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut within = open(served.address).await;
    within.send(b"\0\0\x10\0partial").await;
    assert!(within.reply().await.is_none());
    let mut slow = open(served.address).await;
    slow.send(b"\0\0\x10\0").await;
    // Each byte comes in time, the frame does not.
    while slow.stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn stopping_answers_the_call_in_flight_and_ends_those_at_rest() {
    let service = Echo::new();
    let served = serve(Arc::clone(&service), RpcLimits::default()).await;
    let mut resting = open(served.address).await;
    resting.call(1, "").await;
    assert_eq!(resting.answer().await.0, 1);
    let mut peer = open(served.address).await;
    peer.call(1, "wait").await;
    while service.running.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    served.stop.cancel();
    service.gate.add_permits(1);
    assert_eq!(peer.answer().await.0, 1);
    assert!(peer.reply().await.is_none());
    assert!(resting.reply().await.is_none());
    served.listener.await.unwrap();
}

#[tokio::test]
async fn a_peer_that_takes_no_reply_is_given_up() {
    let limits = RpcLimits {
        write: Duration::from_millis(20),
        ..RpcLimits::default()
    };
    let served = serve(Echo::new(), limits).await;
    let mut peer = open(served.address).await;
    let trace = "x".repeat(512 << 10);
    for id in 0..64 {
        let asked = call(id, OM_PROTOCOL, OM_PROTOCOL_VERSION, OM_METHOD, &trace);
        if peer.stream.write_all(&asked).await.is_err() {
            break;
        }
    }
    let mut next = open(served.address).await;
    next.call(1, "").await;
    assert_eq!(next.answer().await.0, 1);
}
