//! Waiting in append while another session has the file: polls by reads, recovers the file once its owner may be given up, and
//! asks for admission again.
//!
//! * An owner whose lease was renewed while we waited is alive: the call ends at once. Renewals are counted by the server, so no
//!   clocks are compared.
//! * The whole wait ends after the time that the server gave the owner at first (none to one that is fenced), plus a budget for
//!   recovery. Nothing that is seen on the way prolongs it, and a deadline of the caller may only shorten it.
//! * Ordinary writers are not waited for: they renew nothing, so that silence says nothing about them.

use std::time::{Duration, Instant};

use super::WriteStream;
use super::open::{Admission, detached};
use crate::Result;
use crate::error::{Error, ErrorKind, Retry};
use crate::filesystem::FileSystem;
use crate::path::FsPath;
use crate::recover::{self, RecoverOptions};
use crate::status::{AppendStatus, Phase, WriterKind};

/// First wait between two looks, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Opens a file for append, behind whoever has it now.
pub(super) async fn admitted(
    fs: &FileSystem,
    path: FsPath,
    mut admission: Admission,
) -> Result<WriteStream> {
    let mut waiting: Option<Waiting> = None;
    loop {
        // Each of these is a call of its own: what an earlier one was refused for is over.
        let error = match detached(fs.clone(), path.clone(), admission.clone()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let Some(owner) = session_in_the_way(&error).cloned() else {
            return Err(error);
        };
        if owner
            .handle
            .is_some_and(|h| fs.shared().renewer.holds(h.session))
        {
            // Waiting for itself would never end.
            return Err(own_stream(error));
        }
        let waiting = match &mut waiting {
            Some(waiting) => {
                waiting.see(&owner)?;
                waiting
            }
            None => {
                let budget = fs.shared().settings.recovery_budget;
                let waiting = waiting.insert(Waiting::new(owner, budget, admission.deadline));
                admission.deadline = Some(waiting.until);
                waiting
            }
        };
        Box::pin(waiting.until_free(fs, &path)).await?;
    }
}

/// The append session that an admission was refused for.
fn session_in_the_way(error: &Error) -> Option<&AppendStatus> {
    let waits = matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Recovering);
    error
        .conflict()
        .filter(|owner| waits && owner.kind == WriterKind::Append)
}

fn own_stream(error: Error) -> Error {
    let text = format!(
        "this client has the file open for writing itself, and would wait for its own stream: {}",
        error.text()
    );
    error.with_text(text).with_retry(Retry::Never)
}

/// One call's wait.
struct Waiting {
    until: Instant,
    owner: AppendStatus,
    /// Why the recovery did not end when it was tried last.
    trouble: Option<String>,
    look: Duration,
}

impl Waiting {
    fn new(owner: AppendStatus, budget: Duration, deadline: Option<Instant>) -> Waiting {
        let now = Instant::now();
        // A writer that is fenced already, before its time when a person wanted it so, has no time left.
        let given = match owner.phase {
            Some(Phase::Recovering) => Duration::ZERO,
            _ => owner.remaining,
        };
        let whole = given.saturating_add(budget);
        // A server may name any time.
        let until = now.checked_add(whole).unwrap_or_else(|| now + budget);
        Waiting {
            until: deadline.map_or(until, |deadline| until.min(deadline)),
            owner,
            trouble: None,
            look: FIRST_LOOK,
        }
    }

    /// Notes what the server says of the owner now.
    fn see(&mut self, now: &AppendStatus) -> Result<()> {
        let session = |status: &AppendStatus| status.handle.map(|handle| handle.session);
        let same = session(&self.owner) == session(now);
        let renewed = same && now.renewals > self.owner.renewals;
        self.owner = now.clone();
        if !same {
            self.trouble = None;
        }
        if renewed {
            return Err(
                self.conflict("its owner is alive: it renewed its lease while this call waited")
            );
        }
        Ok(())
    }

    /// Returns when another admission may be tried.
    async fn until_free(&mut self, fs: &FileSystem, path: &FsPath) -> Result<()> {
        let session = self.owner.handle.map(|handle| handle.session);
        // One that this client lost nobody else will end.
        let mut lost = session.is_some_and(|session| fs.shared().renewer.take_lost(session));
        loop {
            if Instant::now() >= self.until {
                return Err(self.expired());
            }
            if lost || self.may_recover() {
                lost = false;
                if self.recover(fs, path).await? {
                    return Ok(());
                }
            }
            self.pause().await;
            if Instant::now() >= self.until {
                return Err(self.expired());
            }
            match fs.writer_at(path).await {
                Ok(Some(owner)) if owner.kind == WriterKind::Append => self.see(&owner)?,
                // Free, or held by a writer who is not waited for: the admission says so.
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn may_recover(&self) -> bool {
        match self.owner.phase {
            Some(Phase::Recovering) => true,
            Some(Phase::Invalidated) => false,
            Some(Phase::Active) | None => self.owner.remaining.is_zero(),
        }
    }

    /// True if the file is closed now, or nothing stands there any more.
    async fn recover(&mut self, fs: &FileSystem, path: &FsPath) -> Result<bool> {
        let options = RecoverOptions {
            deadline: Some(self.until),
            ..RecoverOptions::default()
        };
        match recover::recover(fs, path, &options).await {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Ok(true),
                // Too early, or the owner renewed in between.
                ErrorKind::Conflict => match error.conflict() {
                    Some(owner) if owner.kind == WriterKind::Append => {
                        let owner = owner.clone();
                        self.see(&owner)?;
                        Ok(false)
                    }
                    _ => Err(error),
                },
                ErrorKind::Recovering | ErrorKind::OutcomeUnknown => {
                    self.trouble = Some(error.text().to_owned());
                    self.owner.phase = Some(Phase::Recovering);
                    Ok(false)
                }
                _ if is_passing(&error) => {
                    self.trouble = Some(error.text().to_owned());
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    async fn pause(&mut self) {
        let mut wait = self.look;
        if self.owner.phase != Some(Phase::Recovering) && !self.owner.remaining.is_zero() {
            // The moment at which it may be recovered is not slept through.
            wait = wait.min(self.owner.remaining);
        }
        self.look = (self.look * 2).min(LONGEST_LOOK);
        let wake = (Instant::now() + wait).min(self.until);
        tokio::time::sleep_until(wake.into()).await;
    }

    fn expired(&self) -> Error {
        match (&self.trouble, self.owner.phase) {
            (None, Some(Phase::Active) | None) => {
                self.conflict("it is still owned by another writer")
            }
            (trouble, _) => {
                let why = trouble.as_deref().unwrap_or("another client was at it");
                Error::new(
                    ErrorKind::Recovering,
                    format!(
                        "the recovery of the file did not finish in time: {why}; {}",
                        self.describe()
                    ),
                )
                .with_conflict(self.owner.clone())
            }
        }
    }

    fn conflict(&self, why: &str) -> Error {
        Error::new(ErrorKind::Conflict, format!("{why}; {}", self.describe()))
            .with_retry(Retry::After(self.owner.remaining))
            .with_conflict(self.owner.clone())
    }

    fn describe(&self) -> String {
        let owner = &self.owner;
        let session = owner.handle.map_or(0, |handle| handle.session);
        format!(
            "session {session} of {}, renewed {} times, last at {} ms of lease time, for {} ms more",
            owner.owner,
            owner.renewals,
            owner.last_renewed_ms,
            owner.remaining.as_millis()
        )
    }
}

/// The same question may be answered later.
fn is_passing(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Connect | ErrorKind::Timeout
    )
}

#[cfg(test)]
mod tests;
