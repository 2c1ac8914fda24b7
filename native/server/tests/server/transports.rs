//! Both transports give the same answers, on both listeners, and nobody is served without a user.

use super::support::{Served, VOLUME, as_user, grpc, invoked, key, options, request, volume};
use append_server::{ConfigError, Server, StartError};
use append_wire::om::{
    CreateDirectoryRequest, GetFileStatusRequest, InfoVolumeRequest, OmRequest, Status, Type,
    UserInfo,
};
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn requests() -> Vec<OmRequest> {
    let status = |name: &str| {
        request(Type::GetFileStatus, |r| {
            r.get_file_status_request = Some(Box::new(GetFileStatusRequest {
                key_args: key(name),
            }));
        })
    };
    vec![
        status("d"),
        status("nothing"),
        status(""),
        request(Type::InfoVolume, |r| {
            r.info_volume_request = Some(Box::new(InfoVolumeRequest {
                volume_name: VOLUME.to_owned(),
            }));
        }),
        request(Type::CreateSnapshot, |_| {}),
        request(Type::CreateVolume, |r| {
            r.create_volume_request = Some(Box::new(volume(VOLUME)))
        }),
    ]
}

#[tokio::test]
async fn both_transports_give_the_same_answers() {
    let served = Served::start_with(|options| {
        options.grpc_listen = Some("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    rpc.ok(Type::CreateDirectory, |r| {
        r.create_directory_request = Some(Box::new(CreateDirectoryRequest { key_args: key("d") }));
    })
    .await;
    let mut same_port = grpc(served.address()).await;
    let mut own_port = grpc(served.running.as_ref().unwrap().grpc_addr().unwrap()).await;
    for mut asked in requests() {
        asked.trace_id = Some("trace-1".to_owned());
        let by_rpc = rpc.submit(&asked).await;
        let by_grpc = same_port
            .submit_request(as_user(asked.clone()))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(by_rpc, by_grpc);
        let by_second = own_port
            .submit_request(as_user(asked))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(by_rpc, by_second);
        assert_eq!(by_rpc.trace_id(), "trace-1");
    }
}

#[tokio::test]
async fn a_repeated_call_over_grpc_needs_its_own_identity() {
    let served = Served::start().await;
    let mut client = grpc(served.address()).await;
    let create = as_user(request(Type::CreateVolume, |r| {
        r.create_volume_request = Some(Box::new(volume(VOLUME)))
    }));
    let named = invoked(create.clone());
    for _ in 0..2 {
        let response = client
            .submit_request(named.clone())
            .await
            .unwrap()
            .into_inner();
        assert_eq!(response.status(), Status::Ok, "{}", response.message());
    }
    let response = client.submit_request(create).await.unwrap().into_inner();
    assert_eq!(response.status(), Status::VolumeAlreadyExists);
    let mut short = named;
    short.invocation_id = Some(vec![1, 2, 3].into());
    let response = client.submit_request(short).await.unwrap().into_inner();
    assert_eq!(response.status(), Status::InvalidRequest);
}

#[tokio::test]
async fn nobody_is_served_without_a_user() {
    let served = Served::start().await;
    let mut client = grpc(served.address()).await;
    for user in [
        None,
        Some(UserInfo::default()),
        Some(UserInfo {
            user_name: Some(String::new()),
            ..UserInfo::default()
        }),
    ] {
        let mut asked = requests().remove(0);
        asked.user_info = user;
        let refused = client.submit_request(asked).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    }
}

#[tokio::test]
async fn garbage_on_the_port_disturbs_nobody() {
    let served = Served::start().await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    for garbage in [
        &b"\0\0\0\0"[..],
        b"GET / HTTP/1.0\r\n\r\n",
        b"hrpc\x09\0\0\xff\xff\xff\xff",
        b"PRI * HTTP/9\r\n",
    ] {
        let mut stream = TcpStream::connect(served.address()).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    rpc.ok(Type::InfoVolume, |r| {
        r.info_volume_request = Some(Box::new(InfoVolumeRequest {
            volume_name: VOLUME.to_owned(),
        }));
    })
    .await;
}

#[tokio::test]
async fn pages_tell_of_the_server() {
    let served =
        Served::start_with(|options| options.set("ozone.om.lease.soft.limit", "12s").unwrap())
            .await;
    let mut rpc = served.rpc().await;
    rpc.make_buckets().await;
    let address = served.running.as_ref().unwrap().http_addr().unwrap();
    let health = page(address, "/health").await;
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let metrics = page(address, "/prom").await;
    assert!(
        metrics.contains("append_om_requests_total{command=\"CreateBucket\",outcome=\"OK\"}"),
        "{metrics}"
    );
    assert!(!metrics.contains(VOLUME), "a path became a label");
    let conf = page(address, "/conf").await;
    assert!(
        conf.contains("<name>ozone.om.lease.soft.limit</name><value>12000ms</value>"),
        "{conf}"
    );
}

async fn page(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn servers_that_others_could_reach_or_that_share_a_folder_do_not_start() {
    let folder = TempDir::new().unwrap();
    let mut wide = options(&folder);
    wide.listen = "0.0.0.0:0".parse().unwrap();
    let refused = Server::start(wide).await;
    assert!(matches!(
        refused,
        Err(StartError::Config(ConfigError::Exposed { .. }))
    ));

    let first = Server::start(options(&folder)).await.unwrap();
    assert!(first.uri().starts_with("ofs://127.0.0.1:"));
    assert!(matches!(
        Server::start(options(&folder)).await,
        Err(StartError::Consensus(_))
    ));
    first.shutdown().await;
    Server::start(options(&folder))
        .await
        .unwrap()
        .shutdown()
        .await;
}
