//! Blocks as locations with the pipelines of their holders.

use super::failure::Failure;
use super::render::{self, Location};
use crate::engine::BlockEngine;
use append_namespace::RowsError;
use append_namespace::reply::GivenBlock;
use append_namespace::rows::Rows;
use append_namespace::view::{BlockView, SuffixBlock};
use append_wire::hdds::Pipeline;
use append_wire::om::KeyLocation;
use std::collections::BTreeMap;

/// Pipelines of holders, each looked up once for one answer.
pub(super) struct Locator<'a> {
    engine: &'a dyn BlockEngine,
    rows: &'a dyn Rows,
    known: BTreeMap<u32, Option<Pipeline>>,
}

impl<'a> Locator<'a> {
    pub(super) fn new(engine: &'a dyn BlockEngine, rows: &'a dyn Rows) -> Locator<'a> {
        Locator {
            engine,
            rows,
            known: BTreeMap::new(),
        }
    }

    /// Blocks that a reader is shown. With `once`, a pipeline that is that of the block before is left out.
    pub(super) fn shown(
        &mut self,
        blocks: &[BlockView],
        once: bool,
    ) -> Result<Vec<KeyLocation>, Failure> {
        let mut before = None;
        blocks
            .iter()
            .map(|block| {
                let location = Location {
                    container: block.container,
                    local: block.local,
                    bcsid: block.bcsid,
                    start_in_block: block.start_in_block,
                    length: block.length,
                };
                let pipeline = match before.replace(block.holder) {
                    Some(holder) if once && holder == block.holder => None,
                    // Nothing would be read as the one before.
                    _ if once => Some(self.pipeline(block.holder)?.unwrap_or_default()),
                    _ => self.pipeline(block.holder)?,
                };
                Ok(render::location(location, pipeline))
            })
            .collect()
    }

    /// Blocks that a writer is given, each as long as it may become.
    pub(super) fn given(&mut self, blocks: &[GivenBlock]) -> Result<Vec<KeyLocation>, Failure> {
        blocks
            .iter()
            .map(|block| {
                let location = Location {
                    container: block.container,
                    local: block.local,
                    bcsid: 0,
                    start_in_block: 0,
                    length: block.capacity,
                };
                Ok(render::location(location, self.pipeline(block.holder)?))
            })
            .collect()
    }

    /// Blocks that a helper must settle, each as long as it is published.
    pub(super) fn suffix(&mut self, blocks: &[SuffixBlock]) -> Result<Vec<KeyLocation>, Failure> {
        blocks
            .iter()
            .map(|block| {
                let location = Location {
                    container: block.container,
                    local: block.local,
                    bcsid: block.bcsid,
                    start_in_block: 0,
                    length: block.published,
                };
                Ok(render::location(location, self.pipeline(block.holder)?))
            })
            .collect()
    }

    fn pipeline(&mut self, holder: u32) -> Result<Option<Pipeline>, RowsError> {
        if let Some(known) = self.known.get(&holder) {
            return Ok(known.clone());
        }
        let found = self.engine.locate(self.rows, holder)?;
        if found.is_none() {
            tracing::warn!(holder, "a block's holder is not registered");
        }
        let pipeline = found.as_ref().map(render::pipeline);
        self.known.insert(holder, pipeline.clone());
        Ok(pipeline)
    }
}
