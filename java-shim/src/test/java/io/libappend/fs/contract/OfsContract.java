package io.libappend.fs.contract;

import io.libappend.fs.TestServer;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** {@code ofs} inside an FSO bucket, held to HDFS's values. */
public class OfsContract extends AbstractFSContract {
  public OfsContract(Configuration conf) {
    super(conf);
    addConfResource("contract/ofs.xml");
    TestServer.register(conf);
  }

  @Override
  public void init() throws IOException {
    super.init();
    getTestFileSystem().mkdirs(new Path(TestServer.BUCKET));
  }

  @Override
  public String getScheme() {
    return "ofs";
  }

  @Override
  public FileSystem getTestFileSystem() throws IOException {
    return FileSystem.get(TestServer.uri(), getConf());
  }

  @Override
  public Path getTestPath() {
    return new Path(TestServer.BUCKET + "/test");
  }
}
