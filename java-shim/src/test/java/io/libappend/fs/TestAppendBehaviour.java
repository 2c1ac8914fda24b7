package io.libappend.fs;

import static org.apache.hadoop.test.LambdaTestUtils.intercept;
import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
import org.junit.Test;

/** What an append does and refuses, beyond Hadoop's suite. */
public class TestAppendBehaviour extends ServerTestBase {
  private static final byte[] HELLO = "hello".getBytes(StandardCharsets.UTF_8);

  /** What a refused append says and leaves: the path, the request as the server logs it, no writer. */
  private <E extends Throwable> E refused(Class<E> expected, Path path, boolean serverIsAsked) throws Exception {
    E refused = intercept(expected, () -> fs.append(path));
    String text = refused.getMessage();
    assertEquals(refused.toString(), expected, refused.getClass());
    assertTrue(text, text.contains(path.toUri().getPath()));
    assertEquals(text, serverIsAsked, text.matches("(?s).*request [0-9a-f]+-[0-9]+.*"));
    assertFalse("a writer is left", TestServer.hasWriter(TestServer.BUCKET));
    return refused;
  }

  /** Case P1: append wants an existing file. */
  @Test
  public void appendToNothingFailsAndMakesNothing() throws Exception {
    refused(FileNotFoundException.class, file("missing"), true);
    refused(FileNotFoundException.class, file("no/parent/either"), true);
    refused(FileNotFoundException.class, new Path("/nosuchvolume/bucket/key"), true);
    assertEquals(0, fs.listStatus(folder).length);
    assertFalse(fs.exists(new Path("/nosuchvolume")));
  }

  /** Case P1: a directory. */
  @Test
  public void appendToADirectorySaysSo() throws Exception {
    Path directory = file("dir");
    fs.mkdirs(directory);
    for (Path path : new Path[] {directory, new Path("/"), new Path("/contract"), new Path(TestServer.BUCKET)}) {
      IOException refused = refused(FileAlreadyExistsException.class, path, path.equals(directory));
      assertTrue(refused.getMessage(), refused.getMessage().contains("director"));
    }
  }

  /** Case P1: below a snapshot. The class is HDFS's own where hadoop-hdfs-client is on the class path. */
  @Test
  public void appendBelowASnapshotIsRefused() throws Exception {
    Path path = new Path(TestServer.BUCKET, ".snapshot/s/f");
    assertFalse(fs.hasPathCapability(path, CommonPathCapabilities.FS_APPEND));
    AccessControlException refused = refused(AccessControlException.class, path, false);
    assertTrue(refused.getMessage(), refused.getMessage().contains("snapshot"));
    assertFalse(fs.exists(path));
  }

