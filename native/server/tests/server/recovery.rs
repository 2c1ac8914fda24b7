//! Recovery by messages, renames of several keys, and the gate in front of appending.

use super::files::{commit, create, key_info, write_block};
use super::sessions::{admitted, append, file, publish};
use super::support::{Rpc, Served, USER, VOLUME, invoked, key, key_in, options, request};
use append_namespace::command::{Command, Holder, Request};
use append_server::config::keys;
use append_server::consensus::{Consensus, LocalConsensus};
use append_server::{Options, Server};
use append_wire::hdds::upgrade_finalization_status::Status as Finalization;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::{
    AllocateBlockRequest, AppendCode, AppendHandle, AppendPhase, CommitKeyRequest,
    FinalizeUpgradeProgressRequest, FinalizeUpgradeRequest, KeyArgs, OmRequest, OmResponse,
    RecoverLeaseRequest, RecoverLeaseResponse, RenameKeysArgs, RenameKeysMap, RenameKeysRequest,
    RenewAppendLeasesRequest, Status, Type,
};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) fn recover(args: &KeyArgs, append_only: Option<bool>, force: bool) -> OmRequest {
    request(Type::RecoverLease, |r| {
        r.recover_lease_request = Some(Box::new(RecoverLeaseRequest {
            volume_name: Some(args.volume_name.clone()),
            bucket_name: Some(args.bucket_name.clone()),
            key_name: Some(args.key_name.clone()),
            force: Some(force),
            append_only,
        }));
    })
}

pub(crate) fn complete(args: KeyArgs, handle: &AppendHandle) -> OmRequest {
    request(Type::CommitKey, |r| {
        r.commit_key_request = Some(Box::new(CommitKeyRequest {
            key_args: args,
            client_id: handle.session_id(),
            recovery: Some(true),
            append_handle: Some(*handle),
            ..CommitKeyRequest::default()
        }));
    })
}

pub(crate) fn allocate(args: KeyArgs, handle: &AppendHandle) -> OmRequest {
    request(Type::AllocateBlock, |r| {
        r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
            key_args: args,
            append_handle: Some(*handle),
            ..AllocateBlockRequest::default()
        }));
    })
}

pub(crate) fn code(response: &OmResponse) -> AppendCode {
    response
        .append_error
        .as_ref()
        .map_or(AppendCode::Ok, |error| error.code())
}

pub(crate) fn expect(response: &OmResponse, status: Status, expected: AppendCode) {
    assert_eq!(response.status(), status, "{}", response.message());
    assert_eq!(code(response), expected, "{}", response.message());
}

fn is_ok(response: &OmResponse) {
    assert_eq!(response.status(), Status::Ok, "{}", response.message());
}

