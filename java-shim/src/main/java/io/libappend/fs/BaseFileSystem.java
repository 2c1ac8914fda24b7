package io.libappend.fs;

import java.io.Closeable;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.StorageUnit;
import org.apache.hadoop.fs.CommonConfigurationKeysPublic;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LeaseRecoverable;
import org.apache.hadoop.fs.Options.ChecksumOpt;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.impl.PathCapabilitiesSupport;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.DataChecksum;
import org.apache.hadoop.util.Progressable;

/**
 * What both schemes share: Hadoop's file system calls on top of {@link Native}. A scheme decides how its URI names a server
 * and which part of the tree is its root.
 *
 * <p>Thread-safe. Closing a file system closes its open streams first and keeps their bytes, as HDFS does; every call
 * afterwards fails with "Filesystem closed".
 */
abstract class BaseFileSystem extends FileSystem implements LeaseRecoverable {
  /** Size in bytes of the buffer that gathers small writes; one native call per buffer. */
  static final String WRITE_BUFFER_KEY = "libappend.write.buffer.size";
  static final int WRITE_BUFFER_DEFAULT = 128 * 1024;
  /** Size in bytes of the buffer that serves small sequential reads. */
  static final String READ_BUFFER_KEY = "libappend.read.buffer.size";
  static final int READ_BUFFER_DEFAULT = 64 * 1024;

  private static final String REPLICATION_KEY = "ozone.replication";
  private static final String BLOCK_SIZE_KEY = "ozone.scm.block.size";
  private static final String BLOCK_SIZE_DEFAULT = "256MB";
  /** Settings with these prefixes go to the native client; everything else is Hadoop's own. */
  private static final String[] NATIVE_PREFIXES = {"ozone.", "hdds.", "ipc.", "libappend."};

  private final Set<Closeable> streams = Collections.newSetFromMap(new IdentityHashMap<>());
  private final AtomicBoolean closing = new AtomicBoolean();
  private volatile boolean closed;
  private long handle;
  private URI uri;
  private String root;
  private String user;
  private Path workingDirectory;
  private BufferPool writeBuffers;
  private int readBuffer;
  private long blockSize;
  /** Copies that a caller gets who asks for none in particular; such a caller takes the server's choice. */
  private short replication;

  /** Address of the server in a URI of this scheme, empty if the settings hold it. */
  abstract String serverOf(URI name) throws IOException;

  /** Folder of the server's tree that is this scheme's root: empty, or {@code /volume/bucket}. */
  abstract String rootOf(URI name) throws IOException;

  @Override
  public void initialize(URI name, Configuration original) throws IOException {
    // Ozone's clients read this file too; a missing one is passed over.
    Configuration conf = new Configuration(original);
    conf.addResource("ozone-site.xml");
    super.initialize(name, conf);
    setConf(conf);
    String server = serverOf(name);
    root = rootOf(name);
    uri = URI.create(name.getScheme() + "://" + (name.getAuthority() == null ? "" : name.getAuthority()));
    user = UserGroupInformation.getCurrentUser().getShortUserName();
    workingDirectory = getHomeDirectory();
    writeBuffers = new BufferPool(positive(conf, WRITE_BUFFER_KEY, WRITE_BUFFER_DEFAULT));
    readBuffer = positive(conf, READ_BUFFER_KEY, READ_BUFFER_DEFAULT);
    blockSize = (long) conf.getStorageSize(BLOCK_SIZE_KEY, BLOCK_SIZE_DEFAULT, StorageUnit.BYTES);
    replication = defaultReplication(conf.get(REPLICATION_KEY, "3"));
    NativeLoader.load();
    handle = Native.connect(server, user, nativeSettings(conf));
  }

  private static short defaultReplication(String configured) {
    switch (configured) {
      case "ONE":
        return 1;
      case "THREE":
        return 3;
      default:
        return configured.matches("[0-9]{1,4}") ? Short.parseShort(configured) : 3;
    }
  }

