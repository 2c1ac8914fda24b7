package io.libappend.fs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.junit.Test;

/**
 * Case P3: a close that returns means that the very next append gets the file. The system property {@code append.sessions} says
 * how many appends; the case has 10,000.
 */
public class TestShortSessions extends ServerTestBase {
  private static final int SESSIONS = Integer.getInteger("append.sessions", 1000);
  private static final byte[] RECORD = "\nbar".getBytes(StandardCharsets.US_ASCII);

  @Test
  public void appendsInARow() throws Exception {
    Path path = file("l");
    fs.create(path).close();
    for (int i = 0; i < SESSIONS; i++) {
      try (FSDataOutputStream out = fs.append(path)) {
        assertEquals((long) i * RECORD.length, out.getPos());
        out.write(RECORD);
      }
    }
    byte[] whole = new byte[SESSIONS * RECORD.length];
    for (int i = 0; i < whole.length; i++) {
      whole[i] = RECORD[i % RECORD.length];
    }
    assertEquals(whole.length, fs.getFileStatus(path).getLen());
    assertArrayEquals(whole, read(path));
    Random random = new Random(3);
    try (FSDataInputStream in = fs.open(path)) {
      for (int i = 0; i < 1000; i++) {
        int from = random.nextInt(whole.length);
        byte[] piece = new byte[random.nextInt(Math.min(300, whole.length - from) + 1)];
        in.readFully(from, piece);
        for (int at = 0; at < piece.length; at++) {
          assertEquals(whole[from + at], piece[at]);
        }
      }
    }
    assertFalse(TestServer.hasWriter(TestServer.BUCKET));
  }
}
