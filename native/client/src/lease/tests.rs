//! Leases against an OM of a few lines.

use std::sync::atomic::{AtomicUsize, Ordering};

use append_wire::om::renew_append_leases_response::Renewal;
use append_wire::om::{OmRequest, OmResponse, Status};

use super::*;
use crate::config::{Config, Settings};
use crate::status::from_wire;
use crate::testing::om::{FakeOm, Reply};

const LONG: Duration = Duration::from_secs(3600);

fn handle(session: u64) -> SessionHandle {
    SessionHandle {
        bucket: 1,
        session,
        file: 3,
    }
}

fn lease(session: u64) -> Arc<Lease> {
    Arc::new(Lease::new(handle(session), SHORTEST_PERIOD, LONG))
}

fn kind(lease: &Lease) -> Option<ErrorKind> {
    lease.check().err().map(|error| error.kind())
}

/// Answers renewals, each session by `code`.
fn renewed(request: &OmRequest, code: impl Fn(u64) -> AppendCode) -> Reply {
    let asked = request.renew_append_leases_request.as_ref().unwrap();
    let results = asked.sessions.iter().map(|handle| Renewal {
        handle: Some(*handle),
        code: Some(code(handle.session_id()).into()),
        ..Renewal::default()
    });
    Reply::Answer(Box::new(OmResponse {
        status: Status::Ok.into(),
        renew_append_leases_response: Some(Box::new(RenewAppendLeasesResponse {
            results: results.collect(),
        })),
        ..OmResponse::default()
    }))
}

async fn renewer(om: &FakeOm) -> Renewer {
    let config = Config::empty().with("ozone.client.wait.between.retries.millis", "10ms");
    let settings = Settings::read(&config).unwrap();
    let om = OmClient::connect(vec![om.node("")], "ann", &settings)
        .await
        .unwrap();
    Renewer::new(Arc::new(om))
}

#[test]
fn only_sessions_that_were_refused_end() {
    let leases = [lease(1), lease(2), lease(3), lease(4)];
    let codes = [
        AppendCode::Ok,
        AppendCode::Fenced,
        AppendCode::RetryLater,
        AppendCode::Invalidated,
    ];
    let results = leases.iter().zip(codes).map(|(lease, code)| Renewal {
        handle: Some(from_wire::to_handle(lease.handle)),
        code: Some(code.into()),
        ..Renewal::default()
    });
    note(
        &leases,
        &RenewAppendLeasesResponse {
            results: results.collect(),
        },
    );
    let kinds = leases.map(|lease| kind(&lease));
    assert_eq!(
        kinds,
        [
            None,
            Some(ErrorKind::StaleSession),
            None,
            Some(ErrorKind::NotFound)
        ]
    );
}

#[test]
fn an_answer_about_another_session_is_not_believed() {
    let leases = [lease(1)];
    let result = Renewal {
        handle: Some(from_wire::to_handle(handle(9))),
        code: Some(AppendCode::SessionUnknown.into()),
        ..Renewal::default()
    };
    note(
        &leases,
        &RenewAppendLeasesResponse {
            results: vec![result],
        },
    );
    leases[0].check().unwrap();
}

#[test]
fn the_first_reason_of_an_end_stays() {
    let lease = lease(7);
    lease.end(ErrorKind::StaleSession, "fenced");
    lease.end(ErrorKind::NotFound, "deleted");
    let error = lease.check().unwrap_err();
    assert_eq!(
        (error.kind(), error.session()),
        (ErrorKind::StaleSession, Some(7))
    );
}

#[test]
fn jitter_only_shortens_and_by_a_quarter_at_most() {
    let period = Duration::from_secs(15);
    for _ in 0..1000 {
        let next = jittered(period);
        assert!(next <= period && next >= period * 3 / 4, "{next:?}");
    }
}

