//! Append sessions by messages: admission, publication, renewal, conflicts, what P1 and P2 ask.

use super::files::{commit, create, key_info, write_block};
use super::names::make_directory;
use super::support::{Rpc, Served, VOLUME, invoked, key, key_in, options, request};
use append_server::Server;
use append_server::config::keys;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::{
    AllocateBlockRequest, AppendCode, AppendFileRequest, AppendFileResponse, AppendHandle,
    AppendPhase, AppendStatus, CommitKeyRequest, DeleteKeyRequest, KeyArgs, KeyLocation,
    ListOpenFilesRequest, OmRequest, OmResponse, RenameKeyRequest, RenewAppendLeasesRequest,
    SetTimesRequest, Status, Type,
};
use std::net::SocketAddr;
use tempfile::TempDir;

pub(crate) fn append(args: KeyArgs, create: CreateMode, blocks: u32) -> OmRequest {
    request(Type::AppendFile, |r| {
        r.append_file_request = Some(Box::new(AppendFileRequest {
            key_args: args,
            create: Some(create.into()),
            preallocate: Some(blocks),
            is_recursive: Some(true),
            ..AppendFileRequest::default()
        }));
    })
}

pub(crate) async fn admitted(rpc: &mut Rpc, request: &OmRequest) -> AppendFileResponse {
    let response = rpc.submit(request).await;
    assert_eq!(response.status(), Status::Ok, "{}", response.message());
    *response.append_file_response.unwrap()
}

pub(crate) fn publish(args: KeyArgs, handle: &AppendHandle, hsync: bool) -> OmRequest {
    request(Type::CommitKey, |r| {
        r.commit_key_request = Some(Box::new(CommitKeyRequest {
            key_args: args,
            hsync: Some(hsync),
            append_handle: Some(*handle),
            ..CommitKeyRequest::default()
        }));
    })
}

/// A closed file of five bytes.
pub(crate) async fn file(rpc: &mut Rpc, address: SocketAddr, args: KeyArgs) {
    let created = create(rpc, args.clone(), true)
        .await
        .create_file_response
        .unwrap();
    let given = created.key_info.as_ref().unwrap().key_location_list[0].key_locations[0].clone();
    let written = write_block(address, &given, b"first").await;
    let committed = commit(
        rpc,
        KeyArgs {
            data_size: Some(5),
            key_locations: vec![written],
            ..args
        },
        created.id(),
        false,
    )
    .await;
    assert_eq!(committed.status(), Status::Ok, "{}", committed.message());
}

/// Sessions that can still publish. One whose file is gone stays in the list until it is swept.
pub(crate) async fn open_sessions(rpc: &mut Rpc) -> usize {
    let response = rpc
        .ok(Type::ListOpenFiles, |r| {
            r.list_open_files_request = Some(Box::new(ListOpenFilesRequest {
                path: Some("/".to_owned()),
                ..ListOpenFilesRequest::default()
            }));
        })
        .await;
    let open = response.list_open_files_response.unwrap();
    assert_eq!(open.client_id.len(), open.key_info.len());
    assert_eq!(open.client_id.len(), open.append_status.len());
    assert_eq!(open.total_open_key_count(), open.client_id.len() as u64);
    let alive = |status: &&AppendStatus| status.phase() != AppendPhase::Invalidated;
    open.append_status.iter().filter(alive).count()
}

