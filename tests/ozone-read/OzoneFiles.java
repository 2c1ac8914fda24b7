import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdds.client.RatisReplicationConfig;
import org.apache.hadoop.hdds.client.ReplicationConfig;
import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.hdds.protocol.proto.HddsProtos.ReplicationFactor;
import org.apache.hadoop.ozone.client.BucketArgs;
import org.apache.hadoop.ozone.client.ObjectStore;
import org.apache.hadoop.ozone.client.OzoneBucket;
import org.apache.hadoop.ozone.client.OzoneClient;
import org.apache.hadoop.ozone.client.OzoneClientFactory;
import org.apache.hadoop.ozone.client.OzoneVolume;
import org.apache.hadoop.ozone.client.io.OzoneOutputStream;
import org.apache.hadoop.ozone.om.helpers.BucketLayout;

/**
 * Ozone's own client on a real Ozone: writes the files that ours is to read, and reads what ours wrote.
 *
 * <p>Arguments: the OM's address. Commands come line by line on standard input, words separated by tabs; each is answered by one
 * line, {@code ok} and what there is to tell, or {@code failed} and why.
 *
 * <pre>
 * volume NAME                   makes a volume with the buckets fso, legacy and obs
 * files FOLDER DIRECTORY        copies the files of a local folder into a directory
 * keys FOLDER BUCKET PREFIX     puts them as keys, their names behind the prefix, by the object API
 * statuses DIRECTORY LIST       writes into a local file what stands directly below, one line each, sorted:
 *                               type, length, copies, block size, modification time, owner, name
 * file LOCAL PATH COPIES KEY=VALUE...
 *                               writes one file with settings of its own
 * parts LOCAL COUNT KEY         writes a key by parts, all but the last of 5 MiB and COUNT more bytes
 * snapshot BUCKET NAME          takes a snapshot
 * link BUCKET NAME              makes a bucket that stands for another
 * open PATH COPIES              begins a file
 * hsync LOCAL COUNT             writes so many more bytes of a local file to it, synced; tells the published length
 * close                         ends it
 * compare LOCAL PATH            says whether a file has the bytes of a local one
 * </pre>
 */
public final class OzoneFiles {
  private static final int AT_ONCE = 4 << 20;

  private final ObjectStore store;
  private final FileSystem fs;
  private Path open;
  private FSDataOutputStream stream;
  private int written;

  private OzoneFiles(ObjectStore store, FileSystem fs) {
    this.store = store;
    this.fs = fs;
  }

