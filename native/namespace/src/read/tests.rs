use super::*;
use crate::command::{Command, CreateMode, Handle, PublishKind};
use crate::testing::{World, block, commit, delete, new_bucket, path, publish, rename};

fn names(nodes: &[Node]) -> Vec<String> {
    nodes
        .iter()
        .map(|node| match node {
            Node::File(file) => file.path.key.clone(),
            Node::Directory(dir) => format!("{}/", dir.path.key),
            Node::BucketRoot => "ROOT".into(),
        })
        .collect()
}

fn listed(
    world: &World,
    key: &str,
    start: &str,
    recursive: bool,
    partial: bool,
    max: usize,
) -> Vec<String> {
    names(
        &list(&world.rows, &path(key), start, recursive, partial, max)
            .unwrap()
            .unwrap(),
    )
}

#[test]
fn status_answers_what_stands() {
    for layout in [Layout::FileSystemOptimized, Layout::Legacy] {
        let mut world = World::new(layout);
        world.file("d/f", &[10]);
        let of = |key: &str| status(&world.rows, &path(key)).unwrap();
        assert_eq!(of("").unwrap(), Node::BucketRoot);
        assert!(
            matches!(of("d").unwrap(), Node::Directory(dir) if dir.path.key == "d" && dir.object_id > 0)
        );
        assert!(
            matches!(of("/d//f").unwrap(), Node::File(file) if file.path.key == "d/f" && file.size == 10)
        );
        for missing in ["x", "d/x", "d/f/x", ".snapshot/s", "a:b"] {
            assert_eq!(
                of(missing).unwrap_err().kind(),
                RefusalKind::FileNotFound,
                "{missing}"
            );
        }
    }
}

#[test]
fn keys_imply_directories() {
    let mut world = World::new(Layout::ObjectStore);
    world.file("d/e/f", &[10]);
    assert!(
        matches!(status(&world.rows, &path("d/e")).unwrap().unwrap(), Node::Directory(dir) if dir.object_id == 0)
    );
    assert_eq!(listed(&world, "d", "", false, false, 9), ["d/e/"]);
    assert!(status(&world.rows, &path("d/e/g")).unwrap().is_err());
}

#[test]
fn an_fso_listing_merges_files_and_directories_by_name() {
    let mut world = World::fso();
    for name in ["a", "c", "e"] {
        world.file(&format!("d/{name}"), &[1]);
    }
    for name in ["b", "d"] {
        world.file(&format!("d/{name}/below"), &[1]);
    }
    assert_eq!(
        listed(&world, "d", "", false, false, 9),
        ["d/a", "d/b/", "d/c", "d/d/", "d/e"]
    );
    assert_eq!(listed(&world, "d", "", false, false, 2), ["d/a", "d/b/"]);
    assert_eq!(listed(&world, "d", "d/b", false, false, 2), ["d/b/", "d/c"]);
    assert_eq!(
        listed(&world, "d", "d/bb", false, false, 9),
        ["d/c", "d/d/", "d/e"]
    );
    assert_eq!(listed(&world, "d/a", "", false, false, 9), ["d/a"]);
    assert_eq!(listed(&world, "", "", false, false, 9), ["d/"]);
    assert_eq!(
        listed(&world, "d", "x/a", false, false, 9),
        Vec::<String>::new()
    );
    assert_eq!(
        listed(&world, "d", "d/b/below", false, false, 9),
        Vec::<String>::new()
    );
    assert_eq!(listed(&world, "", "d", false, false, 9), ["d/"]);
    world.file("d/ab", &[1]);
    assert_eq!(listed(&world, "d/a", "", false, true, 9), ["d/a"]);
    assert_eq!(listed(&world, "d/ab", "", false, true, 9), ["d/ab"]);
    world.ok(delete("d/a", false));
    assert_eq!(listed(&world, "d/a", "", false, true, 9), ["d/ab"]);
    let missing = list(&world.rows, &path("x"), "", false, false, 9).unwrap();
    assert_eq!(missing.unwrap_err().kind(), RefusalKind::FileNotFound);
    let deep = list(&world.rows, &path("d"), "", true, false, 9).unwrap();
    assert_eq!(deep.unwrap_err().kind(), RefusalKind::Unsupported);
}

#[test]
fn a_legacy_listing_shows_each_directory_once() {
    let mut world = World::new(Layout::Legacy);
    for name in ["a", "b/x", "b/y/z", "b-1", "c"] {
        world.file(&format!("d/{name}"), &[1]);
    }
    assert_eq!(
        listed(&world, "d", "", false, false, 9),
        ["d/a", "d/b-1", "d/b/", "d/c"]
    );
    for max in 1..4 {
        let mut all: Vec<String> = Vec::new();
        let mut start = String::new();
        loop {
            let page = listed(&world, "d", &start, false, false, max + 1);
            let fresh: Vec<_> = page
                .iter()
                .filter(|name| !all.contains(name))
                .cloned()
                .collect();
            if fresh.is_empty() {
                break;
            }
            start = page.last().unwrap().trim_end_matches('/').to_owned();
            all.extend(fresh);
        }
        assert_eq!(all, ["d/a", "d/b-1", "d/b/", "d/c"], "pages of {max}");
    }
    assert_eq!(
        listed(&world, "d", "", true, false, 9),
        ["d/a", "d/b-1", "d/b/", "d/b/x", "d/b/y/", "d/b/y/z", "d/c"]
    );
    assert_eq!(listed(&world, "", "", false, false, 9), ["d/"]);
}