  private static int positive(Configuration conf, String key, int otherwise) {
    int value = conf.getInt(key, otherwise);
    if (value <= 0) {
      throw new IllegalArgumentException(key + " must be above 0: " + value);
    }
    return value;
  }

  private static String nativeSettings(Configuration conf) {
    StringBuilder settings = new StringBuilder();
    for (Map.Entry<String, String> entry : conf) {
      for (String prefix : NATIVE_PREFIXES) {
        if (entry.getKey().startsWith(prefix)) {
          settings.append(entry.getKey()).append('\0').append(conf.get(entry.getKey(), "")).append('\0');
        }
      }
    }
    return settings.toString();
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public Path getWorkingDirectory() {
    return workingDirectory;
  }

  @Override
  public void setWorkingDirectory(Path directory) {
    workingDirectory = fixed(directory);
  }

  @Override
  public Path getHomeDirectory() {
    return makeQualified(new Path("/user/" + user));
  }

  /** A path as the server knows it. */
  private String serverPath(Path path) {
    checkPath(path);
    String own = fixed(path).toUri().getPath();
    if (root.isEmpty()) {
      return own;
    }
    return own.equals(Path.SEPARATOR) ? root : root + own;
  }

  private Path fixed(Path path) {
    return path.isAbsolute() ? path : new Path(workingDirectory, path);
  }

  private Path qualified(Path path) {
    return path.makeQualified(uri, workingDirectory);
  }

  /** The native file system, unless this one is closed. */
  private long open() throws IOException {
    if (closed) {
      throw new IOException("Filesystem closed");
    }
    return handle;
  }

  // Streams

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    statistics.incrementReadOps(1);
    String name = serverPath(path);
    long input = Native.open(open(), name);
    try {
      return new FSDataInputStream(remember(
          new NativeInputStream(this, name, input, Math.max(bufferSize, readBuffer), statistics)));
    } catch (IOException | RuntimeException e) {
      Native.closeInput(input);
      throw e;
    }
  }

