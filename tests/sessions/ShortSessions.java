import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;

/**
 * Case P3 through the Java shim, in a process of its own whose heap is touched at the start, so that resident memory shows what grows
 * beside it: ShortSessions URI SERVER-PID SESSIONS. Prints the memory of both processes behind the first thousand and at the end.
 */
public final class ShortSessions {
  private static final byte[] RECORD = "\nbar".getBytes(StandardCharsets.US_ASCII);
  private static final int EARLY = 1000;

  public static void main(String[] args) throws Exception {
    int sessions = Integer.parseInt(args[2]);
    Configuration conf = new Configuration(false);
    conf.set("fs.ofs.impl", "io.libappend.fs.OfsFileSystem");
    conf.set("fs.defaultFS", args[0]);
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path("/sessions/bucket/l");
    try (FileSystem fs = FileSystem.newInstance(conf)) {
      fs.create(path).close();
      for (int session = 1; session <= sessions; session++) {
        try (FSDataOutputStream out = fs.append(path)) {
          if (out.getPos() != (session - 1L) * RECORD.length) {
            throw new AssertionError("session " + session + " begins at " + out.getPos());
          }
          out.write(RECORD);
        }
        if (session == Math.min(EARLY, sessions)) {
          tell("early", args[1]);
        }
      }
      tell("late", args[1]);
      check(fs, path, sessions);
    }
  }

  private static void check(FileSystem fs, org.apache.hadoop.fs.Path path, int sessions) throws Exception {
    long length = fs.getFileStatus(path).getLen();
    if (length != (long) sessions * RECORD.length) {
      throw new AssertionError("the file has " + length + " bytes");
    }
    Random random = new Random(3);
    try (FSDataInputStream in = fs.open(path)) {
      for (int i = 0; i < 500; i++) {
        int from = i == 0 ? 0 : random.nextInt((int) length);
        byte[] piece = new byte[(int) Math.min(300, length - from)];
        in.readFully(from, piece);
        for (int at = 0; at < piece.length; at++) {
          if (piece[at] != RECORD[(from + at) % RECORD.length]) {
            throw new AssertionError("wrong byte at " + (from + at));
          }
        }
      }
    }
  }

  private static void tell(String when, String server) throws Exception {
    System.out.println(when + " " + resident("self") + " " + resident(server));
  }

  /** Resident memory in KiB. */
  private static String resident(String pid) throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc", pid, "status"))) {
      if (line.startsWith("VmRSS:")) {
        return line.replaceAll("[^0-9]", "");
      }
    }
    throw new AssertionError("no memory of " + pid);
  }
}
