package io.libappend.fs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.security.AccessControlException;
import org.junit.BeforeClass;
import org.junit.Test;

/** Every class that the native library throws exists, can be made, and carries the text. */
public class TestErrorTable {
  @BeforeClass
  public static void load() throws Exception {
    NativeLoader.load();
  }

  @Test
  public void everyRowCanBeThrown() throws Exception {
    Set<String> thrown = new HashSet<>();
    int row = 0;
    while (true) {
      try {
        if (!Native.throwRow(row)) {
          break;
        }
      } catch (NoClassDefFoundError | NoSuchMethodError e) {
        throw new AssertionError("row " + row, e);
      } catch (Exception e) {
        assertTrue(e.toString(), e.getMessage().contains("sample"));
        if (e instanceof ChecksumException) {
          assertEquals(17, ((ChecksumException) e).getPos());
        }
        thrown.add(e.getClass().getSimpleName());
      }
      row++;
    }
    assertEquals("rows", 26, row);
    for (Class<?> expected : Arrays.asList(java.io.FileNotFoundException.class, FileAlreadyExistsException.class,
        ParentNotDirectoryException.class, PathIsNotEmptyDirectoryException.class, AccessControlException.class,
        ChecksumException.class, UnsupportedOperationException.class, StaleSessionException.class,
        OutcomeUnknownException.class, AlreadyBeingCreatedException.class,
        RecoveryInProgressException.class, java.io.InterruptedIOException.class)) {
      assertTrue(expected + " is missing among " + thrown, thrown.contains(expected.getSimpleName()));
    }
  }

  @Test
  public void closedHandlesAreRefused() throws Exception {
    java.io.IOException refused =
        org.apache.hadoop.test.LambdaTestUtils.intercept(java.io.IOException.class, () -> Native.status(0, "/v/b/k"));
    assertTrue(refused.getMessage(), refused.getMessage().contains("closed"));
    Native.closeFileSystem(12345);
    Native.closeOutput(-1);
    Native.closeInput(Long.MAX_VALUE);
  }
}
