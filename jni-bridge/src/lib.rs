//! The library that `io.libappend.fs.Native` loads: marshalling between Java and [`append_client::blocking`], and nothing else.
//!
//! Java holds longs from generation-checked tables, never pointers. Every function catches panics, turns faults into the
//! exceptions of one table, and ends when the calling thread is interrupted. What each function does is said at its
//! declaration in Java.

mod entry;
mod exception;
mod file_system;
mod memory;
mod registry;
mod status_page;
mod streams;

use append_client::blocking::{FileSystem, Reader, WriteStream};
use jni::EnvUnowned;
use jni::objects::JClass;
use jni::sys::{jboolean, jint};

use crate::entry::{Fault, enter};
use crate::exception::Expects;
use crate::registry::Registry;

/// What `Native.INTERFACE_VERSION` must be: grows when a function's name, arguments or meaning changes.
const INTERFACE_VERSION: jint = 2;

static FILE_SYSTEMS: Registry<FileSystem> = Registry::new();
static INPUTS: Registry<Reader> = Registry::new();
static OUTPUTS: Registry<WriteStream> = Registry::new();

/// `int interfaceVersion()`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_interfaceVersion<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> jint {
    enter(env, Expects::Anything, |_| Ok(INTERFACE_VERSION))
}

/// `boolean throwRow(int row)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_throwRow<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    row: jint,
) -> jboolean {
    enter(env, Expects::Anything, |_| {
        match usize::try_from(row)
            .ok()
            .and_then(|row| exception::TABLE.get(row))
        {
            Some((_, exception)) => Err(Fault::Row(exception)),
            None => Ok(false),
        }
    })
}
