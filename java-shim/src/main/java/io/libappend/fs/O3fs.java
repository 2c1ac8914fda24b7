package io.libappend.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** {@link O3fsFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.o3fs.impl=io.libappend.fs.O3fs}. */
public class O3fs extends DelegateToFileSystem {
  /** Made by Hadoop through reflection. */
  public O3fs(URI name, Configuration conf) throws IOException, URISyntaxException {
    super(name, new O3fsFileSystem(), conf, O3fsFileSystem.SCHEME, false);
  }
}
