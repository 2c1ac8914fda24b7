//! Volumes, buckets, directories, listings, renames, deletions: what Ozone's own client does first.

use super::support::{BUCKET, Rpc, Served, USER, VOLUME, bucket, key, key_in, request, volume};
use append_wire::hdds::NodeType;
use append_wire::om::ozone_obj::{ObjectType, StoreType};
use append_wire::om::{
    AppendCode, BucketLayoutProto, CheckVolumeAccessRequest, CreateDirectoryRequest,
    DeleteBucketRequest, DeleteKeyArgs, DeleteKeyRequest, DeleteKeysRequest, DeleteVolumeRequest,
    EchoRpcRequest, GetAclRequest, GetFileStatusRequest, GetKeyInfoRequest, InfoBucketRequest,
    InfoVolumeRequest, KeyArgs, ListBucketsRequest, ListKeysRequest, ListStatusRequest,
    ListVolumeRequest, OmResponse, OzoneObj, RenameKeyRequest, ServiceListRequest, SetTimesRequest,
    SetVolumePropertyRequest, Status, Type, list_volume_request::Scope,
};

pub(crate) async fn make_directory(rpc: &mut Rpc, args: KeyArgs) -> OmResponse {
    let make = |args| {
        request(Type::CreateDirectory, |r| {
            r.create_directory_request = Some(Box::new(CreateDirectoryRequest { key_args: args }));
        })
    };
    rpc.submit(&make(args)).await
}

async fn listed(rpc: &mut Rpc, args: KeyArgs, start: &str, most: u64) -> Vec<(String, bool)> {
    let response = rpc
        .ok(Type::ListStatusLight, |r| {
            r.list_status_request = Some(Box::new(ListStatusRequest {
                key_args: args,
                recursive: false,
                start_key: start.to_owned(),
                num_entries: most,
                allow_partial_prefix: None,
            }));
        })
        .await;
    response
        .list_status_light_response
        .unwrap()
        .statuses
        .into_iter()
        .map(|status| {
            (
                status
                    .basic_key_info
                    .as_ref()
                    .unwrap()
                    .key_name()
                    .to_owned(),
                status.is_directory(),
            )
        })
        .collect()
}

#[tokio::test]
async fn the_service_list_is_what_ozones_client_wants_and_ours_needs() {
    let served = Served::start().await;
    let mut rpc = served.rpc().await;
    let response = rpc
        .ok(Type::ServiceList, |r| {
            r.service_list_request = Some(Box::new(ServiceListRequest {}))
        })
        .await;
    let services = response.service_list_response.unwrap().service_info;
    let om = services
        .iter()
        .find(|service| service.node_type() == NodeType::Om)
        .unwrap();
    assert!(
        services
            .iter()
            .any(|service| service.node_type() == NodeType::Scm)
    );
    assert_eq!(
        om.service_ports[0].value,
        u32::from(served.address().port())
    );
    assert_eq!(om.om_role.as_ref().unwrap().server_role, "LEADER");
    assert!([12, 13].contains(&om.om_version()));
    let append = om.append.as_ref().unwrap();
    assert!(append.supported() && append.finalized() && append.enabled());
    assert_eq!(append.soft_limit_ms(), 60_000);
    assert_eq!(append.suggested_renew_ms(), 15_000);
}

