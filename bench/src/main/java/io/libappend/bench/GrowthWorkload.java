package io.libappend.bench;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/**
 * Whether a cycle costs more the longer the file is: one file, appended to {@code count} times. Two windows of it are measured,
 * the second {@code window} cycles and the last. In both each cycle alternates with one on a file that was empty when the window
 * began, so that a machine that slows down is told from a file that does. Then the file is read, beside one that was written in
 * one piece.
 */
final class GrowthWorkload implements Workload {
  private static final String REQUESTS = "datanode_requests_total{";

  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    int count = arguments.count("count", "10000");
    int size = arguments.count("size", "4k");
    int window = arguments.count("window", "1000");
    int reads = arguments.count("reads", "5");
    arguments.checkAllUsed();
    if (count < 3 * window) {
      throw new IllegalArgumentException("count must be at least three windows");
    }

    byte[] data = Bench.bytes(size);
    Path grown = new Path(bench.folder, "grown");
    bench.fs.create(grown, true).close();
    for (int done = 0; done < count;) {
      if (done == window || done == count - window) {
        measure(bench, arguments, grown, data, window, done == window ? "early" : "late");
        done += window;
      } else {
        bench.appendCycle(grown, data);
        done++;
      }
    }

    long length = (long) count * size;
    Path contiguous = new Path(bench.folder, "contiguous");
    try (FSDataOutputStream out = bench.fs.create(contiguous, true)) {
      for (int i = 0; i < count; i++) {
        out.write(data);
      }
    }
    Reading whole = new Reading(bench, "contiguous_read", contiguous, length, data);
    Reading pieces = new Reading(bench, "growth_read", grown, length, data);
    // Once unmeasured, so that neither of the two pays for a cold cache; then in turn, so that both see the same machine.
    StreamWorkload.read(bench, contiguous, length, data, null);
    StreamWorkload.read(bench, grown, length, data, null);
    for (int i = 0; i < reads; i++) {
      whole.once();
      pieces.once();
    }
    whole.print(arguments, reads);
    pieces.print(arguments, reads);
  }

  private static void measure(Bench bench, Arguments arguments, Path grown, byte[] data, int window, String name)
      throws IOException {
    Path fresh = new Path(bench.folder, "fresh-" + name);
    bench.fs.create(fresh, true).close();
    long[] onGrown = new long[window];
    long[] onFresh = new long[window];
    for (int i = 0; i < window; i++) {
      long began = System.nanoTime();
      bench.appendCycle(grown, data);
      long between = System.nanoTime();
      bench.appendCycle(fresh, data);
      onGrown[i] = between - began;
      onFresh[i] = System.nanoTime() - between;
    }
    double bytes = (double) window * data.length;
    bench.print(bench.line("growth_" + name, arguments).put(Timed.of(onGrown), window, bytes));
    bench.print(bench.line("growth_fresh_" + name, arguments).put(Timed.of(onFresh), window, bytes));
  }

  /** One file, read again and again; figures are means over the reads. */
  private static final class Reading {
    private static final int PIECE = 64 << 10;

    private final Bench bench;
    private final String name;
    private final Path file;
    private final long length;
    private final byte[] piece;
    private double seconds;
    private long wrong;
    private long requests;

    Reading(Bench bench, String name, Path file, long length, byte[] data) {
      this.bench = bench;
      this.name = name;
      this.file = file;
      this.length = length;
      // Whole appends, about as many as fit a read of usual size; the content repeats, so it is as easy to check.
      piece = new byte[data.length * Math.max(1, PIECE / data.length)];
      for (int at = 0; at < piece.length; at += data.length) {
        System.arraycopy(data, 0, piece, at, data.length);
      }
    }

    void once() throws IOException, InterruptedException {
      long before = requests(bench.metrics);
      long began = System.nanoTime();
      wrong += StreamWorkload.read(bench, file, length, piece, null);
      seconds += (System.nanoTime() - began) / 1e9;
      requests += requests(bench.metrics) - before;
    }

    void print(Arguments arguments, int reads) {
      Line line = bench.line(name, arguments).put(seconds / reads, length, wrong);
      line.put("bytes", length).put("datanode_requests", bench.metrics == null ? null : (double) requests / reads);
      bench.print(line);
    }
  }

  /** Requests that the server's datanode has answered so far, of all kinds; 0 if it is not known where to look. */
  private static long requests(URI metrics) throws IOException, InterruptedException {
    if (metrics == null) {
      return 0;
    }
    String page = HttpClient.newHttpClient()
        .send(HttpRequest.newBuilder(metrics).build(), HttpResponse.BodyHandlers.ofString()).body();
    return page.lines().filter(line -> line.startsWith(REQUESTS))
        .mapToLong(line -> (long) Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1))).sum();
  }
}
