package io.libappend.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The {@code key=value} arguments of one workload. A key that is asked for and not given takes its default, and is printed
 * with the result, so that a result says all it was made with. Sizes take the suffixes k, m and g (powers of 1024).
 */
final class Arguments {
  private final Map<String, String> given = new LinkedHashMap<>();
  private final Map<String, String> used = new LinkedHashMap<>();

  void put(String pair) {
    int at = pair.indexOf('=');
    given.put(pair.substring(0, at), pair.substring(at + 1));
  }

  String text(String key, String otherwise) {
    String value = given.getOrDefault(key, otherwise);
    used.put(key, value);
    return value;
  }

  /** A number or a size. */
  long number(String key, String otherwise) {
    return parse(key, text(key, otherwise));
  }

  /** A number that must fit an array. */
  int count(String key, String otherwise) {
    long value = number(key, otherwise);
    if (value < 0 || value > Integer.MAX_VALUE - 8) {
      throw new IllegalArgumentException(key + "=" + value + " is out of range");
    }
    return (int) value;
  }

  /** Refuses what no workload asked for: a mistyped key would otherwise measure something else than it says. */
  void checkAllUsed() {
    for (String key : given.keySet()) {
      if (!used.containsKey(key)) {
        throw new IllegalArgumentException("unknown argument " + key + ", known are " + used.keySet());
      }
    }
  }

  /** All arguments, defaults included, in the order in which the workload asked for them. */
  @Override
  public String toString() {
    return used.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(" "));
  }

  static long parse(String key, String value) {
    int last = value.length() - 1;
    int power = last < 0 ? -1 : "kmg".indexOf(Character.toLowerCase(value.charAt(last)));
    try {
      return power < 0 ? Long.parseLong(value)
          : Math.multiplyExact(Long.parseLong(value.substring(0, last)), 1L << (10 * (power + 1)));
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(key + "=" + value + " is not a number", e);
    }
  }
}