#[tokio::test]
async fn volumes_and_buckets_from_birth_to_death() {
    let served = Served::start().await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    rpc.refused(Status::VolumeAlreadyExists, Type::CreateVolume, |r| {
        r.create_volume_request = Some(Box::new(volume(VOLUME)));
    })
    .await;
    rpc.refused(Status::InvalidVolumeName, Type::CreateVolume, |r| {
        r.create_volume_request = Some(Box::new(volume("No_Name")));
    })
    .await;
    let info = |name: &str| InfoVolumeRequest {
        volume_name: name.to_owned(),
    };
    let shown = rpc
        .ok(Type::InfoVolume, |r| {
            r.info_volume_request = Some(Box::new(info(VOLUME)))
        })
        .await
        .info_volume_response
        .unwrap()
        .volume_info
        .unwrap();
    assert_eq!(
        (shown.volume.as_str(), shown.owner_name.as_str()),
        (VOLUME, USER)
    );
    assert_eq!(shown.quota_in_bytes(), u64::MAX);
    let missing = rpc
        .refused(Status::VolumeNotFound, Type::InfoVolume, |r| {
            r.info_volume_request = Some(Box::new(info("nothing")));
        })
        .await;
    assert!(missing.message().contains("nothing"));
    rpc.ok(Type::CheckVolumeAccess, |r| {
        r.check_volume_access_request = Some(Box::new(CheckVolumeAccessRequest {
            volume_name: VOLUME.to_owned(),
            ..CheckVolumeAccessRequest::default()
        }));
    })
    .await;

    let changed = rpc
        .ok(Type::SetVolumeProperty, |r| {
            r.set_volume_property_request = Some(Box::new(SetVolumePropertyRequest {
                volume_name: VOLUME.to_owned(),
                owner_name: Some("bob".to_owned()),
                ..SetVolumePropertyRequest::default()
            }));
        })
        .await;
    assert_eq!(
        changed.set_volume_property_response.unwrap().response,
        Some(true)
    );
    for (scope, user, found) in [
        (Scope::UserVolumes, None, 0),
        (Scope::VolumesByUser, Some("bob"), 1),
        (Scope::VolumesByCluster, None, 1),
    ] {
        let response = rpc
            .ok(Type::ListVolume, |r| {
                r.list_volume_request = Some(Box::new(ListVolumeRequest {
                    scope: scope.into(),
                    user_name: user.map(str::to_owned),
                    ..ListVolumeRequest::default()
                }));
            })
            .await;
        assert_eq!(
            response.list_volume_response.unwrap().volume_info.len(),
            found,
            "{scope:?}"
        );
    }

    let list = |start: &str| ListBucketsRequest {
        volume_name: VOLUME.to_owned(),
        start_key: Some(start.to_owned()),
        count: Some(2),
        ..ListBucketsRequest::default()
    };
    let names = |response: OmResponse| -> Vec<String> {
        let buckets = response.list_buckets_response.unwrap().bucket_info;
        buckets
            .into_iter()
            .map(|bucket| bucket.bucket_name)
            .collect()
    };
    let first = rpc
        .ok(Type::ListBuckets, |r| {
            r.list_buckets_request = Some(Box::new(list("")))
        })
        .await;
    assert_eq!(names(first), ["fso", "legacy"]);
    let rest = rpc
        .ok(Type::ListBuckets, |r| {
            r.list_buckets_request = Some(Box::new(list("legacy")))
        })
        .await;
    assert_eq!(names(rest), ["obs"]);
    for (name, layout) in [
        ("fso", BucketLayoutProto::FileSystemOptimized),
        ("legacy", BucketLayoutProto::Legacy),
        ("obs", BucketLayoutProto::ObjectStore),
    ] {
        let response = rpc
            .ok(Type::InfoBucket, |r| {
                r.info_bucket_request = Some(Box::new(InfoBucketRequest {
                    volume_name: VOLUME.to_owned(),
                    bucket_name: name.to_owned(),
                }));
            })
            .await;
        let info = response.info_bucket_response.unwrap().bucket_info.unwrap();
        assert_eq!(info.bucket_layout(), layout);
        assert_eq!(info.owner(), USER);
    }

    let delete_bucket = |name: &str| DeleteBucketRequest {
        volume_name: VOLUME.to_owned(),
        bucket_name: name.to_owned(),
    };
    let delete_volume = || DeleteVolumeRequest {
        volume_name: VOLUME.to_owned(),
    };
    assert_eq!(
        make_directory(&mut rpc, key("d")).await.status(),
        Status::Ok
    );
    rpc.refused(Status::BucketNotEmpty, Type::DeleteBucket, |r| {
        r.delete_bucket_request = Some(Box::new(delete_bucket(BUCKET)));
    })
    .await;
    rpc.refused(Status::VolumeNotEmpty, Type::DeleteVolume, |r| {
        r.delete_volume_request = Some(Box::new(delete_volume()));
    })
    .await;
    rpc.ok(Type::DeleteKey, |r| {
        r.delete_key_request = Some(Box::new(DeleteKeyRequest {
            key_args: key("d"),
            append_handle: None,
        }));
    })
    .await;
    for name in ["fso", "legacy", "obs"] {
        rpc.ok(Type::DeleteBucket, |r| {
            r.delete_bucket_request = Some(Box::new(delete_bucket(name)))
        })
        .await;
    }
    rpc.ok(Type::DeleteVolume, |r| {
        r.delete_volume_request = Some(Box::new(delete_volume()))
    })
    .await;
}

