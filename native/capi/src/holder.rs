//! The writer that holds a file, as C sees it: inside an error object or a file's entry, and owned by that.

use std::ffi::{CString, c_char, c_int};

use append_client::AppendStatus;
use append_client::status::{Phase, WriterKind};

use crate::memory::{c_text, signed};

/// What kind of writer holds a file: `kind` of `append_holder`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderKind {
    /// A writer that has published nothing.
    Ordinary = 1,
    /// A writer without a session that has published by hsync.
    Hsync = 2,
    /// A session of an append, or of a create by libappend.
    Append = 3,
}

/// Phase of an append session: `phase` of `append_holder`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderPhase {
    /// The holder has no session, so no phase.
    None = 0,
    /// The writer may write.
    Active = 1,
    /// The writer is fenced, the file is being recovered.
    Recovering = 2,
    /// The file is gone.
    Invalidated = 3,
}

/// The writer that holds a file. It lives as long as the object that gave it; later versions may add members at its end.
#[repr(C)]
#[derive(Debug)]
pub struct HolderView {
    /// One of `append_holder_kind`.
    pub kind: c_int,
    /// One of `append_holder_phase`.
    pub phase: c_int,
    /// Its session, 0 without one.
    pub session: u64,
    /// Its last renewal, in milliseconds on the server's lease clock.
    pub last_renewed_ms: i64,
    /// Renewals so far: grows as long as the writer lives.
    pub renewals: i64,
    /// Milliseconds until its file may be recovered if it does not renew.
    pub remaining_ms: i64,
    /// Length in bytes of what was there before it.
    pub prefix_length: i64,
    /// Length in bytes that readers see.
    pub published_length: i64,
    /// Who it says it is; never NULL.
    pub owner: *const c_char,
    /// Why its recovery does not go on; never NULL, empty if nothing is in the way.
    pub blocked_reason: *const c_char,
}

/// A view and the strings that it points to.
#[derive(Debug)]
pub(crate) struct Holder {
    view: HolderView,
    _texts: [CString; 2],
}

// SAFETY: the view's pointers lead to strings that the same value owns and nobody changes; moving it does not move them.
unsafe impl Send for Holder {}
// SAFETY: as above.
unsafe impl Sync for Holder {}

impl Holder {
    pub(crate) fn new(status: &AppendStatus) -> Holder {
        let owner = c_text(&status.owner);
        let reason = c_text(&status.blocked_reason);
        let kind = match status.kind {
            WriterKind::Ordinary => HolderKind::Ordinary,
            WriterKind::Hsync => HolderKind::Hsync,
            WriterKind::Append => HolderKind::Append,
        };
        let phase = match status.phase {
            None => HolderPhase::None,
            Some(Phase::Active) => HolderPhase::Active,
            Some(Phase::Recovering) => HolderPhase::Recovering,
            Some(Phase::Invalidated) => HolderPhase::Invalidated,
        };
        Holder {
            view: HolderView {
                kind: kind as c_int,
                phase: phase as c_int,
                session: status.handle.map_or(0, |handle| handle.session),
                last_renewed_ms: signed(status.last_renewed_ms),
                renewals: signed(status.renewals),
                remaining_ms: milliseconds(status.remaining),
                prefix_length: signed(status.prefix_length),
                published_length: signed(status.published_length),
                owner: owner.as_ptr(),
                blocked_reason: reason.as_ptr(),
            },
            _texts: [owner, reason],
        }
    }

    pub(crate) fn view(&self) -> &HolderView {
        &self.view
    }
}

/// Whole milliseconds, rounded up so that nobody comes back too early.
pub(crate) fn milliseconds(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
