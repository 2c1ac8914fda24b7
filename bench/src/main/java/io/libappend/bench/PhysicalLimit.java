package io.libappend.bench;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What the machine itself allows: one client and one server thread over loopback TCP, two files that grow by 4 KiB per fdatasync,
 * and nothing else. It measures
 *
 * <ul>
 * <li>{@code limit_fdatasync}: append 4 KiB to a file, fdatasync;
 * <li>{@code limit_round_trip}: 256 bytes there, 64 bytes back;
 * <li>{@code limit_append}: one append cycle's worth of both: admit (the log is synced), write 4 KiB (the block file is synced),
 * close (the log is synced), so 3 round trips and 3 fdatasync calls, one after the other;
 * <li>{@code limit_hsync}: write 4 KiB, commit the block (synced), publish (the log is synced), so 3 round trips and 2 fdatasync
 * calls.
 * </ul>
 *
 * <p>The folder must be on the disk that the servers use.
 */
public final class PhysicalLimit {
  private static final int REQUEST = 256;
  private static final int ANSWER = 64;

  /** One round trip: how much goes there, and what the server syncs before it answers. */
  private enum Trip {
    ECHO(REQUEST, null),
    DATA(4096, null),
    DATA_TO_BLOCKS(4096, "blocks"),
    COMMIT(REQUEST, "blocks"),
    TO_LOG(REQUEST, "log");

    private final int bytes;
    private final String file;

    Trip(int bytes, String file) {
      this.bytes = bytes;
      this.file = file;
    }
  }

  private PhysicalLimit() {
  }

  public static void main(String[] args) throws Exception {
    Path folder = null;
    int count = 1000;
    Map<String, Object> notes = new LinkedHashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) {
      switch (args[i]) {
        case "--data" -> folder = Path.of(args[i + 1]);
        case "--count" -> count = Integer.parseInt(args[i + 1]);
        case "--note" -> {
          String[] note = args[i + 1].split("=", 2);
          notes.put(note[0], note[1].matches("[0-9]{1,18}") ? (Object) Long.valueOf(note[1]) : note[1]);
        }
        default -> throw new IllegalArgumentException("unknown option " + args[i]);
      }
    }
    if (folder == null || args.length % 2 != 0) {
      System.err.println("usage: PhysicalLimit --data FOLDER [--count N] [--note KEY=VALUE]...");
      System.exit(2);
    }
    Files.createDirectories(folder);
    for (Line line : measure(folder, count)) {
      notes.forEach(line::put);
      System.out.println(line);
    }
  }

  static List<Line> measure(Path folder, int count) throws IOException, InterruptedException {
    try (Server server = new Server(folder); Client client = new Client(server.address())) {
      return List.of(
          line("limit_fdatasync", "round_trips=0 fdatasyncs=1", count, (thread, i) -> server.sync("log")),
          line("limit_round_trip", "round_trips=1 fdatasyncs=0", count, client.cycle(Trip.ECHO)),
          line("limit_append", "round_trips=3 fdatasyncs=3", count,
              client.cycle(Trip.TO_LOG, Trip.DATA_TO_BLOCKS, Trip.TO_LOG)),
          line("limit_hsync", "round_trips=3 fdatasyncs=2", count, client.cycle(Trip.DATA, Trip.COMMIT, Trip.TO_LOG)));
    }
  }

  private static Line line(String name, String arguments, int count, Timed.Operation cycle) throws InterruptedException {
    Timed.run(1, Math.min(count, 200), cycle);
    return new Line(name, "limit", arguments + " size=4k count=" + count).put(Timed.run(1, count, cycle), count, 0);
  }

  /** Answers one connection; the first byte of a request says which trip it is. */
  private static final class Server implements AutoCloseable {
    private final ServerSocketChannel listener;
    private final Map<String, FileChannel> files = new LinkedHashMap<>();
    private final ByteBuffer block = ByteBuffer.allocateDirect(4096);
    private final Thread thread;

    Server(Path folder) throws IOException {
      for (String name : List.of("log", "blocks")) {
        files.put(name, FileChannel.open(folder.resolve("limit-" + name), StandardOpenOption.CREATE,
            StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING));
      }
      block.put(Bench.bytes(4096));
      listener = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      thread = new Thread(this::serve, "limit-server");
      thread.start();
    }

    InetSocketAddress address() throws IOException {
      return (InetSocketAddress) listener.getLocalAddress();
    }

    /** Appends 4 KiB and waits until the disk has them. Called by one thread at a time. */
    void sync(String name) throws IOException {
      FileChannel file = files.get(name);
      block.clear();
      while (block.hasRemaining()) {
        file.write(block);
      }
      file.force(false);
    }

    private void serve() {
      try (SocketChannel connection = listener.accept()) {
        connection.setOption(StandardSocketOptions.TCP_NODELAY, true);
        ByteBuffer buffer = ByteBuffer.allocateDirect(4096);
        while (receive(connection, buffer, REQUEST)) {
          Trip trip = Trip.values()[buffer.get(0)];
          if (trip.bytes > REQUEST) {
            receive(connection, buffer, trip.bytes - REQUEST);
          }
          if (trip.file != null) {
            sync(trip.file);
          }
          send(connection, buffer, ANSWER);
        }
      } catch (IOException e) {
        // The client sees the connection end and fails; a closed listener is how this thread is told to stop.
        return;
      }
    }

    @Override
    public void close() throws IOException, InterruptedException {
      listener.close();
      thread.join();
      for (FileChannel file : files.values()) {
        file.close();
      }
    }
  }

  private static final class Client implements AutoCloseable {
    private final SocketChannel connection;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(4096);

    Client(InetSocketAddress server) throws IOException {
      connection = SocketChannel.open(server);
      connection.setOption(StandardSocketOptions.TCP_NODELAY, true);
    }

    Timed.Operation cycle(Trip... trips) {
      return (thread, i) -> {
        for (Trip trip : trips) {
          buffer.put(0, (byte) trip.ordinal());
          send(connection, buffer, trip.bytes);
          if (!receive(connection, buffer, ANSWER)) {
            throw new EOFException("the server has gone");
          }
        }
      };
    }

    @Override
    public void close() throws IOException {
      connection.close();
    }
  }

  private static void send(SocketChannel connection, ByteBuffer buffer, int count) throws IOException {
    buffer.clear().limit(count);
    while (buffer.hasRemaining()) {
      connection.write(buffer);
    }
  }

  /** False at the end of the stream. */
  private static boolean receive(SocketChannel connection, ByteBuffer buffer, int count) throws IOException {
    buffer.clear().limit(count);
    while (buffer.hasRemaining()) {
      if (connection.read(buffer) < 0) {
        return false;
      }
    }
    return true;
  }
}
