//! One stream of requests: they are executed in the order in which they come and answered in that
//! order, but a commit that waits for the disk does not keep the next request from being executed.

use std::sync::Arc;
use std::time::Instant;

use append_wire::datanode as dn;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

use super::Shared;
use super::convert::{Refusal, block_id_to_read, block_piece};
use super::limits::{
    ANSWER_KIB, DEFAULT_READ_BLOCK_REPLY, MAX_ECHO, MAX_ECHO_SLEEP, MAX_READ_BLOCK_REPLY,
    SLOW_CLIENT,
};
use super::requests::{Answer, execute, finalize, finalized, payload, refusal_of, response_to};
use crate::store::{BlockId, Position, Store, StoreError, to_u64, to_usize};

type Request = dn::ContainerCommandRequestProto;
type Response = dn::ContainerCommandResponseProto;

/// An answer whose turn will come.
struct Waiting {
    /// The request without its payload, for the answer when the disk fails.
    head: Request,
    answer: Result<Answer, Refusal>,
    /// Holds the memory of the answer's data.
    _room: Option<OwnedSemaphorePermit>,
    began: Instant,
}

/// What stands in the queue of a stream's answers.
enum Next {
    Answer(Box<Waiting>),
    /// Ends the stream.
    Fail(Status),
}

/// Executes the requests of a stream until it ends.
pub(super) async fn read_requests(
    shared: Arc<Shared>,
    mut requests: Streaming<Request>,
    answers: mpsc::Sender<Result<Response, Status>>,
) {
    let (queue, queued) = mpsc::channel(super::limits::ANSWERS_WAITING);
    let writer = tokio::spawn(write_answers(Arc::clone(&shared), queued, answers));
    let mut last = None;
    loop {
        let received = tokio::select! {
            received = requests.message() => received,
            // Nobody takes the answers any more.
            () = queue.closed() => break,
        };
        let request = match received {
            Ok(Some(request)) => request,
            Ok(None) => break,
            Err(status) => {
                tracing::debug!(%status, "a stream of requests broke off");
                break;
            }
        };
        if !serve(&shared, request, &mut last, &queue).await {
            break;
        }
    }
    drop(queue);
    if writer.await.is_err() {
        tracing::error!("answering a stream panicked");
    }
}

/// Executes one request; `false` when nobody waits for answers any more.
async fn serve(
    shared: &Arc<Shared>,
    request: Request,
    last: &mut Option<Position>,
    queue: &mpsc::Sender<Next>,
) -> bool {
    let began = Instant::now();
    let kind = dn::Type::try_from(request.cmd_type).unwrap_or(dn::Type::UnsetCommand);
    let head = head_of(&request);
    // A stream sees its own commits.
    if !writes(kind)
        && let Some(at) = last.take()
        && let Err(e) = shared.store.durable(at).await
    {
        return push(queue, head, Err(e.into()), None, began).await;
    }
    if let Err(refusal) = addressed_to_us(shared, &request) {
        return push(queue, head, Err(refusal), None, began).await;
    }
    match kind {
        dn::Type::ReadBlock => return read_block(shared, &request, queue).await,
        dn::Type::Echo => {
            let answer = echo(shared, &request).await;
            return push(queue, head, answer, None, began).await;
        }
        _ => {}
    }
    let answer = if kind == dn::Type::FinalizeBlock {
        finalize_block(shared, request).await
    } else {
        let done = shared
            .on_disk(move |store| {
                let answer = execute(store, &request, kind);
                if let Ok(Answer {
                    after: Some(at), ..
                }) = &answer
                {
                    store.sync(*at);
                }
                answer
            })
            .await;
        done.unwrap_or_else(Err)
    };
    if let Ok(Answer {
        after: Some(at), ..
    }) = &answer
    {
        *last = Some((*at).max(last.unwrap_or_default()));
    }
    let Ok(room) = room_for(shared, &answer).await else {
        return false;
    };
    push(queue, head, answer, room, began).await
}

