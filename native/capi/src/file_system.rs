//! A connected file system: names and statuses, and opening streams.

use std::ffi::{c_char, c_int};

use append_client::blocking::{AppendOptions, FileSystem};
use append_client::write::Replication;
use append_client::{Config, CreateOptions};

use crate::call::{Bound, Fault, WaitArgs, bind_to_process, enter};
use crate::config::{ConfigHandle, settings};
use crate::entries::{self, EntriesHandle};
use crate::error::ErrorHandle;
use crate::handle::Handles;
use crate::memory::{Sized1, structure, text};
use crate::reader::{READERS, ReaderHandle, Reading};
use crate::writer::{WRITERS, WriterHandle};

static FILE_SYSTEMS: Handles<FileSystem, FsHandle> = Handles::new(5, "append_fs");

/// A connected file system. Thread-safe. Closed with append_fs_disconnect.
pub struct FsHandle {
    _opaque: [u8; 0],
}

/// How append_fs_create makes a file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CreateArgs {
    /// `sizeof(append_create_options)`.
    pub size: usize,
    /// Largest block in bytes; 0: by configuration. Servers may give smaller blocks.
    pub block_size: i64,
    /// Not 0: an existing file is replaced. 0: it is APPEND_KIND_ALREADY_EXISTS.
    pub overwrite: c_int,
    /// Not 0: missing parents are made, volume and bucket included. 0: that is APPEND_KIND_PARENT_NOT_FOUND.
    pub parents: c_int,
    /// Copies, 1 or 3; 0: the bucket's default, then the server's.
    pub replication: c_int,
}

// SAFETY: repr(C), starts with its size, integers only.
unsafe impl Sized1 for CreateArgs {
    const NAME: &'static str = "append_create_options";
}

/// How append_fs_append opens a file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AppendArgs {
    /// `sizeof(append_append_options)`.
    pub size: usize,
    /// Not 0: a missing file is made, with its parents. 0: it is APPEND_KIND_NOT_FOUND.
    pub create_if_missing: c_int,
}

// SAFETY: repr(C), starts with its size, integers only.
unsafe impl Sized1 for AppendArgs {
    const NAME: &'static str = "append_append_options";
}

/// What works at a path: bits of append_fs_capabilities.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Files can be appended to.
    Append = 1,
    /// append_writer_hflush works.
    Hflush = 2,
    /// append_writer_hsync works.
    Hsync = 4,
    /// A file whose writer died can be recovered by a call.
    LeaseRecovery = 8,
    /// A rename of a directory is one atomic step.
    AtomicRename = 16,
}

/// Connects. `address` is a URI ("ofs://host:port/", "ofs://service/", "o3fs://bucket.volume.host:port/", whose paths are below
/// that bucket), an authority ("host:port", "host", a service's name), or "": then the settings name the server. With a NULL
/// `config` the settings are those of append_config_from_environment; the caller keeps and frees his `config` in any case.
/// APPEND_KIND_CONNECT within the connect time-out when no server answers. The library's threads start here: after a fork only
/// the parent can go on. Closed with append_fs_disconnect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_connect(
    address: *const c_char,
    config: *const ConfigHandle,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut FsHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let address = text(address, "address")?;
            let bound = Bound::new(wait)?;
            let config = if config.is_null() {
                Config::from_environment()?
            } else {
                settings(config)?
            };
            bind_to_process();
            FILE_SYSTEMS.give(FileSystem::connect(address, config, &bound.wait())?)
        })
    }
}

/// Ends a connection: its open streams fail from then on, and their sessions end when their leases do, so close them first.
/// 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_disconnect(
    fs: *mut FsHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            FILE_SYSTEMS.take(fs)?.close();
            Ok(0)
        })
    }
}

/// What stands at a path: a set of exactly one entry, which the caller frees with append_entries_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_stat(
    fs: *mut FsHandle,
    path: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut EntriesHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            let status = fs.status(path, &bound.wait())?;
            entries::give(&[status], false)
        })
    }
}

/// One page of a directory's entries in the byte order of names, after the name `start_after` (NULL or "": from the first), at
/// most `max` (0: by configuration). A file is its own only entry. append_entries_more tells whether to go on. The caller frees
/// the result with append_entries_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_list(
    fs: *mut FsHandle,
    path: *const c_char,
    start_after: *const c_char,
    max: u32,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut EntriesHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let after = if start_after.is_null() {
                ""
            } else {
                text(start_after, "start_after")?
            };
            let bound = Bound::new(wait)?;
            let page = fs.list_page(path, after, max, &bound.wait())?;
            entries::give(&page.entries, page.more)
        })
    }
}

/// Makes a directory; an existing one is fine. "/volume" makes a volume, "/volume/bucket" a bucket. With `parents` not 0 missing
/// parents are made, volume and bucket included. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_mkdir(
    fs: *mut FsHandle,
    path: *const c_char,
    parents: c_int,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            fs.mkdirs(path, parents != 0, &bound.wait())?;
            Ok(0)
        })
    }
}

/// Renames a file or directory to exactly this name. A destination that exists is APPEND_KIND_ALREADY_EXISTS, another bucket
/// APPEND_KIND_UNSUPPORTED. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_rename(
    fs: *mut FsHandle,
    source: *const c_char,
    destination: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let source = text(source, "source")?;
            let destination = text(destination, "destination")?;
            let bound = Bound::new(wait)?;
            fs.rename(source, destination, &bound.wait())?;
            Ok(0)
        })
    }
}

