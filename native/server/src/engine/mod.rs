//! Where blocks live: picks holders for new blocks and tells where a holder answers. Decides nothing about files.
//!
//! Two engines are built: [`Embedded`], the datanode in this process, and [`Processes`], a list of datanodes that are processes of their
//! own. Ozone's SCM comes behind the same trait.

mod embedded;
mod processes;

pub use embedded::Embedded;
pub use processes::{BadAddress, Processes};

use append_namespace::command::{Holder, Replication};
use append_namespace::rows::{Rows, RowsError};

/// No registered datanode answers and is acceptable to the caller. Nothing was proposed: the caller may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no live datanode can take a block ({registered} registered); come again")]
pub struct NoHolder {
    /// Datanodes that could be picked if they lived and were not excluded.
    pub registered: usize,
}

/// Where the bytes of new blocks go. All methods may be called from any thread and do not block.
pub trait BlockEngine: Send + Sync {
    /// Holders for `count` new blocks, one each, none of them with an id in `exclude`. Blocks of one `place`, the path of a file, may be
    /// kept together.
    ///
    /// # Errors
    /// [`NoHolder`] when there is none that lives.
    fn pick(&self, count: usize, exclude: &[String], place: &str) -> Result<Vec<u32>, NoHolder>;

    /// Holders that could be picked now.
    fn live(&self) -> usize;

    /// The replication of every block that this engine keeps.
    fn replication(&self) -> Replication;

    /// Where `holder` answers, if it is registered in `rows`.
    ///
    /// # Errors
    /// [`RowsError`] when the rows cannot be read.
    fn locate(&self, rows: &dyn Rows, holder: u32) -> Result<Option<Holder>, RowsError>;
}
