package io.libappend.fs;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Locale;
import org.apache.hadoop.fs.ByteBufferPositionedReadable;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StreamCapabilities;

/**
 * Input stream over the length that the file had at open. Small sequential reads are served from a buffer, large ones and
 * positioned ones go straight to the native library.
 *
 * <p>Sequential use is synchronised; positioned reads run side by side and do not move the position.
 */
final class NativeInputStream extends FSInputStream
    implements ByteBufferReadable, ByteBufferPositionedReadable, CanUnbuffer, StreamCapabilities {
  private final BaseFileSystem owner;
  private final String path;
  private final long handle;
  private final long length;
  private final int bufferSize;
  private final FileSystem.Statistics statistics;

  private volatile boolean closed;
  private long position;
  private byte[] buffer;
  /** File position of the buffer's first byte. */
  private long bufferStart;
  private int buffered;

  NativeInputStream(BaseFileSystem owner, String path, long handle, int bufferSize,
      FileSystem.Statistics statistics) throws IOException {
    this.owner = owner;
    this.path = path;
    this.handle = handle;
    this.length = Native.inputLength(handle);
    this.bufferSize = bufferSize;
    this.statistics = statistics;
  }

  private void checkOpen() throws IOException {
    if (closed) {
      throw new IOException(path + ": " + FSExceptionMessages.STREAM_IS_CLOSED);
    }
  }

  @Override
  public synchronized void seek(long target) throws IOException {
    checkOpen();
    if (target < 0) {
      throw new EOFException(path + ": " + FSExceptionMessages.NEGATIVE_SEEK);
    }
    if (target > length) {
      throw new EOFException(path + ": " + FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
    }
    position = target;
  }

  @Override
  public synchronized long getPos() {
    return position;
  }

  @Override
  public boolean seekToNewSource(long target) {
    return false;
  }

  @Override
  public synchronized long skip(long wanted) throws IOException {
    checkOpen();
    long skipped = Math.max(0, Math.min(wanted, length - position));
    position += skipped;
    return skipped;
  }

  @Override
  public synchronized int available() throws IOException {
    checkOpen();
    return (int) Math.min(Integer.MAX_VALUE, length - position);
  }

  @Override
  public synchronized int read() throws IOException {
    checkOpen();
    if (position >= length || !fill()) {
      return -1;
    }
    int value = buffer[(int) (position - bufferStart)] & 0xff;
    advance(1);
    return value;
  }

  @Override
  public synchronized int read(byte[] target, int offset, int count) throws IOException {
    checkOpen();
    checkRange(target, offset, count);
    if (count == 0) {
      return 0;
    }
    if (position >= length) {
      return -1;
    }
    if (!hasBuffered() && count >= bufferSize) {
      int got = Native.readArray(handle, position, target, offset, count);
      advance(Math.max(got, 0));
      return got;
    }
    if (!fill()) {
      return -1;
    }
    int start = (int) (position - bufferStart);
    int got = Math.min(count, buffered - start);
    System.arraycopy(buffer, start, target, offset, got);
    advance(got);
    return got;
  }

  @Override
  public synchronized int read(ByteBuffer target) throws IOException {
    checkOpen();
    int count = target.remaining();
    if (count == 0) {
      return 0;
    }
    if (position >= length) {
      return -1;
    }
    if (hasBuffered() || count < bufferSize) {
      if (!fill()) {
        return -1;
      }
      int start = (int) (position - bufferStart);
      int got = Math.min(count, buffered - start);
      target.put(buffer, start, got);
      advance(got);
      return got;
    }
    int got = readAt(position, target);
    position += Math.max(got, 0);
    return got;
  }

  @Override
  public int read(long from, byte[] target, int offset, int count) throws IOException {
    checkOpen();
    validatePositionedReadArgs(from, target, offset, count);
    if (offset < 0) {
      throw new IndexOutOfBoundsException("negative offset " + offset);
    }
    if (count == 0) {
      return 0;
    }
    if (from >= length) {
      return -1;
    }
    int got = Native.readArray(handle, from, target, offset, count);
    count(got);
    return got;
  }

  @Override
  public int read(long from, ByteBuffer target) throws IOException {
    checkOpen();
    if (from < 0) {
      throw new EOFException(path + ": position is negative");
    }
    if (!target.hasRemaining()) {
      return 0;
    }
    return from >= length ? -1 : readAt(from, target);
  }

  @Override
  public void readFully(long from, ByteBuffer target) throws IOException {
    long at = from;
    while (target.hasRemaining()) {
      int got = read(at, target);
      if (got < 0) {
        throw new EOFException(path + ": " + FSExceptionMessages.EOF_IN_READ_FULLY);
      }
      at += got;
    }
  }

  /** Reads at a position before the end into a buffer with room, and moves the buffer's position. */
  private int readAt(long from, ByteBuffer target) throws IOException {
    int start = target.position();
    int got;
    if (target.isDirect()) {
      got = Native.readDirect(handle, from, target, start, target.remaining());
    } else if (target.hasArray()) {
      got = Native.readArray(handle, from, target.array(), target.arrayOffset() + start, target.remaining());
    } else {
      throw new java.nio.ReadOnlyBufferException();
    }
    if (got > 0) {
      // The cast keeps the call on Buffer, which is where Java 8 has it.
      ((java.nio.Buffer) target).position(start + got);
    }
    count(got);
    return got;
  }

  private boolean hasBuffered() {
    return position >= bufferStart && position < bufferStart + buffered;
  }

  /** Makes the buffer hold the present position; false at the end of the file. */
  private boolean fill() throws IOException {
    if (hasBuffered()) {
      return true;
    }
    if (buffer == null) {
      buffer = new byte[bufferSize];
    }
    buffered = 0;
    int got = Native.readArray(handle, position, buffer, 0, (int) Math.min(bufferSize, length - position));
    bufferStart = position;
    buffered = Math.max(got, 0);
    return buffered > 0;
  }

  private void advance(int got) {
    position += got;
    count(got);
  }

  private void count(int got) {
    if (statistics != null && got > 0) {
      statistics.incrementBytesRead(got);
    }
  }

  private static void checkRange(byte[] target, int offset, int count) {
    if (target == null) {
      throw new NullPointerException("Null buffer");
    }
    if (offset < 0 || count < 0 || count > target.length - offset) {
      throw new IndexOutOfBoundsException(FSExceptionMessages.TOO_MANY_BYTES_FOR_DEST_BUFFER + ": offset " + offset
          + ", length " + count + ", buffer " + target.length);
    }
  }

  @Override
  public synchronized void unbuffer() {
    buffer = null;
    buffered = 0;
    if (!closed) {
      Native.unbuffer(handle);
    }
  }

  @Override
  public boolean hasCapability(String capability) {
    switch (capability.toLowerCase(Locale.ENGLISH)) {
      case StreamCapabilities.UNBUFFER:
      case StreamCapabilities.READBYTEBUFFER:
      case StreamCapabilities.PREADBYTEBUFFER:
        return true;
      default:
        return false;
    }
  }

  @Override
  public void close() {
    // Not synchronised: a close from another thread must not wait for a blocked read.
    if (!closed) {
      closed = true;
      owner.forget(this);
      Native.closeInput(handle);
    }
  }

  @Override
  public String toString() {
    return "NativeInputStream{" + path + "}";
  }
}
