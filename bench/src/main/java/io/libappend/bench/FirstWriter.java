package io.libappend.bench;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The first of two writers ({@link ConflictWorkload}): appends 100 bytes, says that it is open, and on a byte of input writes ten
 * more and closes.
 */
public final class FirstWriter {
  static final String OPEN = "first writer open";
  static final String ENDED = "first writer ended";

  private FirstWriter() {
  }

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    // The path is no workload, but stands where the first one would.
    FsBench.Options options = FsBench.parse(args, conf);
    FileSystem fs = FileSystem.newInstance(options.uri, conf);
    FSDataOutputStream out = fs.append(new Path(options.rest.get(0)));
    out.write(Bench.bytes(100));
    out.hflush();
    System.out.println(OPEN);
    System.out.flush();
    System.in.read();
    String end = "ok";
    try {
      out.write(Bench.bytes(10));
      out.close();
    } catch (IOException e) {
      end = Timed.describe(e);
    }
    System.out.println(ENDED + " " + end);
    System.out.flush();
    // What it could not write must not be tried again by a shutdown hook.
    Runtime.getRuntime().halt(0);
  }
}
