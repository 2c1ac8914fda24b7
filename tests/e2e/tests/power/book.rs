//! What was promised, and when: for any place in the journal, what a reader must and may see there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use append_client::{Config, ErrorKind, FileSystem};

/// What is known of one file.
#[derive(Debug, Default)]
struct File {
    /// (journal position, length): this length was acknowledged, or shown to a reader, before the journal had this many bytes.
    promised: Vec<(u64, u64)>,
    /// (journal position, length): a sync or close at this length was asked for when the journal had at least this many bytes.
    asked: Vec<(u64, u64)>,
}

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Book {
    files: Mutex<BTreeMap<String, File>>,
}

/// The byte that every file has at an offset, by its name.
fn byte_at(path: &str, offset: u64) -> u8 {
    let mut state = offset
        ^ path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state.to_be_bytes()[0]
}

pub(crate) fn bytes_at(path: &str, offset: u64, count: u64) -> Vec<u8> {
    (offset..offset + count)
        .map(|offset| byte_at(path, offset))
        .collect()
}

pub(crate) fn config() -> Config {
    Config::empty()
        .with_user("power")
        .with("ozone.client.wait.between.retries.millis", "20ms")
        .with("ipc.client.connect.max.retries", "0")
        .with("libappend.call.timeout", "3s")
        // A server that was ended is not asked what became of a close.
        .with("libappend.outcome.timeout", "1s")
}

impl Book {
    pub(crate) fn ask(&self, path: &str, position: u64, length: u64) {
        let mut files = self.files.lock().unwrap();
        files
            .entry(path.to_owned())
            .or_default()
            .asked
            .push((position, length));
    }

    pub(crate) fn promise(&self, path: &str, position: u64, length: u64) {
        let mut files = self.files.lock().unwrap();
        files
            .entry(path.to_owned())
            .or_default()
            .promised
            .push((position, length));
    }

    /// All positions at which something was promised.
    pub(crate) fn promises(&self) -> Vec<u64> {
        let files = self.files.lock().unwrap();
        let positions: BTreeSet<u64> = files
            .values()
            .flat_map(|file| file.promised.iter().map(|(position, _)| *position))
            .collect();
        positions.into_iter().collect()
    }

    fn paths(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }

    /// What must be (at least this length, if any) and may be seen of a file when the journal ends at `position`.
    fn at(&self, path: &str, position: u64) -> (Option<u64>, BTreeSet<u64>) {
        let files = self.files.lock().unwrap();
        let file = &files[path];
        let before = |list: &[(u64, u64)]| -> BTreeSet<u64> {
            list.iter()
                .filter(|(at, _)| *at <= position)
                .map(|(_, length)| *length)
                .collect()
        };
        (before(&file.promised).last().copied(), before(&file.asked))
    }

    /// Reads every file as a newcomer and compares it with what must be there; gives the lengths that it saw.
    pub(crate) async fn check(
        &self,
        fs: &FileSystem,
        position: u64,
    ) -> Result<Vec<(String, u64)>, String> {
        let mut seen = Vec::new();
        for path in self.paths() {
            let (promised, asked) = self.at(&path, position);
            if asked.is_empty() {
                continue;
            }
            let fault = |what: String| {
                Err(format!(
                    "{path}: {what}; promised {promised:?}, asked for {asked:?}"
                ))
            };
            let published = match fs.status(&path).await {
                Ok(status) => status.length,
                Err(error) if error.kind() == ErrorKind::NotFound && promised.is_none() => continue,
                Err(error) => return fault(error.to_string()),
            };
            if published < promised.unwrap_or(0) || !asked.contains(&published) {
                return fault(format!("its length is {published}"));
            }
            let read = async {
                let reader = fs.open(&path).await?;
                let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
                let count = reader.read_at(0, &mut bytes).await?;
                bytes.truncate(count);
                Ok::<_, append_client::Error>(bytes)
            };
            let bytes = match read.await {
                Ok(bytes) => bytes,
                Err(error) => return fault(error.to_string()),
            };
            let length = u64::try_from(bytes.len()).unwrap();
            if length < published || bytes != bytes_at(&path, 0, length) {
                return fault(format!("{length} bytes are read, or other bytes"));
            }
            seen.push((path, published));
        }
        Ok(seen)
    }
}
