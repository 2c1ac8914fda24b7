//! `append serve` as an operator meets it: what it prints, what it refuses, how it ends, and that files outlive it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

fn append() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_append"));
    command
        .env_remove("HADOOP_CONF_DIR")
        .env_remove("HADOOP_HOME")
        .stdin(Stdio::null());
    command
}

fn serve(data: &Path, more: &[&str]) -> Command {
    let mut command = append();
    command.arg("serve").arg("--data").arg(data).args(more);
    command
}

/// A server on free ports, killed when dropped.
struct Server {
    child: Child,
    /// Kept open, so that the server may go on printing.
    _out: BufReader<ChildStdout>,
    http: String,
    uri: String,
}

impl Server {
    fn start(data: &Path, more: &[&str]) -> Server {
        let mut child = serve(data, &["--listen", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = |start: &str| {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            let rest = line.trim_end().strip_prefix(start);
            rest.unwrap_or_else(|| panic!("{line:?} does not start with {start:?}"))
                .to_owned()
        };
        let (http, uri) = (line("http http://"), line("ready "));
        Server {
            child,
            _out: out,
            http,
            uri,
        }
    }

    fn signal(mut self, name: &str) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap()
    }

    fn shell(&self, args: &[&str]) -> Output {
        append()
            .args(["fs", "-fs", &self.uri])
            .args(args)
            .output()
            .unwrap()
    }

    fn get(&self, page: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(
            stream,
            "GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended, or the test failed: nothing is left behind either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server that is expected not to start; gives its complaint.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stdout, b"", "it must not say that it is ready");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn files_outlive_an_orderly_stop_and_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept\n").unwrap();
    let data = folder.path().join("new/data");

    let server = Server::start(&data, &[]);
    let put = server.shell(&["-appendToFile", file.to_str().unwrap(), "/vol1/bucket1/f"]);
    assert!(put.status.success(), "{put:?}");
    assert_eq!(server.signal("TERM").code(), Some(0));

    let server = Server::start(&data, &[]);
    assert_eq!(server.shell(&["-cat", "/vol1/bucket1/f"]).stdout, b"kept\n");
    assert_eq!(server.signal("KILL").code(), None);

    let server = Server::start(&data, &[]);
    assert_eq!(server.shell(&["-cat", "/vol1/bucket1/f"]).stdout, b"kept\n");
    assert_eq!(server.signal("INT").code(), Some(0));
}

#[test]
fn health_metrics_and_settings_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["-D", "ozone.om.lease.soft.limit=7s"]);
    assert!(
        server.get("/health").starts_with("HTTP/1.1 200 "),
        "{}",
        server.get("/health")
    );
    assert!(
        server.get("/prom").contains("append_applied_index"),
        "{}",
        server.get("/prom")
    );
    let settings = server.get("/conf");
    assert!(
        settings.contains("ozone.om.lease.soft.limit") && settings.contains('7'),
        "{settings}"
    );
}

#[test]
fn an_address_that_others_reach_needs_a_word() {
    let folder = tempfile::tempdir().unwrap();
    for address in [
        &["--listen", "0.0.0.0:0"][..],
        &["--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"],
        &["--listen", "127.0.0.1:0", "--grpc", "[::]:0"],
    ] {
        let complaint = refused(serve(folder.path(), address));
        assert!(complaint.contains("--insecure"), "{complaint}");
    }
    let server = Server::start(folder.path(), &["--http", "0.0.0.0:0", "--insecure"]);
    assert_eq!(server.signal("TERM").code(), Some(0));
}

#[test]
fn one_server_per_folder_and_per_port() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let complaint = refused(serve(folder.path(), &["--listen", "127.0.0.1:0"]));
    assert!(
        complaint.contains(folder.path().to_str().unwrap()),
        "{complaint}"
    );
    let other = tempfile::tempdir().unwrap();
    let taken = server.uri.strip_prefix("ofs://").unwrap();
    let complaint = refused(serve(
        other.path(),
        &["--listen", taken, "--http", "127.0.0.1:0"],
    ));
    assert!(complaint.contains(taken), "{complaint}");
}

