//! What an answer means for the next attempt: done, another server, the same server later, or the end.

use append_wire::hrpc::Failure;
use append_wire::om::{AppendCode, OmResponse, Status};

use crate::error::{Error, ErrorKind, Retry, table};
use crate::status::from_wire;

/// The server that another one takes for the leader. It counts only if it is one that the caller was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    /// Its name in the group.
    pub(super) id: String,
    /// Its `host:port`, if that was said.
    pub(super) address: Option<String>,
}

/// What an exception of a server asks for.
#[derive(Debug)]
pub(super) enum Exception {
    /// Another server leads, perhaps this one.
    NotLeader(Option<Hint>),
    /// This server leads but is not ready; nothing was done.
    NotReady(String),
    /// No server would serve this call.
    Refused(Error),
}

/// Reads an exception by its Java class and message.
pub(super) fn exception(class: &str, message: &str) -> Exception {
    let name = class.rsplit(['.', '$']).next().unwrap_or(class);
    match name {
        "OMNotLeaderException" => Exception::NotLeader(suggested_leader(message)),
        "OMLeaderNotReadyException" => Exception::NotReady(message.to_owned()),
        "AccessControlException" | "AuthorizationException" | "InvalidToken" => {
            Exception::Refused(Error::new(ErrorKind::PermissionDenied, message))
        }
        "RpcNoSuchMethodException"
        | "RpcNoSuchProtocolException"
        | "VersionMismatch"
        | "InvalidProtocolBufferException" => Exception::Refused(Error::new(
            ErrorKind::Protocol,
            format!("{name}: {message}"),
        )),
        _ => Exception::Refused(Error::new(ErrorKind::Io, format!("{name}: {message}"))),
    }
}

pub(super) fn failure(failure: &Failure) -> Exception {
    exception(&failure.exception_class, failure.first_line())
}

/// gRPC carries an exception as `<class>: <message>`.
pub(super) fn description(text: &str) -> Exception {
    let line = text.lines().next().unwrap_or_default();
    match line.split_once(": ") {
        Some((class, message)) if !class.contains(' ') => exception(class, message),
        _ => Exception::Refused(Error::new(ErrorKind::Io, line)),
    }
}

/// The node of `... Suggested leader is OM:<nodeId>[<address>].`
fn suggested_leader(message: &str) -> Option<Hint> {
    let rest = message.split_once("Suggested leader is OM:")?.1;
    let end = rest.find(['[', ' ']).unwrap_or(rest.len());
    let id = rest.get(..end)?.trim_end_matches('.');
    let address = rest
        .get(end..)
        .and_then(|rest| rest.strip_prefix('['))
        .and_then(|rest| rest.rsplit_once(']'))
        .map(|(address, _)| address.to_owned());
    (!id.is_empty()).then(|| Hint {
        id: id.to_owned(),
        address,
    })
}

/// Whether the server asks for the same call again, though this was an answer.
pub(super) fn wants_retry(response: &OmResponse) -> bool {
    response
        .append_error
        .as_ref()
        .is_some_and(|error| error.code() == AppendCode::RetryLater)
}

