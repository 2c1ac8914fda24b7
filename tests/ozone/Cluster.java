import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.hdds.scm.pipeline.Pipeline;
import org.apache.hadoop.hdds.scm.server.StorageContainerManager;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.ozone.HddsDatanodeService;
import org.apache.hadoop.ozone.om.OzoneManager;

/**
 * A whole Ozone in one process: SCM, OM and datanodes, as small as they go, on free ports of 127.0.0.1.
 *
 * <p>Arguments: a folder for data, the folder for {@code ozone-site.xml} (which must be on the class path), the number of datanodes.
 * Prints {@code ready HOST:PORT GRPC_PORT}, the OM's two ports, once files can be written. Ends when standard input does, so it
 * does not outlive whoever started it.
 */
public final class Cluster {
  private static final int FIRST_PORT = 20000;
  private static final int LAST_PORT = 32000;

  private final Path data;
  private final int datanodes;
  private final Map<String, Object> site = new LinkedHashMap<>();
  private int nextPort = FIRST_PORT + (int) (ProcessHandle.current().pid() % 10000);

  private Cluster(Path data, int datanodes) {
    this.data = data;
    this.datanodes = datanodes;
  }

  public static void main(String[] args) throws Exception {
    endWithStandardInput();
    try {
      new Cluster(Path.of(args[0]), Integer.parseInt(args[2])).start(Path.of(args[1]));
    } catch (Throwable failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private static void endWithStandardInput() {
    Thread waiting = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {
          continue;
        }
      } catch (IOException e) {
        // As good as the end.
      }
      Runtime.getRuntime().halt(0);
    });
    waiting.setDaemon(true);
    waiting.start();
  }

  private void start(Path configuration) throws Exception {
    int om = freePort();
    int grpc = freePort();
    describe(om, grpc);
    StringBuilder xml = new StringBuilder("<configuration>\n");
    site.forEach((key, value) -> xml.append("<property><name>" + key + "</name><value>" + value + "</value></property>\n"));
    Files.writeString(configuration.resolve("ozone-site.xml"), xml + "</configuration>\n");

    DefaultMetricsSystem.setMiniClusterMode(true);
    OzoneConfiguration conf = new OzoneConfiguration();
    StorageContainerManager.scmInit(conf, null);
    StorageContainerManager scm = StorageContainerManager.createSCM(conf);
    scm.start();
    List<HddsDatanodeService> services = new ArrayList<>();
    for (int node = 0; node < datanodes; node++) {
      OzoneConfiguration own = datanode(conf, data.resolve("dn" + node));
      HddsDatanodeService service = new HddsDatanodeService(new String[0]);
      service.setConfiguration(own);
      service.start(own);
      services.add(service);
    }
    OzoneManager.omInit(conf);
    OzoneManager manager = OzoneManager.createOm(conf);
    manager.start();
    // One pipeline of each datanode alone, and one of three.
    int pipelines = datanodes + datanodes / 3;
    while (scm.isInSafeMode() || scm.getPipelineManager().getPipelines().stream().filter(Pipeline::isOpen).count() < pipelines) {
      Thread.sleep(50);
    }
    System.out.println("ready 127.0.0.1:" + om + " " + grpc);
    scm.join();
  }

  /** What all services are to know. */
  private void describe(int om, int grpc) throws IOException {
    site.put("ozone.metadata.dirs", data.resolve("meta"));
    site.put("ozone.http.basedir", data.resolve("http"));
    site.put("ozone.scm.names", "127.0.0.1");
    for (String service : List.of("client", "block.client", "datanode")) {
      int port = freePort();
      site.put("ozone.scm." + service + ".address", "127.0.0.1:" + port);
      site.put("ozone.scm." + service + ".bind.host", "127.0.0.1");
      site.put("ozone.scm." + service + ".port", port);
    }
    site.put("ozone.scm.ratis.port", freePort());
    site.put("ozone.scm.grpc.port", freePort());
    site.put("ozone.scm.http-address", "127.0.0.1:" + freePort());
    site.put("ozone.scm.http-bind-host", "127.0.0.1");
    site.put("ozone.om.address", "127.0.0.1:" + om);
    site.put("ozone.om.ratis.port", freePort());
    site.put("ozone.om.s3.grpc.server_enabled", true);
    site.put("ozone.om.grpc.port", grpc);
    site.put("ozone.om.http-address", "127.0.0.1:" + freePort());
    site.put("ozone.om.http-bind-host", "127.0.0.1");
    site.put("hdds.datanode.http-bind-host", "127.0.0.1");
    site.put("hdds.datanode.client.bind.host", "127.0.0.1");
    site.put("hdds.datanode.hostname", "127.0.0.1");

    site.put("ozone.replication", "ONE");
    site.put("ozone.server.default.replication", "ONE");
    site.put("ozone.scm.block.size", "32MB");
    site.put("ozone.scm.container.size", "256MB");
    // Hsync must be allowed on both sides.
    site.put("ozone.hbase.enhancements.allowed", true);
    site.put("ozone.client.hbase.enhancements.allowed", true);
    site.put("ozone.fs.hsync.enabled", true);

    // Ready soon.
    site.put("hdds.scm.safemode.min.datanode", datanodes);
    site.put("hdds.scm.wait.time.after.safemode.exit", "1s");
    site.put("hdds.heartbeat.interval", "1s");
    site.put("hdds.initial.heartbeat.interval", "1s");
    site.put("hdds.node.report.interval", "5s");
    site.put("hdds.pipeline.report.interval", "3s");
    site.put("ozone.scm.heartbeat.thread.interval", "1s");
    site.put("ozone.scm.pipeline.creation.interval", "2s");
    site.put("ozone.scm.ha.ratis.server.rpc.first-election.timeout", "200ms");
    site.put("ozone.scm.ha.ratis.leader.election.timeout", "1s");
    site.put("ozone.om.ratis.minimum.timeout", "1s");
    site.put("hdds.ratis.leader.election.minimum.timeout.duration", "1s");
    site.put("hdds.ratis.raft.server.rpc.first-election.timeout.min", "200ms");
    site.put("hdds.ratis.raft.server.rpc.first-election.timeout.max", "400ms");

    // Little memory, few threads, a small disk. Each Raft group keeps a buffer of the size of its appender's queue; what a client
    // sends ahead lies in this process once for each copy.
    site.put("ozone.client.stream.buffer.flush.size", "4MB");
    site.put("ozone.client.stream.buffer.max.size", "8MB");
    site.put("ozone.scm.pipeline.owner.container.count", 1);
    site.put("ozone.datanode.pipeline.limit", 1);
    site.put("ozone.om.handler.count.key", 10);
    site.put("ozone.scm.handler.count.key", 10);
    site.put("ozone.scm.event.ContainerReport.thread.pool.size", 1);
    site.put("ozone.scm.event.IncrementalContainerReport.thread.pool.size", 1);
    site.put("hdds.container.ratis.segment.preallocated.size", "1MB");
    site.put("hdds.container.ratis.log.appender.queue.byte-limit", "8MB");
    site.put("ozone.om.ratis.log.appender.queue.byte-limit", "4MB");
    site.put("ozone.scm.ha.ratis.log.appender.queue.byte-limit", "4MB");
    site.put("hdds.datanode.volume.min.free.space", "100MB");
    site.put("hdds.datanode.volume.min.free.space.percent", 0);
    site.put("ozone.scm.datanode.ratis.volume.free-space.min", "10MB");
  }

  private OzoneConfiguration datanode(OzoneConfiguration all, Path folder) throws IOException {
    OzoneConfiguration conf = new OzoneConfiguration(all);
    Map<String, String> folders = Map.of("ozone.metadata.dirs", "meta", "ozone.scm.datanode.id.dir", "meta",
        "hdds.datanode.dir", "hdds", "hdds.container.ratis.datanode.storage.dir", "ratis", "ozone.http.basedir", "http");
    for (Map.Entry<String, String> entry : folders.entrySet()) {
      conf.set(entry.getKey(), Files.createDirectories(folder.resolve(entry.getValue())).toString());
    }
    for (String key : List.of("hdds.container.ipc.port", "hdds.container.ratis.ipc.port", "hdds.container.ratis.admin.port",
        "hdds.container.ratis.server.port", "hdds.container.ratis.datastream.port", "hdds.datanode.replication.port")) {
      conf.setInt(key, freePort());
    }
    conf.set("hdds.datanode.http-address", "127.0.0.1:" + freePort());
    conf.set("hdds.datanode.client.address", "127.0.0.1:" + freePort());
    return conf;
  }

  /** A port below those that the system gives to outgoing connections, so nobody takes it until its server does. */
  private int freePort() throws IOException {
    while (nextPort < LAST_PORT) {
      int port = nextPort++;
      try (ServerSocket probe = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return probe.getLocalPort();
      } catch (IOException e) {
        continue;
      }
    }
    throw new IOException("no free port");
  }
}
