package io.libappend.fs;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A page of file statuses as the native library sends it: one array per call instead of one object per entry.
 *
 * <p>All numbers are big-endian. The page is: one byte, 1 if more entries follow this page; four bytes, the number of
 * entries; the entries. An entry is: one byte of {@code IS_…} bits; length, block size, modification time and access time
 * (eight bytes each; bytes, bytes, milliseconds, milliseconds); replication (two bytes); permission bits (two bytes, -1 if
 * the server keeps none); name, owner and group, each as two bytes of length and that many bytes of UTF-8.
 */
final class StatusPage {
  static final int IS_DIRECTORY = 1;
  static final int IS_ENCRYPTED = 2;
  static final int IS_ERASURE_CODED = 4;

  /** One status, its name relative to the listed path; empty for the listed path itself. */
  static final class Entry {
    final boolean directory;
    final boolean encrypted;
    final boolean erasureCoded;
    final long length;
    final long blockSize;
    final long modified;
    final long accessed;
    final short replication;
    final short permission;
    final String name;
    final String owner;
    final String group;

    private Entry(ByteBuffer in) {
      int bits = in.get();
      directory = (bits & IS_DIRECTORY) != 0;
      encrypted = (bits & IS_ENCRYPTED) != 0;
      erasureCoded = (bits & IS_ERASURE_CODED) != 0;
      length = in.getLong();
      blockSize = in.getLong();
      modified = in.getLong();
      accessed = in.getLong();
      replication = in.getShort();
      permission = in.getShort();
      name = text(in);
      owner = text(in);
      group = text(in);
    }
  }

  final boolean more;
  final List<Entry> entries;

  private StatusPage(boolean more, List<Entry> entries) {
    this.more = more;
    this.entries = entries;
  }

  static StatusPage decode(byte[] encoded) {
    ByteBuffer in = ByteBuffer.wrap(encoded);
    boolean more = in.get() != 0;
    int count = in.getInt();
    List<Entry> entries = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      entries.add(new Entry(in));
    }
    return new StatusPage(more, entries);
  }

  private static String text(ByteBuffer in) {
    byte[] bytes = new byte[in.getShort() & 0xffff];
    in.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
