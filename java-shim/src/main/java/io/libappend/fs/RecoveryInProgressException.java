package io.libappend.fs;

import java.io.IOException;

/**
 * The file is being recovered, and that did not finish in time, as when a datanode does not answer. The call can be repeated: it
 * goes on where the recovery stands. Thrown where the class of the same simple name of hadoop-hdfs-client, which callers written
 * for HDFS catch, is not on the class path.
 */
public class RecoveryInProgressException extends IOException {
  private static final long serialVersionUID = 1L;

  public RecoveryInProgressException(String message) {
    super(message);
  }
}
