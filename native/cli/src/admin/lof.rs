//! `append admin lof`: the files that are open for writing. Names of fields and columns are those of `ozone admin om lof`; what
//! only append sessions have comes after them.

use append_client::status::{AppendStatus, OpenFile, OpenFilesPage, Phase, WriterKind};
use append_client::{Config, Error};
use clap::Args;
use serde::Serialize;

use super::Place;
use super::show;

#[derive(Debug, Args)]
pub(crate) struct LofArgs {
    /// List below this path: the root or a bucket; may be a URI with the server
    #[arg(default_value = "/")]
    path: String,
    /// List only keys that begin with this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Most files of one answer
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    length: u32,
    /// Go on where an earlier answer ended: its continuation token
    #[arg(short, long, default_value = "", hide_default_value = true)]
    token: String,
}

/// The answer as `ozone admin om lof --json` gives it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    open_keys: Vec<OpenKey>,
    total_open_key_count: u64,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cont_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OpenKey {
    key_info: KeyInfo,
    client_id: u64,
    open_version: u64,
    #[serde(flatten)]
    writer: Option<Writer>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyInfo {
    volume_name: String,
    bucket_name: String,
    key_name: String,
    creation_time: u64,
    replication_factor: u16,
    hsync: bool,
}

/// What the server says of an append session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Writer {
    writer_kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<u64>,
    owner: String,
    last_renewed_lease_millis: u64,
    renewals: u64,
    lease_remaining_millis: u64,
    prefix_length: u64,
    published_length: u64,
    suffix_blocks: u32,
    recovery_state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    blocked_reason: String,
}

impl Writer {
    fn new(status: &AppendStatus) -> Writer {
        Writer {
            writer_kind: kind(status.kind),
            phase: status.phase.map(phase),
            session_id: status.handle.map(|handle| handle.session),
            owner: status.owner.clone(),
            last_renewed_lease_millis: status.last_renewed_ms,
            renewals: status.renewals,
            lease_remaining_millis: u64::try_from(status.remaining.as_millis()).unwrap_or(u64::MAX),
            prefix_length: status.prefix_length,
            published_length: status.published_length,
            suffix_blocks: status.suffix_blocks,
            recovery_state: recovery_state(status),
            blocked_reason: blocked_reason(status),
        }
    }
}

/// Why a session that nobody writes to is still there: the server's own words, or what its state means. Empty for one that lives.
fn blocked_reason(status: &AppendStatus) -> String {
    if !status.blocked_reason.is_empty() {
        return status.blocked_reason.clone();
    }
    match recovery_state(status) {
        "RECOVERING" => {
            "fenced, and its blocks are not settled: a datanode did not answer, or whoever began has died; recover-lease goes on"
        }
        "ELIGIBLE" => {
            "its lease is over, and nobody has recovered the file: recover-lease does, or the next append"
        }
        _ if status.phase == Some(Phase::Invalidated) => "its file is gone: waits for the cleanup",
        _ => "",
    }
    .to_owned()
}

fn kind(kind: WriterKind) -> &'static str {
    match kind {
        WriterKind::Ordinary => "ORDINARY",
        WriterKind::Hsync => "HSYNC",
        WriterKind::Append => "APPEND",
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Active => "ACTIVE",
        Phase::Recovering => "RECOVERING",
        Phase::Invalidated => "INVALIDATED",
    }
}

/// What stands between the file and its recovery.
fn recovery_state(status: &AppendStatus) -> &'static str {
    match (status.kind, status.phase) {
        // Nothing of them can be recovered before they sync.
        (WriterKind::Ordinary, _) | (_, Some(Phase::Invalidated)) => "NONE",
        (_, Some(Phase::Recovering)) => "RECOVERING",
        _ if status.remaining.is_zero() => "ELIGIBLE",
        _ => "LEASED",
    }
}

/// Files that are asked for at a time while only some are wanted.
const LOOKED_THROUGH: u32 = 1000;

