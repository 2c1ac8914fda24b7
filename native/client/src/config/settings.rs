//! Typed settings: what the keys say, checked once when a file system connects.

use std::time::Duration;

use append_wire::datanode::ChecksumType;

use super::{Config, keys};
use crate::Result;
use crate::admin::BucketLayout;
use crate::error::Error;
use crate::write::Replication;

/// How requests travel to the OM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    HadoopRpc,
    Grpc,
}

/// How new files are kept if neither caller nor bucket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultReplication {
    /// None: the server's choice.
    pub(crate) copies: Option<Replication>,
    pub(crate) stand_alone: bool,
    /// What the settings ask for that cannot be written yet; reading is not concerned.
    pub(crate) unsupported: Option<String>,
}

/// See [`keys`] for what each means and its default.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) transport: Transport,
    pub(crate) grpc_port: u16,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_response: usize,
    pub(crate) ping_interval: Duration,
    pub(crate) failover_attempts: u32,
    pub(crate) failover_wait: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) outcome_timeout: Duration,
    pub(crate) recovery_budget: Duration,
    pub(crate) checksum_type: ChecksumType,
    pub(crate) bytes_per_checksum: u32,
    pub(crate) chunk: usize,
    pub(crate) outstanding: usize,
    pub(crate) block_size: u64,
    pub(crate) replication: DefaultReplication,
    pub(crate) bucket_layout: BucketLayout,
    pub(crate) list_page: u32,
    pub(crate) read_ahead: usize,
    pub(crate) datanode_connections: usize,
    pub(crate) datanode_timeout: Duration,
}

/// Our own resends stop well before a server forgets what it answered.
const LONGEST_CALL: Duration = Duration::from_secs(15 * 60);

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Settings> {
        let transport = match config.expand(keys::OM_TRANSPORT)? {
            Some(class) if class.ends_with("GrpcOmTransportFactory") => Transport::Grpc,
            _ => Transport::HadoopRpc,
        };
        let chunk = size(config, keys::STREAM_BUFFER, 4 << 20, 4 << 10, 16 << 20)?;
        let settings = Settings {
            transport,
            grpc_port: number(config, keys::OM_GRPC_PORT, 8981)?,
            connect_timeout: time(config, keys::CONNECT_TIMEOUT, Duration::from_secs(20))?,
            max_response: size(config, keys::MAX_RESPONSE, 128 << 20, 64 << 10, 1 << 30)?,
            ping_interval: time(config, keys::PING_INTERVAL, Duration::from_secs(60))?,
            failover_attempts: number(config, keys::FAILOVER_ATTEMPTS, 500)?,
            failover_wait: time(config, keys::FAILOVER_WAIT, Duration::from_secs(2))?,
            call_timeout: time(config, keys::CALL_TIMEOUT, Duration::from_secs(120))?
                .min(LONGEST_CALL),
            attempt_timeout: time(config, keys::ATTEMPT_TIMEOUT, Duration::from_secs(5))?,
            outcome_timeout: time(config, keys::OUTCOME_TIMEOUT, LONGEST_CALL)?.min(LONGEST_CALL),
            recovery_budget: time(config, keys::RECOVERY_BUDGET, Duration::from_secs(30))?,
            checksum_type: choice(
                config,
                keys::CHECKSUM_TYPE,
                ChecksumType::Crc32c,
                &[
                    ("CRC32C", ChecksumType::Crc32c),
                    ("CRC32", ChecksumType::Crc32),
                    ("NONE", ChecksumType::None),
                ],
            )?,
            bytes_per_checksum: u32::try_from(size(
                config,
                keys::BYTES_PER_CHECKSUM,
                16 << 10,
                512,
                16 << 20,
            )?)
            .unwrap_or(u32::MAX),
            chunk,
            outstanding: size(
                config,
                keys::STREAM_BUFFER_MAX,
                32 << 20,
                4 << 10,
                256 << 20,
            )?
            .max(chunk),
            block_size: u64::try_from(size(config, keys::BLOCK_SIZE, 256 << 20, 4 << 10, 1 << 40)?)
                .unwrap_or(u64::MAX),
            replication: replication(config)?,
            bucket_layout: choice(
                config,
                keys::BUCKET_LAYOUT,
                BucketLayout::FileSystemOptimized,
                &[
                    ("FILE_SYSTEM_OPTIMIZED", BucketLayout::FileSystemOptimized),
                    ("LEGACY", BucketLayout::Legacy),
                    ("OBJECT_STORE", BucketLayout::ObjectStore),
                ],
            )?,
            list_page: number(config, keys::LIST_PAGE, 1024)?,
            read_ahead: size(config, keys::READ_AHEAD, 4 << 20, 0, 64 << 20)?,
            datanode_connections: usize::from(number::<u8>(config, keys::DATANODE_CONNECTIONS, 2)?)
                .max(1),
            datanode_timeout: time(config, keys::DATANODE_TIMEOUT, Duration::from_secs(30))?,
        };
        if settings.list_page == 0 {
            return Err(bad(keys::LIST_PAGE, "0", "a number above 0"));
        }
        Ok(settings)
    }
}

fn replication(config: &Config) -> Result<DefaultReplication> {
    let kind = config.expand(keys::REPLICATION_TYPE)?.unwrap_or_default();
    let copies = config.expand(keys::REPLICATION)?.unwrap_or_default();
    let (kind, copies) = (kind.trim(), copies.trim());
    let known = match copies {
        "" => Some(None),
        "1" | "ONE" => Some(Some(Replication::One)),
        "3" | "THREE" => Some(Some(Replication::Three)),
        _ => None,
    };
    let served = matches!(kind, "" | "RATIS" | "STAND_ALONE") && known.is_some();
    Ok(DefaultReplication {
        copies: known.flatten(),
        stand_alone: kind == "STAND_ALONE",
        unsupported: (!served).then(|| format!("{kind} {copies}").trim().to_owned()),
    })
}

