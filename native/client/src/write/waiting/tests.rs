//! Appends that meet another session, against an OM and a datanode in memory.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use append_wire::hdds::{BlockId, ContainerBlockId};
use append_wire::om::{
    AppendCode, AppendErrorInfo, AppendFileResponse, AppendHandle, AppendPhase, AppendStatus,
    CommitKeyRequest, GetKeyInfoResponse, KeyInfo, KeyLocation, KeyLocationList, OmRequest,
    OmResponse, RecoverLeaseResponse, Status, Type, WriterKind,
};

use crate::testing::datanode::{FakeBlock, FakeDatanode};
use crate::testing::om::{FakeOm, Reply, ok};
use crate::wait::CancelToken;
use crate::{Config, ErrorKind, FileSystem, Retry, blocking};

const FILE: &str = "/vol/bucket/file";
const PUBLISHED: u64 = 100;
const OURS: u64 = 77;
const THEIRS: u64 = 66;

/// The rules of an OM that matter to who waits.
struct Rules {
    /// The session in the way.
    owner: Option<AppendStatus>,
    /// Looks after which the owner renews once more.
    renews_at: Option<usize>,
    /// Looks after which the owner is gone.
    ends_at: Option<usize>,
    /// Looks after which its lease is over.
    over_at: Option<usize>,
    looks: usize,
    /// What was asked, in order.
    asked: Vec<Type>,
    invocations: Vec<Vec<u8>>,
    appends_only: Vec<bool>,
    blocks: Vec<KeyLocation>,
    recovered: Option<CommitKeyRequest>,
    /// Length that the file may have at most.
    quota: Option<u64>,
    /// Closes are carried out, and their answers lost.
    unheard: bool,
}

fn handle(session: u64) -> AppendHandle {
    AppendHandle {
        bucket_object_id: Some(1),
        session_id: Some(session),
        file_object_id: Some(3),
    }
}

fn owner(session: u64, remaining_ms: u64) -> AppendStatus {
    AppendStatus {
        writer_kind: Some(WriterKind::Append.into()),
        handle: Some(handle(session)),
        phase: Some(AppendPhase::Active.into()),
        remaining_ms: Some(remaining_ms),
        renewals: Some(5),
        owner: Some("bob".to_owned()),
        ..AppendStatus::default()
    }
}

fn answer(response: OmResponse) -> Reply {
    Reply::Answer(Box::new(OmResponse {
        status: Status::Ok.into(),
        ..response
    }))
}

fn refusal(status: Status, code: AppendCode, conflict: AppendStatus) -> Reply {
    Reply::Answer(Box::new(OmResponse {
        status: status.into(),
        append_error: Some(Box::new(AppendErrorInfo {
            code: Some(code.into()),
            conflict: Some(conflict),
            detail: Some("held".to_owned()),
        })),
        ..OmResponse::default()
    }))
}

impl Rules {
    fn new(owner: Option<AppendStatus>) -> Rules {
        Rules {
            owner,
            renews_at: None,
            ends_at: None,
            over_at: None,
            looks: 0,
            asked: Vec::new(),
            invocations: Vec::new(),
            appends_only: Vec::new(),
            blocks: Vec::new(),
            recovered: None,
            quota: None,
            unheard: false,
        }
    }

    fn look(&mut self) {
        self.looks += 1;
        if self.ends_at.is_some_and(|at| self.looks >= at) {
            self.owner = None;
        }
        let Some(owner) = &mut self.owner else { return };
        if self.renews_at == Some(self.looks) {
            owner.renewals = Some(owner.renewals() + 1);
        }
        if self.over_at.is_some_and(|at| self.looks >= at) {
            owner.remaining_ms = Some(0);
        }
    }

