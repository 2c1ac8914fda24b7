//! `include/append.h` is what cbindgen writes from this crate. `UPDATE_HEADER=1` writes it anew instead of failing.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut fresh = Vec::new();
    cbindgen::Builder::new()
        .with_crate(here)
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut fresh);
    let fresh = String::from_utf8(fresh).unwrap();
    let file = here.join("../../include/append.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&file, &fresh).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some((line, (kept, fresh))) = kept
        .lines()
        .chain(std::iter::repeat("<end>"))
        .zip(fresh.lines().chain(std::iter::repeat("<end>")))
        .enumerate()
        .take(kept.lines().count().max(fresh.lines().count()) + 1)
        .find(|(_, (kept, fresh))| kept != fresh)
    {
        panic!(
            "include/append.h is stale at line {}:\n  has   {kept}\n  wants {fresh}\n\
             run UPDATE_HEADER=1 cargo test -p append-capi --test header",
            line + 1
        );
    }
}