  public static void main(String[] args) throws Exception {
    OzoneConfiguration conf = new OzoneConfiguration();
    conf.set("ozone.client.failover.max.attempts", "5");
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, true, "UTF-8");
    try (OzoneClient client = OzoneClientFactory.getRpcClient(conf);
        FileSystem fs = FileSystem.newInstance(URI.create("ofs://" + args[0] + "/"), conf)) {
      OzoneFiles files = new OzoneFiles(client.getObjectStore(), fs);
      for (String line = commands.readLine(); line != null; line = commands.readLine()) {
        try {
          answers.println(("ok " + files.run(line.split("\t"))).trim());
        } catch (Exception e) {
          answers.println("failed " + e.toString().split("\n")[0]);
        }
      }
    }
    System.exit(0);
  }

  private String run(String[] words) throws Exception {
    switch (words[0]) {
      case "volume":
        return volume(words[1]);
      case "files":
        return files(Paths.get(words[1]), new Path(words[2]));
      case "keys":
        return keys(Paths.get(words[1]), words[2].split("/"), words[3]);
      case "statuses":
        return statuses(new Path(words[1]), Paths.get(words[2]));
      case "file":
        return file(Paths.get(words[1]), new Path(words[2]), Short.parseShort(words[3]), Arrays.copyOfRange(words, 4, words.length));
      case "parts":
        return parts(Files.readAllBytes(Paths.get(words[1])), Integer.parseInt(words[2]), words[3].split("/", 4));
      case "snapshot":
        store.createSnapshot(words[1].split("/")[1], words[1].split("/")[2], words[2]);
        return "";
      case "link":
        return link(words[1].split("/"), words[2]);
      case "open":
        open = new Path(words[1]);
        stream = fs.create(open, false, 4096, Short.parseShort(words[2]), fs.getDefaultBlockSize(open));
        written = 0;
        return "";
      case "hsync":
        return hsync(Files.readAllBytes(Paths.get(words[1])), Integer.parseInt(words[2]));
      case "close":
        stream.close();
        return "";
      case "compare":
        return compare(Files.readAllBytes(Paths.get(words[1])), words[2].split("/", 4));
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  private String volume(String name) throws Exception {
    store.createVolume(name);
    OzoneVolume volume = store.getVolume(name);
    volume.createBucket("fso", layout(BucketLayout.FILE_SYSTEM_OPTIMIZED));
    volume.createBucket("legacy", layout(BucketLayout.LEGACY));
    volume.createBucket("obs", layout(BucketLayout.OBJECT_STORE));
    return "";
  }

  private static BucketArgs layout(BucketLayout layout) {
    return BucketArgs.newBuilder().setBucketLayout(layout).build();
  }

  private String files(java.nio.file.Path folder, Path directory) throws Exception {
    fs.mkdirs(directory);
    for (java.nio.file.Path file : in(folder)) {
      try (FSDataOutputStream out = fs.create(new Path(directory, file.getFileName().toString()), false)) {
        Files.copy(file, out);
      }
    }
    return "";
  }

  private String keys(java.nio.file.Path folder, String[] place, String prefix) throws Exception {
    OzoneBucket bucket = store.getVolume(place[1]).getBucket(place[2]);
    ReplicationConfig one = RatisReplicationConfig.getInstance(ReplicationFactor.ONE);
    for (java.nio.file.Path file : in(folder)) {
      try (OutputStream out = bucket.createKey(prefix + file.getFileName(), Files.size(file), one, new HashMap<>())) {
        Files.copy(file, out);
      }
    }
    return "";
  }

  /** Not all at once: a small cluster is not to hold more of it than it must. */
  private String hsync(byte[] source, int count) throws Exception {
    for (int end = written + count; written < end;) {
      int some = Math.min(end - written, AT_ONCE);
      stream.write(source, written, some);
      stream.hsync();
      written += some;
    }
    return String.valueOf(fs.getFileStatus(open).getLen());
  }

  private String file(java.nio.file.Path local, Path path, short copies, String[] settings) throws Exception {
    OzoneConfiguration conf = new OzoneConfiguration();
    for (String setting : settings) {
      conf.set(setting.split("=", 2)[0], setting.split("=", 2)[1]);
    }
    try (FileSystem own = FileSystem.newInstance(fs.getUri(), conf);
        FSDataOutputStream out = own.create(path, true, 4096, copies, own.getDefaultBlockSize(path))) {
      Files.copy(local, out);
    }
    return "";
  }

  private String parts(byte[] bytes, int more, String[] place) throws Exception {
    OzoneBucket bucket = store.getVolume(place[1]).getBucket(place[2]);
    ReplicationConfig one = RatisReplicationConfig.getInstance(ReplicationFactor.ONE);
    String upload = bucket.initiateMultipartUpload(place[3], one).getUploadID();
    Map<Integer, String> tags = new TreeMap<>();
    for (int at = 0, part = 1; at < bytes.length; part++) {
      int length = Math.min(bytes.length - at, (5 << 20) + more);
      OzoneOutputStream out = bucket.createMultipartKey(place[3], length, part, upload);
      out.write(bytes, at, length);
      out.getMetadata().put("ETag", String.valueOf(part));
      out.close();
      tags.put(part, out.getCommitUploadPartInfo().getETag());
      at += length;
    }
    bucket.completeMultipartUpload(place[3], upload, tags);
    return String.valueOf(tags.size());
  }

  private String link(String[] source, String name) throws Exception {
    store.getVolume(source[1]).createBucket(name,
        BucketArgs.newBuilder().setSourceVolume(source[1]).setSourceBucket(source[2]).build());
    return "";
  }

  private static List<java.nio.file.Path> in(java.nio.file.Path folder) throws Exception {
    List<java.nio.file.Path> files = new ArrayList<>();
    try (var all = Files.list(folder)) {
      all.sorted().forEach(files::add);
    }
    return files;
  }

  private String statuses(Path directory, java.nio.file.Path list) throws Exception {
    List<String> lines = new ArrayList<>();
    for (FileStatus status : fs.listStatus(directory)) {
      lines.add(String.join("|", status.isDirectory() ? "directory" : "regular file", String.valueOf(status.getLen()),
          String.valueOf(status.getReplication()), String.valueOf(status.getBlockSize()),
          String.valueOf(status.getModificationTime()), status.getOwner(), status.getPath().getName()));
    }
    Files.write(list, lines);
    return String.valueOf(lines.size());
  }

  /** By the object API, which reads every layout. */
  private String compare(byte[] wanted, String[] place) throws Exception {
    OzoneBucket bucket = store.getVolume(place[1]).getBucket(place[2]);
    long length = bucket.getKey(place[3]).getDataSize();
    byte[] found;
    try (InputStream in = bucket.readKey(place[3])) {
      found = in.readAllBytes();
    }
    if (length != wanted.length || !Arrays.equals(wanted, found)) {
      throw new IllegalStateException(found.length + " bytes read, " + length + " told, first difference at "
          + Arrays.mismatch(wanted, found));
    }
    return "";
  }
}
