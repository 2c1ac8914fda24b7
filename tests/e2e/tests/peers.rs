//! Peers that stop in the middle, announce much, or do not listen: what each may take of the server's memory is bounded, and others are
//! served meanwhile. Bytes are measured, never time.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use append_client::admin::BucketLayout;
use append_e2e::{Server, get, noise, path, put};
use append_wire::common::RequestHeaderProto;
use append_wire::hrpc::{
    AuthProtocol, CallIdentity, OM_METHOD, OM_PROTOCOL, OM_PROTOCOL_VERSION, Preamble,
    SINGLE_CALLS, encode_call, encode_context,
};
use append_wire::om::{EchoRpcRequest, OmRequest, Type};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const MIB: u64 = 1 << 20;

/// What a client of Hadoop RPC sends before its first call.
fn opening() -> BytesMut {
    let preamble = Preamble {
        service_class: 0,
        auth: AuthProtocol::None,
    };
    let mut out = BytesMut::from(&preamble.encode()[..]);
    encode_context([7; 16], OM_PROTOCOL, "peer", None, 1 << 20, &mut out).unwrap();
    out
}

/// The beginning of an HTTP/2 connection and of a call of the datanode's service: a message of `announced` bytes, of which a few come.
fn call_of_datanode(announced: u32) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (
            ":path",
            "/hadoop.hdds.datanode.XceiverClientProtocolService/send",
        ),
        (":authority", "peer"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // Literal, its name too, in no index.
        headers.push(0);
        for text in [name, value] {
            headers.push(u8::try_from(text.len()).unwrap());
            headers.extend_from_slice(text.as_bytes());
        }
    }
    let mut message = vec![0];
    message.extend(announced.to_be_bytes());
    message.extend([8; 100]);
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    };
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    out.extend(frame(4, 0, 0, &[]));
    out.extend(frame(1, 4, 1, &headers));
    out.extend(frame(0, 0, 1, &message));
    out
}

/// A thousand connections need more files than many shells allow.
fn allow_files(pid: u32) {
    let raised = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), "--nofile=4096:"])
        .status();
    assert!(raised.unwrap().success());
}

/// A server that has served something, so that what it needs once is there; and its memory then.
async fn warm(settings: &[&str]) -> (Server, append_client::FileSystem, u64) {
    let server = Server::with(settings);
    allow_files(server.pid());
    allow_files(std::process::id());
    let fs = server.bucket(BucketLayout::FileSystemOptimized).await;
    for number in 0..20 {
        put(&fs, &path(&format!("warm{number}")), &noise(1, 200_000)).await;
    }
    let before = server.resident();
    (server, fs, before)
}

async fn still_serves(fs: &append_client::FileSystem) {
    let content = noise(2, 100_000);
    put(fs, &path("other"), &content).await;
    assert!(get(fs, &path("other")).await == content);
}

/// Opens `count` connections that send `bytes` and then nothing; each has been read by the server.
async fn stopped(server: &Server, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut peers = Vec::new();
    for _ in 0..count {
        let mut peer = TcpStream::connect(server.address()).await.unwrap();
        peer.write_all(bytes).await.unwrap();
        peers.push(peer);
    }
    peers
}

#[tokio::test]
async fn a_thousand_half_open_connections_take_little_memory() {
    let (server, fs, before) = warm(&[]).await;
    // Within the opening; within a frame that is announced as nearly the largest.
    let within = [&opening()[..], &(60_u32 << 20).to_be_bytes(), b"little"].concat();
    let mut peers = stopped(&server, 500, b"hrpc\x09").await;
    peers.extend(stopped(&server, 500, &within).await);
    // A connection that came later is served, so all of these were taken.
    still_serves(&fs).await;
    let grown = server.resident().saturating_sub(before);
    println!("{} connections, {} KiB more", peers.len(), grown / 1024);
    // 64 KiB and a task for each, and what the allocator keeps.
    assert!(grown < 128 * MIB, "{} MiB more", grown / MIB);
}

#[tokio::test]
async fn messages_of_datanodes_that_are_announced_take_no_memory() {
    let (server, fs, before) = warm(&[]).await;
    let peers = stopped(&server, 300, &call_of_datanode(33 << 20)).await;
    still_serves(&fs).await;
    let grown = server.resident().saturating_sub(before);
    println!("{} streams, {} KiB more", peers.len(), grown / 1024);
    // If each had what it announced: 9,900 MiB.
    assert!(grown < 128 * MIB, "{} MiB more", grown / MIB);
}

