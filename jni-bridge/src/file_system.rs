//! Native functions of a file system: names and statuses, and opening streams.

use append_client::blocking::{AppendOptions, FileSystem};
use append_client::write::Replication;
use append_client::{Config, CreateOptions, FileStatus};
use jni::objects::{JByteArray, JClass, JString};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned};
use std::sync::Arc;

use crate::entry::{Fault, enter, interruptible};
use crate::exception::Expects;
use crate::status_page::{Entry, IS_DIRECTORY, IS_ENCRYPTED, IS_ERASURE_CODED, encode};
use crate::{FILE_SYSTEMS, INPUTS, OUTPUTS};

fn file_system(handle: jlong) -> Result<Arc<FileSystem>, Fault> {
    FILE_SYSTEMS
        .get(handle)
        .ok_or(Fault::Closed("the file system"))
}

fn text(env: &Env<'_>, text: &JString<'_>) -> Result<String, Fault> {
    Ok(text.try_to_string(env)?)
}

/// `long connect(String authority, String user, String settings)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_connect<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    authority: JString<'local>,
    user: JString<'local>,
    settings: JString<'local>,
) -> jlong {
    enter(env, Expects::Anything, |env| {
        let authority = text(env, &authority)?;
        let mut config = Config::empty().with_user(text(env, &user)?);
        let settings = text(env, &settings)?;
        let mut parts = settings.split_terminator('\0');
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            config.set(key, value);
        }
        let made = interruptible(env, |wait| FileSystem::connect(&authority, config, wait))?;
        FILE_SYSTEMS.insert(made).ok_or(Fault::Handles)
    })
}

/// `void closeFileSystem(long fileSystem)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_closeFileSystem<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Anything, |_| {
        if let Some(closed) = FILE_SYSTEMS.remove(handle) {
            closed.close();
        }
        Ok(())
    });
}

/// `byte[] status(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_status<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> JByteArray<'local> {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let status = interruptible(env, |wait| fs.status(&path, wait))?;
        let page = encode(false, std::iter::once(entry(&status, "")))?;
        Ok(env.byte_array_from_slice(&page)?)
    })
}

/// `byte[] list(long fileSystem, String path, String startAfter)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_list<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
    start_after: JString<'local>,
) -> JByteArray<'local> {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let after = text(env, &start_after)?;
        let page = interruptible(env, |wait| fs.list_page(&path, &after, 0, wait))?;
        let listed = fs.resolve(&path)?;
        let entries = page.entries.iter().map(|status| {
            let name = if status.path == listed {
                ""
            } else {
                status.name()
            };
            entry(status, name)
        });
        let page = encode(page.more, entries)?;
        Ok(env.byte_array_from_slice(&page)?)
    })
}

fn entry<'a>(status: &'a FileStatus, name: &'a str) -> Entry<'a> {
    let mut bits = 0;
    for (set, bit) in [
        (status.directory, IS_DIRECTORY),
        (status.encrypted, IS_ENCRYPTED),
        (status.erasure_coded, IS_ERASURE_CODED),
    ] {
        if set {
            bits |= bit;
        }
    }
    Entry {
        bits,
        length: status.length,
        block_size: status.block_size,
        modified: i64::try_from(status.modified_ms).unwrap_or(i64::MAX),
        accessed: i64::try_from(status.accessed_ms).unwrap_or(i64::MAX),
        replication: i16::try_from(status.replication).unwrap_or(i16::MAX),
        permission: -1,
        name,
        owner: &status.owner,
        // Ozone keeps no group; its own file system shows the owner here.
        group: &status.owner,
    }
}

/// `void mkdirs(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_mkdirs<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) {
    enter(env, Expects::Anything, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        interruptible(env, |wait| fs.mkdirs(&path, true, wait))
    });
}

/// `boolean delete(long fileSystem, String path, boolean recursive)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_delete<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
    recursive: jboolean,
) -> jboolean {
    enter(env, Expects::Anything, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        interruptible(env, |wait| fs.delete(&path, recursive, wait))
    })
}

/// `boolean rename(long fileSystem, String source, String destination)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_rename<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    source: JString<'local>,
    destination: JString<'local>,
) -> jboolean {
    use append_client::status::RenameOutcome;
    enter(env, Expects::Anything, |env| {
        let fs = file_system(handle)?;
        let source = text(env, &source)?;
        let destination = text(env, &destination)?;
        let outcome = interruptible(env, |wait| fs.rename_into(&source, &destination, wait))?;
        Ok(matches!(
            outcome,
            RenameOutcome::Done | RenameOutcome::SameFile
        ))
    })
}

/// `void setTimes(long fileSystem, String path, long modified, long accessed)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_setTimes<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
    modified: jlong,
    accessed: jlong,
) {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let modified = u64::try_from(modified).ok();
        let accessed = u64::try_from(accessed).ok();
        interruptible(env, |wait| fs.set_times(&path, modified, accessed, wait))
    });
}

/// `boolean canAppend(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_canAppend<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jboolean {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        Ok(interruptible(env, |wait| fs.capabilities(&path, wait))?.append)
    })
}

/// `boolean canRecoverLease(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_canRecoverLease<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jboolean {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        Ok(interruptible(env, |wait| fs.capabilities(&path, wait))?.lease_recovery)
    })
}

/// `boolean recoverLease(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_recoverLease<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jboolean {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        interruptible(env, |wait| fs.recover_lease(&path, wait))
    })
}

/// `boolean isFileClosed(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_isFileClosed<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jboolean {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        interruptible(env, |wait| fs.is_file_closed(&path, wait))
    })
}

/// `long open(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_open<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jlong {
    enter(env, Expects::Existing, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let reader = interruptible(env, |wait| fs.open(&path, wait))?;
        INPUTS.insert(reader).ok_or(Fault::Handles)
    })
}

/// `long create(long fileSystem, String path, boolean overwrite, boolean parents, int replication)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_create<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
    overwrite: jboolean,
    parents: jboolean,
    replication: jint,
) -> jlong {
    enter(env, Expects::Anything, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let replication = match replication {
            0 => None,
            1 => Some(Replication::One),
            3 => Some(Replication::Three),
            other => {
                return Err(Fault::Misuse(format!(
                    "{path}: replication {other} is not supported, only 1 and 3"
                )));
            }
        };
        let options = CreateOptions {
            overwrite,
            recursive: parents,
            replication,
            block_size: None,
        };
        let stream = interruptible(env, |wait| fs.create(&path, &options, wait))?;
        OUTPUTS.insert(stream).ok_or(Fault::Handles)
    })
}

/// `long append(long fileSystem, String path)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_append<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    path: JString<'local>,
) -> jlong {
    enter(env, Expects::Anything, |env| {
        let fs = file_system(handle)?;
        let path = text(env, &path)?;
        let options = AppendOptions {
            new_block: true,
            create_if_missing: false,
        };
        let stream = interruptible(env, |wait| fs.append(&path, &options, wait))?;
        OUTPUTS.insert(stream).ok_or(Fault::Handles)
    })
}
