//! Settings, before they are handed to a connect.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use append_client::Config;

use crate::call::enter;
use crate::error::ErrorHandle;
use crate::handle::Handles;
use crate::memory::text;

static CONFIGS: Handles<Mutex<Config>, ConfigHandle> = Handles::new(3, "append_config");

/// Settings under Ozone's and Hadoop's key names. Connecting copies them, so that they can be changed, used again and freed at any
/// time. Freed with append_config_free.
pub struct ConfigHandle {
    _opaque: [u8; 0],
}

/// A copy of the settings of a handle.
pub(crate) fn settings(config: *const ConfigHandle) -> Result<Config, crate::call::Fault> {
    let config = CONFIGS.get(config)?;
    let config = config.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(config.clone())
}

/// No settings: every key has its default. The caller frees it with append_config_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_new(error: *mut *mut ErrorHandle) -> *mut ConfigHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe { enter(error, || CONFIGS.give(Mutex::new(Config::empty()))) }
}

/// The settings of core-site.xml and ozone-site.xml in $HADOOP_CONF_DIR, else in $HADOOP_HOME/etc/hadoop. Without such a variable,
/// folder or file: no settings. A malformed file is APPEND_KIND_INVALID_ARGUMENT, and the text names it. The caller frees the
/// result with append_config_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_from_environment(
    error: *mut *mut ErrorHandle,
) -> *mut ConfigHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            CONFIGS.give(Mutex::new(Config::from_environment()?))
        })
    }
}

/// As append_config_from_environment, from this folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_from_directory(
    directory: *const c_char,
    error: *mut *mut ErrorHandle,
) -> *mut ConfigHandle {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let directory = text(directory, "directory")?;
            let config = Config::from_directory(Path::new(directory))?;
            CONFIGS.give(Mutex::new(config))
        })
    }
}

/// Sets a key. Values are read when something connects, and a malformed one fails there. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_set(
    config: *mut ConfigHandle,
    key: *const c_char,
    value: *const c_char,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let config = CONFIGS.get(config)?;
            let key = text(key, "key")?;
            let value = text(value, "value")?;
            let mut config = config.lock().unwrap_or_else(PoisonError::into_inner);
            config.set(key, value);
            Ok(0)
        })
    }
}

/// Sets the user whom servers see. Without it: $HADOOP_USER_NAME, else the user of the process. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_set_user(
    config: *mut ConfigHandle,
    user: *const c_char,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            let config = CONFIGS.get(config)?;
            let user = text(user, "user")?;
            let mut config = config.lock().unwrap_or_else(PoisonError::into_inner);
            *config = config.clone().with_user(user);
            Ok(0)
        })
    }
}

/// Frees settings. Connections that were made with them keep their copy. 0, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn append_config_free(
    config: *mut ConfigHandle,
    error: *mut *mut ErrorHandle,
) -> c_int {
    // SAFETY: the caller keeps the header's rules for pointers.
    unsafe {
        enter(error, || {
            CONFIGS.take(config)?;
            Ok(0)
        })
    }
}