fn bad(key: &str, value: &str, wanted: &str) -> Error {
    Error::invalid(format!("{key} is {value:?}, wanted {wanted}"))
}

fn number<N: std::str::FromStr>(config: &Config, key: &str, default: N) -> Result<N> {
    match config.expand(key)? {
        None => Ok(default),
        Some(value) => value
            .trim()
            .parse()
            .map_err(|_| bad(key, &value, "a number")),
    }
}

fn choice<T: Copy>(config: &Config, key: &str, default: T, all: &[(&str, T)]) -> Result<T> {
    let Some(value) = config.expand(key)? else {
        return Ok(default);
    };
    all.iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(value.trim()))
        .map(|(_, choice)| *choice)
        .ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            bad(key, &value, &names.join(" or "))
        })
}

fn size(config: &Config, key: &str, default: usize, least: usize, most: usize) -> Result<usize> {
    let Some(value) = config.expand(key)? else {
        return Ok(default);
    };
    parse_size(&value)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| {
            bad(
                key,
                &value,
                &format!("a size between {least} and {most} bytes"),
            )
        })
}

fn time(config: &Config, key: &str, default: Duration) -> Result<Duration> {
    match config.expand(key)? {
        None => Ok(default),
        Some(value) => parse_time(&value)
            .filter(|time| !time.is_zero())
            .ok_or_else(|| bad(key, &value, "a time such as 500ms, 20s or 2m")),
    }
}

/// Bytes: a whole number and perhaps one of Hadoop's units, powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let (count, unit) = split_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_u64 << 40,
        _ => return None,
    };
    count.checked_mul(factor)
}

/// A time: a whole number and perhaps one of Hadoop's units; milliseconds without.
fn parse_time(text: &str) -> Option<Duration> {
    let (count, unit) = split_unit(text)?;
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "ms" => Duration::from_millis(count),
        "ns" => Duration::from_nanos(count),
        "us" => Duration::from_micros(count),
        "s" => Duration::from_secs(count),
        "m" | "min" => Duration::from_secs(count.checked_mul(60)?),
        "h" => Duration::from_secs(count.checked_mul(3600)?),
        "d" => Duration::from_secs(count.checked_mul(86400)?),
        _ => return None,
    })
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (count, unit) = text.split_at(end);
    Some((count.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn defaults_are_ozones() {
        let settings = Settings::read(&Config::empty()).unwrap();
        assert_eq!(settings.chunk, 4 << 20);
        assert_eq!(settings.outstanding, 32 << 20);
        assert_eq!(settings.bytes_per_checksum, 16 << 10);
        assert_eq!(settings.block_size, 256 << 20);
        assert_eq!(settings.transport, Transport::HadoopRpc);
        assert_eq!(settings.connect_timeout, Duration::from_secs(20));
        assert_eq!(settings.replication.copies, None);
    }

    #[test]
    fn units_are_hadoops() {
        for (text, bytes) in [
            ("5", 5),
            ("16KB", 16 << 10),
            (" 4 MB ", 4 << 20),
            ("1g", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for (text, ms) in [
            ("5", 5),
            ("5ms", 5),
            ("20s", 20_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_time(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "7 parsecs", "99999999999999999999"] {
            assert_eq!(parse_size(text), None, "{text}");
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(parse_size("18446744073709551615GB"), None);
        assert_eq!(parse_time("18446744073709551615h"), None);
    }

    #[test]
    fn a_malformed_value_names_its_key() {
        for (key, value) in [
            (keys::STREAM_BUFFER, "4 parsecs"),
            (keys::STREAM_BUFFER, "1GB"),
            (keys::CONNECT_TIMEOUT, "soon"),
            (keys::CONNECT_TIMEOUT, "0"),
            (keys::CHECKSUM_TYPE, "SHA256"),
            (keys::LIST_PAGE, "0"),
            (keys::OM_GRPC_PORT, "70000"),
        ] {
            let error = Settings::read(&Config::empty().with(key, value)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(key), "{error}");
        }
    }

    #[test]
    fn a_replication_that_cannot_be_written_does_not_stop_readers() {
        let read = |kind: &str, copies: &str| {
            let config = Config::empty()
                .with(keys::REPLICATION_TYPE, kind)
                .with(keys::REPLICATION, copies);
            Settings::read(&config).unwrap().replication
        };
        assert_eq!(read("RATIS", "THREE").copies, Some(Replication::Three));
        assert!(read("STAND_ALONE", "1").stand_alone);
        assert_eq!(read("RATIS", "3").unsupported, None);
        let coded = read("EC", "rs-3-2-1024k").unsupported;
        assert_eq!(coded.as_deref(), Some("EC rs-3-2-1024k"));
        assert_eq!(read("", "2").unsupported.as_deref(), Some("2"));
    }

    #[test]
    fn the_transport_is_chosen_by_the_factorys_name() {
        let class = "org.apache.hadoop.ozone.om.protocolPB.GrpcOmTransportFactory";
        let config = Config::empty().with(keys::OM_TRANSPORT, class);
        assert_eq!(Settings::read(&config).unwrap().transport, Transport::Grpc);
    }
}
