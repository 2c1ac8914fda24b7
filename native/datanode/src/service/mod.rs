//! The gRPC service `XceiverClientProtocolService` on a block store. `convert` is the border to the
//! wire's types, `requests` says what each request does, `stream` keeps the order and the bounds of
//! one stream. Rules of blocks are the store's and stand in none of them.
//!
//! Supported: WriteChunk (with a piggybacked PutBlock), PutBlock, GetBlock, GetCommittedBlockLength,
//! FinalizeBlock, ReadChunk, ReadBlock, PutSmallFile, GetSmallFile, ListBlock, Echo, CreateContainer
//! (nothing to do), and our extension ReadBlocks. Everything else answers UNSUPPORTED_REQUEST.

use std::pin::Pin;
use std::sync::Arc;

use append_wire::datanode as dn;
use append_wire::datanode::xceiver_client_protocol_service_server::XceiverClientProtocolService;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::store::Store;
use convert::Refusal;

mod convert;
pub(crate) mod limits;
pub(crate) mod line;
mod requests;
mod stream;
#[cfg(test)]
mod tests;

/// What all streams share.
pub(crate) struct Shared {
    pub(crate) uuid: String,
    pub(crate) store: Arc<Store>,
    disk: Semaphore,
    answer_room: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(uuid: String, store: Arc<Store>) -> Self {
        Self {
            uuid,
            store,
            disk: Semaphore::new(limits::DISK_OPERATIONS),
            answer_room: Arc::new(Semaphore::new(limits::ANSWER_KIB)),
        }
    }

    /// Runs `f` on a thread that may block, a bounded number at a time.
    async fn on_disk<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let failed = |why: &str| Refusal::new(dn::Result::ContainerInternalError, why);
        let _turn = self
            .disk
            .acquire()
            .await
            .map_err(|_| failed("the datanode is closing"))?;
        let store = Arc::clone(&self.store);
        tokio::task::spawn_blocking(move || f(&store))
            .await
            .map_err(|e| {
                tracing::error!(error = %e, "a disk operation panicked");
                failed("the operation failed inside the datanode")
            })
    }
}

/// The datanode's gRPC service. Cheap to clone; all clones serve one store.
#[derive(Clone)]
pub struct DatanodeService {
    shared: Arc<Shared>,
}

impl DatanodeService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[tonic::async_trait]
impl XceiverClientProtocolService for DatanodeService {
    type sendStream =
        Pin<Box<dyn Stream<Item = Result<dn::ContainerCommandResponseProto, Status>> + Send>>;

    async fn send(
        &self,
        request: Request<Streaming<dn::ContainerCommandRequestProto>>,
    ) -> Result<Response<Self::sendStream>, Status> {
        let (answers, answered) = mpsc::channel(1);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(stream::read_requests(shared, request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(answered))))
    }
}
