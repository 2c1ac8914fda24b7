use crate::command::Layout;
use crate::reply::{Answer, RefusalKind};
use crate::testing::{World, delete, mkdir};

#[test]
fn directories_are_made_with_their_parents_and_known_ones_are_told() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        assert_eq!(
            world.mkdir("a/b/c").unwrap().answer,
            Some(Answer::DirectoryExisted(false))
        );
        assert_eq!(world.bucket().used_names, 3);
        for known in ["a", "/a//b/", "a/b/c", ""] {
            assert_eq!(
                world.mkdir(known).unwrap().answer,
                Some(Answer::DirectoryExisted(true)),
                "{known}"
            );
        }
        world.file("a/f", &[1]);
        assert_eq!(world.refused(mkdir("a/f")), RefusalKind::FileExists);
        assert_eq!(world.refused(mkdir("a/f/x/y")), RefusalKind::FileExists);
        assert_eq!(world.refused(mkdir("a/../b")), RefusalKind::InvalidKeyName);
        assert_eq!(
            world.refused(mkdir(".snapshot/a")),
            RefusalKind::InvalidKeyName
        );
        assert_eq!(world.bucket().used_names, 4);
    }
    let mut world = World::new(Layout::ObjectStore);
    assert_eq!(world.refused(mkdir("a")), RefusalKind::Unsupported);
}

#[test]
fn a_directory_that_was_asked_for_outlives_the_keys_below_it() {
    let mut world = World::new(Layout::Legacy);
    world.file("a/f", &[1]);
    world.ok(delete("a/", true));
    world.ok(crate::testing::open_key("b", 0));
    world.file("a/f", &[1]);
    world.mkdir("a").unwrap();
    world.ok(delete("a/f", false));
    assert!(world.there("a"));
}

#[test]
fn a_path_that_is_too_deep_is_refused() {
    let mut world = World::fso();
    assert_eq!(
        world.refused(mkdir(&"a/".repeat(1_001))),
        RefusalKind::InvalidKeyName
    );
    world.mkdir(&"a/".repeat(1_000)).unwrap();
    assert_eq!(world.bucket().used_names, 1_000);
}
