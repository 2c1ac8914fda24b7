//! What the server does unasked: it ends sessions that nobody ends and takes deleted trees apart.

use super::files::{commit, create, key_info, write_block};
use super::names::make_directory;
use super::recovery::{allocate, expect};
use super::sessions::{admitted, append, file, publish};
use super::support::{BUCKET, Rpc, Served, VOLUME, invoked, key, key_in, request};
use append_server::config::keys;
use append_wire::om::append_file_request::CreateMode;
use append_wire::om::{
    AppendCode, DeleteKeyRequest, InfoBucketRequest, KeyArgs, ListOpenFilesRequest, Status, Type,
};
use std::time::Duration;

async fn open(rpc: &mut Rpc) -> Vec<u64> {
    rpc.ok(Type::ListOpenFiles, |r| {
        r.list_open_files_request = Some(Box::new(ListOpenFilesRequest {
            path: Some("/".to_owned()),
            ..ListOpenFilesRequest::default()
        }));
    })
    .await
    .list_open_files_response
    .unwrap()
    .client_id
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn served(settings: &[(&str, &str)]) -> (Served, Rpc) {
    let served = Served::start_with(|options| {
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
    })
    .await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    (served, rpc)
}

#[tokio::test]
async fn fault_18_behind_the_hard_limit_the_file_keeps_what_was_synced() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = served(&[(keys::SOFT_LIMIT, "1s"), (keys::HARD_LIMIT, "2s")]).await;
        let args = key_in(bucket, "d/f");
        file(&mut rpc, served.address(), args.clone()).await;
        let session = admitted(&mut rpc, &invoked(append(args.clone(), CreateMode::No, 1))).await;
        let handle = session.handle.unwrap();
        let block = write_block(served.address(), &session.suffix[0], b" second").await;
        let synced = KeyArgs {
            data_size: Some(12),
            key_locations: vec![block],
            ..args.clone()
        };
        let hsync = invoked(publish(synced.clone(), &handle, true));
        assert_eq!(rpc.submit(&hsync).await.status(), Status::Ok);
        let given = rpc.submit(&invoked(allocate(args.clone(), &handle))).await;
        assert_eq!(given.status(), Status::Ok);
        while key_info(&mut rpc, args.clone())
            .await
            .append_owner_session_id
            .is_some()
        {
            pause().await;
        }
        let info = key_info(&mut rpc, args.clone()).await;
        assert_eq!(info.data_size, 12);
        assert!(!info.metadata.iter().any(|pair| pair.key == "hsyncClientId"));
        for late in [
            allocate(args.clone(), &handle),
            publish(synced.clone(), &handle, true),
            publish(synced, &handle, false),
        ] {
            let late = rpc.submit(&invoked(late)).await;
            expect(&late, Status::KeyUnderLeaseRecovery, AppendCode::Fenced);
        }
        admitted(&mut rpc, &invoked(append(args, CreateMode::No, 0))).await;
    }
}

