//! Native functions of input and output streams.

use std::sync::Arc;
use std::time::Duration;

use append_client::blocking::{Reader, WriteStream};
use jni::EnvUnowned;
use jni::objects::{JByteArray, JByteBuffer, JClass};
use jni::sys::{jint, jlong};

use crate::entry::{Fault, enter, interruptible, interruptible_with};
use crate::exception::Expects;
use crate::memory::{array_range, copy_in, copy_out, with_direct, with_direct_mut};
use crate::{INPUTS, OUTPUTS};

/// Most bytes that one read of an array brings: it bounds the memory between file and array. Java asks again.
const READ_AT_MOST: usize = 4 << 20;

/// How long the server may take to hear that a stream was abandoned; after that its lease ends it.
const ABANDON_WITHIN: Duration = Duration::from_secs(1);

/// Trait of an output stream: hflush and hsync work. `Native.OUTPUT_CAN_SYNC`.
const CAN_SYNC: jint = 1;

fn input(handle: jlong) -> Result<Arc<Reader>, Fault> {
    INPUTS.get(handle).ok_or(Fault::Closed("the input stream"))
}

fn output(handle: jlong) -> Result<Arc<WriteStream>, Fault> {
    OUTPUTS
        .get(handle)
        .ok_or(Fault::Closed("the output stream"))
}

fn position(value: jlong) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|_| Fault::Misuse(String::from("negative position")))
}

fn java_long(value: u64) -> Result<jlong, Fault> {
    jlong::try_from(value)
        .map_err(|_| Fault::Misuse(String::from("the file is longer than Java can say")))
}

/// What Java's read returns: -1 for nothing at the end.
fn read_result(got: usize, wanted: usize) -> Result<jint, Fault> {
    if got == 0 && wanted > 0 {
        return Ok(-1);
    }
    jint::try_from(got).map_err(|_| Fault::Misuse(String::from("more bytes than an int can say")))
}

/// `long inputLength(long input)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_inputLength<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jlong {
    enter(env, Expects::Existing, |_| java_long(input(handle)?.len()))
}

/// `int readArray(long input, long position, byte[] target, int offset, int length)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_readArray<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    from: jlong,
    target: JByteArray<'local>,
    offset: jint,
    length: jint,
) -> jint {
    enter(env, Expects::Existing, |env| {
        let reader = input(handle)?;
        let (offset, length) = array_range(env, &target, offset, length)?;
        let from = position(from)?;
        let pieces = interruptible(env, |wait| {
            reader.pieces_at(from, length.min(READ_AT_MOST), wait)
        })?;
        let mut got = 0;
        for piece in pieces {
            copy_in(env, &target, offset + got, &piece)?;
            got += piece.len();
        }
        read_result(got, length)
    })
}

/// `int readDirect(long input, long position, ByteBuffer target, int offset, int length)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_readDirect<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    from: jlong,
    target: JByteBuffer<'local>,
    offset: jint,
    length: jint,
) -> jint {
    enter(env, Expects::Existing, |env| {
        let reader = input(handle)?;
        let from = position(from)?;
        with_direct_mut(env, &target, offset, length, |env, bytes| {
            let wanted = bytes.len();
            let got = interruptible(env, |wait| reader.read_at(from, bytes, wait))?;
            read_result(got, wanted)
        })
    })
}

/// `void unbuffer(long input)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_unbuffer<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Existing, |_| {
        if let Some(reader) = INPUTS.get(handle) {
            reader.unbuffer();
        }
        Ok(())
    });
}

/// `void closeInput(long input)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_closeInput<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Existing, |_| {
        drop(INPUTS.remove(handle));
        Ok(())
    });
}

/// `long outputStart(long output)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_outputStart<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jlong {
    enter(env, Expects::Anything, |_| {
        java_long(output(handle)?.start())
    })
}

/// `int outputTraits(long output)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_outputTraits<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) -> jint {
    enter(env, Expects::Anything, |_| {
        Ok(if output(handle)?.can_sync() {
            CAN_SYNC
        } else {
            0
        })
    })
}

/// `void writeDirect(long output, ByteBuffer source, int offset, int length)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_writeDirect<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    source: JByteBuffer<'local>,
    offset: jint,
    length: jint,
) {
    enter(env, Expects::Anything, |env| {
        let stream = output(handle)?;
        with_direct(env, &source, offset, length, |env, bytes| {
            interruptible(env, |wait| stream.write(bytes, wait))
        })
    });
}

/// `void writeArray(long output, byte[] source, int offset, int length)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_writeArray<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
    source: JByteArray<'local>,
    offset: jint,
    length: jint,
) {
    enter(env, Expects::Anything, |env| {
        let stream = output(handle)?;
        let (offset, length) = array_range(env, &source, offset, length)?;
        let mut done = 0;
        let mut failed = None;
        let result = interruptible_with(env, |wait, env| {
            let take = |target: &mut [u8]| {
                let copied = copy_out(&env.borrow(), &source, offset + done, target);
                done += target.len();
                copied.map_err(|fault| {
                    let error = append_client::Error::invalid(fault.to_string());
                    failed = Some(fault);
                    error
                })
            };
            stream.write_with(length, take, wait)
        });
        match failed {
            Some(fault) => Err(fault),
            None => result,
        }
    });
}

/// `void sync(long output)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_sync<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Anything, |env| {
        let stream = output(handle)?;
        interruptible(env, |wait| stream.hsync(wait))
    });
}

/// `void closeOutput(long output)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_closeOutput<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Anything, |env| match OUTPUTS.remove(handle) {
        Some(stream) => interruptible(env, |wait| stream.close(wait)),
        None => Ok(()),
    });
}

/// `void abandonOutput(long output)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_libappend_fs_Native_abandonOutput<'local>(
    env: EnvUnowned<'local>,
    _class: JClass<'local>,
    handle: jlong,
) {
    enter(env, Expects::Anything, |_| {
        if let Some(stream) = OUTPUTS.remove(handle) {
            stream.abort(ABANDON_WITHIN);
        }
        Ok(())
    });
}
