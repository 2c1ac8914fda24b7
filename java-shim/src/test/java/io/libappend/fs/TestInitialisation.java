package io.libappend.fs;

import static org.apache.hadoop.test.LambdaTestUtils.intercept;
import static org.junit.Assert.assertEquals;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.Test;

/** What goes wrong before a server is asked anything. */
public class TestInitialisation {
  private static Configuration conf() {
    Configuration conf = new Configuration();
    TestServer.register(conf);
    return conf;
  }

  @Test
  public void malformedO3fsAuthoritiesShowTheForm() throws Exception {
    for (String bad : new String[] {"o3fs://bucket/", "o3fs:///", "o3fs://b:9862/", "o3fs://.v.host/"}) {
      intercept(IOException.class, "o3fs://bucket.volume.host:port/key",
          () -> FileSystem.newInstance(URI.create(bad), conf()));
    }
  }

  @Test
  public void o3fsAuthoritiesNameServerAndBucket() throws Exception {
    O3fsFileSystem fs = new O3fsFileSystem();
    URI full = URI.create("o3fs://b1.v1.host.example:9862/k");
    assertEquals("host.example:9862", fs.serverOf(full));
    assertEquals("/v1/b1", fs.rootOf(full));
    assertEquals("", fs.serverOf(URI.create("o3fs://b1.v1/k")));
  }

  @Test
  public void impossibleBufferSizesAreRefused() throws Exception {
    Configuration conf = conf();
    conf.setInt(BaseFileSystem.WRITE_BUFFER_KEY, 0);
    intercept(IllegalArgumentException.class, BaseFileSystem.WRITE_BUFFER_KEY,
        () -> FileSystem.newInstance(URI.create("ofs://127.0.0.1:1/"), conf));
  }

  @Test
  public void aFileSystemThatWasNeverConnectedCloses() throws Exception {
    new OfsFileSystem().close();
  }
}
