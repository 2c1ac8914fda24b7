//! A datanode on a folder: its identity, the lock that keeps a second process out, the block store in
//! it, and serving it, inside another server or as a process of its own.
//!
//! ```text
//! DIR/LOCK            locked while a process uses the folder
//! DIR/DATANODE_ID     the identity (a UUID); pipelines name the datanode by it
//! DIR/containers/     the block store
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use append_wire::datanode::xceiver_client_protocol_service_server::XceiverClientProtocolServiceServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use uuid::Uuid;

use crate::service::limits::{
    CONNECTION_WINDOW, FRAME_LEN, KEEP_ALIVE, KEEP_ALIVE_ANSWER, MAX_MESSAGE_LEN, STREAM_WINDOW,
    STREAMS_PER_CONNECTION,
};
use crate::service::line::Lines;
use crate::service::{DatanodeService, Shared};
use crate::store::{BlockId, Media, OpenError, Store, StoreError, StoreOptions};

const LOCK: &str = "LOCK";
const IDENTITY: &str = "DATANODE_ID";
const CONTAINERS: &str = "containers";

/// How a datanode is found by clients: what a pipeline says of its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatanodeInfo {
    /// Identity, kept in the datanode's folder.
    pub uuid: Uuid,
    /// Name or address that clients connect to.
    pub host: String,
    /// Port of the gRPC service (`STANDALONE` in Ozone's port names).
    pub port: u16,
}

/// Why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The address could not be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The transport failed.
    #[error("the datanode's transport failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// An fsync failed: nothing can be promised any more and the process should end.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An open datanode. Cheap to clone; the folder is released when the last clone, the last service made
/// from one, the streams they serve and every handle on the store are gone.
#[derive(Clone)]
pub struct Datanode {
    uuid: Uuid,
    shared: Arc<Shared>,
}

