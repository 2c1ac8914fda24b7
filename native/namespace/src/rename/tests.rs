use super::*;
use crate::command::{Command, PublishKind};
use crate::testing::{World, block, commit, open_key, publish, rename};

#[test]
fn fso_renames_as_ozones_om_does() {
    let mut world = World::fso();
    let file = world.file("d/f", &[10]);
    world.file("d/g", &[1]);
    world.mkdir("e/inner").unwrap();
    for (from, to, expected) in [
        ("missing", "x", RefusalKind::KeyNotFound),
        ("d/f/x", "x", RefusalKind::KeyNotFound),
        ("", "x", RefusalKind::RenameRefused),
        ("d/f", "d/g", RefusalKind::KeyExists),
        ("d/f", "d", RefusalKind::KeyExists),
        ("d/f", "no/parent/f", RefusalKind::RenameRefused),
        ("d/f", "d/g/f", RefusalKind::RenameRefused),
        ("e", "e/inner", RefusalKind::RenameRefused),
        ("e", "e/inner/x", RefusalKind::RenameRefused),
        ("e/inner", "e", RefusalKind::KeyExists),
        ("d/f", "a:b", RefusalKind::InvalidKeyName),
    ] {
        assert_eq!(world.refused(rename(from, to)), expected, "{from} -> {to}");
    }
    let before = world.rows.without_bookkeeping();
    world.ok(rename("d/f", "/d/f"));
    world.ok(rename("d", "d"));
    assert_eq!(world.rows.without_bookkeeping(), before);
    world.ok(rename("d/f", "e/h"));
    let moved = world.view("e/h");
    assert_eq!(
        (moved.object_id, moved.modified_ms, moved.size),
        (file.object_id, file.modified_ms, 10)
    );
    assert!(moved.update_id > file.update_id && !world.there("d/f"));
    // Into a directory, and into the root.
    world.ok(rename("e/h", "d"));
    world.ok(rename("d/h", ""));
    assert!(world.there("h"));
}

#[test]
fn a_tree_moves_in_one_step_and_its_parents_times_change() {
    let mut world = World::fso();
    world.file("a/b/c/f", &[10]);
    world.mkdir("x").unwrap();
    let rows = world.rows.clone();
    let mut machine = world.machine.clone();
    let entry = crate::command::Entry {
        stamp: crate::command::Stamp {
            lease_ms: 0,
            wall_ms: 5_000_000,
            rules: crate::command::RULES,
        },
        requests: vec![world.request(rename("a/b", "x/y"))],
    };
    let applied = machine.apply(&rows, 1, 99, &entry).unwrap();
    assert!(
        applied.changes.len() < 12,
        "{} changes",
        applied.changes.len()
    );
    world.wall_ms = 5_000_000;
    world.ok(rename("a/b", "x/y"));
    assert_eq!(world.view("x/y/c/f").size, 10);
    assert!(!world.there("a/b"));
    for parent in ["a", "x"] {
        match crate::read::status(&world.rows, &crate::testing::path(parent))
            .unwrap()
            .unwrap()
        {
            crate::view::Node::Directory(dir) => assert_eq!(dir.modified_ms, world.wall_ms),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_that_an_ordinary_writer_has_hsynced_is_not_renamed_in_fso() {
    let mut world = World::fso();
    let opened = world.open("d/f");
    let blocks = vec![block(&opened.blocks[0], 5)];
    world.ok(commit(
        "d/f",
        opened.session,
        PublishKind::Hsync,
        blocks.clone(),
    ));
    assert_eq!(
        world.refused(rename("d/f", "d/g")),
        RefusalKind::RenameOpenFile
    );
    world.ok(rename("d", "e"));
    world.ok(commit("e/f", opened.session, PublishKind::Close, blocks));
    world.ok(rename("e/f", "e/g"));
}

#[test]
fn an_appended_file_is_renamed_also_after_its_hsync() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    world.ok(rename("f", "g"));
    world.ok(publish(
        admitted.handle,
        PublishKind::Close,
        15,
        vec![block(&admitted.blocks[0], 5)],
    ));
    assert_eq!(world.view("g").size, 15);
}

#[test]
fn a_writer_that_has_published_nothing_stays_at_its_name() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let opened = world.open("f");
    world.ok(rename("f", "g"));
    world.append("g");
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Close,
        vec![block(&opened.blocks[0], 5)],
    ));
    assert_eq!((world.view("f").size, world.view("g").size), (5, 10));
}