async fn push(
    queue: &mpsc::Sender<Next>,
    head: Request,
    answer: Result<Answer, Refusal>,
    room: Option<OwnedSemaphorePermit>,
    began: Instant,
) -> bool {
    let waiting = Box::new(Waiting {
        head,
        answer,
        _room: room,
        began,
    });
    queue.send(Next::Answer(waiting)).await.is_ok()
}

pub(super) fn head_of(request: &Request) -> Request {
    Request {
        cmd_type: request.cmd_type,
        trace_id: request.trace_id.clone(),
        client_id: request.client_id.clone(),
        call_id: request.call_id,
        ..Request::default()
    }
}

pub(super) fn writes(kind: dn::Type) -> bool {
    matches!(
        kind,
        dn::Type::WriteChunk | dn::Type::PutBlock | dn::Type::PutSmallFile
    )
}

/// A client that believes to speak to another datanode must not take "no such block" from us.
pub(super) fn addressed_to_us(shared: &Shared, request: &Request) -> Result<(), Refusal> {
    let uuid = &request.datanode_uuid;
    if !uuid.is_empty() && !uuid.eq_ignore_ascii_case(&shared.uuid) {
        return Err(Refusal::new(
            dn::Result::InvalidArgument,
            format!(
                "this is datanode {}, the request is for {uuid}",
                shared.uuid
            ),
        ));
    }
    Ok(())
}

/// Waits for room for the data that an answer carries.
async fn room_for(
    shared: &Shared,
    answer: &Result<Answer, Refusal>,
) -> Result<Option<OwnedSemaphorePermit>, tokio::sync::AcquireError> {
    let Ok(Answer { response, .. }) = answer else {
        return Ok(None);
    };
    let len = prost::Message::encoded_len(response);
    room(shared, len).await
}

async fn room(
    shared: &Shared,
    len: usize,
) -> Result<Option<OwnedSemaphorePermit>, tokio::sync::AcquireError> {
    let kib = len.div_ceil(1024).min(ANSWER_KIB);
    let Ok(kib) = u32::try_from(kib) else {
        return Ok(None);
    };
    Arc::clone(&shared.answer_room)
        .acquire_many_owned(kib)
        .await
        .map(Some)
}

async fn finalize_block(shared: &Arc<Shared>, request: Request) -> Result<Answer, Refusal> {
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    let (id, at) = shared
        .on_disk(move |store| finalize(store, &asked))
        .await??;
    shared.store.durable(at).await?;
    shared
        .on_disk(move |store| finalized(store, &request, id))
        .await?
        .map(Answer::from)
}

async fn echo(shared: &Shared, request: &Request) -> Result<Answer, Refusal> {
    let asked = payload(request.echo.as_deref())?;
    let invalid = || Refusal::new(dn::Result::InvalidArgument, "echo beyond its limits");
    let len = usize::try_from(asked.payload_size_resp.unwrap_or(0)).map_err(|_| invalid())?;
    let ms = u64::try_from(asked.sleep_time_ms.unwrap_or(0)).map_err(|_| invalid())?;
    let sleep = std::time::Duration::from_millis(ms);
    if len > MAX_ECHO || sleep > MAX_ECHO_SLEEP {
        return Err(invalid());
    }
    if !sleep.is_zero() {
        tokio::time::sleep(sleep).await;
    }
    Ok(Response {
        echo: Some(Box::new(dn::EchoResponseProto {
            payload: Some(Bytes::from(vec![0; len])),
            datanode_uuid: Some(shared.uuid.clone()),
        })),
        ..response_to(request, dn::Result::Success)
    }
    .into())
}

