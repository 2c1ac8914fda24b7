//! What no client of ours sends: each is refused by type and leaves every row as it was. Remembered answers and the position aside, which
//! every command moves.

use super::files::write_block;
use super::recovery::{allocate, code, complete, recover};
use super::sessions::{admitted, append, file, publish};
use super::support::{Rpc, Served, invoked, key_in, request};
use append_namespace::rows::Keyspace;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::{
    AppendCode, AppendFileResponse, AppendHandle, DeleteKeyRequest, KeyArgs, KeyLocation,
    OmRequest, RenameKeyRequest, RenewAppendLeasesRequest, Status, Type,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Rows = BTreeMap<(u8, Bytes), Option<Bytes>>;

/// All rows, by a checkpoint that is asked for now.
async fn exported(served: &Served) -> Rows {
    let address = served.running.as_ref().unwrap().http_addr().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = "POST /admin/checkpoint HTTP/1.0\r\nX-Append-Admin: 1\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let folder = served.folder.path().join("data/om/checkpoints");
    let newest: PathBuf = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "checkpoint"))
        .max()
        .unwrap();
    let mut rows = Rows::new();
    append_server::store::checkpoint::read(std::fs::File::open(newest).unwrap(), |changes| {
        for change in changes {
            let moves = match change.keyspace {
                Keyspace::Dedupe | Keyspace::DedupeOrder => true,
                Keyspace::Meta => change.key == "position" || change.key.starts_with(b"dedupe-"),
                _ => false,
            };
            if !moves {
                rows.insert((change.keyspace as u8, change.key), change.value);
            }
        }
        Ok(())
    })
    .unwrap();
    rows
}

struct Attempt {
    what: &'static str,
    request: OmRequest,
    status: Status,
    code: AppendCode,
}

fn bad(what: &'static str, request: OmRequest, status: Status, code: AppendCode) -> Attempt {
    Attempt {
        what,
        request: invoked(request),
        status,
        code,
    }
}

async fn refuse_all(served: &Served, rpc: &mut Rpc, attempts: Vec<Attempt>) {
    let before = exported(served).await;
    for attempt in attempts {
        let response = rpc.submit(&attempt.request).await;
        let (what, told) = (attempt.what, response.message());
        assert_eq!(response.status(), attempt.status, "{what}: {told}");
        assert_eq!(code(&response), attempt.code, "{what}: {told}");
        let after = exported(served).await;
        for (at, row) in &after {
            assert_eq!(before.get(at), Some(row), "{what} changed {at:?}");
        }
        assert_eq!(after.len(), before.len(), "{what} removed a row");
    }
}

/// A file of five bytes and a session on it.
async fn session(rpc: &mut Rpc, address: SocketAddr, args: KeyArgs) -> AppendFileResponse {
    file(rpc, address, args.clone()).await;
    admitted(rpc, &invoked(append(args, CreateMode::No, 1))).await
}

fn of(args: &KeyArgs, size: u64, blocks: &[&KeyLocation]) -> KeyArgs {
    KeyArgs {
        data_size: Some(size),
        key_locations: blocks.iter().map(|&block| block.clone()).collect(),
        ..args.clone()
    }
}

async fn must(rpc: &mut Rpc, asked: OmRequest) {
    let response = rpc.submit(&invoked(asked)).await;
    assert_eq!(response.status(), Status::Ok, "{}", response.message());
}

#[tokio::test]
async fn handles_that_are_foreign_forged_or_of_another_bucket_change_nothing() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        let other = if bucket == "fso" { "legacy" } else { "fso" };
        let f = key_in(bucket, "f");
        let mine = session(&mut rpc, served.address(), f.clone()).await;
        let foreign = session(&mut rpc, served.address(), key_in(bucket, "g")).await;
        let far = session(&mut rpc, served.address(), key_in(other, "f")).await;
        let (mine, foreign) = (mine.handle.unwrap(), foreign.handle.unwrap());
        let far = far.handle.unwrap();
        let wrong_file = AppendHandle {
            file_object_id: foreign.file_object_id,
            ..mine
        };
        let forged = AppendHandle {
            session_id: Some(12_345),
            ..mine
        };
        let wrong_bucket = AppendHandle {
            bucket_object_id: far.bucket_object_id,
            ..mine
        };
        let no_bucket = AppendHandle {
            bucket_object_id: Some(u64::MAX),
            ..mine
        };
        let mut attempts = Vec::new();
        for (what, handle, status, code) in [
            (
                "a foreign file",
                wrong_file,
                Status::InvalidRequest,
                AppendCode::IdentityMismatch,
            ),
            (
                "a forged session",
                forged,
                Status::KeyNotFound,
                AppendCode::SessionUnknown,
            ),
            (
                "another bucket",
                wrong_bucket,
                Status::KeyNotFound,
                AppendCode::SessionUnknown,
            ),
            (
                "no bucket",
                no_bucket,
                Status::KeyNotFound,
                AppendCode::SessionUnknown,
            ),
        ] {
            for request in [
                allocate(f.clone(), &handle),
                publish(of(&f, 5, &[]), &handle, true),
                complete(of(&f, 5, &[]), &handle),
            ] {
                attempts.push(bad(what, request, status, code));
            }
            // A close of a session that is not there may be one that was answered long ago.
            let close = publish(of(&f, 5, &[]), &handle, false);
            let (status, code) = match code {
                AppendCode::SessionUnknown => (Status::Timeout, AppendCode::Uncertain),
                code => (status, code),
            };
            attempts.push(bad(what, close, status, code));
        }
        attempts.push(bad(
            "half a handle",
            allocate(
                f.clone(),
                &AppendHandle {
                    file_object_id: None,
                    ..mine
                },
            ),
            Status::InvalidRequest,
            AppendCode::Ok,
        ));
        refuse_all(&served, &mut rpc, attempts).await;
    }
}

