package io.libappend.fs;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.io.IOUtils;

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

  /** What {@code append admin} prints, for what Hadoop's calls cannot ask: the system property {@code append.binary} names it. */
  static String admin(String... arguments) throws Exception {
    List<String> command = new ArrayList<>(Arrays.asList(System.getProperty("append.binary", "append"), "admin"));
    command.addAll(Arrays.asList(arguments));
    command.addAll(Arrays.asList("--fs", uri().toString()));
    Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    process.getOutputStream().close();
    String printed = new String(IOUtils.readFullyToByteArray(new DataInputStream(process.getInputStream())),
        StandardCharsets.UTF_8);
    if (process.waitFor() != 0) {
      throw new IOException(command + " ended with " + process.exitValue());
    }
    return printed;
  }

  /** Whether a file of a bucket is open for writing. Sessions of deleted files can write nothing more and do not count. */
  static boolean hasWriter(String bucket) throws Exception {
    String open = admin("lof", "--json", bucket);
    return open.split("\"keyInfo\":").length > open.split("\"phase\": \"INVALIDATED\"").length;
  }
}