#[tokio::test]
async fn many_sessions_are_renewed_in_bounded_batches() {
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let mut om = {
        let (largest, seen) = (Arc::clone(&largest), Arc::clone(&seen));
        FakeOm::start(move |request| {
            let asked = &request
                .renew_append_leases_request
                .as_ref()
                .unwrap()
                .sessions;
            largest.fetch_max(asked.len(), Ordering::SeqCst);
            let mut seen = seen.lock().unwrap();
            seen.extend(asked.iter().map(append_wire::om::AppendHandle::session_id));
            renewed(request, |session| {
                if session == 77 {
                    AppendCode::Fenced
                } else {
                    AppendCode::Ok
                }
            })
        })
        .await
    };
    let renewer = renewer(&om).await;
    let limit = Some(Duration::from_secs(2));
    let leases: Vec<_> = (0..1000)
        .map(|session| renewer.keep(handle(session), limit).unwrap())
        .collect();
    let mut requests = 0;
    while seen.lock().unwrap().len() < 1000 {
        om.next().await;
        requests += 1;
    }
    assert!(largest.load(Ordering::SeqCst) <= 100);
    // Those that come due together go together: far fewer requests than sessions.
    assert!(requests <= 100, "{requests} requests for 1000 sessions");
    // The refusal is in an answer that the test may have been told of before the renewer was.
    while leases[77].check().is_ok() {
        om.next().await;
    }
    for (session, lease) in leases.iter().enumerate() {
        assert_eq!(lease.check().is_err(), session == 77, "{session}");
    }
    assert!(!renewer.holds(77) && renewer.holds(78));
}

#[tokio::test]
async fn a_stream_that_heard_nothing_for_a_lease_asks_before_it_goes_on() {
    let asked = Arc::new(AtomicUsize::new(0));
    let om = {
        let asked = Arc::clone(&asked);
        FakeOm::start(move |request| {
            asked.fetch_add(1, Ordering::SeqCst);
            renewed(request, |_| AppendCode::Fenced)
        })
        .await
    };
    let renewer = renewer(&om).await;
    let lease = renewer.keep(handle(5), Some(LONG)).unwrap();
    renewer.make_sure(&lease).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // As if the process had been stopped for longer than the lease.
    let stopped = Arc::new(Lease {
        trusted: Duration::ZERO,
        ..Lease::new(handle(5), LONG, LONG)
    });
    let error = renewer.make_sure(&stopped).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StaleSession, "{error}");
    assert!(error.to_string().contains("file 3"), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_ends_nobody() {
    let om = FakeOm::start(|_| Reply::Close).await;
    let renewer = renewer(&om).await;
    let lease = Arc::new(Lease {
        trusted: Duration::ZERO,
        ..Lease::new(handle(5), SHORTEST_PERIOD, LONG)
    });
    renewer.make_sure(&lease).await.unwrap();
}

#[tokio::test]
async fn a_lost_session_is_ours_no_more_and_taken_over_once() {
    let om = FakeOm::start(|request| renewed(request, |_| AppendCode::Ok)).await;
    let renewer = renewer(&om).await;
    let lease = renewer.keep(handle(5), Some(LONG)).unwrap();
    assert!(renewer.holds(5) && !renewer.take_lost(5));
    lease.closing();
    assert!(!renewer.holds(5) && !renewer.take_lost(5));
    renewer.lose(5);
    assert!(!renewer.holds(5));
    assert!(renewer.take_lost(5));
    assert!(!renewer.take_lost(5));
}

#[tokio::test]
async fn renewals_follow_the_leader_and_pass_one_that_hangs() {
    let hung = FakeOm::start(|_| Reply::Nothing).await;
    let follower = FakeOm::start(|_| {
        let text = "OM:om2 is not the leader. Suggested leader is OM:om3[10.9.9.9:1].";
        Reply::Exception("OMNotLeaderException", text.to_owned())
    })
    .await;
    let mut leader = FakeOm::start(|request| renewed(request, |_| AppendCode::Ok)).await;
    let config = Config::empty().with("libappend.om.attempt.timeout", "50ms");
    let settings = Settings::read(&config).unwrap();
    let nodes = vec![hung.node("om1"), follower.node("om2"), leader.node("om3")];
    let om = OmClient::connect(nodes, "ann", &settings).await.unwrap();
    let renewer = Renewer::new(Arc::new(om));
    let lease = renewer
        .keep(handle(5), Some(Duration::from_secs(2)))
        .unwrap();
    for _ in 0..3 {
        leader.next().await;
    }
    lease.check().unwrap();
    assert!(renewer.holds(5));
}
