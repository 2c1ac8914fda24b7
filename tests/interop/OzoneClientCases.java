import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.hdds.client.ReplicationConfig;
import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.ozone.client.BucketArgs;
import org.apache.hadoop.ozone.client.ObjectStore;
import org.apache.hadoop.ozone.client.OzoneBucket;
import org.apache.hadoop.ozone.client.OzoneClient;
import org.apache.hadoop.ozone.client.OzoneClientFactory;
import org.apache.hadoop.ozone.client.OzoneKey;
import org.apache.hadoop.ozone.client.OzoneVolume;
import org.apache.hadoop.ozone.om.exceptions.OMException;
import org.apache.hadoop.ozone.om.helpers.BucketLayout;

/**
 * Ozone's own Java client against our server: volumes, buckets, directories and files, as its users work with them.
 *
 * <p>Arguments: the server's address, HOST:PORT. The last line counts the cases; the exit code is 1 when one failed.
 */
public final class OzoneClientCases {
  private interface Case {
    void run() throws Exception;
  }

  private interface Call {
    Object run() throws Exception;
  }

  private int passed;
  private int failed;
  private final OzoneConfiguration conf = new OzoneConfiguration();
  private final String address;
  private ObjectStore store;

  private OzoneClientCases(String address) {
    this.address = address;
    conf.set("ozone.om.address", address);
    // A fault of the server must not become minutes of failover.
    conf.set("ozone.client.failover.max.attempts", "3");
    conf.set("ozone.client.wait.between.retries.millis", "100");
  }

  public static void main(String[] args) throws Exception {
    OzoneClientCases cases = new OzoneClientCases(args[0]);
    try (OzoneClient client = OzoneClientFactory.getRpcClient(cases.conf)) {
      cases.store = client.getObjectStore();
      cases.all();
    }
    System.out.println(cases.passed + " passed, " + cases.failed + " failed");
    System.exit(cases.failed == 0 ? 0 : 1);
  }

  private void all() throws Exception {
    check("a volume is made, shown and listed", this::volumes);
    check("buckets of each layout are made, shown and listed", this::buckets);
    for (BucketLayout layout : Arrays.asList(BucketLayout.FILE_SYSTEM_OPTIMIZED, BucketLayout.LEGACY)) {
      String bucket = layout == BucketLayout.LEGACY ? "legacy" : "fso";
      FileSystem fs = FileSystem.newInstance(URI.create("ofs://" + address + "/"), conf);
      Path root = new Path("/vol1/" + bucket);
      check(bucket + ": directories", () -> directories(fs, root));
      check(bucket + ": a listing of more than one page", () -> pages(fs, root));
      check(bucket + ": files without data", () -> emptyFiles(fs, root));
      check(bucket + ": data is written and read back", () -> data(fs, root));
      check(bucket + ": renames", () -> renames(fs, root));
      check(bucket + ": deletions", () -> deletions(fs, root));
      check(bucket + ": what is missing", () -> missing(fs, root));
      fs.close();
    }
    check("the root lists volumes and buckets", this::roots);
    check("o3fs", this::o3fs);
    check("keys of an object store bucket", this::keys);
    check("erasure coding is refused by name", this::erasureCoding);
    check("what is in use is not deleted", this::inUse);
    check("buckets and volumes are deleted", this::removal);
  }

  private void volumes() throws Exception {
    store.createVolume("vol1");
    OzoneVolume volume = store.getVolume("vol1");
    same("vol1", volume.getName());
    same(System.getProperty("user.name"), volume.getOwner());
    refused(OMException.ResultCodes.VOLUME_ALREADY_EXISTS, () -> {
      store.createVolume("vol1");
      return null;
    });
    refused(OMException.ResultCodes.VOLUME_NOT_FOUND, () -> store.getVolume("nothing"));
    store.createVolume("vol2");
    same(Arrays.asList("vol1", "vol2"), names(store.listVolumesByUser(null, "vol", null)));
  }