  @Override
  public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
      short replication, long blockSize, Progressable progress) throws IOException {
    return create(path, overwrite, true, replication, progress);
  }

  @Override
  public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, EnumSet<CreateFlag> flags,
      int bufferSize, short replication, long blockSize, Progressable progress) throws IOException {
    return create(path, flags.contains(CreateFlag.OVERWRITE), false, replication, progress);
  }

  /** The caller's block size and permission have no effect, as in Ozone's own file system. */
  private FSDataOutputStream create(Path path, boolean overwrite, boolean parents, short replication,
      Progressable progress) throws IOException {
    statistics.incrementWriteOps(1);
    String name = serverPath(path);
    int copies = replication == this.replication ? 0 : replication;
    return output(name, Native.create(open(), name, overwrite, parents, copies), progress);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
    statistics.incrementWriteOps(1);
    String name = serverPath(path);
    return output(name, Native.append(open(), name), progress);
  }

  /**
   * Appends with flags, as HDFS's file system does.
   *
   * @param flags must hold APPEND; NEW_BLOCK may stand beside it and changes nothing, for each append starts a new block
   * @throws UnsupportedOperationException for any other flag
   */
  public FSDataOutputStream append(Path path, EnumSet<CreateFlag> flags, int bufferSize, Progressable progress)
      throws IOException {
    checkAppendFlags(flags);
    return append(path, bufferSize, progress);
  }

  private static void checkAppendFlags(EnumSet<CreateFlag> flags) {
    if (!flags.contains(CreateFlag.APPEND)) {
      throw new HadoopIllegalArgumentException(flags + " does not contain APPEND");
    }
    EnumSet<CreateFlag> refused = EnumSet.copyOf(flags);
    refused.removeAll(EnumSet.of(CreateFlag.CREATE, CreateFlag.APPEND, CreateFlag.NEW_BLOCK));
    if (!refused.isEmpty()) {
      throw new UnsupportedOperationException("append with " + refused + ": only NEW_BLOCK is supported");
    }
  }

  @Override
  @Deprecated
  protected FSDataOutputStream primitiveCreate(Path path, FsPermission permission, EnumSet<CreateFlag> flags,
      int bufferSize, short replication, long blockSize, Progressable progress, ChecksumOpt checksum)
      throws IOException {
    boolean exists = exists(path);
    CreateFlag.validate(path, exists, flags);
    if (exists && flags.contains(CreateFlag.APPEND)) {
      return append(path, flags, bufferSize, progress);
    }
    return create(path, flags.contains(CreateFlag.OVERWRITE), true, replication, progress);
  }

  private FSDataOutputStream output(String name, long output, Progressable progress) throws IOException {
    try {
      NativeOutputStream stream = remember(new NativeOutputStream(this, name, output, writeBuffers, progress));
      return new FSDataOutputStream(stream, statistics, stream.start());
    } catch (IOException | RuntimeException e) {
      Native.abandonOutput(output);
      throw e;
    }
  }

  private <S extends Closeable> S remember(S stream) throws IOException {
    synchronized (streams) {
      if (closing.get()) {
        throw new IOException("Filesystem closed");
      }
      streams.add(stream);
    }
    return stream;
  }

  /** Called by a stream that is being closed. */
  void forget(Closeable stream) {
    synchronized (streams) {
      streams.remove(stream);
    }
  }

  @Override
  public void close() throws IOException {
    if (closed) {
      return;
    }
    List<Closeable> open;
    synchronized (streams) {
      if (closing.getAndSet(true)) {
        return;
      }
      open = new ArrayList<>(streams);
    }
    IOException failure = null;
    for (Closeable stream : open) {
      try {
        stream.close();
      } catch (IOException e) {
        failure = first(failure, e);
      }
    }
    try {
      // Deletes what is marked for deletion at exit, so the native side must still be there.
      super.close();
    } catch (IOException e) {
      failure = first(failure, e);
    } finally {
      closed = true;
      // Hadoop also closes a file system that could not be initialised, perhaps because the library is missing.
      if (handle != 0) {
        Native.closeFileSystem(handle);
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  private static IOException first(IOException before, IOException now) {
    if (before == null) {
      return now;
    }
    before.addSuppressed(now);
    return before;
  }

  // Names

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    statistics.incrementWriteOps(1);
    Native.mkdirs(open(), serverPath(path));
    return true;
  }

  /** As on HDFS the root stays, with all that is in it, and the answer is false. */
  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    statistics.incrementWriteOps(1);
    String name = serverPath(path);
    if (fixed(path).isRoot()) {
      if (!recursive && listStatusIterator(path).hasNext()) {
        throw new PathIsNotEmptyDirectoryException(path.toString());
      }
      return false;
    }
    return Native.delete(open(), name, recursive);
  }

  @Override
  public boolean rename(Path source, Path destination) throws IOException {
    statistics.incrementWriteOps(1);
    return Native.rename(open(), serverPath(source), serverPath(destination));
  }

  /**
   * Recovers a file whose writer died, as far as that is possible now: a writer whose lease runs is not fenced, which HDFS would
   * do, unless it is a stream of this file system.
   *
   * @return true: the file is closed
   * @throws IOException while the writer's lease runs, or when a datanode could not be asked; the call can be repeated
   */
  @Override
  public boolean recoverLease(Path path) throws IOException {
    statistics.incrementWriteOps(1);
    return Native.recoverLease(open(), serverPath(path));
  }

  @Override
  public boolean isFileClosed(Path path) throws IOException {
    statistics.incrementReadOps(1);
    return Native.isFileClosed(open(), serverPath(path));
  }

  private StatusPage.Entry status(String name) throws IOException {
    return StatusPage.decode(Native.status(open(), name)).entries.get(0);
  }

  @Override
  public void setTimes(Path path, long modified, long accessed) throws IOException {
    statistics.incrementWriteOps(1);
    Native.setTimes(open(), serverPath(path), modified, accessed);
  }

  // Statuses

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    statistics.incrementReadOps(1);
    return toHadoop(status(serverPath(path)), qualified(path));
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    List<FileStatus> all = new ArrayList<>();
    RemoteIterator<FileStatus> each = listStatusIterator(path);
    while (each.hasNext()) {
      all.add(each.next());
    }
    return all.toArray(new FileStatus[0]);
  }

  /** Lists page by page; the first page is read at once, so that a missing path fails here. */
  @Override
  public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
    statistics.incrementReadOps(1);
    return new Listing(serverPath(path), qualified(path));
  }

  private final class Listing implements RemoteIterator<FileStatus> {
    private final String name;
    private final Path folder;
    private StatusPage page;
    private int next;

    Listing(String name, Path folder) throws IOException {
      this.name = name;
      this.folder = folder;
      page = StatusPage.decode(Native.list(open(), name, ""));
    }

    @Override
    public boolean hasNext() throws IOException {
      while (next == page.entries.size() && page.more) {
        String last = page.entries.get(next - 1).name;
        page = StatusPage.decode(Native.list(open(), name, last));
        next = 0;
      }
      return next < page.entries.size();
    }

    @Override
    public FileStatus next() throws IOException {
      if (!hasNext()) {
        throw new NoSuchElementException("no more entries in " + folder);
      }
      StatusPage.Entry entry = page.entries.get(next++);
      return toHadoop(entry, entry.name.isEmpty() ? folder : child(folder, entry.name));
    }
  }

  private Path child(Path folder, String name) {
    String parent = folder.toUri().getPath();
    // Not Path(parent, child): that reads a colon in the name as a scheme.
    return new Path(uri.getScheme(), uri.getAuthority(),
        parent.endsWith(Path.SEPARATOR) ? parent + name : parent + Path.SEPARATOR + name);
  }

  private FileStatus toHadoop(StatusPage.Entry entry, Path path) {
    FsPermission permission = entry.permission >= 0 ? new FsPermission(entry.permission)
        : entry.directory ? FsPermission.getDirDefault() : FsPermission.getFileDefault();
    EnumSet<FileStatus.AttrFlags> attributes = EnumSet.noneOf(FileStatus.AttrFlags.class);
    if (entry.encrypted) {
      attributes.add(FileStatus.AttrFlags.HAS_CRYPT);
    }
    if (entry.erasureCoded) {
      attributes.add(FileStatus.AttrFlags.HAS_EC);
    }
    return new FileStatus(entry.length, entry.directory, entry.replication, entry.blockSize, entry.modified,
        entry.accessed, permission, entry.owner, entry.group, null, path, attributes);
  }

  // Defaults and capabilities

  @Override
  @Deprecated
  public long getDefaultBlockSize() {
    return blockSize;
  }

  @Override
  @Deprecated
  public short getDefaultReplication() {
    return replication;
  }

  @Override
  @Deprecated
  public FsServerDefaults getServerDefaults() throws IOException {
    Configuration conf = getConf();
    return new FsServerDefaults(blockSize, conf.getInt("ozone.client.bytes.per.checksum", 16 * 1024),
        writeBufferSize(), replication, conf.getInt(
            CommonConfigurationKeysPublic.IO_FILE_BUFFER_SIZE_KEY,
            CommonConfigurationKeysPublic.IO_FILE_BUFFER_SIZE_DEFAULT),
        false, conf.getLong(CommonConfigurationKeysPublic.FS_TRASH_INTERVAL_KEY,
            CommonConfigurationKeysPublic.FS_TRASH_INTERVAL_DEFAULT), DataChecksum.Type.CRC32C);
  }

  private int writeBufferSize() {
    return getConf().getInt(WRITE_BUFFER_KEY, WRITE_BUFFER_DEFAULT);
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    String asked = PathCapabilitiesSupport.validatePathCapabilityArgs(qualified(path), capability);
    if (asked.equals(CommonPathCapabilities.FS_APPEND)) {
      return Native.canAppend(open(), serverPath(path));
    }
    if (asked.equals(CommonPathCapabilities.LEASE_RECOVERABLE)) {
      return Native.canRecoverLease(open(), serverPath(path));
    }
    return super.hasPathCapability(path, capability);
  }
}
