//! Recoveries that are interrupted, and writers whose blocks failed before they died.

use std::time::Instant;

use append_client::RecoverOptions;
use append_e2e::{Server, append, fsck, get, noise, path, put};
use append_wire::om::Status;

use crate::raw::Raw;
use crate::writer::Writer;
use crate::{LAYOUTS, LONGEST, SOFT_LIMIT, recover, server};

const FORCED: RecoverOptions = RecoverOptions {
    force: true,
    without_unreachable: false,
    deadline: None,
};

#[tokio::test]
async fn a_server_killed_between_start_and_completion_of_a_recovery_loses_nothing() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let file = path("d/f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 20000");
        writer.must("hsync");
        writer.must("write 2 3000");
        writer.kill();
        let mut helper = Raw::connect(&server).await;
        let begun = helper.fence("d/f").await;
        server.restart();
        // Another client goes on with it, whatever the lease says: the file is being recovered.
        let other = server.client().await;
        assert!(other.recover_lease(&file).await.unwrap());
        let written = [&b"1"[..], &noise(1, 20_000), &noise(2, 3_000)].concat();
        let seen = get(&fs, &file).await;
        assert!(
            seen.len() >= 20_001 && written.starts_with(&seen),
            "{}",
            seen.len()
        );
        // The first helper comes too late.
        let mut helper = helper.again(&server).await;
        let handle = begun.append_handle.unwrap();
        let late = helper.publication("d/f", handle, 20_001, Vec::new(), true);
        assert_eq!(
            helper.send(&late).await.status(),
            Status::KeyUnderLeaseRecovery
        );
        append(&other, &file, b"2").await;
        assert!(get(&fs, &file).await == [&seen[..], b"2"].concat());
        server.kill();
        fsck(server.data(), &[]);
    }
}

#[tokio::test]
async fn fault_26_a_completion_whose_answer_was_lost_with_its_server_is_done_once() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let mut writer = Raw::connect(&server).await;
        let admission = writer.admission("f");
        let session = writer.send(&admission).await.append_file_response.unwrap();
        let handle = session.handle.unwrap();
        let block = writer.write(&session.suffix[0], 1, &noise(1, 5_000)).await;
        writer.hsync("f", handle, 5_001, vec![block.clone()]).await;
        let mut helper = Raw::connect(&server).await;
        helper.fence("f").await;
        let completion = helper.publication("f", handle, 5_001, vec![block], true);
        assert_eq!(helper.send(&completion).await.status(), Status::Ok);
        server.restart();
        // Asked again under the same identity, the completion and even the admission are told as they were.
        let mut helper = helper.again(&server).await;
        assert_eq!(helper.send(&completion).await.status(), Status::Ok);
        let mut writer = writer.again(&server).await;
        let told = writer.send(&admission).await.append_file_response.unwrap();
        assert_eq!(told.handle, Some(handle));
        // Another client finds nothing to do.
        let other = server.client().await;
        assert!(other.recover_lease(&file).await.unwrap());
        let expected = [&b"1"[..], &noise(1, 5_000)].concat();
        assert!(get(&other, &file).await == expected);
        append(&other, &file, b"2").await;
        assert_eq!(helper.send(&completion).await.status(), Status::Ok);
        assert!(get(&fs, &file).await == [&expected[..], b"2"].concat());
    }
}

/// What a block holds: from which byte of the file on, and how many.
type Block = (usize, usize);

/// A session behind 7 bytes: `synced` blocks are published at `floor`, the others are only on the datanode.
async fn left_behind(
    layout: append_client::admin::BucketLayout,
    blocks: &[Block],
    synced: usize,
    floor: usize,
    kept: usize,
) {
    let mut server = server();
    let fs = server.bucket(layout).await;
    let file = path("f");
    put(&fs, &file, b"prefix:").await;
    let content = [&b"prefix:"[..], &noise(3, 10_000)].concat();
    let mut writer = Raw::connect(&server).await;
    let session = writer.append("f").await;
    let handle = session.handle.unwrap();
    let mut given = vec![session.suffix[0].clone()];
    for _ in 1..blocks.len() {
        given.push(writer.allocate("f", handle).await);
    }
    let mut published = Vec::new();
    for (number, (&(start, length), given)) in blocks.iter().zip(&given).enumerate() {
        if length == 0 {
            continue;
        }
        let bytes = &content[start..start + length];
        let begin = u64::try_from(start).unwrap();
        let mut block = writer.write(given, begin, bytes).await;
        if number < synced {
            let next = if number + 1 < synced {
                blocks[number + 1].0
            } else {
                floor
            };
            block.length = u64::try_from(next - start).unwrap();
            published.push(block);
        }
    }
    if synced > 0 {
        let floor = u64::try_from(floor).unwrap();
        writer.hsync("f", handle, floor, published).await;
    }
    assert!(fs.recover_lease_with(&file, &FORCED).await.unwrap());
    let seen = get(&fs, &file).await;
    assert_eq!(seen.len(), kept, "{blocks:?}");
    assert!(seen == content[..kept], "{blocks:?}: other bytes");
    append(&fs, &file, b"end").await;
    let other = server.client().await;
    assert!(get(&other, &file).await == [&seen[..], b"end"].concat());
    server.kill();
    fsck(server.data(), &[]);
}

