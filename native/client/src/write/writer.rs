//! From a caller's bytes to blocks: buffers, chunks, blocks that follow each other, and what happens when a datanode fails.
//!
//! Bytes are kept until a commit on all datanodes of their block covers them. When a block fails, what it committed stays in it,
//! and everything behind goes into another block. All methods may be given up at any await: what they hold is whole there, and
//! the next call goes on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use append_wire::om::KeyLocation;
use bytes::Bytes;

use super::block::{BlockWriter, ChunkRules, Failure};
use super::chunks::Chunks;
use super::session::{Location, Publication, Session};
use crate::Result;
use crate::error::ErrorKind;

/// How long a block without the failed datanodes is asked for before one of them is accepted again.
const ELSEWHERE: Duration = Duration::from_secs(2);

/// Blocks that datanodes refused in a row before the stream gives up.
const MOST_REFUSALS: u32 = 5;

/// Failed datanodes that are remembered.
const MOST_EXCLUDED: usize = 16;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Sizes of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Largest chunk, bytes.
    pub(super) chunk: usize,
    /// Bytes that are kept because no commit covers them, at most.
    pub(super) held: usize,
    /// Largest block, bytes.
    pub(super) block: u64,
    /// How long a failure may go on before the stream gives up.
    pub(super) patience: Duration,
}

/// Failures since bytes were last committed.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    failures: u32,
    refusals: u32,
    last: String,
}

/// How much of the file the OM has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Published {
    length: u64,
    /// Blocks of this writer.
    blocks: usize,
}

/// What a publication told.
#[derive(Debug)]
struct Tried {
    blocks: Vec<Location>,
    length: u64,
}

#[derive(Debug)]
pub(super) struct Writer {
    session: Session,
    sizes: Sizes,
    rules: ChunkRules,
    /// Blocks that are finished.
    done: Vec<Location>,
    block: Option<BlockWriter>,
    /// Blocks that came with the admission, the next last.
    given: Vec<KeyLocation>,
    /// Bytes behind `committed`, cut into chunks.
    chunks: VecDeque<Bytes>,
    /// How many of them were sent to the block.
    sent: usize,
    /// Bytes in them.
    held: usize,
    next: Chunks,
    /// Offset in the file up to which blocks are committed.
    committed: u64,
    published: Published,
    /// The publication that was tried last, while nobody knows whether the OM has it.
    tried: Option<Tried>,
    /// What an ordinary writer published last: its list is always whole.
    told: Option<Tried>,
    excluded: Vec<String>,
    trouble: Option<Trouble>,
}

