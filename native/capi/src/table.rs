//! Tables of shared values by number: the tag of the table, the generation of a slot, the slot.
//!
//! A number whose value was removed stays refused, whatever its slot holds now. Nothing here knows C or the client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles need pointers of 64 bits");

const SLOT_BITS: u32 = 32;
const GENERATION_BITS: u32 = 28;
const LAST_GENERATION: u32 = (1 << GENERATION_BITS) - 1;

/// Handles of all tables that are not closed.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// How many handles of all types are given out and not closed.
pub(crate) fn alive() -> usize {
    ALIVE.load(Ordering::Relaxed)
}

/// Why a handle names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is null.
    Null,
    /// It was given out once, and its value was removed.
    Closed,
    /// It was never given out by this table.
    Foreign,
}

struct Slot<T> {
    /// Of the present value, or of the next one while the slot is free. Starts at 1.
    generation: u32,
    value: Option<Arc<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// Values by handle, one table for each type of handle. Thread-safe.
pub(crate) struct Table<T> {
    tag: u8,
    inner: Mutex<Slots<T>>,
}

impl<T> Table<T> {
    /// A table whose handles carry this tag, 1 to 15; no two tables may share one.
    pub(crate) const fn new(tag: u8) -> Table<T> {
        assert!(tag > 0 && tag < 16);
        Table {
            tag,
            inner: Mutex::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Slots<T>> {
        // No code that can panic runs between two changes of the table.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value and returns its handle; `None` once the table holds 2^32 values.
    pub(crate) fn insert(&self, value: T) -> Option<usize> {
        let mut table = self.locked();
        let slot = match table.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(table.slots.len()).ok()?;
                table.slots.push(Slot {
                    generation: 1,
                    value: None,
                });
                slot
            }
        };
        let entry = table.slots.get_mut(usize::try_from(slot).ok()?)?;
        entry.value = Some(Arc::new(value));
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Some(join(self.tag, entry.generation, slot))
    }

    /// The value of a handle.
    pub(crate) fn get(&self, handle: usize) -> Result<Arc<T>, Missing> {
        let (generation, slot) = self.split(handle)?;
        let table = self.locked();
        let entry = table.slots.get(slot).ok_or(Missing::Foreign)?;
        match &entry.value {
            Some(value) if entry.generation == generation => Ok(Arc::clone(value)),
            _ => Err(absent(entry, generation)),
        }
    }

    /// Takes the value out; the handle is closed from now on.
    pub(crate) fn remove(&self, handle: usize) -> Result<Arc<T>, Missing> {
        let (generation, slot) = self.split(handle)?;
        let mut table = self.locked();
        let entry = table.slots.get_mut(slot).ok_or(Missing::Foreign)?;
        if entry.generation != generation {
            return Err(absent(entry, generation));
        }
        let Some(value) = entry.value.take() else {
            return Err(absent(entry, generation));
        };
        entry.generation += 1;
        // A slot whose generations are used up is never used again.
        if entry.generation <= LAST_GENERATION
            && let Ok(slot) = u32::try_from(slot)
        {
            table.free.push(slot);
        }
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        Ok(value)
    }

    fn split(&self, handle: usize) -> Result<(u32, usize), Missing> {
        if handle == 0 {
            return Err(Missing::Null);
        }
        let tag = handle >> (SLOT_BITS + GENERATION_BITS);
        if tag != usize::from(self.tag) {
            return Err(Missing::Foreign);
        }
        let generation = u32::try_from((handle >> SLOT_BITS) & low(GENERATION_BITS))
            .map_err(|_| Missing::Foreign)?;
        Ok((generation, handle & low(SLOT_BITS)))
    }
}

const fn low(bits: u32) -> usize {
    (1 << bits) - 1
}

/// Number of a handle: tag above generation above slot. Never 0, as no tag is.
pub(crate) const fn join(tag: u8, generation: u32, slot: u32) -> usize {
    ((tag as usize) << (SLOT_BITS + GENERATION_BITS))
        | ((generation as usize) << SLOT_BITS)
        | slot as usize
}

fn absent<T>(entry: &Slot<T>, generation: u32) -> Missing {
    if generation > 0 && generation < entry.generation {
        Missing::Closed
    } else {
        Missing::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_refused_after_its_slot_is_used_again() {
        let table = Table::new(3);
        let first = table.insert("first").unwrap();
        assert_eq!(table.get(first).as_deref(), Ok(&"first"));
        assert_eq!(table.remove(first).as_deref(), Ok(&"first"));
        assert_eq!(table.remove(first), Err(Missing::Closed));
        let second = table.insert("second").unwrap();
        assert_eq!(
            first & low(SLOT_BITS),
            second & low(SLOT_BITS),
            "the slot was not used again"
        );
        assert_eq!(table.get(first), Err(Missing::Closed));
        assert_eq!(table.remove(first), Err(Missing::Closed));
        assert_eq!(table.get(second).as_deref(), Ok(&"second"));
    }

    #[test]
    fn numbers_that_were_never_given_out_are_refused() {
        let table = Table::new(3);
        let other = Table::new(4);
        let real = table.insert(1).unwrap();
        assert_eq!(table.get(0), Err(Missing::Null));
        assert_eq!(table.remove(0), Err(Missing::Null));
        for wrong in [
            1,
            usize::MAX,
            real + 1,
            real + (1 << SLOT_BITS),
            real & low(SLOT_BITS + GENERATION_BITS),
            other.insert(1).unwrap(),
            join(3, 0, 0),
        ] {
            assert_eq!(table.get(wrong), Err(Missing::Foreign), "{wrong:#x}");
            assert_eq!(table.remove(wrong), Err(Missing::Foreign), "{wrong:#x}");
        }
        assert!(table.get(real).is_ok());
    }

    #[test]
    fn a_slot_ends_with_its_last_generation() {
        let table = Table::new(1);
        table.remove(table.insert(1).unwrap()).unwrap();
        table.locked().slots[0].generation = LAST_GENERATION;
        let last = table.insert(2).unwrap();
        assert_eq!(table.remove(last).as_deref(), Ok(&2));
        assert_eq!(table.get(last), Err(Missing::Closed));
        let next = table.insert(3).unwrap();
        assert_eq!(next & low(SLOT_BITS), 1);
    }

    #[test]
    fn a_value_in_use_outlives_its_handle() {
        let table = Table::new(1);
        let handle = table.insert(String::from("busy")).unwrap();
        let used = table.get(handle).unwrap();
        drop(table.remove(handle));
        assert_eq!(*used, "busy");
    }
}
