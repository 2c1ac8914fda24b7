package io.libappend.bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/** One result: a JSON object on one line, keys in the order in which they were put. */
final class Line {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, Object> fields = new LinkedHashMap<>();

  Line(String name, String peer, String arguments) {
    fields.put("name", name);
    fields.put("fs", peer);
    fields.put("args", arguments);
  }

  /** A value that has no meaning here is null; doubles are rounded to what a reader can use. */
  Line put(String key, Object value) {
    fields.put(key, value instanceof Double number ? rounded(number) : value);
    return this;
  }

  /** The times of a phase: {@code ops} operations that moved {@code bytes} in all, 0 if bytes have no meaning. */
  Line put(Timed timed, long ops, double bytes) {
    put("ops", ops);
    put("seconds", timed.seconds());
    put("ops_per_s", ops / timed.seconds());
    put("p50_us", timed.percentile(0.50));
    put("p95_us", timed.percentile(0.95));
    put("p99_us", timed.percentile(0.99));
    put("max_us", timed.percentile(1));
    put("mb_per_s", bytes > 0 ? bytes / 1e6 / timed.seconds() : null);
    put("errors", timed.errors());
    if (timed.firstError() != null) {
      put("first_error", timed.firstError());
    }
    return this;
  }

  /** One operation that took {@code seconds} and moved {@code bytes}. */
  Line put(double seconds, double bytes, long errors) {
    put("ops", 1);
    put("seconds", seconds);
    put("ops_per_s", 1 / seconds);
    put("mb_per_s", bytes / 1e6 / seconds);
    put("errors", errors);
    return this;
  }

  boolean failed() {
    return fields.get("errors") instanceof Number errors && errors.longValue() != 0
        || Boolean.FALSE.equals(fields.get("length_ok")) || Boolean.FALSE.equals(fields.get("content_ok"));
  }

  private static Object rounded(double value) {
    if (Double.isNaN(value) || Double.isInfinite(value)) {
      return null;
    }
    return Math.abs(value) >= 1000 ? (Object) Math.round(value) : (Object) (Math.round(value * 1000) / 1000.0);
  }

  @Override
  public String toString() {
    try {
      return JSON.writeValueAsString(fields);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }
}