#[tokio::test]
async fn publications_that_do_not_fit_change_nothing() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        let at = served.address();
        let f = key_in(bucket, "f");
        let mine = session(&mut rpc, at, f.clone()).await;
        let other = session(&mut rpc, at, key_in(bucket, "g")).await;
        let handle = mine.handle.unwrap();
        let block = write_block(at, &mine.suffix[0], b" second").await;
        let foreign = write_block(at, &other.suffix[0], b" foreign").await;
        must(&mut rpc, publish(of(&f, 12, &[&block]), &handle, true)).await;
        let with = |length: u64| KeyLocation {
            length,
            ..block.clone()
        };
        let mut never = block.clone();
        never.block_id.container_block_id.local_id += 1_000_000;
        let attempts = [
            ("a block of another session", of(&f, 13, &[&foreign])),
            (
                "a block of another session behind its own",
                of(&f, 20, &[&block, &foreign]),
            ),
            (
                "a block that was never given",
                of(&f, 19, &[&block, &never]),
            ),
            ("a block twice", of(&f, 19, &[&block, &block])),
            ("a shrinking block", of(&f, 8, &[&with(3)])),
            ("a shrinking length", of(&f, 8, &[])),
            ("an empty suffix", of(&f, 5, &[])),
            ("a length that is not the blocks'", of(&f, 13, &[&block])),
            (
                "more than a block holds",
                of(&f, 5 + (1 << 40), &[&with(1 << 40)]),
            ),
            ("more than a number holds", of(&f, 4, &[&with(u64::MAX)])),
        ];
        let attempts = attempts
            .into_iter()
            .flat_map(|(what, args)| {
                [true, false].map(|hsync| {
                    bad(
                        what,
                        publish(args.clone(), &handle, hsync),
                        Status::InvalidRequest,
                        AppendCode::BadPublication,
                    )
                })
            })
            .collect();
        refuse_all(&served, &mut rpc, attempts).await;
        must(&mut rpc, publish(of(&f, 12, &[&block]), &handle, false)).await;
    }
}

#[tokio::test]
async fn handles_of_files_that_were_renamed_replaced_or_deleted_reach_nothing_else() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        let at = served.address();
        let f = key_in(bucket, "f");
        let moved = session(&mut rpc, at, f.clone()).await;
        let block = write_block(at, &moved.suffix[0], b" second").await;
        let handle = moved.handle.unwrap();
        let rename = request(Type::RenameKey, |r| {
            r.rename_key_request = Some(Box::new(RenameKeyRequest {
                key_args: f.clone(),
                to_key_name: "h".to_owned(),
                update_id: None,
            }));
        });
        must(&mut rpc, rename).await;
        let new = session(&mut rpc, at, f.clone()).await.handle.unwrap();
        let mixed = AppendHandle {
            file_object_id: new.file_object_id,
            ..handle
        };
        let attempts = vec![
            bad(
                "the old session with the new file",
                publish(of(&f, 12, &[&block]), &mixed, true),
                Status::InvalidRequest,
                AppendCode::IdentityMismatch,
            ),
            bad(
                "the old session's block in the new one",
                publish(of(&f, 12, &[&block]), &new, true),
                Status::InvalidRequest,
                AppendCode::BadPublication,
            ),
        ];
        refuse_all(&served, &mut rpc, attempts).await;
        // The name that a handle's call carries is only told: the bytes go where the file is.
        must(&mut rpc, publish(of(&f, 12, &[&block]), &handle, true)).await;
        let length = super::files::key_info(&mut rpc, f.clone()).await.data_size;
        assert_eq!(length, 5);
        let moved_to = key_in(bucket, "h");
        let length = super::files::key_info(&mut rpc, moved_to.clone())
            .await
            .data_size;
        assert_eq!(length, 12);

        let delete = request(Type::DeleteKey, |r| {
            r.delete_key_request = Some(Box::new(DeleteKeyRequest {
                key_args: moved_to,
                append_handle: None,
            }));
        });
        must(&mut rpc, delete).await;
        let attempts = [
            allocate(f.clone(), &handle),
            publish(of(&f, 12, &[&block]), &handle, true),
            publish(of(&f, 12, &[&block]), &handle, false),
            complete(of(&f, 12, &[&block]), &handle),
        ];
        let attempts = attempts
            .into_iter()
            .map(|request| {
                bad(
                    "the session of a deleted file",
                    request,
                    Status::KeyNotFound,
                    AppendCode::Invalidated,
                )
            })
            .collect();
        // What the delete left to the duty changes rows by itself.
        until_swept(&served).await;
        refuse_all(&served, &mut rpc, attempts).await;
    }
}

