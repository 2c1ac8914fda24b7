//! Connections of Hadoop RPC that one caller has to itself: a caller that blocks writes its call and reads its answer without another
//! thread in between. Few at once; who finds none uses the shared connection. Knows frames, no command and no retry.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use append_wire::hrpc::{
    CallIdentity, INVALID_CALL_ID, Outcome, SINGLE_CALLS, decode_response, encode_call, split_frame,
};
use append_wire::om::OmRequest;
use bytes::BytesMut;

use super::connection::{CallError, Opening, greeting, target};
use crate::runtime::park::{Watch, Way};

/// Connections to one server at once.
const MOST: usize = 16;

/// A connection that was not used for so long is closed: well before servers give up on it.
const LONGEST_IDLE: Duration = Duration::from_secs(20);

/// Bytes that one read takes at most.
const READ: usize = 16 << 10;

/// The direct connections to one server.
#[derive(Debug, Default)]
pub(super) struct Directs(Mutex<Pool>);

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Direct>,
    /// All that are open or being made.
    taken: usize,
    sockets: Vec<Weak<TcpStream>>,
    closed: bool,
}

/// What a caller gets.
pub(super) enum Place<'a> {
    /// A connection, to be made first if there is none.
    Free(Lent<'a>),
    /// Others have them all.
    None,
    /// The file system is closed.
    Closed,
}

/// A connection, or the right to make one, until this is dropped.
pub(super) struct Lent<'a> {
    pool: &'a Directs,
    direct: Option<Direct>,
}

