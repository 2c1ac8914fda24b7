package io.libappend.fs;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Finds and loads the native library: by name on {@code java.library.path} first, so that an installed library wins, else
 * from the jar by way of a temporary folder. {@code libappend.native.tmp.dir}, or Ozone's {@code native.lib.tmp.dir},
 * moves that folder (hosts mount /tmp without the right to execute). Loading happens once; a failure is remembered and
 * thrown again, with every place that was searched.
 */
final class NativeLoader {
  static final String LIBRARY = "append_jni";
  static final String TMP_DIR_PROPERTY = "libappend.native.tmp.dir";
  static final String OZONE_TMP_DIR_PROPERTY = "native.lib.tmp.dir";

  private static boolean loaded;
  private static String failure;

  private NativeLoader() {
  }

  /** Loads the library unless it is loaded already. Safe to call from any thread. */
  static synchronized void load() throws IOException {
    if (loaded) {
      return;
    }
    if (failure == null) {
      failure = tryLoad();
    }
    if (failure != null) {
      throw new IOException(failure);
    }
    loaded = true;
  }

  /** Name of the library inside the jar on this machine. */
  static String resourceName(String os, String arch) {
    String system = os.toLowerCase(Locale.ROOT).startsWith("mac") ? "osx" : os.toLowerCase(Locale.ROOT);
    String machine = arch.equals("amd64") ? "x86_64" : arch.equals("aarch64") ? "aarch_64" : arch;
    return "/native/" + system + "-" + machine + "/" + System.mapLibraryName(LIBRARY);
  }

  private static String tryLoad() {
    StringBuilder searched = new StringBuilder();
    try {
      System.loadLibrary(LIBRARY);
      return versionFault("java.library.path");
    } catch (UnsatisfiedLinkError e) {
      searched.append("\n  java.library.path=").append(System.getProperty("java.library.path"))
          .append(": ").append(e.getMessage());
    }
    String resource = resourceName(System.getProperty("os.name"), System.getProperty("os.arch"));
    Path copy = null;
    try (InputStream in = NativeLoader.class.getResourceAsStream(resource)) {
      if (in == null) {
        searched.append("\n  ").append(resource).append(" on the class path: not there");
        return cannotLoad(searched);
      }
      Path folder = temporaryFolder();
      Files.createDirectories(folder);
      copy = Files.createTempFile(folder, "lib" + LIBRARY + "-", suffix(resource));
      Files.copy(in, copy, StandardCopyOption.REPLACE_EXISTING);
      System.load(copy.toAbsolutePath().toString());
      return versionFault(resource);
    } catch (IOException | UnsatisfiedLinkError e) {
      searched.append("\n  ").append(resource).append(" by way of ")
          .append(copy == null ? temporaryFolder() : copy).append(": ").append(e);
      return cannotLoad(searched);
    } finally {
      if (copy != null) {
        // The mapping outlives the name, so nothing is left behind even after a kill.
        copy.toFile().delete();
      }
    }
  }

  private static String suffix(String resource) {
    return resource.substring(resource.lastIndexOf('.'));
  }

  private static String cannotLoad(StringBuilder searched) {
    return "libappend's native library cannot be loaded. Put " + System.mapLibraryName(LIBRARY)
        + " on java.library.path, or use the jar for this platform; -D" + TMP_DIR_PROPERTY
        + " names a folder that may hold executable files. Places searched:" + searched;
  }

  private static String versionFault(String place) {
    int found = Native.interfaceVersion();
    return found == Native.INTERFACE_VERSION ? null
        : "libappend's native library from " + place + " has interface version " + found + ", the jar needs "
            + Native.INTERFACE_VERSION + ": use library and jar of one release";
  }

  private static Path temporaryFolder() {
    String folder = System.getProperty(TMP_DIR_PROPERTY);
    if (folder == null) {
      folder = System.getProperty(OZONE_TMP_DIR_PROPERTY);
    }
    return Paths.get(folder == null ? System.getProperty("java.io.tmpdir") : folder);
  }
}
