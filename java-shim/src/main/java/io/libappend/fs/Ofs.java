package io.libappend.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** {@link OfsFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.ofs.impl=io.libappend.fs.Ofs}. */
public class Ofs extends DelegateToFileSystem {
  /** Made by Hadoop through reflection. */
  public Ofs(URI name, Configuration conf) throws IOException, URISyntaxException {
    super(name, new OfsFileSystem(), conf, OfsFileSystem.SCHEME, false);
  }
}
