//! Servers of a few lines for tests: they answer what a test tells them to, and show what they were asked.

pub(crate) mod datanode;
pub(crate) mod om;
