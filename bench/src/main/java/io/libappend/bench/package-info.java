/**
 * One benchmark for any Hadoop {@code FileSystem}: the same calls with the same arguments, one JSON object per result on
 * standard output. Beside it the physical limit of the machine, and the report that lays results side by side.
 *
 * <p>Workloads use Hadoop's public API alone and know no peer. Nothing here starts a server: {@code bench/run} does.
 */
package io.libappend.bench;
