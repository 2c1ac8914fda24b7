package io.libappend.bench;

import java.io.IOException;
import java.net.URI;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** What all workloads of one call share: the file system under test, a folder of its own, and where results go. */
final class Bench {
  final Configuration conf;
  final URI uri;
  /** The name under which results are printed. */
  final String peer;
  final Path folder;
  /** Operations that go before those that are measured. */
  final int warmup;
  /** Whether appended files are read back and compared. */
  final boolean verify;
  /** Options that another process needs to reach the same file system. */
  final List<String> options;
  /** Where the server shows its metrics, or null. */
  final URI metrics;
  final FileSystem fs;
  private final Map<String, Object> notes = new LinkedHashMap<>();
  private final Consumer<Line> results;
  private boolean failed;

  Bench(Configuration conf, FsBench.Options options, Consumer<Line> results) throws IOException {
    this.conf = conf;
    this.uri = options.uri;
    this.peer = options.peer;
    this.folder = new Path(options.folder);
    this.warmup = options.warmup;
    this.verify = options.verify;
    this.options = options.connection;
    this.metrics = options.metrics;
    this.notes.putAll(options.notes);
    this.results = results;
    this.fs = FileSystem.newInstance(uri, conf);
  }

  Line line(String name, Arguments arguments) {
    return new Line(name, peer, arguments.toString());
  }

  void print(Line line) {
    notes.forEach(line::put);
    failed |= line.failed();
    results.accept(line);
  }

  boolean failed() {
    return failed;
  }

  /** Creates the file empty and opens it for append; with {@code open=create} returns the creating stream itself. */
  FSDataOutputStream writer(Path file, String open) throws IOException {
    FSDataOutputStream created = fs.create(file, true);
    switch (open) {
      case "create":
        return created;
      case "append":
        created.close();
        return fs.append(file);
      default:
        created.close();
        throw new IllegalArgumentException("open=" + open + " is neither create nor append");
    }
  }

  /** Appends {@code data} in a cycle of its own: open, write, close. */
  void appendCycle(Path file, byte[] data) throws IOException {
    try (FSDataOutputStream out = fs.append(file)) {
      out.write(data);
    }
  }

  /** Bytes that do not compress and are the same in each run. */
  static byte[] bytes(int count) {
    byte[] data = new byte[count];
    new Random(42).nextBytes(data);
    return data;
  }

  static void require(boolean answer) throws IOException {
    if (!answer) {
      throw new IOException("the call answered false");
    }
  }
}
