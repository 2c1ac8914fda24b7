//! See `checkpoint` in `tests/fuzz/src`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (append_fuzz::target("checkpoint").fuzz)(data));
