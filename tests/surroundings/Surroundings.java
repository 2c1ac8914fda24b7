import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LeaseRecoverable;
import org.apache.hadoop.fs.Path;

/**
 * What the cases P8 and P10 ask of Java and what needs a server that is stopped or a configuration of its own: Surroundings URI SERVER-PID
 * FOLDER ELSEWHERE BINARY. ELSEWHERE is a server that tells clients a host for data at which only this program listens, BINARY our shell.
 * Prints a line for each case that fails, and counts.
 */
public final class Surroundings {
  private static int passed;
  private static int failed;

  private interface Case {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    URI server = URI.create(args[0]);
    test("a close that fails closes for good", () -> failingClose(server, args[1]));
    test("a close whose outcome is unknown says so", () -> unknownOutcome(server, args[1]));
    test("a recovery that does not finish says so", () -> unfinishedRecovery(URI.create(args[3]), args[4]));
    test("no folder of configuration", () -> withoutConfiguration(server));
    test("a malformed core-site.xml", () -> malformed(server, java.nio.file.Path.of(args[2])));
    test("a server that is not there", Surroundings::absentServer);
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static void test(String name, Case body) {
    try {
      body.run();
      passed++;
    } catch (Exception | AssertionError e) {
      failed++;
      System.out.println("FAILED " + name);
      e.printStackTrace(System.out);
    }
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static Configuration conf() {
    Configuration conf = new Configuration(false);
    conf.set("fs.ofs.impl", "io.libappend.fs.OfsFileSystem");
    return conf;
  }

  private static IOException fails(Case body) throws Exception {
    try {
      body.run();
    } catch (IOException e) {
      return e;
    }
    throw new AssertionError("nothing was thrown");
  }

  private static void signal(String name, String pid) throws Exception {
    check(new ProcessBuilder("kill", "-s", name, pid).start().waitFor() == 0, "kill -s " + name);
  }

  private static void failingClose(URI server, String pid) throws Exception {
    Configuration conf = conf();
    conf.set("libappend.call.timeout", "5s");
    conf.set("libappend.datanode.timeout", "5s");
    conf.set("libappend.outcome.timeout", "5s");
    Path path = new Path("/surroundings/bucket/failing");
    try (FileSystem fs = FileSystem.newInstance(server, conf)) {
      try (FSDataOutputStream out = fs.create(path)) {
        out.write("before".getBytes());
      }
      FSDataOutputStream out = fs.append(path);
      out.write("after".getBytes());
      signal("STOP", pid);
      try {
        check(!fails(out::close).getMessage().isEmpty(), "an error without words");
        // Closed for good: nothing is written again, whether the server answers or not.
        out.close();
        check(fails(() -> out.write(1)) instanceof ClosedChannelException, "a write after a close");
      } finally {
        signal("CONT", pid);
      }
      out.close();
      out.flush();
    }
    try (FileSystem fs = FileSystem.newInstance(server, conf())) {
      // The close was sent or not; its bytes are there once or not at all.
      long length = fs.getFileStatus(path).getLen();
      check(length == 6 || length == 11, length + " bytes");
    }
  }

  /** Everything is written and synced: only the word that the session ends is on its way when the server stops. */
  private static void unknownOutcome(URI server, String pid) throws Exception {
    Configuration conf = conf();
    conf.set("libappend.call.timeout", "2s");
    conf.set("libappend.outcome.timeout", "2s");
    Path path = new Path("/surroundings/bucket/unknown");
    try (FileSystem fs = FileSystem.newInstance(server, conf)) {
      fs.create(path).close();
      FSDataOutputStream out = fs.append(path);
      out.write("synced".getBytes());
      out.hsync();
      signal("STOP", pid);
      IOException unknown;
      try {
        unknown = fails(out::close);
      } finally {
        signal("CONT", pid);
      }
      String name = unknown.getClass().getName();
      check(name.equals("io.libappend.fs.OutcomeUnknownException"), unknown.toString());
      out.close();
    }
    try (FileSystem fs = FileSystem.newInstance(server, conf())) {
      check(fs.getFileStatus(path).getLen() == 6, "what was synced is not there");
    }
  }

  /** What comes to a port of another loopback address goes to the same port of 127.0.0.1, until this is closed. */
  private static final class Forwarder implements AutoCloseable {
    private final ServerSocket listener;
    private final List<Socket> sockets = new ArrayList<>();

    Forwarder(InetAddress address, int port) throws IOException {
      listener = new ServerSocket(port, 50, address);
      start(() -> {
        while (true) {
          Socket in = listener.accept();
          Socket out = new Socket(InetAddress.getByName("127.0.0.1"), port);
          synchronized (sockets) {
            sockets.add(in);
            sockets.add(out);
          }
          start(() -> in.getInputStream().transferTo(out.getOutputStream()));
          start(() -> out.getInputStream().transferTo(in.getOutputStream()));
        }
      });
    }

    private static void start(Case body) {
      Thread thread = new Thread(() -> {
        try {
          body.run();
        } catch (Exception closed) {
          // The way ends with its sockets.
        }
      });
      thread.setDaemon(true);
      thread.start();
    }

    @Override
    public void close() throws IOException {
      listener.close();
      synchronized (sockets) {
        for (Socket socket : sockets) {
          socket.close();
        }
      }
    }
  }

  /** The datanode goes out of reach under a writer; its file is recovered when the datanode is back, and not before. */
  private static void unfinishedRecovery(URI server, String binary) throws Exception {
    Configuration conf = conf();
    conf.set("libappend.datanode.timeout", "2s");
    conf.set("libappend.recovery.budget", "1s");
    Path path = new Path("/surroundings/bucket/unfinished");
    try (FileSystem fs = FileSystem.newInstance(server, conf); FileSystem other = FileSystem.newInstance(server, conf)) {
      InetAddress address = InetAddress.getByName("127.0.0.2");
      // Names and data are served at one port.
      int port = server.getPort();
      FSDataOutputStream out;
      try (Forwarder way = new Forwarder(address, port)) {
        fs.create(path).close();
        out = fs.append(path);
        out.write("synced".getBytes());
        out.hsync();
      }
      // An operator fences the writer, and nobody can end it.
      check(new ProcessBuilder(binary, "admin", "recover-lease", "--force", "-D", "libappend.datanode.timeout=2s",
          server + path.toString()).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor() == 1,
          "the datanode was reached");
      unfinished(() -> ((LeaseRecoverable) other).recoverLease(path));
      unfinished(() -> other.append(path));
      check(!((LeaseRecoverable) other).isFileClosed(path), "closed without its datanode");
      try (Forwarder way = new Forwarder(address, port)) {
        try (FSDataOutputStream next = other.append(path)) {
          next.write("next".getBytes());
        }
        check(other.getFileStatus(path).getLen() == 10, "bytes are missing");
        String name = fails(out::close).getClass().getName();
        check(name.equals("io.libappend.fs.StaleSessionException"), name);
      }
    }
  }

  private static void unfinished(Case body) throws Exception {
    IOException told = fails(body);
    check(told.getClass().getSimpleName().equals("RecoveryInProgressException"), told.toString());
  }

  private static void withoutConfiguration(URI server) throws Exception {
    try (FileSystem fs = FileSystem.newInstance(server, conf())) {
      check(fs.exists(new Path("/surroundings/bucket")), "the bucket is not there");
    }
  }

  private static void malformed(URI server, java.nio.file.Path folder) throws Exception {
    java.nio.file.Path file = folder.resolve("core-site.xml");
    Files.writeString(file, "<configuration><property><name>a</name>");
    try {
      Configuration conf = conf();
      conf.addResource(new Path(file.toUri()));
      FileSystem.newInstance(server, conf).close();
    } catch (RuntimeException | IOException e) {
      check(e.toString().contains("core-site.xml"), e.toString());
      return;
    }
    throw new AssertionError("a malformed file was taken");
  }

  private static void absentServer() throws Exception {
    int port;
    try (ServerSocket gone = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = gone.getLocalPort();
    }
    URI nobody = URI.create("ofs://127.0.0.1:" + port);
    Configuration conf = conf();
    conf.set("ozone.client.failover.max.attempts", "1");
    conf.set("ozone.client.wait.between.retries.millis", "10");
    IOException refused = fails(() -> FileSystem.newInstance(nobody, conf).exists(new Path("/v/b/k")));
    check(refused.getMessage().contains("127.0.0.1:" + port), refused.getMessage());
  }
}
