package io.libappend.bench;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** Latencies of one phase, sorted, and how long it took as a whole. */
final class Timed {
  /** One operation of one thread; what it throws is counted as an error. */
  interface Operation {
    void run(int thread, int index) throws Exception;
  }

  private final long[] nanos;
  private final double seconds;
  private final long errors;
  private final String firstError;

  private Timed(long[] nanos, double seconds, long errors, String firstError) {
    Arrays.sort(nanos);
    this.nanos = nanos;
    this.seconds = seconds;
    this.errors = errors;
    this.firstError = firstError;
  }

  /** Runs {@code count} operations in each of {@code threads} threads, which start together. */
  static Timed run(int threads, int count, Operation operation) throws InterruptedException {
    long[] nanos = new long[Math.multiplyExact(threads, count)];
    long[] errors = new long[threads];
    AtomicReference<String> firstError = new AtomicReference<>();
    CountDownLatch ready = new CountDownLatch(threads);
    CountDownLatch start = new CountDownLatch(1);
    Thread[] workers = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int thread = t;
      workers[t] = new Thread(() -> {
        ready.countDown();
        try {
          start.await();
        } catch (InterruptedException e) {
          errors[thread] += count;
          return;
        }
        for (int i = 0; i < count; i++) {
          long began = System.nanoTime();
          try {
            operation.run(thread, i);
          } catch (Exception e) {
            errors[thread]++;
            firstError.compareAndSet(null, describe(e));
          }
          nanos[thread * count + i] = System.nanoTime() - began;
        }
      }, "bench-" + t);
      workers[t].start();
    }
    ready.await();
    long began = System.nanoTime();
    start.countDown();
    for (Thread worker : workers) {
      worker.join();
    }
    double seconds = (System.nanoTime() - began) / 1e9;
    return new Timed(nanos, seconds, Arrays.stream(errors).sum(), firstError.get());
  }

  /** Latencies that were taken one by one between other work; the phase took as long as they did together. */
  static Timed of(long[] nanos) {
    return new Timed(nanos.clone(), Arrays.stream(nanos).sum() / 1e9, 0, null);
  }

  double seconds() {
    return seconds;
  }

  long errors() {
    return errors;
  }

  /** What the first failed operation said, or null. */
  String firstError() {
    return firstError;
  }

  /** The smallest latency, in microseconds, that {@code share} of all operations did not exceed; null without operations. */
  Double percentile(double share) {
    if (nanos.length == 0) {
      return null;
    }
    int at = (int) Math.ceil(share * nanos.length) - 1;
    return nanos[Math.max(0, at)] / 1e3;
  }

  /** An exception on one line. */
  static String describe(Throwable failure) {
    return failure.toString().lines().findFirst().orElse("");
  }
}
