//! The guards of the transition table, by name.
//!
//! `guard!(Name, condition)` is the condition under which a guard acts (mostly: refuses), `guard!(Name)` is true, and `holds!(Name,
//! condition)` is the condition that a guard wants to hold: so in every build but one. With the feature `mutants` the guard that
//! `leave_out` names never acts, so that a test can leave out one after the other and see that the model check or the randomized run
//! notices. The feature is for tests: a build without debug assertions refuses it.
//!
//! A guard that is called a second line below acts only where another rule is broken already: nothing that can be reached needs it to be
//! safe, and no check can notice that it is left out. It stays for what it tells the caller, or so that two faults must meet.

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` makes guards removable and is for tests only");

#[cfg(not(feature = "mutants"))]
macro_rules! guard {
    ($name:ident) => {
        true
    };
    ($name:ident, $acts:expr) => {
        $acts
    };
}

#[cfg(not(feature = "mutants"))]
macro_rules! holds {
    ($name:ident, $holds:expr) => {
        $holds
    };
}

#[cfg(feature = "mutants")]
macro_rules! holds {
    ($name:ident, $holds:expr) => {
        (!$crate::guard::stands($crate::guard::Guard::$name) || $holds)
    };
}

#[cfg(feature = "mutants")]
macro_rules! guard {
    ($name:ident) => {
        $crate::guard::stands($crate::guard::Guard::$name)
    };
    ($name:ident, $acts:expr) => {
        ($crate::guard::stands($crate::guard::Guard::$name) && $acts)
    };
}

#[cfg(all(feature = "mutants", test))]
pub(crate) use named::leave_out;
#[cfg(feature = "mutants")]
pub(crate) use named::{Guard, stands};

#[cfg(feature = "mutants")]
mod named {
    use std::cell::Cell;

    macro_rules! guards {
        ($($(#[doc = $what:literal])* $name:ident,)*) => {
            /// A guard that can be left out.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub(crate) enum Guard {
                $($(#[doc = $what])* $name,)*
            }

            impl Guard {
                /// All guards, in the order of the transition table.
                pub(crate) const ALL: &'static [Guard] = &[$(Guard::$name,)*];
            }
        };
    }

    guards! {
        /// Admit: an OBJECT_STORE bucket has no appenders.
        AdmitLayout,
        /// Admit: the layout of append is finalized.
        AdmitFinalized,
        /// Admit: append is switched on.
        AdmitEnabled,
        /// Admit: the file exists, unless its creation is asked for.
        AdmitExisting,
        /// Admit: no append session owns the file.
        AdmitNoOwner,
        /// Admit: no ordinary writer that has hsynced holds the file. A second line: such a writer is found by its name as well; this one finds
        /// it first, so that the caller is told of it rather than of another writer at the name.
        AdmitNoHsync,
        /// Admit: no ordinary writer is open at the name.
        AdmitNoOrdinary,
        /// Admit: the file may have another block.
        AdmitRoom,
        /// Create: an exclusive create is refused where something stands.
        CreateExclusive,
        /// Create: only a session that created its file gives way to an overwriting create.
        OverwriteOwned,
        /// Open: an ordinary writer does not open over an appender's file.
        OpenOwned,
        /// Commit: an ordinary writer does not commit over an appender's file.
        CommitOwned,
        /// Commit: what an ordinary writer hsynced must still stand where it publishes again. A second line: whoever deletes or replaces it
        /// ends the writer.
        CommitSamePublished,
        /// Commit: an overwrite keeps an identity only while its target holds it.
        CommitSameTarget,
        /// Commit: no file where a directory stands, or below a file.
        CommitNotBlocked,
        /// Commit, create: sessions of replaced content may write no more.
        ReplaceEndsSessions,
        /// Allocate, publish: the handle names the file that the session writes.
        WriteSameFile,
        /// Allocate, hsync, close: a fenced session writes no more.
        WriteFenced,
        /// Allocate, publish: a session that is over writes no more.
        WriteInvalidated,
        /// Complete recovery: the session is fenced.
        RecoverFenced,
        /// Allocate, publish: the file can be reached from the root.
        WriteReachable,
        /// Publish by path: an append session is not reached by a path.
        PathNotAppend,
        /// Publish by path: the path is where the writer stands.
        PathStands,
        /// Publish by path: a fenced ordinary writer writes no more.
        PathFenced,
        /// Publish by path: an ordinary writer that was ended writes no more.
        PathInvalidated,
        /// Complete recovery by path: the writer is fenced.
        PathRecoverFenced,
        /// Allocate: the file may have another block.
        AllocateRoom,
        /// Publish: every block was given to this session.
        PublishGiven,
        /// Publish: no block holds more than it may.
        PublishCapacity,
        /// Publish: published blocks stay what and where they are.
        PublishSameBlocks,
        /// Publish: a block stands in one list, once.
        PublishOnce,
        /// Publish: a published block does not get shorter.
        PublishBlockGrows,
        /// Publish: nothing published falls away.
        PublishNoLoss,
        /// Publish: the file has no more blocks than it may.
        PublishRoom,
        /// Publish: the length is what the blocks hold.
        PublishSize,
        /// Publish: a tail begins at or before the last published block.
        PublishTail,
        /// Complete recovery: blocks in the order in which they were given.
        RecoverOrder,
        /// Start recovery: the caller can finish the recovery of an append session.
        RecoverCapable,
        /// Start recovery: the lease is over by the renewals that were applied.
        RecoverEligible,
        /// Rename in FSO: not of a file that an ordinary writer has hsynced.
        RenameHsync,
        /// Rename: no directory below itself.
        RenameBelowItself,
        /// Rename: the session follows its file.
        RenameTakesSession,
        /// Rename: nothing stands at the new name.
        RenameOntoNothing,
        /// Delete: sessions of the file may write no more.
        DeleteEndsSessions,
        /// Delete: a directory with children only recursively.
        DeleteNotEmpty,
        /// Take back a create: only of a session that created its file.
        DeleteCreated,
        /// Sweep: sessions below a deleted directory end.
        SweepEndsSessions,
        /// Cleanup: an append session is ended only behind the hard limit of its lease.
        CleanupLease,
        /// Cleanup: an ordinary writer is ended only when it was not heard of for long.
        CleanupHeard,
        /// Cleanup: the handle names the file that the session writes.
        CleanupSameFile,
        /// Cleanup: what a session ended as is told for the retention.
        CleanupRetention,
        /// Answers: a call below its client's mark is not decided again.
        AnswerForgotten,
        /// Answers: an identity belongs to one command of one user.
        AnswerBound,
        /// Answers: what was decided is told again.
        AnswerKept,
        /// Every command: the caller has a user.
        UserNamed,
        /// Every command: a refusal takes back what it wrote.
        RefusalTakesBack,
        /// Renew: no more sessions at once than the limit.
        RenewBound,
        /// Renew: the handle names the file that the session writes. A second line behind `RenewOwned`, which compares the file too; it says
        /// which of the two was wrong.
        RenewSameFile,
        /// Renew: a fenced session cannot renew.
        RenewFenced,
        /// Renew: a session that is over cannot renew. A second line: it owns no file (I1); it says how the session ended.
        RenewInvalidated,
        /// Renew: the committed file names the session as its owner. A second line: a session that is not over owns its file (I1).
        RenewOwned,
    }

    thread_local! {
        static LEFT_OUT: Cell<Option<Guard>> = Cell::new(from_environment());
    }

    /// The guard that `APPEND_MUTANT` names, for whole processes.
    fn from_environment() -> Option<Guard> {
        let name = std::env::var("APPEND_MUTANT").ok()?;
        Guard::ALL
            .iter()
            .copied()
            .find(|guard| format!("{guard:?}") == name)
    }

    /// Leaves a guard out on this thread from now on, or none.
    #[cfg(test)]
    pub(crate) fn leave_out(guard: Option<Guard>) {
        LEFT_OUT.set(guard);
    }

    /// Does the guard act?
    pub(crate) fn stands(guard: Guard) -> bool {
        LEFT_OUT.get() != Some(guard)
    }
}
