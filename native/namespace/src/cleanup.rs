//! Ending of sessions that nobody ends: invalidated ones, and those whose time is over.

use crate::command::Cleanup;
use crate::context::{Context, Ruled, refuse};
use crate::reply::{RefusalKind, Reply};

/// Ends what is due of the named sessions.
pub(crate) fn cleanup(_: &mut Context<'_, '_>, _: &Cleanup) -> Ruled<Reply> {
    refuse(RefusalKind::Unsupported, "cleanup is not supported yet")
}
