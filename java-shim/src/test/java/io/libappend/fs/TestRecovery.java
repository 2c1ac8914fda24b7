package io.libappend.fs;

import static org.apache.hadoop.test.LambdaTestUtils.intercept;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LeaseRecoverable;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.test.LambdaTestUtils;
import org.junit.Test;

/** Files that another writer has, or had: what Java is told, by class. Two classes more are tried by tests/surroundings. */
public class TestRecovery extends ServerTestBase {
  private static final byte[] HELLO = "hello".getBytes(StandardCharsets.UTF_8);

  private FSDataOutputStream held(Path path) throws IOException {
    write(path, HELLO);
    FSDataOutputStream out = fs.append(path);
    out.write(HELLO);
    out.hsync();
    return out;
  }

  private static LeaseRecoverable leases(FileSystem of) {
    return (LeaseRecoverable) of;
  }

  /** A recovery as an operator forces it, beside a writer that lives. */
  private static void fence(Path path) throws Exception {
    assertEquals("closed", TestServer.admin("recover-lease", "--force", path.toUri().getPath()).trim());
  }

  private static boolean inside(Thread thread, String method) {
    StackTraceElement[] stack = thread.getStackTrace();
    return stack.length > 0 && stack[0].isNativeMethod() && stack[0].getMethodName().equals(method);
  }

  @Test
  public void anInterruptEndsAnAppendThatWaits() throws Exception {
    Path path = file("waited-for");
    try (FileSystem other = TestServer.newFileSystem(); FSDataOutputStream out = held(path)) {
      FutureTask<Boolean> waits = new FutureTask<>(() -> {
        intercept(InterruptedIOException.class, () -> other.append(path));
        return Thread.currentThread().isInterrupted();
      });
      Thread waiter = new Thread(waits, "waiter");
      waiter.start();
      LambdaTestUtils.await(60_000, 5, () -> inside(waiter, "append"));
      waiter.interrupt();
      assertFalse("the interrupt status is taken with the exception", waits.get());
      // The owner was not disturbed.
      out.write(HELLO);
    }
    assertEquals("hellohellohello", new String(read(path), StandardCharsets.UTF_8));
    assertFalse(TestServer.hasWriter(TestServer.BUCKET));
  }

  @Test
  public void aWaitingAppendGoesOnWhenTheOwnerCloses() throws Exception {
    Path path = file("handed-over");
    try (FileSystem other = TestServer.newFileSystem()) {
      FSDataOutputStream out = held(path);
      FutureTask<Void> waits = new FutureTask<>(() -> {
        try (FSDataOutputStream next = other.append(path)) {
          next.write(HELLO);
        }
        return null;
      });
      Thread waiter = new Thread(waits, "waiter");
      waiter.start();
      LambdaTestUtils.await(60_000, 5, () -> inside(waiter, "append") || waits.isDone());
      out.close();
      waits.get();
    }
    assertEquals("hellohellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  /** A file that another lives in is still owned: at once by recovery, by append when the owner was seen to renew. */
  @Test
  public void stillOwned() throws Exception {
    Path path = file("owned");
    try (FileSystem other = TestServer.newFileSystem(); FSDataOutputStream out = held(path)) {
      assertFalse(leases(fs).isFileClosed(path));
      assertFalse(leases(other).isFileClosed(path));
      stillOwned(() -> leases(other).recoverLease(path));
      stillOwned(() -> other.append(path));
      stillOwned(() -> fs.append(path));
      out.write(HELLO);
    }
    assertTrue(leases(fs).isFileClosed(path));
    assertTrue("a closed file stays as it is", leases(fs).recoverLease(path));
    assertEquals(15, fs.getFileStatus(path).getLen());
  }

  private static void stillOwned(java.util.concurrent.Callable<?> call) throws Exception {
    IOException refused = intercept(IOException.class, call::call);
    assertEquals(refused.toString(), "AlreadyBeingCreatedException", refused.getClass().getSimpleName());
  }

  /** As on HDFS: who recovers a file that he writes himself ends his own stream. */
  @Test
  public void aStreamOfTheSameFileSystemIsRecoveredAtOnce() throws Exception {
    Path path = file("own");
    FSDataOutputStream out = held(path);
    assertTrue(leases(fs).recoverLease(path));
    assertTrue(leases(fs).isFileClosed(path));
    intercept(StaleSessionException.class, out::close);
    assertEquals("hellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  @Test
  public void theOldWriterIsToldThatItsSessionIsOver() throws Exception {
    Path path = file("fenced");
    FSDataOutputStream out = held(path);
    fence(path);
    assertTrue(leases(fs).isFileClosed(path));
    out.write(HELLO);
    intercept(StaleSessionException.class, out::hsync);
    intercept(StaleSessionException.class, out::close);
    out.close();
    assertEquals("hellohello", new String(read(path), StandardCharsets.UTF_8));
    append(path, HELLO);
    assertEquals("hellohellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  @Test
  public void aCloseOfAFencedWriterSaysSoToo() throws Exception {
    Path path = file("fenced");
    FSDataOutputStream out = held(path);
    fence(path);
    intercept(StaleSessionException.class, out::close);
    out.close();
    assertEquals("hellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  @Test
  public void whatIsNotThereIsNotRecovered() throws Exception {
    Path none = file("none");
    for (LambdaTestUtils.VoidCallable call : new LambdaTestUtils.VoidCallable[] {
        () -> leases(fs).recoverLease(none), () -> leases(fs).isFileClosed(none),
        () -> leases(fs).recoverLease(folder), () -> leases(fs).isFileClosed(folder)}) {
      intercept(FileNotFoundException.class, call);
    }
  }
}
