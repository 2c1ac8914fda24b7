//! One server of the group and the link to it, made when it is needed and made again when it broke.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::direct::{Direct, Directs, Lent, Place};
use super::link::{Attempt, Link, Opening};
use crate::config::address::Node;
use crate::error::{Error, ErrorKind};
use crate::runtime;

/// How long a server that fell silent comes last.
const SILENT_FOR: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Server {
    node: Node,
    link: Mutex<State>,
    directs: Directs,
    silent_since: std::sync::Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Link>>,
    closed: bool,
}

impl Server {
    pub(super) fn new(node: Node) -> Server {
        Server {
            node,
            link: Mutex::default(),
            directs: Directs::default(),
            silent_since: std::sync::Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.node.id
    }

    /// Its address as hints write it.
    pub(super) fn address(&self) -> String {
        if self.node.host.contains(':') {
            format!("[{}]:{}", self.node.host, self.node.port)
        } else {
            format!("{}:{}", self.node.host, self.node.port)
        }
    }

    /// It did not answer a call a moment ago, and has said nothing since.
    pub(super) fn is_silent(&self) -> bool {
        self.silent_since()
            .is_some_and(|since| since.elapsed() < SILENT_FOR)
    }

    pub(super) fn fell_silent(&self) {
        *self.silent_since() = Some(Instant::now());
    }

    pub(super) fn heard(&self) {
        *self.silent_since() = None;
    }

    fn silent_since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.silent_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A failed attempt at this server.
    pub(super) fn unreachable(&self, why: &str, maybe_sent: bool) -> Attempt {
        Attempt::Unreachable {
            why: format!("{}:{}: {why}", self.node.host, self.node.port),
            maybe_sent,
        }
    }

    /// The link, made if need be. Callers that come meanwhile wait for it.
    pub(super) async fn link(&self, opening: &Arc<Opening>) -> Result<Arc<Link>, Attempt> {
        let mut state = self.link.lock().await;
        if state.closed {
            return Err(Attempt::Refused(Error::new(
                ErrorKind::Closed,
                "the file system is closed",
            )));
        }
        if let Some(link) = state.link.as_ref().filter(|link| link.is_open()) {
            return Ok(Arc::clone(link));
        }
        state.link = None;
        let node = self.node.clone();
        let opening = Arc::clone(opening);
        let runtime = runtime::handle().map_err(Attempt::Refused)?;
        let opened = runtime
            .spawn(async move { Link::open(&node, &opening).await })
            .await
            .map_err(|e| self.unreachable(&e.to_string(), false))?;
        let link = Arc::new(opened.map_err(|why| self.unreachable(&why, false))?);
        state.link = Some(Arc::clone(&link));
        Ok(link)
    }

    /// A connection for one call alone, made if need be; nothing when others have them all.
    pub(super) async fn direct(&self, opening: &Arc<Opening>) -> Result<Option<Lent<'_>>, Attempt> {
        let closed =
            || Attempt::Refused(Error::new(ErrorKind::Closed, "the file system is closed"));
        let mut lent = match self.directs.take() {
            Place::Free(lent) => lent,
            Place::None => return Ok(None),
            Place::Closed => return Err(closed()),
        };
        if !lent.is_made() {
            let node = self.node.clone();
            let opening = Arc::clone(opening);
            let runtime = runtime::handle().map_err(Attempt::Refused)?;
            let made = runtime.spawn(async move {
                match opening.direct() {
                    Some(opening) => Direct::open(&node.host, node.port, opening).await.map(Some),
                    None => Ok(None),
                }
            });
            let made = made
                .await
                .map_err(|e| self.unreachable(&e.to_string(), false))?
                .map_err(|why| self.unreachable(&why, false))?;
            let Some(made) = made else { return Ok(None) };
            lent.made(made).ok_or_else(closed)?;
        }
        Ok(Some(lent))
    }

    /// A call got no answer on this link for long: later calls take another one.
    pub(super) fn forget(&self, silent: &Arc<Link>) {
        // Whoever holds the lock now is making a new link already.
        if let Ok(mut state) = self.link.try_lock()
            && state
                .link
                .as_ref()
                .is_some_and(|link| Arc::ptr_eq(link, silent))
        {
            state.link = None;
        }
    }

    pub(super) async fn close(&self) {
        self.directs.close();
        let mut state = self.link.lock().await;
        state.closed = true;
        state.link = None;
    }

    #[cfg(test)]
    pub(super) fn directs(&self) -> &Directs {
        &self.directs
    }

    #[cfg(test)]
    pub(super) async fn link_for_test(
        &self,
    ) -> tokio::sync::MappedMutexGuard<'_, Option<Arc<Link>>> {
        tokio::sync::MutexGuard::map(self.link.lock().await, |state| &mut state.link)
    }
}
