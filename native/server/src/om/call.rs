//! What every request carries beside its payload: who, which call, about what.

use crate::rpc::Caller;
use append_namespace::command::Invocation;
use append_wire::invocation::InvocationId;
use append_wire::om::{KeyArgs, OmRequest};
use bytes::Bytes;

/// A request's caller and identity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// The user; never empty.
    pub(super) user: String,
    /// The retry identity: the request's own, else the transport's. Without one no retry can be told from a new call, and there is
    /// nothing to remember an answer for.
    pub(super) invocation: Option<Invocation>,
    pub(super) answered_below: Option<u64>,
    /// The client's name for itself.
    pub(super) client: String,
    /// The path, for texts.
    pub(super) subject: String,
    /// The request's name in texts and logs: the trace id, the retry identity, or a name of its own.
    pub(super) request_id: String,
}

/// An invocation id that is not one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BadInvocation {
    pub(super) request_id: String,
}

impl Call {
    /// Takes what it needs from `request`.
    pub(super) fn new(caller: Caller, request: &mut OmRequest) -> Result<Call, BadInvocation> {
        let trace = request
            .trace_id
            .as_deref()
            .filter(|trace| !trace.is_empty());
        let (invocation, name) = match &request.invocation_id {
            Some(bytes) => match InvocationId::parse(bytes) {
                Ok(id) => {
                    let invocation = Invocation {
                        client: Bytes::copy_from_slice(&id.client),
                        sequence: id.sequence,
                    };
                    (Some(invocation), id.to_string())
                }
                Err(_) => {
                    return Err(BadInvocation {
                        request_id: trace.unwrap_or("-").to_owned(),
                    });
                }
            },
            None => {
                let name = caller
                    .identity
                    .as_ref()
                    .map_or_else(|| uuid::Uuid::new_v4().to_string(), named);
                (caller.identity, name)
            }
        };
        let answered_below = request
            .answered_below
            .filter(|_| request.invocation_id.is_some());
        Ok(Call {
            user: caller.user,
            invocation,
            answered_below,
            client: std::mem::take(&mut request.client_id),
            subject: subject(request),
            request_id: trace.map_or(name, str::to_owned),
        })
    }
}

