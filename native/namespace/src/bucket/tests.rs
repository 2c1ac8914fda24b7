use super::*;
use crate::command::{Command, CreateVolume, SetVolume, VolumeName};
use crate::testing::{World, new_bucket};

fn volume(name: &str) -> Command {
    Command::CreateVolume(CreateVolume {
        volume: name.into(),
        quota_bytes: -1,
        quota_names: -1,
        ..CreateVolume::default()
    })
}

fn delete_volume(name: &str) -> Command {
    Command::DeleteVolume(VolumeName {
        volume: name.into(),
    })
}

fn name(bucket: &str) -> BucketName {
    BucketName {
        volume: "vol".into(),
        bucket: bucket.into(),
    }
}

#[test]
fn volumes_are_made_once_and_removed_empty() {
    let mut world = World::fso();
    assert_eq!(world.refused(volume("vol")), RefusalKind::VolumeExists);
    assert_eq!(world.refused(volume("Vol")), RefusalKind::InvalidVolumeName);
    assert_eq!(
        world.refused(delete_volume("vol")),
        RefusalKind::VolumeNotEmpty
    );
    assert_eq!(
        world.refused(delete_volume("none")),
        RefusalKind::VolumeNotFound
    );
    world.ok(Command::DeleteBucket(name("bucket")));
    world.ok(delete_volume("vol"));
    assert!(crate::read::volume(&world.rows, "vol").unwrap().is_err());
    world.ok(volume("vol"));
}

#[test]
fn volumes_change_owner_and_quota() {
    let mut world = World::fso();
    world.ok(Command::SetVolume(SetVolume {
        volume: "vol".into(),
        owner: Some("bob".into()),
        ..SetVolume::default()
    }));
    assert_eq!(
        crate::read::volume(&world.rows, "vol")
            .unwrap()
            .unwrap()
            .owner,
        "bob"
    );
    world.ok(Command::CreateBucket(new_bucket("second", Layout::Legacy)));
    let quota = |names| {
        Command::SetVolume(SetVolume {
            volume: "vol".into(),
            quota_names: Some(names),
            ..SetVolume::default()
        })
    };
    assert_eq!(world.refused(quota(1)), RefusalKind::QuotaExceeded);
    world.ok(quota(2));
    assert_eq!(
        world.refused(Command::CreateBucket(new_bucket("third", Layout::Legacy))),
        RefusalKind::QuotaExceeded
    );
    let none = Command::SetVolume(SetVolume {
        volume: "none".into(),
        ..SetVolume::default()
    });
    assert_eq!(world.refused(none), RefusalKind::VolumeNotFound);
}

#[test]
fn a_volume_with_a_space_quota_wants_one_for_each_bucket() {
    let mut world = World::empty();
    world.ok(Command::CreateVolume(CreateVolume {
        volume: "vol".into(),
        quota_bytes: 100,
        quota_names: -1,
        ..CreateVolume::default()
    }));
    let bucket = |name: &str, quota| {
        Command::CreateBucket(CreateBucket {
            quota_bytes: quota,
            ..new_bucket(name, Layout::Legacy)
        })
    };
    assert_eq!(
        world.refused(bucket("one", -1)),
        RefusalKind::InvalidRequest
    );
    world.ok(bucket("one", 60));
    assert_eq!(world.refused(bucket("two", 41)), RefusalKind::QuotaExceeded);
    world.ok(bucket("two", 40));
    let set = |quota| {
        Command::SetBucket(SetBucket {
            name: name("one"),
            quota_bytes: Some(quota),
            ..SetBucket::default()
        })
    };
    assert_eq!(world.refused(set(61)), RefusalKind::QuotaExceeded);
    world.ok(set(60));
}

#[test]
fn buckets_are_made_once_with_a_sound_name_in_a_volume_that_is_there() {
    let mut world = World::fso();
    let make = |bucket: &str| Command::CreateBucket(new_bucket(bucket, Layout::ObjectStore));
    assert_eq!(world.refused(make("bucket")), RefusalKind::BucketExists);
    assert_eq!(world.refused(make("a_b")), RefusalKind::InvalidBucketName);
    let mut nowhere = new_bucket("bucket", Layout::Legacy);
    nowhere.name.volume = "none".into();
    assert_eq!(
        world.refused(Command::CreateBucket(nowhere)),
        RefusalKind::VolumeNotFound
    );
    let odd = CreateBucket {
        layout: 9,
        ..new_bucket("odd", Layout::Legacy)
    };
    assert_eq!(
        world.refused(Command::CreateBucket(odd)),
        RefusalKind::InvalidRequest
    );
    world.ok(make("other"));
    let view = crate::read::bucket(&world.rows, "vol", "other")
        .unwrap()
        .unwrap();
    assert_eq!(
        (view.layout, view.used_bytes, view.used_names),
        (Layout::ObjectStore, 0, 0)
    );
}

#[test]
fn buckets_change_properties_and_go_when_empty() {
    let mut world = World::fso();
    world.ok(Command::SetBucket(SetBucket {
        name: name("bucket"),
        owner: Some("bob".into()),
        replication: Some(Replication { kind: 2, factor: 3 }),
        ..SetBucket::default()
    }));
    let file = world.file("f", &[10]);
    assert_eq!(
        (
            file.replication.factor,
            file.replicated_size,
            world.bucket().used_bytes
        ),
        (3, 30, 30)
    );
    assert_eq!(
        world.refused(Command::DeleteBucket(name("bucket"))),
        RefusalKind::BucketNotEmpty
    );
    assert_eq!(
        world.refused(Command::DeleteBucket(name("none"))),
        RefusalKind::BucketNotFound
    );
    let quota = SetBucket {
        name: name("bucket"),
        quota_names: Some(0),
        ..SetBucket::default()
    };
    world.ok(Command::SetBucket(quota));
    world.ok(crate::testing::delete("f", false));
    world.ok(Command::DeleteBucket(name("bucket")));
}
