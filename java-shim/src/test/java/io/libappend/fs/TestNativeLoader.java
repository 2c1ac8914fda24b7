package io.libappend.fs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Each case runs in a JVM of its own, for a library is loaded once in a JVM's life. */
public class TestNativeLoader {
  @Rule
  public TemporaryFolder folder = new TemporaryFolder();

  /** Loads the library and says how it went; the code of the JVM that the tests start. */
  public static final class Main {
    public static void main(String[] args) throws Exception {
      try {
        NativeLoader.load();
        System.out.println("loaded");
      } catch (java.io.IOException e) {
        System.out.println(e.getMessage());
        System.exit(3);
      }
    }
  }

  @Test
  public void namesTheResourceByPlatform() {
    assertEquals("/native/linux-x86_64/libappend_jni.so", NativeLoader.resourceName("Linux", "amd64"));
    assertEquals("/native/linux-aarch_64/libappend_jni.so", NativeLoader.resourceName("Linux", "aarch64"));
  }

  @Test
  public void loadsFromTheJarAndLeavesNothingBehind() throws Exception {
    File tmp = folder.newFolder("tmp");
    Run run = run(classPath(true), "-Dlibappend.native.tmp.dir=" + tmp, "-Djava.library.path=/nonexistent");
    assertEquals(run.output, 0, run.code);
    assertEquals("the copy outlived the load", 0, tmp.list().length);
  }

  @Test
  public void anInstalledLibraryWins() throws Exception {
    File installed = folder.newFolder("installed");
    Files.write(new File(installed, "libappend_jni.so").toPath(), new byte[] {1, 2, 3});
    Run broken = run(classPath(false), "-Djava.library.path=" + installed);
    assertEquals(broken.output, 3, broken.code);
    assertTrue(broken.output, broken.output.contains(installed + "/libappend_jni.so"));
  }

  @Test
  public void listsThePlacesSearchedWhenThereIsNoLibrary() throws Exception {
    Run run = run(classPath(false), "-Djava.library.path=/nonexistent");
    assertNotEquals(0, run.code);
    assertTrue(run.output, run.output.contains("java.library.path=/nonexistent"));
    assertTrue(run.output, run.output.contains("/native/linux-"));
    assertTrue(run.output, run.output.contains("libappend.native.tmp.dir"));
  }

  @Test
  public void saysWhichFolderCannotTakeTheCopy() throws Exception {
    Path file = folder.newFile("plain").toPath();
    Run run = run(classPath(true), "-Dnative.lib.tmp.dir=" + file, "-Djava.library.path=/nonexistent");
    assertEquals(run.output, 3, run.code);
    assertTrue(run.output, run.output.contains(file.toString()));
  }

  /** The shim's classes, with the native library or without it, and nothing else. */
  private String classPath(boolean withLibrary) throws Exception {
    Path classes = Paths.get(NativeLoader.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    Path tests = Paths.get(Main.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    if (withLibrary) {
      return classes + File.pathSeparator + tests;
    }
    Path bare = folder.newFolder().toPath();
    Path to = Files.createDirectories(bare.resolve("io/libappend/fs"));
    for (String name : new String[] {"NativeLoader.class", "Native.class"}) {
      Files.copy(classes.resolve("io/libappend/fs").resolve(name), to.resolve(name));
    }
    return bare + File.pathSeparator + tests;
  }

  private static final class Run {
    int code;
    String output;
  }

  private static Run run(String classPath, String... options) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Paths.get(System.getProperty("java.home"), "bin", "java").toString());
    for (String option : options) {
      command.add(option);
    }
    command.add("-cp");
    command.add(classPath);
    command.add(Main.class.getName());
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    Run run = new Run();
    StringBuilder output = new StringBuilder();
    try (java.io.Reader reader = new java.io.InputStreamReader(process.getInputStream(), "UTF-8")) {
      for (int c = reader.read(); c >= 0; c = reader.read()) {
        output.append((char) c);
      }
    }
    run.code = process.waitFor();
    run.output = output.toString();
    return run;
  }
}
