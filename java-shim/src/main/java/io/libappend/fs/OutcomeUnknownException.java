package io.libappend.fs;

import java.io.IOException;

/**
 * The request may or may not have been executed: no answer came before the deadline. The caller has to look at the file
 * before it repeats anything; the library never repeats such a request as a new one.
 */
public class OutcomeUnknownException extends IOException {
  private static final long serialVersionUID = 1L;

  public OutcomeUnknownException(String message) {
    super(message);
  }
}