/// Until the duty has taken back what no session holds any more.
async fn until_swept(served: &Served) {
    loop {
        let before = exported(served).await;
        let given = |keyspace: Keyspace| {
            before
                .keys()
                .filter(|(number, _)| *number == keyspace as u8)
                .count()
        };
        if given(Keyspace::Allocations) <= 1 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn duplicate_and_reordered_requests_change_nothing() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        let at = served.address();
        let f = key_in(bucket, "f");
        let mine = session(&mut rpc, at, f.clone()).await;
        let handle = mine.handle.unwrap();
        let block = write_block(at, &mine.suffix[0], b" second").await;
        let short = KeyLocation {
            length: 3,
            ..block.clone()
        };
        let early = invoked(publish(of(&f, 8, &[&short]), &handle, true));
        let later = invoked(publish(of(&f, 12, &[&block]), &handle, true));
        for request in [&early, &later] {
            assert_eq!(rpc.submit(request).await.status(), Status::Ok);
        }
        // The same call again is told the same, in any order, and publishes nothing again.
        let before = exported(&served).await;
        for request in [&early, &later, &early] {
            assert_eq!(rpc.submit(request).await.status(), Status::Ok);
            assert_eq!(exported(&served).await, before);
        }
        // One identity, another command.
        let mut reused = publish(of(&f, 12, &[&block]), &handle, false);
        reused.invocation_id.clone_from(&later.invocation_id);
        let attempts = vec![
            Attempt {
                what: "an identity that was used",
                request: reused,
                status: Status::InvalidRequest,
                code: AppendCode::Ok,
            },
            bad(
                "an older state as a call of its own",
                publish(of(&f, 8, &[&short]), &handle, true),
                Status::InvalidRequest,
                AppendCode::BadPublication,
            ),
        ];
        refuse_all(&served, &mut rpc, attempts).await;
        must(&mut rpc, publish(of(&f, 12, &[&block]), &handle, false)).await;
        let attempts = vec![
            bad(
                "a sync behind the close",
                publish(of(&f, 12, &[&block]), &handle, true),
                Status::KeyNotFound,
                AppendCode::SessionUnknown,
            ),
            bad(
                "a second close by another call",
                publish(of(&f, 12, &[&block]), &handle, false),
                Status::Timeout,
                AppendCode::Uncertain,
            ),
        ];
        refuse_all(&served, &mut rpc, attempts).await;
    }
}

#[tokio::test]
async fn a_renewal_above_the_bound_changes_nothing() {
    let (served, mut rpc) = Served::with_buckets().await;
    let f = key_in("fso", "f");
    let handle = session(&mut rpc, served.address(), f).await.handle.unwrap();
    let renew = |count: usize| {
        request(Type::RenewAppendLeases, |r| {
            r.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
                sessions: vec![handle; count],
            }));
        })
    };
    let attempts = vec![bad(
        "101 sessions",
        renew(101),
        Status::InvalidRequest,
        AppendCode::Ok,
    )];
    refuse_all(&served, &mut rpc, attempts).await;
    must(&mut rpc, renew(100)).await;
}

#[tokio::test]
async fn a_completion_for_another_session_changes_nothing() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        let at = served.address();
        let (f, g) = (key_in(bucket, "f"), key_in(bucket, "g"));
        let fenced = session(&mut rpc, at, f.clone()).await;
        let active = session(&mut rpc, at, g.clone()).await;
        let block = write_block(at, &fenced.suffix[0], b" second").await;
        let other = write_block(at, &active.suffix[0], b" foreign").await;
        must(&mut rpc, recover(&f, Some(true), true)).await;
        let (fenced, active) = (fenced.handle.unwrap(), active.handle.unwrap());
        let mixed = AppendHandle {
            file_object_id: active.file_object_id,
            ..fenced
        };
        let attempts = vec![
            bad(
                "a completion of one that is not recovered",
                complete(of(&g, 13, &[&other]), &active),
                Status::InvalidRequest,
                AppendCode::BadPublication,
            ),
            bad(
                "a completion with the file of another",
                complete(of(&f, 12, &[&block]), &mixed),
                Status::InvalidRequest,
                AppendCode::IdentityMismatch,
            ),
            bad(
                "a completion with the block of another",
                complete(of(&f, 13, &[&other]), &fenced),
                Status::InvalidRequest,
                AppendCode::BadPublication,
            ),
            bad(
                "a completion with a length that is not its blocks'",
                complete(of(&f, 13, &[&block]), &fenced),
                Status::InvalidRequest,
                AppendCode::BadPublication,
            ),
        ];
        refuse_all(&served, &mut rpc, attempts).await;
        must(&mut rpc, complete(of(&f, 12, &[&block]), &fenced)).await;
    }
}
