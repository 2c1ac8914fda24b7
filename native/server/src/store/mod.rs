//! Rows on disk behind a small trait: atomic batches with the applied position, reads, export, import.
