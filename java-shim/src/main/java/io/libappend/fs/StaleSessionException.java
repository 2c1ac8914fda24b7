package io.libappend.fs;

import java.io.IOException;

/**
 * The stream's session is over: it was fenced by a recovery, superseded by an overwrite, or its file is gone. Nothing more
 * can be published through this stream; a new append starts at the file's present end.
 */
public class StaleSessionException extends IOException {
  private static final long serialVersionUID = 1L;

  public StaleSessionException(String message) {
    super(message);
  }
}
