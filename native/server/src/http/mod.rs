//! Health, metrics and configuration over HTTP. Read only.
