package io.libappend.fs;

import java.io.IOException;

/**
 * Another writer owns the file. Thrown where the class of the same simple name of hadoop-hdfs-client, which callers written
 * for HDFS catch, is not on the class path. The message names the owner's kind, its phase and the remaining lease time.
 */
public class AlreadyBeingCreatedException extends IOException {
  private static final long serialVersionUID = 1L;

  public AlreadyBeingCreatedException(String message) {
    super(message);
  }
}
