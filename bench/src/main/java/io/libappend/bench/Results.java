package io.libappend.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.Set;

/** The lines of one run. Rounds of one measurement are the lines that agree in name, peer and arguments. */
final class Results {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** What a line measured: its name, and its arguments as they were printed. */
  record Measurement(String name, String arguments) {
    /** Whether the name is {@code name} and each of {@code wanted} ({@code key=value}) stands among the arguments. */
    boolean is(String name, String... wanted) {
      return this.name.equals(name) && Arrays.asList(arguments.split(" ")).containsAll(Arrays.asList(wanted));
    }
  }

  private record Key(String peer, Measurement measurement) {
  }

  private final Map<Key, List<JsonNode>> rounds = new LinkedHashMap<>();
  private final List<JsonNode> environment = new ArrayList<>();
  private final List<String> failures = new ArrayList<>();

  void add(String text) throws IOException {
    JsonNode line = JSON.readTree(text);
    String name = line.path("name").asText();
    if (name.equals("environment")) {
      environment.add(line);
      return;
    }
    String peer = line.path("fs").asText();
    String arguments = line.path("args").asText();
    for (String field : List.of("length_ok", "content_ok")) {
      if (line.has(field) && !line.path(field).asBoolean()) {
        failures.add(peer + " " + name + " " + arguments + ": " + field + " is false");
      }
    }
    if (line.path("errors").asLong() != 0) {
      failures.add(peer + " " + name + " " + arguments + ": " + line.path("errors") + " errors, the first: "
          + line.path("first_error").asText("not named"));
      // A failed call may be a fast one: such a line is no measurement.
      return;
    }
    rounds.computeIfAbsent(new Key(peer, new Measurement(name, arguments)), key -> new ArrayList<>()).add(line);
  }

  /** What the run was made with, as the run itself printed it. */
  List<JsonNode> environment() {
    return environment;
  }

  /** Lines that are no measurement, in words. */
  List<String> failures() {
    return failures;
  }

  /** All measurements of all peers, in the order in which they were first made. */
  Set<Measurement> measurements() {
    Set<Measurement> all = new LinkedHashSet<>();
    rounds.keySet().forEach(key -> all.add(key.measurement()));
    return all;
  }

  /** The values of a field over the rounds; rounds without it are passed over. */
  double[] values(String peer, Measurement measurement, String field) {
    return rounds.getOrDefault(new Key(peer, measurement), List.of()).stream().map(line -> line.path(field))
        .filter(JsonNode::isNumber).mapToDouble(JsonNode::asDouble).toArray();
  }

  /** The median of a field over the rounds of the one measurement of this peer that {@link Measurement#is} selects. */
  OptionalDouble median(String peer, String field, String name, String... arguments) {
    for (Key key : rounds.keySet()) {
      if (key.peer().equals(peer) && key.measurement().is(name, arguments)) {
        return median(values(peer, key.measurement(), field));
      }
    }
    return OptionalDouble.empty();
  }

  /** The middle value, of an even number the mean of the middle two; empty without values. */
  static OptionalDouble median(double[] values) {
    if (values.length == 0) {
      return OptionalDouble.empty();
    }
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    int middle = sorted.length / 2;
    return OptionalDouble.of(sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2);
  }
}