    fn serve(&mut self, request: &OmRequest) -> Reply {
        self.asked.push(request.cmd_type());
        match request.cmd_type() {
            Type::AppendFile => {
                let id = request.invocation_id.clone().unwrap();
                self.invocations.push(id.to_vec());
                if let Some(owner) = &self.owner {
                    return match (owner.writer_kind(), owner.phase()) {
                        (WriterKind::Append, AppendPhase::Recovering) => refusal(
                            Status::KeyUnderLeaseRecovery,
                            AppendCode::Recovering,
                            owner.clone(),
                        ),
                        (WriterKind::Append, _) => refusal(
                            Status::KeyUnderLeaseSoftLimitPeriod,
                            AppendCode::ConflictAppend,
                            owner.clone(),
                        ),
                        _ => refusal(
                            Status::InvalidRequest,
                            AppendCode::ConflictOrdinary,
                            owner.clone(),
                        ),
                    };
                }
                self.owner = Some(owner(OURS, 3_600_000));
                answer(OmResponse {
                    append_file_response: Some(Box::new(AppendFileResponse {
                        key_info: Some(KeyInfo::default()),
                        handle: Some(handle(OURS)),
                        prefix_length: Some(PUBLISHED),
                        published_length: Some(PUBLISHED),
                        soft_limit_ms: Some(3_600_000),
                        ..AppendFileResponse::default()
                    })),
                    ..OmResponse::default()
                })
            }
            Type::GetKeyInfo => {
                self.look();
                answer(OmResponse {
                    get_key_info_response: Some(Box::new(GetKeyInfoResponse {
                        append_status: self.owner.clone(),
                        ..GetKeyInfoResponse::default()
                    })),
                    ..OmResponse::default()
                })
            }
            Type::RecoverLease => {
                let asked = request.recover_lease_request.as_ref().unwrap();
                self.appends_only.push(asked.append_only());
                let Some(owner) = &mut self.owner else {
                    return Reply::Answer(Box::new(OmResponse {
                        status: Status::KeyAlreadyClosed.into(),
                        ..OmResponse::default()
                    }));
                };
                let own = owner.handle.is_some_and(|h| h.session_id() == OURS);
                if owner.remaining_ms() > 0 && !own {
                    return refusal(
                        Status::KeyUnderLeaseSoftLimitPeriod,
                        AppendCode::NotEligible,
                        owner.clone(),
                    );
                }
                owner.phase = Some(AppendPhase::Recovering.into());
                answer(OmResponse {
                    recover_lease_response: Some(Box::new(RecoverLeaseResponse {
                        open_key_info: Some(KeyInfo {
                            data_size: PUBLISHED,
                            key_location_list: vec![KeyLocationList {
                                key_locations: self.blocks.clone(),
                                ..KeyLocationList::default()
                            }],
                            ..KeyInfo::default()
                        }),
                        append_handle: owner.handle,
                        append_status: Some(owner.clone()),
                        ..RecoverLeaseResponse::default()
                    })),
                    ..OmResponse::default()
                })
            }
            Type::CommitKey => {
                let commit = request.commit_key_request.as_ref().unwrap();
                if commit.recovery() {
                    let length = commit.key_args.data_size();
                    if self.quota.is_some_and(|quota| length > quota) {
                        return Reply::Answer(Box::new(OmResponse {
                            status: Status::QuotaExceeded.into(),
                            ..OmResponse::default()
                        }));
                    }
                    self.recovered = Some((**commit).clone());
                    self.owner = None;
                    return ok();
                }
                if self.unheard {
                    return Reply::Nothing;
                }
                self.owner = None;
                ok()
            }
            _ => ok(),
        }
    }
}

struct World {
    rules: Arc<Mutex<Rules>>,
    fs: FileSystem,
    _om: FakeOm,
}

async fn world_with(rules: Rules, config: Config) -> World {
    let rules = Arc::new(Mutex::new(rules));
    let om = {
        let rules = Arc::clone(&rules);
        FakeOm::start(move |request| rules.lock().unwrap().serve(request)).await
    };
    let fs = FileSystem::connect(&om.address(), config).await.unwrap();
    World { rules, fs, _om: om }
}

fn config() -> Config {
    Config::empty()
        .with_user("ann")
        .with("ozone.client.wait.between.retries.millis", "10ms")
        .with("libappend.call.timeout", "300ms")
        .with("libappend.outcome.timeout", "500ms")
}

