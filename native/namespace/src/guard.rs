//! The guards of the transition table, by name.
//!
//! `guard!(Name, condition)` is the condition under which a guard acts (mostly: refuses), and `guard!(Name)` is true: so in every build
//! but one. With the feature `mutants` the guard that `leave_out` names never acts, so that a test can leave out one after the other
//! and see that the model check or the randomized run notices. The feature is for tests: a build without debug assertions refuses it.

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
        /// Renew: the handle names the file that the session writes.
        RenewSameFile,
        /// Renew: a fenced session cannot renew.
        RenewFenced,
        /// Renew: a session whose file is gone cannot renew.
        RenewInvalidated,
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
