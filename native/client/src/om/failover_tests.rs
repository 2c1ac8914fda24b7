//! The client against a group of a few lines each: servers that hang, resign, lose answers, or are all away; over both transports, by
//! callers that wait and callers that block.

use std::sync::Mutex;

use super::*;
use crate::config::Config;
use crate::runtime::block_on;
use crate::testing::om::{FakeOm, Reply, ok};
use crate::wait::Wait;

/// How a caller makes its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Hadoop RPC, over the shared connection.
    Shared,
    /// Hadoop RPC, over a connection of the blocked caller's own.
    Blocked,
    Grpc,
}

const WAYS: [Way; 3] = [Way::Shared, Way::Blocked, Way::Grpc];

impl Way {
    async fn server(self, script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> FakeOm {
        match self {
            Way::Shared | Way::Blocked => FakeOm::numbered(script).await,
            Way::Grpc => FakeOm::grpc(script).await,
        }
    }

    async fn connect(self, servers: &[&FakeOm], more: &[(&str, &str)]) -> Arc<OmClient> {
        let mut config = Config::empty()
            .with("ozone.client.wait.between.retries.millis", "20ms")
            .with("libappend.om.attempt.timeout", "200ms");
        for (key, value) in more {
            config = config.with(*key, *value);
        }
        if self == Way::Grpc {
            config = config.with("ozone.om.transport.class", "GrpcOmTransportFactory");
        }
        let settings = Settings::read(&config).unwrap();
        let nodes = servers
            .iter()
            .zip(1..)
            .map(|(server, n)| server.node(&format!("om{n}")))
            .collect();
        Arc::new(OmClient::connect(nodes, "ann", &settings).await.unwrap())
    }

    async fn change(self, om: &Arc<OmClient>) -> Result<()> {
        let request = om.request(Type::CreateVolume);
        if self != Way::Blocked {
            return om.call(request, Effect::Change).await.map(drop);
        }
        let om = Arc::clone(om);
        tokio::task::spawn_blocking(move || {
            block_on(&Wait::unbounded(), async {
                om.call(request, Effect::Change).await.map(drop)
            })
        })
        .await
        .unwrap()
    }
}

fn not_leader(suggested: Option<&str>) -> Reply {
    let text = match suggested {
        Some(id) => {
            format!("OM:om9 is not the leader. Suggested leader is OM:{id}[10.9.9.9:1].")
        }
        None => "OM:om9 is not the leader. Could not determine the leader node.".to_owned(),
    };
    Reply::Exception("OMNotLeaderException", text)
}

fn identities(server: &mut FakeOm) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    while let Ok(call) = server.seen.try_recv() {
        seen.push(call.request.invocation_id.unwrap().to_vec());
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hangs_costs_one_attempt_and_then_comes_last() {
    for way in WAYS {
        let mut a = way.server(|_| Reply::Nothing).await;
        let mut b = way.server(|_| not_leader(Some("om3"))).await;
        let mut c = way.server(|_| ok()).await;
        // A call may take far longer than the test: only the limit of an attempt ends the wait.
        let om = way
            .connect(&[&a, &b, &c], &[("libappend.call.timeout", "10m")])
            .await;
        way.change(&om).await.unwrap();
        let first = identities(&mut a);
        assert_eq!(first.len(), 1, "{way:?}");
        assert_eq!(identities(&mut b), first, "{way:?}");
        assert_eq!(identities(&mut c), first, "{way:?}");
        for _ in 0..10 {
            way.change(&om).await.unwrap();
        }
        assert_eq!(identities(&mut a).len(), 0, "{way:?}");
        assert_eq!(identities(&mut b).len(), 0, "{way:?}");
        assert_eq!(identities(&mut c).len(), 10, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_to_the_leader_that_hangs_does_not_hold_the_call() {
    for way in WAYS {
        let mut a = way.server(|_| Reply::Nothing).await;
        // Not elected yet when it is first asked.
        let mut b = way
            .server(|n| if n < 3 { not_leader(Some("om1")) } else { ok() })
            .await;
        let c = way.server(|_| not_leader(Some("om1"))).await;
        let om = way
            .connect(&[&a, &b, &c], &[("libappend.call.timeout", "10m")])
            .await;
        way.change(&om).await.unwrap();
        let asked = identities(&mut b);
        assert_eq!(asked.len(), 4, "{way:?}");
        assert!(identities(&mut a).iter().all(|id| *id == asked[0]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_changed_is_followed_at_once_and_remembered() {
    for way in WAYS {
        let leader = Arc::new(Mutex::new(1));
        let server = |me: usize| {
            let leader = Arc::clone(&leader);
            move |_| {
                let leader = *leader.lock().unwrap();
                if leader == me {
                    ok()
                } else {
                    not_leader(Some(&format!("om{leader}")))
                }
            }
        };
        let mut a = way.server(server(1)).await;
        let mut b = way.server(server(2)).await;
        let mut c = way.server(server(3)).await;
        // A round takes far longer than the test: what is not followed at once is not done.
        let om = way
            .connect(
                &[&a, &b, &c],
                &[("ozone.client.wait.between.retries.millis", "10m")],
            )
            .await;
        way.change(&om).await.unwrap();
        *leader.lock().unwrap() = 3;
        way.change(&om).await.unwrap();
        way.change(&om).await.unwrap();
        assert_eq!(identities(&mut b).len(), 0, "{way:?}");
        *leader.lock().unwrap() = 2;
        way.change(&om).await.unwrap();
        assert_eq!(identities(&mut a).len(), 2, "{way:?}");
        assert_eq!(identities(&mut b).len(), 1, "{way:?}");
        assert_eq!(identities(&mut c).len(), 3, "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_28_an_answer_that_was_lost_is_asked_for_at_the_next_leader() {
    for way in WAYS {
        let mut a = way.server(|_| Reply::Close).await;
        let mut b = way
            .server(|n| match n {
                0 => not_leader(None),
                1 => Reply::Exception("OMLeaderNotReadyException", "applying".to_owned()),
                _ => ok(),
            })
            .await;
        let om = way.connect(&[&a, &b], &[]).await;
        way.change(&om).await.unwrap();
        let mut asked = identities(&mut a);
        assert!(!asked.is_empty(), "{way:?}");
        asked.extend(identities(&mut b));
        asked.dedup();
        assert_eq!(
            asked.len(),
            1,
            "{way:?}: a resend that is a call of its own"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_down_ends_at_the_calls_own_deadline() {
    for way in WAYS {
        let a = way.server(|_| Reply::Nothing).await;
        let b = way.server(|_| not_leader(None)).await;
        let c = way.server(|_| Reply::Nothing).await;
        let om = way
            .connect(
                &[&a, &b, &c],
                &[
                    ("libappend.call.timeout", "700ms"),
                    ("libappend.om.attempt.timeout", "50ms"),
                ],
            )
            .await;
        let error = way.change(&om).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{way:?}: {error}");
        let error = om
            .call(om.request(Type::InfoVolume), Effect::Read)
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable),
            "{way:?}: {error}"
        );
        drop((a, b, c));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_slow_and_alone_in_leading_is_given_the_time() {
    for way in [Way::Shared, Way::Grpc] {
        let a = way.server(|_| not_leader(Some("om2"))).await;
        // Nothing for the first tries, however long each is listened to.
        let b = way
            .server(|n| if n < 4 { Reply::Nothing } else { ok() })
            .await;
        let om = way
            .connect(
                &[&a, &b],
                &[
                    ("libappend.call.timeout", "10m"),
                    ("libappend.om.attempt.timeout", "40ms"),
                ],
            )
            .await;
        way.change(&om).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_hangs_does_not_hold_the_first_call() {
    // Its system takes connections; nobody ever reads them.
    let hung = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hung.local_addr().unwrap();
    let mut b = FakeOm::numbered(|_| ok()).await;
    let config = Config::empty().with("libappend.om.attempt.timeout", "100ms");
    let settings = Settings::read(&config).unwrap();
    let hung = Node {
        id: "om1".to_owned(),
        host: address.ip().to_string(),
        port: address.port(),
    };
    let nodes = vec![hung, b.node("om2")];
    let om = OmClient::connect(nodes, "ann", &settings).await.unwrap();
    assert!(om.features().can_append());
    om.call(om.request(Type::CreateVolume), Effect::Change)
        .await
        .unwrap();
    assert_eq!(identities(&mut b).len(), 1);
}