impl Writer {
    pub(super) fn new(
        session: Session,
        mut given: Vec<KeyLocation>,
        sizes: Sizes,
        rules: ChunkRules,
    ) -> Writer {
        given.reverse();
        Writer {
            committed: session.start,
            published: Published {
                length: session.start,
                blocks: 0,
            },
            session,
            sizes,
            rules,
            done: Vec::new(),
            block: None,
            given,
            chunks: VecDeque::new(),
            sent: 0,
            held: 0,
            next: Chunks::new(sizes.chunk, sizes.held / 2 / sizes.chunk),
            tried: None,
            told: None,
            excluded: Vec::new(),
            trouble: None,
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Offset in the file of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.committed + length_of(self.held) + length_of(self.next.filled())
    }

    /// Takes `length` bytes, which `take` copies, some of them at each call, in their order.
    pub(super) async fn write(
        &mut self,
        length: usize,
        mut take: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.session.make_sure().await?;
        let mut left = length;
        while left > 0 {
            self.session.check()?;
            let space = self.next.space(left);
            let count = space.len();
            take(space)?;
            self.next.advance(count);
            left -= count;
            if self.next.is_whole() {
                self.cut();
                self.push(Flush::Room).await?;
            }
        }
        Ok(())
    }

    /// Makes the buffer a chunk.
    fn cut(&mut self) {
        if let Some(chunk) = self.next.cut() {
            self.held += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// Makes everything durable and publishes it, if there is anything that is not.
    pub(super) async fn sync(&mut self) -> Result<()> {
        self.session.make_sure().await?;
        self.cut();
        self.push(Flush::Sync).await?;
        if self.position() == self.published.length {
            return Ok(());
        }
        self.publish(Publication::Hsync).await
    }

    /// Makes everything durable, publishes it and ends the session.
    pub(super) async fn finish(&mut self) -> Result<()> {
        self.session.make_sure().await?;
        self.cut();
        self.push(Flush::End).await?;
        self.publish(Publication::Close).await
    }

    /// Ends the session at what is published; at what was tried, if the OM may have that: it takes nothing back, and refuses to
    /// end below what it has.
    pub(super) async fn abandon(&mut self) -> Result<()> {
        self.session.let_go();
        self.chunks.clear();
        self.block = None;
        if !self.session.can_end() {
            // Ozone's ordinary writers are cleaned up by the server.
            return Ok(());
        }
        let (blocks, length) = match self.tried.take().or(self.told.take()) {
            Some(tried) => (tried.blocks, tried.length),
            None if self.session.is_append() => (Vec::new(), self.published.length),
            None => return self.session.delete_created().await,
        };
        self.session
            .publish(&blocks, length, Publication::Close)
            .await
    }

    async fn publish(&mut self, publication: Publication) -> Result<()> {
        let mut blocks = self.done.clone();
        blocks.extend(self.block.as_ref().and_then(BlockWriter::location));
        let length = self.committed;
        // The last published block may have grown, those before it are known.
        let from = if self.session.is_append() {
            self.published.blocks.saturating_sub(1)
        } else {
            0
        };
        let tail = blocks.get(from..).unwrap_or_default();
        // Stays when the caller gives up.
        let before = self.tried.replace(Tried {
            blocks: tail.to_vec(),
            length,
        });
        if let Err(error) = self.session.publish(tail, length, publication).await {
            if error.kind() != ErrorKind::OutcomeUnknown {
                self.tried = before;
            }
            return Err(error);
        }
        let tried = self.tried.take();
        self.told = tried.filter(|_| !self.session.is_append());
        self.published = Published {
            length,
            blocks: blocks.len(),
        };
        Ok(())
    }

    /// Sends chunks and waits as far as `flush` asks.
    async fn push(&mut self, flush: Flush) -> Result<()> {
        loop {
            self.session.check()?;
            if let Err(failure) = self.push_once(flush).await? {
                self.mend(failure).await?;
                continue;
            }
            return Ok(());
        }
    }

    async fn push_once(&mut self, flush: Flush) -> Result<std::result::Result<(), Failure>> {
        loop {
            // Looked at before the next chunk is sent: whoever waited for the answers of a full block may have given up.
            if self.block.as_ref().is_some_and(|block| block.room() == 0) {
                if let Err(failure) = self.settle(true).await {
                    return Ok(Err(failure));
                }
                self.retire();
            }
            if self.sent >= self.chunks.len() {
                break;
            }
            self.need_block().await?;
            self.send_next(flush)?;
            if self.held > self.sizes.held
                && let Err(failure) = self.settle(false).await
            {
                return Ok(Err(failure));
            }
        }
        if flush == Flush::Room {
            return Ok(Ok(()));
        }
        if let Some(block) = self.block.as_mut().filter(|block| block.loose() > 0) {
            block.commit(flush == Flush::End);
        }
        Ok(self.settle(true).await)
    }

    /// Sends the next chunk, or as much of it as the block takes.
    fn send_next(&mut self, flush: Flush) -> Result<()> {
        let (Some(block), Some(chunk)) = (self.block.as_mut(), self.chunks.get_mut(self.sent))
        else {
            return Ok(());
        };
        let room = usize::try_from(block.room()).unwrap_or(usize::MAX);
        if chunk.len() > room {
            let rest = chunk.split_off(room);
            self.chunks.insert(self.sent + 1, rest);
        }
        let Some(chunk) = self.chunks.get(self.sent).cloned() else {
            return Ok(());
        };
        let fills = chunk.len() == room;
        let last = self.sent + 1 == self.chunks.len();
        let loose = block.loose() + length_of(chunk.len());
        let commit =
            fills || (last && flush != Flush::Room) || loose >= length_of(self.sizes.held / 2);
        block.send(chunk, commit, fills || (last && flush == Flush::End))?;
        self.sent += 1;
        Ok(())
    }

    /// Waits for answers: for all, or until little enough is held.
    async fn settle(&mut self, all: bool) -> std::result::Result<(), Failure> {
        while let Some(block) = self.block.as_mut().filter(|block| block.has_pending()) {
            if !all && self.held <= self.sizes.held {
                break;
            }
            block.settle_one().await?;
            let committed = block.start() + block.committed();
            self.advance(committed);
        }
        Ok(())
    }

    /// Lets go of chunks that are committed.
    fn advance(&mut self, committed: u64) {
        if committed <= self.committed {
            return;
        }
        self.trouble = None;
        while let Some(chunk) = self.chunks.front() {
            let end = self.committed + length_of(chunk.len());
            if end > committed {
                break;
            }
            self.held -= chunk.len();
            if let Some(chunk) = self.chunks.pop_front() {
                self.next.give_back(chunk);
            }
            self.sent = self.sent.saturating_sub(1);
            self.committed = end;
        }
    }

    /// The block is finished, as long as it is committed.
    fn retire(&mut self) {
        if let Some(block) = self.block.take() {
            self.done.extend(block.location());
        }
        self.sent = 0;
    }

    async fn need_block(&mut self) -> Result<()> {
        if self.block.is_some() {
            return Ok(());
        }
        let location = match self.given.pop() {
            Some(given) => given,
            None => self.allocate().await?,
        };
        let names_start = self.session.is_append();
        let block = BlockWriter::open(
            &self.session.fs.datanodes,
            &location,
            self.committed,
            self.sizes.block,
            names_start,
            self.rules,
        )?;
        self.block = Some(block);
        Ok(())
    }

    async fn allocate(&mut self) -> Result<KeyLocation> {
        if !self.excluded.is_empty() {
            let deadline = Instant::now() + ELSEWHERE;
            match self.session.allocate(&self.excluded, Some(deadline)).await {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Unavailable | ErrorKind::NoSpace | ErrorKind::Timeout
                    ) =>
                {
                    // There is nobody else: what failed may be back.
                    self.excluded.clear();
                }
                other => return other,
            }
        }
        let allocated = self.session.allocate(&[], None).await;
        allocated.map_err(|error| match &self.trouble {
            Some(trouble) => error.after(&trouble.last),
            None => error,
        })
    }

    /// After a failure: the same block once more, then others.
    async fn mend(&mut self, failure: Failure) -> Result<()> {
        let trouble = self.trouble.get_or_insert_with(|| Trouble {
            since: Instant::now(),
            failures: 0,
            refusals: 0,
            last: String::new(),
        });
        trouble.failures += 1;
        trouble.last = failure.error.to_string();
        if !failure.is_passing() {
            trouble.refusals += 1;
        }
        tracing::warn!(
            session = self.session.id(),
            failures = trouble.failures,
            error = %failure.error,
            "a datanode failed"
        );
        let failures = trouble.failures;
        if trouble.refusals >= MOST_REFUSALS || trouble.since.elapsed() >= self.sizes.patience {
            self.retire();
            return Err(failure.error.into_error().with_session(self.session.id()));
        }
        self.sent = 0;
        match self.block.as_mut() {
            Some(block) if failures == 1 && failure.is_passing() => {
                block.reopen(&self.session.fs.datanodes)?;
            }
            _ => {
                if failure.is_nodes() && self.excluded.len() < MOST_EXCLUDED {
                    self.excluded.push(failure.node);
                }
                // Preallocated blocks are on datanodes that were chosen before.
                self.given.clear();
                self.retire();
            }
        }
        if failures > 2 {
            let doubled = FIRST_WAIT.saturating_mul(1 << (failures - 3).min(8));
            tokio::time::sleep(doubled.min(LONGEST_WAIT)).await;
        }
        Ok(())
    }
}

/// How far chunks are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Sent, and little enough is held.
    Room,
    /// Committed.
    Sync,
    /// Committed, and no more will come.
    End,
}

fn length_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
