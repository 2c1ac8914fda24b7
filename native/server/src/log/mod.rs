//! The log: append-only segments of checksummed records, one fsync for many commands.