/// A block that failed in mid-write has more than was acknowledged; its bytes were sent again into the next one.
#[tokio::test]
async fn fault_17_fault_36_bytes_that_were_sent_again_into_the_next_block_stand_once() {
    for layout in LAYOUTS {
        // Never synced: all of the first was sent again; a part of it.
        left_behind(layout, &[(7, 100), (7, 300)], 0, 7, 307).await;
        left_behind(layout, &[(7, 1000), (607, 2000)], 0, 7, 2607).await;
        // Synced within the first, which failed behind that.
        left_behind(layout, &[(7, 1000), (607, 2000)], 1, 607, 2607).await;
        left_behind(layout, &[(7, 1000), (807, 2000)], 1, 607, 2807).await;
        // Twice in a row, and a block that was given and never written.
        left_behind(
            layout,
            &[(7, 1000), (507, 900), (0, 0), (1007, 1000)],
            0,
            7,
            2007,
        )
        .await;
        // The second one synced as well; the last one is longer than what was synced of it.
        left_behind(layout, &[(7, 1000), (607, 400), (907, 50)], 2, 807, 957).await;
        // Behind a hole nothing is kept.
        left_behind(layout, &[(7, 1000), (2007, 1000)], 1, 507, 1007).await;
        left_behind(layout, &[(7, 0), (107, 1000)], 0, 7, 7).await;
    }
}

/// The same by our own client: its server goes away while it writes, and it dies before it syncs again.
#[tokio::test]
async fn a_writer_whose_server_went_away_in_mid_write_leaves_its_bytes_once() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 5000");
        writer.must("hsync");
        for round in 2..6 {
            writer.begin(&format!("write {round} 30000"));
            server.restart();
            let told = writer.told();
            assert!(told.starts_with("ok "), "{told}");
        }
        writer.kill();
        recover(&fs, &file).await;
        let mut written = [&b"1"[..], &noise(1, 5_000)].concat();
        for round in 2..6 {
            written.extend(noise(round, 30_000));
        }
        let seen = get(&fs, &file).await;
        assert!(seen.len() >= 5_001, "{}", seen.len());
        assert!(written.starts_with(&seen), "{} other bytes", seen.len());
        server.kill();
        fsck(server.data(), &[]);
    }
}

#[tokio::test]
async fn a_writer_that_died_before_its_first_sync_leaves_what_it_wrote_or_less() {
    for layout in LAYOUTS {
        let server = server();
        let fs = server.bucket(layout).await;
        for created in [true, false] {
            let file = path(&format!("f-{created}"));
            let mut writer = Writer::start(&server);
            let before = if created {
                writer.must(&format!("create {file}"));
                Vec::new()
            } else {
                put(&fs, &file, b"as it was").await;
                writer.must(&format!("append {file}"));
                b"as it was".to_vec()
            };
            writer.must("write 1 30000");
            writer.kill();
            recover(&fs, &file).await;
            let seen = get(&fs, &file).await;
            let written = [&before[..], &noise(1, 30_000)].concat();
            assert!(seen.len() >= before.len() && written.starts_with(&seen));
            append(&fs, &file, b"more").await;
            assert!(get(&fs, &file).await == [&seen[..], b"more"].concat());
        }
    }
}

/// Nobody recovers: the server itself closes the file, at no less than what was synced.
#[tokio::test]
async fn fault_18_behind_the_hard_limit_what_was_synced_stays() {
    for layout in LAYOUTS {
        let server = Server::with(&[
            "ozone.om.lease.soft.limit=1s",
            "ozone.om.lease.hard.limit=2s",
        ]);
        let fs = server.bucket(layout).await;
        let file = path("a/f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 10000");
        writer.must("hsync");
        writer.must("write 2 10000");
        writer.stop();
        let begun = Instant::now();
        while !fs.is_file_closed(&file).await.unwrap() {
            assert!(begun.elapsed() < LONGEST);
            tokio::time::sleep(SOFT_LIMIT / 50).await;
        }
        let seen = get(&fs, &file).await;
        let written = [&b"1"[..], &noise(1, 10_000), &noise(2, 10_000)].concat();
        assert!(seen.len() >= 10_001 && written.starts_with(&seen));
        writer.go_on();
        writer.fails("hsync", "StaleSession");
        assert!(get(&fs, &file).await == seen);
        append(&fs, &file, b"2").await;
        assert!(get(&fs, &file).await == [&seen[..], b"2"].concat());
    }
}

/// The append that waits for a recovery which another began ends it, also behind a restart.
#[tokio::test]
async fn an_append_goes_on_with_what_a_helper_left() {
    for layout in LAYOUTS {
        let mut server = server();
        let fs = server.bucket(layout).await;
        let file = path("f");
        put(&fs, &file, b"1").await;
        let mut writer = Writer::start(&server);
        writer.must(&format!("append {file}"));
        writer.must("write 1 9000");
        writer.must("hsync");
        writer.stop();
        Raw::connect(&server).await.fence("f").await;
        server.restart();
        append(&fs, &file, b"2").await;
        let expected = [&b"1"[..], &noise(1, 9_000), b"2"].concat();
        assert!(get(&fs, &file).await == expected);
        writer.go_on();
        writer.must("write 2 100");
        let told = writer.fails("hsync", "StaleSession");
        assert!(told.contains("session"), "{told}");
        assert!(get(&fs, &file).await == expected);
    }
}
