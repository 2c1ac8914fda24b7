//! No datanode: a server of a group for which none were named keeps names and takes no bytes.

use crate::engine::{BlockEngine, NoHolder};
use append_namespace::command::{Holder, Replication};
use append_namespace::read;
use append_namespace::rows::{Rows, RowsError};
use append_wire::hdds::{ReplicationFactor, ReplicationType};

/// See the module.
pub(super) struct Absent;

impl BlockEngine for Absent {
    fn pick(&self, _count: usize, _exclude: &[String], _place: &str) -> Result<Vec<u32>, NoHolder> {
        Err(NoHolder { registered: 0 })
    }

    fn live(&self) -> usize {
        0
    }

    fn replication(&self) -> Replication {
        Replication {
            kind: ReplicationType::StandAlone.into(),
            factor: ReplicationFactor::One.into(),
        }
    }

    fn locate(&self, rows: &dyn Rows, holder: u32) -> Result<Option<Holder>, RowsError> {
        read::holder(rows, holder)
    }
}