fn named(invocation: &Invocation) -> String {
    let mut name = String::with_capacity(2 * invocation.client.len() + 8);
    for byte in &invocation.client {
        for nibble in [byte >> 4, byte & 0xf] {
            name.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    name.push('-');
    name.push_str(&invocation.sequence.to_string());
    name
}

/// What the request is about, as a path.
fn subject(r: &OmRequest) -> String {
    let key = [
        r.create_key_request.as_ref().map(|r| &r.key_args),
        r.create_file_request.as_ref().map(|r| &r.key_args),
        r.allocate_block_request.as_ref().map(|r| &r.key_args),
        r.commit_key_request.as_ref().map(|r| &r.key_args),
        r.lookup_key_request.as_ref().map(|r| &r.key_args),
        r.lookup_file_request.as_ref().map(|r| &r.key_args),
        r.get_key_info_request.as_ref().map(|r| &r.key_args),
        r.get_file_status_request.as_ref().map(|r| &r.key_args),
        r.list_status_request.as_ref().map(|r| &r.key_args),
        r.create_directory_request.as_ref().map(|r| &r.key_args),
        r.rename_key_request.as_ref().map(|r| &r.key_args),
        r.delete_key_request.as_ref().map(|r| &r.key_args),
        r.set_times_request.as_ref().map(|r| &r.key_args),
        r.append_file_request.as_ref().map(|r| &r.key_args),
    ];
    if let Some(args) = key.into_iter().flatten().next() {
        return key_subject(args);
    }
    let bucket = [
        r.info_bucket_request
            .as_ref()
            .map(|r| (&r.volume_name, &r.bucket_name)),
        r.delete_bucket_request
            .as_ref()
            .map(|r| (&r.volume_name, &r.bucket_name)),
        r.create_bucket_request
            .as_ref()
            .map(|r| (&r.bucket_info.volume_name, &r.bucket_info.bucket_name)),
        r.set_bucket_property_request
            .as_ref()
            .and_then(|r| r.bucket_args.as_ref())
            .map(|r| (&r.volume_name, &r.bucket_name)),
        r.list_keys_request
            .as_ref()
            .map(|r| (&r.volume_name, &r.bucket_name)),
        r.delete_keys_request
            .as_ref()
            .and_then(|r| r.delete_keys.as_ref())
            .map(|r| (&r.volume_name, &r.bucket_name)),
    ];
    if let Some((volume, bucket)) = bucket.into_iter().flatten().next() {
        return format!("/{volume}/{bucket}");
    }
    let volume = [
        r.info_volume_request.as_ref().map(|r| &r.volume_name),
        r.delete_volume_request.as_ref().map(|r| &r.volume_name),
        r.create_volume_request
            .as_ref()
            .map(|r| &r.volume_info.volume),
        r.set_volume_property_request
            .as_ref()
            .map(|r| &r.volume_name),
        r.check_volume_access_request
            .as_ref()
            .map(|r| &r.volume_name),
        r.list_buckets_request.as_ref().map(|r| &r.volume_name),
    ];
    if let Some(volume) = volume.into_iter().flatten().next() {
        return format!("/{volume}");
    }
    if let Some(r) = &r.recover_lease_request {
        return format!("/{}/{}/{}", r.volume_name(), r.bucket_name(), r.key_name());
    }
    let path = [
        r.list_open_files_request
            .as_ref()
            .and_then(|r| r.path.as_ref()),
        r.get_acl_request.as_ref().map(|r| &r.obj.path),
    ];
    path.into_iter()
        .flatten()
        .next()
        .cloned()
        .unwrap_or_default()
}

fn key_subject(args: &KeyArgs) -> String {
    format!(
        "/{}/{}/{}",
        args.volume_name, args.bucket_name, args.key_name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::om::{GetFileStatusRequest, InfoBucketRequest, InfoVolumeRequest};

    fn caller(identity: Option<Invocation>) -> Caller {
        Caller {
            user: "alice".to_owned(),
            address: None,
            identity,
        }
    }

    #[test]
    fn the_requests_own_identity_wins_over_the_transports() {
        let transport = Invocation {
            client: Bytes::from_static(b"0123456789abcdef"),
            sequence: 4,
        };
        let id = InvocationId {
            client: *b"ourclien",
            sequence: 77,
        };
        let mut request = OmRequest {
            invocation_id: Some(id.into()),
            answered_below: Some(70),
            ..OmRequest::default()
        };
        let call = Call::new(caller(Some(transport.clone())), &mut request).unwrap();
        assert_eq!(
            call.invocation,
            Some(Invocation {
                client: Bytes::from_static(b"ourclien"),
                sequence: 77
            })
        );
        assert_eq!(call.answered_below, Some(70));
        assert_eq!(call.request_id, id.to_string());

        let mut request = OmRequest {
            answered_below: Some(70),
            ..OmRequest::default()
        };
        let call = Call::new(caller(Some(transport.clone())), &mut request).unwrap();
        assert_eq!(call.invocation, Some(transport));
        assert_eq!(
            call.answered_below, None,
            "a number of another count means nothing"
        );
        assert_eq!(call.request_id, "30313233343536373839616263646566-4");
    }

    #[test]
    fn calls_without_any_identity_have_a_name_and_no_answer_to_remember() {
        let first = Call::new(caller(None), &mut OmRequest::default()).unwrap();
        let second = Call::new(caller(None), &mut OmRequest::default()).unwrap();
        assert_eq!((&first.invocation, &second.invocation), (&None, &None));
        assert_ne!(first.request_id, second.request_id);
    }

    #[test]
    fn an_identity_of_another_length_is_refused() {
        for length in [0, 8, 15, 17] {
            let mut request = OmRequest {
                invocation_id: Some(vec![0; length].into()),
                ..OmRequest::default()
            };
            assert!(Call::new(caller(None), &mut request).is_err());
        }
    }

    #[test]
    fn the_subject_is_the_path_of_the_payload() {
        let args = KeyArgs {
            volume_name: "v".to_owned(),
            bucket_name: "b".to_owned(),
            key_name: "d/k".to_owned(),
            ..KeyArgs::default()
        };
        let status = OmRequest {
            get_file_status_request: Some(Box::new(GetFileStatusRequest { key_args: args })),
            ..OmRequest::default()
        };
        assert_eq!(subject(&status), "/v/b/d/k");
        let bucket = OmRequest {
            info_bucket_request: Some(Box::new(InfoBucketRequest {
                volume_name: "v".to_owned(),
                bucket_name: "b".to_owned(),
            })),
            ..OmRequest::default()
        };
        assert_eq!(subject(&bucket), "/v/b");
        let volume = OmRequest {
            info_volume_request: Some(Box::new(InfoVolumeRequest {
                volume_name: "v".to_owned(),
            })),
            ..OmRequest::default()
        };
        assert_eq!(subject(&volume), "/v");
        assert_eq!(subject(&OmRequest::default()), "");
    }
}
