//! Settles the blocks of a dead writer at their datanodes: closes each to the writer and learns how long it is.

use append_wire::datanode::{BlockData, FinalizeBlockRequestProto, Result as Code, Type};

use super::settle::Found;
use crate::Result;
use crate::dn::{BlockAddress, Datanode, Datanodes, DnError};

/// Names in a commit where in the file the block begins.
const APPEND_START: &str = "appendStart";

/// What one datanode says of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Absent,
    Closed { start: Option<u64>, length: u64 },
}

/// Closes a block on all its datanodes. Bytes that one of them has not are bytes that no commit covers, so the shortest counts.
///
/// # Errors
/// A datanode did not answer, or answered with anything but the block or "no such block": then nobody knows.
pub(super) async fn close(
    datanodes: &Datanodes,
    block: &BlockAddress,
) -> Result<std::result::Result<Found, DnError>> {
    let mut found: Option<Found> = None;
    for node in datanodes.members(&block.pipeline)? {
        let told = match close_at(&node, block).await {
            Ok(Told::Absent) => Found::Absent,
            Ok(Told::Closed { start, length }) => Found::Settled { start, length },
            Err(error) => return Ok(Err(error)),
        };
        found = Some(match (found, told) {
            (None, told) => told,
            (Some(before), told) => shorter(before, told),
        });
    }
    Ok(Ok(found.unwrap_or(Found::Unknown)))
}

fn shorter(one: Found, other: Found) -> Found {
    match (one, other) {
        (Found::Settled { length: a, .. }, Found::Settled { length: b, .. }) => {
            if a <= b {
                one
            } else {
                other
            }
        }
        (Found::Absent, _) | (_, Found::Absent) => Found::Absent,
        _ => Found::Unknown,
    }
}

async fn close_at(node: &Datanode, block: &BlockAddress) -> std::result::Result<Told, DnError> {
    let mut request = node.request(Type::FinalizeBlock, block);
    request.finalize_block = Some(Box::new(FinalizeBlockRequestProto {
        block_id: block.id(),
    }));
    match node.call(request).await {
        Ok(answer) => answer
            .finalize_block
            .and_then(|finalized| told(&finalized.block_data))
            .ok_or_else(|| DnError::Refused {
                node: node.id().to_owned(),
                code: Code::MalformedRequest,
                why: "an answer without the block".to_owned(),
            }),
        Err(DnError::Refused {
            code: Code::NoSuchBlock,
            ..
        }) => Ok(Told::Absent),
        Err(error) => Err(error),
    }
}

fn told(block: &BlockData) -> Option<Told> {
    let length = match block.size {
        Some(size) => u64::try_from(size).ok()?,
        None => block.chunks.iter().map(|chunk| chunk.len).sum(),
    };
    let start = block
        .metadata
        .iter()
        .find(|pair| pair.key == APPEND_START)
        .and_then(|pair| pair.value().parse().ok());
    Some(Told::Closed { start, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::datanode::KeyValue;

    #[test]
    fn a_block_tells_its_length_and_where_it_begins() {
        let block = |size: Option<i64>, start: &str| BlockData {
            size,
            metadata: vec![KeyValue {
                key: APPEND_START.to_owned(),
                value: Some(start.to_owned()),
            }],
            ..BlockData::default()
        };
        assert_eq!(
            told(&block(Some(7), "12")),
            Some(Told::Closed {
                start: Some(12),
                length: 7
            })
        );
        assert_eq!(
            told(&block(None, "-3")),
            Some(Told::Closed {
                start: None,
                length: 0
            })
        );
        assert_eq!(told(&block(Some(-1), "12")), None);
    }

    #[test]
    fn of_two_replicas_the_shorter_counts() {
        let long = Found::Settled {
            start: Some(1),
            length: 9,
        };
        let short = Found::Settled {
            start: Some(1),
            length: 4,
        };
        assert_eq!(shorter(long, short), short);
        assert_eq!(shorter(short, long), short);
        assert_eq!(shorter(long, Found::Absent), Found::Absent);
        assert_eq!(shorter(long, Found::Unknown), Found::Unknown);
    }
}
