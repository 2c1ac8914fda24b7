//! How a server takes part in a group, and which datanodes it places blocks on.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};

/// A server's part in a group. The same on each start of the same data folder, but for [`GroupSettings::found`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// The server's number, from 1; for ever the same for one data folder.
    pub id: u64,
    /// `host:port` where the servers of the group reach each other, this one among them.
    pub peers: BTreeMap<u64, String>,
    /// Makes the group, of all `peers`: once, on one of them, on empty folders.
    pub found: bool,
}

impl GroupSettings {
    /// Whether anything was set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self != GroupSettings::default()
    }

    /// What is wrong, in words for an operator.
    ///
    /// # Errors
    /// The words.
    pub fn check(&self) -> Result<(), String> {
        if !self.is_set() {
            return Ok(());
        }
        if self.id == 0 {
            return Err("peers are set and the number of this server is not: say --id".to_owned());
        }
        if self.peers.is_empty() {
            return Err(format!(
                "this is server {}, and no peers are set: say --peers 1=HOST:PORT,2=HOST:PORT,...",
                self.id
            ));
        }
        if !self.peers.contains_key(&self.id) {
            return Err(format!("the peers do not name this server, {}", self.id));
        }
        Ok(())
    }

    /// Where this server listens for the others.
    ///
    /// # Errors
    /// Words for an operator when its own entry has no address.
    pub fn listen(&self) -> Result<SocketAddr, String> {
        let own = self
            .peers
            .get(&self.id)
            .ok_or_else(|| format!("the peers do not name this server, {}", self.id))?;
        own.to_socket_addrs()
            .map_err(|error| format!("{own}: {error}"))?
            .next()
            .ok_or_else(|| format!("{own}: the name has no address"))
    }
}

/// `1=HOST:PORT,2=HOST:PORT,...`
pub(super) fn peers(text: &str) -> Result<BTreeMap<u64, String>, String> {
    let mut peers = BTreeMap::new();
    for part in addresses_of(text) {
        let wrong = || format!("{part:?} is not NUMBER=HOST:PORT");
        let (id, address) = part.split_once('=').ok_or_else(wrong)?;
        let id: u64 = id.trim().parse().map_err(|_| wrong())?;
        if id == 0 {
            return Err("numbers of servers begin at 1".to_owned());
        }
        let address = host_and_port(address.trim())?;
        if peers.values().any(|known| *known == address) {
            return Err(format!("{address} is named twice"));
        }
        if peers.insert(id, address).is_some() {
            return Err(format!("server {id} is named twice"));
        }
    }
    if peers.is_empty() {
        return Err("NUMBER=HOST:PORT, separated by commas".to_owned());
    }
    Ok(peers)
}

/// `HOST:PORT,HOST:PORT,...`
pub(super) fn addresses(text: &str) -> Result<Vec<String>, String> {
    let mut addresses = Vec::new();
    for part in addresses_of(text) {
        let address = host_and_port(part)?;
        if addresses.contains(&address) {
            return Err(format!("{address} is named twice"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn addresses_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn host_and_port(text: &str) -> Result<String, String> {
    let port = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .and_then(|(_, port)| port.parse::<u16>().ok())
        .filter(|port| *port != 0);
    match port {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("{text:?} is not HOST:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_numbers_with_addresses() {
        let read = peers("1=a:1, 2=b.example:2,3=[::1]:3,").unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[&3], "[::1]:3");
        for bad in [
            "",
            "a:1",
            "0=a:1",
            "1=a",
            "1=:5",
            "1=a:0",
            "1=a:1,1=b:1",
            "1=a:1,2=a:1",
            "x=a:1",
        ] {
            assert!(peers(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn datanodes_are_addresses() {
        assert_eq!(addresses("a:1, b:2").unwrap(), ["a:1", "b:2"]);
        assert!(addresses("").unwrap().is_empty());
        for bad in ["a", "a:1,a:1", "a:0"] {
            assert!(addresses(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_part_in_a_group_is_whole_or_absent() {
        let peers = peers("1=127.0.0.1:7,2=127.0.0.1:8").unwrap();
        let whole = GroupSettings {
            id: 2,
            peers,
            found: false,
        };
        assert!(whole.is_set() && whole.check().is_ok());
        assert_eq!(whole.listen().unwrap().port(), 8);
        assert!(GroupSettings::default().check().is_ok());
        for bad in [
            GroupSettings {
                id: 3,
                ..whole.clone()
            },
            GroupSettings {
                id: 0,
                ..whole.clone()
            },
            GroupSettings {
                peers: BTreeMap::new(),
                ..whole.clone()
            },
            GroupSettings {
                found: true,
                ..GroupSettings::default()
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