  private void buckets() throws Exception {
    OzoneVolume volume = store.getVolume("vol1");
    for (BucketLayout layout : BucketLayout.values()) {
      if (layout == BucketLayout.FILE_SYSTEM_OPTIMIZED) {
        volume.createBucket("fso", BucketArgs.newBuilder().setBucketLayout(layout).build());
      } else {
        String name = layout == BucketLayout.LEGACY ? "legacy" : "obs";
        volume.createBucket(name, BucketArgs.newBuilder().setBucketLayout(layout).build());
      }
    }
    same(BucketLayout.FILE_SYSTEM_OPTIMIZED, volume.getBucket("fso").getBucketLayout());
    same(BucketLayout.LEGACY, volume.getBucket("legacy").getBucketLayout());
    same(BucketLayout.OBJECT_STORE, volume.getBucket("obs").getBucketLayout());
    List<String> listed = new ArrayList<>();
    for (Iterator<? extends OzoneBucket> all = volume.listBuckets(null); all.hasNext();) {
      listed.add(all.next().getName());
    }
    same(Arrays.asList("fso", "legacy", "obs"), listed);
    refused(OMException.ResultCodes.BUCKET_ALREADY_EXISTS, () -> {
      volume.createBucket("fso");
      return null;
    });
    refused(OMException.ResultCodes.BUCKET_NOT_FOUND, () -> volume.getBucket("nothing"));
  }

  private void directories(FileSystem fs, Path root) throws Exception {
    Path deep = new Path(root, "a/b/c");
    yes(fs.mkdirs(deep));
    yes(fs.mkdirs(deep));
    for (Path path : Arrays.asList(deep, deep.getParent(), deep.getParent().getParent(), root)) {
      FileStatus status = fs.getFileStatus(path);
      yes(status.isDirectory());
      same(0L, status.getLen());
    }
    yes(fs.mkdirs(new Path(root, "a/d")));
    same(Arrays.asList("b", "d"), listed(fs, new Path(root, "a")));
    same(Arrays.asList("a"), listed(fs, root));
    same(Arrays.asList(), listed(fs, deep));
    thrown(FileNotFoundException.class, () -> fs.listStatus(new Path(root, "nothing")));
  }

  private void pages(FileSystem fs, Path root) throws Exception {
    Path dir = new Path(root, "pages");
    List<String> names = new ArrayList<>();
    for (int i = 0; i < 30; i++) {
      names.add(String.format("d%02d", i));
      yes(fs.mkdirs(new Path(dir, names.get(i))));
    }
    OzoneConfiguration small = new OzoneConfiguration(conf);
    small.setInt("ozone.fs.listing.page.size", 7);
    try (FileSystem paged = FileSystem.newInstance(fs.getUri(), small)) {
      same(names, listed(paged, dir));
    }
  }

  private void emptyFiles(FileSystem fs, Path root) throws Exception {
    Path file = new Path(root, "files/one");
    fs.create(file, true).close();
    FileStatus status = fs.getFileStatus(file);
    yes(status.isFile());
    same(0L, status.getLen());
    yes(status.getModificationTime() > 0);
    thrown(FileAlreadyExistsException.class, () -> fs.create(file, false));
    thrown(IOException.class, () -> fs.mkdirs(new Path(file, "below")));
    thrown(IOException.class, () -> fs.create(file.getParent(), true));
    same(Arrays.asList("one"), listed(fs, file.getParent()));
    fs.setTimes(file, 1_600_000_000_000L, -1);
    same(1_600_000_000_000L, fs.getFileStatus(file).getModificationTime());
  }

  private void data(FileSystem fs, Path root) throws Exception {
    byte[] bytes = new byte[5_000_001];
    new Random(7).nextBytes(bytes);
    Path file = new Path(root, "data/file");
    try (FSDataOutputStream out = fs.create(file, true)) {
      out.write(bytes);
    }
    same((long) bytes.length, fs.getFileStatus(file).getLen());
    same(1, fs.getFileBlockLocations(file, 0, bytes.length).length);
    try (FSDataInputStream in = fs.open(file)) {
      byte[] read = new byte[bytes.length];
      in.readFully(read);
      yes(Arrays.equals(bytes, read));
      byte[] middle = new byte[1000];
      in.readFully(2_345_678, middle);
      yes(Arrays.equals(Arrays.copyOfRange(bytes, 2_345_678, 2_346_678), middle));
    }
    byte[] other = "other".getBytes(StandardCharsets.UTF_8);
    try (FSDataOutputStream out = fs.create(file, true)) {
      out.write(other);
    }
    try (FSDataInputStream in = fs.open(file)) {
      yes(Arrays.equals(other, in.readAllBytes()));
    }
  }

