package io.libappend.fs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

/** The same bytes stand in the native library's test of its encoder: change both or none. */
public class TestStatusPage {
  static final String GOLDEN = "01" + "00000002"
      + "00" + "0000000000000100" + "0000000010000000" + "0000019000000001" + "0000019000000002"
      + "0001" + "ffff" + "0006" + "c3a4203a2e78" + "0005" + "616c696365" + "0000"
      + "07" + "0000000000000000" + "0000000000000000" + "0000000000000000" + "ffffffffffffffff"
      + "0003" + "01ed" + "0000" + "0000" + "0001" + "67";

  @Test
  public void readsWhatTheLibraryWrites() {
    StatusPage page = StatusPage.decode(bytes(GOLDEN));
    assertTrue(page.more);
    assertEquals(2, page.entries.size());
    StatusPage.Entry file = page.entries.get(0);
    assertFalse(file.directory);
    assertFalse(file.encrypted);
    assertFalse(file.erasureCoded);
    assertEquals(256, file.length);
    assertEquals(256L << 20, file.blockSize);
    assertEquals(0x19000000001L, file.modified);
    assertEquals(0x19000000002L, file.accessed);
    assertEquals(1, file.replication);
    assertEquals(-1, file.permission);
    assertEquals("ä :.x", file.name);
    assertEquals("alice", file.owner);
    assertEquals("", file.group);
    StatusPage.Entry directory = page.entries.get(1);
    assertTrue(directory.directory && directory.encrypted && directory.erasureCoded);
    assertEquals(-1, directory.accessed);
    assertEquals(0755, directory.permission);
    assertEquals("", directory.name);
    assertEquals("g", directory.group);
  }

  private static byte[] bytes(String hex) {
    byte[] bytes = new byte[hex.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }
}
