package io.libappend.fs;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.rules.TestName;

/** A file system on the test server and a folder of the test's own. */
public abstract class ServerTestBase {
  @Rule
  public TestName name = new TestName();

  protected FileSystem fs;
  protected Path folder;

  @Before
  public void connect() throws IOException {
    fs = TestServer.newFileSystem();
    folder = new Path(TestServer.BUCKET, getClass().getSimpleName() + "/" + name.getMethodName());
    fs.delete(folder, true);
    fs.mkdirs(folder);
  }

  @After
  public void disconnect() throws IOException {
    fs.close();
  }

  protected Path file(String relative) {
    return fs.makeQualified(new Path(folder, relative));
  }

  protected void write(Path path, byte[] bytes) throws IOException {
    try (FSDataOutputStream out = fs.create(path, true)) {
      out.write(bytes);
    }
  }

  protected void append(Path path, byte[] bytes) throws IOException {
    try (FSDataOutputStream out = fs.append(path)) {
      out.write(bytes);
    }
  }

  protected byte[] read(Path path) throws IOException {
    return read(fs, path);
  }

  protected static byte[] read(FileSystem from, Path path) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    try (FSDataInputStream in = from.open(path)) {
      IOUtils.copyBytes(in, all, 4096, false);
    }
    return all.toByteArray();
  }

  protected static Configuration conf() {
    Configuration conf = new Configuration();
    TestServer.register(conf);
    return conf;
  }

  /** Bytes that differ from place to place. */
  protected static byte[] pattern(int length, int seed) {
    byte[] bytes = new byte[length];
    for (int i = 0; i < length; i++) {
      bytes[i] = (byte) (i * 31 + (i >> 8) * 7 + seed);
    }
    return bytes;
  }
}