/// Rows that count how many of them were read.
struct Counted<'a>(&'a dyn Rows, std::cell::Cell<usize>);

impl Rows for Counted<'_> {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<bytes::Bytes>, RowsError> {
        self.1.set(self.1.get() + 1);
        self.0.get(keyspace, key)
    }

    fn range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(bytes::Bytes, bytes::Bytes)>, RowsError> {
        let page = self.0.range(keyspace, from, to, limit)?;
        self.1.set(self.1.get() + page.len());
        Ok(page)
    }
}

#[test]
fn a_listing_of_large_directories_reads_little_of_each() {
    let mut world = World::new(Layout::ObjectStore);
    for directory in 0..4 {
        for file in 0..50 {
            world.file(&format!("d/{directory}/{file}"), &[]);
        }
    }
    let rows = Counted(&world.rows, std::cell::Cell::new(0));
    let found = list(&rows, &path("d"), "", false, false, 10_000).unwrap();
    assert_eq!(found.unwrap().len(), 4);
    assert!(rows.1.get() < 4 * 20, "{} rows were read", rows.1.get());
    let found = list(&rows, &path("d/3"), "", false, false, 10_000).unwrap();
    assert_eq!(found.unwrap().len(), 50);
}

#[test]
fn list_keys_gives_literal_keys_and_nothing_for_fso() {
    let mut world = World::new(Layout::Legacy);
    world.file("d/a", &[1]);
    world.file("d/b", &[1]);
    let all = |after: &str, max| {
        keys(&world.rows, "vol", "bucket", "d", after, max)
            .unwrap()
            .unwrap()
    };
    let (nodes, truncated) = all("", 2);
    assert!(truncated);
    assert!(matches!(&nodes[0], Node::Directory(dir) if dir.path.key == "d/"));
    let (nodes, truncated) = all("d/a", 2);
    assert_eq!((names(&nodes), truncated), (vec!["d/b".to_owned()], false));
    let mut world = World::fso();
    world.file("d/a", &[1]);
    assert_eq!(
        keys(&world.rows, "vol", "bucket", "", "", 9)
            .unwrap()
            .unwrap(),
        (Vec::new(), false)
    );
}

#[test]
fn volumes_and_buckets_are_listed_by_name() {
    let mut world = World::fso();
    for (volume, owner) in [("vola", "x"), ("volb", "y"), ("volc", "x"), ("other", "x")] {
        world.ok(Command::CreateVolume(crate::command::CreateVolume {
            volume: volume.into(),
            owner: owner.into(),
            ..crate::command::CreateVolume::default()
        }));
    }
    let of = |owner, prefix: &str, after: &str, max| -> Vec<String> {
        let found = volumes(&world.rows, owner, prefix, after, max)
            .unwrap()
            .unwrap();
        found.into_iter().map(|volume| volume.volume).collect()
    };
    assert_eq!(of(None, "vol", "", 9), ["vol", "vola", "volb", "volc"]);
    assert_eq!(of(None, "", "vola", 9), ["volb", "volc"]);
    assert_eq!(of(Some("x"), "", "", 2), ["other", "vola"]);
    assert_eq!(of(Some("x"), "", "vola", 2), ["volc"]);
    for name in ["bucket1", "bucket2", "zzz"] {
        world.ok(Command::CreateBucket(new_bucket(name, Layout::Legacy)));
    }
    let of = |prefix: &str, after: &str, max| -> Vec<String> {
        let found = buckets(&world.rows, "vol", prefix, after, max)
            .unwrap()
            .unwrap();
        found.into_iter().map(|bucket| bucket.bucket).collect()
    };
    assert_eq!(of("", "", 9), ["bucket", "bucket1", "bucket2", "zzz"]);
    assert_eq!(of("bucket", "bucket", 9), ["bucket1", "bucket2"]);
    assert_eq!(of("", "", 1), ["bucket"]);
    assert!(buckets(&world.rows, "none", "", "", 9).unwrap().is_err());
}

