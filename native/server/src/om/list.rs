//! Listings of directories and of keys.

use super::failure::Failure;
use super::lookup::{Blocks, file_status, fit_an_answer};
use super::render::{self, Naming};
use super::{Om, done, translate};
use append_namespace::RefusalKind;
use append_namespace::read;
use append_namespace::view::Node;
use append_wire::om::{
    BasicKeyInfo, KeyInfo, ListKeysLightResponse, ListKeysRequest, ListKeysResponse,
    ListStatusLightResponse, ListStatusRequest, ListStatusResponse, OmResponse,
    OzoneFileStatusProtoLight,
};
use std::sync::Arc;

/// Entries in one listing of a directory at most. Ozone's Java client takes a shorter answer than it asked for as the end, and asks
/// for 5,000 at most, so the bound stands above that.
const MAX_STATUSES: u64 = 10_000;

/// Keys in one listing at most, and when the caller names no number: Ozone's own bound.
const MAX_KEYS: i32 = 1_000;

impl Om {
    pub(super) async fn list_status(
        &self,
        request: ListStatusRequest,
    ) -> Result<OmResponse, Failure> {
        let blocks = Blocks::of(&request.key_args);
        let block_size = self.consensus.limits().block_size;
        let engine = Arc::clone(&self.engine);
        let listing = Listing::of(request)?;
        let statuses = self
            .read_many(move |rows| {
                let nodes = listing.nodes(rows)?;
                if matches!(blocks, Blocks::All) {
                    check_blocks(nodes.iter().map(block_count))?;
                }
                nodes
                    .iter()
                    .map(|node| file_status(&*engine, rows, node, blocks, block_size))
                    .collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let answer = ListStatusResponse { statuses };
        Ok(OmResponse {
            list_status_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn list_status_light(
        &self,
        request: ListStatusRequest,
    ) -> Result<OmResponse, Failure> {
        let block_size = self.consensus.limits().block_size;
        let listing = Listing::of(request)?;
        let (volume, bucket) = (listing.path.volume.clone(), listing.path.bucket.clone());
        let nodes = self.read_many(move |rows| listing.nodes(rows)).await?;
        let statuses = nodes
            .iter()
            .map(|node| OzoneFileStatusProtoLight {
                volume_name: Some(volume.clone()),
                bucket_name: Some(bucket.clone()),
                basic_key_info: basic(node, Naming::Path),
                block_size: Some(block_size),
                is_directory: Some(!matches!(node, Node::File(_))),
            })
            .collect();
        let answer = ListStatusLightResponse { statuses };
        Ok(OmResponse {
            list_status_light_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn list_keys(&self, request: ListKeysRequest) -> Result<OmResponse, Failure> {
        let (nodes, truncated) = self.keys(request).await?;
        let key_info: Vec<KeyInfo> = nodes
            .iter()
            .filter_map(|node| match node {
                Node::File(file) => Some(render::file_info(file, None)),
                Node::Directory(directory) => Some(render::directory_info(directory, Naming::Key)),
                Node::BucketRoot => None,
            })
            .collect();
        let answer = ListKeysResponse {
            key_info,
            is_truncated: Some(truncated),
        };
        Ok(OmResponse {
            list_keys_response: Some(Box::new(answer)),
            ..done()
        })
    }

    pub(super) async fn list_keys_light(
        &self,
        request: ListKeysRequest,
    ) -> Result<OmResponse, Failure> {
        let (nodes, truncated) = self.keys(request).await?;
        let answer = ListKeysLightResponse {
            basic_key_info: nodes
                .iter()
                .filter_map(|node| basic(node, Naming::Key))
                .collect(),
            is_truncated: Some(truncated),
        };
        Ok(OmResponse {
            list_keys_light_response: Some(Box::new(answer)),
            ..done()
        })
    }

    async fn keys(&self, request: ListKeysRequest) -> Result<(Vec<Node>, bool), Failure> {
        let max = match request.count {
            Some(asked) if asked > 0 => asked.min(MAX_KEYS),
            _ => MAX_KEYS,
        };
        let max = usize::try_from(max).unwrap_or_default();
        let prefix = request.prefix.unwrap_or_default();
        let after = request.start_key.unwrap_or_default();
        if translate::in_snapshot(&prefix) {
            return Err(Failure::refused(
                RefusalKind::FileNotFound,
                format!("{prefix}: no such snapshot"),
            ));
        }
        let (volume, bucket) = (request.volume_name, request.bucket_name);
        self.read_many(move |rows| Ok(read::keys(rows, &volume, &bucket, &prefix, &after, max)??))
            .await
    }
}

/// A directory to list.
struct Listing {
    path: append_namespace::command::KeyPath,
    start: String,
    recursive: bool,
    partial_prefix: bool,
    max: usize,
}

impl Listing {
    fn of(request: ListStatusRequest) -> Result<Listing, Failure> {
        let max = match request.num_entries {
            0 => MAX_STATUSES,
            asked => asked.min(MAX_STATUSES),
        };
        Ok(Listing {
            path: translate::readable(&request.key_args, RefusalKind::FileNotFound)?,
            recursive: request.recursive,
            partial_prefix: request.allow_partial_prefix(),
            start: request.start_key,
            max: usize::try_from(max).unwrap_or_default(),
        })
    }

    fn nodes(&self, rows: &dyn append_namespace::Rows) -> Result<Vec<Node>, Failure> {
        Ok(read::list(
            rows,
            &self.path,
            &self.start,
            self.recursive,
            self.partial_prefix,
            self.max,
        )??)
    }
}

fn basic(node: &Node, naming: Naming) -> Option<BasicKeyInfo> {
    match node {
        Node::File(file) => Some(render::basic_file_info(file)),
        Node::Directory(directory) => Some(render::basic_directory_info(directory, naming)),
        Node::BucketRoot => None,
    }
}

fn block_count(node: &Node) -> u64 {
    match node {
        Node::File(file) => file.block_count,
        Node::Directory(_) | Node::BucketRoot => 0,
    }
}

/// Refuses a page whose files have more blocks than an answer holds, before their locations are made: thousands of large files in one
/// directory would fill the memory.
fn check_blocks(counts: impl Iterator<Item = u64>) -> Result<(), Failure> {
    let blocks = counts.fold(0, u64::saturating_add);
    if fit_an_answer(blocks) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "the files of this page have {blocks} blocks, too many for one answer: ask for fewer entries, or for none of their blocks"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_as_many_blocks_as_one_answer() {
        let small = [1_000; 300];
        assert!(check_blocks(small.into_iter()).is_ok());
        let large = [100_000; 4];
        assert!(check_blocks(large.into_iter().take(3)).is_ok());
        assert!(check_blocks(large.into_iter()).is_err());
        assert!(check_blocks([u64::MAX, u64::MAX].into_iter()).is_err());
    }
}