/// Streams a range of a block. A range that begins at or behind the committed length ends the stream
/// with OUT_OF_RANGE, as Ozone's clients expect.
async fn read_block(shared: &Arc<Shared>, request: &Request, queue: &mpsc::Sender<Next>) -> bool {
    let head = head_of(request);
    let began = Instant::now();
    let range = match range_of(shared, request).await {
        Ok(range) => range,
        Err(refusal) => return push(queue, head, Err(refusal), None, began).await,
    };
    let Range {
        id,
        offset,
        end,
        length,
        step,
    } = range;
    if offset >= length {
        let status = Status::out_of_range(format!(
            "block {id}: offset {offset} is at or beyond its length {length}"
        ));
        return queue.send(Next::Fail(status)).await.is_ok();
    }
    let mut at = offset;
    while at < end {
        let Ok(room) = room(shared, to_usize(step)).await else {
            return false;
        };
        let len = step.min(end - at);
        let pieces = shared
            .on_disk(move |store| store.read(id, at, len).map_err(Refusal::from))
            .await
            .and_then(|done| done);
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(refusal) => return push(queue, head, Err(refusal), None, began).await,
        };
        let mut room = Some(room).flatten();
        for piece in pieces {
            at = piece.offset + to_u64(piece.data.len());
            let response = Response {
                read_block: Some(Box::new(block_piece(piece))),
                ..response_to(&head, dn::Result::Success)
            };
            if !push(queue, head.clone(), Ok(response.into()), room.take(), began).await {
                return false;
            }
        }
    }
    true
}

struct Range {
    id: BlockId,
    offset: u64,
    end: u64,
    length: u64,
    step: u64,
}

async fn range_of(shared: &Arc<Shared>, request: &Request) -> Result<Range, Refusal> {
    let asked = payload(request.read_block.as_deref())?;
    let id = block_id_to_read(&asked.block_id)?;
    let length = shared
        .on_disk(move |store: &Store| -> Result<u64, StoreError> { store.committed_length(id) })
        .await??;
    let end = match asked.length {
        None | Some(0) => length,
        Some(len) => asked.offset.saturating_add(len).min(length),
    };
    let step = match asked.response_data_size {
        None | Some(0) => DEFAULT_READ_BLOCK_REPLY,
        Some(len) => u64::from(len).min(MAX_READ_BLOCK_REPLY),
    };
    Ok(Range {
        id,
        offset: asked.offset,
        end,
        length,
        step,
    })
}

/// Sends the answers of a stream in their order, each when what it rests on is durable.
async fn write_answers(
    shared: Arc<Shared>,
    mut queued: mpsc::Receiver<Next>,
    answers: mpsc::Sender<Result<Response, Status>>,
) {
    while let Some(next) = queued.recv().await {
        let (answer, room) = match next {
            Next::Answer(waiting) => {
                let Waiting {
                    head,
                    answer,
                    _room,
                    began,
                } = *waiting;
                let response = settle(&shared, &head, answer).await;
                count(&response, began);
                (Ok(response), _room)
            }
            Next::Fail(status) => (Err(status), None),
        };
        let last = answer.is_err();
        match tokio::time::timeout(SLOW_CLIENT, answers.send(answer)).await {
            Ok(Ok(())) if !last => drop(room),
            Ok(_) => return,
            Err(_) => {
                tracing::info!("a client does not take its answers; its stream ends");
                return;
            }
        }
    }
}

pub(super) async fn settle(
    shared: &Shared,
    head: &Request,
    answer: Result<Answer, Refusal>,
) -> Response {
    match answer {
        Ok(Answer {
            response,
            after: None,
        }) => response,
        Ok(Answer {
            response,
            after: Some(at),
        }) => match shared.store.durable(at).await {
            Ok(()) => response,
            Err(e) => refusal_of(head, e.into()),
        },
        Err(refusal) => refusal_of(head, refusal),
    }
}

pub(super) fn count(response: &Response, began: Instant) {
    let kind = dn::Type::try_from(response.cmd_type).map_or("unknown", |k| k.as_str_name());
    let result = dn::Result::try_from(response.result).map_or("unknown", |r| r.as_str_name());
    metrics::counter!("datanode_requests_total", "type" => kind, "result" => result).increment(1);
    metrics::histogram!("datanode_request_seconds", "type" => kind)
        .record(began.elapsed().as_secs_f64());
}