#[tokio::test]
async fn an_append_adds_its_block_behind_the_prefix() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = Served::with_buckets().await;
        file(&mut rpc, served.address(), key_in(bucket, "d/f")).await;
        let admitted = admitted(
            &mut rpc,
            &invoked(append(key_in(bucket, "d/f"), CreateMode::No, 1)),
        )
        .await;
        assert_eq!(
            (
                admitted.prefix_length(),
                admitted.prefix_block_count(),
                admitted.published_length()
            ),
            (5, 1, 5)
        );
        assert!(!admitted.created() && !admitted.ordinary());
        assert!(
            admitted
                .key_info
                .as_ref()
                .unwrap()
                .key_location_list
                .is_empty()
        );
        assert_eq!(admitted.soft_limit_ms(), 60_000);
        let handle = admitted.handle.unwrap();
        let owned = key_info(&mut rpc, key_in(bucket, "d/f")).await;
        assert_eq!(owned.append_owner_session_id, handle.session_id);
        assert!(owned.append_session.is_none());

        let suffix: KeyLocation =
            write_block(served.address(), &admitted.suffix[0], b" second").await;
        let args = KeyArgs {
            data_size: Some(12),
            key_locations: vec![suffix],
            ..key_in(bucket, "d/f")
        };
        let synced = rpc
            .submit(&invoked(publish(args.clone(), &handle, true)))
            .await;
        assert_eq!(synced.status(), Status::Ok, "{}", synced.message());
        let info = key_info(&mut rpc, key_in(bucket, "d/f")).await;
        assert_eq!(info.data_size, 12);
        let session = handle.session_id().to_string();
        assert!(
            info.metadata
                .iter()
                .any(|pair| pair.key == "hsyncClientId" && pair.value() == session)
        );

        // The session follows its file; the path that its calls carry is only told.
        rpc.ok(Type::RenameKey, |r| {
            r.rename_key_request = Some(Box::new(RenameKeyRequest {
                key_args: key_in(bucket, "d/f"),
                to_key_name: "d/g".to_owned(),
                update_id: None,
            }));
        })
        .await;
        let closed = rpc.submit(&invoked(publish(args, &handle, false))).await;
        assert_eq!(closed.status(), Status::Ok, "{}", closed.message());
        let info = key_info(&mut rpc, key_in(bucket, "d/g")).await;
        assert_eq!((info.data_size, info.append_owner_session_id), (12, None));
        let lengths: Vec<u64> = info.key_location_list[0]
            .key_locations
            .iter()
            .map(|location| location.length)
            .collect();
        assert_eq!(lengths, [5, 7]);
        assert_eq!(open_sessions(&mut rpc).await, 0);
    }
}

#[tokio::test]
async fn a_second_appender_is_told_who_holds_the_file() {
    let (served, mut rpc) = Served::with_buckets().await;
    file(&mut rpc, served.address(), key("f")).await;
    let first = admitted(&mut rpc, &invoked(append(key("f"), CreateMode::No, 0))).await;
    let handle = first.handle.unwrap();
    let conflict = rpc
        .submit(&invoked(append(key("f"), CreateMode::No, 0)))
        .await;
    assert_eq!(conflict.status(), Status::KeyUnderLeaseSoftLimitPeriod);
    let error = conflict.append_error.unwrap();
    assert_eq!(error.code(), AppendCode::ConflictAppend);
    let holder = error.conflict.unwrap();
    assert_eq!(holder.handle, Some(handle));
    assert!(holder.remaining_ms() > 0);
    assert_eq!(holder.owner(), "test-client");
    // Ozone's own writers are kept out too.
    let created = create(&mut rpc, key("f"), true).await;
    assert_eq!(created.status(), Status::KeyUnderLeaseSoftLimitPeriod);

    let renewed = rpc
        .ok(Type::RenewAppendLeases, |r| {
            let unknown = AppendHandle {
                session_id: Some(1),
                ..handle
            };
            r.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
                sessions: vec![handle, unknown],
            }));
        })
        .await
        .renew_append_leases_response
        .unwrap();
    assert_eq!(renewed.results[0].code(), AppendCode::Ok);
    assert!(renewed.results[0].renewals() > holder.renewals());
    assert_eq!(renewed.results[1].code(), AppendCode::SessionUnknown);

    let closed = rpc
        .submit(&invoked(publish(
            KeyArgs {
                data_size: Some(5),
                ..key("f")
            },
            &handle,
            false,
        )))
        .await;
    assert_eq!(closed.status(), Status::Ok, "{}", closed.message());
    let stale = rpc
        .submit(&request(Type::AllocateBlock, |r| {
            r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
                key_args: key("f"),
                append_handle: Some(handle),
                ..AllocateBlockRequest::default()
            }));
        }))
        .await;
    assert_eq!(stale.status(), Status::KeyNotFound);
    assert_eq!(
        stale.append_error.unwrap().code(),
        AppendCode::SessionUnknown
    );
    admitted(&mut rpc, &invoked(append(key("f"), CreateMode::No, 0))).await;
}

