//! The blocks of a file as its reader knows them: asked for by ranges, or whole where a server knows no ranges.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use append_wire::datanode::{GetCommittedBlockLengthRequestProto, Type as DatanodeType};
use append_wire::hdds::Pipeline;
use append_wire::om::{
    BlockRangeRequest, GetKeyInfoRequest, GetKeyInfoResponse, KeyLocation, Type,
};

use super::protocol;
use crate::Result;
use crate::dn::BlockAddress;
use crate::error::{Error, ErrorKind};
use crate::filesystem::{Shared, key_args, without};
use crate::om::Effect;
use crate::path::FsPath;
use crate::status::from_wire::HSYNC_CLIENT_ID;

/// Blocks that one question is about.
const BLOCKS_AT_ONCE: u32 = 1000;

/// Blocks that are remembered before the list is begun again.
const MOST_KNOWN: usize = 20_000;

/// Bytes of a file that lie in one block.
#[derive(Debug)]
pub(super) struct Block {
    /// Offset in the file.
    pub(super) start: u64,
    pub(super) length: u64,
    /// Offset in the block of its first byte.
    pub(super) start_in_block: u64,
    pub(super) address: BlockAddress,
}

impl Block {
    pub(super) fn end(&self) -> u64 {
        self.start + self.length
    }
}

#[derive(Debug)]
pub(super) struct BlockList {
    fs: Arc<Shared>,
    path: FsPath,
    /// File and content generation, by which ranges are asked for; none if the whole list is known.
    identity: Option<(u64, u64)>,
    published: u64,
    /// Bytes behind the published length that the last block has.
    tail: u64,
    known: Mutex<BTreeMap<u64, Arc<Block>>>,
    /// Held by who asks the server.
    asking: tokio::sync::Mutex<()>,
}

impl BlockList {
    /// Asks for a file's first blocks. Also says whether its writer may have made more durable than is published.
    pub(super) async fn open(fs: &Arc<Shared>, path: &FsPath) -> Result<(BlockList, bool)> {
        let first = BlockRangeRequest {
            from_offset: Some(0),
            max_blocks: Some(BLOCKS_AT_ONCE),
            pipelines_once: Some(true),
            ..BlockRangeRequest::default()
        };
        let ranges = fs.om.features().knows_append();
        let response = ask(fs, path, ranges.then_some(first)).await?;
        let info = response
            .key_info
            .as_ref()
            .ok_or_else(|| without("key info"))?;
        if info.is_file == Some(false) {
            return Err(Error::new(
                ErrorKind::IsDirectory,
                "a directory cannot be read",
            ));
        }
        if info.file_encryption_info.is_some() {
            return Err(Error::unsupported(
                "reading encrypted files is not built yet",
            ));
        }
        if info.ec_replication_config.is_some() {
            return Err(Error::unsupported(
                "reading erasure coded files is not built yet",
            ));
        }
        let hsynced = info.metadata.iter().any(|pair| pair.key == HSYNC_CLIENT_ID);
        let owned = info.append_owner_session_id.is_some();
        let prefix = response
            .append_status
            .as_ref()
            .and_then(|status| status.prefix_length);
        // A prefix block is never read beyond its recorded length: without a prefix the owner's last block may be one.
        let tail = hsynced && (!owned || prefix.is_some_and(|prefix| info.data_size > prefix));
        let range = response.block_range.as_ref();
        let list = BlockList {
            fs: Arc::clone(fs),
            path: path.clone(),
            identity: range.map(|range| (range.file_object_id(), range.content_generation())),
            published: info.data_size,
            tail: 0,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        };
        list.learn(&response, 0)?;
        Ok((list, tail))
    }

    pub(super) fn path(&self) -> &FsPath {
        &self.path
    }

    /// Visible length, bytes.
    pub(super) fn length(&self) -> u64 {
        self.published + self.tail
    }

    /// Asks a datanode how long the last block is. If none tells, the published length is what there is.
    pub(super) async fn look_for_tail(&mut self) {
        match self.tail_length().await {
            Ok(tail) => {
                self.tail = tail;
                self.stretch();
            }
            Err(error) => {
                tracing::warn!(path = %self.path, %error, "no datanode tells how long the last block is");
            }
        }
    }

