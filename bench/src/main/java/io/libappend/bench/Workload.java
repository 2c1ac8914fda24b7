package io.libappend.bench;

/** One thing to measure. It finds {@code bench.folder} empty and prints one or more lines. */
interface Workload {
  void run(Bench bench, Arguments arguments) throws Exception;
}
