/**
 * Hadoop file systems over the native Ozone client.
 *
 * <p>This package holds what Hadoop's types force on it and nothing else: it translates paths, statuses and streams, and
 * decides nothing about sessions, leases, blocks or retries. Those rules live in the native client.
 *
 * <p>Entry points: {@link io.libappend.fs.OfsFileSystem} for {@code ofs://host:port/volume/bucket/key} and
 * {@link io.libappend.fs.O3fsFileSystem} for {@code o3fs://bucket.volume.host:port/key}, with
 * {@link io.libappend.fs.Ofs} and {@link io.libappend.fs.O3fs} for {@code FileContext}.
 */
package io.libappend.fs;
