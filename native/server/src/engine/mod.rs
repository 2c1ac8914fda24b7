//! Where blocks live: picks holders for new blocks and tells where a holder answers.
