package io.libappend.bench;

import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;

/** Create, write, close of small files; each thread in a folder of its own. */
final class CreateWorkload implements Workload {
  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    int threads = arguments.count("threads", "1");
    int count = arguments.count("count", "1000");
    int size = arguments.count("size", "4k");
    arguments.checkAllUsed();

    byte[] data = Bench.bytes(size);
    for (int t = 0; t < threads; t++) {
      bench.fs.mkdirs(new Path(bench.folder, "create-" + t));
    }
    Timed.Operation cycle = (thread, index) -> {
      try (FSDataOutputStream out = bench.fs.create(new Path(bench.folder, "create-" + thread + "/" + index), false)) {
        out.write(data);
      }
    };
    for (int i = 0; i < Math.min(bench.warmup, count); i++) {
      cycle.run(i % threads, count + i);
    }
    Timed timed = Timed.run(threads, count, cycle);
    long ops = (long) threads * count;
    bench.print(bench.line("create", arguments).put(timed, ops, (double) ops * size));
  }
}
