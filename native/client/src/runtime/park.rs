//! What a blocked caller does while it waits: it watches its own sockets, so that the thread that wants an answer is the thread that the
//! system wakes for it, with nobody in between.
//!
//! A future that runs here registers a socket or a deadline with a [`Place`]; elsewhere the shared runtime watches for it. A future may
//! move from a blocked caller to the runtime between two polls. Knows no protocol.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::io::Interest;
use tokio::time::Sleep;

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::wait::Wait;

/// How often a caller's interrupt is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Nobody woke the thread since it last looked.
const QUIET: u8 = 0;
/// It was woken.
const WOKEN: u8 = 1;
/// It waits, and only the event ends that.
const WAITING: u8 = 2;

thread_local! {
    static CALLER: RefCell<Option<Arc<Caller>>> = const { RefCell::new(None) };
    /// Calls of this thread that wait, one within the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A thread that blocks.
#[derive(Debug)]
struct Caller {
    state: AtomicU8,
    event: OwnedFd,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    next: u64,
    all: Vec<Registered>,
}

#[derive(Debug)]
struct Registered {
    key: u64,
    socket: Option<(Arc<TcpStream>, PollFlags)>,
    deadline: Option<Instant>,
    waker: Waker,
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == WAITING {
            // Fails only when the counter is full, and then the thread is being woken already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

impl Caller {
    fn new() -> io::Result<Caller> {
        Ok(Caller {
            state: AtomicU8::new(QUIET),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            waits: Mutex::default(),
        })
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until it is woken, something that is registered comes, or `until`. May end early.
    fn sleep(&self, until: Option<Instant>) -> io::Result<()> {
        let (sockets, first) = {
            let waits = self.waits();
            let sockets: Vec<_> = waits
                .all
                .iter()
                .filter_map(|wait| {
                    wait.socket
                        .as_ref()
                        .map(|socket| (wait.key, socket.clone()))
                })
                .collect();
            let first = waits.all.iter().filter_map(|wait| wait.deadline).min();
            (sockets, first)
        };
        let end = [until, first].into_iter().flatten().min();
        let mut fds = Vec::with_capacity(1 + sockets.len());
        fds.push(PollFd::new(&self.event, PollFlags::IN));
        fds.extend(
            sockets
                .iter()
                .map(|(_, (socket, flags))| PollFd::new(&**socket, *flags)),
        );
        if self
            .state
            .compare_exchange(QUIET, WAITING, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Ok(());
        }
        let polled = poll(&mut fds, end.map(time_until).as_ref());
        self.state.swap(QUIET, Ordering::AcqRel);
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if polled.is_ok() && fds.first().is_some_and(|event| !event.revents().is_empty()) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.event, &mut count);
        }
        let came: Vec<u64> = sockets
            .iter()
            .zip(fds.iter().skip(1))
            .filter(|(_, fd)| polled.is_ok() && !fd.revents().is_empty())
            .map(|((key, _), _)| *key)
            .collect();
        self.fire(&came);
        Ok(())
    }

    /// Wakes whoever registered what came, or a deadline that passed.
    fn fire(&self, came: &[u64]) {
        let now = Instant::now();
        let mut due = Vec::new();
        self.waits().all.retain_mut(|wait| {
            let over =
                came.contains(&wait.key) || wait.deadline.is_some_and(|deadline| deadline <= now);
            if over {
                due.push(wait.waker.clone());
            }
            !over
        });
        for waker in due {
            waker.wake();
        }
    }
}

fn time_until(end: Instant) -> Timespec {
    let left = end.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    }
}

/// Marks the thread as one that waits in [`drive`].
struct Entered(Arc<Caller>);

impl Entered {
    fn new() -> Result<Entered> {
        let caller = CALLER.with_borrow_mut(|caller| match caller {
            Some(caller) => Ok(Arc::clone(caller)),
            None => {
                let made = Arc::new(Caller::new()?);
                *caller = Some(Arc::clone(&made));
                Ok(made)
            }
        });
        let caller =
            caller.map_err(|e: io::Error| Error::new(ErrorKind::Io, format!("waiting: {e}")))?;
        DEPTH.set(DEPTH.get() + 1);
        Ok(Entered(caller))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let depth = DEPTH.get().saturating_sub(1);
        DEPTH.set(depth);
        if depth > 0 {
            // The call around this one may have been woken meanwhile.
            self.0.wake_by_ref();
        }
    }
}

/// Whether the code that asks is driven by a thread that waits for it.
pub(crate) fn is_here() -> bool {
    DEPTH.get() > 0
}

/// Drives a future on the calling thread until it is done or the wait ends. The shared runtime must be entered.
pub(crate) fn drive<T>(wait: &Wait<'_>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let entered = Entered::new()?;
    let caller = &entered.0;
    let waker = Waker::from(Arc::clone(caller));
    let mut cx = Context::from_waker(&waker);
    let mut work = pin!(work);
    let mut cancelled = pin!(async {
        match wait.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    });
    let mut look = wait.interrupted.map(|_| Instant::now() + LOOK);
    loop {
        // What wakes from here on is not seen by this look; what woke before is, whatever it had written. A plain store may stand behind
        // the look's own loads, and would then wipe out a wake-up whose reason the look has missed.
        caller.state.swap(QUIET, Ordering::AcqRel);
        if let Poll::Ready(result) = work.as_mut().poll(&mut cx) {
            return result;
        }
        if cancelled.as_mut().poll(&mut cx).is_ready() {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled by the caller"));
        }
        let now = Instant::now();
        if wait.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Error::new(
                ErrorKind::Timeout,
                "the caller's deadline passed",
            ));
        }
        if let Some(interrupted) = wait.interrupted
            && look.is_some_and(|look| now >= look)
        {
            if interrupted() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "interrupted by the caller",
                ));
            }
            look = Some(now + LOOK);
        }
        let until = [wait.deadline, look].into_iter().flatten().min();
        caller
            .sleep(until)
            .map_err(|e| Error::new(ErrorKind::Io, format!("waiting: {e}")))?;
    }
}

