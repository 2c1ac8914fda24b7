package io.libappend.bench;

import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** Open for append, write, close; each thread on a file of its own. */
final class AppendWorkload implements Workload {
  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    int threads = arguments.count("threads", "1");
    int count = arguments.count("count", "10000");
    int size = arguments.count("size", "4k");
    boolean sync = arguments.text("sync", "none").equals("hsync");
    arguments.checkAllUsed();

    byte[] data = Bench.bytes(size);
    Path[] files = new Path[threads];
    for (int t = 0; t < threads; t++) {
      files[t] = new Path(bench.folder, "append-" + t);
      bench.fs.create(files[t], true).close();
    }
    Timed.Operation cycle = (thread, index) -> {
      try (FSDataOutputStream out = bench.fs.append(files[thread])) {
        out.write(data);
        if (sync) {
          out.hsync();
        }
      }
    };
    int before = (Math.min(bench.warmup, count) + threads - 1) / threads;
    Timed warm = Timed.run(threads, before, cycle);
    if (warm.errors() > 0) {
      throw new IOException(warm.firstError());
    }
    Timed timed = Timed.run(threads, count, cycle);

    long length = 0;
    boolean content = true;
    for (Path file : files) {
      length += bench.fs.getFileStatus(file).getLen();
      content &= !bench.verify || consistsOf(bench, file, data);
    }
    long ops = (long) threads * count;
    Line line = bench.line("append", arguments).put(timed, ops, (double) ops * size);
    line.put("length_ok", length == ((long) threads * before + ops - timed.errors()) * size);
    if (bench.verify) {
      line.put("content_ok", content);
    }
    bench.print(line);
  }

  /** Whether the file is {@code data} again and again, and nothing else. */
  static boolean consistsOf(Bench bench, Path file, byte[] data) throws IOException {
    byte[] read = new byte[data.length];
    long length = bench.fs.getFileStatus(file).getLen();
    try (FSDataInputStream in = bench.fs.open(file)) {
      for (long at = 0; at < length; at += data.length) {
        in.readFully(read);
        if (!Arrays.equals(read, data)) {
          return false;
        }
      }
      return in.read() < 0;
    }
  }
}