/// Ozone's own writers have no lease: they are ended by age, and their late commit is refused.
#[tokio::test]
async fn ordinary_writers_are_ended_by_age_and_commit_nothing_later() {
    for bucket in ["fso", "legacy"] {
        let (served, mut rpc) = served(&[(keys::OPEN_EXPIRE, "1s")]).await;
        let args = key_in(bucket, "f");
        file(&mut rpc, served.address(), args.clone()).await;
        let opened = create(&mut rpc, args.clone(), true)
            .await
            .create_file_response
            .unwrap();
        let given = &opened.key_info.as_ref().unwrap().key_location_list[0].key_locations[0];
        let block = write_block(served.address(), given, b"another").await;
        // While it is there an append waits for it; when it is gone an append does not.
        let first = rpc
            .submit(&invoked(append(args.clone(), CreateMode::No, 0)))
            .await;
        expect(&first, Status::InvalidRequest, AppendCode::ConflictOrdinary);
        let session = loop {
            let response = rpc
                .submit(&invoked(append(args.clone(), CreateMode::No, 0)))
                .await;
            if response.status() == Status::Ok {
                break response.append_file_response.unwrap();
            }
            pause().await;
        };
        let late = KeyArgs {
            data_size: Some(7),
            key_locations: vec![block],
            ..args.clone()
        };
        let while_owned = commit(&mut rpc, late.clone(), opened.id(), false).await;
        assert_eq!(while_owned.status(), Status::KeyNotFound);
        let same = KeyArgs {
            data_size: Some(5),
            ..args.clone()
        };
        let close = invoked(publish(same, &session.handle.unwrap(), false));
        assert_eq!(rpc.submit(&close).await.status(), Status::Ok);
        let afterwards = commit(&mut rpc, late, opened.id(), false).await;
        assert_eq!(afterwards.status(), Status::KeyNotFound);
        assert_eq!(key_info(&mut rpc, args).await.data_size, 5);
    }
}

async fn used_names(rpc: &mut Rpc) -> u64 {
    rpc.ok(Type::InfoBucket, |r| {
        r.info_bucket_request = Some(Box::new(InfoBucketRequest {
            volume_name: VOLUME.to_owned(),
            bucket_name: BUCKET.to_owned(),
        }));
    })
    .await
    .info_bucket_response
    .unwrap()
    .bucket_info
    .unwrap()
    .used_namespace()
}

/// More than one step of the sweep takes.
#[tokio::test]
async fn fault_22_a_deleted_tree_ends_the_sessions_in_it_step_by_step() {
    let (served, mut rpc) = served(&[]).await;
    for number in 0..510 {
        make_directory(&mut rpc, key(&format!("tree/d{number}"))).await;
    }
    let mut sessions = Vec::new();
    for name in ["tree/d7/f", "tree/zz"] {
        file(&mut rpc, served.address(), key(name)).await;
        let admitted = admitted(&mut rpc, &invoked(append(key(name), CreateMode::No, 1))).await;
        sessions.push((name, admitted.handle.unwrap()));
    }
    assert_eq!(used_names(&mut rpc).await, 513);
    let deleted = rpc
        .submit(&invoked(request(Type::DeleteKey, |r| {
            r.delete_key_request = Some(Box::new(DeleteKeyRequest {
                key_args: KeyArgs {
                    recursive: Some(true),
                    ..key("tree")
                },
                append_handle: None,
            }));
        })))
        .await;
    assert_eq!(deleted.status(), Status::Ok, "{}", deleted.message());
    // From the delete on nothing is taken, whether or not the sweep was there.
    for (name, handle) in &sessions {
        let same = KeyArgs {
            data_size: Some(5),
            ..key(name)
        };
        loop {
            let told = rpc
                .submit(&invoked(publish(same.clone(), handle, true)))
                .await;
            assert_eq!(told.status(), Status::KeyNotFound, "{}", told.message());
            let code = told.append_error.unwrap().code();
            if code == AppendCode::Invalidated {
                break;
            }
            assert_eq!(code, AppendCode::Unreachable);
            pause().await;
        }
    }
    while used_names(&mut rpc).await > 0 {
        pause().await;
    }
    for (name, handle) in &sessions {
        let same = KeyArgs {
            data_size: Some(5),
            ..key(name)
        };
        for hsync in [true, false] {
            let told = rpc
                .submit(&invoked(publish(same.clone(), handle, hsync)))
                .await;
            expect(&told, Status::KeyNotFound, AppendCode::Invalidated);
        }
        let gone = rpc
            .submit(&invoked(append(key(name), CreateMode::No, 0)))
            .await;
        assert_ne!(gone.status(), Status::Ok);
    }
    // What a session ended as is told for the retention; it is not forgotten before.
    assert_eq!(open(&mut rpc).await.len(), sessions.len());
}
