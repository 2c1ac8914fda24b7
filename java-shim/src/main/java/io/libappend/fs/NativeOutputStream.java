package io.libappend.fs;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.util.Locale;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.util.Progressable;

/**
 * Output stream of a create or an append. Writes are gathered in a direct buffer and handed over one buffer at a time.
 *
 * <p>Thread-safe: a record written by one call is never mixed with another's. After {@link #close} a write fails with
 * {@link ClosedChannelException}, flush and further closes do nothing; a close that fails still closes for good, and its
 * bytes are not sent a second time.
 */
final class NativeOutputStream extends OutputStream implements Syncable, StreamCapabilities {
  private final BaseFileSystem owner;
  private final String path;
  private final long handle;
  private final long start;
  private final boolean canSync;
  private final Progressable progress;
  private final ReentrantLock lock = new ReentrantLock();
  private final BufferPool pool;
  private ByteBuffer buffer;
  private Exception failure;
  private boolean closed;

  NativeOutputStream(BaseFileSystem owner, String path, long handle, BufferPool pool, Progressable progress)
      throws IOException {
    this.owner = owner;
    this.path = path;
    this.handle = handle;
    this.start = Native.outputStart(handle);
    this.canSync = (Native.outputTraits(handle) & Native.OUTPUT_CAN_SYNC) != 0;
    this.pool = pool;
    this.progress = progress;
  }

  /** Position in the file of the first byte that this stream writes. */
  long start() {
    return start;
  }

  @Override
  public void write(int value) throws IOException {
    lock();
    try {
      checkOpen();
      if (buffer().remaining() == 0) {
        drain();
      }
      buffer().put((byte) value);
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void write(byte[] source, int offset, int count) throws IOException {
    if (offset < 0 || count < 0 || count > source.length - offset) {
      throw new IndexOutOfBoundsException("offset " + offset + ", length " + count + ", array " + source.length);
    }
    lock();
    try {
      checkOpen();
      if (count > buffer().remaining()) {
        drain();
      }
      if (count > buffer().capacity()) {
        handOver(() -> Native.writeArray(handle, source, offset, count));
      } else {
        buffer().put(source, offset, count);
      }
    } finally {
      lock.unlock();
    }
  }

  /** Hands the gathered bytes to the native library; gives no promise about where they are. Does nothing after close. */
  @Override
  public void flush() throws IOException {
    lock();
    try {
      if (!closed) {
        throwEarlierFailure();
        drain();
      }
    } finally {
      lock.unlock();
    }
  }

  @Override
  public void hflush() throws IOException {
    hsync();
  }

  @Override
  public void hsync() throws IOException {
    lock();
    try {
      checkOpen();
      if (!canSync) {
        throw new UnsupportedOperationException(path + ": this stream has no hflush or hsync");
      }
      drain();
      Native.sync(handle);
      report();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public boolean hasCapability(String capability) {
    switch (capability.toLowerCase(Locale.ENGLISH)) {
      case StreamCapabilities.HFLUSH:
      case StreamCapabilities.HSYNC:
        return canSync;
      default:
        return false;
    }
  }

  @Override
  public void close() throws IOException {
    lock();
    try {
      if (closed) {
        return;
      }
      closed = true;
      owner.forget(this);
      try {
        if (failure == null) {
          drain();
        }
      } finally {
        pool.give(buffer);
        buffer = null;
        if (failure != null) {
          Native.abandonOutput(handle);
        }
      }
      throwEarlierFailure();
      Native.closeOutput(handle);
    } finally {
      lock.unlock();
    }
  }

  private void checkOpen() throws IOException {
    if (closed) {
      throw new ClosedChannelException();
    }
    throwEarlierFailure();
  }

  /** Bytes that were lost on the way must not become a hole: after a failed hand-over nothing more is taken. */
  private void throwEarlierFailure() throws IOException {
    if (failure != null) {
      throw new IOException(path + ": an earlier write failed: " + failure.getMessage(), failure);
    }
  }

  private ByteBuffer buffer() {
    if (buffer == null) {
      buffer = pool.take();
    }
    return buffer;
  }

  private void drain() throws IOException {
    if (buffer == null || buffer.position() == 0) {
      return;
    }
    handOver(() -> Native.writeDirect(handle, buffer, 0, buffer.position()));
    ((java.nio.Buffer) buffer).clear();
  }

  private interface HandOver {
    void run() throws IOException;
  }

  private void handOver(HandOver call) throws IOException {
    try {
      call.run();
    } catch (IOException | RuntimeException e) {
      failure = e;
      throw e;
    }
    report();
  }

  private void report() {
    if (progress != null) {
      progress.progress();
    }
  }

  /** Takes the lock in a way that an interrupt ends, for another thread may hold it through a blocked call. */
  private void lock() throws InterruptedIOException {
    if (lock.tryLock()) {
      return;
    }
    try {
      lock.lockInterruptibly();
    } catch (InterruptedException e) {
      throw new InterruptedIOException(path + ": interrupted while another thread writes");
    }
  }

  @Override
  public String toString() {
    return "NativeOutputStream{" + path + "}";
  }
}