async fn world(rules: Rules) -> World {
    world_with(rules, config()).await
}

impl World {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap()
    }

    fn count(&self, kind: Type) -> usize {
        self.rules()
            .asked
            .iter()
            .filter(|asked| **asked == kind)
            .count()
    }
}

/// A block of the dead writer as the server names it, and as its datanode has it.
fn block(
    node: &FakeDatanode,
    local: i64,
    published: u64,
    start: u64,
    length: usize,
) -> KeyLocation {
    let block = FakeBlock {
        data: vec![7; length],
        committed: u64::try_from(length).unwrap(),
        metadata: [("appendStart".to_owned(), start.to_string())].into(),
        ..FakeBlock::default()
    };
    if length > 0 {
        node.state().blocks.insert(local, block);
    }
    KeyLocation {
        block_id: BlockId {
            container_block_id: ContainerBlockId {
                container_id: 1,
                local_id: local,
            },
            ..BlockId::default()
        },
        length: published,
        pipeline: Some(node.pipeline()),
        ..KeyLocation::default()
    }
}

#[tokio::test]
async fn an_owner_that_renews_is_alive_and_the_wait_ends_early() {
    let mut rules = Rules::new(Some(owner(THEIRS, 3_600_000)));
    rules.renews_at = Some(3);
    let world = world(rules).await;
    let error = world.fs.append(FILE).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.text().contains("alive"), "{error}");
    let conflict = error.conflict().unwrap();
    assert_eq!(conflict.handle.unwrap().session, THEIRS);
    assert_eq!(conflict.renewals, 6);
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(3600)));
    // Nothing was written while it waited.
    assert_eq!(world.count(Type::AppendFile), 1);
    assert_eq!(world.count(Type::GetKeyInfo), 3);
    assert_eq!(world.rules().asked.len(), 4);
}

#[tokio::test]
async fn an_owner_that_closes_is_followed_by_an_admission_of_its_own() {
    let mut rules = Rules::new(Some(owner(THEIRS, 3_600_000)));
    rules.ends_at = Some(2);
    let world = world(rules).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    assert_eq!(stream.session().unwrap().session, OURS);
    let ids: HashSet<_> = world.rules().invocations.iter().cloned().collect();
    assert_eq!((world.count(Type::AppendFile), ids.len()), (2, 2));
    assert_eq!(world.count(Type::RecoverLease), 0);
    stream.close().await.unwrap();
}

#[tokio::test]
async fn a_dead_owners_file_is_recovered_when_its_lease_is_over() {
    let node = FakeDatanode::start(0).await;
    let mut rules = Rules::new(Some(owner(THEIRS, 3_600_000)));
    rules.over_at = Some(2);
    rules.blocks = vec![
        // Published with 10 bytes and grown to 25; cut where the next begins.
        block(&node, 1, 10, PUBLISHED - 10, 25),
        block(&node, 2, 0, 0, 0),
        block(&node, 3, 0, PUBLISHED + 11, 4),
        // Behind a hole.
        block(&node, 4, 0, PUBLISHED + 16, 4),
    ];
    let world = world(rules).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    stream.close().await.unwrap();
    let recovered = world.rules().recovered.clone().unwrap();
    assert_eq!(recovered.append_handle, Some(handle(THEIRS)));
    assert_eq!(recovered.key_args.data_size, Some(PUBLISHED + 15));
    let kept: Vec<_> = recovered
        .key_args
        .key_locations
        .iter()
        .map(|l| (l.block_id.container_block_id.local_id, l.length))
        .collect();
    assert_eq!(kept, [(1, 21), (3, 4)]);
    assert_eq!(world.rules().appends_only, [true]);
    assert!(node.state().blocks.values().all(|block| block.finalized));
}

#[tokio::test]
async fn fault_04_a_recovery_that_another_left_is_gone_on_with() {
    let mut left = owner(THEIRS, 0);
    left.phase = Some(AppendPhase::Recovering.into());
    let world = world(Rules::new(Some(left))).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    stream.close().await.unwrap();
    assert_eq!(world.count(Type::RecoverLease), 1);
    assert!(world.rules().recovered.is_some());
}

