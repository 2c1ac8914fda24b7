package io.libappend.bench;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** The command line: options, then any number of workloads, each with its arguments. */
public final class FsBench {
  static final String USAGE = """
      usage: FsBench --fs URI [OPTION]... WORKLOAD [KEY=VALUE]... [WORKLOAD [KEY=VALUE]...]...
      options:
        --fs URI          the file system under test
        --name NAME       name of the peer in the results [the URI's scheme]
        --dir PATH        folder to work in; deleted before each workload and at the end [/fsbench]
        --conf FILE       Hadoop settings in a file
        -D KEY=VALUE      a Hadoop setting
        --warmup N        operations before those that are measured [50]
        --verify          read appended files back and compare
        --metrics URL     where the server shows its metrics (growth counts its datanode's requests)
        --note KEY=VALUE  a field that every result carries
      workloads and their arguments [defaults]:
        append    threads=1 count=10000 size=4k sync=none       open for append, write, close; sync=hsync before close
        create    threads=1 count=1000 size=4k                  create, write, close
        hsync     threads=1 count=1000 size=4k open=append blocks=0 depth=0
        hflush    threads=1 count=1000 size=4k open=append blocks=0 depth=0
        stream    size=256m chunk=1m preads=1000 pread=64k open=append
        list      threads=1 count=1000 width=1000 lists=20      mkdirs, getFileStatus, rename, listStatus, delete
        growth    count=10000 size=4k window=1000 reads=5       one file appended to again and again, then read
        conflict  hold=2000 poll=20 timeout=120000 rounds=closed,killed,stopped,recovered
      sizes take the suffixes k, m, g (powers of 1024).
      """;

  /** What the options say. */
  static final class Options {
    URI uri;
    String peer;
    String folder = "/fsbench";
    int warmup = 50;
    boolean verify;
    URI metrics;
    final Map<String, Object> notes = new LinkedHashMap<>();
    /** The options that say how to reach the file system, as they were given. */
    final List<String> connection = new ArrayList<>();
    /** Everything behind the options. */
    final List<String> rest = new ArrayList<>();
  }

  private FsBench() {
  }

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    Options options;
    try {
      options = parse(args, conf);
      specs(options.rest);
    } catch (IllegalArgumentException e) {
      System.err.println(e.getMessage());
      System.err.print(USAGE);
      System.exit(2);
      return;
    }
    boolean ok = run(conf, options, System.out::println);
    System.out.flush();
    System.exit(ok ? 0 : 1);
  }

  static Options parse(String[] args, Configuration conf) {
    Options options = new Options();
    int at = 0;
    while (at < args.length && args[at].startsWith("-")) {
      String option = args[at++];
      if (option.equals("--verify")) {
        options.verify = true;
        continue;
      }
      if (at == args.length) {
        throw new IllegalArgumentException(option + " needs a value");
      }
      String value = args[at++];
      switch (option) {
        case "--fs" -> options.uri = URI.create(value);
        case "--name" -> options.peer = value;
        case "--dir" -> options.folder = value;
        case "--conf" -> conf.addResource(new Path(new java.io.File(value).toURI()));
        case "-D" -> conf.set(value.substring(0, value.indexOf('=')), value.substring(value.indexOf('=') + 1));
        case "--warmup" -> options.warmup = Math.toIntExact(Arguments.parse(option, value));
        case "--metrics" -> options.metrics = URI.create(value);
        case "--note" -> note(options, value);
        default -> throw new IllegalArgumentException("unknown option " + option);
      }
      if (List.of("--fs", "--conf", "-D").contains(option)) {
        options.connection.add(option);
        options.connection.add(value);
      }
    }
    options.rest.addAll(List.of(args).subList(at, args.length));
    if (options.uri == null) {
      throw new IllegalArgumentException("--fs is missing");
    }
    if (options.rest.isEmpty()) {
      throw new IllegalArgumentException("no workload is named");
    }
    if (options.peer == null) {
      options.peer = options.uri.getScheme();
    }
    return options;
  }

  private static void note(Options options, String value) {
    String key = value.substring(0, value.indexOf('='));
    String text = value.substring(key.length() + 1);
    options.notes.put(key, text.matches("-?[0-9]{1,18}") ? (Object) Long.valueOf(text) : text);
  }

  private record Spec(String name, Workload workload, Arguments arguments) {
  }

  private static List<Spec> specs(List<String> words) {
    List<Spec> specs = new ArrayList<>();
    for (String word : words) {
      if (word.indexOf('=') < 0) {
        specs.add(new Spec(word, workload(word), new Arguments()));
      } else if (specs.isEmpty()) {
        throw new IllegalArgumentException(word + " stands before the first workload");
      } else {
        specs.get(specs.size() - 1).arguments().put(word);
      }
    }
    return specs;
  }

  /** Runs the workloads; true if none failed. A workload that ends early leaves a line that says why, and the next one runs. */
  static boolean run(Configuration conf, Options options, Consumer<Line> results) throws IOException {
    List<Spec> specs = specs(options.rest);
    Bench bench = new Bench(conf, options, results);
    try {
      for (Spec spec : specs) {
        bench.fs.delete(bench.folder, true);
        bench.fs.mkdirs(bench.folder);
        try {
          spec.workload().run(bench, spec.arguments());
        } catch (Exception e) {
          bench.print(bench.line(spec.name(), spec.arguments()).put("errors", 1).put("first_error", Timed.describe(e)));
          e.printStackTrace();
        }
      }
      bench.fs.delete(bench.folder, true);
    } finally {
      bench.fs.close();
    }
    return !bench.failed();
  }

  private static Workload workload(String name) {
    return switch (name) {
      case "append" -> new AppendWorkload();
      case "create" -> new CreateWorkload();
      case "hsync" -> new SyncWorkload(true);
      case "hflush" -> new SyncWorkload(false);
      case "stream" -> new StreamWorkload();
      case "list" -> new NamespaceWorkload();
      case "growth" -> new GrowthWorkload();
      case "conflict" -> new ConflictWorkload();
      default -> throw new IllegalArgumentException("unknown workload " + name);
    };
  }
}