#[tokio::test]
async fn directories_are_made_listed_renamed_and_deleted() {
    let (_served, mut rpc) = Served::with_buckets().await;
    assert_eq!(
        make_directory(&mut rpc, key("a/b/c")).await.status(),
        Status::Ok
    );
    let again = make_directory(&mut rpc, key("a/b/c")).await;
    assert_eq!(
        (again.status(), again.success()),
        (Status::DirectoryAlreadyExists, true)
    );
    assert_eq!(
        make_directory(&mut rpc, key("a/d")).await.status(),
        Status::Ok
    );
    assert_eq!(
        listed(&mut rpc, key("a"), "", 10).await,
        [("a/b".to_owned(), true), ("a/d".to_owned(), true)]
    );
    assert_eq!(
        listed(&mut rpc, key("a"), "a/d", 10).await,
        [("a/d".to_owned(), true)]
    );
    assert_eq!(
        listed(&mut rpc, key("a"), "", 1).await,
        [("a/b".to_owned(), true)]
    );

    let root = rpc
        .ok(Type::GetFileStatus, |r| {
            r.get_file_status_request = Some(Box::new(GetFileStatusRequest { key_args: key("") }));
        })
        .await
        .get_file_status_response
        .unwrap()
        .status;
    assert!(root.is_directory() && root.key_info.is_none());

    rpc.ok(Type::RenameKey, |r| {
        r.rename_key_request = Some(Box::new(RenameKeyRequest {
            key_args: key("a"),
            to_key_name: "z".to_owned(),
            update_id: None,
        }));
    })
    .await;
    let moved = rpc
        .refused(Status::FileNotFound, Type::GetFileStatus, |r| {
            r.get_file_status_request = Some(Box::new(GetFileStatusRequest {
                key_args: key("a/b"),
            }));
        })
        .await;
    assert!(moved.message().contains("a/b"), "{}", moved.message());
    let delete = |recursive| DeleteKeyRequest {
        key_args: KeyArgs {
            recursive: Some(recursive),
            ..key("z")
        },
        append_handle: None,
    };
    rpc.refused(Status::DirectoryNotEmpty, Type::DeleteKey, |r| {
        r.delete_key_request = Some(Box::new(delete(false)));
    })
    .await;
    rpc.ok(Type::DeleteKey, |r| {
        r.delete_key_request = Some(Box::new(delete(true)))
    })
    .await;
    rpc.refused(Status::KeyNotFound, Type::GetKeyInfo, |r| {
        r.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
            key_args: key("z/b"),
            ..GetKeyInfoRequest::default()
        }));
    })
    .await;
    rpc.refused(Status::KeyNotFound, Type::SetTimes, |r| {
        r.set_times_request = Some(Box::new(SetTimesRequest {
            key_args: key("z"),
            mtime: 5,
            atime: 5,
        }));
    })
    .await;
}

#[tokio::test]
async fn keys_of_a_flat_bucket_are_listed_by_pages_and_deleted_together() {
    let (_served, mut rpc) = Served::with_buckets().await;
    for name in ["d1", "d2/e"] {
        assert_eq!(
            make_directory(&mut rpc, key_in("legacy", name))
                .await
                .status(),
            Status::Ok
        );
    }
    let list = |start: &str| ListKeysRequest {
        volume_name: VOLUME.to_owned(),
        bucket_name: "legacy".to_owned(),
        start_key: Some(start.to_owned()),
        count: Some(2),
        ..ListKeysRequest::default()
    };
    let keys = |response: OmResponse| {
        let page = response.list_keys_light_response.unwrap();
        let names: Vec<_> = page
            .basic_key_info
            .iter()
            .map(|key| key.key_name().to_owned())
            .collect();
        (names, page.is_truncated())
    };
    let first = rpc
        .ok(Type::ListKeysLight, |r| {
            r.list_keys_request = Some(Box::new(list("")))
        })
        .await;
    assert_eq!(
        keys(first),
        (vec!["d1/".to_owned(), "d2/".to_owned()], true)
    );
    let rest = rpc
        .ok(Type::ListKeysLight, |r| {
            r.list_keys_request = Some(Box::new(list("d2/")))
        })
        .await;
    assert_eq!(keys(rest), (vec!["d2/e/".to_owned()], false));

    let deleted = request(Type::DeleteKeys, |r| {
        r.delete_keys_request = Some(Box::new(DeleteKeysRequest {
            delete_keys: Some(DeleteKeyArgs {
                volume_name: VOLUME.to_owned(),
                bucket_name: "legacy".to_owned(),
                keys: vec!["d1/".to_owned(), "nothing".to_owned()],
                ..DeleteKeyArgs::default()
            }),
            source_type: None,
        }));
    });
    let response = rpc.submit(&deleted).await;
    assert_eq!(response.status(), Status::PartialDelete);
    let answer = response.delete_keys_response.unwrap();
    assert_eq!(answer.un_deleted_keys.unwrap().keys, ["nothing"]);
    assert_eq!(answer.errors[0].error_code(), "KEY_NOT_FOUND");
}