#[tokio::test]
async fn fault_04_expiry_says_which_of_the_two_it_was() {
    let deadline = |ms| Instant::now() + Duration::from_millis(ms);
    let held = world(Rules::new(Some(owner(THEIRS, 3_600_000)))).await;
    let append = held.fs.append(FILE).deadline(deadline(400));
    let error = append.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.text().contains("still owned"), "{error}");
    assert!(held.rules().recovered.is_none());

    let node = FakeDatanode::start(0).await;
    let mut rules = Rules::new(Some(owner(THEIRS, 0)));
    rules.blocks = vec![block(&node, 1, 0, PUBLISHED, 5)];
    node.state().down = true;
    let stuck = world(rules).await;
    let append = stuck.fs.append(FILE).deadline(deadline(800));
    let error = append.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recovering, "{error}");
    assert!(error.text().contains("did not finish"), "{error}");
    assert!(error.text().contains("datanode"), "{error}");
    // A datanode that is not reached has not said that the block is not there.
    assert!(stuck.rules().recovered.is_none());
    // Whoever comes later goes on.
    node.state().down = false;
    let stream = stuck.fs.append(FILE).open().await.unwrap();
    let recovered = stuck.rules().recovered.clone().unwrap();
    assert_eq!(recovered.key_args.data_size, Some(PUBLISHED + 5));
    stream.close().await.unwrap();
}

#[tokio::test]
async fn the_whole_wait_is_the_first_remaining_time_and_the_budget() {
    let rules = Rules::new(Some(owner(THEIRS, 200)));
    let config = config().with("libappend.recovery.budget", "300ms");
    let world = world_with(rules, config).await;
    let before = Instant::now();
    let error = world.fs.append(FILE).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(before.elapsed() >= Duration::from_millis(500));
}

/// A person may fence a writer long before its lease is over. Ends within the test's patience, or waits for an hour.
#[tokio::test]
async fn a_fenced_owner_is_given_no_time_of_its_lease() {
    let node = FakeDatanode::start(0).await;
    let mut fenced = owner(THEIRS, 3_600_000);
    fenced.phase = Some(AppendPhase::Recovering.into());
    let mut rules = Rules::new(Some(fenced));
    rules.blocks = vec![block(&node, 1, 0, PUBLISHED, 5)];
    node.state().down = true;
    let config = config().with("libappend.recovery.budget", "300ms");
    let world = world_with(rules, config).await;
    let error = world.fs.append(FILE).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recovering, "{error}");
}

#[tokio::test]
async fn an_operator_may_go_on_without_a_datanode_and_keeps_what_was_published() {
    let node = FakeDatanode::start(0).await;
    let mut rules = Rules::new(Some(owner(THEIRS, 0)));
    rules.blocks = vec![
        block(&node, 1, 10, PUBLISHED - 10, 25),
        block(&node, 2, 0, PUBLISHED + 15, 5),
    ];
    node.state().down = true;
    let world = world(rules).await;
    let error = world.fs.recover_lease(FILE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recovering, "{error}");
    let options = crate::RecoverOptions {
        without_unreachable: true,
        ..crate::RecoverOptions::default()
    };
    assert!(world.fs.recover_lease_with(FILE, &options).await.unwrap());
    let recovered = world.rules().recovered.clone().unwrap();
    assert_eq!(recovered.key_args.data_size, Some(PUBLISHED));
    assert_eq!(recovered.key_args.key_locations.len(), 1);
    assert_eq!(recovered.key_args.key_locations[0].length, 10);
}

