//! The table behind the handles that Java holds: longs checked against a slot and its generation, never pointers.
//!
//! A handle that was closed stays refused, whatever its slot holds now. Nothing here knows Java or the client.

use std::sync::{Arc, Mutex, PoisonError};

/// Handles are this crate's own numbers: 31 bits of generation above 32 bits of slot, so always positive.
const SLOT_BITS: u32 = 32;
const LAST_GENERATION: u32 = (1 << 31) - 1;

struct Slot<T> {
    /// Of the present value, or of the next one while the slot is free. Starts at 1, so that 0 is never a handle.
    generation: u32,
    value: Option<Arc<T>>,
}

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// Values by handle. Thread-safe: a value taken out by [`get`](Self::get) lives on until its user drops it, even if the
/// handle is removed meanwhile.
pub(crate) struct Registry<T> {
    inner: Mutex<Slots<T>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self {
            inner: Mutex::new(Slots {
                slots: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Slots<T>> {
        // No code that can panic runs between two changes of the table.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value and returns its handle; `None` once the table holds 2^32 values.
    pub(crate) fn insert(&self, value: T) -> Option<i64> {
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
        Some((i64::from(entry.generation) << SLOT_BITS) | i64::from(slot))
    }

    /// The value of a handle, unless it was removed or never given out.
    pub(crate) fn get(&self, handle: i64) -> Option<Arc<T>> {
        let (slot, generation) = split(handle)?;
        let table = self.locked();
        let entry = table.slots.get(slot)?;
        if entry.generation == generation {
            entry.value.clone()
        } else {
            None
        }
    }

    /// Takes the value out; the handle is refused from now on.
    pub(crate) fn remove(&self, handle: i64) -> Option<Arc<T>> {
        let (slot, generation) = split(handle)?;
        let mut table = self.locked();
        let entry = table.slots.get_mut(slot)?;
        if entry.generation != generation {
            return None;
        }
        let value = entry.value.take()?;
        // A slot whose generations are used up is never used again.
        if generation < LAST_GENERATION {
            entry.generation += 1;
            table.free.push(u32::try_from(slot).ok()?);
        }
        Some(value)
    }
}

fn split(handle: i64) -> Option<(usize, u32)> {
    let bits = u64::try_from(handle).ok()?;
    let slot = usize::try_from(bits & u64::from(u32::MAX)).ok()?;
    let generation = u32::try_from(bits >> SLOT_BITS).ok()?;
    Some((slot, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_refused_after_its_slot_is_used_again() {
        let table = Registry::new();
        let first = table.insert("first").unwrap();
        assert!(first > 0);
        assert_eq!(table.get(first).as_deref(), Some(&"first"));
        assert_eq!(table.remove(first).as_deref(), Some(&"first"));
        assert!(table.remove(first).is_none());
        let second = table.insert("second").unwrap();
        assert_eq!(
            first & i64::from(u32::MAX),
            second & i64::from(u32::MAX),
            "the slot was not used again"
        );
        assert!(table.get(first).is_none());
        assert!(table.remove(first).is_none());
        assert_eq!(table.get(second).as_deref(), Some(&"second"));
    }

    #[test]
    fn numbers_that_were_never_given_out_are_refused() {
        let table = Registry::new();
        let real = table.insert(1).unwrap();
        for wrong in [
            0,
            -1,
            i64::MIN,
            i64::MAX,
            real + 1,
            real + (1 << SLOT_BITS),
            real & i64::from(u32::MAX),
        ] {
            assert!(table.get(wrong).is_none(), "{wrong:#x}");
            assert!(table.remove(wrong).is_none(), "{wrong:#x}");
        }
        assert!(table.get(real).is_some());
    }

    #[test]
    fn a_slot_ends_with_its_last_generation() {
        let table = Registry::new();
        let first = table.insert(1).unwrap();
        table.remove(first);
        table.locked().slots[0].generation = LAST_GENERATION;
        let last = table.insert(2).unwrap();
        assert!(last > 0);
        table.remove(last);
        let next = table.insert(3).unwrap();
        assert_eq!(next & i64::from(u32::MAX), 1);
    }

    #[test]
    fn a_value_in_use_outlives_its_handle() {
        let table = Registry::new();
        let handle = table.insert(String::from("busy")).unwrap();
        let used = table.get(handle).unwrap();
        drop(table.remove(handle));
        assert_eq!(*used, "busy");
    }
}
