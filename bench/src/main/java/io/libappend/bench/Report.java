package io.libappend.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.OptionalDouble;

/**
 * Lays a run side by side: medians over the rounds with their range, ratios to HDFS, and the goals. Exit code 1 if a line was no
 * measurement; with {@code --check} also if a goal is missed or was not measured.
 */
public final class Report {
  private static final String CONFLICT = "conflict_";

  private Report() {
  }

  public static void main(String[] args) throws IOException {
    boolean check = args.length > 0 && args[0].equals("--check");
    List<String> files = Arrays.asList(args).subList(check ? 1 : 0, args.length);
    if (files.isEmpty()) {
      System.err.println("usage: Report [--check] RESULTS.jsonl...");
      System.exit(2);
    }
    Results results = new Results();
    for (String file : files) {
      for (String line : Files.readAllLines(Path.of(file))) {
        if (!line.isBlank()) {
          results.add(line);
        }
      }
    }
    List<Goals.Goal> goals = Goals.of(results);
    System.out.print(text(results, goals));
    System.exit(!results.failures().isEmpty() || check && !goals.stream().allMatch(Goals.Goal::met) ? 1 : 0);
  }

  static String text(Results results, List<Goals.Goal> goals) {
    StringBuilder out = new StringBuilder();
    for (JsonNode environment : results.environment()) {
      environment.fields().forEachRemaining(field -> {
        if (!field.getKey().equals("name")) {
          out.append(String.format(Locale.ROOT, "%-10s %s%n", field.getKey(), field.getValue().asText()));
        }
      });
    }
    out.append(String.format(Locale.ROOT, "%nMedians over the rounds (smallest to largest)%n%-44s %-30s %-30s %s%n", "",
        Goals.OURS, Goals.HDFS, "ratio"));
    for (Results.Measurement measurement : results.measurements()) {
      boolean ours = results.values(Goals.OURS, measurement, "ops").length > 0;
      if (measurement.name().startsWith(CONFLICT)) {
        continue;
      }
      if (ours || results.values(Goals.HDFS, measurement, "ops").length > 0) {
        boolean moves = measurement.name().startsWith("stream") || measurement.name().endsWith("_read");
        row(out, results, measurement, moves ? "mb_per_s" : "ops_per_s", moves ? "MB/s" : "ops/s");
        row(out, results, measurement, "p50_us", "p50 us");
      }
    }
    conflicts(out, results);
    others(out, results, Goals.LIMIT, "The limit of this machine, measured in each round");
    others(out, results, Goals.RUST, "The same server without Java (Rust client)");
    boolean quick = results.environment().stream().anyMatch(line -> line.path("mode").asText().equals("quick"));
    out.append(String.format(Locale.ROOT, "%nGoals%s%n", quick ? " (a quick run shows that all of it works, not how fast it is)" : ""));
    for (Goals.Goal goal : goals) {
      String value = goal.value().isPresent() ? figure(goal.value().getAsDouble()) : "-";
      out.append(String.format(Locale.ROOT, "%-88s %10s %8s  %s%n", goal.text(), value, goal.wanted(), goal.verdict()));
    }
    long met = goals.stream().filter(Goals.Goal::met).count();
    long missed = goals.stream().filter(goal -> goal.value().isPresent() && !goal.met()).count();
    out.append(String.format(Locale.ROOT, "%d met, %d missed, %d not measured%n", met, missed, goals.size() - met - missed));
    for (String failure : results.failures()) {
      out.append("no measurement: ").append(failure).append(System.lineSeparator());
    }
    return out.toString();
  }

  private static void row(StringBuilder out, Results results, Results.Measurement measurement, String field, String unit) {
    double[] ours = results.values(Goals.OURS, measurement, field);
    double[] hdfs = results.values(Goals.HDFS, measurement, field);
    if (ours.length == 0 && hdfs.length == 0) {
      return;
    }
    OptionalDouble one = Results.median(ours);
    OptionalDouble other = Results.median(hdfs);
    String ratio = one.isPresent() && other.isPresent() ? figure(one.getAsDouble() / other.getAsDouble()) : "";
    out.append(String.format(Locale.ROOT, "%-44s %-30s %-30s %s%n", title(measurement) + ", " + unit, spread(ours), spread(hdfs),
        ratio));
  }

  /** When a second writer got in, in ms after the first one was let go. */
  private static void conflicts(StringBuilder out, Results results) {
    StringBuilder rows = new StringBuilder();
    for (Results.Measurement measurement : results.measurements()) {
      if (measurement.name().startsWith(CONFLICT)) {
        rows.append(String.format(Locale.ROOT, "%-44s %-30s %s%n", measurement.name().substring(CONFLICT.length()),
            spread(results.values(Goals.OURS, measurement, "loser_in_after_release_ms")),
            spread(results.values(Goals.HDFS, measurement, "loser_in_after_release_ms"))));
      }
    }
    if (rows.length() > 0) {
      out.append(String.format(Locale.ROOT, "%nThe second of two writers gets in, ms after the first one was%n%-44s %-30s %s%n", "",
          Goals.OURS, Goals.HDFS)).append(rows);
    }
  }

  private static void others(StringBuilder out, Results results, String peer, String title) {
    StringBuilder rows = new StringBuilder();
    for (Results.Measurement measurement : results.measurements()) {
      for (String field : List.of("ops_per_s", "p50_us", "mb_per_s")) {
        double[] values = results.values(peer, measurement, field);
        if (values.length > 0) {
          rows.append(String.format(Locale.ROOT, "%-60s %s%n", measurement.name() + " "
              + measurement.arguments().replaceAll(" ?(size|count)=\\w+", "") + ", " + field, spread(values)));
        }
      }
    }
    if (rows.length() > 0) {
      out.append(String.format(Locale.ROOT, "%n%s%n", title)).append(rows);
    }
  }

  /** The name with those arguments that tell measurements of one name apart; the lines themselves have them all. */
  private static String title(Results.Measurement measurement) {
    StringBuilder title = new StringBuilder(measurement.name());
    for (String argument : measurement.arguments().split(" ")) {
      boolean usual = List.of("threads=1", "sync=none", "open=append", "blocks=0", "depth=0").contains(argument);
      if (!usual && argument.matches("(threads|sync|open|blocks|depth)=.*")) {
        title.append(' ').append(argument);
      }
    }
    return title.toString();
  }

  private static String spread(double[] values) {
    if (values.length == 0) {
      return "-";
    }
    String median = figure(Results.median(values).getAsDouble());
    return values.length == 1 ? median
        : median + " (" + figure(Arrays.stream(values).min().getAsDouble()) + " to "
            + figure(Arrays.stream(values).max().getAsDouble()) + ")";
  }

  private static String figure(double value) {
    return String.format(Locale.ROOT, Math.abs(value) >= 100 ? "%.0f" : Math.abs(value) >= 10 ? "%.1f" : "%.2f", value);
  }
}
