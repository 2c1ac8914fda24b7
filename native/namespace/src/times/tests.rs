use crate::command::{Command, Layout, SetTimes};
use crate::reply::RefusalKind;
use crate::testing::{World, path};
use crate::view::Node;

fn set(key: &str, modified_ms: i64) -> Command {
    Command::SetTimes(SetTimes {
        path: path(key),
        modified_ms,
    })
}

fn modified(world: &World, key: &str) -> u64 {
    match crate::read::status(&world.rows, &path(key))
        .unwrap()
        .unwrap()
    {
        Node::File(file) => file.modified_ms,
        Node::Directory(dir) => dir.modified_ms,
        Node::BucketRoot => world.bucket().modified_ms,
    }
}

#[test]
fn times_are_set_and_below_zero_left() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("d/f", &[1]);
        for key in ["d/f", "d", ""] {
            world.ok(set(key, 5));
            world.ok(set(key, -1));
            assert_eq!(modified(&world, key), 5, "{key}");
        }
        assert_eq!(world.refused(set("missing", 5)), RefusalKind::KeyNotFound);
        assert_eq!(world.refused(set("missing", -1)), RefusalKind::KeyNotFound);
    }
}
