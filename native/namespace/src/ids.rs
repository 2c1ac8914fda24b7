//! Identities that the state machine assigns: `epoch | command number | ordinal`.
//!
//! Nothing here draws an id at random: an id is a function of the place of its command in the history, so a replay gives the same.

/// Ids of objects, sessions and embedded blocks. Never zero, and positive as a signed 64-bit number.
pub type Id = u64;

/// Bits of the ordinal: what one command may make.
pub const ORDINAL_BITS: u32 = 12;
/// Bits of the command number.
pub const COMMAND_BITS: u32 = 44;

/// The last epoch that an id can hold.
pub const MAX_EPOCH: u8 = 0x7f;

/// Gives the ids of one command, in order.
#[derive(Debug, Clone)]
pub struct IdSource {
    base: Id,
    next: u64,
}

/// One command asked for more ids than the ordinal can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one command may make at most {} objects", (1u64 << ORDINAL_BITS) - 1)]
pub struct OutOfIds;

impl IdSource {
    /// The ids of command `number` in `epoch` (at most [`MAX_EPOCH`]).
    #[must_use]
    pub fn new(epoch: u8, number: u64) -> IdSource {
        let epoch = u64::from(epoch & MAX_EPOCH) << (COMMAND_BITS + ORDINAL_BITS);
        let number = (number & ((1 << COMMAND_BITS) - 1)) << ORDINAL_BITS;
        IdSource {
            base: epoch | number,
            next: 1,
        }
    }

    /// What all ids of this command share: greater than the ids of every earlier command. Names content generations.
    #[must_use]
    pub fn base(&self) -> Id {
        self.base
    }

    /// The next id of this command.
    ///
    /// # Errors
    /// [`OutOfIds`] when the command made 4,095 already.
    pub fn draw(&mut self) -> Result<Id, OutOfIds> {
        if self.next >> ORDINAL_BITS != 0 {
            return Err(OutOfIds);
        }
        let id = self.base | self.next;
        self.next += 1;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_between_commands_and_ordinals_and_stay_positive() {
        let mut first = IdSource::new(0x7f, 1);
        let mut second = IdSource::new(0x7f, 2);
        let ids = [
            first.draw().unwrap(),
            first.draw().unwrap(),
            second.draw().unwrap(),
        ];
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| i64::try_from(*id).is_ok()));
    }

    #[test]
    fn a_command_that_makes_too_much_is_refused() {
        let mut source = IdSource::new(0, 7);
        for _ in 0..(1 << ORDINAL_BITS) - 1 {
            source.draw().unwrap();
        }
        assert_eq!(source.draw(), Err(OutOfIds));
    }
}
