package io.libappend.bench;

import org.apache.hadoop.fs.Path;

/** Names alone: mkdirs, getFileStatus, rename, listStatus, delete, and the deletion of a full folder in one call. */
final class NamespaceWorkload implements Workload {
  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    int threads = arguments.count("threads", "1");
    int count = arguments.count("count", "1000");
    int width = arguments.count("width", "1000");
    int lists = arguments.count("lists", "20");
    arguments.checkAllUsed();

    warmUp(bench, Math.min(bench.warmup, count));
    for (int t = 0; t < threads; t++) {
      bench.fs.mkdirs(new Path(bench.folder, "t" + t));
    }
    phase(bench, "mkdirs", arguments, threads, count,
        (thread, i) -> Bench.require(bench.fs.mkdirs(path(bench, thread, "d", i))));
    phase(bench, "getFileStatus", arguments, threads, count,
        (thread, i) -> Bench.require(bench.fs.getFileStatus(path(bench, thread, "d", i)).isDirectory()));
    phase(bench, "rename", arguments, threads, count,
        (thread, i) -> Bench.require(bench.fs.rename(path(bench, thread, "d", i), path(bench, thread, "r", i))));

    Path full = new Path(bench.folder, "full");
    bench.fs.mkdirs(full);
    for (int i = 0; i < width; i++) {
      bench.fs.create(new Path(full, "f" + i), false).close();
    }
    phase(bench, "listStatus", arguments, threads, lists,
        (thread, i) -> Bench.require(bench.fs.listStatus(full).length == width));
    phase(bench, "delete", arguments, threads, count,
        (thread, i) -> Bench.require(bench.fs.delete(path(bench, thread, "r", i), false)));
    phase(bench, "delete_tree", arguments, 1, 1, (thread, i) -> Bench.require(bench.fs.delete(full, true)));
  }

  private static void warmUp(Bench bench, int count) throws Exception {
    for (int i = 0; i < count; i++) {
      Path made = new Path(bench.folder, "warm" + i);
      Path renamed = new Path(bench.folder, "warmed" + i);
      bench.fs.mkdirs(made);
      bench.fs.getFileStatus(made);
      bench.fs.rename(made, renamed);
      bench.fs.listStatus(renamed);
      bench.fs.delete(renamed, false);
    }
  }

  private static Path path(Bench bench, int thread, String kind, int index) {
    return new Path(bench.folder, "t" + thread + "/" + kind + index);
  }

  private static void phase(Bench bench, String name, Arguments arguments, int threads, int count, Timed.Operation operation)
      throws InterruptedException {
    bench.print(bench.line(name, arguments).put(Timed.run(threads, count, operation), (long) threads * count, 0));
  }
}
