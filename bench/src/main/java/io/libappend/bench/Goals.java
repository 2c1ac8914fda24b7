package io.libappend.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalDouble;

/** What the project promises of its speed, each as one number out of a run's medians and a bound. Knows no file and no output. */
final class Goals {
  static final String OURS = "libappend";
  static final String HDFS = "hdfs";
  static final String LIMIT = "limit";
  static final String RUST = "rust";

  /** One promise: {@code value} is empty if the run did not measure it. */
  record Goal(String text, OptionalDouble value, boolean atLeast, double bound) {
    boolean met() {
      return value.isPresent() && (atLeast ? value.getAsDouble() >= bound : value.getAsDouble() <= bound);
    }

    String verdict() {
      return value.isEmpty() ? "not measured" : met() ? "met" : "MISSED";
    }

    String wanted() {
      return String.format(Locale.ROOT, "%s %s", atLeast ? ">=" : "<=", bound);
    }
  }

  private final Results results;
  private final List<Goal> goals = new ArrayList<>();

  private Goals(Results results) {
    this.results = results;
  }

  static List<Goal> of(Results results) {
    Goals goals = new Goals(results);
    goals.appends();
    goals.syncs();
    goals.names();
    goals.streams();
    return goals.goals;
  }

  private void appends() {
    OptionalDouble one = rate(OURS, "append", "threads=1", "sync=none");
    atLeast(15, "append + close, 1 thread: rate, times HDFS's", one, rate(HDFS, "append", "threads=1", "sync=none"));
    atLeast(0.6, "append + close, 1 thread: rate, of the limit's (3 round trips + 3 fdatasync)", one, rate(LIMIT, "limit_append"));
    atLeast(30, "append + close, 16 threads: rate, times HDFS's", rate(OURS, "append", "threads=16", "sync=none"),
        rate(HDFS, "append", "threads=16", "sync=none"));
    OptionalDouble late = quotient(rate(OURS, "growth_late"), rate(OURS, "growth_fresh_late"));
    OptionalDouble early = quotient(rate(OURS, "growth_early"), rate(OURS, "growth_fresh_early"));
    atLeast(0.9, "growing file: rate of the last window, of the second window's", rate(OURS, "growth_late"),
        rate(OURS, "growth_early"));
    atLeast(0.9, "the same, each relative to the fresh file beside it", late, early);
    atLeast(0.5, "reading the grown file: MB/s, of a contiguous one's", results.median(OURS, "mb_per_s", "growth_read"),
        results.median(OURS, "mb_per_s", "contiguous_read"));
    OptionalDouble bytes = results.median(OURS, "bytes", "growth_read");
    OptionalDouble pieces = bytes.isPresent()
        ? OptionalDouble.of(Math.ceil(bytes.getAsDouble() / (256 << 10))) : OptionalDouble.empty();
    atMost(1, "reading the grown file: datanode requests for each 256 KiB",
        results.median(OURS, "datanode_requests", "growth_read"), pieces);
  }

  private void syncs() {
    String[] plain = {"threads=1", "open=append", "blocks=0", "depth=0"};
    OptionalDouble ours = p50(OURS, "hsync", plain);
    OptionalDouble limit = p50(LIMIT, "limit_hsync");
    atMost(1.5, "hsync: p50, times the limit's (3 round trips + 2 fdatasync)", ours, limit);
    atMost(1, "hsync: p50, times HDFS's", ours, p50(HDFS, "hsync", plain));
    for (Results.Measurement measurement : results.measurements()) {
      boolean shaped = measurement.is("hsync", "threads=1") && !measurement.is("hsync", plain);
      OptionalDouble p50 = Results.median(results.values(OURS, measurement, "p50_us"));
      if (shaped && p50.isPresent()) {
        atMost(1.5, "hsync, " + measurement.arguments().replaceAll("(threads|count|size)=\\w+ ?", "") + ": p50, times the limit's",
            p50, limit);
      }
    }
  }

  private void names() {
    for (String threads : List.of("1", "16")) {
      for (String call : List.of("mkdirs", "rename", "delete", "getFileStatus")) {
        atLeast(2, call + ", " + threads + (threads.equals("1") ? " thread" : " threads") + ": rate, times HDFS's",
            rate(OURS, call, "threads=" + threads), rate(HDFS, call, "threads=" + threads));
      }
    }
  }

  private void streams() {
    OptionalDouble write = results.median(OURS, "mb_per_s", "stream_write");
    OptionalDouble read = results.median(OURS, "mb_per_s", "stream_read");
    atLeast(1, "stream, write: MB/s, of HDFS's", write, results.median(HDFS, "mb_per_s", "stream_write"));
    atLeast(0.7, "stream, read: MB/s, of HDFS's", read, results.median(HDFS, "mb_per_s", "stream_read"));
    atLeast(0.8, "stream, write: MB/s, of the Rust client's", write, results.median(RUST, "mb_per_s", "stream_write"));
    atLeast(0.8, "stream, read: MB/s, of the Rust client's", read, results.median(RUST, "mb_per_s", "stream_read"));
    for (String way : List.of("write", "read")) {
      memory("stream, " + way + ": peak memory beyond the start, MiB", "rss_peak_mb", "rss_start_mb", "stream_" + way, 64);
      memory("stream, " + way + ": memory at the end beyond half-way, MiB", "rss_end_mb", "rss_half_mb", "stream_" + way, 8);
    }
  }

  private void memory(String text, String field, String base, String name, double bound) {
    OptionalDouble more = results.median(OURS, field, name);
    OptionalDouble from = results.median(OURS, base, name);
    OptionalDouble grown = more.isPresent() && from.isPresent()
        ? OptionalDouble.of((more.getAsDouble() - from.getAsDouble()) * 1e6 / (1 << 20)) : OptionalDouble.empty();
    goals.add(new Goal(text, grown, false, bound));
  }

  private void atLeast(double bound, String text, OptionalDouble value, OptionalDouble of) {
    goals.add(new Goal(text, quotient(value, of), true, bound));
  }

  private void atMost(double bound, String text, OptionalDouble value, OptionalDouble of) {
    goals.add(new Goal(text, quotient(value, of), false, bound));
  }

  private OptionalDouble rate(String peer, String name, String... arguments) {
    return results.median(peer, "ops_per_s", name, arguments);
  }

  private OptionalDouble p50(String peer, String name, String... arguments) {
    return results.median(peer, "p50_us", name, arguments);
  }

  private static OptionalDouble quotient(OptionalDouble value, OptionalDouble of) {
    return value.isPresent() && of.isPresent() && of.getAsDouble() != 0
        ? OptionalDouble.of(value.getAsDouble() / of.getAsDouble()) : OptionalDouble.empty();
  }
}