impl Directs {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Place<'_> {
        loop {
            let mut pool = self.pool();
            if pool.closed {
                return Place::Closed;
            }
            if let Some(direct) = pool.idle.pop() {
                drop(pool);
                let lent = Lent {
                    pool: self,
                    direct: Some(direct),
                };
                if lent.direct.as_ref().is_some_and(Direct::is_usable) {
                    return Place::Free(lent);
                }
                // It ends with its place.
                drop(lent.discard());
                continue;
            }
            if pool.taken >= MOST {
                return Place::None;
            }
            pool.taken += 1;
            drop(pool);
            return Place::Free(Lent {
                pool: self,
                direct: None,
            });
        }
    }

    /// Closes all; calls under way fail.
    pub(super) fn close(&self) {
        let (idle, sockets) = {
            let mut pool = self.pool();
            pool.closed = true;
            (
                std::mem::take(&mut pool.idle),
                std::mem::take(&mut pool.sockets),
            )
        };
        drop(idle);
        for socket in sockets.iter().filter_map(Weak::upgrade) {
            // It is closed already, else.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Lent<'_> {
    pub(super) fn is_made(&self) -> bool {
        self.direct.is_some()
    }

    /// Takes a connection that was made for this place. Nothing when the file system was closed meanwhile.
    pub(super) fn made(&mut self, direct: Direct) -> Option<()> {
        let mut pool = self.pool.pool();
        if pool.closed {
            return None;
        }
        pool.sockets.retain(|socket| socket.strong_count() > 0);
        pool.sockets.push(Arc::downgrade(&direct.socket));
        drop(pool);
        self.direct = Some(direct);
        Some(())
    }

    fn discard(mut self) -> Option<Direct> {
        self.direct.take()
    }

    /// Makes a call and waits for its answer. A caller that stops waiting costs the connection.
    pub(super) async fn call(
        mut self,
        identity: CallIdentity,
        request: &OmRequest,
        deadline: Instant,
    ) -> Result<Outcome, CallError> {
        let Some(mut direct) = self.direct.take() else {
            return Err(CallError::NotSent("there is no connection".to_owned()));
        };
        let outcome = direct.call(identity, request, deadline).await?;
        if !matches!(outcome, Outcome::Fatal(_)) && direct.received.is_empty() {
            direct.used = Instant::now();
            self.direct = Some(direct);
        }
        Ok(outcome)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut pool = self.pool.pool();
        match self.direct.take() {
            Some(direct) if !pool.closed => pool.idle.push(direct),
            _ => pool.taken -= 1,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Direct {
    socket: Arc<TcpStream>,
    received: BytesMut,
    max_frame: usize,
    used: Instant,
}

impl Direct {
    /// Connects and introduces the caller. Must run on the shared runtime.
    pub(super) async fn open(host: &str, port: u16, opening: &Opening) -> Result<Direct, String> {
        let work = async {
            let mut stream = tokio::net::TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let out = greeting(opening, SINGLE_CALLS).map_err(io::Error::other)?;
            tokio::io::AsyncWriteExt::write_all(&mut stream, &out).await?;
            stream.into_std()
        };
        let socket = tokio::time::timeout(opening.connect_timeout, work)
            .await
            .map_err(|_| format!("no answer within {:?}", opening.connect_timeout))?
            .map_err(|e: io::Error| e.to_string())?;
        Ok(Direct {
            socket: Arc::new(socket),
            received: BytesMut::new(),
            max_frame: opening.max_frame,
            used: Instant::now(),
        })
    }

    /// Nothing was heard on it since the last answer: neither its end nor what nobody asked for.
    fn is_usable(&self) -> bool {
        if self.used.elapsed() >= LONGEST_IDLE {
            return false;
        }
        matches!(
            self.socket.peek(&mut [0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        )
    }

    async fn call(
        &mut self,
        identity: CallIdentity,
        request: &OmRequest,
        deadline: Instant,
    ) -> Result<Outcome, CallError> {
        let mut frame = BytesMut::new();
        encode_call(identity, &target(), request, self.max_frame, &mut frame)
            .map_err(|e| CallError::Unsendable(e.to_string()))?;
        let mut watch = Watch::default();
        let mut rest: &[u8] = &frame;
        while !rest.is_empty() {
            let written = std::future::poll_fn(|cx| {
                watch.poll_io(cx, &self.socket, Way::Out, deadline, |mut socket| {
                    socket.write(rest)
                })
            })
            .await;
            match written {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(e) if rest.len() == frame.len() => {
                    return Err(CallError::NotSent(format!("sending: {e}")));
                }
                Err(e) => return Err(CallError::Lost(format!("sending: {e}"))),
            }
        }
        self.answer(identity.call_id, &mut watch, deadline).await
    }

    async fn answer(
        &mut self,
        call_id: i32,
        watch: &mut Watch,
        deadline: Instant,
    ) -> Result<Outcome, CallError> {
        let malformed =
            |e: append_wire::hrpc::FrameError| CallError::Lost(format!("a malformed answer: {e}"));
        loop {
            if let Some(frame) =
                split_frame(&mut self.received, self.max_frame).map_err(malformed)?
            {
                let response = decode_response(frame).map_err(malformed)?;
                let fatal = matches!(response.outcome, Outcome::Fatal(_));
                if response.call_id == call_id || (fatal && response.call_id == INVALID_CALL_ID) {
                    return Ok(response.outcome);
                }
                return Err(CallError::Lost(format!(
                    "an answer to call {}, which nobody made",
                    response.call_id
                )));
            }
            let (socket, received) = (&self.socket, &mut self.received);
            let read = std::future::poll_fn(|cx| {
                watch.poll_io(cx, socket, Way::In, deadline, |mut socket| {
                    // Here and not outside, where it would make every future that calls this one as large.
                    let mut bytes = [0; READ];
                    let read = socket.read(&mut bytes)?;
                    received.extend_from_slice(bytes.get(..read).unwrap_or_default());
                    Ok(read)
                })
            })
            .await;
            match read {
                Ok(0) => {
                    return Err(CallError::Lost(
                        "the server closed the connection".to_owned(),
                    ));
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                    return Err(CallError::Lost("no answer in time".to_owned()));
                }
                Err(e) => return Err(CallError::Lost(format!("receiving: {e}"))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, OmClient};
    use crate::config::{Config, Settings};
    use crate::error::ErrorKind;
    use crate::runtime::block_on;
    use crate::testing::om::{FakeOm, Reply, ok};
    use crate::wait::Wait;
    use append_wire::om::Type;
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::Duration;

    async fn connect(fake: &FakeOm) -> Arc<OmClient> {
        let config = Config::empty().with("ozone.client.wait.between.retries.millis", "20ms");
        let settings = Settings::read(&config).unwrap();
        Arc::new(
            OmClient::connect(vec![fake.node("")], "ann", &settings)
                .await
                .unwrap(),
        )
    }

    fn change(om: &OmClient, wait: Wait<'_>) -> crate::Result<()> {
        let request = om.request(Type::CreateVolume);
        block_on(&wait, async {
            om.call(request, Effect::Change).await.map(drop)
        })
    }

    fn open_connections(om: &OmClient) -> usize {
        om.servers[0].directs().pool().taken
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_blocked_callers_get_their_answers_over_few_connections() {
        let mut fake = FakeOm::numbered(|_| ok()).await;
        let om = connect(&fake).await;
        let callers: Vec<_> = (0..40)
            .map(|_| {
                let om = Arc::clone(&om);
                std::thread::spawn(move || {
                    for _ in 0..25 {
                        change(&om, Wait::unbounded()).unwrap();
                    }
                })
            })
            .collect();
        let mut calls = HashSet::new();
        for _ in 0..1000 {
            assert!(calls.insert(fake.next().await.call.call_id));
        }
        for caller in callers {
            caller.join().unwrap();
        }
        let open = open_connections(&om);
        assert!((1..=super::MOST).contains(&open), "{open}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lost_connection_is_replaced_and_the_call_sent_again_with_its_identity() {
        let mut fake = FakeOm::numbered(|call| match call {
            1 => Reply::Close,
            3 => Reply::Garbage,
            _ => ok(),
        })
        .await;
        let om = connect(&fake).await;
        let caller = Arc::clone(&om);
        let calls = std::thread::spawn(move || {
            for _ in 0..4 {
                change(&caller, Wait::unbounded()).unwrap();
            }
        });
        let mut seen = Vec::new();
        for _ in 0..6 {
            let call = fake.next().await;
            seen.push((call.call.call_id, call.request.invocation_id));
        }
        calls.join().unwrap();
        assert_eq!(seen[1], seen[2]);
        assert_eq!(seen[3], seen[4]);
        assert_ne!(seen[4], seen[5]);
        assert_eq!(open_connections(&om), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_call_that_was_given_up_costs_its_connection_and_no_other_call() {
        let mut fake = FakeOm::numbered(|call| if call == 0 { Reply::Nothing } else { ok() }).await;
        let om = connect(&fake).await;
        let caller = Arc::clone(&om);
        let calls = std::thread::spawn(move || {
            let given_up = change(&caller, Wait::at_most(Duration::from_millis(50)));
            (given_up, change(&caller, Wait::unbounded()))
        });
        fake.next().await;
        fake.next().await;
        let (given_up, next) = calls.join().unwrap();
        assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Timeout);
        next.unwrap();
        assert_eq!(open_connections(&om), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn closing_ends_the_calls_that_wait() {
        let mut fake = FakeOm::numbered(|_| Reply::Nothing).await;
        let om = connect(&fake).await;
        let caller = Arc::clone(&om);
        let call = std::thread::spawn(move || change(&caller, Wait::unbounded()));
        fake.next().await;
        om.close().await;
        let error = call.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        let later = std::thread::spawn(move || change(&om, Wait::unbounded()));
        assert_eq!(later.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ozones_servers_see_one_connection() {
        let mut fake = FakeOm::with(false, |_| ok()).await;
        let om = connect(&fake).await;
        let caller = Arc::clone(&om);
        let call = std::thread::spawn(move || change(&caller, Wait::unbounded()));
        fake.next().await;
        call.join().unwrap().unwrap();
        assert_eq!(open_connections(&om), 0);
    }
}
