//! How large a command may be. Its work and its rows grow with it, and it stands in the log: what none could carry out in reasonable
//! time would stop every replay as well.

use crate::command::{Command, Limits, Pair, Publish};
use crate::reply::{Refusal, RefusalKind};
use prost::Message;

/// Encoded bytes of a command beside the keys that it deletes and the blocks that it publishes; of a file's metadata, too.
const MAX_BYTES: usize = 64 << 10;
/// Keys that one command deletes.
const MAX_DELETED_KEYS: usize = 10_000;
/// Keys that one command renames.
const MAX_RENAMED_KEYS: usize = 1_000;

/// Refuses a command that is too large.
pub(crate) fn check(command: &Command, limits: &Limits) -> Result<(), Refusal> {
    let bytes = match command {
        // Bounded by its own rule, or the server's own.
        Command::RenewLeases(_)
        | Command::RegisterHolder(_)
        | Command::Configure(_)
        | Command::Cleanup(_)
        | Command::Sweep(_)
        | Command::Finalize(_) => 0,
        Command::DeleteKeys(delete) => {
            let keys = delete.keys.len();
            if keys > MAX_DELETED_KEYS {
                return too_large(format!(
                    "{keys} keys in one deletion, at most {MAX_DELETED_KEYS} are allowed"
                ));
            }
            delete.bucket.encoded_len()
        }
        Command::Publish(publish) => {
            let blocks = u64::try_from(publish.blocks.len()).unwrap_or(u64::MAX);
            if blocks > limits.max_blocks_per_file {
                return Err(Refusal::new(
                    RefusalKind::TooManyBlocks,
                    format!(
                        "{blocks} blocks in one publication, and a file may have {}",
                        limits.max_blocks_per_file
                    ),
                ));
            }
            beside_blocks(publish)
        }
        Command::RenameKeys(rename) => {
            let keys = rename.renames.len();
            if keys > MAX_RENAMED_KEYS {
                return too_large(format!(
                    "{keys} keys in one rename, at most {MAX_RENAMED_KEYS} are allowed"
                ));
            }
            rename.bucket.encoded_len()
        }
        other => other.encoded_len(),
    };
    if bytes > MAX_BYTES {
        return too_large(format!(
            "names and attributes of {bytes} bytes, at most {MAX_BYTES} are allowed"
        ));
    }
    Ok(())
}

/// Refuses metadata that has grown too large by merging.
pub(crate) fn check_metadata(metadata: &[Pair]) -> Result<(), Refusal> {
    let bytes = metadata.iter().map(Message::encoded_len).sum::<usize>();
    if bytes > MAX_BYTES {
        return too_large(format!(
            "the file would have {bytes} bytes of metadata, at most {MAX_BYTES} are allowed"
        ));
    }
    Ok(())
}

fn beside_blocks(publish: &Publish) -> usize {
    let metadata = publish
        .metadata
        .iter()
        .map(Message::encoded_len)
        .sum::<usize>();
    publish.target.encoded_len().saturating_add(metadata)
}

fn too_large(detail: String) -> Result<(), Refusal> {
    Err(Refusal::new(RefusalKind::InvalidRequest, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{BucketName, CreateMode, DeleteKeys, OpenKey, PublishKind};
    use crate::testing::{World, append, block, commit, open_key, path, publish};

    fn pairs(count: usize, name: usize) -> Vec<Pair> {
        (0..count)
            .map(|number| Pair {
                key: format!("{number:0name$}"),
                value: String::new(),
            })
            .collect()
    }

    #[test]
    fn a_command_with_too_many_attributes_is_refused_and_changes_nothing() {
        let mut world = World::fso();
        let Command::OpenKey(open) = open_key("f", 0) else {
            panic!("it opens a key");
        };
        let with = |metadata| {
            Command::OpenKey(OpenKey {
                metadata,
                ..open.clone()
            })
        };
        assert_eq!(
            world.refused(with(pairs(5_000, 10))),
            RefusalKind::InvalidRequest
        );
        world.ok(with(pairs(1_000, 10)));
        let Command::AppendFile(mut created) = append("g", CreateMode::MustBeNew) else {
            panic!("it appends");
        };
        created.lease_owner = "x".repeat(MAX_BYTES);
        assert_eq!(
            world.refused(Command::AppendFile(created)),
            RefusalKind::InvalidRequest
        );
        assert!(!world.there("g"));
    }

    #[test]
    fn metadata_does_not_grow_without_end_by_merging() {
        let mut world = World::fso();
        let session = world.create("f", CreateMode::MustBeNew);
        let sync = |from: char| {
            let mut command = publish(session.handle, PublishKind::Hsync, 0, Vec::new());
            if let Command::Publish(publish) = &mut command {
                publish.metadata = pairs(100, 200)
                    .into_iter()
                    .map(|pair| Pair {
                        key: format!("{from}{}", pair.key),
                        ..pair
                    })
                    .collect();
            }
            command
        };
        world.ok(sync('a'));
        world.ok(sync('b'));
        let before = world.view("f").metadata.len();
        let refused = ('c'..'z').find(|from| world.run(sync(*from)).is_err());
        assert_eq!(refused, Some('d'));
        assert_eq!((before, world.view("f").metadata.len()), (200, 300));
    }

    #[test]
    fn lists_of_keys_and_of_blocks_are_bounded() {
        let mut world = World::fso();
        let delete = |count: usize| {
            Command::DeleteKeys(DeleteKeys {
                bucket: BucketName {
                    volume: path("").volume,
                    bucket: path("").bucket,
                },
                keys: vec![String::new(); count],
            })
        };
        assert_eq!(
            world.refused(delete(MAX_DELETED_KEYS + 1)),
            RefusalKind::InvalidRequest
        );
        world.ok(delete(MAX_DELETED_KEYS));

        world.limit(|limits| limits.max_blocks_per_file = 3);
        let opened = world.open_with("f", 1);
        let mut command = commit(
            "f",
            opened.session,
            PublishKind::Close,
            vec![block(&opened.blocks[0], 0); 4],
        );
        assert_eq!(world.refused(command.clone()), RefusalKind::TooManyBlocks);
        if let Command::Publish(publish) = &mut command {
            publish.blocks.pop();
        }
        world.ok(command);
    }
}
