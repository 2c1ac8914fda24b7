//! What every native function does around its body: panics are caught, faults become Java exceptions, and a wait looks at the
//! thread's interrupt status. No native function does any of this by itself.
//!
//! Only threads of the JVM come here, so nothing is attached and nothing detached.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error as _;

use append_client::blocking::Wait;
use jni::errors::{Error as JniError, ErrorPolicy};
use jni::objects::{JClass, JThrowable, JValue};
use jni::strings::JNIString;
use jni::{Env, EnvUnowned, jni_sig, jni_str};

use crate::exception::{self, Exception, Expects, Shape};

/// Why a native function ends without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The client failed.
    #[error(transparent)]
    Client(#[from] append_client::Error),
    /// JNI failed, or a Java exception is pending already.
    #[error(transparent)]
    Jni(#[from] JniError),
    /// Java named a handle that is closed or was never given out.
    #[error("{0} is closed")]
    Closed(&'static str),
    /// Java broke the rules of `io.libappend.fs.Native`.
    #[error("{0}")]
    Misuse(String),
    /// The table of handles is full.
    #[error("no more handles")]
    Handles,
    /// A row of the exception table, thrown by the test that walks it.
    #[error("row of the exception table")]
    Row(&'static Exception),
    #[error(transparent)]
    TooLong(#[from] crate::status_page::TooLong),
}

/// Runs the body of a native function. The result is the default value when an exception is pending.
pub(crate) fn enter<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    expects: Expects,
    body: impl FnOnce(&mut Env<'local>) -> Result<T, Fault>,
) -> T {
    env.with_env(body).resolve_with::<Throw, _>(|| expects)
}

/// Runs a call of the client that ends when the calling Java thread is interrupted; its interrupt status is cleared then.
pub(crate) fn interruptible<T>(
    env: &mut Env<'_>,
    call: impl FnOnce(&Wait<'_>) -> append_client::Result<T>,
) -> Result<T, Fault> {
    interruptible_with(env, |wait, _| call(wait))
}

/// As [`interruptible`] for a call that needs Java on its way. It must not hold on to what it borrows: the wait borrows it, too.
pub(crate) fn interruptible_with<'env, 'local, T>(
    env: &'env mut Env<'local>,
    call: impl FnOnce(&Wait<'_>, &RefCell<&'env mut Env<'local>>) -> append_client::Result<T>,
) -> Result<T, Fault> {
    let env = RefCell::new(env);
    let interrupted = || take_interrupt(&mut env.borrow_mut());
    call(&Wait::unbounded().or_interrupted(&interrupted), &env).map_err(Fault::Client)
}

fn take_interrupt(env: &mut Env<'_>) -> bool {
    // A frame of its own: a long wait looks often, and the native frame's references live until it ends.
    let looked: Result<bool, JniError> = env.with_local_frame(4, |env| {
        env.call_static_method(
            jni_str!("java/lang/Thread"),
            jni_str!("interrupted"),
            jni_sig!("()Z"),
            &[],
        )?
        .z()
    });
    looked.unwrap_or(false)
}

struct Throw;

impl<T: Default> ErrorPolicy<T, Fault> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = Expects;

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        expects: &mut Expects,
        fault: Fault,
    ) -> jni::errors::Result<T> {
        match &fault {
            Fault::Client(error) => {
                let offset = error.bad_block().map_or(0, |bad| bad.offset_in_file);
                throw(
                    env,
                    exception::of(error.kind(), *expects),
                    &text(error),
                    offset,
                )?;
            }
            Fault::Jni(JniError::JavaException) => {}
            Fault::Misuse(text) => throw(env, &exception::ILLEGAL_ARGUMENT, text, 0)?,
            Fault::Row(row) => throw(env, row, "sample", 17)?,
            Fault::Jni(_) | Fault::Closed(_) | Fault::Handles | Fault::TooLong(_) => {
                throw(env, &exception::IO, &fault.to_string(), 0)?;
            }
        }
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut Expects,
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        if !env.exception_check() {
            let text = format!("fault inside libappend: {}", panic_text(&*payload));
            throw(env, &exception::INTERNAL, &text, 0)?;
        }
        Ok(T::default())
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

/// The error's own line and what it came from: Java's users see nothing else.
fn text(error: &append_client::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str("; caused by: ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn throw(
    env: &mut Env<'_>,
    exception: &Exception,
    text: &str,
    offset: u64,
) -> jni::errors::Result<()> {
    let class = find(env, exception)?;
    let thrown = match exception.shape {
        Shape::Text => env.throw_new(class, JNIString::from(text)),
        Shape::TextAndOffset => {
            let message = env.new_string(text)?;
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            let made = env.new_object(
                class,
                jni_sig!("(Ljava/lang/String;J)V"),
                &[JValue::Object(&message), JValue::Long(offset)],
            )?;
            let made = env.cast_local::<JThrowable>(made)?;
            env.throw(made)
        }
    };
    match thrown {
        Err(JniError::JavaException) => Ok(()),
        other => other,
    }
}

fn find<'local>(
    env: &mut Env<'local>,
    exception: &Exception,
) -> jni::errors::Result<JClass<'local>> {
    let first = env.find_class(JNIString::from(exception.class));
    match (first, exception.otherwise) {
        (Err(JniError::NoClassDefFound { .. }), Some(otherwise)) => {
            env.find_class(JNIString::from(otherwise))
        }
        (found, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jni::{InitArgsBuilder, JNIVersion, JavaVM};
    use std::sync::LazyLock;

    static JVM: LazyLock<JavaVM> = LazyLock::new(|| {
        let args = InitArgsBuilder::new()
            .version(JNIVersion::V1_8)
            .option("-Xcheck:jni")
            .build()
            .unwrap();
        JavaVM::new(args).unwrap()
    });

    /// Runs a body as a native function and returns its result with class and message of the pending exception.
    fn call<T: Default>(
        body: impl FnOnce(&mut Env<'_>) -> Result<T, Fault>,
    ) -> (T, Option<(String, String)>) {
        JVM.attach_current_thread(|env| -> jni::errors::Result<_> {
            // SAFETY: the pointer is this thread's attachment, and the value is used within this closure only.
            let unowned = unsafe { EnvUnowned::from_raw(env.get_raw()) };
            let result = enter(unowned, Expects::Anything, body);
            let thrown = match env.exception_catch() {
                Ok(()) => None,
                Err(JniError::CaughtJavaException { name, msg, .. }) => Some((name, msg)),
                Err(other) => return Err(other),
            };
            Ok((result, thrown))
        })
        .unwrap()
    }

    #[test]
    fn a_panic_becomes_an_exception_with_its_text() {
        let (result, thrown) = call::<i32>(|_| panic!("row {} is odd", 7));
        assert_eq!(result, 0);
        let (class, message) = thrown.unwrap();
        assert_eq!(class, "java.lang.IllegalStateException");
        assert!(message.contains("row 7 is odd"), "{message}");
        assert_eq!(call(|_| Ok(5)), (5, None));
    }

    #[test]
    fn faults_become_exceptions() {
        let (_, thrown) = call::<i64>(|_| Err(Fault::Closed("the stream")));
        assert_eq!(
            thrown.unwrap(),
            ("java.io.IOException".into(), "the stream is closed".into())
        );
        let (_, thrown) = call::<i64>(|_| Err(Fault::Misuse("negative".into())));
        assert_eq!(
            thrown.unwrap(),
            (
                "java.lang.IllegalArgumentException".into(),
                "negative".into()
            )
        );
        let (_, thrown) =
            call::<i64>(|_| Err(append_client::Error::invalid("bad: \u{1F600} \0 end").into()));
        assert_eq!(
            thrown.unwrap(),
            (
                "java.lang.IllegalArgumentException".into(),
                "bad: \u{1F600} \0 end".into()
            )
        );
    }

    #[test]
    fn a_class_that_is_missing_has_a_substitute() {
        static ROW: Exception = Exception {
            class: "no/such/Class",
            otherwise: Some("java/io/EOFException"),
            shape: Shape::Text,
        };
        let (_, thrown) = call::<i64>(|_| Err(Fault::Row(&ROW)));
        assert_eq!(thrown.unwrap().0, "java.io.EOFException");
    }

    #[test]
    fn an_exception_that_is_pending_already_stays() {
        let (_, thrown) = call::<i64>(|env| {
            env.throw_new(jni_str!("java/io/EOFException"), jni_str!("first"))?;
            Ok(1)
        });
        assert_eq!(
            thrown.unwrap(),
            ("java.io.EOFException".into(), "first".into())
        );
    }

    #[test]
    fn an_interrupt_is_taken_once() {
        let (looks, thrown) = call(|env| {
            let before = take_interrupt(env);
            let thread = env
                .call_static_method(
                    jni_str!("java/lang/Thread"),
                    jni_str!("currentThread"),
                    jni_sig!("()Ljava/lang/Thread;"),
                    &[],
                )?
                .l()?;
            env.call_method(&thread, jni_str!("interrupt"), jni_sig!("()V"), &[])?;
            Ok([before, take_interrupt(env), take_interrupt(env)])
        });
        assert_eq!(thrown, None);
        assert_eq!(looks, [false, true, false]);
    }
}