  private void renames(FileSystem fs, Path root) throws Exception {
    Path dir = new Path(root, "r");
    yes(fs.mkdirs(new Path(dir, "from/sub")));
    fs.create(new Path(dir, "from/file"), true).close();
    fs.create(new Path(dir, "from/sub/deep"), true).close();
    yes(fs.rename(new Path(dir, "from"), new Path(dir, "to")));
    no(fs.exists(new Path(dir, "from")));
    same(Arrays.asList("file", "sub"), listed(fs, new Path(dir, "to")));
    same(Arrays.asList("deep"), listed(fs, new Path(dir, "to/sub")));
    yes(fs.rename(new Path(dir, "to/file"), new Path(dir, "to/moved")));
    same(Arrays.asList("moved", "sub"), listed(fs, new Path(dir, "to")));
    yes(fs.mkdirs(new Path(dir, "into")));
    yes(fs.rename(new Path(dir, "to/moved"), new Path(dir, "into")));
    same(Arrays.asList("moved"), listed(fs, new Path(dir, "into")));
    no(fs.rename(new Path(dir, "nothing"), new Path(dir, "new")));
  }

  private void deletions(FileSystem fs, Path root) throws Exception {
    Path dir = new Path(root, "del");
    yes(fs.mkdirs(new Path(dir, "sub")));
    fs.create(new Path(dir, "sub/file"), true).close();
    thrown(PathIsNotEmptyDirectoryException.class, () -> fs.delete(dir, false));
    yes(fs.exists(new Path(dir, "sub/file")));
    yes(fs.delete(new Path(dir, "sub/file"), false));
    no(fs.exists(new Path(dir, "sub/file")));
    fs.create(new Path(dir, "sub/again"), true).close();
    yes(fs.delete(dir, true));
    no(fs.exists(dir));
    no(fs.exists(new Path(dir, "sub/again")));
    no(fs.delete(dir, true));
    yes(fs.mkdirs(dir));
    same(Arrays.asList(), listed(fs, dir));
    yes(fs.delete(dir, false));
  }

  private void missing(FileSystem fs, Path root) throws Exception {
    Path path = new Path(root, "no/such/path");
    no(fs.exists(path));
    thrown(FileNotFoundException.class, () -> fs.getFileStatus(path));
    thrown(FileNotFoundException.class, () -> fs.open(path));
    thrown(FileNotFoundException.class, () -> fs.open(new Path(root, ".snapshot/s1/file")));
    thrown(IOException.class, () -> fs.mkdirs(new Path(root, ".snapshot/s1/dir")));
  }

  private void roots() throws Exception {
    try (FileSystem fs = FileSystem.newInstance(URI.create("ofs://" + address + "/"), conf)) {
      same(Arrays.asList("vol1", "vol2"), listed(fs, new Path("/")));
      same(Arrays.asList("fso", "legacy", "obs"), listed(fs, new Path("/vol1")));
      yes(fs.mkdirs(new Path("/vol3/made/by/mkdirs")));
      same(Arrays.asList("made"), listed(fs, new Path("/vol3")));
      yes(fs.delete(new Path("/vol3/made"), true));
      yes(fs.delete(new Path("/vol3"), false));
    }
  }

  private void o3fs() throws Exception {
    try (FileSystem fs = FileSystem.newInstance(URI.create("o3fs://fso.vol1." + address + "/"), conf)) {
      Path dir = new Path("/o3/sub");
      yes(fs.mkdirs(dir));
      yes(fs.rename(dir, new Path("/o3/other")));
      same(Arrays.asList("other"), listed(fs, new Path("/o3")));
      yes(fs.delete(new Path("/o3"), true));
    }
  }

