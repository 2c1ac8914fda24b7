package io.libappend.bench.peer;

import java.io.File;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS as a peer: one NameNode and one DataNode in this JVM, on 127.0.0.1, as durable as an installation with default
 * settings. Prints its settings, then {@code ready hdfs://127.0.0.1:PORT}, and serves until SIGTERM.
 *
 * <p>The mini cluster's own defaults are made for tests: it leaves out the fsync of the NameNode's edit log and writes two
 * name directories. Both are undone here; what is left is {@code hdfs-default.xml}.
 */
public final class HdfsCluster {
  private HdfsCluster() {
  }

  /** Argument: the folder that holds everything; it is formatted. */
  public static void main(String[] args) throws Exception {
    if (args.length != 1) {
      System.err.println("usage: HdfsCluster FOLDER");
      System.exit(2);
    }
    File base = new File(args[0]).getAbsoluteFile();
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, base.getPath());
    String names = new File(base, "name").toURI().toString();
    conf.set(DFSConfigKeys.DFS_NAMENODE_NAME_DIR_KEY, names);
    conf.set(DFSConfigKeys.DFS_NAMENODE_EDITS_DIR_KEY, names);
    conf.setInt(DFSConfigKeys.DFS_REPLICATION_KEY, 1);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf)
        .numDataNodes(1)
        .storagesPerDatanode(1)
        .manageNameDfsDirs(false)
        .skipFsyncForTesting(false)
        .build();
    CountDownLatch ended = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      cluster.shutdown();
      ended.countDown();
    }));
    cluster.waitActive();

    int directories = cluster.getNamesystem().getFSImage().getStorage().getNumStorageDirs();
    if (directories != 1) {
      throw new IllegalStateException("one name directory is wanted, there are " + directories);
    }
    Configuration used = cluster.getConfiguration(0);
    System.out.printf("settings edit log fsync on, name directories %d, datanodes 1, storages 1, replication %d, "
            + "dfs.datanode.synconclose %b, dfs.blocksize %d%n",
        directories, used.getInt(DFSConfigKeys.DFS_REPLICATION_KEY, 0),
        cluster.getDataNodes().get(0).getConf().getBoolean(DFSConfigKeys.DFS_DATANODE_SYNCONCLOSE_KEY,
            DFSConfigKeys.DFS_DATANODE_SYNCONCLOSE_DEFAULT),
        used.getLongBytes(DFSConfigKeys.DFS_BLOCK_SIZE_KEY, DFSConfigKeys.DFS_BLOCK_SIZE_DEFAULT));
    System.out.println("ready hdfs://127.0.0.1:" + cluster.getNameNodePort());
    System.out.flush();
    ended.await();
  }
}