#[tokio::test]
async fn fault_06_a_quota_that_is_used_up_does_not_keep_a_dead_owners_file() {
    let node = FakeDatanode::start(0).await;
    let mut rules = Rules::new(Some(owner(THEIRS, 0)));
    rules.blocks = vec![
        block(&node, 1, 10, PUBLISHED - 10, 25),
        block(&node, 2, 0, PUBLISHED + 15, 5),
    ];
    rules.quota = Some(PUBLISHED + 3);
    let world = world(rules).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    stream.close().await.unwrap();
    let recovered = world.rules().recovered.clone().unwrap();
    assert_eq!(recovered.key_args.data_size, Some(PUBLISHED));
    assert_eq!(recovered.key_args.key_locations.len(), 1);
    assert_eq!(recovered.key_args.key_locations[0].length, 10);
}

#[tokio::test]
async fn a_quota_below_what_is_published_is_told_and_nothing_is_given_up() {
    let mut rules = Rules::new(Some(owner(THEIRS, 0)));
    rules.quota = Some(PUBLISHED - 1);
    let world = world(rules).await;
    let error = world.fs.recover_lease(FILE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
    assert!(world.rules().recovered.is_none());
}

#[tokio::test]
async fn recovering_a_closed_file_is_done_and_a_live_owners_is_refused() {
    let closed = world(Rules::new(None)).await;
    assert!(closed.fs.recover_lease(FILE).await.unwrap());
    let live = world(Rules::new(Some(owner(THEIRS, 4000)))).await;
    let error = live.fs.recover_lease(FILE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.retry(), Retry::After(Duration::from_millis(4000)));
    assert_eq!(error.operation(), Some("recover lease"));
}

#[tokio::test]
async fn fault_01_a_stream_of_our_own_is_no_reason_to_wait() {
    let world = world(Rules::new(None)).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    let error = world.fs.append(FILE).open().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry()),
        (ErrorKind::Conflict, Retry::Never)
    );
    assert!(error.text().contains("this client"), "{error}");
    assert_eq!(world.count(Type::GetKeyInfo), 0);
    stream.close().await.unwrap();
    world.fs.append(FILE).open().await.unwrap();
}

#[tokio::test]
async fn fault_07_a_stream_that_was_lost_does_not_lock_its_client_out() {
    let world = world(Rules::new(None)).await;
    let stream = world.fs.append(FILE).open().await.unwrap();
    world.rules().unheard = true;
    let error = stream.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    // Closed for good: nothing is sent again.
    let sent = world.rules().asked.len();
    stream.close().await.unwrap();
    assert_eq!(stream.hsync().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        stream.write(b"x").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(world.rules().asked.len(), sent);
    // The session stands, with an hour of its lease left; it is ours, so it is recovered at once.
    let again = world.fs.append(FILE).open().await.unwrap();
    assert_eq!(world.count(Type::RecoverLease), 1);
    world.rules().unheard = false;
    again.close().await.unwrap();
}

#[tokio::test]
async fn ordinary_writers_are_not_waited_for() {
    let mut ordinary = owner(THEIRS, 0);
    ordinary.writer_kind = Some(WriterKind::Ordinary.into());
    let world = world(Rules::new(Some(ordinary))).await;
    let error = world.fs.append(FILE).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(world.rules().asked, [Type::AppendFile]);
}

#[test]
fn a_wait_is_cancelled_interrupted_or_ends_at_the_callers_deadline() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(world(Rules::new(Some(owner(THEIRS, 3_600_000)))));
    let fs = blocking::FileSystem::from(world.fs.clone());
    let append = |wait: &blocking::Wait<'_>| {
        fs.append(FILE, &blocking::AppendOptions::default(), wait)
            .unwrap_err()
    };
    let token = CancelToken::new();
    let error = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| append(&blocking::Wait::until(&token)));
        while world.rules().looks == 0 {
            std::thread::yield_now();
        }
        token.cancel();
        waiter.join().unwrap()
    });
    assert_eq!(error.kind(), ErrorKind::Cancelled);

    let interrupted = || world.rules().looks >= 3;
    let wait = blocking::Wait::unbounded().or_interrupted(&interrupted);
    assert_eq!(append(&wait).kind(), ErrorKind::Cancelled);

    let error = append(&blocking::Wait::at_most(Duration::from_millis(300)));
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.text().contains("still owned"), "{error}");
}
