//! Why a request has no result, and the answer that says so: Ozone's status, our code, a text with path and request id.

use super::status::{Told, told};
use crate::consensus::ProposeError;
use crate::engine::NoHolder;
use crate::rpc::Raise;
use append_namespace::{Refusal, RefusalKind, RowsError};
use append_wire::om::{AppendCode, AppendErrorInfo, OmResponse, Status};

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The rules, or a check before them, refused.
    Refused(Refusal),
    /// Refused with a status that the rules do not use.
    Other {
        status: Status,
        code: Option<AppendCode>,
        detail: String,
    },
    /// The consensus has no answer.
    Undecided(ProposeError),
    /// No datanode can take a block. Nothing was proposed.
    NoHolder(NoHolder),
    /// The rows cannot be read.
    Broken(RowsError),
}

impl Failure {
    pub(super) fn refused(kind: RefusalKind, detail: impl Into<String>) -> Failure {
        Failure::Refused(Refusal::new(kind, detail))
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Failure {
        Failure::refused(RefusalKind::InvalidRequest, detail)
    }

    pub(super) fn unsupported(detail: impl Into<String>) -> Failure {
        Failure::refused(RefusalKind::Unsupported, detail)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Failure {
        Failure::Broken(error)
    }
}

impl From<NoHolder> for Failure {
    fn from(error: NoHolder) -> Failure {
        Failure::NoHolder(error)
    }
}

impl From<ProposeError> for Failure {
    fn from(error: ProposeError) -> Failure {
        Failure::Undecided(error)
    }
}

/// What a failed request is answered with.
pub(super) fn answer(
    failure: Failure,
    subject: &str,
    request_id: &str,
) -> Result<OmResponse, Raise> {
    let text = |detail: &str| in_context(detail, subject, request_id);
    match failure {
        Failure::Refused(refusal) => match told(refusal.kind()) {
            Told::Answer(status, code) => {
                let info = code.map(|code| AppendErrorInfo {
                    code: Some(code.into()),
                    conflict: refusal
                        .conflict
                        .as_deref()
                        .map(super::render::append_status),
                    detail: Some(refusal.detail.clone()),
                });
                Ok(response(status, info, text(&refusal.detail)))
            }
            Told::ComeAgain => Err(Raise::NotReady(text(&refusal.detail))),
        },
        Failure::Other {
            status,
            code,
            detail,
        } => {
            let info = code.map(|code| AppendErrorInfo {
                code: Some(code.into()),
                conflict: None,
                detail: Some(detail.clone()),
            });
            Ok(response(status, info, text(&detail)))
        }
        Failure::NoHolder(error) => Err(Raise::NotReady(text(&error.to_string()))),
        // Clients parse this text: nothing is added to it.
        Failure::Undecided(error @ ProposeError::NotLeader(_)) => {
            Err(Raise::NotLeader(error.to_string()))
        }
        Failure::Undecided(error @ (ProposeError::Busy | ProposeError::NotReady)) => {
            Err(Raise::NotReady(text(&error.to_string())))
        }
        Failure::Undecided(error @ ProposeError::TooLarge { .. }) => Ok(response(
            Status::InvalidRequest,
            None,
            text(&error.to_string()),
        )),
        Failure::Undecided(error @ ProposeError::NoSpace) => Ok(response(
            // What Ozone says when no block can be given for want of room.
            Status::KeyAllocationError,
            None,
            text(&error.to_string()),
        )),
        Failure::Undecided(error @ (ProposeError::Stopped | ProposeError::OutcomeUnknown)) => {
            Err(Raise::Disconnect(text(&error.to_string())))
        }
        Failure::Broken(error) => {
            tracing::error!(subject, request_id, %error, "a read failed");
            Ok(response(
                Status::InternalError,
                None,
                text("the server's rows cannot be read"),
            ))
        }
    }
}

fn response(status: Status, append_error: Option<AppendErrorInfo>, message: String) -> OmResponse {
    OmResponse {
        success: Some(false),
        message: Some(message),
        status: status.into(),
        append_error: append_error.map(Box::new),
        ..OmResponse::default()
    }
}

/// The text of an error: what, where if the detail does not say it, and which request.
fn in_context(detail: &str, subject: &str, request_id: &str) -> String {
    if subject.is_empty() || detail.contains(subject) {
        format!("{detail} [request {request_id}]")
    } else {
        format!("{detail}: {subject} [request {request_id}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use append_namespace::reply::AppendStatus as Writer;

    #[test]
    fn a_text_names_path_and_request_once() {
        assert_eq!(
            in_context("no such file", "/v/b/k", "r1"),
            "no such file: /v/b/k [request r1]"
        );
        assert_eq!(
            in_context("/v/b/k is gone", "/v/b/k", "r1"),
            "/v/b/k is gone [request r1]"
        );
        assert_eq!(in_context("busy", "", "r1"), "busy [request r1]");
    }

    #[test]
    fn what_was_not_done_is_asked_again_and_what_is_unknown_loses_its_connection() {
        let raised = |failure| answer(failure, "/v", "r").unwrap_err();
        assert!(matches!(
            raised(Failure::Undecided(ProposeError::Busy)),
            Raise::NotReady(_)
        ));
        assert!(matches!(
            raised(Failure::NoHolder(NoHolder { registered: 1 })),
            Raise::NotReady(_)
        ));
        assert!(matches!(
            raised(Failure::refused(RefusalKind::RetryLater, "full")),
            Raise::NotReady(_)
        ));
        assert!(matches!(
            raised(Failure::Undecided(ProposeError::OutcomeUnknown)),
            Raise::Disconnect(_)
        ));
        assert!(matches!(
            raised(Failure::Undecided(ProposeError::Stopped)),
            Raise::Disconnect(_)
        ));
    }

    #[test]
    fn a_conflict_carries_its_status_code_and_the_session_in_the_way() {
        let mut refusal = Refusal::new(RefusalKind::ConflictAppend, "owned");
        refusal.conflict = Some(Box::new(Writer {
            renewals: 3,
            ..Writer::default()
        }));
        let response = answer(Failure::Refused(refusal), "/v/b/k", "r").unwrap();
        assert_eq!(response.status(), Status::KeyUnderLeaseSoftLimitPeriod);
        assert!(!response.success());
        let info = response.append_error.unwrap();
        assert_eq!(info.code(), AppendCode::ConflictAppend);
        assert_eq!(info.conflict.unwrap().renewals, Some(3));
    }
}
