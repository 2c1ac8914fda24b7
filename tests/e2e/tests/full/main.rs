//! The disk is full while files are appended to, as the client sees it: the write or the sync that needed room fails and says so, what was
//! published stays, reads are served, and everything goes on when there is room, with the same server or after a restart.
//!
//! Once on a small disk in memory, mounted in a namespace of its own (where this machine lets its user do so), and once for each kind of
//! file with a preloaded shim that lets writes fail in the middle, without the reserve that would refuse them earlier.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where something unexpected happens"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use append_client::admin::BucketLayout;
use append_client::{Config, CreateOptions, ErrorKind, FileSystem, WriteStream};
use append_e2e::{Server, append, config, fsck, get, noise, path, put};
use tempfile::TempDir;

/// Settings of a client that gives up soon.
fn impatient() -> Config {
    config()
        .with("ozone.client.stream.buffer.size", "64KB")
        .with("ozone.client.stream.buffer.max.size", "1MB")
        .with("libappend.call.timeout", "3s")
        .with("libappend.datanode.timeout", "3s")
}

/// Two files: one closed, one in the hands of an appender who has synced.
struct Files {
    fs: FileSystem,
    closed: Vec<u8>,
    synced: Vec<u8>,
    stream: WriteStream,
}

impl Files {
    async fn made(server: &Server) -> Files {
        let fs = server
            .bucket_with(BucketLayout::FileSystemOptimized, impatient())
            .await;
        let (closed, synced) = (noise(1, 300_000), noise(2, 200_000));
        put(&fs, &path("closed"), &closed[..250_000]).await;
        append(&fs, &path("closed"), &closed[250_000..]).await;
        put(&fs, &path("open"), &synced[..50_000]).await;
        let stream = fs.append(&path("open")).open().await.unwrap();
        stream.write(&synced[50_000..]).await.unwrap();
        stream.hsync().await.unwrap();
        Files {
            fs,
            closed,
            synced,
            stream,
        }
    }

    /// Everything that was published is read.
    async fn check(&self) {
        assert!(get(&self.fs, &path("closed")).await == self.closed);
        let open = get(&self.fs, &path("open")).await;
        assert!(open.starts_with(&self.synced), "synced bytes are gone");
    }

    /// A write and the sync behind it: one of them must fail for want of room.
    async fn sync_fails(&self) {
        let more = noise(3, 150_000);
        let tried = async {
            self.stream.write(&more).await?;
            self.stream.hsync().await
        };
        let error = tried.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert_eq!(error.errno(), libc::ENOSPC);
    }

    /// There is room again: the stream can be left, and the file taken again and written to.
    async fn goes_on(self) {
        self.check().await;
        let before = self.synced.clone();
        // What was refused may be sent again by the close, or be lost with it; it is never half there.
        let _ = self.stream.close().await;
        let fs = self.fs;
        let left = get(&fs, &path("open")).await;
        let whole = [before.clone(), noise(3, 150_000)].concat();
        assert!(left == before || left == whole, "{} bytes", left.len());
        append(&fs, &path("open"), b"more").await;
        assert!(get(&fs, &path("open")).await == [&left[..], b"more"].concat());
        append(&fs, &path("closed"), b"more").await;
        assert!(get(&fs, &path("closed")).await == [&self.closed[..], b"more"].concat());
        put(&fs, &path("new"), &noise(4, 300_000)).await;
        assert!(get(&fs, &path("new")).await == noise(4, 300_000));
        let open = fs.open_files(append_e2e::BUCKET, "", 100).await.unwrap();
        assert!(open.files.is_empty(), "{:?}", open.files);
    }
}

async fn mkdir_fails(fs: &FileSystem) {
    let error = fs.mkdirs(&path("folder"), true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
}

// ---- a small disk --------------------------------------------------------------------------------------------------------------

/// A disk in memory, mounted for one process that keeps it and for those that enter its namespace.
struct SmallDisk {
    keeper: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Nothing when this machine does not let its user mount.
    fn mounted(folder: &Path, size: &str) -> Option<SmallDisk> {
        let script = "mount -t tmpfs -o size=$2 tmpfs \"$1\" && echo mounted && exec sleep 86400";
        let keeper = Command::new("unshare")
            .args(["-rm", "sh", "-c", script, "sh"])
            .arg(folder)
            .arg(size)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut keeper = keeper.ok()?;
        let mut said = String::new();
        let output = keeper.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut said).unwrap();
        let disk = SmallDisk {
            keeper,
            folder: folder.to_owned(),
        };
        (said == "mounted\n").then_some(disk)
    }

    /// What brings a process into the namespace.
    fn inside(&self) -> Vec<String> {
        let pid = self.keeper.id().to_string();
        let words = ["nsenter", "-t", &pid, "-U", "-m", "--preserve-credentials"];
        words.map(str::to_owned).into()
    }

    fn ballast(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.keeper.id());
        let below = self.folder.strip_prefix("/").unwrap();
        Path::new(&root).join(below).join("ballast")
    }

    /// Fills the disk but for `leave` bytes.
    fn fill(&self, leave: u64) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast())
            .unwrap();
        let piece = vec![0; 64 << 10];
        while file.write_all(&piece).is_ok() {}
        let full = file.metadata().unwrap().len();
        file.set_len(full.saturating_sub(leave)).unwrap();
    }

    fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_refuses_what_needs_room_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(folder.path(), "128m") else {
        println!("this machine lets its user mount nothing: the other tests here stand alone");
        return;
    };
    let inside = disk.inside();
    let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
    let data = folder.path().to_owned();
    let mut server = Server::on(folder, &[], &[], &inside);
    let files = Files::made(&server).await;

    // Below the reserve for chunks, above that of the log: data is refused, names are not.
    disk.fill(9 << 20);
    files.sync_fails().await;
    files.fs.mkdirs(&path("names"), true).await.unwrap();
    let fresh = files
        .fs
        .create(&path("fresh"), &CreateOptions::default())
        .await
        .unwrap();
    let written = async {
        fresh.write(&noise(5, 100_000)).await?;
        fresh.close().await
    };
    let error = written.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    files.check().await;

    // Nothing is left at all: names are refused too, and everything is read.
    disk.fill(0);
    mkdir_fails(&files.fs).await;
    files.check().await;
    // A server that starts on a full disk serves what is there.
    server.restart();
    files.check().await;
    mkdir_fails(&files.fs).await;

    disk.empty();
    files.fs.mkdirs(&path("folder"), true).await.unwrap();
    files.fs.delete(&path("fresh"), false).await.unwrap();
    files.goes_on().await;
    server.kill();
    fsck(&data, &inside);
}

