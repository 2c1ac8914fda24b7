//! Where a file system's server is: from a URI, an authority, or the settings.

use super::{Config, Settings, Transport, keys};
use crate::Result;
use crate::error::Error;
use crate::path::FsPath;

/// Port of the OM's Hadoop RPC if nobody names one.
const RPC_PORT: u16 = 9862;

/// One server of the OM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its name in the group, empty for a single server.
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// What an address stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Never empty.
    pub(crate) nodes: Vec<Node>,
    /// The bucket below which paths are meant; the root for `ofs`.
    pub(crate) prefix: FsPath,
}

pub(crate) fn resolve(address: &str, config: &Config, settings: &Settings) -> Result<Target> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("ofs", address));
    let authority = rest.split('/').next().unwrap_or_default();
    let (prefix, authority) = match scheme {
        "ofs" => (FsPath::root(), authority),
        "o3fs" => bucket_of(address, authority)?,
        other => {
            return Err(malformed(
                address,
                format!("the scheme is {other:?} instead of ofs or o3fs"),
            ));
        }
    };
    let nodes = nodes(address, authority, config, settings)?;
    Ok(Target { nodes, prefix })
}

fn malformed(address: &str, what: impl Into<String>) -> Error {
    Error::invalid(what).at(
        "connect",
        if address.is_empty() {
            "(no address)"
        } else {
            address
        },
    )
}

/// `bucket.volume[.server[:port]]`.
fn bucket_of<'a>(address: &str, authority: &'a str) -> Result<(FsPath, &'a str)> {
    let mut parts = authority.splitn(3, '.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(bucket), Some(volume), server)
            if !bucket.is_empty() && !volume.is_empty() && !volume.contains(':') =>
        {
            Ok((
                FsPath::in_bucket(volume, bucket, ""),
                server.unwrap_or_default(),
            ))
        }
        _ => Err(malformed(
            address,
            "an o3fs address has the form o3fs://bucket.volume.host:port/",
        )),
    }
}

fn nodes(
    address: &str,
    authority: &str,
    config: &Config,
    settings: &Settings,
) -> Result<Vec<Node>> {
    let services: Vec<String> = list(config, keys::OM_SERVICE_IDS)?;
    if services.iter().any(|service| service == authority) {
        return group(address, authority, config, settings);
    }
    if !authority.is_empty() {
        return Ok(vec![node(address, "", authority, settings)?]);
    }
    if let Some(configured) = config.expand(keys::OM_ADDRESS)? {
        return Ok(vec![node(address, "", configured.trim(), settings)?]);
    }
    match services.as_slice() {
        [service] => group(address, service, config, settings),
        [] => Err(malformed(
            address,
            format!(
                "no server: the address names none, nor do {} and {}",
                keys::OM_ADDRESS,
                keys::OM_SERVICE_IDS
            ),
        )),
        several => Err(malformed(
            address,
            format!(
                "the address must name one of the services {}",
                several.join(", ")
            ),
        )),
    }
}

fn group(address: &str, service: &str, config: &Config, settings: &Settings) -> Result<Vec<Node>> {
    let key = format!("{}.{service}", keys::OM_NODES);
    let names = list(config, &key)?;
    if names.is_empty() {
        return Err(malformed(address, format!("{key} names no node")));
    }
    let mut nodes = Vec::with_capacity(names.len());
    for name in names {
        let key = format!("{}.{service}.{name}", keys::OM_ADDRESS);
        let configured = config
            .expand(&key)?
            .ok_or_else(|| malformed(address, format!("{key} is not set")))?;
        nodes.push(node(address, &name, configured.trim(), settings)?);
    }
    Ok(nodes)
}

fn list(config: &Config, key: &str) -> Result<Vec<String>> {
    let value = config.expand(key)?.unwrap_or_default();
    Ok(value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

/// `host`, `host:port` or `[v6]:port`.
fn node(address: &str, id: &str, text: &str, settings: &Settings) -> Result<Node> {
    let bad = |what: &str| malformed(address, format!("{text:?}: {what}"));
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (
            host,
            Some(
                port.strip_prefix(':')
                    .ok_or_else(|| bad("no port behind ]"))?,
            ),
        ),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| bad("the port must be a number from 1 to 65535"))?,
        None if settings.transport == Transport::Grpc => settings.grpc_port,
        None => RPC_PORT,
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_v6 = text.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_ok();
    if host.is_empty() || !(is_v6 || host.chars().all(allowed)) {
        return Err(bad("the host is malformed"));
    }
    Ok(Node {
        id: id.to_owned(),
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn target(address: &str, config: &Config) -> Result<Target> {
        resolve(address, config, &Settings::read(config).unwrap())
    }

    fn one(address: &str) -> (String, u16) {
        let target = target(address, &Config::empty()).unwrap();
        assert_eq!(target.nodes.len(), 1);
        (target.nodes[0].host.clone(), target.nodes[0].port)
    }

    #[test]
    fn uris_and_authorities_name_a_server() {
        assert_eq!(one("ofs://om1:1234/vol"), ("om1".to_owned(), 1234));
        assert_eq!(one("ofs://om1"), ("om1".to_owned(), 9862));
        assert_eq!(one("127.0.0.1:5"), ("127.0.0.1".to_owned(), 5));
        assert_eq!(one("ofs://[::1]:7/"), ("::1".to_owned(), 7));
    }

    #[test]
    fn o3fs_has_its_bucket_in_front() {
        let target = target("o3fs://b.v.om1.example:77/dir", &Config::empty()).unwrap();
        assert_eq!(target.prefix.to_string(), "/v/b");
        assert_eq!(
            (target.nodes[0].host.as_str(), target.nodes[0].port),
            ("om1.example", 77)
        );
    }

    #[test]
    fn settings_name_single_servers_and_groups() {
        let config = Config::empty().with(keys::OM_ADDRESS, "om9");
        assert_eq!(target("", &config).unwrap().nodes[0].host, "om9");
        assert_eq!(target("ofs:///", &config).unwrap().nodes[0].host, "om9");
        let config = Config::empty()
            .with(keys::OM_SERVICE_IDS, "prod")
            .with("ozone.om.nodes.prod", "a, b")
            .with("ozone.om.address.prod.a", "om-a:1")
            .with("ozone.om.address.prod.b", "om-b");
        for address in ["ofs://prod/", ""] {
            let nodes = target(address, &config).unwrap().nodes;
            let found: Vec<_> = nodes.iter().map(|n| (n.id.as_str(), n.port)).collect();
            assert_eq!(found, [("a", 1), ("b", 9862)]);
        }
    }

    #[test]
    fn malformed_addresses_are_refused_by_name() {
        let group = Config::empty()
            .with(keys::OM_SERVICE_IDS, "prod,test")
            .with("ozone.om.nodes.prod", "a");
        for (address, config) in [
            ("hdfs://host/", &Config::empty()),
            ("ofs://host:port/", &Config::empty()),
            ("ofs://host:0/", &Config::empty()),
            ("ofs://host:70000/", &Config::empty()),
            ("ofs://ho st:1/", &Config::empty()),
            ("ofs://:1/", &Config::empty()),
            ("::1", &Config::empty()),
            ("o3fs://bucket/", &Config::empty()),
            ("o3fs://bucket.host:1/", &Config::empty()),
            ("", &Config::empty()),
            ("", &group),
            ("ofs://prod/", &group),
            ("ofs://test/", &group),
        ] {
            let error = target(address, config).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{address}");
        }
    }
}
