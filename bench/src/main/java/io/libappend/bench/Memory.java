package io.libappend.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Resident memory of this process while something runs. It counts what Java's heap hides: give the JVM a fixed heap that is
 * touched at start ({@code -Xms} = {@code -Xmx}, {@code -XX:+AlwaysPreTouch}), and what grows is buffers and the native library.
 */
final class Memory {
  private static final Path STATUS = Path.of("/proc/self/status");

  private final List<Double> samples = new ArrayList<>();

  Memory() throws IOException {
    sample();
  }

  private Memory(double start) {
    samples.add(start);
  }

  /** Another phase of the same process, with the same start. */
  Memory onward() {
    return new Memory(samples.get(0));
  }

  void sample() throws IOException {
    samples.add(residentMb());
  }

  /** First, largest, middle and last sample, in MB (1,000,000 bytes). */
  void put(Line line) {
    line.put("rss_start_mb", samples.get(0));
    line.put("rss_peak_mb", samples.stream().mapToDouble(d -> d).max().orElse(0));
    line.put("rss_half_mb", samples.get(samples.size() / 2));
    line.put("rss_end_mb", samples.get(samples.size() - 1));
  }

  private static double residentMb() throws IOException {
    for (String line : Files.readAllLines(STATUS)) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024 / 1e6;
      }
    }
    throw new IOException(STATUS + " has no VmRSS");
  }
}