// ---- writes that fail in the middle --------------------------------------------------------------------------------------------

/// A server whose writes can be made to fail.
struct Failing {
    server: Server,
    switch: PathBuf,
    _folder: TempDir,
}

impl Failing {
    fn start(settings: &[&str]) -> Failing {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("full.so");
        let compiled = Command::new("cc")
            .args([
                "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
            ])
            .arg(&library)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/full/full.c"))
            .output()
            .expect("a C compiler, cc");
        assert!(compiled.status.success(), "{compiled:?}");
        let switch = folder.path().join("switch");
        let environment = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("APPEND_FULL_SWITCH", switch.to_str().unwrap()),
        ];
        let data = tempfile::tempdir().unwrap();
        Failing {
            server: Server::on(data, settings, &environment, &[]),
            switch,
            _folder: folder,
        }
    }

    /// From now on files whose path holds `text` do not grow.
    fn full(&self, text: &str) {
        // There at once with its content.
        let new = self.switch.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.switch).unwrap();
    }

    fn room(&self) {
        std::fs::remove_file(&self.switch).unwrap();
    }

    /// Stops the server and reads everything.
    fn sound(mut self) {
        self.server.kill();
        fsck(self.server.data(), &[]);
    }
}

#[tokio::test]
async fn blocks_that_find_no_room_fail_the_sync_and_names_go_on() {
    let failing = Failing::start(&[]);
    let files = Files::made(&failing.server).await;
    failing.full("/blocks/containers/");
    files.sync_fails().await;
    files.check().await;
    files.fs.mkdirs(&path("names"), true).await.unwrap();
    failing.room();
    files.goes_on().await;
    failing.sound();
}

#[tokio::test]
async fn a_container_that_cannot_begin_fails_the_sync() {
    // Small container files: the next one must be made while there is no room for it.
    let failing = Failing::start(&["libappend.datanode.container.bytes=64KB"]);
    let files = Files::made(&failing.server).await;
    failing.full("/blocks/containers/");
    files.sync_fails().await;
    files.check().await;
    failing.room();
    files.goes_on().await;
    failing.sound();
}

#[tokio::test]
async fn a_log_that_finds_no_room_refuses_commands_and_reads_go_on() {
    let failing = Failing::start(&[]);
    let files = Files::made(&failing.server).await;
    failing.full("/om/log/");
    mkdir_fails(&files.fs).await;
    files.sync_fails().await;
    files.check().await;
    failing.room();
    files.fs.mkdirs(&path("folder"), true).await.unwrap();
    files.goes_on().await;
    failing.sound();
}

#[tokio::test]
async fn a_segment_of_the_log_that_cannot_begin_refuses_commands() {
    let failing = Failing::start(&["libappend.om.log.segment.bytes=1KB"]);
    let files = Files::made(&failing.server).await;
    failing.full("/om/log/");
    // The first one may still fit in the segment that is there.
    let _ = files.fs.mkdirs(&path("fits"), true).await;
    mkdir_fails(&files.fs).await;
    files.check().await;
    failing.room();
    files.fs.mkdirs(&path("folder"), true).await.unwrap();
    files.goes_on().await;
    failing.sound();
}

/// The rows' own files are the engine's, which cannot go on without them: the process may end. What was acknowledged is there when there
/// is room again.
#[tokio::test]
async fn rows_that_find_no_room_lose_nothing() {
    let mut failing = Failing::start(&[]);
    let files = Files::made(&failing.server).await;
    failing.full("/om/rows/");
    let mut made = Vec::new();
    for number in 0..20 {
        let name = path(&format!("made{number}"));
        match files.fs.mkdirs(&name, true).await {
            Ok(()) => made.push(name),
            Err(_) => break,
        }
    }
    failing.room();
    failing.server.restart();
    files.check().await;
    for name in made {
        assert!(files.fs.status(&name).await.unwrap().directory);
    }
    files.goes_on().await;
    failing.sound();
}
