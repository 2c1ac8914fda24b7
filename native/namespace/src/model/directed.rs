//! Guards that no small world meets by itself: layouts, limits, switches. Each is tried once in a world of its own.

use super::oracle::Violation;
use super::state::STEP_MS;
use crate::command::{
    AppendFile, BucketName, Command, CreateBucket, CreateMode, KeyPath, Layout, PublishKind,
};
use crate::machine::Machine;
use crate::reply::RefusalKind;
use crate::testing::{
    MemoryRows, World, allocate, append, block, commit, delete, mkdir, new_bucket, publish, rename,
};

fn refused(
    world: &mut World,
    command: Command,
    kind: RefusalKind,
    what: &str,
) -> Result<(), Violation> {
    match world.run(command) {
        Err(refusal) if refusal.kind() == kind => Ok(()),
        other => Err(format!("{what}: {other:?}")),
    }
}

/// All of them; the first that does not hold.
pub(crate) fn check() -> Result<(), Violation> {
    layouts()?;
    rooms()?;
    names()?;
    not_finalized()
}

fn layouts() -> Result<(), Violation> {
    let mut world = World::fso();
    world.ok(Command::CreateBucket(CreateBucket {
        name: BucketName {
            volume: "vol".into(),
            bucket: "flat".into(),
        },
        ..new_bucket("flat", Layout::ObjectStore)
    }));
    let path = KeyPath {
        volume: "vol".into(),
        bucket: "flat".into(),
        key: "f".into(),
    };
    let Command::AppendFile(wish) = append("f", CreateMode::IfMissing) else {
        return Err("no append".into());
    };
    refused(
        &mut world,
        Command::AppendFile(AppendFile { path, ..wish }),
        RefusalKind::AppendUnsupported,
        "an appender in a bucket that knows none",
    )
}

/// A file of as many blocks as one may have takes no appender, no block and no publication more.
fn rooms() -> Result<(), Violation> {
    let mut world = World::fso();
    world.limit(|limits| limits.max_blocks_per_file = 2);
    world.file("full", &[1, 1]);
    refused(
        &mut world,
        append("full", CreateMode::No),
        RefusalKind::TooManyBlocks,
        "an appender to a full file",
    )?;
    world.file("half", &[1]);
    let session = world.append("half");
    refused(
        &mut world,
        allocate(session.handle),
        RefusalKind::TooManyBlocks,
        "a block more than the file may have",
    )?;
    // The limit may fall while a session is open.
    world.file("third", &[1]);
    let session = world.append("third");
    world.limit(|limits| limits.max_blocks_per_file = 1);
    refused(
        &mut world,
        publish(
            session.handle,
            PublishKind::Hsync,
            2,
            vec![block(&session.blocks[0], 1)],
        ),
        RefusalKind::TooManyBlocks,
        "a publication of more blocks than the file may have",
    )
}

fn names() -> Result<(), Violation> {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        let _made = world.mkdir("d");
        world.file("d/f", &[1]);
        refused(
            &mut world,
            delete("d", false),
            RefusalKind::DirectoryNotEmpty,
            "a directory with children, deleted alone",
        )?;
        if layout == Layout::FileSystemOptimized {
            refused(
                &mut world,
                rename("d", "d/e"),
                RefusalKind::RenameRefused,
                "a directory below itself",
            )?;
        }
        // A directory comes to stand where a writer wants to commit.
        let opened = world.open("x");
        let _made = world.mkdir("x");
        refused(
            &mut world,
            commit(
                "x",
                opened.session,
                PublishKind::Close,
                vec![block(&opened.blocks[0], 1)],
            ),
            RefusalKind::NotAFile,
            "a commit where a directory stands",
        )?;
    }
    // An answer stays known for its retention, and what a session ended as, too.
    let mut world = World::fso();
    world.limit(|limits| limits.dedupe_retention_ms = 10 * STEP_MS);
    world.file("f", &[1]);
    let session = world.append("f");
    world.ok(delete("f", false));
    for _ in 0..3 {
        world.ok(Command::Cleanup(crate::command::Cleanup {
            sessions: vec![session.handle],
        }));
    }
    refused(
        &mut world,
        publish(session.handle, PublishKind::Close, 1, Vec::new()),
        RefusalKind::Invalidated,
        "a close behind a deletion, cleaned up",
    )
}

/// An upgraded folder admits nobody before its layout is finalized.
fn not_finalized() -> Result<(), Violation> {
    let mut world = World::empty();
    world.rows = MemoryRows::default();
    world.machine = Machine::open(&world.rows).map_err(|error| error.to_string())?;
    let World { .. } = &world;
    world.ok(Command::RegisterHolder(crate::command::Holder {
        uuid: "holder".into(),
        host: "h".into(),
        port: 1,
        number: 0,
    }));
    world.ok(Command::CreateVolume(crate::command::CreateVolume {
        volume: "vol".into(),
        owner: "hadoop".into(),
        quota_bytes: -1,
        quota_names: -1,
        ..Default::default()
    }));
    world.ok(Command::CreateBucket(new_bucket(
        "bucket",
        Layout::FileSystemOptimized,
    )));
    let _made = world.run(mkdir("d"));
    refused(
        &mut world,
        append("f", CreateMode::IfMissing),
        RefusalKind::NotFinalized,
        "an appender before the layout is finalized",
    )
}
