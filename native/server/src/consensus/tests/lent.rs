//! Proposers whose threads may log: the turn goes from one to the other and to the log thread, and no command is left behind.

use super::*;
use crate::consensus::lend_thread;

const EACH: usize = 150;

#[test]
fn lent_threads_log_by_themselves_and_every_command_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    std::thread::scope(|scope| {
        for thread in 0..12 {
            let consensus = &consensus;
            scope.spawn(move || {
                // Two of three.
                if thread % 3 > 0 {
                    lend_thread();
                }
                for at in 0..EACH {
                    let key = format!("{thread}-{at}");
                    propose(consensus, &key).unwrap().unwrap();
                    assert!(row(consensus, &key).is_some());
                }
            });
        }
    });
    let commands = u64::try_from(12 * EACH).unwrap();
    assert_eq!(consensus.position().command, commands);
    let before = dump(&consensus);
    consensus.shutdown();
    drop(consensus);
    let again = open(dir.path());
    assert_eq!(again.position().command, commands);
    assert_eq!(dump(&again), before);
}

#[test]
fn a_lent_thread_alone_needs_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lend_thread();
            for at in 0..50 {
                // The answer is there when the call returns: it was logged and applied here.
                let mut answer = consensus.propose(request(&format!("k{at}")));
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                let polled = answer.as_mut().poll(&mut cx);
                assert!(polled.is_ready(), "another thread was waited for");
            }
        });
    });
}

#[test]
fn a_fault_met_on_a_lent_thread_ends_the_node_as_anywhere() {
    let (told, reasons) = std::sync::mpsc::channel();
    let dir = tempfile::tempdir().unwrap();
    let told = Mutex::new(told);
    let consensus = LocalConsensus::open_with::<Tally>(
        dir.path(),
        Options {
            on_fatal: Arc::new(move |reason| {
                told.lock().unwrap().send(reason.to_owned()).unwrap();
            }),
            ..options()
        },
    )
    .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            lend_thread();
            propose(&consensus, "before").unwrap().unwrap();
            assert_eq!(
                propose(&consensus, "panic").unwrap_err(),
                ProposeError::OutcomeUnknown
            );
            assert_eq!(
                propose(&consensus, "after").unwrap_err(),
                ProposeError::Stopped
            );
        });
    });
    assert!(reasons.recv().unwrap().contains("panicked"));
    consensus.shutdown();
}

#[test]
fn a_shutdown_waits_for_the_turn_of_a_lent_thread() {
    let dir = tempfile::tempdir().unwrap();
    let consensus = open(dir.path());
    let mut answered = 0;
    std::thread::scope(|scope| {
        let proposer = scope.spawn(|| {
            lend_thread();
            let mut answered = 0_u64;
            while propose(&consensus, &format!("k{answered}")).is_ok() {
                answered += 1;
            }
            answered
        });
        wait_until(|| consensus.position().command > 20);
        consensus.shutdown();
        answered = proposer.join().unwrap();
    });
    assert_eq!(consensus.position().command, answered);
    drop(consensus);
    assert_eq!(open(dir.path()).position().command, answered);
}
