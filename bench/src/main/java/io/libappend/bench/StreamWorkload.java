package io.libappend.bench;

import java.io.IOException;
import java.util.Random;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** One long stream: written, read from end to end, read at random places. */
final class StreamWorkload implements Workload {
  /** Bytes between two looks at the process's memory. */
  private static final long SAMPLE_EVERY = 16L << 20;

  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    long size = arguments.number("size", "256m");
    int chunk = arguments.count("chunk", "1m");
    int preads = arguments.count("preads", "1000");
    int pread = arguments.count("pread", "64k");
    String open = arguments.text("open", "append");
    arguments.checkAllUsed();

    byte[] data = Bench.bytes(chunk);
    Path file = new Path(bench.folder, "stream");
    // Memory counts from before the first connection and buffer; time counts once those are there.
    Memory memory = new Memory();
    Path warm = new Path(bench.folder, "warm");
    try (FSDataOutputStream out = bench.writer(warm, open)) {
      out.write(data);
    }
    read(bench, warm, chunk, data, null);

    long began = System.nanoTime();
    FSDataOutputStream out = bench.writer(file, open);
    for (long done = 0; done < size;) {
      int part = (int) Math.min(chunk, size - done);
      out.write(data, 0, part);
      done += part;
      if (done / SAMPLE_EVERY != (done - part) / SAMPLE_EVERY) {
        memory.sample();
      }
    }
    long closing = System.nanoTime();
    out.close();
    long ended = System.nanoTime();
    memory.sample();
    boolean whole = bench.fs.getFileStatus(file).getLen() == size;
    Line line = bench.line("stream_write", arguments).put((ended - began) / 1e9, size, whole ? 0 : 1);
    line.put("close_ms", (ended - closing) / 1e6).put("length_ok", whole);
    memory.put(line);
    bench.print(line);

    Memory reading = memory.onward();
    began = System.nanoTime();
    long wrong = read(bench, file, size, data, reading);
    Line readLine = bench.line("stream_read", arguments).put((System.nanoTime() - began) / 1e9, size, wrong);
    reading.put(readLine);
    bench.print(readLine);

    if (preads > 0 && size > pread) {
      bench.print(preads(bench, file, size, preads, pread, data, arguments));
    }
  }

  /** Reads the file in pieces of {@code data}'s length, looks at both ends of each piece, and counts those that are wrong. */
  static long read(Bench bench, Path file, long size, byte[] data, Memory memory) throws IOException {
    byte[] target = new byte[data.length];
    long wrong = 0;
    long at = 0;
    try (FSDataInputStream in = bench.fs.open(file)) {
      for (int got; (got = in.read(target)) > 0; at += got) {
        int last = got - 1;
        if (target[0] != data[(int) (at % data.length)] || target[last] != data[(int) ((at + last) % data.length)]) {
          wrong++;
        }
        if (memory != null && (at + got) / SAMPLE_EVERY != at / SAMPLE_EVERY) {
          memory.sample();
        }
      }
    }
    return wrong + (at == size ? 0 : 1);
  }

  private static Line preads(Bench bench, Path file, long size, int count, int length, byte[] data, Arguments arguments)
      throws Exception {
    Random random = new Random(7);
    byte[] target = new byte[length];
    try (FSDataInputStream in = bench.fs.open(file)) {
      Timed.Operation operation = (thread, index) -> {
        long at = (long) (random.nextDouble() * (size - length));
        in.readFully(at, target, 0, length);
        if (target[0] != data[(int) (at % data.length)]) {
          throw new IOException("wrong byte at " + at);
        }
      };
      for (int i = 0; i < bench.warmup; i++) {
        operation.run(0, i);
      }
      return bench.line("stream_pread", arguments).put(Timed.run(1, count, operation), count, (double) count * length);
    }
  }
}
