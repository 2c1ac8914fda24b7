//! The framed way: small writes over bare sockets, and what peers may do to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use append_wire::datanode as dn;
use append_wire::framed::{HELLO, MAX_FRAME, write_frame};
use append_wire::hrpc::{decode_message, split_frame};
use bytes::BytesMut;

use super::{Running, get_block, info, put_block, put_payload, read_chunk, send, write_chunk};
use crate::BlockId;

/// A peer that blocks.
struct Peer(TcpStream);

impl Peer {
    fn connect(port: u16) -> Peer {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Peer(stream)
    }

    fn open(port: u16) -> Peer {
        let mut peer = Peer::connect(port);
        peer.0.write_all(&HELLO).unwrap();
        let mut hello = [0; 8];
        peer.0.read_exact(&mut hello).unwrap();
        assert_eq!(hello, HELLO);
        peer
    }

    fn ask(&mut self, request: &dn::ContainerCommandRequestProto) {
        let mut out = BytesMut::new();
        write_frame(request, &mut out).unwrap();
        self.0.write_all(&out).unwrap();
    }

    fn answer(&mut self) -> dn::ContainerCommandResponseProto {
        let mut received = BytesMut::new();
        let mut byte = [0];
        loop {
            if let Some(frame) = split_frame(&mut received, MAX_FRAME).unwrap() {
                return decode_message(frame, "answer").unwrap();
            }
            self.0.read_exact(&mut byte).unwrap();
            received.extend_from_slice(&byte);
        }
    }

    fn call(
        &mut self,
        request: &dn::ContainerCommandRequestProto,
    ) -> dn::ContainerCommandResponseProto {
        self.ask(request);
        self.answer()
    }

    fn ends(mut self) -> bool {
        !matches!(self.0.read(&mut [0]), Ok(1..))
    }
}

fn id(local: i64) -> BlockId {
    BlockId::new(1, local)
}

fn whole(local: i64, data: &[u8]) -> dn::ContainerCommandRequestProto {
    let put = put_payload(id(local), vec![info(0, data)]);
    write_chunk(id(local), 0, data, Some(put))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[tokio::test]
async fn small_writes_are_durable_in_order_and_read_back_over_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    blocking(move || {
        let mut peer = Peer::open(port);
        for local in 0..20 {
            let answer = peer.call(&whole(local, b"some bytes"));
            assert_eq!(answer.result(), dn::Result::Success, "{answer:?}");
            assert_eq!(answer.trace_id(), "trace");
        }
        // A block in three requests, sent before the first answer is read.
        let chunks = vec![info(0, b"one"), info(3, b"two")];
        peer.ask(&write_chunk(id(50), 0, b"one", None));
        peer.ask(&write_chunk(id(50), 3, b"two", None));
        peer.ask(&put_block(id(50), chunks));
        for _ in 0..3 {
            assert_eq!(peer.answer().result(), dn::Result::Success);
        }
        // What the store refuses is an answer, and the line goes on.
        let refused = peer.call(&put_block(id(60), vec![info(0, b"never written")]));
        assert_ne!(refused.result(), dn::Result::Success);
        assert_eq!(peer.call(&whole(61, b"x")).result(), dn::Result::Success);
    })
    .await;
    let mut client = running.client().await;
    let answer = send(&mut client, get_block(id(50))).await;
    let block = answer.get_block.unwrap().block_data;
    assert_eq!(block.chunks.len(), 2);
    let answer = send(&mut client, read_chunk(id(3), 0, 10)).await;
    assert_eq!(answer.result(), dn::Result::Success);
    drop(client);
    running.stop().await;
}

#[tokio::test]
async fn many_lines_commit_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    let peers: Vec<_> = (0..8)
        .map(|peer: i64| {
            tokio::task::spawn_blocking(move || {
                let mut line = Peer::open(port);
                for at in 0..50 {
                    let answer = line.call(&whole(peer * 1000 + at, b"bytes"));
                    assert_eq!(answer.result(), dn::Result::Success, "{answer:?}");
                }
            })
        })
        .collect();
    for peer in peers {
        peer.await.unwrap();
    }
    assert_eq!(running.datanode.store().block_count(), 400);
    running.stop().await;
}

#[tokio::test]
async fn only_writes_to_this_datanode_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    blocking(move || {
        let mut peer = Peer::open(port);
        peer.call(&whole(1, b"bytes"));
        let read = peer.call(&read_chunk(id(1), 0, 5));
        assert_eq!(read.result(), dn::Result::UnsupportedRequest);
        let elsewhere = dn::ContainerCommandRequestProto {
            datanode_uuid: "another".to_owned(),
            ..whole(2, b"bytes")
        };
        assert_eq!(peer.call(&elsewhere).result(), dn::Result::InvalidArgument);
        let unknown = dn::ContainerCommandRequestProto {
            cmd_type: 9_999,
            ..whole(2, b"bytes")
        };
        assert_eq!(peer.call(&unknown).result(), dn::Result::UnsupportedRequest);
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn garbage_truncated_and_large_frames_close_their_line_only() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    blocking(move || {
        let mut other = Peer::open(port);
        for bad in [
            &b"\0\0\0\x04\xff\xff\xff\xff"[..],
            b"\0\x10\0\x01",
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff",
            b"\0\0\0\0",
        ] {
            let mut peer = Peer::open(port);
            peer.0.write_all(bad).unwrap();
            assert!(peer.ends(), "{bad:?}");
        }
        for hello in [&b"blocks\0\x02"[..], b"bad", b"blockage"] {
            let mut peer = Peer::connect(port);
            peer.0.write_all(hello).unwrap();
            assert!(peer.ends(), "{hello:?}");
        }
        // Truncated: the peer is gone within a frame.
        let mut peer = Peer::open(port);
        let mut out = BytesMut::new();
        write_frame(&whole(7, &[7; 1000]), &mut out).unwrap();
        peer.0.write_all(&out[..out.len() / 2]).unwrap();
        peer.0.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(peer.ends());
        assert_eq!(other.call(&whole(8, b"x")).result(), dn::Result::Success);
    })
    .await;
    assert_eq!(running.datanode.store().block_count(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_peer_that_sends_byte_by_byte_is_served_in_its_turn() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    blocking(move || {
        let mut peer = Peer::open(port);
        let mut out = BytesMut::new();
        write_frame(&whole(1, b"bytes"), &mut out).unwrap();
        for byte in &out {
            peer.0.write_all(&[*byte]).unwrap();
        }
        assert_eq!(peer.answer().result(), dn::Result::Success);
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn a_line_too_many_is_closed_before_it_is_greeted_and_places_come_back() {
    use crate::service::limits::LINES;
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    blocking(move || {
        let lines: Vec<_> = (0..LINES).map(|_| Peer::open(port)).collect();
        let mut late = Peer::connect(port);
        late.0.write_all(&HELLO).unwrap();
        assert!(late.ends());
        drop(lines);
        loop {
            let mut peer = Peer::connect(port);
            let greeted =
                peer.0.write_all(&HELLO).is_ok() && peer.0.read_exact(&mut [0; 8]).is_ok();
            if greeted {
                break;
            }
        }
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn stopping_ends_the_lines_at_rest() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path()).await;
    let port = running.port;
    let peer = blocking(move || {
        let mut peer = Peer::open(port);
        let answer = peer.call(&whole(1, b"x"));
        assert_eq!(answer.result(), dn::Result::Success);
        peer
    })
    .await;
    running.stop().await;
    assert!(blocking(move || peer.ends()).await);
}
