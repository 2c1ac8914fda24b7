package io.libappend.fs;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Every native function, and the only door to the native library.
 *
 * <p>{@link NativeLoader#load} comes before the first call.
 *
 * <p>Handles are positive longs from a generation-checked table: a handle that was closed is refused with an
 * {@link IOException}, whatever stands in its slot now. All functions may be called from any thread. A function that waits
 * for a server looks at the thread's interrupt status about ten times a second; when it is set, the call is given up, the
 * status is cleared and {@link java.io.InterruptedIOException} is thrown. What the server did by then stands.
 *
 * <p>Paths are absolute in the form {@code /volume/bucket/key}, components separated by single slashes, {@code /} for the
 * list of volumes. Failures are thrown as the exception classes that Hadoop callers test for; the mapping stands in the
 * native library's error table.
 */
final class Native {
  /** Version of the functions declared here; the library must have been built for the same one. */
  static final int INTERFACE_VERSION = 2;

  /** Bit of {@link #outputTraits}: hflush and hsync make the bytes visible and durable. */
  static final int OUTPUT_CAN_SYNC = 1;

  private Native() {
  }

  /** The {@link #INTERFACE_VERSION} that the library was built for. */
  static native int interfaceVersion();

  /**
   * Throws the exception of a row of the library's error table, for the test that walks all of them.
   *
   * @return false after the last row
   */
  static native boolean throwRow(int row) throws IOException;

  /**
   * Connects to a server.
   *
   * @param authority host and port, a service name, or empty to take the address from the settings
   * @param user name that the server sees
   * @param settings names and values in turn, each followed by a NUL
   * @return handle of a file system, to be released by {@link #closeFileSystem}
   */
  static native long connect(String authority, String user, String settings) throws IOException;

  /** Releases a file system. Streams that are still open fail from then on; unknown handles are ignored. */
  static native void closeFileSystem(long fileSystem);

  /** Status of one path as a page of {@link StatusPage} with a single nameless entry. */
  static native byte[] status(long fileSystem, String path) throws IOException;

  /**
   * One page of a directory's entries in name order, encoded as {@link StatusPage} says. A file is its own only entry,
   * with an empty name.
   *
   * @param startAfter name after which the page begins, empty for the first page
   */
  static native byte[] list(long fileSystem, String path, String startAfter) throws IOException;

  /** Makes a directory with its parents, or a volume or bucket where the path is that short. */
  static native void mkdirs(long fileSystem, String path) throws IOException;

  /** @return false if nothing was there to delete */
  static native boolean delete(long fileSystem, String path, boolean recursive) throws IOException;

  /**
   * Renames with Hadoop's rules: into a destination that is a directory.
   *
   * @return false for a missing source, a destination that exists, a missing parent of the destination, and a directory moved
   *     below itself
   */
  static native boolean rename(long fileSystem, String source, String destination) throws IOException;

  /** Sets times in milliseconds since the epoch; -1 leaves a time as it is. */
  static native void setTimes(long fileSystem, String path, long modified, long accessed) throws IOException;

  /** Whether an append below this path is served: decided by the bucket's layout and the server's feature. */
  static native boolean canAppend(long fileSystem, String path) throws IOException;

  /** Whether a file below this path whose writer died can be recovered: decided by the bucket's layout and the server's state. */
  static native boolean canRecoverLease(long fileSystem, String path) throws IOException;

  /**
   * Recovers a file whose writer died, unless it is closed already. Fails while the lease of a writer of another
   * connection runs, and when a datanode could not be asked: then the call can be repeated.
   *
   * @return true: the file is closed
   */
  static native boolean recoverLease(long fileSystem, String path) throws IOException;

  /** Whether no session and no writer that has synced has a file open. */
  static native boolean isFileClosed(long fileSystem, String path) throws IOException;

  /** @return handle of an input stream over the length that the file has now */
  static native long open(long fileSystem, String path) throws IOException;

  /** Length in bytes that the stream serves, fixed at open. */
  static native long inputLength(long input) throws IOException;

  /**
   * Reads up to {@code length} bytes at a position of the file.
   *
   * @return bytes read, at least 1 unless {@code length} is 0; -1 at or after the end
   */
  static native int readArray(long input, long position, byte[] target, int offset, int length) throws IOException;

  /** As {@link #readArray}, into a direct buffer at an absolute offset; the buffer's own position is not looked at. */
  static native int readDirect(long input, long position, ByteBuffer target, int offset, int length)
      throws IOException;

  /** Drops connections and buffers of an input stream; the next read gets them back. Unknown handles are ignored. */
  static native void unbuffer(long input);

  /** Releases an input stream; unknown handles are ignored. */
  static native void closeInput(long input);

  /**
   * Creates a file.
   *
   * @param replication wanted copies, 0 for the server's choice
   * @return handle of an output stream at position 0
   */
  static native long create(long fileSystem, String path, boolean overwrite, boolean parents, int replication)
      throws IOException;

  /** @return handle of an output stream that starts in a new block at the end of an existing file */
  static native long append(long fileSystem, String path) throws IOException;

  /** Position in the file of the stream's first byte: 0 for create, the file's length for append. */
  static native long outputStart(long output) throws IOException;

  /** Bits {@code OUTPUT_} that tell what this stream can do. */
  static native int outputTraits(long output) throws IOException;

  /** Takes bytes from a direct buffer at an absolute offset. They are the library's when the call returns. */
  static native void writeDirect(long output, ByteBuffer source, int offset, int length) throws IOException;

  /** As {@link #writeDirect}, from an array. */
  static native void writeArray(long output, byte[] source, int offset, int length) throws IOException;

  /** Makes all bytes taken so far durable, and visible to readers that open the file afterwards. */
  static native void sync(long output) throws IOException;

  /**
   * Publishes what was taken and ends the session. The handle is gone when this returns or throws; a handle that is gone
   * already is ignored.
   */
  static native void closeOutput(long output) throws IOException;

  /** Lets go of an output stream without publishing anything more; unknown handles are ignored. */
  static native void abandonOutput(long output);
}