#[test]
fn malformed_settings_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = refused(serve(
        folder.path(),
        &[
            "--listen",
            "127.0.0.1:0",
            "-D",
            "ozone.om.lease.soft.limit=soon",
        ],
    ));
    assert!(
        complaint.contains("ozone.om.lease.soft.limit"),
        "{complaint}"
    );

    let conf = tempfile::tempdir().unwrap();
    std::fs::write(
        conf.path().join("ozone-site.xml"),
        "<configuration><property>",
    )
    .unwrap();
    let mut command = serve(folder.path(), &["--listen", "127.0.0.1:0"]);
    command.env("HADOOP_CONF_DIR", conf.path());
    let complaint = refused(command);
    assert!(complaint.contains("ozone-site.xml"), "{complaint}");

    let output = serve(folder.path(), &["--listen", "nowhere"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn the_shell_reads_its_server_from_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let conf = tempfile::tempdir().unwrap();
    let site = |default: &str, more: &str| {
        let text = format!(
            "<configuration><property><name>fs.defaultFS</name><value>{default}</value></property>{more}</configuration>"
        );
        std::fs::write(conf.path().join("core-site.xml"), text).unwrap();
    };
    let run = |args: &[&str]| {
        let mut command = append();
        command
            .env("HADOOP_CONF_DIR", conf.path())
            .arg("fs")
            .args(args);
        command.output().unwrap()
    };
    site(&server.uri, "");
    assert!(run(&["-mkdir", "-p", "/vol1/bucket1/d"]).status.success());
    assert_eq!(
        run(&["-ls", "-C", "/vol1/bucket1"]).stdout,
        b"/vol1/bucket1/d\n"
    );

    // A trash that is promised and not there must not become a deletion.
    let trash = "<property><name>fs.trash.interval</name><value>60</value></property>";
    site(&server.uri, trash);
    let kept = run(&["-rm", "-r", "/vol1/bucket1/d"]);
    assert_eq!(kept.status.code(), Some(255), "{kept:?}");
    assert!(
        run(&["-rm", "-r", "-skipTrash", "/vol1/bucket1/d"])
            .status
            .success()
    );

    site("hdfs://elsewhere:8020", "");
    let complaint = run(&["-ls", "/"]);
    assert_eq!(complaint.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&complaint.stderr).contains("hdfs://elsewhere:8020"),
        "{complaint:?}"
    );
    std::fs::write(conf.path().join("core-site.xml"), "<configuration>").unwrap();
    let complaint = run(&["-ls", "/"]);
    assert_eq!(complaint.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&complaint.stderr).contains("core-site.xml"),
        "{complaint:?}"
    );
}

/// Runs `append admin fsck`; gives its exit code and what it printed.
fn fsck(data: &Path) -> (Option<i32>, String) {
    let output = append()
        .args(["admin", "fsck", "--data"])
        .arg(data)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn a_checkpoint_is_taken_when_it_is_asked_for_and_the_folder_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept\n").unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let file = file.to_str().unwrap();
    assert!(
        server
            .shell(&["-appendToFile", file, "/vol1/bucket1/f"])
            .status
            .success()
    );
    let checkpoint = |http: &str| {
        append()
            .args(["admin", "checkpoint", "--http", http])
            .output()
            .unwrap()
    };
    let taken = checkpoint(&server.http);
    assert!(taken.status.success(), "{taken:?}");
    assert!(
        String::from_utf8(taken.stdout)
            .unwrap()
            .contains("\"index\":")
    );
    assert_eq!(
        std::fs::read_dir(data.join("om/checkpoints"))
            .unwrap()
            .count(),
        1
    );
    assert!(
        server
            .shell(&["-appendToFile", file, "/vol1/bucket1/f"])
            .status
            .success()
    );

    let (code, text) = fsck(&data);
    assert_eq!(code, Some(1));
    assert!(text.contains("in use"), "{text}");
    let http = server.http.clone();
    assert_eq!(server.signal("TERM").code(), Some(0));
    assert_eq!(checkpoint(&http).status.code(), Some(1));
    let (code, text) = fsck(&data);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 checkpoints"), "{text}");
    assert!(text.contains("10 bytes read: 0 violations"), "{text}");

    let (code, text) = fsck(folder.path());
    assert_eq!(code, Some(1));
    assert!(text.contains("no data folder"), "{text}");
    assert!(!folder.path().join("om").exists());
}

#[test]
fn a_rotten_checkpoint_and_rotten_bytes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "these bytes will rot\n").unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let put = server.shell(&["-appendToFile", file.to_str().unwrap(), "/vol1/bucket1/f"]);
    assert!(put.status.success(), "{put:?}");
    assert!(
        append()
            .args(["admin", "checkpoint", "--http", &server.http])
            .status()
            .unwrap()
            .success()
    );
    server.signal("TERM");

    let rot = |path: &Path, what: &[u8]| {
        let mut bytes = std::fs::read(path).unwrap();
        let at = bytes
            .windows(what.len())
            .position(|window| window == what)
            .unwrap();
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let container = data.join("blocks/containers/0000000001.data");
    rot(&container, b"bytes will rot");
    let (code, text) = fsck(&data);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.starts_with("block ") && text.contains("1 violations"),
        "{text}"
    );
    let checkpoint = std::fs::read_dir(data.join("om/checkpoints"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    rot(&checkpoint, b"bucket1");
    let (code, text) = fsck(&data);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("checkpoint ") && text.contains("2 violations"),
        "{text}"
    );
}
