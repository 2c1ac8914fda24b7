package io.libappend.fs;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/**
 * Direct buffers of one size, kept for the next stream: the JVM clears a direct buffer when it makes one and frees it only
 * at a garbage collection, which short appends would feel. Keeps a bounded number. Thread-safe.
 */
final class BufferPool {
  private static final int KEPT = 16;

  private final int size;
  private final ArrayDeque<ByteBuffer> free = new ArrayDeque<>();

  BufferPool(int size) {
    this.size = size;
  }

  synchronized ByteBuffer take() {
    ByteBuffer buffer = free.pollFirst();
    return buffer == null ? ByteBuffer.allocateDirect(size) : buffer;
  }

  /** Takes a buffer back; null is allowed. The caller may not use it afterwards. */
  synchronized void give(ByteBuffer buffer) {
    if (buffer != null && free.size() < KEPT) {
      ((java.nio.Buffer) buffer).clear();
      free.addFirst(buffer);
    }
  }
}