/// Asks until the lease is over.
async fn fenced(rpc: &mut Rpc, args: &KeyArgs) -> RecoverLeaseResponse {
    loop {
        let response = rpc.submit(&recover(args, Some(true), false)).await;
        if response.status() != Status::KeyUnderLeaseSoftLimitPeriod {
            is_ok(&response);
            return *response.recover_lease_response.unwrap();
        }
        expect(
            &response,
            Status::KeyUnderLeaseSoftLimitPeriod,
            AppendCode::NotEligible,
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn with_short_leases() -> (Served, Rpc) {
    let served = Served::start_with(|options| {
        options.set(keys::SOFT_LIMIT, "1s").unwrap();
    })
    .await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    (served, rpc)
}

#[tokio::test]
async fn a_recovery_is_refused_early_started_joined_and_completed() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = with_short_leases().await;
        let args = key_in(bucket, "d/f");
        file(&mut rpc, served.address(), args.clone()).await;
        let session = admitted(&mut rpc, &invoked(append(args.clone(), CreateMode::No, 1))).await;
        let handle = session.handle.unwrap();
        // Before the lease is over: 97, whoever asks.
        for (capable, told) in [
            (None, AppendCode::ConflictAppend),
            (Some(true), AppendCode::NotEligible),
        ] {
            let early = rpc.submit(&recover(&args, capable, false)).await;
            expect(&early, Status::KeyUnderLeaseSoftLimitPeriod, told);
            let conflict = early.append_error.unwrap().conflict.unwrap();
            assert_eq!(conflict.handle, Some(handle));
            assert!(conflict.remaining_ms() > 0);
        }
        let first = write_block(served.address(), &session.suffix[0], b" second").await;
        let synced = KeyArgs {
            data_size: Some(12),
            key_locations: vec![first.clone()],
            ..args.clone()
        };
        is_ok(&rpc.submit(&invoked(publish(synced, &handle, true))).await);
        let given = rpc
            .submit(&invoked(allocate(args.clone(), &handle)))
            .await
            .allocate_block_response
            .unwrap()
            .key_location
            .unwrap();
        let third = rpc.submit(&invoked(allocate(args.clone(), &handle))).await;
        is_ok(&third);

        // Afterwards a caller that could not finish is told 95 and changes nothing.
        let late = loop {
            let response = rpc.submit(&recover(&args, None, true)).await;
            if response.status() != Status::KeyUnderLeaseSoftLimitPeriod {
                break response;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        expect(&late, Status::KeyUnderLeaseRecovery, AppendCode::Recovering);
        let conflict = late.append_error.unwrap().conflict.unwrap();
        assert_eq!(conflict.phase(), AppendPhase::Active);

        let told = fenced(&mut rpc, &args).await;
        assert_eq!(told.append_handle, Some(handle));
        let open = told.open_key_info.unwrap();
        let blocks = &open.key_location_list[0].key_locations;
        let lengths: Vec<u64> = blocks.iter().map(|block| block.length).collect();
        assert_eq!((open.data_size, lengths), (12, vec![7, 0, 0]));
        assert_eq!(blocks[1].block_id, given.block_id);
        assert!(told.key_info.unwrap().key_location_list.is_empty());
        assert_eq!(told.append_status.unwrap().phase(), AppendPhase::Recovering);
        // Joined by a third client.
        let mut helper = served.rpc().await;
        let joined = fenced(&mut helper, &args).await;
        assert_eq!(joined.append_handle, Some(handle));
        let unable = rpc.submit(&recover(&args, None, false)).await;
        expect(
            &unable,
            Status::KeyUnderLeaseRecovery,
            AppendCode::Recovering,
        );

        fenced_for_good(&mut rpc, &args, &handle).await;
        let second = write_block(served.address(), &given, b" third").await;
        let settled = KeyArgs {
            data_size: Some(18),
            key_locations: vec![first, second],
            ..args.clone()
        };
        let end = invoked(complete(settled.clone(), &handle));
        is_ok(&helper.submit(&end).await);
        // The same call is told the same, another that it is too late.
        is_ok(&helper.submit(&end).await);
        let again = rpc.submit(&invoked(complete(settled, &handle))).await;
        expect(&again, Status::KeyUnderLeaseRecovery, AppendCode::Fenced);
        let info = key_info(&mut rpc, args.clone()).await;
        assert_eq!((info.data_size, info.append_owner_session_id), (18, None));
        fenced_for_good(&mut rpc, &args, &handle).await;
        let closed = rpc.submit(&recover(&args, Some(true), false)).await;
        assert_eq!(closed.status(), Status::KeyAlreadyClosed);
        admitted(&mut rpc, &invoked(append(args, CreateMode::No, 0))).await;
    }
}

async fn fenced_for_good(rpc: &mut Rpc, args: &KeyArgs, handle: &AppendHandle) {
    let same = KeyArgs {
        data_size: Some(12),
        ..args.clone()
    };
    for late in [
        allocate(args.clone(), handle),
        publish(same.clone(), handle, true),
        publish(same, handle, false),
    ] {
        let late = rpc.submit(&invoked(late)).await;
        expect(&late, Status::KeyUnderLeaseRecovery, AppendCode::Fenced);
    }
    let renewed = rpc
        .ok(Type::RenewAppendLeases, |r| {
            r.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
                sessions: vec![*handle],
            }));
        })
        .await;
    let results = renewed.renew_append_leases_response.unwrap().results;
    assert_eq!(results[0].code(), AppendCode::Fenced);
}

