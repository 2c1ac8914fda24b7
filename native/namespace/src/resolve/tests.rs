use super::*;
use crate::command::{CreateMode, PublishKind};
use crate::record::PlaceRow;
use crate::testing::{MemoryRows, World, block, publish, rename};

/// A key as deep as a path may be, of one name.
fn deep(name: &str) -> String {
    vec![name; name::MAX_KEY_DEPTH].join("/")
}

#[test]
fn a_session_far_below_the_deepest_path_goes_on() {
    let mut world = World::fso();
    let admitted = world.create(&deep("f"), CreateMode::MustBeNew);
    let mut lowest = "f".to_owned();
    for below in ["a", "b", "c"] {
        let bottom = vec![below; name::MAX_KEY_DEPTH - 1].join("/");
        world.mkdir(&bottom).unwrap();
        world.ok(rename(&lowest, &bottom));
        lowest = below.to_owned();
    }
    let given = world.allocate(admitted.handle);
    world.ok(publish(
        admitted.handle,
        PublishKind::Hsync,
        10,
        vec![block(&given, 10)],
    ));
    let status = crate::read::open_files(&world.rows, None, &[], 10)
        .unwrap()
        .unwrap();
    let path = &status.0[0].path.key;
    assert_eq!(path.split('/').count(), 4 * name::MAX_KEY_DEPTH - 3);
    world.ok(crate::testing::delete("c", true));
    let closed = world.refused(publish(
        admitted.handle,
        PublishKind::Close,
        10,
        vec![block(&given, 10)],
    ));
    assert_eq!(closed, crate::reply::RefusalKind::Unreachable);
}

#[test]
fn a_directory_that_stands_below_itself_is_noticed() {
    for around in [1, 2, 3, 7, 64, 1_000] {
        for before in [0, 1, 5, 100] {
            let mut rows = MemoryRows::default();
            let mut stand = |directory: Id, parent: Id| {
                let place = PlaceRow {
                    bucket: 9,
                    parent,
                    name: "d".into(),
                };
                rows.put(
                    Keyspace::DirParents,
                    &key::two(9, directory),
                    &prost::Message::encode_to_vec(&place),
                );
            };
            for at in 0..before {
                stand(
                    10_000 + at,
                    if at + 1 == before {
                        20_000
                    } else {
                        10_001 + at
                    },
                );
            }
            for at in 0..around {
                stand(
                    20_000 + at,
                    if at + 1 == around {
                        20_000
                    } else {
                        20_001 + at
                    },
                );
            }
            let parent = if before == 0 { 20_000 } else { 10_000 };
            let place = Place {
                bucket: 9,
                parent,
                name: "f".into(),
            };
            assert!(path_of(&rows, &place).is_err(), "{before} before {around}");
        }
    }
}