    /// The last block reaches as far as the tail does.
    fn stretch(&self) {
        let mut known = self.known();
        let Some((start, last)) = known.pop_last() else {
            return;
        };
        let block = Block {
            start,
            length: self.length() - start,
            start_in_block: last.start_in_block,
            address: last.address.clone(),
        };
        known.insert(start, Arc::new(block));
    }

    async fn tail_length(&self) -> Result<u64> {
        let Some(last) = self.published.checked_sub(1) else {
            return Ok(0);
        };
        let blocks = self.cover(last, self.published).await?;
        let Some(block) = blocks.last() else {
            return Ok(0);
        };
        let mut failed = None;
        for node in self.fs.datanodes.members(&block.address.pipeline)? {
            let mut request = node.request(DatanodeType::GetCommittedBlockLength, &block.address);
            request.get_committed_block_length =
                Some(Box::new(GetCommittedBlockLengthRequestProto {
                    block_id: block.address.id(),
                }));
            match node.call(request).await {
                Ok(answer) => {
                    let told = answer
                        .get_committed_block_length
                        .ok_or_else(|| without("block length"))?
                        .block_length;
                    let told = u64::try_from(told).unwrap_or(0);
                    let recorded = block.start_in_block + block.length;
                    return Ok(told.saturating_sub(recorded));
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.map_or_else(|| protocol("a block without datanodes"), |e| e.into_error()))
    }

    /// The blocks that hold the bytes from `from` to `to`, in order and without gaps.
    pub(super) async fn cover(&self, from: u64, to: u64) -> Result<Vec<Arc<Block>>> {
        let mut found = Vec::new();
        let mut at = from;
        while at < to {
            let block = match self.block_at(at) {
                Some(block) => block,
                None => self.ask_for_block(at).await?,
            };
            at = block.end();
            found.push(block);
        }
        Ok(found)
    }

    /// Asks once, however many readers want the same blocks.
    async fn ask_for_block(&self, offset: u64) -> Result<Arc<Block>> {
        let _turn = self.asking.lock().await;
        if let Some(block) = self.block_at(offset) {
            return Ok(block);
        }
        self.ask_for(offset).await?;
        self.block_at(offset)
            .ok_or_else(|| protocol(format!("the server names no block for offset {offset}")))
    }

    fn block_at(&self, offset: u64) -> Option<Arc<Block>> {
        let known = self.known();
        let (_, block) = known.range(..=offset).next_back()?;
        (offset < block.end()).then(|| Arc::clone(block))
    }

    async fn ask_for(&self, offset: u64) -> Result<()> {
        // What is behind the published length belongs to the block before it.
        let offset = offset.min(self.published.saturating_sub(1));
        let range = self.identity.map(|(file, generation)| BlockRangeRequest {
            from_offset: Some(offset),
            max_blocks: Some(BLOCKS_AT_ONCE),
            file_object_id: Some(file),
            content_generation: Some(generation),
            pipelines_once: Some(true),
        });
        let response = ask(&self.fs, &self.path, range).await?;
        self.learn(&response, offset)
    }

    /// Takes the blocks of an answer. A range ends where the next one begins, or where the file does.
    fn learn(&self, response: &GetKeyInfoResponse, asked: u64) -> Result<()> {
        let info = response
            .key_info
            .as_ref()
            .ok_or_else(|| without("key info"))?;
        let locations = info
            .key_location_list
            .last()
            .map(|list| list.key_locations.as_slice())
            .unwrap_or_default();
        let end = response
            .block_range
            .as_ref()
            .and_then(|range| range.next_offset)
            .unwrap_or(info.data_size);
        let blocks = place(locations, end)?;
        if let Some(first) = blocks.first()
            && first.start > asked
        {
            return Err(protocol(format!(
                "asked for blocks from offset {asked}, got them from {}",
                first.start
            )));
        }
        let mut known = self.known();
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        for mut block in blocks {
            if block.end() > self.published {
                // Bytes that are published since the file was opened are not of this view.
                block.length = self.published.saturating_sub(block.start);
            }
            if block.length > 0 {
                if block.end() == self.published {
                    block.length += self.tail;
                }
                known.insert(block.start, Arc::new(block));
            }
        }
        Ok(())
    }

    /// Asks again for everything from now on. A list that was given whole is kept: another one could be of other content.
    pub(super) fn forget(&self) {
        if self.identity.is_some() {
            self.known().clear();
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Block>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks in their order, the last of which ends at offset `end` of the file.
fn place(locations: &[KeyLocation], end: u64) -> Result<Vec<Block>> {
    let total = locations
        .iter()
        .try_fold(0_u64, |sum, location| sum.checked_add(location.length));
    let mut at = total
        .and_then(|total| end.checked_sub(total))
        .ok_or_else(|| {
            protocol(format!(
                "blocks longer than the {end} bytes before their end"
            ))
        })?;
    let mut blocks: Vec<Block> = Vec::with_capacity(locations.len());
    let mut before: Option<Arc<Pipeline>> = None;
    for location in locations {
        let mut address = BlockAddress::of(location);
        // Neighbours usually share their datanodes: kept once, and by our server told once.
        if let Some(before) = before
            .as_ref()
            .filter(|before| location.pipeline.is_none() || ***before == *address.pipeline)
        {
            address.pipeline = Arc::clone(before);
        }
        before = Some(Arc::clone(&address.pipeline));
        if location.length == 0 {
            continue;
        }
        blocks.push(Block {
            start: at,
            length: location.length,
            start_in_block: location.offset,
            address,
        });
        at += location.length;
    }
    Ok(blocks)
}

async fn ask(
    fs: &Shared,
    path: &FsPath,
    range: Option<BlockRangeRequest>,
) -> Result<GetKeyInfoResponse> {
    let mut request = fs.om.request(Type::GetKeyInfo);
    let mut args = key_args(path);
    args.latest_version_location = Some(true);
    args.sort_datanodes = Some(true);
    request.get_key_info_request = Some(Box::new(GetKeyInfoRequest {
        key_args: args,
        assume_s3_context: None,
        block_range: range,
    }));
    let response = fs.om.call(request, Effect::Read).await?;
    response
        .get_key_info_response
        .map(|response| *response)
        .ok_or_else(|| without("key info"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(length: u64) -> KeyLocation {
        KeyLocation {
            length,
            ..KeyLocation::default()
        }
    }

    #[test]
    fn blocks_are_placed_from_their_end() {
        let blocks = place(&[location(10), location(0), location(5)], 115).unwrap();
        let places: Vec<_> = blocks.iter().map(|b| (b.start, b.end())).collect();
        assert_eq!(places, [(100, 110), (110, 115)]);
        assert!(place(&[], 0).unwrap().is_empty());
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        assert_eq!(
            place(&[location(10)], 9).unwrap_err().kind(),
            ErrorKind::Protocol
        );
        assert_eq!(
            place(&[location(u64::MAX), location(2)], 9)
                .unwrap_err()
                .kind(),
            ErrorKind::Protocol
        );
    }

    #[test]
    fn a_location_without_a_pipeline_has_that_of_the_one_before() {
        let pipeline = |name: &str| Pipeline {
            leader_id: Some(name.to_owned()),
            ..Pipeline::default()
        };
        let with = |name: Option<&str>, length| KeyLocation {
            pipeline: name.map(pipeline),
            ..location(length)
        };
        let all = [
            with(Some("a"), 0),
            with(None, 1),
            with(Some("b"), 1),
            with(None, 1),
            with(Some(""), 1),
        ];
        let blocks = place(&all, 4).unwrap();
        let names: Vec<_> = blocks
            .iter()
            .map(|block| block.address.pipeline.leader_id())
            .collect();
        assert_eq!(names, ["a", "b", "b", ""]);
    }

    #[test]
    fn neighbours_share_one_pipeline() {
        let blocks = place(&[location(1), location(1)], 2).unwrap();
        assert!(Arc::ptr_eq(
            &blocks[0].address.pipeline,
            &blocks[1].address.pipeline
        ));
    }
}
