package io.libappend.fs;

import static org.apache.hadoop.test.LambdaTestUtils.intercept;
import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.StreamCapabilities;
import org.junit.Test;

/** Streams and file systems after close, between threads, and under an interrupt. */
public class TestStreamBehaviour extends ServerTestBase {
  /** Case P8. */
  @Test
  public void afterCloseOnlyWritesFail() throws Exception {
    Path path = file("closed");
    FSDataOutputStream out = fs.create(path);
    out.write(pattern(1000, 3));
    out.close();
    out.flush();
    out.close();
    intercept(ClosedChannelException.class, () -> out.write(1));
    intercept(ClosedChannelException.class, () -> out.write(new byte[10]));
    intercept(ClosedChannelException.class, out::hflush);
    out.close();
    assertArrayEquals(pattern(1000, 3), read(path));
  }

  /** Case P8: records of two threads stay whole. */
  @Test
  public void recordsOfTwoThreadsStayWhole() throws Exception {
    Path path = file("threads");
    fs.create(path).close();
    AtomicReference<Throwable> failure = new AtomicReference<>();
    try (FSDataOutputStream out = fs.append(path)) {
      List<Thread> threads = new ArrayList<>();
      for (int t = 0; t < 2; t++) {
        byte[] record = new byte[64];
        Arrays.fill(record, (byte) ('0' + t));
        Thread thread = new Thread(() -> {
          try {
            for (int i = 0; i < 1000; i++) {
              out.write(record);
            }
          } catch (IOException e) {
            failure.set(e);
          }
        });
        thread.start();
        threads.add(thread);
      }
      for (Thread thread : threads) {
        thread.join();
      }
    }
    assertEquals(null, failure.get());
    byte[] all = read(path);
    assertEquals(2 * 1000 * 64, all.length);
    for (int i = 0; i < all.length; i++) {
      assertEquals("mixed record at " + i, all[i - i % 64], all[i]);
    }
  }

  @Test
  public void writesAcrossTheBufferKeepTheirOrder() throws Exception {
    Path path = file("sizes");
    byte[] expected = pattern(3_000_000, 5);
    int[] sizes = {1, 7, 64, 4096, 131_071, 131_072, 131_073, 700_000};
    try (FSDataOutputStream out = fs.create(path)) {
      int at = 0;
      for (int i = 0; at < expected.length; i++) {
        int count = Math.min(sizes[i % sizes.length], expected.length - at);
        if (count == 1) {
          out.write(expected[at]);
        } else {
          out.write(expected, at, count);
        }
        at += count;
      }
    }
    assertArrayEquals(expected, read(path));
  }

  @Test
  public void closingTheFileSystemKeepsTheBytesOfOpenStreams() throws Exception {
    Path path = file("open");
    FileSystem own = TestServer.newFileSystem();
    FSDataOutputStream out = own.create(path);
    out.write(pattern(13, 0));
    FSDataInputStream in = own.open(path);
    own.close();
    own.close();
    assertArrayEquals(pattern(13, 0), read(path));
    intercept(IOException.class, "Filesystem closed", () -> own.exists(path));
    intercept(IOException.class, "Filesystem closed", () -> own.append(path));
    intercept(IOException.class, () -> in.read());
    intercept(ClosedChannelException.class, () -> out.write(1));
    append(path, pattern(3, 0));
    assertEquals(16, fs.getFileStatus(path).getLen());
  }

  /** A server that takes the connection and never answers. */
  @Test
  public void anInterruptEndsABlockedCall() throws Exception {
    try (ServerSocket silent = new ServerSocket(0, 16, InetAddress.getLoopbackAddress())) {
      URI uri = URI.create("ofs://127.0.0.1:" + silent.getLocalPort());
      AtomicReference<Throwable> seen = new AtomicReference<>();
      Thread caller = new Thread(() -> {
        try {
          FileSystem.newInstance(uri, conf()).exists(new Path("/v/b/k"));
        } catch (Throwable e) {
          seen.set(e);
        }
      });
      caller.start();
      try (Socket accepted = silent.accept()) {
        // The request has arrived: the caller waits for an answer that will not come.
        assertTrue(accepted.getInputStream().read() >= 0);
        caller.interrupt();
        caller.join();
      }
      assertTrue(String.valueOf(seen.get()), seen.get() instanceof InterruptedIOException);
    }
  }

  @Test
  public void anAbsentServerIsNamed() throws Exception {
    int port;
    try (ServerSocket gone = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = gone.getLocalPort();
    }
    IOException refused = intercept(IOException.class,
        () -> FileSystem.newInstance(URI.create("ofs://127.0.0.1:" + port), conf()).exists(new Path("/v/b/k")));
    assertTrue(refused.getMessage(), refused.getMessage().contains("127.0.0.1:" + port));
  }

  @Test
  public void readsThroughEveryDoor() throws Exception {
    Path path = file("read");
    byte[] bytes = pattern(300_000, 9);
    write(path, Arrays.copyOf(bytes, 200_000));
    append(path, Arrays.copyOfRange(bytes, 200_000, bytes.length));
    try (FSDataInputStream in = fs.open(path)) {
      for (ByteBuffer target : new ByteBuffer[] {ByteBuffer.allocate(90_000), ByteBuffer.allocateDirect(90_000)}) {
        target.position(10);
        in.readFully(150_000, target);
        assertEquals(0, target.remaining());
        target.position(10);
        byte[] got = new byte[target.remaining()];
        target.get(got);
        assertArrayEquals(Arrays.copyOfRange(bytes, 150_000, 150_000 + got.length), got);
      }
      assertEquals(0, in.getPos());
      ByteBuffer small = ByteBuffer.allocateDirect(100);
      assertEquals(100, in.read(small));
      assertEquals(100, in.getPos());
      in.unbuffer();
      assertEquals(bytes[100] & 0xff, in.read());
      in.seek(bytes.length);
      assertEquals(-1, in.read());
      assertEquals(-1, in.read(ByteBuffer.allocate(5)));
      assertEquals(-1, in.read(bytes.length, ByteBuffer.allocate(5)));
      intercept(EOFException.class, () -> in.seek(bytes.length + 1L));
      intercept(EOFException.class, () -> in.readFully(bytes.length - 2L, ByteBuffer.allocate(3)));
      assertTrue(in.hasCapability(StreamCapabilities.UNBUFFER));
      assertTrue(in.hasCapability(StreamCapabilities.PREADBYTEBUFFER));
    }
  }

  @Test
  public void listsMoreThanOnePage() throws Exception {
    Set<String> expected = new HashSet<>();
    for (int i = 0; i < 1100; i++) {
      expected.add("d" + i);
      fs.mkdirs(file("many/d" + i));
    }
    Set<String> seen = new HashSet<>();
    RemoteIterator<FileStatus> each = fs.listStatusIterator(file("many"));
    while (each.hasNext()) {
      assertTrue("listed twice", seen.add(each.next().getPath().getName()));
    }
    assertEquals(expected, seen);
  }

  @Test
  public void oddNamesComeBackAsTheyWere() throws Exception {
    for (String odd : new String[] {"with space", "ümlaut", "percent%20", "plus+", "a=b", "日本"}) {
      Path path = file("odd/" + odd);
      fs.create(path).close();
      assertEquals(path, fs.getFileStatus(path).getPath());
    }
    Set<String> names = new HashSet<>();
    for (FileStatus status : fs.listStatus(file("odd"))) {
      names.add(status.getPath().getName());
      assertTrue(fs.exists(status.getPath()));
    }
    assertEquals(6, names.size());
  }
}
