package io.libappend.fs;

import java.net.URI;

/**
 * The whole of an Ozone server as one tree: {@code ofs://host:port/volume/bucket/key}. The root lists volumes, a volume
 * lists buckets; {@code mkdirs} of one or two components makes a volume or a bucket. An authority without a port is a
 * service name or a host at Ozone's port; an empty one takes the address from {@code ozone.om.address}.
 *
 * <p>Register with {@code fs.ofs.impl=io.libappend.fs.OfsFileSystem}.
 */
public class OfsFileSystem extends BaseFileSystem {
  static final String SCHEME = "ofs";

  @Override
  public String getScheme() {
    return SCHEME;
  }

  @Override
  String serverOf(URI name) {
    return name.getAuthority() == null ? "" : name.getAuthority();
  }

  @Override
  String rootOf(URI name) {
    return "";
  }
}
