package io.libappend.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LeaseRecoverable;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ipc.RemoteException;

/**
 * What the second of two writers is told, and when it gets in. The first one is a process of its own ({@link FirstWriter});
 * after {@code hold} ms it is closed, killed, or stopped (and woken after the second one has written), or killed while the second
 * one asks for recovery. Times are in ms; {@code poll} lies between two attempts.
 */
final class ConflictWorkload implements Workload {
  @Override
  public void run(Bench bench, Arguments arguments) throws Exception {
    long hold = arguments.number("hold", "2000");
    long poll = arguments.number("poll", "20");
    long timeout = arguments.number("timeout", "120000");
    String rounds = arguments.text("rounds", "closed,killed,stopped,recovered");
    arguments.checkAllUsed();
    for (String round : rounds.split(",")) {
      try (FileSystem second = FileSystem.newInstance(bench.uri, bench.conf)) {
        if (!round.equals("recovered") || second instanceof LeaseRecoverable) {
          new Round(bench, second, round, hold, poll, timeout).run(arguments);
        }
      }
    }
  }

  private static final class Round {
    private final Bench bench;
    private final FileSystem second;
    private final String kind;
    private final long hold;
    private final long poll;
    private final long timeout;
    private final Path file;

    private long attempts;
    private double firstAnswerMs = Double.NaN;
    private IOException firstAnswer;
    private long released = -1;

    Round(Bench bench, FileSystem second, String kind, long hold, long poll, long timeout) {
      this.bench = bench;
      this.second = second;
      this.kind = kind;
      this.hold = hold;
      this.poll = poll;
      this.timeout = timeout;
      this.file = new Path(bench.folder, "conflict-" + kind);
    }

    void run(Arguments arguments) throws Exception {
      bench.fs.create(file, true).close();
      Process first = new ProcessBuilder(firstWriter()).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      try (BufferedReader said = new BufferedReader(new InputStreamReader(first.getInputStream(), StandardCharsets.UTF_8))) {
        await(said, FirstWriter.OPEN);
        long began = System.nanoTime();
        FSDataOutputStream out = getIn(first, said, began);
        long in = System.nanoTime();
        Line line = bench.line("conflict_" + kind, arguments).put("ops", attempts).put("seconds", (in - began) / 1e9);
        line.put("loser_exception", firstAnswer == null ? null : kindOf(firstAnswer));
        line.put("loser_message", firstAnswer == null ? null : Timed.describe(firstAnswer));
        line.put("loser_first_answer_ms", firstAnswerMs);
        line.put("in_before_release", out != null && released < 0);
        line.put("loser_in_after_release_ms", out == null || released < 0 ? null : (in - released) / 1e6);
        if (out != null) {
          line.put("second_writer_start", out.getPos());
          out.write(Bench.bytes(10));
          out.close();
          if (kind.equals("stopped")) {
            signal(first, "CONT");
            tell(first);
            line.put("first_writer_woken", await(said, FirstWriter.ENDED));
          }
          line.put("final_len", second.getFileStatus(file).getLen());
        }
        bench.print(line.put("errors", out == null ? 1 : 0));
      } finally {
        first.destroyForcibly().waitFor();
      }
    }

    /** Tries until it is let in, and lets go of the first writer when its time has come; null after the time-out. */
    private FSDataOutputStream getIn(Process first, BufferedReader said, long began) throws Exception {
      while (millisSince(began) < hold + timeout) {
        if (released < 0 && millisSince(began) >= hold) {
          release(first, said);
        }
        attempts++;
        try {
          return second.append(file);
        } catch (IOException e) {
          if (firstAnswer == null) {
            firstAnswer = e;
            firstAnswerMs = (System.nanoTime() - began) / 1e6;
          }
          Thread.sleep(poll);
        }
      }
      return null;
    }

    private void release(Process first, BufferedReader said) throws Exception {
      switch (kind) {
        case "closed" -> {
          tell(first);
          await(said, FirstWriter.ENDED);
        }
        case "stopped" -> signal(first, "STOP");
        case "killed", "recovered" -> first.destroyForcibly().waitFor();
        default -> throw new IllegalArgumentException("unknown round " + kind);
      }
      released = System.nanoTime();
      if (kind.equals("recovered")) {
        LeaseRecoverable recoverable = (LeaseRecoverable) second;
        recoverable.recoverLease(file);
        while (!recoverable.isFileClosed(file) && millisSince(released) < timeout) {
          Thread.sleep(poll);
        }
      }
    }

    private List<String> firstWriter() {
      List<String> command = new ArrayList<>();
      command.add(System.getProperty("java.home") + "/bin/java");
      command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
      command.addAll(List.of("-cp", System.getProperty("java.class.path"), FirstWriter.class.getName()));
      command.addAll(bench.options);
      command.add(file.toUri().getPath());
      return command;
    }
  }

  private static long millisSince(long nanos) {
    return (System.nanoTime() - nanos) / 1_000_000;
  }

  /** The class that the server threw, where a client passes it on inside another. */
  private static String kindOf(IOException failure) {
    String name = failure.getClass().getName();
    return failure instanceof RemoteException remote ? name + "(" + remote.getClassName() + ")" : name;
  }

  private static String await(BufferedReader said, String word) throws IOException {
    for (String line; (line = said.readLine()) != null;) {
      if (line.startsWith(word)) {
        return line.substring(word.length()).trim();
      }
    }
    throw new IOException("the first writer ended before it said '" + word + "'");
  }

  private static void tell(Process first) throws IOException {
    first.getOutputStream().write('\n');
    first.getOutputStream().flush();
  }

  private static void signal(Process first, String name) throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-" + name, Long.toString(first.pid())).inheritIO().start().waitFor();
  }
}
