//! The server that the bodies of the two ports speak to: in this process, so that a panic of it is seen, with small bounds.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use append_server::{Options, Running, Server};
use append_wire::om::{
    AllocateBlockRequest, AppendFileRequest, BucketInfo, BucketLayoutProto, CommitKeyRequest,
    CreateBucketRequest, CreateDirectoryRequest, CreateFileRequest, CreateKeyRequest,
    CreateVolumeRequest, DeleteKeyArgs, DeleteKeyRequest, DeleteKeysRequest, EchoRpcRequest,
    GetFileStatusRequest, GetKeyInfoRequest, InfoBucketRequest, InfoVolumeRequest, KeyArgs,
    ListBucketsRequest, ListKeysRequest, ListOpenFilesRequest, ListStatusRequest,
    ListVolumeRequest, LookupKeyRequest, OmRequest, RenameKeyRequest, RenewAppendLeasesRequest,
    SetTimesRequest, Type, UserInfo, VolumeInfo,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::panics;

/// How long anything may take before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Env {
    pub(crate) runtime: Runtime,
    pub(crate) address: SocketAddr,
    fatal: Arc<AtomicBool>,
    panics: u64,
    _running: Running,
    _folder: TempDir,
}

pub(crate) static ENV: LazyLock<Env> = LazyLock::new(Env::start);

impl Env {
    fn start() -> Env {
        let panics = panics();
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let fatal = Arc::new(AtomicBool::new(false));
        let mut options = Options::any_port(folder.path().join("data"));
        options.http_listen = None;
        options.rpc.frame_bytes = 1 << 20;
        let told = Arc::clone(&fatal);
        options.consensus.on_fatal = Arc::new(move |_| told.store(true, Ordering::SeqCst));
        let running = runtime.block_on(Server::start(options)).unwrap();
        Env {
            address: running.rpc_addr(),
            runtime,
            fatal,
            panics,
            _running: running,
            _folder: folder,
        }
    }

    /// The server is as well as it was.
    pub(crate) fn check(&self) {
        assert!(!self.fatal.load(Ordering::SeqCst), "the server would end");
        assert_eq!(panics(), self.panics, "something panicked");
    }
}

fn request(command: Type, fill: impl FnOnce(&mut OmRequest)) -> OmRequest {
    let mut request = OmRequest {
        cmd_type: command.into(),
        client_id: "fuzz".to_owned(),
        version: Some(3),
        user_info: Some(UserInfo {
            user_name: Some("fuzz".to_owned()),
            ..UserInfo::default()
        }),
        ..OmRequest::default()
    };
    fill(&mut request);
    request
}

fn key(bucket: &str, name: &str) -> KeyArgs {
    KeyArgs {
        volume_name: "vol".to_owned(),
        bucket_name: bucket.to_owned(),
        key_name: name.to_owned(),
        data_size: Some(0),
        ..KeyArgs::default()
    }
}

/// Requests of many kinds, in an order in which most succeed.
pub(crate) fn requests() -> Vec<OmRequest> {
    let mut found = vec![
        request(Type::CreateVolume, |r| {
            r.create_volume_request = Some(Box::new(CreateVolumeRequest {
                volume_info: VolumeInfo {
                    admin_name: "fuzz".to_owned(),
                    owner_name: "fuzz".to_owned(),
                    volume: "vol".to_owned(),
                    ..VolumeInfo::default()
                },
            }));
        }),
        request(Type::ServiceList, |_| {}),
        request(Type::InfoVolume, |r| {
            r.info_volume_request = Some(Box::new(InfoVolumeRequest {
                volume_name: "vol".to_owned(),
            }));
        }),
        request(Type::ListVolume, |r| {
            r.list_volume_request = Some(Box::new(ListVolumeRequest {
                scope: 3,
                max_keys: Some(10),
                ..ListVolumeRequest::default()
            }));
        }),
        request(Type::ListBuckets, |r| {
            r.list_buckets_request = Some(Box::new(ListBucketsRequest {
                volume_name: "vol".to_owned(),
                count: Some(10),
                ..ListBucketsRequest::default()
            }));
        }),
        request(Type::ListOpenFiles, |r| {
            r.list_open_files_request = Some(Box::new(ListOpenFilesRequest {
                path: Some("/vol".to_owned()),
                count: Some(10),
                ..ListOpenFilesRequest::default()
            }));
        }),
        request(Type::EchoRpc, |r| {
            r.echo_rpc_request = Some(Box::new(EchoRpcRequest {
                payload_size_resp: Some(7),
                ..EchoRpcRequest::default()
            }));
        }),
        request(Type::RenewAppendLeases, |r| {
            r.renew_append_leases_request = Some(Box::new(RenewAppendLeasesRequest {
                sessions: vec![append_wire::om::AppendHandle {
                    bucket_object_id: Some(1),
                    session_id: Some(2),
                    file_object_id: Some(3),
                }],
            }));
        }),
    ];
    for (bucket, layout) in [
        ("fso", BucketLayoutProto::FileSystemOptimized),
        ("legacy", BucketLayoutProto::Legacy),
        ("obs", BucketLayoutProto::ObjectStore),
    ] {
        found.push(request(Type::CreateBucket, |r| {
            r.create_bucket_request = Some(Box::new(CreateBucketRequest {
                bucket_info: BucketInfo {
                    volume_name: "vol".to_owned(),
                    bucket_name: bucket.to_owned(),
                    bucket_layout: Some(layout.into()),
                    ..BucketInfo::default()
                },
            }));
        }));
        found.extend(in_bucket(bucket));
    }
    found
}

