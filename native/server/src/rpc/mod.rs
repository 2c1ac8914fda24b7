//! The listeners: Hadoop RPC and gRPC on one port. Knows frames, not messages.