/// What a future waits for on a blocked caller's thread. Dropping it ends that.
#[derive(Debug, Default)]
struct Place(Option<(Arc<Caller>, u64)>);

impl Place {
    /// Waits here for a socket, a deadline, or both; false if no caller blocks on this thread.
    fn wait(
        &mut self,
        cx: &Context<'_>,
        socket: Option<(&Arc<TcpStream>, PollFlags)>,
        deadline: Option<Instant>,
    ) -> bool {
        self.leave();
        if !is_here() {
            return false;
        }
        let Some(caller) = CALLER.with_borrow(Clone::clone) else {
            return false;
        };
        let key = {
            let mut waits = caller.waits();
            waits.next += 1;
            let key = waits.next;
            waits.all.push(Registered {
                key,
                socket: socket.map(|(socket, flags)| (Arc::clone(socket), flags)),
                deadline,
                waker: cx.waker().clone(),
            });
            key
        };
        self.0 = Some((caller, key));
        true
    }

    fn leave(&mut self) {
        if let Some((caller, key)) = self.0.take() {
            caller.waits().all.retain(|wait| wait.key != key);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// Waits for one socket that does not block, wherever the future that owns this runs.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    place: Place,
    in_runtime: Option<tokio::net::TcpStream>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Does `io` as soon as it does not say that it would block; fails with `TimedOut` at `deadline`.
    pub(crate) fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Arc<TcpStream>,
        way: Way,
        deadline: Instant,
        mut io: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match io(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => {
                    self.place.leave();
                    return Poll::Ready(done);
                }
            }
            if Instant::now() >= deadline {
                self.place.leave();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let flags = match way {
                Way::In => PollFlags::IN,
                Way::Out => PollFlags::OUT,
            };
            if self.place.wait(cx, Some((socket, flags)), Some(deadline)) {
                // Else the runtime, too, would be woken for each answer.
                self.in_runtime = None;
                self.sleep = None;
                return Poll::Pending;
            }
            return self.poll_runtime(cx, socket, way, deadline, io);
        }
    }

    fn poll_runtime<T>(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Arc<TcpStream>,
        way: Way,
        deadline: Instant,
        mut io: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let runtime = super::handle().map_err(io::Error::other)?;
        let _entered = runtime.enter();
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        if sleep.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let watched = match &mut self.in_runtime {
            Some(watched) => watched,
            none => none.insert(tokio::net::TcpStream::from_std(socket.try_clone()?)?),
        };
        loop {
            let interest = match way {
                Way::In => {
                    ready!(watched.poll_read_ready(cx))?;
                    Interest::READABLE
                }
                Way::Out => {
                    ready!(watched.poll_write_ready(cx))?;
                    Interest::WRITABLE
                }
            };
            match watched.try_io(interest, || io(socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    self.sleep = None;
                    return Poll::Ready(done);
                }
            }
        }
    }
}

/// Waits for `work` until `deadline`; nothing when that came first.
pub(crate) async fn until<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut place = Place::default();
    let mut sleep: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if Instant::now() >= deadline {
            return Poll::Ready(None);
        }
        if place.wait(cx, None, Some(deadline)) {
            return Poll::Pending;
        }
        let sleep =
            sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (Arc::new(near), listener.accept().unwrap().0)
    }

    async fn read_one(
        watch: &mut Watch,
        socket: &Arc<TcpStream>,
        deadline: Instant,
    ) -> io::Result<u8> {
        std::future::poll_fn(|cx| {
            watch.poll_io(cx, socket, Way::In, deadline, |mut socket| {
                let mut byte = [0];
                socket.read_exact(&mut byte)?;
                Ok(byte[0])
            })
        })
        .await
    }

    fn drive_here<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
        super::super::block_on(&Wait::unbounded(), work)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn wake_ups_from_other_threads_are_never_lost() {
        const TURNS: usize = 20_000;
        let turns = AtomicUsize::new(0);
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for waker in receiver {
                    turns.fetch_add(1, Ordering::AcqRel);
                    waker.wake();
                }
            });
            for turn in 1..=TURNS {
                let mut asked = false;
                drive_here(std::future::poll_fn(|cx| {
                    if turns.load(Ordering::Acquire) >= turn {
                        return Poll::Ready(Ok(()));
                    }
                    if !asked {
                        asked = true;
                        sender.send(cx.waker().clone()).unwrap();
                    }
                    Poll::Pending
                }))
                .unwrap();
            }
            drop(sender);
        });
    }

    #[test]
    fn a_wake_up_while_the_thread_begins_to_look_is_never_lost() {
        const TURNS: usize = 100_000;
        let (begun, turn) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let waker = drive_here(std::future::poll_fn(|cx| {
            Poll::Ready(Ok(cx.waker().clone()))
        }))
        .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for next in 1..=TURNS {
                    while begun.load(Ordering::Acquire) < next {
                        std::hint::spin_loop();
                    }
                    for _ in 0..next * 7 % 61 {
                        std::hint::spin_loop();
                    }
                    turn.store(next, Ordering::Release);
                    waker.wake_by_ref();
                }
            });
            for next in 1..=TURNS {
                let mut looks = next % 13;
                let looked = super::super::block_on(
                    &Wait::at_most(Duration::from_secs(60)),
                    std::future::poll_fn(|cx| {
                        // What is looked for is only loaded: nothing else orders the load behind the beginning of the look.
                        if turn.load(Ordering::Acquire) >= next {
                            return Poll::Ready(Ok(()));
                        }
                        if looks > 0 {
                            looks -= 1;
                            cx.waker().wake_by_ref();
                        }
                        begun.store(next, Ordering::Release);
                        Poll::Pending
                    }),
                );
                begun.store(next, Ordering::Release);
                looked.unwrap();
            }
        });
    }

    #[test]
    fn a_caller_reads_its_own_socket_and_a_worker_goes_on_where_it_stopped() {
        let (near, mut far) = pair();
        let mut watch = Watch::default();
        far.write_all(&[1]).unwrap();
        let one = drive_here(async { Ok(read_one(&mut watch, &near, later()).await) });
        assert_eq!(one.unwrap().unwrap(), 1);
        // Given up while it waits here.
        let given_up = super::super::block_on(&Wait::at_most(Duration::from_millis(1)), async {
            Ok(read_one(&mut watch, &near, later()).await)
        });
        assert_eq!(given_up.unwrap_err().kind(), ErrorKind::Timeout);
        // The same watch, driven by the runtime, and here again.
        let runtime = super::super::handle().unwrap();
        let socket = Arc::clone(&near);
        let moved = runtime.spawn(async move {
            let read = read_one(&mut watch, &socket, later()).await;
            (watch, read)
        });
        far.write_all(&[2]).unwrap();
        let (mut watch, two) = drive_here(async { Ok(moved.await.unwrap()) }).unwrap();
        assert_eq!(two.unwrap(), 2);
        let echo = std::thread::spawn(move || far.write_all(&[3]).map(|()| far));
        let three = drive_here(async { Ok(read_one(&mut watch, &near, later()).await) });
        assert_eq!(three.unwrap().unwrap(), 3);
        drop(echo.join().unwrap().unwrap());
        let end = drive_here(async { Ok(read_one(&mut watch, &near, later()).await) }).unwrap();
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_socket_that_says_nothing_times_out_here_and_in_the_runtime() {
        let (near, far) = pair();
        let soon = || Instant::now() + Duration::from_millis(2);
        let here = drive_here(async { Ok(read_one(&mut Watch::default(), &near, soon()).await) });
        assert_eq!(here.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        let runtime = super::super::handle().unwrap();
        let there =
            runtime.spawn(async move { read_one(&mut Watch::default(), &near, soon()).await });
        let there = drive_here(async { Ok(there.await.unwrap()) }).unwrap();
        assert_eq!(there.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[test]
    fn many_callers_of_many_sockets_each_get_their_own_answers() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (near, mut far) = pair();
                    let echo = std::thread::spawn(move || {
                        let mut byte = [0];
                        while far.read(&mut byte).unwrap() > 0 {
                            far.write_all(&byte).unwrap();
                        }
                    });
                    for turn in 0..500_u32 {
                        let sent = turn.to_le_bytes()[0];
                        (&*near).write_all(&[sent]).unwrap();
                        let mut watch = Watch::default();
                        let read =
                            drive_here(async { Ok(read_one(&mut watch, &near, later()).await) });
                        assert_eq!(read.unwrap().unwrap(), sent);
                    }
                    drop(near);
                    echo.join().unwrap();
                });
            }
        });
    }

    #[test]
    fn a_call_within_a_call_keeps_the_outer_ones_wake_ups() {
        let (near, mut far) = pair();
        far.write_all(&[7]).unwrap();
        let mut watch = Watch::default();
        let mut nested = false;
        let mut outer = pin!(read_one(&mut watch, &near, later()));
        let read = drive_here(std::future::poll_fn(|cx| {
            if !nested {
                nested = true;
                let within = super::super::block_on(
                    &Wait::at_most(Duration::from_millis(1)),
                    std::future::pending::<Result<()>>(),
                );
                assert_eq!(within.unwrap_err().kind(), ErrorKind::Timeout);
                return Poll::Pending;
            }
            outer.as_mut().poll(cx).map(Ok)
        }));
        assert_eq!(read.unwrap().unwrap(), 7);
    }

    #[test]
    fn until_gives_the_work_or_nothing() {
        let passed = drive_here(async {
            let soon = Instant::now() + Duration::from_millis(1);
            Ok(until(soon, std::future::pending::<()>()).await)
        });
        assert_eq!(passed.unwrap(), None);
        assert_eq!(
            drive_here(async { Ok(until(later(), async { 5 }).await) }).unwrap(),
            Some(5)
        );
    }
}
