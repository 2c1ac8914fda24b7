//! Ozone's messages to commands and reads, and their outcomes back. Decides nothing.
