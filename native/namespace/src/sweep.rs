//! The sweep: takes deleted trees apart, a bounded part with each command.

use crate::command::Sweep;
use crate::context::{Context, Ruled, refuse};
use crate::reply::{RefusalKind, Reply};

/// Takes a part of a deleted tree apart.
pub(crate) fn sweep(_: &mut Context<'_, '_>, _: &Sweep) -> Ruled<Reply> {
    refuse(RefusalKind::Unsupported, "the sweep is not supported yet")
}
