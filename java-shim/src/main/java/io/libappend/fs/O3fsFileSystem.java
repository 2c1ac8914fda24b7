package io.libappend.fs;

import java.io.IOException;
import java.net.URI;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One bucket as a tree: {@code o3fs://bucket.volume.host:port/key}. Without a host the address comes from
 * {@code ozone.om.address}.
 *
 * <p>Register with {@code fs.o3fs.impl=io.libappend.fs.O3fsFileSystem}.
 */
public class O3fsFileSystem extends BaseFileSystem {
  static final String SCHEME = "o3fs";

  private static final Pattern AUTHORITY = Pattern.compile("([^.:]+)\\.([^.:]+)(?:\\.(.+))?");

  @Override
  public String getScheme() {
    return SCHEME;
  }

  @Override
  String serverOf(URI name) throws IOException {
    String server = parts(name).group(3);
    return server == null ? "" : server;
  }

  @Override
  String rootOf(URI name) throws IOException {
    Matcher parts = parts(name);
    return "/" + parts.group(2) + "/" + parts.group(1);
  }

  private static Matcher parts(URI name) throws IOException {
    String authority = name.getAuthority() == null ? "" : name.getAuthority();
    Matcher parts = AUTHORITY.matcher(authority);
    if (!parts.matches()) {
      throw new IOException(name + ": an o3fs URI has the form o3fs://bucket.volume.host:port/key");
    }
    return parts;
  }
}