  /** Case P1: a refused append leaves no owner behind. */
  @Test
  public void aRefusedAppendLeavesNoOwner() throws Exception {
    Path path = file("later");
    intercept(FileNotFoundException.class, () -> fs.append(path));
    write(path, HELLO);
    append(path, HELLO);
    assertEquals("hellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  /** Case P2. */
  @Test
  public void emptyAppendsChangeNothing() throws Exception {
    Path path = file("e");
    fs.create(path).close();
    byte[] letters = new byte[256];
    for (int i = 0; i < letters.length; i++) {
      letters[i] = (byte) ('a' + i % 26);
    }
    append(path, letters);
    FileStatus before = fs.getFileStatus(path);
    String usage = usage();
    assertEquals(256, before.getLen());
    assertArrayEquals(letters, read(path));
    for (int i = 0; i < 5; i++) {
      fs.append(path).close();
    }
    FileStatus after = fs.getFileStatus(path);
    assertEquals(256, after.getLen());
    assertEquals(before.getModificationTime(), after.getModificationTime());
    assertArrayEquals(letters, read(path));
    assertEquals(usage, usage());
    assertFalse(TestServer.hasWriter(TestServer.BUCKET));
    append(path, letters);
    assertEquals(512, fs.getFileStatus(path).getLen());
  }

  /** Bytes and names that the bucket is charged for. */
  private static String usage() throws Exception {
    StringBuilder used = new StringBuilder();
    for (String line : TestServer.admin("bucket", "info", TestServer.BUCKET).split("\n")) {
      if (line.startsWith("used ")) {
        used.append(line).append('\n');
      }
    }
    assertEquals(used.toString(), 2, used.toString().split("\n").length);
    return used.toString();
  }

  @Test
  public void theStreamKnowsItsPlaceInTheFile() throws Exception {
    Path path = file("pos");
    write(path, new byte[10]);
    FSDataOutputStream out = fs.append(path);
    assertEquals(10, out.getPos());
    out.write(HELLO);
    assertEquals(15, out.getPos());
    out.close();
    assertEquals(15, fs.getFileStatus(path).getLen());
  }

  @Test
  public void everyAppendCallReachesTheSameStream() throws Exception {
    Path path = file("calls");
    fs.create(path).close();
    append(path, HELLO);
    int[] reported = {0};
    try (FSDataOutputStream out = fs.append(path, 4096, () -> reported[0]++)) {
      out.write(HELLO);
    }
    assertTrue("progress was not reported", reported[0] > 0);
    try (FSDataOutputStream out = fs.append(path, true)) {
      out.write(HELLO);
    }
    try (FSDataOutputStream out =
        (FSDataOutputStream) fs.appendFile(path).bufferSize(10).opt("no.such.option", "x").build()) {
      out.write(HELLO);
    }
    BaseFileSystem own = (BaseFileSystem) fs;
    try (FSDataOutputStream out =
        own.append(path, EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK), 4096, null)) {
      out.write(HELLO);
    }
    FileContext context = FileContext.getFileContext(fs.getUri(), conf());
    try (FSDataOutputStream out = context.create(path, EnumSet.of(CreateFlag.APPEND))) {
      out.write(HELLO);
    }
    assertEquals("hellohellohellohellohellohello", new String(read(path), StandardCharsets.UTF_8));
  }

  @Test
  public void unknownFlagsAndOptionsAreRefused() throws Exception {
    Path path = file("flags");
    write(path, HELLO);
    BaseFileSystem own = (BaseFileSystem) fs;
    intercept(IllegalArgumentException.class, () -> fs.appendFile(path).must("no.such.option", "x").build());
    intercept(HadoopIllegalArgumentException.class,
        () -> own.append(path, EnumSet.of(CreateFlag.NEW_BLOCK), 4096, null));
    intercept(UnsupportedOperationException.class,
        () -> own.append(path, EnumSet.of(CreateFlag.APPEND, CreateFlag.LAZY_PERSIST), 4096, null));
    append(path, HELLO);
    assertEquals(10, fs.getFileStatus(path).getLen());
  }

  @Test
  public void createOnAnAppendBuilderIsACreate() throws Exception {
    Path path = file("builder");
    write(path, HELLO);
    intercept(FileAlreadyExistsException.class, () -> fs.appendFile(path).create().recursive().build());
    fs.appendFile(path).overwrite(true).recursive().build().close();
    assertEquals(0, fs.getFileStatus(path).getLen());
  }

  @Test
  public void aSecondWriterIsToldWhoOwnsTheFile() throws Exception {
    Path path = file("owned");
    write(path, HELLO);
    try (FileSystem other = TestServer.newFileSystem();
        FSDataOutputStream out = fs.append(path)) {
      out.write(HELLO);
      out.hsync();
      assertTrue(TestServer.hasWriter(TestServer.BUCKET));
      for (FileSystem second : new FileSystem[] {fs, other}) {
        IOException refused = intercept(IOException.class, () -> second.append(path));
        assertEquals(refused.toString(), "AlreadyBeingCreatedException", refused.getClass().getSimpleName());
        assertTrue(refused.getMessage(), refused.getMessage().contains(path.toUri().getPath()));
      }
      out.write(HELLO);
    }
    append(path, HELLO);
    assertEquals(20, fs.getFileStatus(path).getLen());
  }

  @Test
  public void hsyncedBytesAreThereForANewReader() throws Exception {
    Path path = file("sync");
    byte[] first = pattern(100_000, 1);
    byte[] second = pattern(70_000, 2);
    write(path, first);
    try (FSDataOutputStream out = fs.append(path)) {
      out.write(second);
      out.hflush();
      byte[] seen = read(path);
      assertEquals(first.length + second.length, seen.length);
      out.write(HELLO);
      out.hsync();
      assertEquals(first.length + second.length + HELLO.length, read(path).length);
    }
    byte[] all = new byte[first.length + second.length + HELLO.length];
    System.arraycopy(first, 0, all, 0, first.length);
    System.arraycopy(second, 0, all, first.length, second.length);
    System.arraycopy(HELLO, 0, all, first.length + second.length, HELLO.length);
    assertArrayEquals(all, read(path));
  }

  @Test
  public void renamedParentTakesTheStreamAlong() throws Exception {
    Path path = file("before/f");
    write(path, HELLO);
    FSDataOutputStream out = fs.append(path);
    out.write(HELLO);
    assertTrue(fs.rename(path.getParent(), file("after")));
    out.write(HELLO);
    out.close();
    assertEquals("hellohellohello", new String(read(file("after/f")), StandardCharsets.UTF_8));
    assertFalse(fs.exists(path));
  }

  @Test
  public void aDeletedFileDoesNotComeBack() throws Exception {
    Path path = file("gone");
    write(path, HELLO);
    FSDataOutputStream out = fs.append(path);
    out.write(HELLO);
    assertTrue(fs.delete(path, false));
    intercept(IOException.class, out::close);
    out.close();
    assertFalse(fs.exists(path));
  }

  @Test
  public void theCapabilityDependsOnThePath() throws Exception {
    assertTrue(fs.hasPathCapability(file("not/there"), CommonPathCapabilities.FS_APPEND));
    assertFalse(fs.hasPathCapability(new Path("/"), CommonPathCapabilities.FS_APPEND));
    assertFalse(fs.hasPathCapability(new Path("/contract"), CommonPathCapabilities.FS_APPEND));
    assertTrue(fs.hasPathCapability(folder, CommonPathCapabilities.LEASE_RECOVERABLE));
    assertFalse(fs.hasPathCapability(new Path("/contract"), CommonPathCapabilities.LEASE_RECOVERABLE));
    assertFalse(fs.hasPathCapability(folder, CommonPathCapabilities.FS_PERMISSIONS));
  }

  /** Case P1: object store buckets. The bucket is made by whoever starts the server. */
  @Test
  public void objectStoreBucketsRefuseAppend() throws Exception {
    Path path = new Path("/contract/obs/key");
    assertFalse(fs.hasPathCapability(path, CommonPathCapabilities.FS_APPEND));
    refused(UnsupportedOperationException.class, path, true);
    assertFalse(TestServer.hasWriter("/contract/obs"));
  }

  @Test
  public void o3fsIsTheSameBucket() throws Exception {
    Path path = file("both");
    write(path, HELLO);
    Path own = new Path("o3fs://fso.contract." + TestServer.authority() + "/"
        + path.toUri().getPath().substring(TestServer.BUCKET.length() + 1));
    try (FileSystem o3fs = FileSystem.newInstance(own.toUri(), conf())) {
      try (FSDataOutputStream out = o3fs.append(own)) {
        out.write(HELLO);
      }
      assertEquals(10, read(o3fs, own).length);
      assertEquals(own, o3fs.getFileStatus(own).getPath());
      assertEquals(own, o3fs.listStatus(own.getParent())[0].getPath());
    }
    assertEquals("hellohello", new String(read(path), StandardCharsets.UTF_8));
  }
}
