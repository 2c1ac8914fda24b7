package io.libappend.fs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.junit.Test;

/**
 * Case P9: threads that open, append, close and end leave nothing behind. The JVM runs with -Xcheck:jni, whose complaints fail the run of
 * the suites. The system property {@code append.rounds} says how often; the case has 50.
 */
public class TestThreads extends ServerTestBase {
  private static final int THREADS = 200;
  private static final int ROUNDS = Integer.getInteger("append.rounds", 2);
  private static final byte[] RECORD = "record\n".getBytes(StandardCharsets.US_ASCII);

  @Test
  public void threadsComeAndGo() throws Exception {
    // What is made at first use and stays: code, pools, connections, the worker threads of the native library.
    round(0);
    int threads = status("Threads");
    int memory = status("VmRSS");
    for (int i = 1; i <= ROUNDS; i++) {
      round(i);
    }
    int after = status("Threads");
    assertTrue(after + " threads of the process, before " + threads, after < threads + THREADS / 4);
    int grown = status("VmRSS") - memory;
    // A thread that stays attached, or its streams, would take more than this each.
    assertTrue(grown + " KiB more", grown < Math.max(ROUNDS, 10) * THREADS * 8 + 64 * 1024);
    for (int i = 0; i < THREADS; i++) {
      assertEquals((ROUNDS + 1L) * RECORD.length, fs.getFileStatus(file("f" + i)).getLen());
    }
  }

  private void round(int number) throws Exception {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      Path path = file("f" + i);
      // Most over one connection, some with their own.
      boolean own = i % 20 == 0;
      FutureTask<Void> task = new FutureTask<>(() -> {
        if (own) {
          try (FileSystem mine = TestServer.newFileSystem()) {
            work(mine, path, number);
          }
        } else {
          work(fs, path, number);
        }
        return null;
      });
      tasks.add(task);
      threads.add(new Thread(task, "p9-" + i));
    }
    threads.forEach(Thread::start);
    for (int i = 0; i < THREADS; i++) {
      tasks.get(i).get();
      threads.get(i).join();
    }
  }

  private static void work(FileSystem with, Path path, int number) throws IOException {
    if (number == 0) {
      with.create(path, true).close();
    }
    try (FSDataOutputStream out = with.append(path)) {
      assertEquals((long) number * RECORD.length, out.getPos());
      out.write(RECORD);
    }
  }

  /** A number of this process as Linux tells it. */
  private static int status(String name) throws IOException {
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith(name + ":")) {
        return Integer.parseInt(line.replaceAll("[^0-9]", ""));
      }
    }
    throw new IOException("no " + name);
  }
}