fn found_of(page: &OpenFilesPage) -> u32 {
    u32::try_from(page.files.len()).unwrap_or(u32::MAX)
}

/// Where a page has to end so that it holds no more than `missing` files of those that are wanted: files of the whole page.
fn end_of(page: &OpenFilesPage, missing: u32, wanted: impl Fn(&OpenFile) -> bool) -> Option<u32> {
    let mut found = 0;
    for (at, file) in (1..).zip(&page.files) {
        found += u32::from(wanted(file));
        if found == missing {
            return (at < found_of(page)).then_some(at);
        }
    }
    None
}

/// Pages until `length` files are found; the token of the last page goes on exactly behind them.
async fn matching(place: &Place, args: &LofArgs) -> Result<OpenFilesPage, Error> {
    let mut token = args.token.clone();
    let mut all = OpenFilesPage::default();
    let wanted = |file: &OpenFile| file.path.key().starts_with(&args.prefix);
    loop {
        let missing = args.length.saturating_sub(found_of(&all));
        let asked = if args.prefix.is_empty() {
            missing
        } else {
            missing.max(LOOKED_THROUGH)
        };
        let mut page = place.fs.open_files(&place.path, &token, asked).await?;
        if let Some(end) = end_of(&page, missing, wanted) {
            // A token stands behind a whole page only.
            page = place.fs.open_files(&place.path, &token, end).await?;
        }
        all.files.extend(page.files.into_iter().filter(wanted));
        all.total = page.total;
        all.next = page.next;
        match &all.next {
            Some(next) if found_of(&all) < args.length => token.clone_from(next),
            _ => return Ok(all),
        }
    }
}

/// Runs it.
///
/// # Errors
/// Those of [`append_client::FileSystem::open_files`].
pub(crate) async fn run(args: LofArgs, config: &Config) -> Result<(), Error> {
    let place = Place::open(&args.path, config).await?;
    let page = matching(&place, &args).await?;
    if args.json {
        show::json(&answer(&page))
    } else {
        table(&page, &place.path, &args)
    }
}

fn answer(page: &OpenFilesPage) -> Answer {
    Answer {
        open_keys: page.files.iter().map(open_key).collect(),
        total_open_key_count: page.total,
        has_more: page.next.is_some(),
        cont_token: page.next.clone(),
    }
}

fn open_key(file: &OpenFile) -> OpenKey {
    OpenKey {
        key_info: KeyInfo {
            volume_name: file.path.volume().to_owned(),
            bucket_name: file.path.bucket().to_owned(),
            key_name: file.path.key().to_owned(),
            creation_time: file.opened_ms,
            replication_factor: file.replication,
            hsync: file.hsynced,
        },
        client_id: file.session,
        // Ozone numbers versions of a key; here there is one.
        open_version: 0,
        writer: file.status.as_ref().map(Writer::new),
    }
}

fn table(page: &OpenFilesPage, path: &str, args: &LofArgs) -> Result<(), Error> {
    show::line(&format!(
        "{} total open files. Showing {} open files under {path}",
        page.total,
        page.files.len()
    ))?;
    show::line("")?;
    let rows: Vec<Vec<String>> = page.files.iter().map(row).collect();
    show::table(
        &[
            "Client ID",
            "Creation time",
            "Hsync'ed",
            "Open File Path",
            "Writer",
            "Phase",
            "Lease left",
            "Owner",
        ],
        &rows,
    )?;
    match &page.next {
        Some(token) => {
            let prefix = if args.prefix.is_empty() {
                String::new()
            } else {
                format!(" --prefix '{}'", args.prefix.replace('\'', r"'\''"))
            };
            show::line(&format!(
                "\nMore: append admin lof --length {} --token {token}{prefix} {path}",
                args.length
            ))
        }
        None => Ok(()),
    }
}