#[tokio::test]
async fn a_repeated_admission_is_the_first_one() {
    let (served, mut rpc) = Served::with_buckets().await;
    file(&mut rpc, served.address(), key("f")).await;
    let request = invoked(append(key("f"), CreateMode::No, 1));
    let first = admitted(&mut rpc, &request).await;
    let mut other = served.rpc().await;
    let again = admitted(&mut other, &request).await;
    assert_eq!(again, first);
    // Without an identity of its own, a call is known by the client's id and the call's number.
    let plain = append(key("g"), CreateMode::MustBeNew, 0);
    let made = |outcome| match outcome {
        append_wire::hrpc::Outcome::Success(payload) => {
            let response = <OmResponse as prost::Message>::decode(payload).unwrap();
            assert_eq!(response.status(), Status::Ok, "{}", response.message());
            response.append_file_response.unwrap().handle
        }
        other => panic!("{other:?}"),
    };
    let first = made(rpc.resend(900, &plain).await);
    assert_eq!(made(rpc.resend(900, &plain).await), first);
    let new = rpc.submit(&plain).await;
    assert_eq!(new.status(), Status::FileAlreadyExists);
}

#[tokio::test]
async fn appends_that_cannot_be_are_refused_and_leave_no_session() {
    let (served, mut rpc) = Served::with_buckets().await;
    make_directory(&mut rpc, key("dir")).await;
    file(&mut rpc, served.address(), key_in("obs", "k")).await;
    for (args, status) in [
        (key("missing"), Status::FileNotFound),
        (key("no/parent"), Status::FileNotFound),
        (key("dir"), Status::NotAFile),
        (key(""), Status::NotAFile),
        (key(".snapshot/s1/f"), Status::InvalidKeyName),
        (key_in("obs", "k"), Status::NotSupportedOperation),
        (key_in("nothing", "k"), Status::BucketNotFound),
    ] {
        let path = format!("/{VOLUME}/{}/{}", args.bucket_name, args.key_name);
        let response = rpc.submit(&invoked(append(args, CreateMode::No, 1))).await;
        assert_eq!(response.status(), status, "{path}: {}", response.message());
        assert!(
            response.message().contains("[request 7465737474657374-"),
            "{}",
            response.message()
        );
    }
    assert_eq!(open_sessions(&mut rpc).await, 0);
}

#[tokio::test]
async fn empty_appends_change_nothing() {
    let (served, mut rpc) = Served::with_buckets().await;
    file(&mut rpc, served.address(), key("e")).await;
    let before = key_info(&mut rpc, key("e")).await;
    for _ in 0..5 {
        let session = admitted(&mut rpc, &invoked(append(key("e"), CreateMode::No, 0))).await;
        let handle = session.handle.unwrap();
        let closed = rpc
            .submit(&invoked(publish(
                KeyArgs {
                    data_size: Some(5),
                    ..key("e")
                },
                &handle,
                false,
            )))
            .await;
        assert_eq!(closed.status(), Status::Ok, "{}", closed.message());
    }
    let after = key_info(&mut rpc, key("e")).await;
    assert_eq!(
        (after.data_size, after.modification_time),
        (before.data_size, before.modification_time)
    );
    assert_eq!(after.key_location_list, before.key_location_list);
}

