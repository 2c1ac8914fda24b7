//! Gives libappend.so its soname: programs record `libappend.so.0`, and the number grows when a function's meaning changes.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libappend.so.0");
    }
}
