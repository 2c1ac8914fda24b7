package io.libappend.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** The running server that tests use. Its absence is a failure, never a reason to skip. */
public final class TestServer {
  /** Folder for tests: a bucket with the default layout, FSO. */
  public static final String BUCKET = "/contract/fso";

  private TestServer() {
  }

  /** Host and port of the server, from the system property {@code append.server}. */
  public static String authority() {
    String authority = System.getProperty("append.server", "");
    if (authority.isEmpty()) {
      throw new IllegalStateException(
          "no server: give -Dappend.server=HOST:PORT of a running `append serve`, or use `make contract`");
    }
    return authority;
  }

  public static URI uri() {
    return URI.create("ofs://" + authority());
  }

  /** Settings that a user writes into core-site.xml. */
  public static void register(Configuration conf) {
    conf.set("fs.ofs.impl", OfsFileSystem.class.getName());
    conf.set("fs.o3fs.impl", O3fsFileSystem.class.getName());
    conf.set("fs.AbstractFileSystem.ofs.impl", Ofs.class.getName());
    conf.set("fs.AbstractFileSystem.o3fs.impl", O3fs.class.getName());
  }

  /** A file system of its own, with its own client. */
  public static FileSystem newFileSystem() throws IOException {
    Configuration conf = new Configuration();
    register(conf);
    return FileSystem.newInstance(uri(), conf);
  }
}