#[test]
fn block_ranges_begin_at_the_block_that_holds_the_offset() {
    let mut world = World::fso();
    let lengths: Vec<u64> = (1..=50).collect();
    let view = world.file("f", &lengths);
    let starts: Vec<u64> = lengths
        .iter()
        .scan(0, |at, length| {
            let start = *at;
            *at += length;
            Some(start)
        })
        .collect();
    for offset in 0..view.size {
        let range = blocks(&world.rows, &view, offset, 3).unwrap().unwrap();
        let first = range.blocks[0];
        assert!(first.start <= offset && offset < first.start + first.length);
        assert_eq!((range.total, range.blocks.len() <= 3), (50, true));
        let last = range.blocks.last().unwrap();
        assert_eq!(range.next_offset, last.start + last.length);
    }
    let all = blocks(&world.rows, &view, 0, usize::MAX).unwrap().unwrap();
    assert_eq!(
        all.blocks
            .iter()
            .map(|block| block.start)
            .collect::<Vec<_>>(),
        starts
    );
    assert_eq!(all.next_offset, view.size);
    assert!(
        blocks(&world.rows, &view, view.size, 9)
            .unwrap()
            .unwrap()
            .blocks
            .is_empty()
    );
    world.ok(rename("f", "g"));
    let by_id = blocks_of(&world.rows, view.object_id, view.generation, 1_270, 9)
        .unwrap()
        .unwrap();
    assert_eq!(by_id.blocks.len(), 1);
    world.ok(delete("g", false));
    let gone = blocks_of(&world.rows, view.object_id, view.generation, 0, 9).unwrap();
    assert_eq!(gone.unwrap_err().kind(), RefusalKind::KeyNotFound);
}

#[test]
fn a_view_taken_earlier_keeps_its_length_while_the_last_block_grows() {
    let mut world = World::fso();
    world.file("f", &[10]);
    let admitted = world.append("f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        14,
        vec![block(&admitted.blocks[0], 4)],
    ));
    let early = world.view("f");
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        19,
        vec![block(&admitted.blocks[0], 9)],
    ));
    let range = blocks(&world.rows, &early, 0, 9).unwrap().unwrap();
    assert_eq!((range.blocks[1].length, range.next_offset), (4, 14));
}

#[test]
fn the_writer_at_a_path_is_shown() {
    let mut world = World::fso();
    let of = |world: &World, key: &str| append_status(&world.rows, &path(key)).unwrap();
    assert_eq!(
        of(&world, "f").unwrap_err().kind(),
        RefusalKind::FileNotFound
    );
    let opened = world.open("f");
    assert_eq!(
        of(&world, "f").unwrap().unwrap().writer(),
        crate::reply::WriterKind::Ordinary
    );
    let blocks = vec![block(&opened.blocks[0], 1)];
    world.ok(commit(
        "f",
        opened.session,
        PublishKind::Hsync,
        blocks.clone(),
    ));
    assert_eq!(
        of(&world, "f").unwrap().unwrap().writer(),
        crate::reply::WriterKind::Hsync
    );
    world.ok(commit("f", opened.session, PublishKind::Close, blocks));
    assert_eq!(of(&world, "f").unwrap(), None);
    let admitted = world.append("f");
    let status = of(&world, "f").unwrap().unwrap();
    assert_eq!(
        (status.handle, status.remaining_ms),
        (Some(admitted.handle), 60_000)
    );
    world.ok(crate::testing::mkdir("d"));
    assert_eq!(of(&world, "d").unwrap(), None);
}

#[test]
fn a_sessions_file_is_found_wherever_it_is() {
    let mut world = World::fso();
    world.file("a/f", &[10]);
    let handle = world.append("a/f").handle;
    world.ok(rename("a/f", "a/g"));
    world.ok(rename("a", "b"));
    let of = |world: &World, handle: &Handle| session_file(&world.rows, handle).unwrap();
    assert_eq!(of(&world, &handle).unwrap().path.key, "b/g");
    assert_eq!(
        of(&world, &Handle { file: 1, ..handle })
            .unwrap_err()
            .kind(),
        RefusalKind::IdentityMismatch
    );
    assert_eq!(
        of(
            &world,
            &Handle {
                session: 1,
                ..handle
            }
        )
        .unwrap_err()
        .kind(),
        RefusalKind::SessionUnknown
    );
    let other = world.create("x", CreateMode::IfMissing).handle;
    world.ok(delete("x", false));
    assert_eq!(
        of(&world, &other).unwrap_err().kind(),
        RefusalKind::Invalidated
    );
    world.ok(delete("b", true));
    assert_eq!(
        of(&world, &handle).unwrap_err().kind(),
        RefusalKind::Unreachable
    );
}

#[test]
fn open_files_are_paged_and_counted() {
    let mut world = World::fso();
    world.ok(Command::CreateBucket(new_bucket("other", Layout::Legacy)));
    assert!(!any_session(&world.rows).unwrap());
    for name in ["a", "b", "c"] {
        world.create(name, CreateMode::IfMissing);
    }
    world.open("d/e");
    assert!(any_session(&world.rows).unwrap());
    let mut seen = Vec::new();
    let mut token = Vec::new();
    loop {
        let (page, next, total) = open_files(&world.rows, Some(("vol", "bucket")), &token, 3)
            .unwrap()
            .unwrap();
        assert_eq!(total, 4);
        seen.extend(page.into_iter().map(|open| open.path.key));
        match next {
            Some(next) => token = next,
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d/e"]);
    assert_eq!(open_files(&world.rows, None, &[], 9).unwrap().unwrap().2, 4);
    assert_eq!(
        open_files(&world.rows, Some(("vol", "other")), &[], 9)
            .unwrap()
            .unwrap()
            .2,
        0
    );
}