fn row(file: &OpenFile) -> Vec<String> {
    let hsynced = if file.hsynced { "Yes" } else { "No" };
    let mut row = vec![
        file.session.to_string(),
        show::time(file.opened_ms),
        hsynced.to_owned(),
        file.path.to_string(),
    ];
    if let Some(status) = &file.status {
        row.push(kind(status.kind).to_owned());
        row.push(status.phase.map_or("", phase).to_owned());
        row.push(format!("{} s", status.remaining.as_secs()));
        row.push(status.owner.clone());
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use append_client::FsPath;
    use append_client::status::SessionHandle;

    fn page() -> OpenFilesPage {
        let status = AppendStatus {
            kind: WriterKind::Append,
            handle: Some(SessionHandle {
                bucket: 1,
                session: 77,
                file: 3,
            }),
            phase: Some(Phase::Active),
            last_renewed_ms: 5000,
            renewals: 4,
            remaining: Duration::from_millis(1500),
            prefix_length: 10,
            published_length: 12,
            suffix_blocks: 1,
            owner: "alice".to_owned(),
            blocked_reason: String::new(),
        };
        let path = FsPath::parse("/vol/bucket/d/f").unwrap();
        let append = OpenFile {
            path: path.clone(),
            session: 77,
            opened_ms: 9,
            replication: 1,
            hsynced: false,
            status: Some(status),
        };
        let ordinary = OpenFile {
            path,
            session: 8,
            opened_ms: 9,
            replication: 1,
            hsynced: true,
            status: None,
        };
        OpenFilesPage {
            files: vec![append, ordinary],
            next: Some("t".to_owned()),
            total: 9,
        }
    }

    #[test]
    fn whoever_is_in_the_way_says_why() {
        let reason = |change: fn(&mut AppendStatus)| {
            let mut status = page().files[0].status.clone().unwrap();
            change(&mut status);
            blocked_reason(&status)
        };
        assert_eq!(reason(|_| {}), "");
        assert!(reason(|status| status.remaining = Duration::ZERO).contains("lease is over"));
        assert!(reason(|status| status.phase = Some(Phase::Recovering)).contains("fenced"));
        assert!(reason(|status| status.phase = Some(Phase::Invalidated)).contains("gone"));
        let words = |status: &mut AppendStatus| status.blocked_reason = "the server's".to_owned();
        assert_eq!(reason(words), "the server's");
    }

    #[test]
    fn a_page_ends_behind_the_last_file_that_is_wanted() {
        let mut three = page();
        three.files.push(three.files[0].clone());
        let append = |file: &OpenFile| file.session == 77;
        assert_eq!(end_of(&three, 1, append), Some(1));
        assert_eq!(end_of(&three, 2, append), None, "the whole page");
        assert_eq!(end_of(&three, 3, append), None, "there are only two");
        assert_eq!(end_of(&three, 1, |file| file.session == 8), Some(2));
        assert_eq!(end_of(&OpenFilesPage::default(), 1, append), None);
    }

    #[test]
    fn json_has_ozones_fields_first_and_ours_behind() {
        let text = serde_json::to_string(&answer(&page())).unwrap();
        let expected = concat!(
            r#"{"openKeys":[{"keyInfo":{"volumeName":"vol","bucketName":"bucket","keyName":"d/f","creationTime":9,"#,
            r#""replicationFactor":1,"hsync":false},"clientId":77,"openVersion":0,"writerKind":"APPEND","phase":"ACTIVE","#,
            r#""sessionId":77,"owner":"alice","lastRenewedLeaseMillis":5000,"renewals":4,"leaseRemainingMillis":1500,"#,
            r#""prefixLength":10,"publishedLength":12,"suffixBlocks":1,"recoveryState":"LEASED"},"#,
            r#"{"keyInfo":{"volumeName":"vol","bucketName":"bucket","keyName":"d/f","creationTime":9,"replicationFactor":1,"#,
            r#""hsync":true},"clientId":8,"openVersion":0}],"totalOpenKeyCount":9,"hasMore":true,"contToken":"t"}"#,
        );
        assert_eq!(text, expected);
    }
}
