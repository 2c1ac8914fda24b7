package io.libappend.fs.contract;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** Hadoop's own suite, unmodified. It empties the root, so it is run where the root is one bucket: on {@code o3fs}. */
public class TestRootDirectory extends AbstractContractRootDirectoryTest {
  @Override
  protected AbstractFSContract createContract(Configuration conf) {
    return new BucketContract(conf);
  }
}
