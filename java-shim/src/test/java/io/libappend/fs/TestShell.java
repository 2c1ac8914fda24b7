package io.libappend.fs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ToolRunner;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** {@code hadoop fs}, the published class, on our file system: effects, exit codes and messages as on HDFS. */
public class TestShell extends ServerTestBase {
  @Rule
  public TemporaryFolder local = new TemporaryFolder();

  private String a;
  private String b;
  private String c;
  private String err;

  @Before
  public void files() throws Exception {
    a = localFile("a", "aaa\n");
    b = localFile("b", "bbb\n");
    c = localFile("c", "ccc\n");
  }

  private String localFile(String name, String text) throws Exception {
    File file = new File(local.getRoot(), name);
    Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
    return file.getPath();
  }

  private int shell(String... args) throws Exception {
    Configuration conf = conf();
    conf.set("fs.defaultFS", TestServer.uri().toString());
    PrintStream before = System.err;
    ByteArrayOutputStream captured = new ByteArrayOutputStream();
    System.setErr(new PrintStream(captured, true, "UTF-8"));
    try {
      return ToolRunner.run(conf, new FsShell(), args);
    } finally {
      System.setErr(before);
      err = captured.toString("UTF-8");
    }
  }

  private int shellWithInput(String input, String... args) throws Exception {
    InputStream before = System.in;
    System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
    try {
      return shell(args);
    } finally {
      System.setIn(before);
    }
  }

  private String text(Path path) throws Exception {
    return new String(read(path), StandardCharsets.UTF_8);
  }

  @Test
  public void appendsFilesInOrder() throws Exception {
    Path target = file("f");
    assertEquals(err, 0, shell("-touchz", target.toString()));
    assertEquals(err, 0, shell("-appendToFile", a, target.toString()));
    assertEquals(err, 0, shell("-appendToFile", a, b, c, target.toString()));
    assertEquals("aaa\naaa\nbbb\nccc\n", text(target));
    assertEquals(err, 0, shell("-appendToFile", "-n", a, target.toString()));
    assertEquals("aaa\naaa\nbbb\nccc\naaa\n", text(target));
  }

  @Test
  public void appendsStandardInput() throws Exception {
    Path target = file("f");
    assertEquals(err, 0, shell("-appendToFile", a, target.toString()));
    assertEquals(err, 0, shellWithInput("from stdin\n", "-appendToFile", "-", target.toString()));
    assertEquals("aaa\nfrom stdin\n", text(target));
    assertEquals(1, shellWithInput("x", "-appendToFile", "-", a, target.toString()));
    assertTrue(err, err.contains("must be the sole input"));
    assertEquals("aaa\nfrom stdin\n", text(target));
  }

  @Test
  public void aMissingTargetIsMade() throws Exception {
    Path target = file("nodir/x");
    assertEquals(err, 0, shell("-appendToFile", a, target.toString()));
    assertEquals("aaa\n", text(target));
    Path empty = file("empty");
    assertEquals(err, 0, shell("-appendToFile", localFile("nothing", ""), empty.toString()));
    assertEquals(0, fs.getFileStatus(empty).getLen());
  }

  @Test
  public void faultsGiveOne() throws Exception {
    Path target = file("f");
    write(target, "x".getBytes(StandardCharsets.UTF_8));
    assertEquals(1, shell("-appendToFile", a, local.getRoot() + "/none", target.toString()));
    assertEquals("the first file's bytes stay", "xaaa\n", text(target));
    assertEquals(1, shell("-appendToFile", a, folder.toString()));
    assertTrue(err, err.contains("director"));
    assertEquals(1, shell("-appendToFile", local.getRoot().getPath(), target.toString()));
    assertEquals(1, shell("-appendToFile", a));
    assertTrue(err, err.contains("missing destination"));
    assertEquals("xaaa\n", text(target));
  }

  @Test
  public void anOwnedFileGivesOneAndNamesItsOwner() throws Exception {
    Path target = file("f");
    write(target, "x".getBytes(StandardCharsets.UTF_8));
    try (FSDataOutputStream out = fs.append(target)) {
      assertEquals(1, shell("-appendToFile", a, target.toString()));
      assertTrue(err, err.contains("appendToFile: ") && err.contains(target.toUri().getPath()));
      out.write('y');
    }
    assertEquals("xy", text(target));
  }

  @Test
  public void theOtherVerbsBehave() throws Exception {
    Path target = file("d/f");
    assertEquals(err, 0, shell("-mkdir", "-p", target.getParent().toString()));
    assertEquals(err, 0, shell("-put", a, target.toString()));
    assertEquals(1, shell("-put", b, target.toString()));
    assertTrue(err, err.contains("File exists"));
    assertEquals(err, 0, shell("-put", "-f", b, target.toString()));
    assertEquals("bbb\n", text(target));
    assertEquals(err, 0, shell("-mv", target.toString(), file("d/g").toString()));
    assertEquals(1, shell("-cat", target.toString()));
    assertTrue(err, err.contains("No such file or directory"));
    assertEquals(1, shell("-touchz", file("d/g").toString()));
    String copy = local.getRoot() + "/copy";
    assertEquals(err, 0, shell("-get", file("d/g").toString(), copy));
    assertEquals("bbb\n", new String(Files.readAllBytes(new File(copy).toPath()), StandardCharsets.UTF_8));
    assertEquals(err, 0, shell("-rm", "-r", target.getParent().toString()));
    assertEquals(1, shell("-test", "-e", target.getParent().toString()));
  }
}
