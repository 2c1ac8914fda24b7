//! The scripted writer: a process that is told what to write, and killed or stopped.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use append_e2e::Server;

/// A process with at most one stream. Killed when it is dropped.
pub(crate) struct Writer {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    /// A client in a process of its own, with blocks of 8 KiB.
    pub(crate) fn start(server: &Server) -> Writer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scripted"))
            .arg(server.uri())
            .args([
                "user=bob",
                "ozone.scm.block.size=8KB",
                "ozone.client.stream.buffer.size=4KB",
                "ozone.client.stream.buffer.max.size=8KB",
                "ozone.client.wait.between.retries.millis=50ms",
            ])
            .env_remove("HADOOP_CONF_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut writer = Writer {
            child,
            input,
            output,
        };
        assert_eq!(writer.answer(), "ok connected");
        writer
    }

    fn answer(&mut self) -> String {
        self.output.next().unwrap().unwrap()
    }

    /// Says what to do and returns what it answers.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        self.begin(line);
        self.answer()
    }

    /// Says what to do and does not wait for it; [`Writer::told`] does.
    pub(crate) fn begin(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The answer to what was begun.
    pub(crate) fn told(&mut self) -> String {
        self.answer()
    }

    /// As [`Writer::tell`], for what must work.
    pub(crate) fn must(&mut self, line: &str) {
        let answer = self.tell(line);
        assert!(answer.starts_with("ok "), "{line}: {answer}");
    }

    /// As [`Writer::tell`], for what must fail with an error of a kind; the text.
    pub(crate) fn fails(&mut self, line: &str, kind: &str) -> String {
        let answer = self.tell(line);
        let begin = format!("err {kind} ");
        assert!(answer.starts_with(&begin), "{line}: {answer}");
        answer
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(done.success());
    }

    /// `kill -STOP`.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    /// `kill -CONT`.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}
