package io.libappend.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.util.Progressable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The workloads on a file system that needs no server: what they print, and that they notice what is wrong. */
class TestWorkloads {
  @TempDir
  java.nio.file.Path folder;

  @Test
  void everyWorkloadPrintsItsLines() throws Exception {
    Run run = run(RawLocalFileSystem.class, "append", "threads=2", "count=3", "size=1k", "create", "count=2", "hsync", "count=2",
        "blocks=3", "depth=2", "hflush", "count=2", "open=create", "stream", "size=3m", "chunk=1m", "preads=4", "pread=1k", "list",
        "threads=2", "count=3", "width=4", "lists=1", "growth", "count=6", "window=2", "reads=2");

    assertTrue(run.ok, run.lines::toString);
    assertEquals(List.of("append", "create", "hsync", "hflush", "stream_write", "stream_read", "stream_pread", "mkdirs",
        "getFileStatus", "rename", "listStatus", "delete", "delete_tree", "growth_early", "growth_fresh_early", "growth_late",
        "growth_fresh_late", "contiguous_read", "growth_read"), run.lines.stream().map(l -> l.path("name").asText()).toList());
    JsonNode append = run.line("append");
    assertEquals("threads=2 count=3 size=1k sync=none", append.path("args").asText());
    assertEquals(6, append.path("ops").asInt());
    assertTrue(append.path("length_ok").asBoolean());
    assertTrue(append.path("content_ok").asBoolean());
    assertEquals(6 * 4096, run.line("growth_read").path("bytes").asInt());
    assertTrue(run.line("stream_write").path("rss_peak_mb").asDouble() > 0);
    assertEquals(7, run.line("mkdirs").path("round").asInt());
    try (var left = Files.list(folder)) {
      assertEquals(0, left.count());
    }
  }

  @Test
  void aWriteThatGoesLostIsTold() throws Exception {
    Run run = run(Forgetful.class, "append", "count=3", "size=1k");
    assertFalse(run.ok);
    assertFalse(run.line("append").path("length_ok").asBoolean());
  }

  @Test
  void aFailedOperationIsTold() throws Exception {
    Run run = run(Refusing.class, "list", "count=3", "width=2", "lists=1");
    assertFalse(run.ok);
    JsonNode rename = run.line("rename");
    assertEquals(3, rename.path("errors").asInt());
    assertEquals("java.io.IOException: the call answered false", rename.path("first_error").asText());
  }

  @Test
  void aMistypedArgumentIsRefused() throws Exception {
    Run run = run(RawLocalFileSystem.class, "append", "cuont=3");
    assertFalse(run.ok);
    assertTrue(run.line("append").path("first_error").asText().contains("unknown argument cuont"));
    assertThrows(IllegalArgumentException.class, () -> run(RawLocalFileSystem.class, "apend"));
  }

  @Test
  void percentilesAreLatenciesThatWereMeasured() {
    long[] nanos = new long[100];
    for (int i = 0; i < nanos.length; i++) {
      nanos[i] = (100 - i) * 1000L;
    }
    Timed timed = Timed.of(nanos);
    assertEquals(50, timed.percentile(0.50));
    assertEquals(99, timed.percentile(0.99));
    assertEquals(100, timed.percentile(1));
    assertEquals(5050e-6, timed.seconds(), 1e-12);
    assertNull(Timed.of(new long[0]).percentile(0.5));
  }

  @Test
  void sizesHaveSuffixes() {
    assertEquals(4096, Arguments.parse("size", "4k"));
    assertEquals(1L << 30, Arguments.parse("size", "1g"));
    assertEquals(17, Arguments.parse("size", "17"));
    for (String wrong : List.of("", "k", "4x", "four")) {
      assertThrows(IllegalArgumentException.class, () -> Arguments.parse("size", wrong), wrong);
    }
  }

  @Test
  void theLimitIsMeasured() throws Exception {
    List<Line> lines = PhysicalLimit.measure(folder, 3);
    assertEquals(4, lines.size());
    for (Line line : lines) {
      assertFalse(line.failed(), line::toString);
    }
    // 3 cycles of two appends to the log and one of one, each with its warm-up, and those that were synced alone.
    assertEquals(4096 * 2 * (3 + 6 + 3), Files.size(folder.resolve("limit-log")));
    assertEquals(4096 * 2 * (3 + 3), Files.size(folder.resolve("limit-blocks")));
  }

  private record Run(boolean ok, List<JsonNode> lines) {
    JsonNode line(String name) {
      return lines.stream().filter(line -> line.path("name").asText().equals(name)).findFirst().orElseThrow();
    }
  }

  private Run run(Class<? extends RawLocalFileSystem> type, String... workloads) throws IOException {
    Configuration conf = new Configuration(false);
    conf.setClass("fs.file.impl", type, org.apache.hadoop.fs.FileSystem.class);
    List<String> arguments = new ArrayList<>(List.of("--fs", URI.create("file:///").toString(), "--name", "local", "--dir",
        folder.resolve("run").toString(), "--warmup", "2", "--verify", "--note", "round=7"));
    arguments.addAll(List.of(workloads));
    List<JsonNode> lines = new ArrayList<>();
    ObjectMapper json = new ObjectMapper();
    boolean ok = FsBench.run(conf, FsBench.parse(arguments.toArray(String[]::new), conf), line -> {
      try {
        lines.add(json.readTree(line.toString()));
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    });
    return new Run(ok, lines);
  }

  /** Appends nothing every other time. */
  public static final class Forgetful extends RawLocalFileSystem {
    private int appends;

    @Override
    public FSDataOutputStream append(Path file, int bufferSize, Progressable progress) throws IOException {
      return ++appends % 2 == 0 ? new FSDataOutputStream(java.io.OutputStream.nullOutputStream(), null)
          : super.append(file, bufferSize, progress);
    }
  }

  /** Renames nothing in the measured folders. */
  public static final class Refusing extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path target) throws IOException {
      return !source.getName().startsWith("d") && super.rename(source, target);
    }
  }
}