#[tokio::test]
async fn snapshot_paths_are_read_only_and_empty() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let made = make_directory(&mut rpc, key(".snapshot/s1/d")).await;
    assert_eq!(made.status(), Status::InvalidKeyName);
    assert_eq!(made.append_error.unwrap().code(), AppendCode::Unsupported);
    assert!(made.message.unwrap().contains("read only"));
    rpc.refused(Status::FileNotFound, Type::GetFileStatus, |r| {
        r.get_file_status_request = Some(Box::new(GetFileStatusRequest {
            key_args: key(".snapshot/s1/d"),
        }));
    })
    .await;
    rpc.refused(Status::InvalidKeyName, Type::RenameKey, |r| {
        r.rename_key_request = Some(Box::new(RenameKeyRequest {
            key_args: key("a"),
            to_key_name: ".snapshot/s1/a".to_owned(),
            update_id: None,
        }));
    })
    .await;
}

#[tokio::test]
async fn what_is_not_built_is_refused_by_name() {
    let (_served, mut rpc) = Served::with_buckets().await;
    for command in [
        Type::InitiateMultiPartUpload,
        Type::CreateSnapshot,
        Type::ListSnapshot,
        Type::GetDelegationToken,
        Type::AddAcl,
        Type::Prepare,
        Type::AppendGcReport,
    ] {
        let response = rpc
            .refused(Status::NotSupportedOperation, command, |_| {})
            .await;
        assert!(
            response.message().contains(command.as_str_name()),
            "{}",
            response.message()
        );
        assert_eq!(
            response.append_error.unwrap().code(),
            AppendCode::Unsupported
        );
    }
    // A number that no version knows, and a command without its payload.
    let mut unknown = request(Type::ServiceList, |_| {});
    unknown.cmd_type = 1_999;
    let response = rpc.submit(&unknown).await;
    assert_eq!(
        (response.cmd_type, response.status()),
        (1_999, Status::NotSupportedOperation)
    );
    rpc.refused(Status::InvalidRequest, Type::CreateVolume, |_| {})
        .await;
}

#[tokio::test]
async fn bucket_properties_that_are_not_built_are_refused() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let plain = bucket("more", BucketLayoutProto::Legacy);
    let mut versioned = plain.clone();
    versioned.bucket_info.is_version_enabled = true;
    let mut link = plain.clone();
    link.bucket_info.source_volume = Some(VOLUME.to_owned());
    link.bucket_info.source_bucket = Some(BUCKET.to_owned());
    for asked in [versioned, link] {
        rpc.refused(Status::NotSupportedOperation, Type::CreateBucket, |r| {
            r.create_bucket_request = Some(Box::new(asked));
        })
        .await;
    }
    rpc.ok(Type::CreateBucket, |r| {
        r.create_bucket_request = Some(Box::new(plain))
    })
    .await;
}

#[tokio::test]
async fn echoes_and_access_rules_are_answered() {
    let (_served, mut rpc) = Served::with_buckets().await;
    let echoed = rpc
        .ok(Type::EchoRpc, |r| {
            r.echo_rpc_request = Some(Box::new(EchoRpcRequest {
                payload_size_resp: Some(1000),
                ..EchoRpcRequest::default()
            }));
        })
        .await;
    assert_eq!(echoed.echo_rpc_response.unwrap().payload().len(), 1000);
    rpc.refused(Status::InvalidRequest, Type::EchoRpc, |r| {
        r.echo_rpc_request = Some(Box::new(EchoRpcRequest {
            payload_size_resp: Some(-1),
            ..EchoRpcRequest::default()
        }));
    })
    .await;
    let acl = |kind: ObjectType, path: &str| GetAclRequest {
        obj: OzoneObj {
            res_type: kind.into(),
            store_type: StoreType::Ozone.into(),
            path: path.to_owned(),
        },
    };
    for (kind, path) in [
        (ObjectType::Volume, "/vol1"),
        (ObjectType::Bucket, "/vol1/fso"),
    ] {
        rpc.ok(Type::GetAcl, |r| {
            r.get_acl_request = Some(Box::new(acl(kind, path)))
        })
        .await;
    }
    rpc.refused(Status::InvalidRequest, Type::GetAcl, |r| {
        r.get_acl_request = Some(Box::new(acl(ObjectType::Bucket, "/vol1")));
    })
    .await;
}