#[tokio::test]
async fn a_created_file_stands_at_once_and_its_creator_can_take_it_back() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let made = admitted(
        &mut rpc,
        &invoked(append(key("p/new"), CreateMode::MustBeNew, 1)),
    )
    .await;
    assert!(made.created());
    assert_eq!(key_info(&mut rpc, key("p/new")).await.data_size, 0);
    let exists = rpc
        .submit(&invoked(append(key("p/new"), CreateMode::MustBeNew, 0)))
        .await;
    assert_eq!(exists.status(), Status::FileAlreadyExists);
    rpc.ok(Type::DeleteKey, |r| {
        r.delete_key_request = Some(Box::new(DeleteKeyRequest {
            key_args: key("p/new"),
            append_handle: made.handle,
        }));
    })
    .await;
    let gone = rpc
        .submit(&invoked(append(key("p/new"), CreateMode::No, 0)))
        .await;
    assert_eq!(gone.status(), Status::FileNotFound);

    // Over a closed file the new content counts at its commit: an ordinary writer, told so.
    let again = admitted(
        &mut rpc,
        &invoked(append(key("p/new"), CreateMode::Overwrite, 0)),
    )
    .await;
    let closed = rpc
        .submit(&invoked(publish(
            key("p/new"),
            &again.handle.unwrap(),
            false,
        )))
        .await;
    assert_eq!(closed.status(), Status::Ok, "{}", closed.message());
    let over = admitted(
        &mut rpc,
        &invoked(append(key("p/new"), CreateMode::Overwrite, 1)),
    )
    .await;
    assert!(over.ordinary());
    assert_eq!(over.suffix.len(), 1);
    let committed = commit(
        &mut rpc,
        key("p/new"),
        over.handle.unwrap().session_id(),
        false,
    )
    .await;
    assert_eq!(committed.status(), Status::Ok, "{}", committed.message());
    assert_eq!(open_sessions(&mut rpc).await, 0);
}

#[tokio::test]
async fn a_session_and_its_file_outlive_a_restart() {
    let (mut served, mut rpc) = Served::with_buckets().await;
    file(&mut rpc, served.address(), key("f")).await;
    let session = admitted(&mut rpc, &invoked(append(key("f"), CreateMode::No, 1))).await;
    rpc.ok(Type::SetTimes, |r| {
        r.set_times_request = Some(Box::new(SetTimesRequest {
            key_args: key("f"),
            mtime: 1_000_000,
            atime: u64::MAX,
        }));
    })
    .await;
    served.restart().await;
    let mut rpc = served.rpc().await;
    let before = key_info(&mut rpc, key("f")).await;
    assert_eq!((before.data_size, before.modification_time), (5, 1_000_000));
    assert_eq!(
        before.append_owner_session_id,
        session.handle.unwrap().session_id
    );
    let port = u32::from(served.address().port());
    let location = &before.key_location_list[0].key_locations[0];
    assert_eq!(
        location.pipeline.as_ref().unwrap().members[0].ports[0].value,
        port,
        "the datanode's address is new"
    );
    let suffix = write_block(served.address(), &session.suffix[0], b"tail").await;
    let args = KeyArgs {
        data_size: Some(9),
        key_locations: vec![suffix],
        ..key("f")
    };
    let closed = rpc
        .submit(&invoked(publish(args, &session.handle.unwrap(), false)))
        .await;
    assert_eq!(closed.status(), Status::Ok, "{}", closed.message());
    assert_eq!(key_info(&mut rpc, key("f")).await.data_size, 9);
}

#[tokio::test]
async fn the_operator_sets_limits_and_they_hold() {
    let folder = TempDir::new().unwrap();
    let mut set = options(&folder);
    set.set(keys::APPEND_ENABLED, "false").unwrap();
    set.set(keys::SOFT_LIMIT, "10s").unwrap();
    let running = Server::start(set).await.unwrap();
    let mut rpc = Rpc::open(running.rpc_addr(), "alice").await;
    rpc.make_buckets().await;
    file(&mut rpc, running.rpc_addr(), key("f")).await;
    let off = rpc
        .submit(&invoked(append(key("f"), CreateMode::No, 0)))
        .await;
    assert_eq!(off.status(), Status::FeatureNotEnabled);
    assert_eq!(off.append_error.unwrap().code(), AppendCode::Disabled);
    running.shutdown().await;

    let mut set = options(&folder);
    set.set(keys::APPEND_ENABLED, "true").unwrap();
    let running = Server::start(set).await.unwrap();
    let mut rpc = Rpc::open(running.rpc_addr(), "alice").await;
    let session = admitted(&mut rpc, &invoked(append(key("f"), CreateMode::No, 0))).await;
    assert_eq!(
        session.soft_limit_ms(),
        10_000,
        "what is not set again stays"
    );
}
