//! The identity of a mutating call, equal in all its resends: `OMRequest.invocationId`.
//!
//! Sixteen bytes: eight name the client, eight number its calls, both most significant byte first. This module only packs and
//! unpacks; what a repeated identity means is decided by the rules in the namespace.

use std::fmt;

use bytes::Bytes;

/// Bytes of an encoded identity.
pub const INVOCATION_ID_LEN: usize = 16;

/// Who called, and his how many-th call it is. Ordered by client, then by sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InvocationId {
    /// Random, once for each client instance.
    pub client: [u8; 8],
    /// Grows with each new call of the client; a resend keeps it.
    pub sequence: u64,
}

/// An invocation identity that is not sixteen bytes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an invocation id has {0} bytes instead of 16")]
pub struct InvalidInvocationId(
    /// How many bytes there were.
    pub usize,
);

impl InvocationId {
    /// The form on the wire.
    #[must_use]
    pub fn encode(self) -> [u8; INVOCATION_ID_LEN] {
        let mut encoded = [0; INVOCATION_ID_LEN];
        let (client, sequence) = encoded.split_at_mut(self.client.len());
        client.copy_from_slice(&self.client);
        sequence.copy_from_slice(&self.sequence.to_be_bytes());
        encoded
    }

    /// Reads the form on the wire.
    ///
    /// # Errors
    ///
    /// [`InvalidInvocationId`] if there are not exactly sixteen bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidInvocationId> {
        let (client, sequence) = bytes
            .split_first_chunk()
            .and_then(|(client, rest)| Some((client, rest.try_into().ok()?)))
            .ok_or(InvalidInvocationId(bytes.len()))?;
        Ok(Self {
            client: *client,
            sequence: u64::from_be_bytes(sequence),
        })
    }
}

impl From<InvocationId> for Bytes {
    fn from(id: InvocationId) -> Self {
        Self::copy_from_slice(&id.encode())
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:016x}-{}",
            u64::from_be_bytes(self.client),
            self.sequence
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn client_stands_before_sequence_most_significant_byte_first() {
        let id = InvocationId {
            client: [1, 2, 3, 4, 5, 6, 7, 8],
            sequence: 9,
        };
        assert_eq!(
            id.encode(),
            [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9]
        );
        assert_eq!(id.to_string(), "0102030405060708-9");
    }

    #[test]
    fn any_other_length_is_refused() {
        for len in [0, 7, 8, 15, 17, 32] {
            assert_eq!(
                InvocationId::parse(&vec![0; len]),
                Err(InvalidInvocationId(len))
            );
        }
    }

    proptest! {
        #[test]
        fn encoding_is_reversible(client in any::<[u8; 8]>(), sequence in any::<u64>()) {
            let id = InvocationId { client, sequence };
            prop_assert_eq!(InvocationId::parse(&id.encode()), Ok(id));
            prop_assert_eq!(InvocationId::parse(&Bytes::from(id)), Ok(id));
        }
    }
}