#[test]
fn a_conditional_rename_wants_its_generation() {
    let mut world = World::fso();
    let file = world.file("f", &[10]);
    let conditional = |expected| {
        let mut command = rename("f", "g");
        if let Command::Rename(rename) = &mut command {
            rename.expected_update = Some(expected);
        }
        command
    };
    assert_eq!(
        world.refused(conditional(file.update_id + 1)),
        RefusalKind::UpdateIdMismatch
    );
    world.ok(conditional(file.update_id));
}

#[test]
fn legacy_renames_exactly_one_key() {
    let mut world = World::new(Layout::Legacy);
    let file = world.file("d/f", &[10]);
    world.file("e/g", &[1]);
    for (from, to, expected) in [
        ("d", "x", RefusalKind::KeyNotFound),
        ("missing", "x", RefusalKind::KeyNotFound),
        ("d/f", "e/g", RefusalKind::KeyExists),
        ("d/f", "e", RefusalKind::KeyExists),
        ("d/f", "", RefusalKind::InvalidKeyName),
        ("d/f", "e/g/x", RefusalKind::RenameRefused),
        ("d/", "d/x/", RefusalKind::RenameRefused),
        ("d/", "x", RefusalKind::RenameRefused),
    ] {
        assert_eq!(world.refused(rename(from, to)), expected, "{from} -> {to}");
    }
    world.ok(rename("d/f", "new/f"));
    let moved = world.view("new/f");
    assert!(moved.object_id == file.object_id && moved.modified_ms > file.modified_ms);
    world.ok(rename("d/", "new/"));
    assert!(world.there("new") && !world.there("d"));
}

#[test]
fn object_store_keys_are_renamed_literally() {
    let mut world = World::new(Layout::ObjectStore);
    world.file("a", &[10]);
    world.file("b/c", &[1]);
    world.ok(rename("a", "b"));
    assert_eq!(world.view("b").size, 10);
    assert_eq!(world.refused(rename("b", "b/c")), RefusalKind::KeyExists);
    world.ok(open_key("a", 0));
}

#[test]
fn several_keys_are_renamed_and_a_refused_one_keeps_none_of_the_others() {
    let keys = |renames: &[(&str, &str)]| {
        Command::RenameKeys(crate::command::RenameKeys {
            bucket: crate::command::BucketName {
                volume: "vol".into(),
                bucket: "bucket".into(),
            },
            renames: renames
                .iter()
                .map(|(from, to)| crate::command::KeyRename {
                    from: (*from).into(),
                    to: (*to).into(),
                })
                .collect(),
        })
    };
    let mut world = World::new(crate::command::Layout::Legacy);
    world.file("a", &[1]);
    world.file("b", &[2]);
    world.file("taken", &[3]);
    let session = world.append("a");
    world.append("b");
    let fenced = world.fence("b");
    let answer = world.ok(keys(&[
        ("a", "x"),
        ("missing", "y"),
        ("taken", "b"),
        ("b", "z"),
        ("x", "w"),
    ]));
    let Some(crate::reply::Answer::RenamedKeys(renamed)) = answer.answer else {
        panic!("{answer:?}");
    };
    let refused: Vec<(String, RefusalKind)> = renamed
        .refused
        .iter()
        .map(|refused| (refused.from.clone(), refused.refusal.kind()))
        .collect();
    assert_eq!(
        refused,
        [
            ("missing".to_owned(), RefusalKind::KeyNotFound),
            ("taken".to_owned(), RefusalKind::KeyExists)
        ]
    );
    // The sessions went along, phase and all.
    world.allocate(session.handle);
    assert_eq!(world.view("w").append_owner, Some(session.handle.session));
    world.ok(publish(
        fenced.handle,
        crate::command::PublishKind::Recovery,
        2,
        Vec::new(),
    ));
    assert_eq!(world.view("z").append_owner, None);

    let mut world = World::fso();
    world.file("a", &[1]);
    assert_eq!(world.refused(keys(&[("a", "b")])), RefusalKind::Unsupported);
}
