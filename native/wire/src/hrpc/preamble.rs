//! The seven bytes that open a connection. They say nothing about the caller.

use super::IPC_VERSION;

/// How a connection of Hadoop's RPC begins.
pub const MAGIC: [u8; 4] = *b"hrpc";

/// Bytes of the preamble.
pub const PREAMBLE_LEN: usize = 7;

const AUTH_NONE: u8 = 0;
/// -33 as a signed byte.
const AUTH_SASL: u8 = 0xdf;

/// What follows the preamble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthProtocol {
    /// The connection context; the caller's name is taken from it.
    None,
    /// A negotiation by SASL frames before the connection context.
    Sasl,
}

/// The opening of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    /// A hint for the server's scheduling; clients send 0.
    pub service_class: u8,
    /// What follows.
    pub auth: AuthProtocol,
}

/// Why bytes are no preamble of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// The peer does not speak Hadoop's RPC.
    #[error("not Hadoop RPC: the connection begins with {0:02x?}")]
    Magic([u8; 4]),
    /// The peer speaks another version of it.
    #[error("IPC version {0}, only {IPC_VERSION} is spoken")]
    Version(u8),
    /// An authentication protocol that nobody knows.
    #[error("unknown authentication protocol {0:#04x}")]
    Auth(u8),
}

impl Preamble {
    /// The bytes to send.
    #[must_use]
    pub fn encode(self) -> [u8; PREAMBLE_LEN] {
        let [h, r, p, c] = MAGIC;
        let auth = match self.auth {
            AuthProtocol::None => AUTH_NONE,
            AuthProtocol::Sasl => AUTH_SASL,
        };
        [h, r, p, c, IPC_VERSION, self.service_class, auth]
    }

    /// Reads the bytes that a client sent.
    ///
    /// # Errors
    ///
    /// [`PreambleError`], in the order of the bytes.
    pub fn parse(bytes: &[u8; PREAMBLE_LEN]) -> Result<Self, PreambleError> {
        let [h, r, p, c, version, service_class, auth] = *bytes;
        let magic = [h, r, p, c];
        if magic != MAGIC {
            return Err(PreambleError::Magic(magic));
        }
        if version != IPC_VERSION {
            return Err(PreambleError::Version(version));
        }
        let auth = match auth {
            AUTH_NONE => AuthProtocol::None,
            AUTH_SASL => AuthProtocol::Sasl,
            other => return Err(PreambleError::Auth(other)),
        };
        Ok(Self {
            service_class,
            auth,
        })
    }
}