fn in_bucket(bucket: &str) -> Vec<OmRequest> {
    vec![
        request(Type::InfoBucket, |r| {
            r.info_bucket_request = Some(Box::new(InfoBucketRequest {
                volume_name: "vol".to_owned(),
                bucket_name: bucket.to_owned(),
            }));
        }),
        request(Type::CreateDirectory, |r| {
            r.create_directory_request = Some(Box::new(CreateDirectoryRequest {
                key_args: key(bucket, "d/e"),
            }));
        }),
        request(Type::AppendFile, |r| {
            r.append_file_request = Some(Box::new(AppendFileRequest {
                key_args: key(bucket, "d/file"),
                create: Some(1),
                preallocate: Some(1),
                is_recursive: Some(true),
                ..AppendFileRequest::default()
            }));
        }),
        request(Type::CreateFile, |r| {
            r.create_file_request = Some(Box::new(CreateFileRequest {
                key_args: key(bucket, "d/other"),
                is_recursive: true,
                is_overwrite: true,
                client_id: None,
            }));
        }),
        request(Type::CreateKey, |r| {
            r.create_key_request = Some(Box::new(CreateKeyRequest {
                key_args: key(bucket, "key"),
                ..CreateKeyRequest::default()
            }));
        }),
        request(Type::AllocateBlock, |r| {
            r.allocate_block_request = Some(Box::new(AllocateBlockRequest {
                key_args: key(bucket, "d/other"),
                client_id: 5,
                ..AllocateBlockRequest::default()
            }));
        }),
        request(Type::CommitKey, |r| {
            r.commit_key_request = Some(Box::new(CommitKeyRequest {
                key_args: key(bucket, "d/other"),
                client_id: 5,
                hsync: Some(true),
                ..CommitKeyRequest::default()
            }));
        }),
        request(Type::LookupKey, |r| {
            r.lookup_key_request = Some(Box::new(LookupKeyRequest {
                key_args: key(bucket, "d/file"),
            }));
        }),
        request(Type::GetKeyInfo, |r| {
            r.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
                key_args: key(bucket, "d/file"),
                ..GetKeyInfoRequest::default()
            }));
        }),
        request(Type::GetFileStatus, |r| {
            r.get_file_status_request = Some(Box::new(GetFileStatusRequest {
                key_args: key(bucket, "d/file"),
            }));
        }),
        request(Type::ListStatus, |r| {
            r.list_status_request = Some(Box::new(ListStatusRequest {
                key_args: key(bucket, "d"),
                start_key: String::new(),
                num_entries: 10,
                ..ListStatusRequest::default()
            }));
        }),
        request(Type::ListKeys, |r| {
            r.list_keys_request = Some(Box::new(ListKeysRequest {
                volume_name: "vol".to_owned(),
                bucket_name: bucket.to_owned(),
                count: Some(10),
                ..ListKeysRequest::default()
            }));
        }),
        request(Type::SetTimes, |r| {
            r.set_times_request = Some(Box::new(SetTimesRequest {
                key_args: key(bucket, "d/file"),
                mtime: 5,
                atime: 5,
            }));
        }),
        request(Type::RenameKey, |r| {
            r.rename_key_request = Some(Box::new(RenameKeyRequest {
                key_args: key(bucket, "d/file"),
                to_key_name: "d/renamed".to_owned(),
                ..RenameKeyRequest::default()
            }));
        }),
        request(Type::DeleteKeys, |r| {
            r.delete_keys_request = Some(Box::new(DeleteKeysRequest {
                delete_keys: Some(DeleteKeyArgs {
                    volume_name: "vol".to_owned(),
                    bucket_name: bucket.to_owned(),
                    keys: vec!["d/renamed".to_owned()],
                    ..DeleteKeyArgs::default()
                }),
                ..DeleteKeysRequest::default()
            }));
        }),
        request(Type::DeleteKey, |r| {
            r.delete_key_request = Some(Box::new(DeleteKeyRequest {
                key_args: key(bucket, "d/renamed"),
                ..DeleteKeyRequest::default()
            }));
        }),
    ]
}