#[tokio::test]
async fn what_cannot_be_recovered_is_told_by_its_status() {
    let (served, mut rpc) = Served::with_buckets().await;
    file(&mut rpc, served.address(), key("d/closed")).await;
    for (name, status) in [
        ("d/closed", Status::KeyAlreadyClosed),
        ("d", Status::NotAFile),
        ("d/nothing", Status::KeyNotFound),
    ] {
        let told = rpc.submit(&recover(&key(name), Some(true), false)).await;
        assert_eq!(told.status(), status, "{name}: {}", told.message());
    }
    // The owner's own client need not wait, nor does force.
    for own in [true, false] {
        let session = admitted(
            &mut rpc,
            &invoked(append(key("d/closed"), CreateMode::No, 0)),
        )
        .await;
        let asked = recover(&key("d/closed"), Some(true), !own);
        is_ok(&rpc.submit(&if own { invoked(asked) } else { asked }).await);
        let end = KeyArgs {
            data_size: Some(5),
            ..key("d/closed")
        };
        let handle = session.handle.unwrap();
        is_ok(&rpc.submit(&invoked(complete(end, &handle))).await);
    }
}

/// Ozone's own writer, hsynced: its file is recovered as Ozone's client does it, without handle.
#[tokio::test]
async fn an_ordinary_writer_is_recovered_by_ozones_own_messages() {
    let (served, mut rpc) = with_short_leases().await;
    let created = create(&mut rpc, key("f"), false)
        .await
        .create_file_response
        .unwrap();
    let given = &created.key_info.as_ref().unwrap().key_location_list[0].key_locations[0];
    let written = write_block(served.address(), given, b"synced").await;
    let args = KeyArgs {
        data_size: Some(6),
        key_locations: vec![written],
        ..key("f")
    };
    is_ok(&commit(&mut rpc, args.clone(), created.id(), true).await);
    let told = loop {
        let response = rpc.submit(&recover(&key("f"), None, false)).await;
        if response.status() != Status::KeyUnderLeaseSoftLimitPeriod {
            is_ok(&response);
            break response.recover_lease_response.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let committed = told.key_info.unwrap();
    assert_eq!(committed.data_size, 6);
    assert_eq!(committed.key_location_list[0].key_locations.len(), 1);
    let open = told.open_key_info.unwrap();
    assert_eq!(open.key_location_list[0].key_locations.len(), 1);
    let late = commit(&mut rpc, args.clone(), created.id(), false).await;
    assert_eq!(late.status(), Status::KeyUnderLeaseRecovery);
    let end = request(Type::CommitKey, |r| {
        r.commit_key_request = Some(Box::new(CommitKeyRequest {
            key_args: args,
            client_id: created.id(),
            recovery: Some(true),
            ..CommitKeyRequest::default()
        }));
    });
    is_ok(&rpc.submit(&end).await);
    let closed = rpc.submit(&recover(&key("f"), None, false)).await;
    assert_eq!(closed.status(), Status::KeyAlreadyClosed);
    assert_eq!(key_info(&mut rpc, key("f")).await.data_size, 6);
}

fn rename_keys(bucket: &str, pairs: &[(&str, &str)]) -> OmRequest {
    let renames = pairs
        .iter()
        .map(|&(from, to)| RenameKeysMap {
            from_key_name: from.to_owned(),
            to_key_name: to.to_owned(),
        })
        .collect();
    request(Type::RenameKeys, |r| {
        r.rename_keys_request = Some(Box::new(RenameKeysRequest {
            rename_keys_args: RenameKeysArgs {
                volume_name: VOLUME.to_owned(),
                bucket_name: bucket.to_owned(),
                rename_keys_map: renames,
            },
        }));
    })
}

#[tokio::test]
async fn keys_are_renamed_together_and_sessions_follow_them() {
    let (served, mut rpc) = Served::with_buckets().await;
    let in_legacy = |name| key_in("legacy", name);
    for name in ["a", "b", "c"] {
        file(&mut rpc, served.address(), in_legacy(name)).await;
    }
    let active = admitted(
        &mut rpc,
        &invoked(append(in_legacy("a"), CreateMode::No, 0)),
    )
    .await;
    let recovering = admitted(
        &mut rpc,
        &invoked(append(in_legacy("b"), CreateMode::No, 0)),
    )
    .await;
    is_ok(
        &rpc.submit(&recover(&in_legacy("b"), Some(true), true))
            .await,
    );
    let pairs = [("a", "a2"), ("missing", "x"), ("b", "b2"), ("c", "a2")];
    let response = rpc.submit(&rename_keys("legacy", &pairs)).await;
    assert_eq!(response.status(), Status::PartialRename);
    let told = response.rename_keys_response.unwrap();
    assert!(!told.status());
    let refused: Vec<&str> = told
        .un_renamed_keys
        .iter()
        .map(|pair| pair.from_key_name.as_str())
        .collect();
    assert_eq!(refused, ["missing", "c"]);
    let same = |name| KeyArgs {
        data_size: Some(5),
        ..in_legacy(name)
    };
    let handle = active.handle.unwrap();
    is_ok(
        &rpc.submit(&invoked(publish(same("a2"), &handle, false)))
            .await,
    );
    let handle = recovering.handle.unwrap();
    is_ok(&rpc.submit(&invoked(complete(same("b2"), &handle))).await);
    for name in ["a2", "b2", "c"] {
        let info = key_info(&mut rpc, in_legacy(name)).await;
        assert_eq!((info.data_size, info.append_owner_session_id), (5, None));
    }
    is_ok(&rpc.submit(&rename_keys("legacy", &[("c", "c2")])).await);
    // As Ozone: one after the other there.
    let fso = rpc.submit(&rename_keys("fso", &[("a", "b")])).await;
    assert_eq!(fso.status(), Status::NotSupportedOperation);
}

async fn serve(
    folder: &TempDir,
    change: impl FnOnce(&mut Options),
) -> (append_server::Running, Rpc) {
    let mut options = options(folder);
    change(&mut options);
    let running = Server::start(options).await.unwrap();
    let rpc = Rpc::open(running.rpc_addr(), USER).await;
    (running, rpc)
}

#[tokio::test]
async fn after_append_is_off_admitted_sessions_go_on_and_end() {
    let folder = TempDir::new().unwrap();
    let (running, mut rpc) = serve(&folder, |_| {}).await;
    rpc.make_buckets().await;
    let mut sessions = Vec::new();
    for name in ["ends", "dies"] {
        file(&mut rpc, running.rpc_addr(), key(name)).await;
        let admitted = admitted(&mut rpc, &invoked(append(key(name), CreateMode::No, 1))).await;
        sessions.push((admitted.handle.unwrap(), admitted.suffix[0].clone()));
    }
    running.shutdown().await;
    let (running, mut rpc) = serve(&folder, |options| {
        options.set(keys::APPEND_ENABLED, "false").unwrap();
    })
    .await;
    file(&mut rpc, running.rpc_addr(), key("new")).await;
    for (name, mode) in [("new", CreateMode::No), ("newer", CreateMode::IfMissing)] {
        let off = rpc.submit(&invoked(append(key(name), mode, 0))).await;
        expect(&off, Status::FeatureNotEnabled, AppendCode::Disabled);
    }
    let (handle, given) = &sessions[0];
    is_ok(&rpc.submit(&invoked(allocate(key("ends"), handle))).await);
    let written = write_block(running.rpc_addr(), given, b" second").await;
    let args = KeyArgs {
        data_size: Some(12),
        key_locations: vec![written],
        ..key("ends")
    };
    for hsync in [true, false] {
        is_ok(
            &rpc.submit(&invoked(publish(args.clone(), handle, hsync)))
                .await,
        );
    }
    let (handle, _) = &sessions[1];
    is_ok(&rpc.submit(&recover(&key("dies"), Some(true), true)).await);
    let args = KeyArgs {
        data_size: Some(5),
        ..key("dies")
    };
    is_ok(&rpc.submit(&invoked(complete(args, handle))).await);
    assert_eq!(super::sessions::open_sessions(&mut rpc).await, 0);
    for name in ["ends", "dies"] {
        let off = rpc
            .submit(&invoked(append(key(name), CreateMode::No, 0)))
            .await;
        expect(&off, Status::FeatureNotEnabled, AppendCode::Disabled);
    }
}

/// A folder whose first commands an older version wrote.
async fn unfinalized(folder: &TempDir) {
    let om = folder.path().join("data/om");
    std::fs::create_dir_all(&om).unwrap();
    let consensus = LocalConsensus::open(&om, options(folder).consensus).unwrap();
    for port in 1..4 {
        let holder = Command::RegisterHolder(Holder {
            number: 0,
            uuid: "one-that-went".to_owned(),
            host: "localhost".to_owned(),
            port,
        });
        let request = Request {
            user: USER.to_owned(),
            invocation: None,
            answered_below: None,
            command: Some(holder),
        };
        consensus.propose(request).await.unwrap().unwrap();
    }
    consensus.shutdown();
}

#[tokio::test]
async fn an_upgraded_folder_appends_only_once_it_is_finalized() {
    let folder = TempDir::new().unwrap();
    unfinalized(&folder).await;
    let format = || std::fs::read_to_string(folder.path().join("data/om/FORMAT")).unwrap();
    let (running, mut rpc) = serve(&folder, |_| {}).await;
    rpc.make_buckets().await;
    file(&mut rpc, running.rpc_addr(), key("f")).await;
    assert!(format().ends_with("version 1\n"));
    let early = rpc
        .submit(&invoked(append(key("f"), CreateMode::No, 0)))
        .await;
    expect(
        &early,
        Status::NotSupportedOperationPriorFinalization,
        AppendCode::Disabled,
    );
    assert_eq!(progress(&mut rpc).await, Finalization::FinalizationRequired);
    assert_eq!(finalize(&mut rpc).await, Finalization::FinalizationDone);
    assert_eq!(finalize(&mut rpc).await, Finalization::AlreadyFinalized);
    assert_eq!(progress(&mut rpc).await, Finalization::FinalizationDone);
    // From now on older servers refuse the folder.
    assert!(format().ends_with("version 2\n"));
    admitted(&mut rpc, &invoked(append(key("f"), CreateMode::No, 0))).await;
    running.shutdown().await;
    let (_running, mut rpc) = serve(&folder, |_| {}).await;
    assert_eq!(progress(&mut rpc).await, Finalization::FinalizationDone);
}

async fn finalize(rpc: &mut Rpc) -> Finalization {
    rpc.ok(Type::FinalizeUpgrade, |r| {
        r.finalize_upgrade_request = Some(Box::new(FinalizeUpgradeRequest {
            upgrade_client_id: "operator".to_owned(),
        }));
    })
    .await
    .finalize_upgrade_response
    .unwrap()
    .status
    .status()
}

async fn progress(rpc: &mut Rpc) -> Finalization {
    rpc.ok(Type::FinalizeUpgradeProgress, |r| {
        r.finalize_upgrade_progress_request = Some(Box::new(FinalizeUpgradeProgressRequest {
            upgrade_client_id: "operator".to_owned(),
            ..FinalizeUpgradeProgressRequest::default()
        }));
    })
    .await
    .finalize_upgrade_progress_response
    .unwrap()
    .status
    .status()
}
