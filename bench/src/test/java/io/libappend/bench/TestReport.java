package io.libappend.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Medians, ratios and verdicts out of given lines. */
class TestReport {
  private static final String APPEND = "threads=1 count=10 size=4k sync=none";

  @Test
  void ratesAreMediansOverTheRounds() throws IOException {
    Results results = new Results();
    for (int rate : new int[] {900, 300, 330}) {
      results.add(line("append", "libappend", APPEND, "\"ops_per_s\":" + rate));
    }
    for (int rate : new int[] {20, 24, 10, 40}) {
      results.add(line("append", "hdfs", APPEND, "\"ops_per_s\":" + rate));
    }
    Goals.Goal goal = goal(results, "append + close, 1 thread: rate, times HDFS's");
    assertEquals(330.0 / 22, goal.value().getAsDouble(), 1e-9);
    assertTrue(goal.met());
    assertEquals("not measured", goal(results, "append + close, 16 threads: rate, times HDFS's").verdict());
    assertTrue(Report.text(results, Goals.of(results)).contains("330 (300 to 900)"));
  }

  @Test
  void theBoundItselfIsGoodEnoughAndBelowItIsNot() throws IOException {
    for (int ours : new int[] {100, 99}) {
      Results results = new Results();
      results.add(line("rename", "libappend", "threads=16 count=1", "\"ops_per_s\":" + ours));
      results.add(line("rename", "hdfs", "threads=16 count=1", "\"ops_per_s\":50"));
      assertEquals(ours == 100 ? "met" : "MISSED", goal(results, "rename, 16 threads: rate, times HDFS's").verdict());
    }
  }

  @Test
  void threadsAreToldApart() throws IOException {
    Results results = new Results();
    results.add(line("mkdirs", "libappend", "threads=1 count=1", "\"ops_per_s\":100"));
    results.add(line("mkdirs", "libappend", "threads=16 count=1", "\"ops_per_s\":1000"));
    results.add(line("mkdirs", "hdfs", "threads=1 count=1", "\"ops_per_s\":10"));
    results.add(line("mkdirs", "hdfs", "threads=16 count=1", "\"ops_per_s\":20"));
    assertEquals(10, goal(results, "mkdirs, 1 thread: rate, times HDFS's").value().getAsDouble());
    assertEquals(50, goal(results, "mkdirs, 16 threads: rate, times HDFS's").value().getAsDouble());
  }

  @Test
  void aLineWithErrorsIsNoMeasurement() throws IOException {
    Results results = new Results();
    results.add(line("hsync", "libappend", "threads=1 open=append blocks=0 depth=0",
        "\"p50_us\":1,\"errors\":2,\"first_error\":\"java.io.IOException: gone\""));
    results.add(line("hsync", "hdfs", "threads=1 open=append blocks=0 depth=0", "\"p50_us\":10"));
    assertFalse(goal(results, "hsync: p50, times HDFS's").value().isPresent());
    assertEquals(1, results.failures().size());
    assertTrue(results.failures().get(0).contains("java.io.IOException: gone"));
  }

  @Test
  void theLimitAndEveryShapeOfHsyncAreCompared() throws IOException {
    Results results = new Results();
    results.add(line("limit_hsync", "limit", "round_trips=3 fdatasyncs=2", "\"p50_us\":500"));
    results.add(line("hsync", "libappend", "threads=1 count=5 size=4k open=append blocks=0 depth=0", "\"p50_us\":700"));
    results.add(line("hsync", "libappend", "threads=1 count=5 size=4k open=append blocks=10000 depth=2", "\"p50_us\":800"));
    assertEquals(1.4, goal(results, "hsync: p50, times the limit's (3 round trips + 2 fdatasync)").value().getAsDouble(), 1e-9);
    Goals.Goal shaped = goal(results, "hsync, open=append blocks=10000 depth=2: p50, times the limit's");
    assertEquals(1.6, shaped.value().getAsDouble(), 1e-9);
    assertEquals("MISSED", shaped.verdict());
  }

  @Test
  void growthIsMeasuredAgainstTheFreshFileBesideIt() throws IOException {
    Results results = new Results();
    results.add(line("growth_early", "libappend", "count=3", "\"ops_per_s\":100"));
    results.add(line("growth_fresh_early", "libappend", "count=3", "\"ops_per_s\":100"));
    results.add(line("growth_late", "libappend", "count=3", "\"ops_per_s\":57"));
    results.add(line("growth_fresh_late", "libappend", "count=3", "\"ops_per_s\":60"));
    results.add(line("growth_read", "libappend", "count=3", "\"bytes\":262145,\"datanode_requests\":2,\"mb_per_s\":10"));
    assertEquals("MISSED", goal(results, "growing file: rate of the last window, of the second window's").verdict());
    assertEquals(0.95, goal(results, "the same, each relative to the fresh file beside it").value().getAsDouble(), 1e-9);
    assertEquals(1, goal(results, "reading the grown file: datanode requests for each 256 KiB").value().getAsDouble());
  }

  @Test
  void memoryIsCountedFromTheStart() throws IOException {
    Results results = new Results();
    results.add(line("stream_write", "libappend", "size=1g",
        "\"mb_per_s\":100,\"rss_start_mb\":600,\"rss_half_mb\":650,\"rss_peak_mb\":700,\"rss_end_mb\":650"));
    assertEquals(100e6 / (1 << 20), goal(results, "stream, write: peak memory beyond the start, MiB").value().getAsDouble(), 1e-9);
    assertEquals("met", goal(results, "stream, write: memory at the end beyond half-way, MiB").verdict());
  }

  private static String line(String name, String peer, String arguments, String fields) {
    return "{\"name\":\"" + name + "\",\"fs\":\"" + peer + "\",\"args\":\"" + arguments + "\",\"ops\":1," + fields + "}";
  }

  private static Goals.Goal goal(Results results, String text) {
    List<Goals.Goal> goals = Goals.of(results);
    return goals.stream().filter(goal -> goal.text().equals(text)).findFirst()
        .orElseThrow(() -> new AssertionError(goals.toString()));
  }
}