/// Deletes a file, directory, bucket or volume. With `recursive` not 0 what is inside goes first; else a directory with entries
/// is APPEND_KIND_DIRECTORY_NOT_EMPTY. 0, or -1; nothing at the path is APPEND_KIND_NOT_FOUND.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_delete(
    fs: *mut FsHandle,
    path: *const c_char,
    recursive: c_int,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            if fs.delete(path, recursive != 0, &bound.wait())? {
                Ok(0)
            } else {
                Err(Fault::NothingThere(path.to_owned()))
            }
        })
    }
}

/// Sets times in milliseconds since 1970; a negative one stays as it is. Ozone keeps no access time. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_set_times(
    fs: *mut FsHandle,
    path: *const c_char,
    modified_ms: i64,
    accessed_ms: i64,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            let modified = u64::try_from(modified_ms).ok();
            let accessed = u64::try_from(accessed_ms).ok();
            fs.set_times(path, modified, accessed, &bound.wait())?;
            Ok(0)
        })
    }
}

/// What works at a path, whether or not something stands there: a sum of `append_capability`, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_capabilities(
    fs: *mut FsHandle,
    path: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            let all = fs.capabilities(path, &bound.wait())?;
            Ok([
                (all.append, Capability::Append),
                (all.hflush, Capability::Hflush),
                (all.hsync, Capability::Hsync),
                (all.lease_recovery, Capability::LeaseRecovery),
                (all.atomic_rename, Capability::AtomicRename),
            ]
            .into_iter()
            .filter(|(works, _)| *works)
            .map(|(_, capability)| capability as c_int)
            .sum())
        })
    }
}

/// Recovers a file whose writer died, at the length that its writer had synced or more; a file that is closed is left alone. 1: it is
/// closed now. -1: it is not; APPEND_KIND_CONFLICT while the lease of its writer runs (append_error_retry_after_ms tells for how
/// long), APPEND_KIND_RECOVERING if a datanode could not be asked: call again. A writer of this connection is not waited for: its
/// stream is over then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_recover_lease(
    fs: *mut FsHandle,
    path: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            Ok(c_int::from(fs.recover_lease(path, &bound.wait())?))
        })
    }
}

/// Whether nobody writes to a file: no append session, none that is being recovered, and no writer that has synced. 1: it is closed,
/// 0: it is not, -1: failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_is_file_closed(
    fs: *mut FsHandle,
    path: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            Ok(c_int::from(fs.is_file_closed(path, &bound.wait())?))
        })
    }
}

/// Opens a file for reading, at the length that it has now. Closed with append_reader_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_open(
    fs: *mut FsHandle,
    path: *const c_char,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut ReaderHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let bound = Bound::new(wait)?;
            READERS.give(Reading::new(fs.open(path, &bound.wait())?))
        })
    }
}

/// Creates a file and opens it for writing. With NULL `options` an existing file is replaced and missing parents are made. On a
/// server that can append the file is visible at once. APPEND_KIND_CONFLICT while an append owns the file. Closed with
/// append_writer_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_create(
    fs: *mut FsHandle,
    path: *const c_char,
    options: *const CreateArgs,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut WriterHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let options = structure(options)?.map_or_else(
                || Ok(CreateOptions::default()),
                |options| create_options(&options),
            )?;
            let bound = Bound::new(wait)?;
            WRITERS.give(fs.create(path, &options, &bound.wait())?)
        })
    }
}

fn create_options(options: &CreateArgs) -> Result<CreateOptions, Fault> {
    let bad = |text: String| Fault::Argument(format!("{}: {text}", CreateArgs::NAME));
    Ok(CreateOptions {
        overwrite: options.overwrite != 0,
        recursive: options.parents != 0,
        replication: match options.replication {
            0 => None,
            1 => Some(Replication::One),
            3 => Some(Replication::Three),
            other => return Err(bad(format!("replication is {other}, wanted 0, 1 or 3"))),
        },
        block_size: match u64::try_from(options.block_size) {
            Ok(0) => None,
            Ok(bytes) => Some(bytes),
            Err(_) => return Err(bad(String::from("block_size must not be negative"))),
        },
    })
}

/// Opens a file for append: the stream starts at the file's end. With NULL `options` a missing file is APPEND_KIND_NOT_FOUND. While an
/// append session of another client has the file, the call waits, as long as the server gives that session, and then recovers the
/// file; `wait` can only shorten this. APPEND_KIND_CONFLICT if the other writer lives, at once if it is of this connection:
/// append_error_holder tells which and append_error_retry_after_ms for how long at most; APPEND_KIND_RECOVERING if the recovery
/// did not end in time; APPEND_KIND_UNSUPPORTED where nobody can append. After a failure no session of this call is left. Closed with
/// append_writer_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_fs_append(
    fs: *mut FsHandle,
    path: *const c_char,
    options: *const AppendArgs,
    wait: *const WaitArgs,
    error: *mut *mut ErrorHandle,
) -> *mut WriterHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let fs = FILE_SYSTEMS.get(fs)?;
            let path = text(path, "path")?;
            let options = AppendOptions {
                create_if_missing: structure(options)?
                    .is_some_and(|options| options.create_if_missing != 0),
                ..AppendOptions::default()
            };
            let bound = Bound::new(wait)?;
            WRITERS.give(fs.append(path, &options, &bound.wait())?)
        })
    }
}
