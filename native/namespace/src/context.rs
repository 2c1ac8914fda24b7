//! What every rule is given, and how it ends.

use crate::command::{Invocation, Limits};
use crate::ids::{Id, IdSource, OutOfIds};
use crate::reply::{Answer, Done, Refusal, RefusalKind, Reply};
use crate::rows::RowsError;
use crate::txn::Txn;

/// How a rule ends without a reply.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A guard said no; the caller is told and the changes are taken back.
    Refused(Refusal),
    /// The rows cannot be trusted; the process must stop applying.
    Rows(RowsError),
}

/// The end of a rule.
pub(crate) type Ruled<T> = Result<T, Stop>;

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<RowsError> for Stop {
    fn from(error: RowsError) -> Stop {
        Stop::Rows(error)
    }
}

impl From<OutOfIds> for Stop {
    fn from(error: OutOfIds) -> Stop {
        Stop::Refused(Refusal::new(RefusalKind::InvalidRequest, error.to_string()))
    }
}

/// Ends a rule with a refusal.
pub(crate) fn refuse<T>(kind: RefusalKind, detail: impl Into<String>) -> Ruled<T> {
    Err(Stop::Refused(Refusal::new(kind, detail)))
}

/// The reply of a command that has nothing to tell.
pub(crate) fn done() -> Ruled<Reply> {
    answer(Answer::Done(Done {}))
}

/// A reply with content.
pub(crate) fn answer(answer: Answer) -> Ruled<Reply> {
    Ok(Reply {
        answer: Some(answer),
    })
}

/// One command at work: its rows, its number, its times, its caller.
pub(crate) struct Context<'c, 'r> {
    /// The rows.
    pub(crate) txn: &'c mut Txn<'r>,
    /// The command's number.
    pub(crate) command: u64,
    /// Its ids.
    pub(crate) ids: IdSource,
    /// Lease time, ms.
    pub(crate) lease_ms: u64,
    /// Wall time, ms; for modification times only.
    pub(crate) wall_ms: u64,
    /// Who asks.
    pub(crate) user: &'c str,
    /// The identity of the call.
    pub(crate) invocation: Option<&'c Invocation>,
    /// The limits in force.
    pub(crate) limits: Limits,
    /// The finalized layout.
    pub(crate) layout: u32,
    /// The rules by which the entry was decided.
    pub(crate) rules: u32,
    /// Deletion rows written so far.
    pub(crate) deletions: u32,
}

impl Context<'_, '_> {
    /// A new id.
    pub(crate) fn draw(&mut self) -> Ruled<Id> {
        Ok(self.ids.draw()?)
    }

    /// The owner to record: the one named, else the caller.
    pub(crate) fn owner(&self, named: &str) -> String {
        if named.is_empty() {
            self.user.to_owned()
        } else {
            named.to_owned()
        }
    }
}