/// The error in an answer; none if it says OK.
pub(super) fn refusal(response: &OmResponse) -> Option<Error> {
    let Ok(status) = Status::try_from(response.status) else {
        return Some(Error::new(
            ErrorKind::Protocol,
            format!("an answer with the unknown status {}", response.status),
        ));
    };
    if status == Status::Ok {
        return None;
    }
    let info = response.append_error.as_ref();
    let kind = info
        .and_then(|info| table::of_code(info.code()))
        .unwrap_or_else(|| table::of_status(status));
    let text = response
        .message
        .as_deref()
        .filter(|text| !text.is_empty())
        .or_else(|| info.and_then(|info| info.detail.as_deref()))
        .unwrap_or_else(|| status.as_str_name());
    let mut error = Error::new(kind, text).with_status(status.as_str_name());
    if let Some(conflict) = info
        .and_then(|info| info.conflict.as_ref())
        .and_then(from_wire::append_status)
    {
        if matches!(kind, ErrorKind::Conflict) {
            error = error.with_retry(Retry::After(conflict.remaining));
        }
        error = error.with_conflict(conflict);
    }
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_wire::om::{AppendErrorInfo, AppendStatus, WriterKind};
    use std::time::Duration;

    const PACKAGE: &str = "org.apache.hadoop.ozone.om.exceptions";

    #[test]
    fn a_leader_hint_is_read_from_the_text() {
        let class = format!("{PACKAGE}.OMNotLeaderException");
        let hinted = "OM:om1 is not the leader. Suggested leader is OM:om2[10.0.0.2:9862].";
        let unhinted = "OM:om1 is not the leader. Could not determine the leader node.";
        let om2 = |address: Option<&str>| Hint {
            id: "om2".to_owned(),
            address: address.map(str::to_owned),
        };
        assert!(matches!(
            exception(&class, hinted),
            Exception::NotLeader(Some(hint)) if hint == om2(Some("10.0.0.2:9862"))
        ));
        for (text, address) in [("OM:om2.", None), ("OM:om2[[::1]:5].", Some("[::1]:5"))] {
            assert_eq!(
                suggested_leader(&format!("no. Suggested leader is {text}")),
                Some(om2(address))
            );
        }
        assert!(matches!(
            exception(&class, unhinted),
            Exception::NotLeader(None)
        ));
        let over_grpc = format!("{class}: {hinted}");
        assert!(matches!(
            description(&over_grpc),
            Exception::NotLeader(Some(hint)) if hint == om2(Some("10.0.0.2:9862"))
        ));
    }

    #[test]
    fn other_exceptions_end_the_call_or_wait() {
        let not_ready = format!("{PACKAGE}.OMLeaderNotReadyException");
        assert!(matches!(exception(&not_ready, "x"), Exception::NotReady(_)));
        for (class, kind) in [
            (
                "org.apache.hadoop.security.AccessControlException",
                ErrorKind::PermissionDenied,
            ),
            (
                "org.apache.hadoop.ipc_.RPC$VersionMismatch",
                ErrorKind::Protocol,
            ),
            ("java.lang.NullPointerException", ErrorKind::Io),
            ("", ErrorKind::Io),
        ] {
            match exception(class, "why") {
                Exception::Refused(error) => {
                    assert_eq!(error.kind(), kind);
                    assert!(error.text().contains("why"));
                }
                other => panic!("{class}: {other:?}"),
            }
        }
        assert!(matches!(
            description("no class here: but words"),
            Exception::Refused(_)
        ));
    }

    fn answer(status: Status) -> OmResponse {
        OmResponse {
            status: status.into(),
            ..OmResponse::default()
        }
    }

    #[test]
    fn a_conflict_carries_the_owner_and_the_time_it_has() {
        let mut response = answer(Status::KeyUnderLeaseSoftLimitPeriod);
        response.append_error = Some(Box::new(AppendErrorInfo {
            code: Some(AppendCode::ConflictAppend.into()),
            conflict: Some(AppendStatus {
                writer_kind: Some(WriterKind::Append.into()),
                remaining_ms: Some(1500),
                owner: Some("ann@host".to_owned()),
                ..AppendStatus::default()
            }),
            detail: Some("held".to_owned()),
        }));
        let error = refusal(&response).unwrap();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.conflict().unwrap().owner, "ann@host");
        assert_eq!(error.retry(), Retry::After(Duration::from_millis(1500)));
        assert_eq!(error.status(), Some("KEY_UNDER_LEASE_SOFT_LIMIT_PERIOD"));
        assert_eq!(error.text(), "held");
    }

    #[test]
    fn ok_is_no_refusal_and_an_unknown_status_is_one() {
        assert!(refusal(&answer(Status::Ok)).is_none());
        let response = OmResponse {
            status: 4711,
            ..OmResponse::default()
        };
        assert_eq!(refusal(&response).unwrap().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn a_code_without_a_kind_of_its_own_leaves_the_status_to_decide() {
        let mut response = answer(Status::FileNotFound);
        response.append_error = Some(Box::new(AppendErrorInfo::default()));
        assert_eq!(refusal(&response).unwrap().kind(), ErrorKind::NotFound);
    }
}
