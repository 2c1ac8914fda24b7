package io.libappend.fs.contract;

import io.libappend.fs.TestServer;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/**
 * A bucket held to HDFS's values. The system property {@code append.contract} says which: scheme and layout, as in
 * {@code ofs-fso} (the default), {@code ofs-legacy}, {@code o3fs-fso}, {@code o3fs-legacy}.
 *
 * <p>The bucket is named after its layout, in the volume {@code contract}; whoever starts the server makes it.
 */
public class BucketContract extends AbstractFSContract {
  private final String scheme;
  private final String layout;

  public BucketContract(Configuration conf) {
    super(conf);
    String[] parts = System.getProperty("append.contract", "ofs-fso").split("-");
    if (parts.length != 2 || !parts[0].matches("ofs|o3fs") || !parts[1].matches("fso|legacy")) {
      throw new IllegalArgumentException("append.contract: " + String.join("-", parts));
    }
    scheme = parts[0];
    layout = parts[1];
    addConfResource("contract/hdfs.xml");
    TestServer.register(conf);
  }

  private boolean isOfs() {
    return scheme.equals("ofs");
  }

  @Override
  public String getScheme() {
    return scheme;
  }

  @Override
  public FileSystem getTestFileSystem() throws IOException {
    return FileSystem.get(
        isOfs() ? TestServer.uri() : URI.create("o3fs://" + layout + ".contract." + TestServer.authority()), getConf());
  }

  @Override
  public Path getTestPath() {
    return new Path(isOfs() ? "/contract/" + layout + "/test" : "/test");
  }
}
