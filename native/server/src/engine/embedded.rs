//! The datanode in this process: one holder, one copy of every block.

use super::{BlockEngine, NoHolder};
use append_namespace::command::{Holder, Replication};
use append_namespace::read;
use append_namespace::rows::{Rows, RowsError};
use append_wire::hdds::{ReplicationFactor, ReplicationType};
use std::sync::atomic::{AtomicBool, Ordering};

/// One datanode that lives and dies with this process. It answers for as long as its store can promise something, which the store says
/// by itself: it is not probed.
#[derive(Debug)]
pub struct Embedded {
    number: u32,
    uuid: String,
    lives: AtomicBool,
}

impl Embedded {
    /// The engine of the datanode that the rows know by `number` and that calls itself `uuid`.
    #[must_use]
    pub fn new(number: u32, uuid: impl Into<String>) -> Embedded {
        Embedded {
            number,
            uuid: uuid.into(),
            lives: AtomicBool::new(true),
        }
    }

    /// The datanode's store has failed: nothing is placed there any more.
    pub fn failed(&self) {
        self.lives.store(false, Ordering::Release);
    }

    /// Whether blocks can be placed.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.lives.load(Ordering::Acquire)
    }
}

impl BlockEngine for Embedded {
    fn pick(&self, count: usize, exclude: &[String], _: &str) -> Result<Vec<u32>, NoHolder> {
        let excluded = exclude
            .iter()
            .any(|uuid| uuid.eq_ignore_ascii_case(&self.uuid));
        if excluded || !self.lives() {
            return Err(NoHolder { registered: 1 });
        }
        Ok(vec![self.number; count])
    }

    fn live(&self) -> usize {
        usize::from(self.lives())
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

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8c7de2b1-3f0a-4c1e-9d53-0123456789ab";

    #[test]
    fn every_block_goes_to_the_one_that_lives_and_is_not_excluded() {
        let engine = Embedded::new(3, UUID);
        assert_eq!(engine.pick(2, &[], ""), Ok(vec![3, 3]));
        assert_eq!(engine.pick(1, &["another".to_owned()], ""), Ok(vec![3]));
        assert_eq!(
            engine.pick(1, &[UUID.to_uppercase()], ""),
            Err(NoHolder { registered: 1 })
        );
        engine.failed();
        assert_eq!(engine.pick(1, &[], ""), Err(NoHolder { registered: 1 }));
    }
}