#[tokio::test]
async fn a_message_above_the_limit_of_the_datanode_is_refused_at_its_announcement() {
    let (server, fs, before) = warm(&[]).await;
    let mut peer = TcpStream::connect(server.address()).await.unwrap();
    peer.write_all(&call_of_datanode(u32::MAX)).await.unwrap();
    // The stream ends while the peer still could send: by headers that are its last, or by a reset.
    let ended = loop {
        let mut head = [0; 9];
        peer.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        peer.read_exact(&mut payload).await.unwrap();
        let (kind, flags) = (head[3], head[4]);
        if head[5..] == 1_u32.to_be_bytes() && (kind == 3 || flags & 1 == 1) {
            break kind;
        }
    };
    assert!(ended == 1 || ended == 3, "a frame of kind {ended}");
    still_serves(&fs).await;
    assert!(server.resident() < before + 64 * MIB);
}

#[tokio::test]
async fn large_frames_share_their_memory() {
    let (server, fs, before) = warm(&[]).await;
    // Nearly complete frames of 64 MiB: eight fit into what large frames share, the others wait unread.
    let (fit, count) = (8, 16);
    let sent = Arc::new(AtomicUsize::new(0));
    let mut peers = JoinSet::new();
    for _ in 0..count {
        let address = server.address().to_owned();
        let sent = Arc::clone(&sent);
        peers.spawn(async move {
            let mut peer = TcpStream::connect(address).await.unwrap();
            peer.write_all(&opening()).await.unwrap();
            peer.write_all(&(64_u32 << 20).to_be_bytes()).await.unwrap();
            let piece = vec![1; 1 << 20];
            for _ in 0..40 {
                peer.write_all(&piece).await.unwrap();
            }
            sent.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        });
    }
    while sent.load(Ordering::SeqCst) < fit {
        tokio::task::yield_now().await;
    }
    still_serves(&fs).await;
    let grown = server.resident().saturating_sub(before);
    println!(
        "{} of {count} frames sent, {} MiB more",
        sent.load(Ordering::SeqCst),
        grown / MIB
    );
    assert_eq!(sent.load(Ordering::SeqCst), fit);
    // Sixteen times 40 MiB would be 640.
    assert!(grown < 480 * MIB, "{} MiB more", grown / MIB);
    // Whoever waited is served when others have gone.
    peers.abort_all();
    while peers.join_next().await.is_some() {}
    still_serves(&fs).await;
}

/// `count` calls, each of which asks for an answer of `bytes`.
fn echoes(count: i32, bytes: i32) -> BytesMut {
    let target = RequestHeaderProto {
        method_name: OM_METHOD.to_owned(),
        declaring_class_protocol_name: OM_PROTOCOL.to_owned(),
        client_protocol_version: OM_PROTOCOL_VERSION,
    };
    let request = OmRequest {
        cmd_type: Type::EchoRpc.into(),
        client_id: "peer".to_owned(),
        echo_rpc_request: Some(Box::new(EchoRpcRequest {
            payload_size_resp: Some(bytes),
            ..EchoRpcRequest::default()
        })),
        ..OmRequest::default()
    };
    let mut out = BytesMut::new();
    for call_id in 0..count {
        let identity = CallIdentity {
            client_id: [7; 16],
            call_id,
            retry_count: 0,
        };
        encode_call(identity, &target, &request, 1 << 20, &mut out).unwrap();
    }
    out
}

#[tokio::test]
async fn answers_that_nobody_takes_take_little_memory() {
    let (server, fs, before) = warm(&[]).await;
    let bytes = 8 << 20;
    let asked = [&opening()[..], &echoes(300, bytes)].concat();
    let mut peers = stopped(&server, 1, &asked).await;
    let mut most = 0;
    for _ in 0..20 {
        still_serves(&fs).await;
        most = most.max(server.resident().saturating_sub(before));
    }
    println!("300 answers of 8 MiB asked for, {} MiB more", most / MIB);
    // 32 MiB wait for the peer, one more is being made, and the allocator keeps some.
    assert!(most < 160 * MIB, "{} MiB more", most / MIB);
    // Whoever begins to take them gets them.
    let peer = &mut peers[0];
    let mut answer = vec![0; 9 << 20];
    for _ in 0..30 {
        let length = usize::try_from(peer.read_u32().await.unwrap()).unwrap();
        assert!(length > 8 << 20);
        peer.read_exact(&mut answer[..length]).await.unwrap();
    }
    assert!(server.resident().saturating_sub(before) < 160 * MIB);
}

#[tokio::test]
async fn answers_that_many_do_not_take_share_their_memory() {
    let (server, fs, before) = warm(&[]).await;
    // On shared connections, and on ones that are served by a thread of their own.
    let mut asked = [&opening()[..], &echoes(8, 8 << 20)].concat();
    let mut peers = stopped(&server, 60, &asked).await;
    asked[5] = SINGLE_CALLS;
    peers.extend(stopped(&server, 60, &asked).await);
    let mut most = 0;
    for _ in 0..20 {
        still_serves(&fs).await;
        most = most.max(server.resident().saturating_sub(before));
    }
    println!("{} peers, {} MiB more", peers.len(), most / MIB);
    // Of 7,680 MiB asked for; 512 MiB of answers are kept, and each is there twice while it is made.
    assert!(most < 800 * MIB, "{} MiB more", most / MIB);
}
