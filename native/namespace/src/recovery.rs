//! Recovery: fences a writer whose time is over, so that a helper may settle and publish what it left.

use crate::command::StartRecovery;
use crate::context::{Context, Ruled, refuse};
use crate::reply::{RefusalKind, Reply};

/// Fences the writer of a file; a recovery that runs already is joined.
pub(crate) fn start(_: &mut Context<'_, '_>, command: &StartRecovery) -> Ruled<Reply> {
    refuse(
        RefusalKind::Unsupported,
        format!("{}: recovery is not supported yet", command.path),
    )
}