impl Datanode {
    /// Opens the folder `dir`, making it when it is missing. Blocks on the disk while the index is
    /// rebuilt.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when another process holds the folder, [`OpenError::Identity`] when its
    /// containers are there but its identity is not, otherwise as [`Store::open`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        Self::open_on(&Media::default(), dir, options)
    }

    /// As [`Datanode::open`], on a disk that a test may make fail.
    pub(crate) fn open_on(
        media: &Media,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        media.create_dirs(dir).map_err(OpenError::io(dir))?;
        let lock = lock_folder(dir)?;
        let uuid = identity(media, dir)?;
        let store = Store::open_on(media.clone(), &dir.join(CONTAINERS), options)?.holding(lock);
        Ok(Self {
            uuid,
            shared: Arc::new(Shared::new(uuid.to_string(), Arc::new(store))),
        })
    }

    /// Identity of this datanode.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// What clients need to find this datanode at `host` and `port`.
    #[must_use]
    pub fn info(&self, host: impl Into<String>, port: u16) -> DatanodeInfo {
        DatanodeInfo {
            uuid: self.uuid,
            host: host.into(),
            port,
        }
    }

    /// The block store, for callers in the same process. Its methods block on the disk.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// The gRPC service with its message limits set, to be added to a server of the caller's.
    #[must_use]
    pub fn service(&self) -> XceiverClientProtocolServiceServer<DatanodeService> {
        XceiverClientProtocolServiceServer::new(DatanodeService::new(Arc::clone(&self.shared)))
            .max_decoding_message_size(MAX_MESSAGE_LEN)
            .max_encoding_message_size(MAX_MESSAGE_LEN)
    }

    /// What serves the framed way to this datanode, to be added to a listener of the caller's.
    #[must_use]
    pub fn lines(&self) -> Lines {
        Lines::new(Arc::clone(&self.shared))
    }

    /// Spends the ids of blocks for good; durable when this returns. Blocks that never arrived are
    /// acknowledged like the others.
    ///
    /// # Errors
    /// As [`Store::delete`]; some of the blocks may be deleted then, and the call may be repeated.
    pub async fn delete_blocks(&self, ids: Vec<BlockId>) -> Result<(), StoreError> {
        let store = Arc::clone(self.store());
        let last = tokio::task::spawn_blocking(move || {
            ids.into_iter()
                .map(|id| store.delete(id))
                .try_fold(None, |last, at| at.map(|at| last.max(Some(at))))
        })
        .await
        .map_err(|e| StoreError::io("deletion of blocks", io::Error::other(e)))??;
        match last {
            Some(at) => self.store().durable(at).await,
            None => Ok(()),
        }
    }

    /// Serves on `listener` until `shutdown` resolves or the store can promise nothing any more.
    ///
    /// # Errors
    /// [`ServeError::Transport`], [`ServeError::Store`].
    pub async fn serve_on(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let (to_grpc, connections) = mpsc::channel(BACKLOG);
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, self.lines(), to_grpc, stop.clone()));
        let incoming = ReceiverStream::new(connections).map(Ok::<_, io::Error>);
        let store = Arc::clone(self.store());
        let failed = async move { store.failed().await };
        tokio::pin!(failed);
        let mut reason = None;
        let end = async {
            tokio::select! {
                () = shutdown => {}
                error = &mut failed => reason = Some(error),
            }
            stop.cancel();
        };
        let served = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_LEN)
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_ANSWER))
            .add_service(self.service())
            .serve_with_incoming_shutdown(incoming, end)
            .await;
        stop.cancel();
        if let Err(error) = accepting.await {
            tracing::error!(%error, "accepting connections ended");
        }
        served?;
        match reason {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// Connections that wait for the gRPC server.
const BACKLOG: usize = 64;

/// Time in which a connection must say what it speaks.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// Pause after a failed accept, so that running out of file handles does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, and returns when the lines among them have ended.
async fn accept(
    listener: TcpListener,
    lines: Lines,
    to_grpc: mpsc::Sender<TcpStream>,
    stop: CancellationToken,
) {
    let mut served = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (lines, to_grpc, stop) = (lines.clone(), to_grpc.clone(), stop.clone());
                served.spawn(async move {
                    let mut first = [0];
                    let looked = tokio::time::timeout(FIRST_BYTE, stream.peek(&mut first));
                    let looked = tokio::select! {
                        () = stop.cancelled() => return,
                        looked = looked => looked,
                    };
                    if !matches!(looked, Ok(Ok(1))) {
                        return;
                    }
                    if Lines::begins_with(first[0]) {
                        lines.serve(stream, stop.cancelled_owned()).await;
                    } else if stream.set_nodelay(true).is_ok() {
                        // The receiver is gone only when serving ends.
                        let _ = to_grpc.send(stream).await;
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while served.try_join_next().is_some() {}
    }
    while served.join_next().await.is_some() {}
}

/// Opens the folder `dir` and serves it on `address` until `shutdown` resolves: a datanode as a process
/// of its own. `ready` is called once with what clients need to find it.
///
/// # Errors
/// [`ServeError`]; after [`ServeError::Store`] the process should end.
pub async fn serve(
    dir: &Path,
    address: SocketAddr,
    options: StoreOptions,
    shutdown: impl Future<Output = ()> + Send,
    ready: impl FnOnce(DatanodeInfo) + Send,
) -> Result<(), ServeError> {
    let dir = dir.to_owned();
    let datanode = tokio::task::spawn_blocking(move || Datanode::open(&dir, options))
        .await
        .map_err(|e| StoreError::io("opening the datanode", io::Error::other(e)))??;
    let bind = |source| ServeError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let bound = listener.local_addr().map_err(bind)?;
    ready(datanode.info(bound.ip().to_string(), bound.port()));
    datanode.serve_on(listener, shutdown).await
}

fn lock_folder(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(OpenError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(dir.to_owned())),
        Err(TryLockError::Error(e)) => Err(OpenError::io(path)(e)),
    }
}

/// The identity kept in `dir`; a new folder gets one.
fn identity(media: &Media, dir: &Path) -> Result<Uuid, OpenError> {
    let path = dir.join(IDENTITY);
    let bad = |reason| OpenError::Identity {
        path: path.clone(),
        reason,
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            // A process that was killed may have renamed it last.
            media.sync_dir(dir).map_err(OpenError::io(dir))?;
            Uuid::parse_str(text.trim()).map_err(|_| bad("the identity is not a UUID"))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if dir.join(CONTAINERS).exists() {
                return Err(bad("the folder holds blocks but its identity is missing"));
            }
            let uuid = Uuid::new_v4();
            let fresh = dir.join(format!("{IDENTITY}.new"));
            File::create(&fresh)
                .and_then(|mut f| {
                    writeln!(f, "{uuid}")?;
                    f.sync_all()
                })
                .map_err(OpenError::io(&fresh))?;
            fs::rename(&fresh, &path).map_err(OpenError::io(&path))?;
            media.sync_dir(dir).map_err(OpenError::io(dir))?;
            Ok(uuid)
        }
        Err(_) => Err(bad("the identity cannot be read")),
    }
}
