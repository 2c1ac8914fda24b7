package io.libappend.bench;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/**
 * Write and hsync (or hflush) on one open stream per thread. {@code blocks} appends were made to the file before, so that it
 * has at least as many blocks where each append begins one; {@code depth} folders lie between the bench's folder and the file.
 */
final class SyncWorkload implements Workload {
  private final boolean hsync;

  SyncWorkload(boolean hsync) {
    this.hsync = hsync;
  }

  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    String name = hsync ? "hsync" : "hflush";
    int threads = arguments.count("threads", "1");
    int count = arguments.count("count", "1000");
    int size = arguments.count("size", "4k");
    String open = arguments.text("open", "append");
    int blocks = arguments.count("blocks", "0");
    int depth = arguments.count("depth", "0");
    arguments.checkAllUsed();
    if (blocks > 0 && open.equals("create")) {
      throw new IllegalArgumentException("a creating stream has no earlier blocks");
    }

    byte[] data = Bench.bytes(size);
    FSDataOutputStream[] streams = new FSDataOutputStream[threads];
    Path[] files = new Path[threads];
    for (int t = 0; t < threads; t++) {
      files[t] = new Path(bench.folder, "d/".repeat(depth) + name + "-" + t);
      streams[t] = writer(bench, files[t], open, blocks);
    }
    Timed.Operation write = (thread, index) -> {
      streams[thread].write(data);
      if (hsync) {
        streams[thread].hsync();
      } else {
        streams[thread].hflush();
      }
    };
    int before = Math.min(bench.warmup, count);
    for (int i = 0; i < before; i++) {
      write.run(i % threads, i);
    }
    Line line = bench.line(name, arguments).put("capability", streams[0].hasCapability(name));
    Timed timed = Timed.run(threads, count, write);
    long length = 0;
    for (int t = 0; t < threads; t++) {
      streams[t].close();
      length += bench.fs.getFileStatus(files[t]).getLen();
    }
    long ops = (long) threads * count;
    line.put(timed, ops, (double) ops * size);
    line.put("length_ok", length == (ops + before) * size + (long) threads * blocks);
    bench.print(line);
  }

  private static FSDataOutputStream writer(Bench bench, Path file, String open, int blocks) throws IOException {
    bench.fs.mkdirs(file.getParent());
    if (blocks == 0) {
      return bench.writer(file, open);
    }
    bench.fs.create(file, true).close();
    byte[] one = Bench.bytes(1);
    for (int i = 0; i < blocks; i++) {
      bench.appendCycle(file, one);
    }
    return bench.fs.append(file);
  }
}
