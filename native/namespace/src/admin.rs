//! The server's own commands: block holders and limits.

use crate::command::{Finalize, Holder, LAYOUT_APPEND, Limits};
use crate::context::{Context, Ruled, answer, done, refuse};
use crate::key;
use crate::reply::{Answer, RefusalKind, Reply};
use crate::rows::{Keyspace, Rows};
use crate::table;

/// Records where a holder answers; a holder that is known by its id keeps its number.
pub(crate) fn register_holder(ctx: &mut Context<'_, '_>, command: &Holder) -> Ruled<Reply> {
    if command.uuid.is_empty() {
        return refuse(RefusalKind::InvalidRequest, "a block holder needs an id");
    }
    let mut number = 1;
    for (_, value) in ctx.txn.range(Keyspace::Holders, &[], None, usize::MAX)? {
        let known: Holder = table::decode(Keyspace::Holders, &value)?;
        if known.uuid == command.uuid {
            number = known.number;
            break;
        }
        number = known.number.saturating_add(1);
    }
    let row = Holder {
        number,
        ..command.clone()
    };
    table::write(ctx.txn, Keyspace::Holders, key::holder(number), &row);
    answer(Answer::HolderNumber(number))
}

/// Sets the limits. Each must allow something.
pub(crate) fn configure(ctx: &mut Context<'_, '_>, command: &Limits) -> Ruled<Reply> {
    let sound = command.soft_limit_ms > 0
        && command.hard_limit_ms >= command.soft_limit_ms
        && command.max_blocks_per_file > 0
        && command.dedupe_max > 0
        && command.block_size > 0
        && command.max_renew_batch > 0
        && command.ordinary_expiry_ms() > 0;
    if !sound {
        return refuse(
            RefusalKind::InvalidRequest,
            "limits must be above zero, and the hard limit at least the soft limit",
        );
    }
    table::write(ctx.txn, Keyspace::Meta, key::LIMITS.to_vec(), command);
    done()
}

/// Finalizes a layout. One that is finalized already stays as it is: there is no way back.
pub(crate) fn finalize(ctx: &mut Context<'_, '_>, command: &Finalize) -> Ruled<Reply> {
    if command.layout != LAYOUT_APPEND {
        return refuse(
            RefusalKind::InvalidRequest,
            format!(
                "this version can finalize layout {LAYOUT_APPEND}, not {}",
                command.layout
            ),
        );
    }
    if ctx.layout >= command.layout {
        return done();
    }
    ctx.txn.put(
        Keyspace::Meta,
        key::LAYOUT,
        key::one(u64::from(command.layout)),
    );
    // Counted once, because versions before this layout did not.
    let writers = ctx.txn.range(Keyspace::OpenByName, &[], None, usize::MAX)?;
    let writers = u64::try_from(writers.len()).unwrap_or(u64::MAX);
    table::put_writers(ctx.txn, writers);
    done()
}