  private void keys() throws Exception {
    OzoneBucket bucket = store.getVolume("vol1").getBucket("obs");
    byte[] bytes = "some bytes of a key".getBytes(StandardCharsets.UTF_8);
    for (String name : Arrays.asList("b//two", "a/one", "c")) {
      try (var out = bucket.createKey(name, bytes.length)) {
        out.write(bytes);
      }
    }
    try (var in = bucket.readKey("b//two")) {
      yes(Arrays.equals(bytes, in.readAllBytes()));
    }
    List<String> listed = new ArrayList<>();
    for (Iterator<? extends OzoneKey> all = bucket.listKeys(null); all.hasNext();) {
      listed.add(all.next().getName());
    }
    same(Arrays.asList("a/one", "b//two", "c"), listed);
    bucket.renameKey("c", "d");
    refused(OMException.ResultCodes.KEY_NOT_FOUND, () -> bucket.getKey("c"));
    same((long) bytes.length, bucket.getKey("d").getDataSize());
    bucket.deleteKeys(Arrays.asList("a/one", "b//two"));
    bucket.deleteKey("d");
    no(bucket.listKeys(null).hasNext());
  }

  private void erasureCoding() throws Exception {
    OzoneBucket bucket = store.getVolume("vol1").getBucket("obs");
    refused(OMException.ResultCodes.NOT_SUPPORTED_OPERATION,
        () -> bucket.createKey("ec", 1, ReplicationConfig.parse(
            org.apache.hadoop.hdds.client.ReplicationType.EC, "rs-3-2-1024k", conf), new java.util.HashMap<>()));
  }

  private void inUse() throws Exception {
    OzoneVolume volume = store.getVolume("vol1");
    refused(OMException.ResultCodes.BUCKET_NOT_EMPTY, () -> {
      volume.deleteBucket("fso");
      return null;
    });
    refused(OMException.ResultCodes.VOLUME_NOT_EMPTY, () -> {
      store.deleteVolume("vol1");
      return null;
    });
  }

  private void removal() throws Exception {
    OzoneVolume volume = store.getVolume("vol1");
    try (FileSystem fs = FileSystem.newInstance(URI.create("ofs://" + address + "/"), conf)) {
      for (String bucket : Arrays.asList("fso", "legacy")) {
        for (FileStatus status : fs.listStatus(new Path("/vol1/" + bucket))) {
          yes(fs.delete(status.getPath(), true));
        }
      }
    }
    for (String bucket : Arrays.asList("fso", "legacy", "obs")) {
      volume.deleteBucket(bucket);
    }
    no(volume.listBuckets(null).hasNext());
    store.deleteVolume("vol1");
    store.deleteVolume("vol2");
    refused(OMException.ResultCodes.VOLUME_NOT_FOUND, () -> store.getVolume("vol1"));
  }

  private static List<String> listed(FileSystem fs, Path dir) throws IOException {
    List<String> names = new ArrayList<>();
    for (FileStatus status : fs.listStatus(dir)) {
      names.add(status.getPath().getName());
    }
    return names;
  }

  private static List<String> names(Iterator<? extends OzoneVolume> volumes) {
    List<String> names = new ArrayList<>();
    while (volumes.hasNext()) {
      names.add(volumes.next().getName());
    }
    return names;
  }

  private void check(String name, Case body) {
    try {
      body.run();
      passed++;
      System.out.println("ok      " + name);
    } catch (Throwable error) {
      failed++;
      System.out.println("FAILED  " + name + ": " + error);
      error.printStackTrace(System.out);
    }
  }

  private static void yes(boolean value) {
    if (!value) {
      throw new AssertionError("false");
    }
  }

  private static void no(boolean value) {
    if (value) {
      throw new AssertionError("true");
    }
  }

  private static void same(Object wanted, Object got) {
    if (!wanted.equals(got)) {
      throw new AssertionError("wanted " + wanted + ", got " + got);
    }
  }

  private static void refused(OMException.ResultCodes code, Call call) throws Exception {
    Object got;
    try {
      got = call.run();
    } catch (OMException error) {
      same(code, error.getResult());
      return;
    }
    throw new AssertionError("wanted " + code + ", got " + got);
  }

  private static void thrown(Class<? extends IOException> wanted, Call call) throws Exception {
    Object got;
    try {
      got = call.run();
    } catch (IOException error) {
      if (!wanted.isInstance(error)) {
        throw new AssertionError("wanted " + wanted.getSimpleName(), error);
      }
      return;
    }
    throw new AssertionError("wanted " + wanted.getSimpleName() + ", got " + got);
  }
}
