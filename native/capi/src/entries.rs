//! What stat and list tell: a set of entries that C reads through pointers into it.

use std::ffi::{CString, c_char, c_int};

use append_client::FileStatus;

use crate::call::{Fault, enter};
use crate::error::ErrorHandle;
use crate::handle::Handles;
use crate::holder::{Holder, HolderView};
use crate::memory::{c_text, signed};

static ENTRIES: Handles<Entries, EntriesHandle> = Handles::new(4, "append_entries");

/// Files and directories that append_fs_stat or append_fs_list found. It changes no more, may be read by several threads, and is
/// freed with append_entries_free.
pub struct EntriesHandle {
    _opaque: [u8; 0],
}

/// Bits of `flags` of `append_entry`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryFlag {
    /// A directory, bucket, volume or the root.
    Directory = 1,
    /// The content is encrypted.
    Encrypted = 2,
    /// The content is erasure coded.
    ErasureCoded = 4,
}

/// A file or directory. It belongs to its append_entries and lives as long; later versions may add members at its end. Times are
/// milliseconds since 1970.
#[repr(C)]
#[derive(Debug)]
pub struct EntryView {
    /// Where it stands: /volume/bucket/key. Never NULL.
    pub path: *const c_char,
    /// Last component of the path, empty for the root. Never NULL.
    pub name: *const c_char,
    /// Owner, empty if the server does not say. Never NULL.
    pub owner: *const c_char,
    /// The writer that holds it, as far as the server says; NULL if there is none.
    pub holder: *const HolderView,
    /// Published length in bytes; 0 for a directory.
    pub length: i64,
    /// Bytes of one block; 0 for a directory.
    pub block_size: i64,
    /// Data last changed.
    pub modified_ms: i64,
    /// Last read, as far as anybody counts: Ozone does not, so it is the modification time.
    pub accessed_ms: i64,
    /// Identity of the object, which stays over renames; 0 if the server does not say.
    pub object_id: u64,
    /// Copies that are kept of the data; 0 for a directory.
    pub replication: c_int,
    /// Sum of `append_entry_flag`.
    pub flags: c_int,
}

struct Entry {
    view: EntryView,
    _texts: [CString; 3],
    _holder: Option<Box<Holder>>,
}

// SAFETY: the view's pointers lead to memory that the same value owns and nobody changes; moving it does not move that memory.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

/// The set behind a handle.
pub(crate) struct Entries {
    entries: Vec<Entry>,
    more: bool,
}

impl Entry {
    fn new(status: &FileStatus) -> Entry {
        let texts = [
            c_text(&status.path.to_string()),
            c_text(status.name()),
            c_text(&status.owner),
        ];
        let holder = status
            .writer
            .as_ref()
            .map(|writer| Box::new(Holder::new(writer)));
        let mut flags = 0;
        for (set, flag) in [
            (status.directory, EntryFlag::Directory),
            (status.encrypted, EntryFlag::Encrypted),
            (status.erasure_coded, EntryFlag::ErasureCoded),
        ] {
            if set {
                flags |= flag as c_int;
            }
        }
        let [path, name, owner] = &texts;
        Entry {
            view: EntryView {
                path: path.as_ptr(),
                name: name.as_ptr(),
                owner: owner.as_ptr(),
                holder: holder
                    .as_ref()
                    .map_or(std::ptr::null(), |holder| std::ptr::from_ref(holder.view())),
                length: signed(status.length),
                block_size: signed(status.block_size),
                modified_ms: signed(status.modified_ms),
                accessed_ms: signed(status.accessed_ms),
                object_id: status.object_id,
                replication: c_int::from(status.replication),
                flags,
            },
            _texts: texts,
            _holder: holder,
        }
    }
}

/// Gives entries to C.
pub(crate) fn give(statuses: &[FileStatus], more: bool) -> Result<*mut EntriesHandle, Fault> {
    ENTRIES.give(Entries {
        entries: statuses.iter().map(Entry::new).collect(),
        more,
    })
}

/// How many entries there are, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_entries_count(
    entries: *const EntriesHandle,
    error: *mut *mut ErrorHandle,
) -> i64 {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let entries = ENTRIES.get(entries)?;
            Ok(i64::try_from(entries.entries.len()).unwrap_or(i64::MAX))
        })
    }
}

/// The entry with this index, from 0. It belongs to `entries` and lives as long. NULL for an index out of range (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_entries_at(
    entries: *const EntriesHandle,
    index: i64,
    error: *mut *mut ErrorHandle,
) -> *const EntryView {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let entries = ENTRIES.get(entries)?;
            let entry = usize::try_from(index)
                .ok()
                .and_then(|index| entries.entries.get(index))
                .ok_or_else(|| Fault::Argument(format!("there is no entry {index}")))?;
            Ok(std::ptr::from_ref(&entry.view))
        })
    }
}

/// 1 if another page may follow: list again after the name of the last entry. 0 if not, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_entries_more(
    entries: *const EntriesHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let entries = ENTRIES.get(entries)?;
            Ok(c_int::from(entries.more))
        })
    }
}

/// Frees entries, with every append_entry in them. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_entries_free(
    entries: *mut EntriesHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            ENTRIES.take(entries)?;
            Ok(0)
        })
    }
}
